"""Ways to silence one head of a layer: the right one, and those that silence something else."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from exercises.judge import Answer
from helpers.attention import MultiHeadAttention, attention

Place = Callable[[int, int, int], slice]  # from head, H and D to channels


def silenced(change: Callable[[Tensor, int], Tensor]) -> Answer:
    """The layer with its contexts (B, H, T, D) changed before they are joined."""

    def variant(layer: MultiHeadAttention, x: Tensor, head: int) -> Tensor:
        T = x.shape[1]
        context, _ = attention(*layer.query_key_value(x), layer.mask_for(T, T))
        return layer.out_proj(layer.join_heads(change(context, head)))

    return variant


def without(context: Tensor, head: int, fill: float | Tensor = 0.0) -> Tensor:
    """Contexts (B, H, T, D) with `fill` instead of one head's."""
    heads = list(context.unbind(1))
    heads[head] = torch.zeros_like(heads[head]) + fill
    return torch.stack(heads, 1)


def of_zeroed(*names: str) -> Answer:
    """The layer whose matrices of one head are 0."""

    def variant(layer: MultiHeadAttention, x: Tensor, head: int) -> Tensor:
        layer = copy.deepcopy(layer).requires_grad_(False)
        D = layer.W_query.out_features // layer.num_heads
        for name in names:
            getattr(layer, name).weight[head * D : (head + 1) * D] = 0
        return layer(x)

    return variant


def of_changed(place: Place, side: str) -> Answer:
    """Zeros in those channels of x, of the joined contexts, or of the output; place(head, H, D) says in which."""

    def variant(layer: MultiHeadAttention, x: Tensor, head: int) -> Tensor:
        kept = torch.ones(layer.W_query.out_features)
        kept[place(head, layer.num_heads, len(kept) // layer.num_heads)] = 0
        if side == "context":
            return silenced(lambda context, _: layer.split_heads(layer.join_heads(context) * kept))(layer, x, head)
        return layer(x * kept) if side == "input" else layer(x) * kept

    return variant


def own(head: int, H: int, D: int) -> slice:
    return slice(head * D, (head + 1) * D)


def swapped(layer: MultiHeadAttention, **parts: nn.Module | Tensor) -> MultiHeadAttention:
    layer = copy.deepcopy(layer)
    for name, part in parts.items():
        setattr(layer, name, part)
    return layer
