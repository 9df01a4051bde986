"""Attention with every screw loose: the reference of many exercises, and the slips that they share.

A slip is a sentence and the options with which our own attention makes the same mistake. In some
exercises that is no mistake (dimension 1 is the last one of a table): then it is never told.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Divisor = Callable[[Tensor, Tensor, Tensor], float]


def root_of_D(query: Tensor, key: Tensor, value: Tensor) -> float:
    return math.sqrt(key.shape[-1])


def shares(exponentials: Tensor) -> Tensor:
    return exponentials / exponentials.sum(-1, keepdim=True)


def softmax(scores: Tensor, dim: int) -> Tensor:
    return scores.softmax(dim)


# ---------------------------------------------------------------- one head
def weights_of(
    query: Tensor,
    key: Tensor,
    value: Tensor | None = None,
    *,
    divisor: Divisor = root_of_D,
    dim: int = -1,
    normed: Callable[[Tensor, int], Tensor] = softmax,
    mask_of: Callable[[Tensor], Tensor] | None = None,
    hidden: float = -math.inf,
) -> Tensor:
    """The weights of attention; `mask_of` makes a mask of a table of ones."""
    value = key if value is None else value
    scores = query @ key.mT / divisor(query, key, value)
    if mask_of is not None:
        scores = scores.masked_fill(~mask_of(torch.ones_like(scores, dtype=torch.bool)), hidden)
    return normed(scores, dim)


def loose_attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    weights = weights_of(query, key, value, **options)
    return weights @ value, weights


def by(divisor: Divisor) -> dict[str, Divisor]:
    """The option that divides the scores by something else."""
    return {"divisor": divisor}


DIVISOR = {
    "the scores are not divided by √D": by(lambda q, k, v: 1),
    "the scores are divided by D: its square root is meant": by(lambda q, k, v: k.shape[-1]),
    "the scores are multiplied by √D: divide": by(lambda q, k, v: k.shape[-1] ** -0.5),
    "the scores are divided by the root of a number of words: D is the width of a key, its LAST dimension": (
        by(lambda q, k, v: k.shape[-2] ** 0.5)
    ),
    "the scores are divided by the root of dimension 1, which is the width of a table only: with more, say -1": (
        by(lambda q, k, v: k.shape[1] ** 0.5)
    ),
    "the scores are divided by the root of the values' width: D is that of the keys": (
        by(lambda q, k, v: v.shape[-1] ** 0.5)
    ),
}
SOFTMAX = {
    "the softmax runs over the queries: it should run over the keys, the last dimension": ({"dim": -2}),
    "the softmax runs over dimension 1, which is the last one in a table only: with more, say -1": ({"dim": 1}),
    "large scores give NaN: take the largest score of each row away first, or use softmax": (
        {"normed": lambda scores, dim: shares(scores.exp())}
    ),
}
ATTENTION = DIVISOR | SOFTMAX
FORBIDDEN = {
    "forbidden scores are set to 0, and 0 still gets weight: they must be -inf": {"hidden": 0.0},
    "forbidden scores are set to a number, below which an allowed score may lie: they must be -inf": ({"hidden": -1e9}),
}
CAUSAL = {
    "the future is not hidden": {"mask_of": lambda ones: ones},
    "the past is hidden: row t may see the columns up to t": {"mask_of": lambda ones: ones.triu()},
    "a word does not see itself, so the first row is empty": {"mask_of": lambda ones: ones.tril(-1)},
} | FORBIDDEN


# ---------------------------------------------------------------- several heads
def split(x: Tensor, H: int) -> Tensor:
    return x.unflatten(-1, (H, -1)).transpose(1, 2)  # (B, T, H * D) -> (B, H, T, D)


def join(contexts: Tensor) -> Tensor:
    return contexts.transpose(1, 2).flatten(2)  # (B, H, T, D) -> (B, T, H * D)


def split_by_view(x: Tensor, H: int) -> Tensor:
    return x.reshape(x.shape[0], H, x.shape[1], -1)


def split_in_turn(x: Tensor, H: int) -> Tensor:
    return x.unflatten(-1, (-1, H)).permute(0, 3, 1, 2)


def join_by_view(contexts: Tensor) -> Tensor:
    return contexts.reshape(contexts.shape[0], contexts.shape[2], -1)


def join_in_turn(contexts: Tensor) -> Tensor:
    return contexts.permute(0, 2, 3, 1).flatten(2)


def multi_head(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    *,
    cut: Callable[[Tensor, int], Tensor] = split,
    put_together: Callable[[Tensor], Tensor] = join,
    count: Callable[[int, int], int] = lambda H, C: H,
    mask_of: Callable[[Tensor], Tensor] = torch.tril,
    **options: Any,
) -> Tensor:
    """Causal attention of several heads, side by side."""
    H = count(num_heads, query.shape[-1])
    contexts, _ = loose_attention(cut(query, H), cut(key, H), cut(value, H), mask_of=mask_of, **options)
    return put_together(contexts)


root_of_C = by(lambda q, k, v: (q.shape[1] * q.shape[-1]) ** 0.5)
HEADS = {
    "the scores are divided by √C: D, the width of ONE head, is meant": root_of_C,
    "the scores are divided by the root of the number of heads: D is the width of one": (
        by(lambda q, k, v: q.shape[1] ** 0.5)
    ),
    "the softmax runs over the heads: dimension 1 is H here, and the keys are the last": {"dim": 1},
    "there is one head for everything": {"count": lambda H, C: 1},
    "num_heads says how many heads there are, not how wide one is": {"count": lambda H, C: C // H},
    "the heads are split by view alone, which cuts the words up": {"cut": split_by_view},
    "the heads are split and joined by view alone, which cuts the words up": (
        {"cut": split_by_view, "put_together": join_by_view}
    ),
    "the heads are joined by view alone, which puts different words into one row": ({"put_together": join_by_view}),
    "the numbers are dealt out to the heads one by one: a head owns D neighbours": ({"cut": split_in_turn}),
    "the heads' numbers are shuffled into each other: each head's D stay together": ({"put_together": join_in_turn}),
    "the heads are in reverse order": {"put_together": lambda contexts: join(contexts.flip(1))},
}


# ---------------------------------------------------------------- scores that are given
def causal_weights(
    scores: Tensor,
    *,
    mask_of: Callable[[Tensor], Tensor] = torch.tril,
    hidden: float = -math.inf,
    dim: int = -1,
) -> Tensor:
    """Causal weights, made of one table of scores."""
    mask = mask_of(torch.ones_like(scores, dtype=torch.bool))
    return scores.masked_fill(~mask, hidden).softmax(dim)
