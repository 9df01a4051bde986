"""Attention and its heads with one part replaced: the mistakes that answers and candidates are compared with."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from helpers.core.attention import attention, causal_mask

Formula = Callable[..., tuple[Tensor, Tensor]]  # (query, key, value, mask) -> context, weights
# (query, key, value (B, T, H * D), H) -> contexts (B, T, H * D)
SeveralHeads = Callable[[Tensor, Tensor, Tensor, int], Tensor]


# ---------------------------------------------------------------- the formula
def root_of_width(query: Tensor, key: Tensor, value: Tensor) -> float:
    return math.sqrt(key.shape[-1])


def divided_by(divisor: Callable[[int], float]) -> Formula:
    """Attention whose scores are divided by something else that is made of the head width."""
    return attention_with(scale=lambda query, key, value: divisor(key.shape[-1]))


def unchanged(x: Tensor, *_: Any) -> Tensor:
    return x


def attention_with(
    scale: Callable[[Tensor, Tensor, Tensor], float] = root_of_width,
    fill: float = -math.inf,
    dim: int = -1,
    on_scores: Callable[..., Tensor] = unchanged,
    on_weights: Callable[..., Tensor] = unchanged,
) -> Formula:
    """Attention with another scale, fill of forbidden scores or axis of the softmax, or with scores or weights changed.

    What a call has behind the mask goes to `on_scores` and `on_weights`.
    """

    def variant(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *more: Any
    ) -> tuple[Tensor, Tensor]:
        scores = on_scores(query @ key.mT / scale(query, key, value), *more)
        weights = masked_softmax(scores, mask, fill, dim)
        weights = on_weights(weights, *more)
        return weights @ value, weights

    return variant


def masked_softmax(scores: Tensor, mask: Tensor | None, fill: float = -math.inf, dim: int = -1) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    return scores.softmax(dim)


plain_attention = attention_with()  # it takes any shapes, and fails as PyTorch fails


def masked_late(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax over everything, then the mask, then each row divided by what is left of it."""
    weights = attention(query, key, value)[1] * mask
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ value, weights


def exchanged(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention with queries for keys and keys for queries, where there are as many of both; else NaN."""
    if query.shape == key.shape:
        return attention(key, query, value, mask)
    weights = query @ key.mT * math.nan
    return weights @ value, weights


def without_shift(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Attention whose softmax does not take the largest score away first."""
    exponentials = (query @ key.mT / root_of_width(query, key, value)).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return weights @ value, weights


# ---------------------------------------------------------------- masks
def triangle(diagonal: int = 0, turned: bool = False) -> Callable[[int], Tensor]:
    """The causal mask of T tokens with another diagonal: -1 hides a token from itself, 1 shows the next one."""

    def mask_of(T: int) -> Tensor:
        mask = torch.ones(T, T, dtype=torch.bool).tril(diagonal)
        return mask.T if turned else mask

    return mask_of


def everything(T: int) -> Tensor:
    return torch.ones(T, T, dtype=torch.bool)


# ---------------------------------------------------------------- heads
def split(x: Tensor, H: int) -> Tensor:
    return x.unflatten(-1, (H, -1)).transpose(1, 2)  # (B, T, H * D) -> (B, H, T, D)


def split_by_view(x: Tensor, H: int) -> Tensor:
    """Only the shape says (B, H, T, D): a head gets numbers of several tokens."""
    return x.reshape(x.shape[0], H, x.shape[1], -1)


def split_in_turn(x: Tensor, H: int) -> Tensor:
    """Number by number: head 1 gets the first, head 2 the second, and so on."""
    return x.unflatten(-1, (-1, H)).permute(0, 3, 1, 2)


def join(contexts: Tensor) -> Tensor:
    return contexts.transpose(1, 2).flatten(2)  # (B, H, T, D) -> (B, T, H * D)


def join_by_view(contexts: Tensor) -> Tensor:
    return contexts.reshape(contexts.shape[0], contexts.shape[2], -1)


def join_in_turn(contexts: Tensor) -> Tensor:
    return contexts.permute(0, 2, 3, 1).flatten(2)


def heads_with(
    formula: Formula = attention,
    split: Callable[[Tensor, int], Tensor] = split,
    join: Callable[[Tensor], Tensor] = join,
    mask_of: Callable[[int], Tensor] = causal_mask,
) -> SeveralHeads:
    """Causal attention of several heads with another formula, split, join or mask."""

    def variant(query: Tensor, key: Tensor, value: Tensor, H: int) -> Tensor:
        parts = [split(x, H) for x in (query, key, value)]
        T = parts[0].shape[-2]
        contexts, _ = formula(*parts, mask_of(T))
        return join(contexts)

    return variant


RIGHT_HEADS = heads_with()
