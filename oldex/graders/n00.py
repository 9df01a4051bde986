"""The exercises of notebook 00: why attention."""

from collections.abc import Callable

import torch
from torch import Tensor, randn

from exercises.judge import Answer, Pairs, exercise


def _replaced_in_turn(words: list[str], dictionary: dict[str, str]) -> list[str]:
    for word, translation in dictionary.items():
        words = [translation if other == word else other for other in words]
    return words


def _parts_replaced(words: list[str], dictionary: dict[str, str]) -> list[str]:
    for word, translation in dictionary.items():
        words = [other.replace(word, translation) for other in words]
    return words


def _sentence_replaced(words: list[str], dictionary: dict[str, str]) -> list[str]:
    sentence = " ".join(words)
    for word, translation in dictionary.items():
        sentence = sentence.replace(word, translation)
    return sentence.split()


def _first_occurrences(words: list[str], dictionary: dict[str, str]) -> list[str]:
    return [word if word in words[:i] else dictionary.get(word, word) for i, word in enumerate(words)]


@exercise(
    "0a",
    {
        "it loses the words that the dictionary doesn't have: they stay as they are": (
            lambda words, dictionary: [dictionary[word] for word in words if word in dictionary]
        ),
        "words that the dictionary doesn't have become None: dict.get takes a second argument": (
            lambda words, dictionary: [dictionary.get(word) for word in words]
        ),
        "it stumbles over the first word that the dictionary doesn't have": (
            lambda words, dictionary: [dictionary[word] for word in words]
        ),
        "it gives the words in reverse order": (
            lambda words, dictionary: [dictionary.get(word, word) for word in words[::-1]]
        ),
        "it replaces parts of words: a word counts only as a whole": [_parts_replaced, _sentence_replaced],
        "it translates what it has translated already: look up each word once": _replaced_in_turn,
        "it gives one text: it should give a list of words": (
            lambda words, dictionary: " ".join(dictionary.get(word, word) for word in words)
        ),
        "it goes through the dictionary: go through the words, in their order": (
            lambda words, dictionary: [dictionary[word] for word in dictionary if word in words]
        ),
        "it translates a word only where it occurs first": _first_occurrences,
        "a word that is translated as an empty text stays: ask whether the word is there, not what it gives": (
            lambda words, dictionary: [dictionary.get(word) or word for word in words]
        ),
        "it cuts a translation of several words into pieces": (
            lambda words, dictionary: " ".join(dictionary.get(word, word) for word in words).split()
        ),
        "it ignores capital letters, which make another word": (
            lambda words, dictionary: [dictionary.get(word.lower(), word) for word in words]
        ),
    },
)
def word_for_word(answer: Answer) -> Pairs:
    """answer(words, dictionary) -> the words looked up one by one, a word that is not there left as it is."""
    pairs = [
        (["kannst", "du", "mir"], {"mir": "me", "kannst": "can", "du": "you"}),
        (["du", "und", "du"], {"du": "you"}),
        (["wir", "die", "Dienstag"], {"ir": "?", "die": "the", "d": "?"}),  # parts of words
        (["a", "b", "c"], {"a": "b", "b": "c", "c": "a"}),
        (["zum", "Du", "ja"], {"zum": "to the", "du": "you", "ja": ""}),
        (["ich", "kann", "dir", "heute", "nicht", "helfen"], {"ich": "I", "nicht": "not", "helfen": "help"}),
        (["nein"], {}),
        ([], {"du": "you"}),
    ]
    for words, dictionary in pairs:
        yield answer(words, dictionary), [dictionary.get(word, word) for word in words]


@exercise(
    "0b",
    {
        "you have exchanged the two numbers: first what goes through the one vector, then the scores": (1600, 128),
        "128 numbers for each letter are what the reader computes; only its last state is handed over": [
            (40 * 128, ...),
            (2 * 40 * 128, ...),
        ],
        "40 is the number of letters; the vector is as wide as before, however many letters there are": (40, ...),
        "the reader's matrix has 128 × 128 numbers, but it is no message: it is the same for every string": (
            (128 * 128, ...)
        ),
        "the state is handed over as it is, 128 numbers; the writer's own state is not counted": (256, ...),
        "one score for each letter written: but each of them looks at EVERY letter read": (..., 40),
        "80 letters in all, but scores belong to pairs: one letter written and one letter read": (..., 80),
        "a score is one number for each pair of letters, however wide the vectors are": [
            (..., 1600 * 128),
            (..., 40 * 128),
        ],
        "the whole text has been read before the first letter is written: no pair is left out": [
            (..., 820),
            (..., 780),
        ],
        "letters written score letters read: not themselves, and not each other": [(..., 6400), (..., 3200)],
    },
)
def prediction(answer: Answer) -> Pairs:
    """answer = numbers that go through a state of 128, and scores, for 40 letters read and 40 written."""
    yield answer, (128, 40 * 40)


