"""Attention, from one pure function to the multi-head class inside every GPT.

Shapes, here and in all notebooks: B batch, T tokens, C channels (the width of the model), H heads, D head width.
Scores are before softmax, weights after. A boolean mask is True where attention is allowed.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from helpers.errors import ConfigError
from helpers.guards import Share, Width, checked


def attention(
    query: Float[Tensor, "*batch T_query D"],
    key: Float[Tensor, "*batch T_key D"],
    value: Float[Tensor, "*batch T_key D_value"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout_p: float = 0.0,
) -> tuple[Float[Tensor, "*batch T_query D_value"], Float[Tensor, "*batch T_query T_key"]]:
    """Scaled dot-product attention: softmax(query @ key.T / sqrt(D)) @ value, and the weights.

    `mask` broadcasts to (*batch, T_query, T_key) and is True where attention is allowed. A row that allows nothing
    gives NaN, as in the formula. `dropout_p` drops weights after softmax and scales the kept ones by 1/(1-p).
    Source: Vaswani et al. 2017, Attention Is All You Need, section 3.2.1.
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


def _refuse_more_than(context_length: int, tokens: int) -> None:
    if tokens > context_length:
        raise ConfigError(f"{tokens} tokens do not fit into a context of {context_length}: crop them to the last ones")


def _refuse_misfit(layer: nn.Module, x: Tensor, batched: bool = False) -> None:
    """ConfigError unless the layer can read `x`: (..., T, d_in), or (B, T, d_in) if `batched`."""
    d_in = getattr(layer.W_query, "in_features", x.shape[-1] if x.dim() else 0)
    if x.dim() < 2 or (batched and x.dim() != 3) or x.shape[-1] != d_in or not x.is_floating_point():
        wanted = f"({'B' if batched else '...'}, T, {d_in})"
        raise ConfigError(f"x must be floating-point numbers of shape {wanted}, not {x.dtype} of {tuple(x.shape)}")


@checked
class SelfAttention(nn.Module):
    """Every token attends to every token: x (*batch, T, d_in) -> (*batch, T, d_out).

    Source: Raschka, Build a Large Language Model (From Scratch), listing 3.2; W_query, W_key, W_value are created in
    that order, so the source's seeds give the source's numbers.
    """

    def __init__(self, d_in: Width, d_out: Width, qkv_bias: bool = False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x: Float[Tensor, "*batch T d_in"], return_weights: bool = False):
        _refuse_misfit(self, x)
        context, weights = attention(self.W_query(x), self.W_key(x), self.W_value(x))
        return (context, weights) if return_weights else context


@checked
class CausalAttention(SelfAttention):
    """Self-attention that never looks ahead, with dropout on the weights: (*batch, T, d_in) -> (*batch, T, d_out).

    The mask moves with the layer to its device and is not saved with its weights. Raises ConfigError when T exceeds
    `context_length`. Source: Raschka, listing 3.3 (with the softmax over keys).
    """

    mask: Bool[Tensor, "T T"]

    def __init__(self, d_in: Width, d_out: Width, context_length: Width, dropout: Share, qkv_bias: bool = False):
        super().__init__(d_in, d_out, qkv_bias)
        self.dropout = dropout
        self.register_buffer("mask", causal_mask(context_length), persistent=False)

    def forward(self, x: Float[Tensor, "*batch T d_in"], return_weights: bool = False):
        _refuse_misfit(self, x)
        mask = self.mask_for(x.shape[-2], x.shape[-2])
        dropout_p = self.dropout if self.training else 0.0
        context, weights = attention(self.W_query(x), self.W_key(x), self.W_value(x), mask, dropout_p)
        return (context, weights) if return_weights else context

    def mask_for(self, T_query: int, T_key: int) -> Bool[Tensor, "T_query T_key"]:
        """The rows that belong to the newest T_query of T_key tokens; ConfigError when these outgrow the context."""
        _refuse_more_than(self.mask.shape[0], T_key)
        return self.mask[T_key - T_query : T_key, :T_key]

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest) -> None:
        """Pass over a saved mask. The book's is 1 where attention is FORBIDDEN: in ours it would show the future."""
        state_dict.pop(prefix + "mask", None)
        super()._load_from_state_dict(state_dict, prefix, *rest)


