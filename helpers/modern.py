"""Today's GPT, as a list of changes to the plain one of helpers/gpt.py.

Each change is a field of ModernConfig and a few lines below; with all of them off, ModernGPT is GPT: same weights, same
logits. Two further changes concern the training: Muon, and a schedule that warms up, stays and decays.
"""

import math
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.attention import KVCache, MultiHeadAttention, attention
from helpers.errors import ConfigError
from helpers.gpt import GPT, Block, GPTConfig
from helpers.guards import NotNegative, Positive, Range, Share, Width, checked


@checked
@dataclass(frozen=True)
class ModernConfig(GPTConfig):
    """Sizes of a GPT, and which of today's changes it has: none unless asked for. ConfigError when they don't fit."""

    rotary: bool = False  # positions turn query and key, instead of a table that is added to the embedding
    rms_norm: bool = False  # no mean is subtracted
    mlp: str = "gelu"  # or "relu2", or "swiglu"
    mlp_width: Width | None = None  # inside the MLP (default: 4 n_embd)
    qk_norm: bool = False  # query and key have the same length everywhere
    n_kv_head: Width | None = None  # so many heads of keys and values, shared by groups of queries (default: n_head)
    window: Width | None = None  # a token sees so many, itself included (default: all before it)
    tied: bool = True  # the head's matrix is that of the token embedding
    softcap: NotNegative = 0.0  # logits stay between -softcap and softcap (0: they are free)
    zero_start: bool = False  # the projections that end each residual branch start at 0
    bigrams: Annotated[int, Range(0, 10_000_000)] = 0  # rows of the table that is looked up by the last two tokens
    trigrams: Annotated[int, Range(0, 10_000_000)] = 0  # ... by the last three

    def __post_init__(self):
        super().__post_init__()
        if self.mlp not in MLPS:
            raise ConfigError(f"unknown mlp={self.mlp!r}: choose one of {', '.join(MLPS)}")
        if self.n_head % (self.n_kv_head or self.n_head):
            raise ConfigError(f"n_kv_head={self.n_kv_head} does not divide n_head={self.n_head}: choose a divisor")
        if self.rotary and self.n_embd // self.n_head % 2:
            raise ConfigError(f"rotary turns pairs: heads of width {self.n_embd // self.n_head} need an even one")


# ---------------------------------------------------------------- rotary positions
def rotations(T: int, D: int) -> tuple[Float[Tensor, "T D"], Float[Tensor, "T D"]]:
    """Cosine and sine by which `rotate` turns position t: pair i of the D channels by the angle t / 10,000^(2i/D)."""
    frequency = 10_000 ** (-torch.arange(0, D, 2) / D)  # (D/2,), in radians per position
    angle = torch.arange(T)[:, None] * frequency.repeat(2)  # (T, D): channels i and i + D/2 are a pair
    return angle.cos(), angle.sin()