@exercise(
    "0c",
    {
        "a is used once too often: between the first state and the last lie T - 1 steps": lambda a, T: a**T,
        "a is used once too rarely: count the steps between h_1 and h_T": lambda a, T: a ** max(T - 2, 0),
        "each step multiplies by a; it doesn't add an a": [
            lambda a, T: a * (T - 1),
            lambda a, T: a * T,
            lambda a, T: 1 + a * (T - 1),
        ],
        "1 is the effect on h_1; each later step multiplies it by a": lambda a, T: 1,
        "a itself is the effect on h_2; later steps multiply by a again": lambda a, T: a,
        "the sign of a is lost: a negative a turns the effect round at every step": lambda a, T: abs(a) ** (T - 1),
        "that is the effect of all inputs together; only x_1 is asked for": lambda a, T: sum(a**k for k in range(T)),
        "that is the derivative with respect to a, not to x_1": lambda a, T: (T - 1) * a ** max(T - 2, 0),
        "that grows where it should shrink: the exponent has the wrong sign": lambda a, T: a ** (1 - T),
    },
)
def effect(answer: Answer) -> Pairs:
    """answer(a, T) -> the derivative of h_T with respect to x_1, where h_t = a * h_{t-1} + x_t."""
    for a, T in ((0.5, 1), (0.5, 4), (-0.9, 6), (-1.5, 3), (1.1, 64), (2.0, 11), (1e-2, 2), (-1.0, 8)):
        yield answer(a, T), a ** (T - 1)


def _broken_alignment(weights: Tensor) -> Tensor:
    return weights.argmax(dim=0)


@exercise(
    "0d",
    {
        "it finds the place that is looked at LEAST": lambda weights: weights.argmin(dim=-1),
        "it finds one place in the whole table: each written word, each row, has its own": [
            lambda weights: weights.argmax(),
            lambda weights: weights.argmax() % weights.shape[1],
        ],
        "it gives the largest weights themselves: their places are asked for": lambda weights: weights.amax(dim=-1),
        "it counts places from 1; Python counts from 0": lambda weights: weights.argmax(dim=-1) + 1,
        "the average place is no place that is looked at": (
            lambda weights: weights @ torch.arange(weights.shape[1], dtype=weights.dtype)
        ),
        "it gives word t the place t, whatever the weights say": lambda weights: torch.arange(len(weights)),
        "it keeps a dimension too many: (T,) is asked for, one number per written word": (
            lambda weights: weights.argmax(dim=-1, keepdim=True)
        ),
        "it marks the place in a table of zeros and ones: give its number": (
            lambda weights: (weights == weights.amax(dim=-1, keepdim=True)).long()
        ),
    },
    broken=("for 3 words written and 6 read it should give 3 places. Count them", _broken_alignment),
)
def alignment(answer: Answer) -> Pairs:
    """answer(weights (T, S)) -> for each written word t the place of the word read that it looked at most (T,)."""
    for T, S in ((3, 6), (5, 5), (6, 2), (1, 4), (4, 1), (40, 30)):
        weights = (3 * randn(T, S)).softmax(-1)
        yield answer(weights), weights.argmax(-1)


def _additive(score: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Answer:
    """A score of the projected query, the projected keys and v."""
    return lambda query, keys, W_query, W_key, v: score(query @ W_query, keys @ W_key, v)


_right_score = _additive(lambda q, k, v: torch.tanh(q + k) @ v)


@exercise(
    "0e",
    {
        "tanh is missing: without it the score is a sum of two separate parts": _additive(lambda q, k, v: (q + k) @ v),
        "tanh is taken of each part: add first, then take it of the sum": _additive(
            lambda q, k, v: (torch.tanh(q) + torch.tanh(k)) @ v
        ),
        "tanh comes last: it comes before the product with v": _additive(lambda q, k, v: torch.tanh((q + k) @ v)),
        "the two matrices are exchanged": (
            lambda query, keys, W_query, W_key, v: _right_score(query, keys, W_key, W_query, v)
        ),
        "v is missing: without it all numbers weigh the same": _additive(lambda q, k, v: torch.tanh(q + k).sum(-1)),
        "the products with v are not added up: a score is one number per key": _additive(
            lambda q, k, v: torch.tanh(q + k) * v
        ),
        "the parts are multiplied: additive attention adds them": _additive(lambda q, k, v: torch.tanh(q * k) @ v),
        "it gives weights: scores come before the softmax": _additive(
            lambda q, k, v: (torch.tanh(q + k) @ v).softmax(-1)
        ),
        "the query is left out, so every word looks at the same place": _additive(lambda q, k, v: torch.tanh(k) @ v),
        "that is another bend than tanh": [
            _additive(lambda q, k, v: torch.sigmoid(q + k) @ v),
            _additive(lambda q, k, v: torch.relu(q + k) @ v),
        ],
    },
)
def additive_scores(answer: Answer) -> Pairs:
    """answer(query (D,), keys (S, D), W_query, W_key (D, A), v (A,)) -> additive scores (S,)."""
    for S, D, A, size in ((5, 3, 4, 1), (1, 1, 1, 1), (3, 3, 3, 1), (2, 4, 1, 1), (4, 2, 3, 100)):
        query, keys, W_query, W_key, v = size * randn(D), size * randn(S, D), *randn(2, D, A), randn(A)
        yield answer(query, keys, W_query, W_key, v), _right_score(query, keys, W_query, W_key, v)
