"""The exercises of *tokens*: byte pair encoding, step by step."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from exercises.judge import exercise, prediction
from helpers.rooms.tokens import BPETokenizer, Pair, merge


def cuts() -> Iterator[tuple[list[str], Pair]]:
    for tokens in ("ab", "ba", "abc", "abab", "cabbab", "aa", "aaa", "aaaaa"):
        yield list(tokens), ("a", "a" if tokens.startswith("aa") else "b")
    yield ["th", "e", " ", "th", "e", "th"], ("th", "e")
    yield ["t", "he", "t", "h"], ("t", "h")
    yield [], ("a", "b")


def everywhere(tokens: list[str], pair: Pair) -> list[str]:
    """Also overlapping."""
    merged = []
    for i, token in enumerate(tokens):
        starts, ends = tuple(tokens[i : i + 2]) == pair, i and tuple(tokens[i - 1 : i + 1]) == pair
        if starts or not ends:
            merged.append("".join(pair) if starts else token)
    return merged


def first_only(tokens: list[str], pair: Pair) -> list[str]:
    for i, here in enumerate(pairwise(tokens)):
        if here == pair:
            return [*tokens[:i], "".join(pair), *tokens[i + 2 :]]
    return tokens


exercise(
    "15a",  # Stick them together
    lambda tokens, pair: merge(tokens, pair),
    cuts,
    mistakes={
        "of three equal tokens the middle one is used twice: a token that has been merged is gone": everywhere,
        "only the first pair is merged: go on to the end": first_only,
        "the pair is taken out, and nothing is put in its place": (
            lambda tokens, pair: [token for token in merge(tokens, pair) if token != "".join(pair)]
        ),
    },
)

# 4 nats a token of 2.5 letters, beside 1.8 nats a letter
prediction(
    "15b",  # Which is better?
    right=0.2,
    tolerance=0.02,
    mistakes={
        "a loss per token was compared with one per letter": 1.8 - 4,
        "the second one is better by that: how much lower is the loss of the first?": -0.2,
        "divide by the letters of a token instead of multiplying": 1.8 - 4 * 2.5,
    },
)

LEARNED = [("t", "h"), ("th", "e"), ("e", "r"), ("o", "the"), ("the", "r"), (" ", "o"), ("o", "t")]


def to_cut() -> Iterator[tuple[str, list[Pair]]]:
    for word in ("th", "the", "her", "there", "other", " other", "otter", "zzz", ""):
        yield word, LEARNED
    yield "there", LEARNED[:2]
    yield "there", []


def greedy(word: str, merges: list[Pair]) -> list[str]:
    """The longest token that fits, from the left."""
    known = {"".join(pair) for pair in merges}
    tokens = []
    while word:
        end = max([1, *(n for n in range(1, len(word) + 1) if word[:n] in known)])
        tokens.append(word[:end])
        word = word[end:]
    return tokens


def backwards(word: str, merges: list[Pair]) -> list[str]:
    tokens = list(word)
    for pair in reversed(merges):
        tokens = merge(tokens, pair)
    return tokens


exercise(
    "15c",  # Cut a word
    lambda word, merges: BPETokenizer((), merges).cut(word),
    to_cut,
    mistakes={
        "that is the longest token that fits, from the left: merge in the order in which pairs were learned": greedy,
        "the merge that was learned last comes first: begin with the first": backwards,
        "only the first merge is made: go on with the others": lambda word, merges: merge(word, (*merges, ("", ""))[0]),
    },
)


def learned(counts: dict[str, int], n: int, weighted: bool = True, again: bool = True) -> list[Pair]:
    """By the shortest loop."""
    cut = {word: list(word) for word in counts}
    merges: list[Pair] = []
    for _ in range(n):
        pairs: Counter[Pair] = Counter()
        for word, count in counts.items():
            for pair in pairwise(cut[word]):
                pairs[pair] += count if weighted else 1
        ranked = sorted(pairs, key=lambda pair: (pairs[pair], pair), reverse=True)
        if not again:
            return ranked[:n]
        merges.append(ranked[0])
        cut = {word: merge(tokens, ranked[0]) for word, tokens in cut.items()}
    return merges


def books() -> Iterator[tuple[dict[str, int], int]]:
    yield {"ab": 1}, 1
    yield {"the": 3, "to": 2}, 2
    yield {"the": 3, "other": 2, "moth": 9, "mother": 1}, 5
    yield {" lo": 5, " low": 2, " lowest": 6, " newer": 6, " wider": 3}, 8
    yield {"aaaa": 2, "aab": 1}, 3


exercise(
    "15d",  # The loop
    learned,
    books,
    mistakes={
        "each word counts once: a pair counts as often as its word": {"weighted": False},
        "pairs are counted once, at the beginning: after each merge there are new ones": {"again": False},
    },
)
