"""The exercises of *what today's models changed*."""

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.judge import exercise
from exercises.properties import words


def across(q: Tensor, k: Tensor) -> Tensor:
    return q[0] * k[1] - q[1] * k[0]


def score(q: Tensor, k: Tensor, i: int, j: int, across: Callable[[Tensor, Tensor], Tensor] = across) -> Tensor:
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


exercise(
    "12b",  # Only the distance
    score,
    places,
    mistakes={
        "at places in the millions float32 can't tell neighbours apart: compute with the distance, which is small": (
            lambda q, k, i, j: turned(q, i) @ turned(k, j)
        ),
        "the sign before the sine is wrong: try a query at place 1 and a key at place 0": {
            "across": lambda q, k: -across(q, k)
        },
        "in the cross term one product is taken from the other": {"across": lambda q, k: q[0] * k[1] + q[1] * k[0]},
    },
)


def table(T: int, seen: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """(T, T), by a rule for the query's place (T, 1) and the key's place (T,)."""
    return seen(torch.arange(T)[:, None], torch.arange(T))


exercise(
    "12c",  # Too good to be true
    lambda T, W: table(T, lambda i, j: (j <= i) & (i - j < W)),
    lambda: ((1, 1), (2, 1), (3, 1), (3, 2), (3, 8), (4, 2), (5, 3), (4, 4), (8, 2), (70, 5)),
    broken=(
        "a loss too good to be true. Print your table for T = 4: what does the first token see?",
        lambda T, W: table(T, lambda i, j: i - j < W),
    ),
    mistakes={
        "the future is hidden, but the window is gone": lambda T, W: table(T, lambda i, j: j <= i),
        "it still sees W - 1 tokens of the future": (lambda T, W: table(T, lambda i, j: (i - j).abs() < W)),
        "those are blocks with walls between them: the window slides along": (
            lambda T, W: table(T, lambda i, j: (j <= i) & (i // W == j // W))
        ),
    },
)


def gated(x: Tensor, W: Tensor, V: Tensor, gate: Callable[[Tensor], Tensor] = F.silu) -> Tensor:
    return gate(x @ W) * (x @ V)


exercise(
    "12d",  # A gate
    gated,
    "x: B T C, W: C F, V: C F",
    scales=(1000,),
    mistakes={
        "that is GLU, whose gate is the sigmoid alone: silu(a) is a times it": {"gate": torch.sigmoid},
        "that is another gate: silu(a) is a times sigmoid(a), which is 1 / (1 + e^-a)": {"gate": F.relu},
        "large numbers give NaN: e^a overflows, so take torch.sigmoid or 1 / (1 + e^-a)": {
            "gate": lambda a: a * a.exp() / (1 + a.exp())
        },
    },
)


def linear(query: Tensor, key: Tensor, value: Tensor, mask: Callable[[Tensor], Tensor] = torch.tril) -> Tensor:
    """All scores at once, and those of the future 0: the loop gives the same."""
    return mask(query @ key.mT) @ value


exercise(
    "12e",  # One state for all
    linear,
    "query: T D, key: T D, value: T E",
    mistakes={
        "the state is read before the token has entered it: a token sees itself, too": {
            "mask": lambda scores: scores.tril(-1)
        },
        "every row knows the whole text: read the state in the loop, when it holds the tokens up to t": {
            "mask": lambda scores: scores
        },
    },
)
