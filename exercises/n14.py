"""The exercises of *scaling out*: one model, trained by many processes."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, randint

from exercises import compare
from exercises.judge import Asked, BrokenError, WrongError, built, exercise
from exercises.properties import words

# ---------------------------------------------------------------- a pipeline
exercise(
    "14b",  # An idle assembly line
    lambda P, M: (P - 1) / (M + P - 1),
    "P = P, M = M",
    mistakes={
        "that is waiting against WORK: a share of all the time is asked for, which is both": (lambda P, M: (P - 1) / M),
        "all takes M + P - 1 units: a GPU works for M of them, one for each piece, and waits P - 1": (
            lambda P, M: P / (M + P)
        ),
        "that is twice the waiting: before its first piece and after its last, P - 1 units TOGETHER": (
            lambda P, M: 2 * (P - 1) / (M + P - 1)
        ),
    },
)


# ---------------------------------------------------------------- shared windows
def drawn(step: int, batch_size: int, places: int) -> list[int]:
    generator = torch.Generator().manual_seed(step)
    return randint(places, (batch_size,), generator=generator).tolist()


def read(my_starts: Callable[..., Any], step: int, size: int, *more: int) -> list[list[float]]:
    """What each worker reads."""
    rows = [compare.kept(my_starts(step, rank, size, *more)) for rank in range(size)]
    starts = [compare.numbers(row) for row in rows]
    if any(row is None or row.dim() != 1 for row in starts):
        raise WrongError("it should return a row of starts for each worker")
    return [row.tolist() for row in starts]


@built("14c", kind="a function")  # Two who read the same
def windows(my_starts: Callable[..., Any]) -> None:
    """my_starts(step, rank, size, batch_size, places): together, all ranks read one batch."""
    if read(my_starts, 3, 3, 7, 50) == [drawn(3, 2, 50)] * 3:
        raise BrokenError("the curve is as noisy as with a smaller batch. Print what the two workers read")
    for step, size, batch_size, places in (
        (3, 2, 8, 100),
        (2, 1, 5, 40),
        (0, 3, 7, 50),
        (4, 5, 8, 60),
        (1, 3, 2, 50),
        (12, 2, 9, 3),
        (250, 4, 9, 100_000),
    ):
        when = f"for step = {step}, size = {size}, batch_size = {batch_size}, places = {places} "
        parts = read(my_starts, step, size, batch_size, places)
        together = sorted(start for part in parts for start in part)
        fewest, most = min(map(len, parts)), max(map(len, parts))
        if len(together) != batch_size:
            raise WrongError(
                f"{when}they read {len(together)} windows together: each window of the batch is read by one worker, "
                "and what does not come out even is shared out, too"
            )
        if most - fewest > 1:
            raise WrongError(f"{when}one worker reads {most} windows and another {fewest}: share them out evenly")
        if together != sorted(drawn(step, batch_size, places)):
            raise WrongError(
                f"{when}they don't read what one worker alone would, so with another number of workers "
                "it is another training: who could draw the whole batch?"
            )


# ---------------------------------------------------------------- a batch that is too large
PADDING = -100  # PyTorch's sign for a target that does not count
LETTERS = 6
GRADIENTS = words(LETTERS, LETTERS, 2).double()  # of each real letter, after each that is read


def real_letters(y: Tensor) -> int:
    return int((y != PADDING).sum())


def mean_gradient(x: Tensor, y: Tensor) -> Tensor:
    return GRADIENTS[x[y != PADDING], y[y != PADDING]].mean(0)  # of nothing: NaN


def with_room(texts: int) -> Callable[[Tensor, Tensor], Tensor]:
    def gradient(x: Tensor, y: Tensor) -> Tensor:
        x, y = torch.as_tensor(x), torch.as_tensor(y)
        if x.dim() != 2 or x.shape != y.shape:
            raise ValueError(f"x and y should be (B, T), not {tuple(x.shape)}, {tuple(y.shape)}")
        if len(x) > texts:
            raise MemoryError(f"there is room for {texts} texts at a time, not for {len(x)}")
        return mean_gradient(x, y)

    gradient.__doc__ = f"(room for {texts} at a time)"
    return gradient


def padded_batches() -> Iterator[tuple[Any, ...]]:
    generator = torch.Generator().manual_seed(0)
    for lengths, parts in (
        ((2, 1), 2),
        ((0, 2, 1), 3),
        ((5, 5, 5, 5), 2),
        ((4, 7, 1, 3, 2), 2),
        ((3, 1, 6, 2, 6, 4, 5), 3),
        ((2, 5, 0, 0, 4, 1), 3),
        ((0, 0, 3, 4, 2, 1), 3),
        ((3, 6, 2), 1),
        ((4, 4, 4, 4, 4), 3),
    ):
        B, T = len(lengths), max(lengths)
        real = torch.arange(T) < torch.tensor(lengths)[:, None]
        x, y = randint(LETTERS, (2, B, T), generator=generator)
        y[:, 0] = 0  # a letter may have the number 0
        yield x * real, y.masked_fill(~real, PADDING), parts, with_room(-(-B // parts))


def added(
    weight: Callable[[Tensor], Any],
    x: Tensor,
    y: Tensor,
    parts: int,
    gradient: Callable[..., Tensor],
    least: int = 1,
) -> Tensor:
    """The gradients of parts of at least this many letters, by weights that may be wrong."""
    pieces = zip(x.tensor_split(parts), y.tensor_split(parts), strict=True)
    counted = [(a, b) for a, b in pieces if real_letters(b) >= least]
    return sum(weight(b) * gradient(a, b) for a, b in counted) / sum(weight(b) for _, b in counted)


@exercise(
    "14d",  # Parts that add up
    lambda x, y, parts, gradient: mean_gradient(x, y),
    padded_batches,
    mistakes={
        "0 · NaN is NaN: pass over a part that has no real letter": (functools.partial(added, real_letters, least=0)),
        "a letter may have the number 0: what does not count is -100": (
            functools.partial(added, lambda y: (y > 0).sum())
        ),
    },
)
def _(answer: Asked) -> None:
    x, y, parts, gradient = answer.cases[0].inputs  # two texts, each a part
    mean = (gradient(x[:1], y[:1]) + gradient(x[1:], y[1:])) / 2
    if compare.same(answer(x, y, parts, gradient), mean):
        raise WrongError(
            "a text with few letters counts as much as a full one, as in a mean of means: weigh by real letters"
        )
