"""The exercises of *speedrun*: a speedrun, and how far counting gets."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, tensor

from exercises.judge import Asked, exercise, prediction
from exercises.properties import rows_add_up, words

Inputs = Iterator[tuple[Any, ...]]


prediction(
    "13a",  # Two ways to count
    right=(4, 1, 3, 3),
    hints=(
        "count the u of all four words",
        "look to the LEFT of each u, and count how many DIFFERENT letters stand there",
        "count the e of all four words",
        "look to the LEFT of each e: a letter may stand after itself, and is then one of those",
    ),
)


def left_out(
    c: int,
    n: int,
    kinds: int,
    d: float,
    lower: float,
    rest: Callable[..., tuple] = lambda c, n, kinds: (c - 1, n - 1, kinds - (c == 1)),
    discounted: Callable[[int, float], float] = lambda c, d: max(c - d, 0),
) -> float:
    """`rest` is what is left of the three counts, and `discounted` what the letter's own keeps of it."""
    if n == 1:
        return lower
    c, n, kinds = rest(c, n, kinds)
    return (discounted(c, d) + d * kinds * lower) / n


exercise(
    "13b",  # As if it weren't there
    left_out,
    lambda: [
        (1, 1, 1, 0.8, 0.3),
        (2, 2, 1, 0.7, 0.2),
        (1, 2, 2, 0.25, 0.6),
        (3, 4, 2, 0.1, 0.05),
        (5, 12, 4, 0.75, 0.1),
        (1, 9, 3, 0.5, 0.4),
        (400, 1000, 20, 0.95, 0.7),
    ],
    mistakes={
        "the place itself still counts: without it, c and n are one less, always": {
            "rest": lambda c, n, kinds: (c, n, kinds)
        },
        "one kind fewer is left where c was 1, and only there": {"rest": lambda c, n, kinds: (c - 1, n - 1, kinds)},
        "a count of 0 has nothing to give away: its own part is 0, not below": {"discounted": lambda c, d: c - d},
    },
)


def smoothed(
    counts: Tensor,
    lower: Tensor,
    d: float,
    given_away: Callable[[Tensor, float], Any] = lambda counts, d: d * (counts > 0).sum(),
) -> Tensor:
    """`given_away` is what all letters give away together."""
    if not counts.any():
        return lower
    return ((counts - d).clamp(min=0) + given_away(counts, d) * lower) / counts.sum()


def some_counts() -> Inputs:
    for counts, d in (
        ([0, 0], 0.5),
        ([2, 0], 0.5),
        ([3, 0, 1], 0.5),
        ([2, 5, 1], 0.25),
        ([3, 0, 1, 0, 8], 0.75),
        ([0, 0, 40, 7, 0, 1, 1, 2, 0, 300], 0.95),
        ([0, 0, 0, 0, 0, 0], 0.1),
    ):
        yield tensor(counts).float(), words(len(counts)).softmax(0), d


def broken_smoothed(counts: Tensor, lower: Tensor, d: float) -> Tensor:
    return (counts - d).clamp(min=0) / counts.sum() + d / counts.sum() * lower


@exercise(
    "13c",  # Shares that get lost
    smoothed,
    some_counts,
    broken=(
        "the shares don't add up to 1. Who gave something away, and who got it?",
        broken_smoothed,
    ),
    mistakes={
        "dividing by the sum hides the hole: what is given away goes to `lower`, not back to those who gave": (
            lambda *x: F.normalize(broken_smoothed(*x), p=1, dim=0)
        ),
        "d for each DIFFERENT letter that was seen: not for each time, and not for letters never seen": {
            "given_away": lambda counts, d: d * len(counts)
        },
        "letters that were seen get their part of `lower`, too": (
            lambda counts, lower, d: smoothed(counts, lower * (counts == 0), d) if counts.any() else lower
        ),
    },
)
def _(answer: Asked) -> None:
    rows_add_up(answer)


def neighbours(tokens: Tensor, V: int) -> Tensor:
    pairs = torch.stack([tokens[:-1], tokens[1:]], dim=1).unique(dim=0)
    return pairs[:, 1].bincount(minlength=V) / len(pairs)


def texts() -> Inputs:
    yield tensor([1, 1, 0]), 2
    yield tensor([0, 1]), 3
    yield tensor([2, 1, 2, 1, 1]), 3
    yield tensor([3, 0, 1, 0, 2]), 5
    generator = torch.Generator().manual_seed(0)
    for N, V in ((7, 2), (12, 4), (60, 9), (30, 50), (40, 3000)):
        yield (V * torch.rand(N, generator=generator) ** 2).long(), V  # some letters are frequent


exercise(
    "13d",  # Known by its neighbours
    neighbours,
    texts,
    mistakes={
        "that is how often each letter occurs: a pair that comes again counts once": (
            lambda tokens, V: tokens.bincount(minlength=V) / len(tokens)
        ),
        "that is how many letters FOLLOW it: those before it are asked for": (
            lambda tokens, V: neighbours(tokens.flip(0), V)
        ),
        "the first token stands after none: the text's end is no letter before it": (
            lambda tokens, V: neighbours(torch.cat([tokens[-1:], tokens]), V)
        ),
    },
)


def over_letters(x: Tensor) -> Tensor:
    return x.softmax(-1)


def as_it_is(x: Tensor) -> Tensor:
    return x


def together(
    alone: Tensor,
    counts: Tensor,
    gates: Tensor,
    own: Callable[[Tensor], Tensor] = as_it_is,
    opinions: Callable[[Tensor], Tensor] = torch.log,
    weights: Callable[[Tensor], Tensor] = as_it_is,
    end: Callable[[Tensor], Tensor] = over_letters,
) -> Tensor:
    experts = torch.cat([own(alone)[:, None], opinions(counts)], 1)
    return end((weights(gates)[..., None] * experts).sum(1))


exercise(
    "13f",  # Together
    together,
    "alone: B V, counts: B L V, gates: B 1+L",
    prepare=lambda alone, counts, gates: {
        "alone": alone,
        "counts": counts.softmax(-1),
        "gates": gates,
    },
    scales=(200,),
    mistakes={
        "it adds up probabilities, as a mixture does: in a product it is logarithms that are added": {
            "own": over_letters,
            "opinions": as_it_is,
            "end": as_it_is,
        },
        "logits are logarithms already: the network's go in as they are": {"own": over_letters},
        "each opinion has a gate of its own: the first is the network's, the others are the counts'": {
            "weights": torch.ones_like
        },
    },
)
