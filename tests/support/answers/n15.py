"""Answers to the exercises of *tokens*: wrong ones, with words of what is said, and right."""

from collections import Counter
from itertools import pairwise

from exercises import n15
from helpers.rooms.tokens import merge


def by_index(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        pairs = tuple(tokens[i : i + 2]) == tuple(pair)
        merged.append("".join(pair) if pairs else tokens[i])
        i += 2 if pairs else 1
    return merged


def in_order(word, merges):
    for pair in merges:
        word = merge(word, pair)
    return list(word)


def learned(counts, n):
    cut, merges = {word: tuple(word) for word in counts}, []
    while len(merges) < n:
        pairs = Counter()
        for word, tokens in cut.items():
            for a, b in pairwise(tokens):
                pairs[a, b] += counts[word]
        most = max(pairs.values())
        merges.append(max(pair for pair in pairs if pairs[pair] == most))
        cut = {word: by_index(tokens, merges[-1]) for word, tokens in cut.items()}
    return merges


WRONG = {
    "15a": [
        ("the middle one is used twice", n15.everywhere),
        ("only the first pair", n15.first_only),
        ("nothing is put in its place", lambda tokens, pair: [t for t in by_index(tokens, pair) if t != "".join(pair)]),
        ("is right", lambda tokens, pair: [token for token in tokens if token not in pair]),
    ],
    "15b": [
        ("per token was compared", -2.2),
        ("the second one is better", -0.2),
    ],
    "15c": [
        ("the longest token that fits", n15.greedy),
        ("learned last comes first", n15.backwards),
        ("only the first merge", lambda word, merges: merge(word, merges[0]) if merges else list(word)),
    ],
    "15d": [
        ("each word counts once", lambda counts, n: n15.learned(counts, n, weighted=False)),
        ("counted once, at the beginning", lambda counts, n: n15.learned(counts, n, again=False)),
    ],
}
RIGHT = {
    "15a": [by_index],
    "15b": [0.2, 0.201],
    "15c": [in_order],
    "15d": [learned],
}
