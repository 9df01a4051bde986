"""The exercises of notebook 06: several heads."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from exercises.attending import (
    ATTENTION,
    CAUSAL,
    HEADS,
    join_by_view,
    multi_head,
    root_of_C,
)
from exercises.judge import Answer, WrongError, built, exercise
from exercises.properties import (
    OTHER,
    averages,
    forgets_order,
    has_numbers,
    like_ours,
    made,
    sees,
    sound,
    takes_any_length,
    uses_every_row,
)

SLIPS = HEADS | ATTENTION | CAUSAL


# ---------------------------------------------------------------- 6c
def writes(contexts: Tensor, W_out: Tensor) -> Tensor:
    return contexts @ W_out.unflatten(0, (len(contexts), -1))


exercise(
    "6c",  # What each head writes
    writes,
    "contexts: H T D, W_out: H*D C",
    mistakes={
        "that is what all heads write together: keep them apart": (
            lambda contexts, W_out: writes(contexts, W_out).sum(dim=0)
        ),
        "head 1 has the first D rows of W_out, head 2 the next D: yours take their rows in turn": (
            lambda contexts, W_out: contexts @ W_out.unflatten(0, (-1, len(contexts))).transpose(0, 1)
        ),
        "every head goes through the same rows of W_out: each has D rows of its own": (
            lambda contexts, W_out: contexts @ W_out[: contexts.shape[-1]]
        ),
        "what the heads write is added up, not averaged: don't divide": (
            lambda contexts, W_out: writes(contexts, W_out) / len(contexts)
        ),
    },
)


# ---------------------------------------------------------------- 6d
def merge(
    m1: Tensor,
    l1: Tensor,
    context1: Tensor,
    m2: Tensor,
    l2: Tensor,
    context2: Tensor,
    scale: Callable[[Tensor, Tensor], Tensor] = torch.maximum,
) -> tuple[Tensor, ...]:
    m = scale(m1, m2)
    share1, share2 = l1 * (m1 - m).exp(), l2 * (m2 - m).exp()
    return m, share1 + share2, mixed(share1, context1, share2, context2)


def mixed(share1: Tensor, context1: Tensor, share2: Tensor, context2: Tensor) -> Tensor:
    return (share1 * context1 + share2 * context2) / (share1 + share2)


def with_shares(shares: Callable[..., tuple[Tensor, Tensor]]) -> Answer:
    """The right m and l, with a context in which each piece has another share."""

    def answer(
        m1: Tensor, l1: Tensor, context1: Tensor, m2: Tensor, l2: Tensor, context2: Tensor
    ) -> tuple[Tensor, ...]:
        m, total, _ = merge(m1, l1, context1, m2, l2, context2)
        share1, share2 = shares(m1, l1, m2, l2)
        return m, total, mixed(share1, context1, share2, context2)

    return answer


exercise(
    "6d",  # Attention in pieces
    merge,
    "m1: T 1, l1: T 1 positive, context1: T D, m2: T 1, l2: T 1 positive, context2: T D",
    gives="m, l, context",
    scales=(1e4,),
    mistakes={
        "the sums have different scales: each is relative to its own largest score": (
            with_shares(lambda m1, l1, m2, l2: (l1, l2))
        ),
        "large scores overflow: take the larger largest score away before you take the exponential": {
            "scale": torch.minimum
        },
        "the largest scores alone don't say how much a piece weighs: its sum counts, too": (
            with_shares(lambda m1, l1, m2, l2: ((m1 - m2).sigmoid(), (m2 - m1).sigmoid()))
        ),
    },
)


# ---------------------------------------------------------------- 6e
exercise(
    "6e",  # Two faults
    multi_head,
    "query: B T H*D, key: B T H*D, value: B T H*D, num_heads = H",
    scales=(1e13,),
    broken=(
        "change the last word, and an earlier row changes, though every head has its mask. Which row, and whose "
        "numbers stand in it? And there is a second fault",
        functools.partial(multi_head, put_together=join_by_view, **root_of_C),
    ),
    mistakes={
        "one of two: the words are whole again, but the scores are still divided by √C": root_of_C,
        "one of two: the scores are right, but the heads are still joined by view alone": (
            {"put_together": join_by_view}
        ),
    }
    | SLIPS,
)


# ---------------------------------------------------------------- 6g
@built("6g")  # Several questions at once
def layer_of_heads(MyHeads: Any) -> None:
    """MyHeads(C, num_heads): causal attention of several heads, (B, T, C) -> (B, T, C)."""
    C = 24
    for num_heads in (3, 1, 4):
        sizes = {"C": C, "num_heads": num_heads}
        run = sound(MyHeads, sizes, width=C)
        reference = functools.partial(heads_of, num_heads)
        alike = like_ours(made(MyHeads, sizes), C, C, 4, reference, SLIPS)
        sees(run, C, future=False)
        forgets_order(run, C, causal=True)
        averages(run, C)
        uses_every_row(MyHeads, sizes, width=C)
        takes_any_length(run, C, causal=True)
        if not alike:
            raise WrongError(OTHER)
        matrices = "four matrices, for query, key, value and output"
        has_numbers(made(MyHeads, sizes), 4 * C * C, matrices)


def heads_of(num_heads: int, *projected: Tensor, **options: Any) -> Tensor:
    return multi_head(*projected, num_heads, **options)
