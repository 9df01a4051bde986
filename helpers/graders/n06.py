"""The exercises of notebook 06: several heads."""

import torch
from torch import randn

from helpers.attention import MultiHeadAttention
from helpers.exercises import Answer, Pairs, exercise


@exercise("6a", hint="view to (B, T, H, D) first, then exchange T and H")
def split_heads(answer: Answer) -> Pairs:
    """answer(x (B, T, H * D), num_heads) -> (B, H, T, D)."""
    for B, T, H, D in ((2, 5, 3, 4), (1, 4, 4, 1), (3, 2, 1, 6)):
        x = randn(B, T, H * D)
        yield answer(x, H), torch.stack([x[:, :, h * D : (h + 1) * D] for h in range(H)], dim=1)


@exercise("6b", hint="exchange H and T back, then flatten the last two (view alone will refuse or scramble)")
def join_heads(answer: Answer) -> Pairs:
    """answer(x (B, H, T, D)) -> (B, T, H * D), head 1 first."""
    for x in (randn(2, 3, 5, 4), randn(1, 4, 2, 1), randn(2, 2, 2, 2)):
        yield answer(x), torch.cat(list(x.unbind(dim=1)), dim=-1)


@exercise("6c", hint="project, split, scores over the root of the HEAD width, mask, softmax, values, join, W_out")
def multi_head(answer: Answer) -> Pairs:
    """answer(x (B, T, C), W_query, W_key, W_value, W_out (C, C), num_heads) -> (B, T, C)."""
    for T, num_heads, size in ((5, 3, 1), (4, 2, 1), (6, 1, 1), (5, 3, 1e5)):
        x, matrices = randn(2, T, 12), list(randn(4, 12, 12))
        if size > 1:  # each word's score with itself is far below 0, where a mask that is a number shows
            matrices[:2] = size * matrices[0], -size * matrices[0]
        module = MultiHeadAttention(12, 12, T, 0.0, num_heads, out_bias=False)
        names = ("W_query", "W_key", "W_value", "out_proj")
        module.load_state_dict({f"{name}.weight": W.T for name, W in zip(names, matrices, strict=True)})
        yield answer(x, *matrices, num_heads), module(x)
