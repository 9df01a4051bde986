"""The exercises of *what today's models changed*."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises import compare
from exercises.judge import WrongError, exercise, prediction
from exercises.properties import words

CACHE = 2 * 24 * 8192 * 2048 * 2  # keys and values, layers, tokens, width, bytes

prediction(
    "12a",
    right=(CACHE, CACHE // 4),
    tolerance=0.01,
    mistakes={
        "it is bytes that are asked for, all of them": [
            (CACHE / unit, CACHE / 4 / unit) for unit in (1e9, 1e6, 2**30, 2**20)
        ],
        "each layer has a cache of its own, and so has each head: 24 times 16 times 128 numbers": [
            (CACHE / 24, CACHE / 4 / 24),
            (CACHE / 16, CACHE / 16),
            (CACHE / 16, CACHE / 4 / 16),
        ],
        "both keys and values have four heads of 128 numbers: nothing of the other twelve is kept": [
            (CACHE, CACHE),
            (CACHE, CACHE * 5 / 8),
        ],
    },
)


def across(q: Tensor, k: Tensor) -> Tensor:
    return q[0] * k[1] - q[1] * k[0]


def score(
    q: Tensor, k: Tensor, i: int, j: int, across: Callable[[Tensor, Tensor], Tensor] = across
) -> Tensor:
    return (q @ k) * math.cos(i - j) + across(q, k) * math.sin(i - j)


def turned(x: Tensor, place: int) -> Tensor:
    angle = torch.tensor(float(place))
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)
    return turn @ x


def places() -> Iterator[tuple[Tensor, Tensor, int, int]]:
    far = 2**24
    pairs = ((0, 0), (1, 0), (0, 1), (3, 1), (2, 9), (far + 3, far + 1), (2 * far + 1, 2 * far + 6))
    for seed, (i, j) in enumerate(pairs):
        q, k = words(2, 2, seed=seed).round(decimals=1)
        yield q, k, i, j


@exercise(
    "12b",
    score,
    places,
    mistakes={
        "at places in the millions float32 can't tell neighbours apart: compute with the distance, which is small": (
            lambda q, k, i, j: turned(q, i) @ turned(k, j)
        ),
        "the sign before the sine is wrong: try a query at place 1 and a key at place 0": {
            "across": lambda q, k: -across(q, k)
        },
        "in the cross term one product is taken from the other": {
            "across": lambda q, k: q[0] * k[1] + q[1] * k[0]
        },
    },
)
def _(answer: Any) -> None:
    for case, before in answer.results():
        q, k, i, j = case.inputs
        if not compare.same(answer(q, k, i + 1, j + 1), before):
            raise WrongError(
                "when both places move on by one, the score changes: the distance alone counts"
            )


def table(T: int, seen: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """(T, T), by a rule for the query's place (T, 1) and the key's place (T,)."""
    return seen(torch.arange(T)[:, None], torch.arange(T))


exercise(
    "12c",
    lambda T, W: table(T, lambda i, j: (j <= i) & (i - j < W)),
    lambda: ((1, 1), (2, 1), (3, 1), (3, 2), (3, 8), (4, 2), (5, 3), (4, 4), (8, 2), (7, 5)),
    broken=(
        "a loss too good to be true. Print your table for T = 4: what does the first token see?",
        lambda T, W: table(T, lambda i, j: i - j < W),
    ),
    mistakes={
        "the future is hidden, but the window is gone": lambda T, W: table(T, lambda i, j: j <= i),
        "it still sees W - 1 tokens of the future": (
            lambda T, W: table(T, lambda i, j: (i - j).abs() < W)
        ),
        "those are blocks with walls between them: the window slides along": (
            lambda T, W: table(T, lambda i, j: (j <= i) & (i // W == j // W))
        ),
    },
)


def gated(x: Tensor, W: Tensor, V: Tensor, gate: Callable[[Tensor], Tensor] = F.silu) -> Tensor:
    return gate(x @ W) * (x @ V)


exercise(
    "12d",
    gated,
    "x: B T C, W: C F, V: C F",
    scales=(1000,),
    mistakes={
        "that is GLU, whose gate is the sigmoid alone: silu(a) is a times it": {
            "gate": torch.sigmoid
        },
        "that is another gate: silu(a) is a times sigmoid(a), which is 1 / (1 + e^-a)": [
            {"gate": F.relu},
            {"gate": F.gelu},
            {"gate": lambda a: a * torch.sigmoid(-a)},
        ],
        "large numbers give NaN: e^a overflows, so take torch.sigmoid or 1 / (1 + e^-a)": {
            "gate": lambda a: a * a.exp() / (1 + a.exp())
        },
    },
)


def linear(
    query: Tensor, key: Tensor, value: Tensor, seen: Callable[[Tensor], Tensor] = torch.tril
) -> Tensor:
    """All scores at once, and those of the future 0: the loop gives the same."""
    return seen(query @ key.mT) @ value


def with_outer_turned_round(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    S, rows = torch.zeros(key.shape[1], value.shape[1]), []
    for q, k, v in zip(query, key, value, strict=True):
        S = S + torch.outer(v, k)
        rows.append(q @ S)
    return torch.stack(rows)


@exercise(
    "12e",
    linear,
    "query: T D, key: T D, value: T E",
    mistakes={
        "the state is read before the token has entered it: a token sees itself, too": {
            "seen": lambda scores: scores.tril(-1)
        },
        "every row knows the whole text: read the state in the loop, when it holds the tokens up to t": {
            "seen": lambda scores: scores
        },
        "state and query don't fit: q @ S wants torch.outer(k, v), and S @ q wants torch.outer(v, k)": [
            with_outer_turned_round,
            lambda query, key, value: linear(query, value, key),  # S @ q with torch.outer(k, v)
        ],
    },
)
def _(answer: Any) -> None:
    for case in answer.cases:
        query, key, value = case.inputs
        if not compare.same(answer(2 * query, key, value), answer(query, key, 2 * value)):
            raise WrongError(
                "a query twice as long should find twice as much: there is no softmax, and nothing is divided"
            )
