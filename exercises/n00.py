"""The exercises of notebook 00: why attention."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from exercises.judge import exercise, prediction

Dictionary = dict[str, str]


def word_for_word(words: list[str], dictionary: Dictionary) -> list[str]:
    return [dictionary.get(word, word) for word in words]


def sentences() -> Iterator[tuple[list[str], Dictionary]]:
    yield ["nein"], {}
    yield ["kannst", "du"], {"du": "you", "kannst": "can"}
    yield ["du", "und", "du"], {"du": "you"}
    yield ["zum", "Du", "ja"], {"zum": "to the", "du": "you", "ja": ""}
    yield ["a", "b", "c"], {"a": "b", "b": "c", "c": "a"}
    yield ["wir", "die", "Dienstag"], {"ir": "?", "die": "the", "d": "?"}
    yield [], {"du": "you"}


def replaced_in_turn(words: list[str], dictionary: Dictionary) -> list[str]:
    for word, translation in dictionary.items():
        words = [translation if other == word else other for other in words]
    return words


def parts_replaced(words: list[str], dictionary: Dictionary) -> list[str]:
    for word, translation in dictionary.items():
        words = [other.replace(word, translation) for other in words]
    return words


def sentence_replaced(words: list[str], dictionary: Dictionary) -> list[str]:
    sentence = " ".join(words)
    for word, translation in dictionary.items():
        sentence = sentence.replace(word, translation)
    return sentence.split()


exercise(
    "0a",
    word_for_word,
    sentences,
    mistakes={
        "it replaces parts of words: a word counts only as a whole": [
            parts_replaced,
            sentence_replaced,
        ],
        "it translates what it has translated already: look up each word once": replaced_in_turn,
        "a word that is translated as an empty text stays: ask whether the word is there, not what it gives": (
            lambda words, dictionary: [dictionary.get(word) or word for word in words]
        ),
    },
)


prediction(
    "0b",
    right=(128, 40 * 40),
    mistakes={
        "128 numbers for each letter are what the reader computes: only its last state is handed over": [
            (40 * 128, 40 * 40),
            (2 * 40 * 128, 40 * 40),
        ],
        "scores belong to pairs, one letter written and one letter read: EACH of the 40 looks at all 40": [
            (128, 40),
            (128, 2 * 40),
        ],
        "a score is one number for each pair of letters, however wide the vectors are": [
            (128, 40 * 40 * 128),
            (128, 40 * 128),
        ],
    },
)


def lengths_of_a_text() -> Iterator[tuple[float, int]]:
    yield from ((0.5, 1), (2.0, 3), (0.5, 4), (-0.9, 6), (-1.5, 3), (0.01, 2), (-1.0, 8), (1.1, 64))


exercise(
    "0c",
    lambda a, T: a ** (T - 1),
    lengths_of_a_text,
    mistakes={
        "between h_1 and h_T lie T - 1 steps, and each of them uses a once: count them": [
            lambda a, T: a**T,
            lambda a, T: a ** max(T - 2, 0),
        ],
        "each step multiplies by a; it doesn't add an a": [
            lambda a, T: a * (T - 1),
            lambda a, T: a * T,
            lambda a, T: 1 + a * (T - 1),
        ],
        "that is the effect of all inputs together: only x_1 is asked for": (
            lambda a, T: sum(a**step for step in range(T))
        ),
    },
)


exercise(
    "0d",
    lambda weights: weights.argmax(-1),
    "scores: T S",
    prepare=lambda scores: {"weights": (scores / 4).softmax(-1)},
    broken=(
        "for 3 words written and 6 read it should give 3 places. Count them",
        lambda weights: weights.argmax(dim=0),
    ),
    mistakes={
        "it finds one place in the whole table: each written word, each row, has its own": [
            lambda weights: weights.argmax(),
            lambda weights: weights.argmax() % weights.shape[1],
        ],
        "the average place is no place that is looked at: take that of the largest weight": (
            lambda weights: weights @ torch.arange(weights.shape[1], dtype=weights.dtype)
        ),
        "it finds the place that is looked at LEAST": lambda weights: weights.argmin(-1),
    },
)


def additive_scores(
    query: Tensor,
    keys: Tensor,
    W_query: Tensor,
    W_key: Tensor,
    v: Tensor,
    score: Callable[..., Tensor] = lambda q, k, v: torch.tanh(q + k) @ v,
) -> Tensor:
    return score(query @ W_query, keys @ W_key, v)


def with_small_matrices(**inputs: Tensor) -> dict[str, Any]:
    """So small that tanh bends, and doesn't only give 1 or -1."""
    return {name: x / 10 if name.startswith("W") else x for name, x in inputs.items()}


exercise(
    "0e",
    additive_scores,
    "query: D, keys: S D, W_query: D A, W_key: D A, v: A",
    prepare=with_small_matrices,
    scales=(100,),
    mistakes={
        "tanh is missing: without it the query adds the same to every score, and softmax doesn't notice": {
            "score": lambda q, k, v: (q + k) @ v
        },
        "first the sum, then tanh, and last the product with v": [
            {"score": lambda q, k, v: (torch.tanh(q) + torch.tanh(k)) @ v},
            {"score": lambda q, k, v: torch.tanh((q + k) @ v)},
        ],
        "v is missing: without it all numbers weigh the same": {
            "score": lambda q, k, v: torch.tanh(q + k).sum(-1)
        },
    },
)
