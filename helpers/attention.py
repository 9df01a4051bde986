"""Attention: a pure function, the layer inside every GPT, and the book's steps on the way to it.

Shapes, here and in all notebooks: B batch, T tokens, C channels (the width of the model), H heads,
D head width, V vocabulary, L layers, N tokens of a whole text. Scores are before softmax, weights
after. A boolean mask is True where attention is allowed.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from helpers.errors import ConfigError


def attention(
    query: Float[Tensor, "*batch T_query D"],
    key: Float[Tensor, "*batch T_key D"],
    value: Float[Tensor, "*batch T_key D_value"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout_p: float = 0.0,
) -> tuple[Float[Tensor, "*batch T_query D_value"], Float[Tensor, "*batch T_query T_key"]]:
    """Scaled dot-product attention: softmax(query @ key.T / sqrt(D)) @ value, and the weights.

    `mask` broadcasts to (*batch, T_query, T_key) and is True where attention is allowed. A row that
    allows nothing gives NaN, as in the formula. `dropout_p` drops weights after softmax and scales
    the kept ones by 1/(1-p); the weights that are returned are those after dropout. Source: Vaswani
    et al. 2017, Attention Is All You Need, section 3.2.1.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (*batch, T_query, T_key)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    weights = F.dropout(weights, dropout_p)
    return weights @ value, weights


def causal_mask(T: int, device: torch.device | str | None = None) -> Bool[Tensor, "T T"]:
    """True where query t (row) may attend to key s (column): s <= t."""
    return torch.ones(T, T, dtype=torch.bool, device=device).tril()


def leave_out_mask(layer: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    """Before a layer loads a state dict: the book's hold a mask, and here the layer makes its own."""
    state.pop(f"{prefix}mask", None)


class KVCache:
    """The keys and values that one layer has computed, for up to `context_length` tokens.

    It takes its memory once, (B, H, context_length, D) each, at the first `append`, and is for
    inference: no gradient flows through it. `len` is the number of tokens.
    """

    def __init__(self, context_length: int):
        self.context_length = context_length
        self.length = 0
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    def __len__(self) -> int:
        return self.length

    def append(
        self, key: Float[Tensor, "B H T D"], value: Float[Tensor, "B H T D"]
    ) -> tuple[Float[Tensor, "B H T_all D"], Float[Tensor, "B H T_all D"]]:
        """Add the newest tokens' keys and values; return views of those of all tokens so far."""
        B, H, T, D = key.shape
        start, end = self.length, self.length + T
        if self.key is None or self.value is None:
            self.key = key.new_empty(B, H, self.context_length, D)
            self.value = value.new_empty(B, H, self.context_length, D)
        # Raises when the cache is full; a slice would be empty.
        self.key.narrow(2, start, T).copy_(key.detach())
        self.value.narrow(2, start, T).copy_(value.detach())
        self.length = end
        return self.key[:, :, :end], self.value[:, :, :end]


class MultiHeadAttention(nn.Module):
    """Causal attention with several heads: (B, T, d_in) -> (B, T, d_out).

    `d_out` is the width of all heads TOGETHER; ConfigError when `num_heads` doesn't divide it. In
    training, `dropout` is the share of weights that are dropped. With a `cache`, x holds only the
    newest tokens, and they attend to the cached ones too. `return_weights=True` gives (output,
    weights (B, H, T, T_all)). Sources: Vaswani et al. 2017, section 3.2.2; names and order of the
    layers: Raschka, listing 3.5.
    """

    mask: Bool[Tensor, "T T"]

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
        out_bias: bool = True,
    ):
        super().__init__()
        if d_out % num_heads:
            choose = f"choose a divisor of {d_out}"
            raise ConfigError(f"{num_heads} heads do not divide the width {d_out}: {choose}")
        self.num_heads = num_heads
        self.dropout = dropout
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out, bias=out_bias)
        self.register_buffer("mask", causal_mask(context_length), persistent=False)
        self.register_load_state_dict_pre_hook(leave_out_mask)

    def forward(
        self,
        x: Float[Tensor, "B T d_in"],
        return_weights: bool = False,
        cache: KVCache | None = None,
    ):
        start = len(cache) if cache is not None else 0
        query, key, value = self.query_key_value(x, start)
        if cache is not None:
            key, value = cache.append(key, value)
        if return_weights:
            mask = self.mask_for(query.shape[-2], key.shape[-2])
            key, value = self.repeat_kv(key), self.repeat_kv(value)
            context, weights = attention(query, key, value, mask, self.dropout_now)
            return self.out_proj(self.join_heads(context)), weights
        context = self.fused_attention(query, key, value)
        return self.out_proj(self.join_heads(context))

    def query_key_value(self, x: Float[Tensor, "B T d_in"], start: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of each head: three times (B, H, T, D).

        The first token stands at position `start`: rotary positions will depend on it.
        """
        query = self.split_heads(self.W_query(x))
        key = self.split_heads(self.W_key(x))
        value = self.split_heads(self.W_value(x))
        return query, key, value

    def split_heads(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B H T D"]:
        B, T, C = x.shape
        # (B, T, H, D) -> (B, H, T, D)
        return x.view(B, T, self.num_heads, C // self.num_heads).transpose(1, 2)

    def join_heads(self, x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T C"]:
        return x.transpose(1, 2).flatten(2)  # (B, H, T, D) -> (B, T, H, D) -> (B, T, H * D)

    def repeat_kv(self, x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T D"]:
        """The keys or values for each head of queries: here each head has its own."""
        return x

    def fused_attention(self, query: Tensor, key: Tensor, value: Tensor) -> Float[Tensor, "B H T D"]:
        """The context as `attention` has it, by PyTorch, which need not store the weights."""
        T_query, T_key = query.shape[-2], key.shape[-2]
        causal = T_query == T_key  # nothing came from a cache: PyTorch's own flag is quicker
        mask = None if causal or T_query == 1 else self.mask_for(T_query, T_key)
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=self.dropout_now, is_causal=causal
        )

    def mask_for(self, T_query: int, T_key: int) -> Bool[Tensor, "T_query T_key"]:
        """The rows that belong to the newest T_query of T_key tokens."""
        return self.mask[T_key - T_query : T_key, :T_key]

    @property
    def dropout_now(self) -> float:
        return self.dropout if self.training else 0.0


# ---------------------------------------------------------------- the book's classes
# The attention classes of Raschka's book, as notebooks 03 to 06 derive them on the way to
# MultiHeadAttention. Names and order of the layers are the book's: its seeds give its numbers, and
# its state dicts load, with the masks that they hold.


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
    """Self-attention that never looks ahead: (*batch, T, d_in) -> (*batch, T, d_out).

    The mask moves with the layer to its device and is not saved with its weights. Source: Raschka,
    listing 3.3 (with the softmax over keys).
    """

    mask: Bool[Tensor, "T T"]

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False):
        super().__init__(d_in, d_out, qkv_bias)
        self.dropout = dropout
        self.register_buffer("mask", causal_mask(context_length), persistent=False)
        self.register_load_state_dict_pre_hook(leave_out_mask)

    def forward(self, x: Float[Tensor, "*batch T d_in"], return_weights: bool = False):
        T = x.shape[-2]
        dropout_p = self.dropout if self.training else 0.0
        context, weights = attention(self.W_query(x), self.W_key(x), self.W_value(x), self.mask[:T, :T], dropout_p)
        return (context, weights) if return_weights else context
