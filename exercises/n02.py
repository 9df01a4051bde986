"""The exercises of notebook 02: softmax."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from exercises.attending import SOFTMAX, loose_attention, root_of_D, shares
from exercises.judge import Asked, exercise, prediction
from exercises.properties import rows_add_up


def softmax(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


def shifted(shift: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Softmax as one writes it down, with this taken away from the scores first."""
    return lambda scores: shares((scores - shift(scores)).exp())


def scores_of_any_shape() -> Iterator[tuple[Tensor]]:
    generator = torch.Generator().manual_seed(0)
    yield (torch.tensor([3.0]),)
    yield (torch.tensor([2.0, -1]),)
    yield (torch.tensor([[1.0, 2, 0], [4, -3, 1]]),)
    for shape in ((3, 2), (2, 2), (2, 3, 4), (3, 3, 3), (2, 1, 2, 3)):
        yield (torch.randn(shape, generator=generator),)
    yield (torch.tensor([100.0, 102]),)
    yield (torch.tensor([-1000.0, -1001]),)
    yield (torch.tensor([-1000.0, 1000]),)
    yield (torch.tensor([1000.0, -1000, 998]),)
    yield (torch.tensor([[1000.0, -1000, 1], [-1001, -1000, -1001]]),)


@exercise(
    "2a",  # A softmax that survives
    softmax,
    scores_of_any_shape,
    mistakes={
        "large scores give NaN: take the largest score of each row away first": (shifted(torch.zeros_like)),
        "the mean, or the largest of all, is not enough for every row: take away each row's own largest": (
            shifted(torch.max)
        ),
        "it cuts large scores off, which changes their weights": (lambda scores: shares(scores.clamp(-50, 50).exp())),
        "the scores themselves are divided by their sum: take e to the power of each first": shares,
        "it divides by the sum of all rows: each row is to add up to 1, so sum along the last dimension": (
            lambda scores: (scores - scores.max()).exp() / (scores - scores.max()).exp().sum()
        ),
    },
)
def _(answer: Asked) -> None:
    rows_add_up(answer)


def mixed_values(queries: Tensor, keys: Tensor, values: Tensor, **options: Any) -> Tensor:
    return loose_attention(queries, keys, values, **{"divisor": lambda *_: 1} | options)[0]


exercise(
    "2b",  # Mix the values
    mixed_values,
    "queries: ... T D, keys: ... S D, values: ... S E",
    scales=(300,),
    mistakes={
        "it scales the scores: in this notebook there is no √D yet": {"divisor": root_of_D},
        "there is no softmax: the scores themselves mix the values": {"normed": lambda scores, dim: scores},
        "it takes only the value with the best score: a mixture is asked for": {
            "normed": lambda scores, dim: (scores == scores.amax(dim, keepdim=True)).to(scores)
        },
    }
    | SOFTMAX,
)


def log_odds(share: float) -> float:
    return math.log(share / (1 - share))


ratios = torch.tensor([1, 2, 5])  # e to the power of each score

prediction(
    "2d",  # Colder
    right=ratios**2 / 30,
    tolerance=0.006,  # two decimals will do
    mistakes={
        "that is the temperature 1: to divide the scores by one half is to double them": (ratios / ratios.sum()),
        "2 ln 5 is ln 25, not ln 10: to double an exponent is to square": (torch.tensor([1, 4, 10]) / 15),
    },
)


exercise(
    "2e",  # It worked on one table
    softmax,
    "scores: B T S",
    scales=(300,),
    broken=(
        "each row of a sequence's table should add up to 1. What do the rows add up to, and the columns?",
        lambda scores: scores.softmax(dim=1),
    ),
)


def crowds() -> Iterator[tuple[int, float]]:
    yield from ((2, 0.9), (3, 0.5), (2, 0.501), (10, 0.9), (7, 0.2), (100, 0.02))
    yield from ((1000, 0.999), (50_257, 0.25), (1_000_000, 0.99))


exercise(
    "2f",  # One voice in a crowd
    lambda n, share: math.log(share / (1 - share) * (n - 1)),
    crowds,
    mistakes={
        "that compares it with all others together: ONE of them has the weight (1 - share) / (n - 1)": (
            lambda n, share: log_odds(share)
        ),
        "the others together get 1 - share, not 1: what one word wins they lose": (
            lambda n, share: math.log(share * (n - 1))
        ),
    },
)


prediction(
    "2g",  # Change places
    right=(2, 0),
    hints=(
        "row t belongs to the word at place t: two places hold another word than before",
        "a sum does not know the order of its terms: who asks the same of the same five words gets the same row",
    ),
)


prediction(
    "2h",  # Beyond the fence?
    right="d",
    mistakes={
        "a lies on the fence: there the third word's weight would be 0, and an exponential never is": "ad",
        "c is a word itself: both others would need a weight of 0, and an exponential never is": "cd",
        "a and c lie on the fence: a weight would be 0 there, and an exponential never is": "acd",
        "b lies outside: a mixture never leaves the fence": "bd",
        "b lies outside, and a on the fence, where a weight would be 0": "abd",
        "b lies outside, and a and c on the fence, where a weight would be 0": "abcd",
    },
)


prediction(
    "2i",  # How far to roll
    right=(1.4, 0.5, 1.0),
    hints=(
        "the slope at 1 is 2 · (1 - 3) = -4; the knob goes against it, by the rate times the slope",
        "one step from 1 must be 2 long, and the slope is -4",
        "it must land as far beyond 3 as it was before it: at 5",
    ),
)


Error = Callable[[Tensor], Tensor]  # of the knobs


def bowl(knobs: Tensor) -> Tensor:
    """a bowl whose bottom is at 3, 2, 1"""  # as messages name it
    away = knobs - torch.tensor([3.0, 2.0, 1.0])[: len(knobs)]
    return (away**2).sum() + away.sum() ** 2  # what is best for one knob depends on the others


def roll(error: Error, knobs: Tensor, rate: float, steps: int) -> Tensor:
    for _ in range(steps):
        knobs = knobs - rate * torch.func.grad(error)(knobs)
    return knobs


def one_after_the_other(error: Error, knobs: Tensor, rate: float, steps: int) -> Tensor:
    knobs = knobs.clone()
    for _ in range(steps):
        for i in range(len(knobs)):
            knobs[i] -= rate * torch.func.grad(error)(knobs)[i]
    return knobs


def bowls() -> Iterator[tuple[Error, Tensor, float, int]]:
    for n, rate, steps in ((1, 0.1, 1), (2, 0.1, 1), (3, 0.05, 2), (3, 0.1, 5)):
        yield bowl, torch.zeros(n, dtype=torch.double), rate, steps


exercise(
    "2j",  # Feel your way down
    roll,
    bowls,
    tolerance=0.005,  # a slope felt by hand is nearly the slope
    mistakes={
        "it goes uphill: the step is AGAINST the slope": lambda error, knobs, rate, steps: roll(
            error, knobs, -rate, steps
        ),
        "a knob is turned before the other slopes are felt: feel all of them first, where all knobs still stand": (
            one_after_the_other
        ),
        "it takes one step, whatever `steps` says": lambda error, knobs, rate, steps: roll(error, knobs, rate, 1),
    },
)