def rotate(
    x: Float[Tensor, "*batch T D"], cos: Float[Tensor, "T D"], sin: Float[Tensor, "T D"]
) -> Float[Tensor, "*batch T D"]:
    """Turn each pair of channels by its position's angle. The dot product of two vectors that were turned depends on
    the distance of their positions only (Su et al. 2021, RoFormer, section 3.4.2)."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


# ---------------------------------------------------------------- attention
class ModernAttention(MultiHeadAttention):
    """Multi-head attention with the changes that `config` asks for: (B, T, C) -> (B, T, C), causal.

    Rotary positions; query and key divided by their root mean square (Henry et al. 2020, Query-Key Normalization,
    section 2; as used today, without a gain); fewer heads of keys and values than of queries (Ainslie et al. 2023, GQA,
    section 2.2); a sliding window (Child et al. 2019, section 4.2; Jiang et al. 2023, Mistral 7B, section 2).
    """

    def __init__(self, config: ModernConfig):
        C, T, bias = config.n_embd, config.context_length, config.bias
        super().__init__(C, C, T, config.dropout, config.n_head, qkv_bias=bias, out_bias=bias)
        self.qk_norm, self.whole = config.qk_norm, config.window is None
        self.head_width = C // config.n_head
        if config.n_kv_head:
            self.W_key, self.W_value = (nn.Linear(C, config.n_kv_head * self.head_width, bias=bias) for _ in range(2))
        if config.window:
            self.mask = self.mask.triu(1 - config.window)
        cos, sin = rotations(T, self.head_width) if config.rotary else (None, None)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x: Float[Tensor, "B T C"], return_weights: bool = False, cache: KVCache | None = None):
        start = len(cache) if cache is not None else 0
        query, key, value = (self.split_heads(W(x)) for W in (self.W_query, self.W_key, self.W_value))
        query, key = (self.place(part, start) for part in (query, key))
        if cache is not None:
            key, value = cache.append(key, value)
        mask = self.mask_for(query.shape[-2], key.shape[-2])
        dropout_p = self.dropout if self.training else 0.0
        if return_weights:
            key, value = (part.repeat_interleave(self.num_heads // part.shape[1], dim=1) for part in (key, value))
            context, weights = attention(query, key, value, mask, dropout_p)
            return self.out_proj(self.join_heads(context)), weights
        causal = self.whole and query.shape[-2] == key.shape[-2]  # PyTorch's own flag is faster than the matrix
        grouped = key.shape[1] < self.num_heads
        context = F.scaled_dot_product_attention(
            query, key, value, None if causal else mask, dropout_p, is_causal=causal, enable_gqa=grouped
        )
        return self.out_proj(self.join_heads(context))

    def place(self, x: Float[Tensor, "B H T D"], start: int) -> Float[Tensor, "B H T D"]:
        """Queries or keys, normalised and turned to their positions from `start` on, where that is asked for."""
        if self.qk_norm:
            x = F.rms_norm(x, x.shape[-1:])
        if self.cos is not None:
            here = slice(start, start + x.shape[-2])
            x = rotate(x, self.cos[here], self.sin[here])
        return x

    def split_heads(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B H T D"]:
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)  # there may be fewer heads of keys


# ---------------------------------------------------------------- the block
class SquaredReLU(nn.Module):
    """max(x, 0)^2, found by search (So et al. 2021, Primer, section 3)."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x).square()


class SwiGLU(nn.Linear):
    """silu(W x) * (V x): one half of the products opens and closes the other (Shazeer 2020, section 2)."""

    def __init__(self, C: int, width: int, bias: bool):
        super().__init__(C, 2 * width, bias=bias)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch width"]:
        gate, content = super().forward(x).chunk(2, dim=-1)
        return F.silu(gate) * content


MLPS = {
    "gelu": lambda C, width, bias: (nn.Linear(C, width, bias=bias), nn.GELU()),
    "relu2": lambda C, width, bias: (nn.Linear(C, width, bias=bias), SquaredReLU()),
    "swiglu": lambda C, width, bias: (SwiGLU(C, width, bias),),
}


def modern_norm(config: ModernConfig) -> nn.Module:
    """LayerNorm, or RMSNorm: x / root mean square(x), times a gain (Zhang and Sennrich 2019, section 3)."""
    return nn.RMSNorm(config.n_embd, eps=1e-5) if config.rms_norm else nn.LayerNorm(config.n_embd, bias=config.bias)


class ModernBlock(Block):
    """A block whose parts are exchanged; its forward is the plain one: (B, T, C) -> (B, T, C)."""

    def __init__(self, config: ModernConfig):
        super().__init__(config)
        C, width = config.n_embd, config.mlp_width or 4 * config.n_embd
        self.norm1, self.attention, self.norm2 = modern_norm(config), ModernAttention(config), modern_norm(config)
        self.mlp = nn.Sequential(*MLPS[config.mlp](C, width, config.bias), nn.Linear(width, C, bias=config.bias))


# ---------------------------------------------------------------- n-gram tables
def ngram_rows(tokens: Int64[Tensor, "B T"], n: int, vocab_size: int, rows: int) -> Int64[Tensor, "B T"]:
    """The row of a table that belongs to the last `n` tokens at each place: their number in base V + 1, modulo `rows`.

    What stands before the first token counts as one token more, V. Several n-grams may share a row: the model learns
    to live with it (feature hashing, Weinberger et al. 2009; n-grams beside a network, Mikolov et al. 2011).
    """
    number = tokens
    for back in range(1, n):
        before = F.pad(tokens, (back, 0), value=vocab_size)[:, : tokens.shape[1]]
        number = (number + before * (vocab_size + 1) ** back) % rows
    return number % rows


class TokenCache(KVCache):
    """A KVCache that keeps the tokens, too: the n-gram tables look back at them."""

    tokens: Tensor | None = None

    def extend(self, tokens: Int64[Tensor, "B T"]) -> Int64[Tensor, "B T_all"]:
        """All tokens so far, those of `tokens` last; to be called before their keys are appended."""
        if self.tokens is not None and len(self.tokens) != len(tokens):
            raise ConfigError(f"the cache holds a batch of {len(self.tokens)}, not of {len(tokens)}: take a new one")
        self.tokens = tokens if self.tokens is None else torch.cat([self.tokens[:, : len(self)], tokens], dim=1)
        return self.tokens


