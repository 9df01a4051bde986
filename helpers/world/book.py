"""The attention classes of Raschka's book, as notebooks 03 to 06 derive them on the way to MultiHeadAttention.

Names and order of the layers are the book's: its seeds give its numbers, and its state dicts load.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from helpers.core.attention import attention, causal_mask


class SelfAttention(nn.Module):
    """Every token attends to every token: x (*batch, T, d_in) -> (*batch, T, d_out).

    Source: Raschka, Build a Large Language Model (From Scratch), listing 3.2.
    """

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x: Float[Tensor, "*batch T d_in"], return_weights: bool = False):
        context, weights = attention(self.W_query(x), self.W_key(x), self.W_value(x))
        return (context, weights) if return_weights else context


class CausalAttention(SelfAttention):
    """Self-attention that never looks ahead, with dropout on the weights: (*batch, T, d_in) -> (*batch, T, d_out).

    The mask moves with the layer to its device and is not saved with its weights. Source: Raschka, listing 3.3 (with
    the softmax over keys).
    """

    mask: Bool[Tensor, "T T"]

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False):
        super().__init__(d_in, d_out, qkv_bias)
        self.dropout = dropout
        self.register_buffer("mask", causal_mask(context_length), persistent=False)

    def forward(self, x: Float[Tensor, "*batch T d_in"], return_weights: bool = False):
        T = x.shape[-2]
        dropout_p = self.dropout if self.training else 0.0
        context, weights = attention(self.W_query(x), self.W_key(x), self.W_value(x), self.mask[:T, :T], dropout_p)
        return (context, weights) if return_weights else context

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest) -> None:
        """Ignore a mask that the book's class has saved: ours is made anew, and strict loading would object to one."""
        state_dict.pop(prefix + "mask", None)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class MultiHeadAttentionWrapper(nn.Module):
    """Causal heads side by side, outputs concatenated: (*batch, T, d_in) -> (*batch, T, num_heads * d_out).

    `d_out` is the width of ONE head here. Source: Raschka, listing 3.4.
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ):
        super().__init__()
        self.heads = nn.ModuleList(
            CausalAttention(d_in, d_out, context_length, dropout, qkv_bias) for _ in range(num_heads)
        )

    def forward(self, x: Float[Tensor, "*batch T d_in"]) -> Float[Tensor, "*batch T d_all"]:
        return torch.cat([head(x) for head in self.heads], dim=-1)
