"""Wrong and right answers to the exercises of *speedrun*, beside the mistakes of exercises/n13.py."""

import numpy as np
import torch

from exercises.n13 import left_out, neighbours, smoothed, together


def struck_out(c, n, kinds, d, lower):
    """The letters one by one: ours is 0, and the first of them is struck out."""
    others = [1 + i % max(kinds - 1, 1) for i in range(n - c)]
    rest = ([0] * c + others)[1:]
    if not rest:
        return lower
    return (max(rest.count(0) - d, 0) + d * len(set(rest)) * lower) / len(rest)


def neighbours_by_sets(tokens, V):
    before = {letter: set() for letter in range(V)}
    tokens = tokens.tolist()
    for i in range(1, len(tokens)):
        before[tokens[i]].add(tokens[i - 1])
    sizes = [len(before[letter]) for letter in range(V)]
    return [size / sum(sizes) for size in sizes]


WRONG = {
    "13a": [
        ("the two halves are exchanged", (3, 3, 4, 1)),
        ("number 2: look to the LEFT", [4, 3, 1, 3]),
        ("number 1: count the u", (0.16, 0.04, 0.12, 0.12)),
        ("4 things in a tuple", (4, 1)),
    ],
    "13b": [
        ("it raises ZeroDivisionError", lambda c, n, kinds, d, lower: (c - 1) / (n - 1)),
        ("it gives 0.24 where 0.3", lambda c, n, kinds, d, lower: (
            d * lower if n == 1 else left_out(c, n, kinds, d, lower))),
        ("it gives 0.6 where 0.15", lambda c, n, kinds, d, lower: (
            lower if c == 1 else left_out(c, n, kinds, d, lower))),
    ],
    "13c": [
        ("it gives [nan, nan]", lambda counts, lower, d: (
            ((counts - d).clamp(min=0) + d * (counts > 0).sum() * lower) / counts.sum())),
        ("adds up to 0.875", lambda *x: smoothed(*x, given_away=lambda counts, d: d)),
        ("it gives [1.181, -0.1811]", lambda counts, lower, d: (
            lower if not counts.any() else (counts - d + d * len(counts) * lower) / counts.sum())),
        ("changes its input `counts`", lambda counts, lower, d: counts.sub_(d).clamp_(min=0) + lower),
    ],
    "13d": [
        ("should add up to 1", lambda tokens, V: neighbours(tokens, V) / V),
        ("it gives [1] where [0, 1, 0]", lambda tokens, V: (
            shares := neighbours(tokens, V))[shares > 0]),
        ("for tokens = ", lambda tokens, V: (
            neighbours(tokens, V) if V < 1000 else neighbours(tokens.clamp(max=99), V))),
        ("changes its input `tokens`", lambda tokens, V: neighbours(tokens.add_(1), V + 1)),
    ],
    "13f": [
        ("a softmax is taken of `gates` first", lambda alone, counts, gates: (
            together(alone, counts, gates.softmax(-1)))),
        ("`alone` makes no difference", lambda alone, *x: together(0 * alone, *x)),
        ("the softmax is missing", lambda *x: together(*x, end=lambda x: x)),
        ("it gives [[1, 1]]", lambda *x: together(*x, end=lambda x: x.softmax(0))),
        ("not for large ones", lambda *x: together(*x, end=lambda x: x.exp() / x.exp().sum(-1, True))),
    ],
}  # fmt: skip
RIGHT = {
    "13a": [[4, 1, 3, 3], torch.tensor([4, 1, 3, 3]), np.array([4.0, 1.0, 3.0, 3.0])],
    "13b": [struck_out, lambda *x: [left_out(*x)]],
    "13c": [lambda counts, lower, d: smoothed(counts.double(), lower, d).tolist()],
    "13d": [neighbours_by_sets, lambda *x: neighbours(*x).numpy()],
    "13f": [lambda *x: together(*(each.double() for each in x)).numpy()],
}
