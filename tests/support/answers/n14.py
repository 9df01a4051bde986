"""Wrong and right answers to the exercises of *scaling out*, beside the mistakes of exercises/n14.py."""

import math
from fractions import Fraction

import numpy as np
import torch

from exercises.n14 import drawn, real_letters


def by_average(P, M):
    table = np.zeros((P, M + P - 1))
    for gpu in range(P):
        table[gpu, gpu : gpu + M] = 1
    return 1 - table.mean()


def part(take, batch=drawn):
    """What a worker takes of the batch."""
    return lambda step, rank, size, count, places: take(batch(step, count, places), rank, size)


def one_after_the_other(step, rank, size, batch_size, places):
    own = torch.Generator().manual_seed(step)
    for i in range(batch_size):
        start = torch.randint(places, (), generator=own)
        if i % size == rank:
            yield start.item()


def with_the_global_dice(step, rank, size, batch_size, places):
    torch.manual_seed(step)
    return torch.randint(places, (batch_size, 1))[rank::size].flatten().numpy()


def one_text_at_a_time(x, y, parts, gradient):
    total = 0.0
    for i in range(len(x)):
        if real_letters(y[i]):
            total = total + real_letters(y[i]) / real_letters(y) * gradient(x[i : i + 1], y[i : i + 1])
    return total


def as_large_as_fits(x, y, parts, gradient):
    n = math.ceil(len(x) / parts)
    found = [(real_letters(y[i : i + n]), gradient(x[i : i + n], y[i : i + n])) for i in range(0, len(x), n)]
    return np.average([g.numpy() for n, g in found if n], axis=0, weights=[n for n, _ in found if n])


WRONG = {
    "14b": [
        ("`M` is taken as 1", lambda P, M: 1 - 1 / P),
        ("1 minus what is asked for", lambda P, M: M / (P + M - 1)),
        ("all is P times", lambda P, M: (P**2 - P) / (M + P - 1)),
        ("it gives 0.25 where 0.3333", lambda P, M: (1 - 1 / P) / M),
        ("percent", lambda P, M: 100 - 100 * M / (M + P - 1)),
    ],
    "14c": [
        ("who could draw the whole batch", lambda step, rank, size, count, places: (
            drawn(size * step + rank, len(range(rank, count, size)), places))),
        ("who could draw the whole batch?", lambda step, rank, size, count, places: (
            torch.randint(places, (count,))[rank::size])),
        ("who could draw the whole batch?", lambda step, rank, size, *more: drawn(rank, *more)[rank::size]),
        ("they read 16 windows together", part(lambda starts, rank, size: starts)),
        ("they read 6 windows together", part(lambda starts, rank, size: (
            starts[rank::size][: len(starts) // size]))),
        ("share them out evenly", part(lambda starts, rank, size: torch.tensor(starts).chunk(size)[rank])),
        ("a row of starts", part(lambda starts, rank, size: set(starts[rank::size]))),
    ],
    "14d": [
        ("0 · NaN is NaN", lambda x, y, parts, gradient: sum(
            gradient(a, b) * real_letters(b)
            for a, b in zip(x.tensor_split(parts), y.tensor_split(parts), strict=True)) / real_letters(y)),
        ("as in a mean of means", lambda x, y, parts, gradient: sum(
            map(gradient, x.chunk(parts), y.chunk(parts))) / parts),
        ("it gives [0.2303, -0.2665]", lambda x, y, parts, gradient: gradient(x[::parts], y[::parts])),
        ("room for 1 texts at a time", lambda x, y, parts, gradient: gradient(x, y)),
        ("changes its input `y`", lambda x, y, *more: one_text_at_a_time(x, y.clamp_(min=0), *more)),
    ],
}  # fmt: skip
RIGHT = {
    "14b": [by_average, lambda P, M: Fraction(P - 1, M + P - 1)],
    "14c": [
        part(lambda starts, rank, size: sorted(starts)[::-1][size - 1 - rank :: size]),
        one_after_the_other,
        with_the_global_dice,
    ],
    "14d": [one_text_at_a_time, as_large_as_fits],
}
