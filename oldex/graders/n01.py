"""The exercises of notebook 01: dot products."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, randn

from exercises.graders.stages import then
from exercises.judge import Answer, Pairs, exercise
from exercises.variants import TURNING_BATCHES_ONLY, TURNING_TABLES_ONLY


def _by(turn: Callable[[Tensor], Tensor]) -> Answer:
    """Scores by another way to turn the keys on their side."""
    return lambda queries, keys: queries @ turn(keys)


def _across_texts(queries: Tensor, keys: Tensor) -> Tensor:
    return queries.flatten(end_dim=-2) @ keys.flatten(end_dim=-2).T


@exercise(
    "1a",
    {
        "rows and columns are exchanged: row t belongs to query t, column s to key s": lambda q, k: k @ q.T,
        "the keys must be turned on their side: the matrix product goes along a row and down a column": (
            lambda q, k: q @ k
        ),
        "that multiplies row by row: every query must meet every key": lambda q, k: q * k,
        "the products are not added up: a score is one number for each pair": lambda q, k: q[:, None] * k,
        "it adds where it should multiply": lambda q, k: (q[:, None] + k).sum(-1),
        "it multiplies the sums; it should add up the products": lambda q, k: q.sum(-1)[:, None] * k.sum(-1),
        "that is the distance: a dot product adds up products": torch.cdist,
        "that is the cosine: a dot product keeps the lengths": lambda q, k: torch.cosine_similarity(q[:, None], k, -1),
        "it divides by √D: these scores are not scaled": lambda q, k: q @ k.T / k.shape[1] ** 0.5,
        "it gives weights: scores come before the softmax": lambda q, k: (q @ k.T).softmax(-1),
        "the signs are lost: a score may be negative": lambda q, k: (q @ k.T).abs(),
        "only the first number of each vector counts": lambda q, k: q[:, :1] @ k[:, :1].T,
        "right for a table, but with more dimensions `.T` turns all of them around: exchange the last two alone": [
            _by(turn) for turn in TURNING_TABLES_ONLY
        ],
        "dimensions that are counted from the front fit a batch, and no table: count from the end, `-2` and `-1`": [
            _by(turn) for turn in TURNING_BATCHES_ONLY
        ],
        "queries of one text meet keys of another: each table of a batch stands alone": [
            _across_texts,
            lambda q, k: torch.tensordot(q, k, dims=([-1], [-1])),
        ],
    },
)
def scores(answer: Answer) -> Pairs:
    """answer(queries (..., T, D), keys (..., S, D)) -> scores (..., T, S)."""
    yield from then(_scores_of_tables(answer), _scores_of_batches(answer))


def _scores_of_tables(answer: Answer) -> Pairs:
    for T, S, D, size in ((2, 4, 3, 1), (5, 2, 4, 1), (1, 1, 1, 1), (3, 3, 3, 1), (2, 3, 1, 1), (4, 3, 2, 1000)):
        queries, keys = (size * randn(T, D)).round(decimals=2), (size * randn(S, D)).round(decimals=2)
        yield answer(queries, keys), queries.double() @ keys.double().T


def _scores_of_batches(answer: Answer) -> Pairs:
    for leading, T, S, D in (((3,), 2, 4, 5), ((2, 3), 4, 5, 6), ((1,), 3, 2, 4), ((4, 1), 1, 3, 2)):
        queries, keys = randn(*leading, T, D).round(decimals=2), randn(*leading, S, D).round(decimals=2)
        yield answer(queries, keys), queries.double() @ keys.double().mT


@exercise(
    "1b",
    {
        "a · b occurs twice in |a + b|²: divide by 2": lambda a, b, s: s**2 - a**2 - b**2,
        "divide by 2, not by 4: only one sum is known, not a difference too": lambda a, b, s: (s**2 - a**2 - b**2) / 4,
        "the sign is wrong: that is for |a - b|; here the SUM is known": lambda a, b, s: (a**2 + b**2 - s**2) / 2,
        "lengths must be squared first: |a + b| is not |a| + |b|": lambda a, b, s: (s - a - b) / 2,
        "that is the cosine: a · b still has both lengths in it": lambda a, b, s: (s**2 - a**2 - b**2) / (2 * a * b),
        "that holds only for vectors of one direction: |a| |b| still wants the cosine": lambda a, b, s: a * b,
        "the square of b is forgotten": lambda a, b, s: (s**2 - a**2) / 2,
        "the square of a is forgotten": lambda a, b, s: (s**2 - b**2) / 2,
        "only the lengths of a and b are squared, not that of the sum": lambda a, b, s: (s - a**2 - b**2) / 2,
        "the signs are lost: a dot product may be negative": lambda a, b, s: abs(s**2 - a**2 - b**2) / 2,
    },
)
def dot(answer: Answer) -> Pairs:
    """answer(length_a, length_b, length_sum) -> a · b, from |a|, |b| and |a + b| alone."""
    for a, b in (((3.0, 0.0), (0.0, 4.0)), ((1.0,), (1.0,)), ((2.0,), (-3.0,)), ((1.0, 2.0, -2.0), (4.0, 0.5, 3.0)),
                 ((300.0, -20.0), (-10.0, 500.0)), ((0.1, 0.2), (0.3, 0.1))):  # fmt: skip
        lengths = math.hypot(*a), math.hypot(*b), math.hypot(*(x + y for x, y in zip(a, b, strict=True)))
        yield answer(*lengths), sum(x * y for x, y in zip(a, b, strict=True)), 1e-4 + 1e-8 * lengths[2] ** 2


def _others(scores: Tensor, i: int, own: float = -math.inf) -> Tensor:
    """The scores of vector i with all, its own one replaced."""
    scores = scores.clone()
    scores[i] = own
    return scores


def _best_of(score: Callable[[Tensor, Tensor], Tensor] = torch.mv, own: float = -math.inf) -> Answer:
    """The index with the best score(vectors, vector i)."""
    return lambda i, vectors: _others(score(vectors, vectors[i]), i, own).argmax()


@exercise(
    "1c",
    {
        "it chooses the vector itself: the OTHERS are asked for": lambda i, vectors: i,
        "the vector itself still takes part: leave its own score out": lambda i, vectors: (
            vectors @ vectors[i]
        ).argmax(),
        "its own score is set to 0, and 0 wins where all others are negative: set it to -inf": _best_of(own=0.0),
        "its own score is set to a low number, and others may be lower still: set it to -inf": _best_of(own=-1000.0),
        "it takes the second best, but a vector need not be its own best: leave out place i, wherever it stands": (
            lambda i, vectors: (vectors @ vectors[i]).argsort(descending=True)[1]
        ),
        "it counts places among the others only: from place i on, the index is one too small": (
            lambda i, vectors: (torch.cat([vectors[:i], vectors[i + 1 :]]) @ vectors[i]).argmax()
        ),
        "that is the best cosine: with dot products, length counts": _best_of(
            lambda vectors, x: torch.cosine_similarity(vectors, x[None])
        ),
        "that is the nearest by distance: the best dot product is asked for": _best_of(
            lambda vectors, x: -(vectors - x).norm(dim=1)
        ),
        "that is the WORST of the others": _best_of(lambda vectors, x: -(vectors @ x)),
        "the signs are lost: the most negative score is the worst, not the best": _best_of(
            lambda vectors, x: (vectors @ x).abs()
        ),
        "it gives the score: its index is asked for": lambda i, vectors: _others(vectors @ vectors[i], i).amax(),
        "it always chooses the longest of the others, whatever vector i is": _best_of(
            lambda vectors, x: vectors.norm(dim=1)
        ),
    },
)
def nearest(answer: Answer) -> Pairs:
    """answer(i, vectors (T, D)) -> index of the OTHER vector that has the best dot product with vector i."""
    opposed = torch.tensor([[1.0, 0.0], [-1.0, 2.0], [-2.0, -3.0]])  # all of 0's scores with others are negative
    lengths = torch.tensor([[0.1, 0.1], [4.0, 5.0], [0.2, 0.0], [6.0, -1.0]])  # the short ones are not their own best
    for vectors in (randn(6, 3), opposed, 1000 * opposed, lengths, randn(2, 4), 1000 * randn(5, 2), -randn(4, 5).abs()):
        for i in range(len(vectors)):
            yield answer(i, vectors), _best_of()(i, vectors)


@exercise(
    "1d",
    {
        "that is the order from worst to best": "dbac",
        "that is the order of the cosines: a dot product counts the keys' lengths, too": "bcad",
        "that is the order by distance, nearest first: a dot product multiplies and adds": "bcda",
        "that is the order by distance, farthest first: a dot product multiplies and adds": "adcb",
        "that is the order of the lengths: direction counts, too": ["acdb", "bdca"],
        "the score of d is negative, and so the worst: don't drop its sign": "cdab",
        "that is the order of the keys' own sums: multiply by the query's numbers before you add": "cbad",
        "that is the order of the first products alone: add the second ones": "acbd",
        "that is the order of the second products alone: add the first ones": "cdba",
        "the query's numbers are exchanged: first times first, second times second": "cbda",
    },
)
def order(answer: Answer) -> Pairs:
    """answer = the keys a = (6, -8), b = (1, 0), c = (3, 5), d = (-4, 1), best score with the query (2, 1) first."""
    yield answer, "cabd"


def _products(of: Callable[[Tensor], Tensor]) -> Answer:
    """The dot products of vectors that are changed first."""
    return lambda vectors: of(vectors) @ of(vectors).T


def _broken_cosines(vectors: Tensor) -> Tensor:
    unit = vectors / vectors.norm(dim=0)
    return unit @ unit.T


_right_cosines = _products(lambda vectors: vectors / vectors.norm(dim=1, keepdim=True))


@exercise(
    "1e",
    {
        "it divides by the length of the whole table: every vector has its own": _products(lambda x: x / x.norm()),
        "each column is divided by a length: divide each ROW, keepdim=True keeps the lengths in a column": _products(
            lambda vectors: vectors / vectors.norm(dim=1)
        ),
        "these are dot products still: divide by both lengths": _products(lambda vectors: vectors),
        "it divides by one length only: both vectors have one": [
            lambda vectors: vectors @ vectors.T / vectors.norm(dim=1, keepdim=True),
            lambda vectors: vectors @ vectors.T / vectors.norm(dim=1),
        ],
        "it divides by squares of lengths: a vector's cosine with itself is 1": _products(
            lambda vectors: vectors / vectors.norm(dim=1, keepdim=True) ** 2
        ),
        "the length is the root of the sum of squares, not the sum of the numbers": [
            _products(lambda vectors: vectors / vectors.sum(1, keepdim=True)),
            _products(lambda vectors: vectors / vectors.abs().sum(1, keepdim=True)),
        ],
        "it compares columns: the result should be (T, T), one row for each vector": (
            lambda vectors: _right_cosines(vectors.T)
        ),
        "the signs are lost: opposite vectors have the cosine -1": lambda vectors: _right_cosines(vectors).abs(),
        "those are 1 minus the cosines": lambda vectors: 1 - _right_cosines(vectors),
    },
    broken=("a vector's cosine with itself should be 1. What does the diagonal say?", _broken_cosines),
)
def cosines(answer: Answer) -> Pairs:
    """answer(vectors (T, D)) -> the cosine of each vector with each other (T, T)."""
    for vectors in (randn(4, 3), randn(3, 3), randn(2, 5), randn(1, 1), 1000 * randn(5, 2), 0.01 * randn(3, 4)):
        yield answer(vectors), _right_cosines(vectors.double())