# ---------------------------------------------------------------- the model
class ModernGPT(GPT):
    """The GPT with the changes that its config asks for: (B, T) -> logits (B, T, V), with `new_cache` as GPT has it.

    An untied head (Press and Wolf 2017 argue for a tied one); zero-started output projections, so that each block
    starts as the identity (Goyal et al. 2017, section 5.1; Zhang et al. 2019, Fixup, section 3); softcap * tanh(logits
    / softcap) (Gemma 2, 2024, section 2). ConfigError as for GPT.
    """

    def __init__(self, config: ModernConfig):
        super().__init__(config)
        V, C = config.vocab_size, config.n_embd
        self.blocks = nn.ModuleList(ModernBlock(config) for _ in range(config.n_layer))
        self.norm = modern_norm(config)
        if config.rotary:
            self.position_embedding = None
        if not config.tied:
            self.head = nn.Linear(C, V, bias=False)
        rows = {2: config.bigrams, 3: config.trigrams}
        self.tables = nn.ModuleDict({str(n): nn.Embedding(count, C) for n, count in rows.items() if count})
        self.apply(self._initialise)
        if config.zero_start:
            for block in self.blocks:
                nn.init.zeros_(block.attention.out_proj.weight)
                nn.init.zeros_(block.mlp[-1].weight)

    def embed(self, tokens: Int64[Tensor, "B T"], start: int = 0) -> Float[Tensor, "B T C"]:
        """Token embeddings, plus those of positions and n-grams where there are any, from position `start` on."""
        if tokens.shape[1] > self.config.context_length:
            raise ConfigError(
                f"{tokens.shape[1]} tokens do not fit into a context of {self.config.context_length}: crop them"
            )
        x = self.token_embedding(tokens)
        for n, table in self.tables.items():
            x = x + table(ngram_rows(tokens, int(n), self.config.vocab_size, table.num_embeddings))
        if self.position_embedding is not None:
            x = x + self.position_embedding.weight[: tokens.shape[1]]
        return self.dropout(x[:, start:])

    def forward(self, tokens: Int64[Tensor, "B T"], cache: list[KVCache] | None = None) -> Float[Tensor, "B T V"]:
        x = self.embed(cache[0].extend(tokens), len(cache[0])) if cache else self.embed(tokens)
        for i, block in enumerate(self.blocks):
            x = block(x, cache[i] if cache else None)
        logits = self.head(self.norm(x))
        cap = self.config.softcap
        return cap * torch.tanh(logits / cap) if cap else logits

    def new_cache(self) -> list[KVCache]:
        return [TokenCache(self.config.context_length) for _ in self.blocks]


# ---------------------------------------------------------------- training
class Together(torch.optim.Optimizer):
    """Several optimizers as one: they keep their groups, so whoever sets a rate here sets it there."""

    def __init__(self, *optimizers: torch.optim.Optimizer):
        self.optimizers = optimizers
        super().__init__(list(chain(*(optimizer.param_groups for optimizer in optimizers))), {})

    def step(self, closure: None = None) -> None:
        for optimizer in self.optimizers:
            optimizer.step()


def muon_and_adamw(model: GPT, config, scale: float = 1.0, **settings) -> Together:
    """Muon for the matrices inside the blocks, AdamW for all else: embeddings, tables, head, norms."""
    inside = [p for p in model.blocks.parameters() if p.dim() == 2]
    ids = {id(p) for p in inside}
    others = [p for p in model.parameters() if id(p) not in ids]
    muon = torch.optim.Muon([{"params": inside, "scale": scale}], lr=config.learning_rate, weight_decay=config.weight_decay, **settings)
    adamw = torch.optim.AdamW(others, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay, fused=True)
    return Together(muon, adamw)
def warmup_stable_decay(step: int, config, cooldown: float = 0.2) -> float:
    """Linear warm-up, a plateau, and a straight line down to the minimum"""
    warm = (step + 1) / (config.warmup_steps + 1)
    left = (config.max_steps - step) / (cooldown * config.max_steps)
    low, high = config.min_learning_rate, config.learning_rate
    return min(high, warm*high, low + (high - low) * left)
