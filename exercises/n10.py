"""The exercises of *what matters*: experiments that would pass review."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from exercises.judge import exercise, prediction
from exercises.properties import words

prediction(
    "10a",  # Twenty changes that do nothing
    right=1 - 0.95**20,
    tolerance=0.005,
    mistakes={
        "that is the chance for one change: there are twenty": 0.05,
        "1 is how many are reported on average: chances don't add up, or thirty changes would have one of 1.5": 1,
        "that is the chance of exactly one: two and more count, too": 20 * 0.05 * 0.95**19,
    },
)


def error(x: Tensor) -> Tensor:
    """The standard error of the mean of x (S,)."""
    return x.std() / len(x) ** 0.5


def errors(with_change: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    return error(with_change - whole), torch.hypot(error(with_change), error(whole))


def losses_of_pairs() -> Iterator[tuple[Tensor, Tensor]]:
    yield torch.tensor([2.0, 4.0]), torch.tensor([1.0, 5.0])
    yield torch.tensor([3.0, 1.0, 2.0]), torch.tensor([1.0, 6.0, 2.0])
    for S, shared in ((4, 0.3), (8, 0.1), (12, -0.2)):
        luck, own, other = words(3, S, seed=S)
        yield 2.1 + shared * luck + 0.05 * own, 2 + 0.2 * luck + 0.1 * other


exercise(
    "10b",  # Why pairs?
    errors,
    losses_of_pairs,
    gives="paired error, unrelated error",
    mistakes={
        "that is how far single runs scatter: a mean of S scatters less, by the root of S": (
            lambda with_change, whole: (
                (with_change - whole).std(),
                torch.hypot(with_change.std(), whole.std()),
            )
        ),
        "what both share makes their difference scatter LESS: for the first, subtract seed by seed": (
            lambda with_change, whole: (errors(with_change, whole)[1],) * 2
        ),
        "errors don't add up, their squares do": (
            lambda with_change, whole: (
                error(with_change - whole),
                error(with_change) + error(whole),
            )
        ),
    },
)


def best_rate(losses: dict[float, Tensor], of: Callable[[Tensor], Any] = torch.mean, nan: float = math.inf) -> float:
    """The rate whose losses, of which NaN has become `nan`, have the lowest mean, or `of`."""
    return min(losses, key=lambda rate: of(losses[rate].masked_fill(losses[rate].isnan(), nan)))


def luckiest_rate(losses: dict[float, Tensor]) -> float | None:
    best, lowest = None, float("inf")
    for rate, runs in losses.items():
        if runs.min() < lowest:
            best, lowest = rate, runs.min()
    return best


def losses_of_rates() -> Iterator[tuple[dict[float, Tensor]]]:
    nan = math.nan
    for losses in (
        {0.5: [2.0]},
        {0.1: [2.0, 2.1], 0.3: [1.9, 2.6]},
        {0.1: [nan, 1.5], 0.3: [2.0, 2.1]},  # the rest of the runs would win,
        {0.3: [nan, 2.5], 0.1: [2.0, 2.1]},  # would win if NaN were 0,
        {0.1: [2.0, 2.1], 0.3: [nan, 4.9]},  # and wouldn't
        {0.1: [2.0, 2.1, 2.0], 0.3: [2.5, 2.6]},
        {0.1: [2.0, 2.0, 2.9], 0.3: [2.5, 2.6, 2.4]},
        {0.1: [2.0, 2.0, 3.2], 0.3: [2.3, 2.2, 2.1]},
        {0.1: [2.2, 2.3], 0.3: [2.4, 2.0], 0.9: [nan, nan]},
        {0.1: [2.0, 2.1, nan], 0.3: [2.5, 2.6]},  # NaN isn't always the first,
        {0.1: [2.0, 2.0, 3.5], 0.3: [2.3, 2.4]},  # and every seed has a say
        {0.1: [1e6], 0.3: [nan, 1.0]},
    ):
        yield ({rate: torch.tensor(runs) for rate, runs in losses.items()},)
    yield ({rate: 2 + rate + 3 * rate * words(40, seed=1) for rate in (0.1, 0.2, 0.4)},)


exercise(
    "10e",  # The luckiest run
    best_rate,
    losses_of_rates,
    broken=(
        "the more seeds it gets, the worse it chooses. How many of a rate's runs have a say?",
        luckiest_rate,
    ),
    mistakes={
        "one lucky run still decides: take the mean of a rate's runs": {"of": torch.min},
        "a rate that diverged wins, since no number is smaller than NaN: it counts as infinitely bad": (
            lambda losses: min(losses, key=lambda rate: losses[rate].mean())
        ),
        "runs that diverged are left out, as if they had not been: such a rate is infinitely bad": {
            "of": torch.nanmean,
            "nan": math.nan,
        },
    },
)
