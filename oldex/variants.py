"""Attention and its heads with one part replaced: the mistakes that answers and candidates are compared with."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from helpers.attention import attention, causal_mask

Formula = Callable[..., tuple[Tensor, Tensor]]  # (query, key, value, mask) -> context, weights
# (query, key, value (B, T, H * D), H) -> contexts (B, T, H * D)
SeveralHeads = Callable[[Tensor, Tensor, Tensor, int], Tensor]


# ---------------------------------------------------------------- the formula
def unchanged(x: Tensor, *_: Any) -> Tensor:
    return x


def turned(key: Tensor) -> Tensor:
    return key.mT


TURNING_TABLES_ONLY: list[Callable[[Tensor], Tensor]] = [  # right for a table, and not for a batch of them
    lambda key: key.permute(*reversed(range(key.dim()))),  # key.T, without its warning
    lambda key: key.transpose(0, 1),
    Tensor.t,
]
TURNING_BATCHES_ONLY: list[Callable[[Tensor], Tensor]] = [
    lambda key: key.transpose(1, 2),
    lambda key: key.transpose(2, 3),
]


def root_of_width(query: Tensor, key: Tensor, value: Tensor) -> float:
    return math.sqrt(key.shape[-1])


def masked_softmax(scores: Tensor, mask: Tensor | None, fill: float = -math.inf, dim: int = -1) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    return scores.softmax(dim)


def attention_with(
    scale: Callable[[Tensor, Tensor, Tensor], float] = root_of_width,
    fill: float = -math.inf,
    dim: int = -1,
    turn: Callable[[Tensor], Tensor] = turned,
    mask_of: Callable[[Tensor], Tensor] = unchanged,
    on_scores: Callable[..., Tensor] = unchanged,
    on_weights: Callable[..., Tensor] = unchanged,
) -> Formula:
    """Attention with another scale, fill of forbidden scores, axis of the softmax, turn of the key, or mask.

    Or its scores or weights are changed; what a call has behind the mask goes to `on_scores` and `on_weights`.
    """

    def variant(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *more: Any
    ) -> tuple[Tensor, Tensor]:
        scores = on_scores(query @ turn(key) / scale(query, key, value), *more)
        weights = masked_softmax(scores, None if mask is None else mask_of(mask), fill, dim)
        weights = on_weights(weights, *more)
        return weights @ value, weights

    return variant


plain_attention = attention_with()  # it takes any shapes, and fails as PyTorch fails


def divided_by(divisor: Callable[[int], float]) -> Formula:
    """Attention whose scores are divided by something else that is made of the head width."""
    return attention_with(scale=lambda query, key, value: divisor(key.shape[-1]))


def weighed_by(weights_of: Callable[[Tensor, Tensor], Tensor]) -> Formula:
    """Attention that makes its weights of scores and mask in another way, wherever there is a mask."""

    def variant(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = query @ key.mT / root_of_width(query, key, value)
        weights = scores.softmax(-1) if mask is None else weights_of(scores, mask)
        return weights @ value, weights

    return variant


def shares(exponentials: Tensor) -> Tensor:
    """Each row divided by its sum."""
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def without_shift(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Attention whose softmax does not take the largest score away first."""
    weights = shares((query @ key.mT / root_of_width(query, key, value)).exp())
    return weights @ value, weights


# ---------------------------------------------------------------- masks
def transposed(mask: Tensor) -> Tensor:
    return mask.mT


def shifted(diagonal: int) -> Callable[[Tensor], Tensor]:
    """Causal, with another diagonal: -1 hides a token from itself, 1 shows the next one."""
    return lambda mask: torch.ones_like(mask).tril(diagonal)


# What learners get wrong in causal attention, as the part of `attention_with` that they replace.
CAUSAL_MISTAKES: dict[str, list[dict[str, Any]]] = {
    "the future is not hidden": [{"mask_of": torch.ones_like}],
    "the past is hidden: row t may see the columns up to t": [{"mask_of": transposed}],
    "a word does not see itself, so the first row is empty": [{"mask_of": shifted(-1)}],
    "forbidden scores are set to 0, and 0 still gets weight: they must be -inf": [{"fill": 0.0}],
    "forbidden scores are set to a number, below which an allowed score may lie: they must be -inf": [
        {"fill": -(10.0**size)} for size in range(11)
    ],
    "the scores are not divided by √D": [{"scale": lambda query, key, value: 1}],
    "the scores are divided by D: its square root is meant": [{"scale": lambda query, key, value: key.shape[-1]}],
}


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
) -> SeveralHeads:
    """Causal attention of several heads with another formula, split or join."""

    def variant(query: Tensor, key: Tensor, value: Tensor, H: int) -> Tensor:
        parts = [split(x, H) for x in (query, key, value)]
        contexts, _ = formula(*parts, causal_mask(parts[0].shape[-2]))
        return join(contexts)

    return variant


RIGHT_HEADS = heads_with()