@checked
class MultiHeadAttentionWrapper(nn.Module):
    """Causal heads side by side, outputs concatenated: (*batch, T, d_in) -> (*batch, T, num_heads * d_out).

    `d_out` is the width of ONE head here. Source: Raschka, listing 3.4.
    """

    def __init__(
        self, d_in: Width, d_out: Width, context_length: Width, dropout: Share, num_heads: Width, qkv_bias: bool = False
    ):
        super().__init__()
        self.heads = nn.ModuleList(
            CausalAttention(d_in, d_out, context_length, dropout, qkv_bias) for _ in range(num_heads)
        )

    def forward(self, x: Float[Tensor, "*batch T d_in"]) -> Float[Tensor, "*batch T d_all"]:
        return torch.cat([head(x) for head in self.heads], dim=-1)


@checked
class KVCache:
    """The keys and values that one attention layer has already computed, for up to `context_length` tokens.

    They are written into memory that is taken once, (B, H, context_length, D) each, at the first `append`. For
    inference: no gradient flows through. `len` is the number of tokens.
    """

    def __init__(self, context_length: Width):
        self.context_length, self._length = context_length, 0
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    def __len__(self) -> int:
        return self._length

    def keep_first(self, count: int) -> None:
        """Forget all but the first `count` tokens; if there are fewer, nothing."""
        self._length = min(self._length, max(0, count))

    def append(
        self, key: Float[Tensor, "B H T D"], value: Float[Tensor, "B H T D"]
    ) -> tuple[Float[Tensor, "B H T_all D"], Float[Tensor, "B H T_all D"]]:
        """Add the newest tokens' keys and values; return views of those of all tokens so far."""
        B, H, T, D = key.shape
        start, end = self._length, self._length + T
        _refuse_more_than(self.context_length, end)
        if self.key is not None and len(self.key) != B:
            raise ConfigError(f"the cache holds a batch of {len(self.key)}, not of {B}: take a new one")
        if self.key is None or self.value is None:
            self.key, self.value = (new.new_empty(B, H, self.context_length, D) for new in (key, value))
        self.key[:, :, start:end], self.value[:, :, start:end] = key.detach(), value.detach()
        self._length = end
        return self.key[:, :, :end], self.value[:, :, :end]


@checked
class MultiHeadAttention(CausalAttention):
    """All causal heads in one matrix product each for query, key and value: (B, T, d_in) -> (B, T, d_out).

    `d_out` is the width of all heads TOGETHER; ConfigError when `num_heads` does not divide it, or when the tokens
    outgrow `context_length`. With a `cache`, x holds only the newest tokens and attends to the cached ones too.
    Sources: Raschka, listing 3.5; Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(
        self,
        d_in: Width,
        d_out: Width,
        context_length: Width,
        dropout: Share,
        num_heads: Width,
        qkv_bias: bool = False,
        out_bias: bool = True,
    ):
        if d_out % num_heads:
            raise ConfigError(f"{num_heads} heads do not divide the width {d_out}: choose a divisor of {d_out}")
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.num_heads = num_heads
        self.out_proj = nn.Linear(d_out, d_out, bias=out_bias)

    def forward(self, x: Float[Tensor, "B T d_in"], return_weights: bool = False, cache: KVCache | None = None):
        _refuse_misfit(self, x, batched=True)
        query, key, value = (self.split_heads(W(x)) for W in (self.W_query, self.W_key, self.W_value))
        if cache is not None:
            key, value = cache.append(key, value)
        _refuse_more_than(self.mask.shape[0], key.shape[-2])
        dropout_p = self.dropout if self.training else 0.0
        if return_weights:
            mask = self.mask_for(query.shape[-2], key.shape[-2])
            context, weights = attention(query, key, value, mask, dropout_p)
            return self.out_proj(self.join_heads(context)), weights
        # The same function, fused by PyTorch (a test holds the two together); its own flag for the square causal
        # mask is faster than handing it the matrix, and the newest token alone may look at everything.
        square, alone = query.shape == key.shape, query.shape[-2] == 1
        mask = None if square or alone else self.mask_for(query.shape[-2], key.shape[-2])
        context = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout_p, is_causal=square
        )
        return self.out_proj(self.join_heads(context))

    def split_heads(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B H T D"]:
        B, T, C = x.shape
        return x.view(B, T, self.num_heads, C // self.num_heads).transpose(1, 2)  # (B, T, H, D) -> (B, H, T, D)

    def join_heads(self, x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T C"]:
        return x.transpose(1, 2).flatten(2)  # (B, H, T, D) -> (B, T, H, D) -> (B, T, H * D)
