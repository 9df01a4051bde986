"""Lesson 07's picture of one number in the middle of an MLP."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from helpers.telegrams import THINGS
from pictures.plotting import figure, heatmap, show


def neuron(hidden: Float[Tensor, "n M"], given: Int64[Tensor, "n"], got: Int64[Tensor, "n"]) -> None:
    """Of M numbers, the most selective one: its mean for every pair of things. One pair, in both orders,
    stands out from the next by more than in any other number.

    `given` and `got` number the things from 0 to 7.
    """
    pairs = 8 * given + got
    sums = torch.zeros(64, hidden.shape[1]).index_add(0, pairs, hidden)
    counts = torch.bincount(pairs, minlength=64)[:, None]
    table = (sums / counts).T.view(-1, 8, 8)  # (M, 8, 8); NaN where a pair never occurs
    # Both orders of a pair make the same brew
    symmetric = torch.stack([table, table.mT]).amin(dim=0).nan_to_num(-1.0)
    first, second = symmetric.triu(diagonal=1).flatten(start_dim=1).topk(2).values.T
    unit = int((first - second).argmax())
    _, ax = figure(6.4, 4.4)
    title = f"the most selective of {hidden.shape[1]} numbers"
    heatmap(table[unit], THINGS, title=title, decimals=1, row_name="given", column_name="got", ax=ax)
    best = int(symmetric[unit].flatten().argmax())
    show(
        f"The most selective of {hidden.shape[1]} numbers, for every pair of things. It is largest for "
        f"{THINGS[best // 8]} and {THINGS[best % 8]}, {first[unit]:.1f}; the next pair has {second[unit]:.1f}."
    )
