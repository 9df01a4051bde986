"""The exercises of notebook 05: dropout."""

import torch
from torch import randn

from helpers.attention import attention, causal_mask
from helpers.exercises import Answer, Pairs, exercise


@exercise("5a", hint="what is kept stands for what is lost: divide by the share that is kept")
def dropout(answer: Answer) -> Pairs:
    """answer(x, keep, p) -> x where keep is True, scaled, and 0 elsewhere."""
    for p in (0.5, 0.1, 0.9):
        x, keep = randn(4, 5), randn(4, 5) > 0
        yield answer(x, keep, p), torch.where(keep, x / (1 - p), 0.0)


@exercise("5b", hint="t weights are all lost with probability p to the t; add up over the words")
def lost_words(answer: Answer) -> Pairs:
    """answer(T, p) -> the expected number of words, of T, whose weights are all dropped."""
    for T, p in ((6, 0.5), (1, 0.2), (64, 0.1)):
        yield answer(T, p), sum(p**t for t in range(1, T + 1))


@exercise(
    "5c", hint="in this order: scores over the root of D, mask with -inf, softmax over dim=-1, keep / (1 - p), values"
)
def causal_attention(answer: Answer) -> Pairs:
    """answer(query, key, value (B, T, D), keep (B, T, T), p) -> context (B, T, D)."""
    for T, D, p, size in ((5, 4, 0.5, 1), (3, 9, 0.25, 1), (4, 4, 0.5, 1e6)):
        (query, key, value), keep = randn(3, 2, T, D), randn(2, T, T) > 0
        if size > 1:  # scores far below 0, where a mask that is a number shows
            query, key = -size * query.abs(), size * key.abs()
        _, weights = attention(query, key, value, causal_mask(T))
        yield answer(query, key, value, keep, p), torch.where(keep, weights / (1 - p), 0.0) @ value
