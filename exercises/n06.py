"""The exercises of notebook 06: several heads."""

from typing import Any

import torch
from torch import Tensor

from exercises.attending import (
    HEADS,
    heads,
    join,
    join_by_view,
    join_in_turn,
    split,
    split_by_view,
    split_in_turn,
)
from exercises.judge import built, exercise, prediction
from exercises.properties import (
    LikeOurs,
    averages,
    forgets_order,
    has_numbers,
    hides_the_future,
    made,
    sees,
    sound,
    takes_any_length,
    uses_every_row,
)

exercise(
    "6a",
    split,
    "x: B T H*D, num_heads = H",
    mistakes={
        "view alone cuts the words up: cut each row into heads first, then exchange T and H": split_by_view,
        "the numbers are dealt out one by one: a head owns D neighbours": split_in_turn,
        "num_heads says how many heads there are, not how wide one is": (
            lambda x, num_heads: x.unflatten(-1, (-1, num_heads)).transpose(1, 2)
        ),
    },
)


exercise(
    "6b",
    join,
    "x: B H T D",
    mistakes={
        "view alone puts different words into one row: exchange H and T back first": join_by_view,
        "after the transpose the numbers don't lie in order any more, and view can't do it: take reshape or flatten": (
            lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1)
        ),
        "the heads' numbers are shuffled into each other: each head's D stay together": join_in_turn,
    },
)


def layer(
    x: Tensor,
    W_query: Tensor,
    W_key: Tensor,
    W_value: Tensor,
    W_out: Tensor,
    num_heads: int,
    **options: Any,
) -> Tensor:
    return heads(x @ W_query, x @ W_key, x @ W_value, num_heads, **options) @ W_out


@exercise(
    "6c",
    layer,
    "x: B T H*D, W_query: H*D H*D, W_key: H*D H*D, W_value: H*D H*D, W_out: H*D H*D, num_heads = H",
    scales=(1e6,),
    slips=HEADS,
    mistakes={
        "the heads are only laid side by side: W_out still has to mix them": (
            lambda x, W_query, W_key, W_value, W_out, num_heads: heads(
                x @ W_query, x @ W_key, x @ W_value, num_heads
            )
        ),
        "all matrices stand to the right, as they are: don't turn them over": (
            lambda x, *rest: layer(x, *(W.mT for W in rest[:4]), rest[4])
        ),
    },
)
def _(answer: Any) -> None:
    hides_the_future(answer)


def merge(
    m1: Tensor,
    l1: Tensor,
    context1: Tensor,
    m2: Tensor,
    l2: Tensor,
    context2: Tensor,
    scale: Any = torch.maximum,
) -> tuple[Tensor, ...]:
    m = scale(m1, m2)
    share1, share2 = l1 * (m1 - m).exp(), l2 * (m2 - m).exp()
    return m, share1 + share2, (share1 * context1 + share2 * context2) / (share1 + share2)


def mixed(share1: Tensor, share2: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The right m and l, with a context for which the pieces count as much as this."""
    context = (share1 * inputs[2] + share2 * inputs[5]) / (share1 + share2)
    return *merge(*inputs)[:2], context


exercise(
    "6d",
    merge,
    "m1: T 1, l1: T 1 positive, context1: T D, m2: T 1, l2: T 1 positive, context2: T D",
    gives="m, l, context",
    scales=(1e4,),
    mistakes={
        "the sums have different scales: each is relative to its own largest score": [
            lambda *x: (torch.maximum(x[0], x[3]), x[1] + x[4], mixed(x[1], x[4], x)[2]),
            lambda *x: (torch.maximum(x[0], x[3]), x[1] + x[4], merge(*x)[2]),
            lambda *x: mixed(x[1], x[4], x),
        ],
        "large scores overflow: take the larger largest score away before you take the exponential": [
            lambda *x: mixed(x[1] * x[0].exp(), x[4] * x[3].exp(), x),
            {"scale": lambda m1, m2: m1},
            {"scale": lambda m1, m2: m2},
            {"scale": torch.minimum},
        ],
        "the largest scores alone don't say how much a piece weighs: its sum counts, too": (
            lambda *x: mixed((x[0] - x[3]).sigmoid(), (x[3] - x[0]).sigmoid(), x)
        ),
    },
)


def broken_heads(query: Tensor, key: Tensor, value: Tensor, num_heads: int) -> Tensor:
    by_C = {"divisor": lambda q, k, v: query.shape[-1] ** 0.5}
    return heads(query, key, value, num_heads, put_together=join_by_view, **by_C)


@exercise(
    "6e",
    heads,
    "query: B T H*D, key: B T H*D, value: B T H*D, num_heads = H",
    scales=(1e10,),
    slips=HEADS,
    broken=(
        "change the last word, and an earlier row changes, though every head has its mask. Which row, and whose "
        "numbers stand in it? And there is a second fault",
        broken_heads,
    ),
    mistakes={
        "one of two: the words are whole again, but the scores are still divided by √C": {
            "divisor": lambda q, k, v: (q.shape[1] * q.shape[-1]) ** 0.5
        },
        "one of two: the scores are right, but the heads are still joined by view alone": {
            "put_together": join_by_view
        },
        "the output still has H before T: it is (B, T, C)": {
            "put_together": lambda contexts: contexts.flatten(1, 2)
        },
    },
)
def _(answer: Any) -> None:
    hides_the_future(answer, inputs=3)


prediction(
    "6f",
    right=(30, 31, 2, 3),
    mistakes={
        "view alone reads on where the first head stopped, in the middle of the text": [
            (2, 3, 2, 3),
            (20, 21, 2, 3),
            (10, 11, 2, 3),
        ],
        "that is the first head: the second one is asked for": [
            (0, 1, 0, 1),
            (0, 1, 2, 3),
            (30, 31, 0, 1),
        ],
        "the 12th place in memory is word 3's first number, which is 30, not 12": [
            (12, 13, 2, 3),
            (12, 13, 12, 13),
        ],
    },
)


@built("6g")
def layer_of_heads(MyHeads: Any) -> None:
    """MyHeads(C, num_heads): causal attention of several heads and a last matrix, x (B, T, C) -> (B, T, C)."""
    C = 12
    for num_heads in (3, 1, 4):
        sizes = {"C": C, "num_heads": num_heads}
        run = sound(MyHeads, sizes, width=C)
        beside = LikeOurs(
            MyHeads, sizes, C, roles=4, ours=lambda *x, H=num_heads, **more: heads(*x, H, **more)
        )
        beside.has_no_slip(HEADS if num_heads > 1 else {})
        sees(run, C, future=False)
        forgets_order(run, C, causal=True)
        averages(run, C)
        uses_every_row(MyHeads, sizes, width=C)
        takes_any_length(run, C, causal=True)
        if num_heads == 1:
            has_numbers(
                made(MyHeads, sizes), 4 * C * C, "four matrices, for query, key, value and output"
            )
        else:
            beside.is_equal({"cut": split_in_turn, "put_together": join_in_turn})
