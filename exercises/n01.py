"""The exercises of notebook 01: dot products."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from exercises.judge import exercise, prediction


def scores(queries: Tensor, keys: Tensor) -> Tensor:
    return queries @ keys.mT


exercise(
    "1a",  # All scores at once
    scores,
    "queries: ... T D, keys: ... S D",
    mistakes={
        "right for a table, but with more dimensions `.T` turns all of them around: exchange the last two alone": (
            lambda queries, keys: queries @ keys.permute(*reversed(range(keys.dim())))
        ),
        "that is the cosine: a dot product keeps the lengths": (
            lambda queries, keys: torch.cosine_similarity(queries.unsqueeze(-2), keys.unsqueeze(-3), -1)
        ),
    },
)


def three_lengths() -> Iterator[tuple[float, float, float]]:
    for a, b in (
        ([3, 0], [0, 4]),
        ([1], [1]),
        ([2], [-3]),
        ([1, 2, -2], [4, 0.5, 3]),
        ([0.1, 0.2], [0.3, 0.1]),
        ([300, -20], [-10, 500]),
    ):
        yield math.hypot(*a), math.hypot(*b), math.dist(a, b)


exercise(
    "1b",  # How far apart?
    lambda length_a, length_b, apart: (length_a**2 + length_b**2 - apart**2) / 2,
    three_lengths,
    mistakes={
        "lengths must be squared first: |a - b| is not |a| - |b|": lambda a, b, d: (a + b - d) / 2,
        "that would be right if the third length were that of a + b": lambda a, b, d: (d**2 - a**2 - b**2) / 2,
        "that is the cosine: a · b still has both lengths in it": (lambda a, b, d: (a**2 + b**2 - d**2) / (2 * a * b)),
    },
)


prediction(
    "1d",  # Who scores best?
    right=("cabd", "b"),
    mistakes={
        "that is the order from worst to best": ("dbac", "b"),
        "the first is the order of the cosines: a dot product multiplies and adds": ("bcad", "b"),
        "the score of d is negative, and so the worst: don't drop its sign": ("cdab", "b"),
        "the order is right; by direction alone, one key is better than c: divide the scores by lengths": ("cabd", "c"),
        "the order is right; by direction alone, a is far off: it is only long": ("cabd", "a"),
    },
)


def products(of: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda vectors: of(vectors) @ of(vectors).mT


exercise(
    "1e",  # A cosine above 1
    products(lambda vectors: vectors / vectors.norm(dim=1, keepdim=True)),
    "vectors: T D",
    scales=(1000,),
    broken=(
        "a vector's cosine with itself should be 1. What does the diagonal say?",
        products(lambda vectors: vectors / vectors.norm(dim=0)),
    ),
    mistakes={
        "each column is divided by a length: divide each ROW, keepdim=True keeps the lengths in a column": (
            products(lambda vectors: vectors / vectors.norm(dim=1))
        ),
        "it divides by one length only: both vectors have one": (
            lambda vectors: vectors @ vectors.mT / vectors.norm(dim=1, keepdim=True)
        ),
        "the length is the root of the sum of squares, not the sum of the numbers": (
            products(lambda vectors: vectors / vectors.abs().sum(1, keepdim=True))
        ),
    },
)
