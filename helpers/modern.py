"""Today's GPT, as a list of changes to the plain one of helpers/gpt.py.

Each change is a field of ModernConfig and a few lines below; with all of them off, a ModernGPT with
the weights of a GPT gives the same logits. What changed in training since (Muon, a rate that stays
and decays) stands in optim.py.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.attention import KVCache, MultiHeadAttention
from helpers.errors import ConfigError
from helpers.gpt import GPT, Block, GPTConfig
from helpers.rules import at_least, one_of, optional, require, whole


@dataclass(frozen=True)
class ModernConfig(GPTConfig):
    """Sizes of a GPT, and which of today's changes it has, by default none.

    ConfigError for an unknown `mlp`, a number out of range, and as for GPTConfig.
    """

    rotary: bool = False  # positions turn query and key; no table of them is added to the embedding
    rms_norm: bool = False  # a norm that subtracts no mean
    mlp: str = "gelu"  # or "relu2", or "swiglu"
    mlp_width: int | None = None  # inside the MLP (default: 4 n_embd)
    qk_norm: bool = False  # all queries and keys have the same length
    # Heads of keys and values, shared by groups of queries (default: n_head)
    n_kv_head: int | None = None
    window: int | None = None  # how many tokens one sees, itself included (default: all before it)
    tied: bool = True  # the head's matrix is that of the token embedding
    softcap: float = 0.0  # logits stay between -softcap and softcap (0: they are free)
    zero_start: bool = False  # the projections that end each residual branch start at 0
    # Rows of a table that is looked up by the last two tokens and added to the embedding.
    bigrams: int = 0
    trigrams: int = 0  # ... by the last three
    fourgrams: int = 0  # ... by the last four
    before: int = 0  # how many earlier tokens are added to the embedding of each one

    def __post_init__(self):
        super().__post_init__()
        require(self, "mlp", one_of(("gelu", "relu2", "swiglu")))
        require(self, "n_kv_head window mlp_width", optional(whole(1)))
        require(self, "bigrams trigrams fourgrams before", whole(0))
        require(self, "softcap", at_least(0))
        if self.n_kv_head and self.n_head % self.n_kv_head:
            shared, heads = f"n_kv_head={self.n_kv_head}", f"n_head={self.n_head}"
            raise ConfigError(f"{shared} does not divide {heads}: choose a divisor of it")
        width = self.n_embd // self.n_head
        if self.rotary and width % 2:
            raise ConfigError(f"rotary turns pairs of channels: heads can't be {width} wide")


# ---------------------------------------------------------------- rotary positions
def rotations(T: int, D: int) -> tuple[Float[Tensor, "T D"], Float[Tensor, "T D"]]:
    """Cosine and sine of the angles of `rotate`: at position t, pair i by t / 10,000^(2i/D).

    Channels i and i + D/2 are a pair (a, b), which becomes (a cos - b sin, b cos + a sin). The
    minus is in the sines: their first half is negative.
    """
    frequency = 10_000 ** (-torch.arange(0, D, 2) / D)  # (D/2,), in radians per position
    angle = torch.arange(T)[:, None] * frequency  # (T, D/2)
    return angle.cos().repeat(1, 2), torch.cat([-angle.sin(), angle.sin()], dim=1)


def rotate(
    x: Float[Tensor, "*batch T D"], cos: Float[Tensor, "T D"], sin: Float[Tensor, "T D"]
) -> Float[Tensor, "*batch T D"]:
    """Turn each pair of channels by its position's angle.

    Lengths stay, and the dot product of a turned query and a turned key depends on the distance of
    their positions only (Su et al. 2021, RoFormer, section 3.2).
    """
    # Rolled by a half: the partners.
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)


# ---------------------------------------------------------------- attention
def lean_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout_p: float) -> Tensor:
    """The context of `attention` in fewer passes: it scales queries, not scores, and adds the mask."""
    forbidden = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, float("-inf"))
    scores = (query / math.sqrt(key.shape[-1]) @ key.mT).add_(forbidden)  # (B, H, T_query, T_key)
    return F.dropout(scores.softmax(dim=-1), dropout_p) @ value


class ModernAttention(MultiHeadAttention):
    """Causal multi-head attention with the changes that `config` asks for: (B, T, C) -> (B, T, C).

    Rotary positions; queries and keys divided by their root mean square (after Henry et al. 2020,
    Query-Key Norm, who also learn the scale); fewer heads of keys and values than of queries
    (Ainslie et al. 2023, GQA, section 2.2); a sliding window (Beltagy et al. 2020, Longformer,
    section 3.1).
    """

    def __init__(self, config: ModernConfig):
        C, T, bias = config.n_embd, config.context_length, config.bias
        super().__init__(C, C, T, config.dropout, config.n_head, qkv_bias=bias, out_bias=bias)
        self.config = config
        self.head_width = C // config.n_head
        self.kv_heads = config.n_kv_head or config.n_head
        if config.n_kv_head:
            self.W_key = nn.Linear(C, self.kv_heads * self.head_width, bias=bias)
            self.W_value = nn.Linear(C, self.kv_heads * self.head_width, bias=bias)
        if config.window:
            self.mask = self.mask.triu(1 - config.window)
        if config.rotary:
            cos, sin = rotations(T, self.head_width)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)

    def query_key_value(self, x: Float[Tensor, "B T C"], start: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, D), keys and values (B, H_kv, T, D) from position `start` on."""
        layers = (self.W_query, self.W_key, self.W_value)
        # In one product: fewer passes over memory.
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers]) if self.config.bias else None
        heads = self.split_heads(F.linear(x, weight, bias))
        query_key, value = heads.split((self.num_heads + self.kv_heads, self.kv_heads), dim=1)
        query_key = self.norm_and_rotate(query_key, start)
        query, key = query_key.split((self.num_heads, self.kv_heads), dim=1)
        return query, key, value

    def split_heads(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B H T D"]:
        # Of keys there may be fewer heads.
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

    def norm_and_rotate(self, x: Float[Tensor, "B H T D"], start: int) -> Float[Tensor, "B H T D"]:
        """Queries or keys with qk_norm and rotary positions from `start` on, where switched on."""
        if self.config.qk_norm:
            length = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(1e-12)
            x = x * (math.sqrt(x.shape[-1]) / length)  # F.rms_norm, in fewer passes
        if self.config.rotary:
            here = slice(start, start + x.shape[-2])
            x = rotate(x, self.cos[here], self.sin[here])
        return x

    def repeat_kv(self, x: Float[Tensor, "B H_kv T D"]) -> Float[Tensor, "B H T D"]:
        """Each head of keys or values once for every query head that shares it."""
        group = self.num_heads // self.kv_heads
        return x.repeat_interleave(group, dim=1) if group > 1 else x

    def fused_attention(self, query: Tensor, key: Tensor, value: Tensor) -> Float[Tensor, "B H T D"]:
        T_query, T_key = query.shape[-2], key.shape[-2]
        if query.dtype == torch.bfloat16 and query.device.type == "cpu":
            # The backward pass of PyTorch's fused attention takes twice as long there.
            key, value = self.repeat_kv(key), self.repeat_kv(value)
            mask = self.mask_for(T_query, T_key)
            return lean_attention(query, key, value, mask, self.dropout_now)
        # PyTorch's own flag is quicker than a mask
        causal = T_query == T_key and not self.config.window
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=None if causal else self.mask_for(T_query, T_key),
            dropout_p=self.dropout_now,
            is_causal=causal,
            enable_gqa=self.kv_heads < self.num_heads,
        )


# ---------------------------------------------------------------- the block
class SquaredReLU(nn.Module):
    """max(0, x)^2, found by a search over programs (So et al. 2021, Primer)."""

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return F.relu(x).square()


class SwiGLU(nn.Linear):
    """silu(gate) * content, both made by one product (Shazeer 2020, GLU Variants, section 2)."""

    def __init__(self, C: int, width: int, bias: bool):
        super().__init__(C, 2 * width, bias=bias)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch width"]:
        gate, content = super().forward(x).chunk(2, dim=-1)
        return F.silu(gate) * content


def modern_mlp(config: ModernConfig) -> nn.Sequential:
    """The MLP that `config` asks for; it ends in the projection back to the stream."""
    C, bias = config.n_embd, config.bias
    width = config.mlp_width or 4 * C
    if config.mlp == "swiglu":
        hidden = [SwiGLU(C, width, bias)]
    elif config.mlp == "relu2":
        hidden = [nn.Linear(C, width, bias=bias), SquaredReLU()]
    else:
        hidden = [nn.Linear(C, width, bias=bias), nn.GELU()]
    return nn.Sequential(*hidden, nn.Linear(width, C, bias=bias))


def modern_norm(config: ModernConfig) -> nn.Module:
    """LayerNorm, or RMSNorm: x / root mean square(x), times a gain (Zhang and Sennrich 2019)."""
    if config.rms_norm:
        return nn.RMSNorm(config.n_embd, eps=1e-5)
    return nn.LayerNorm(config.n_embd, bias=config.bias)


class ModernBlock(Block):
    """The plain block with its parts exchanged: (B, T, C) -> (B, T, C)."""

    def __init__(self, config: ModernConfig):
        super().__init__(config)
        self.norm1 = modern_norm(config)
        self.attention = ModernAttention(config)
        self.norm2 = modern_norm(config)
        self.mlp = modern_mlp(config)


# ---------------------------------------------------------------- n-gram tables
def ngram_rows(tokens: Int64[Tensor, "B T"], n: int, vocab_size: int, rows: int) -> Int64[Tensor, "B T"]:
    """At each place, the row of a table that belongs to the last `n` tokens.

    The tokens are read as digits in base V + 1, those before the text as V, and the row is that
    number modulo `rows`. With (V + 1)^n rows each n-gram has its own, with fewer some share one
    (the hashing trick: Weinberger et al. 2009, section 2; Svenstrup et al. 2017, Hash Embeddings).
    """
    number = tokens
    for back in range(1, n):
        before = F.pad(tokens, (back, 0), value=vocab_size)[:, : tokens.shape[1]]
        # Modulo, so that nothing overflows.
        number = number + before * pow(vocab_size + 1, back, rows)
    return number % rows


class TokenCache(KVCache):
    """A KVCache that keeps the tokens too, because the n-gram tables look back at them."""

    tokens: Tensor | None = None

    def extend(self, tokens: Int64[Tensor, "B T"]) -> Int64[Tensor, "B T_past"]:
        """Keep the new tokens, and return the earlier ones; to be called before the layers are."""
        past = tokens[:, :0] if self.tokens is None else self.tokens[:, : len(self)]
        self.tokens = torch.cat([past, tokens], dim=1)
        return past


# ---------------------------------------------------------------- the model
class ModernGPT(GPT):
    """A GPT with the changes that its config names: (B, T) -> logits (B, T, V).

    Besides those above:
    - a head of its own (Press and Wolf 2017 recommend the shared one);
    - residual branches that start at 0: each block starts as the identity (Zhang et al. 2019,
      Fixup, section 3);
    - logits softly capped: softcap * tanh(logits / softcap) (Gemma 2, 2024, section 2);
    - embeddings that add the tokens before, with a table for each distance (Bengio et al. 2003, A
      Neural Probabilistic Language Model, section 2, put such vectors side by side).

    The plain parts are made first, and replaced. Each part that is made draws random numbers, and
    the lessons' numbers rest on that order. ConfigError as for GPT.
    """

    config: ModernConfig

    def __init__(self, config: ModernConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList(ModernBlock(config) for _ in range(config.n_layer))
        self.norm = modern_norm(config)
        if config.rotary:
            del self.position_embedding
        if not config.tied:
            self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        rows = {"2": config.bigrams, "3": config.trigrams, "4": config.fourgrams}
        self.tables = nn.ModuleDict()
        for n, count in rows.items():
            if count:
                self.tables[n] = nn.Embedding(count, config.n_embd)
        self.before = nn.ModuleList(nn.Embedding(config.vocab_size + 1, config.n_embd) for _ in range(config.before))
        self.apply(self._initialise)

    def _initialise(self, module: nn.Module) -> None:
        super()._initialise(module)
        if isinstance(module, ModernBlock) and self.config.zero_start:
            for projection in (module.attention.out_proj, module.mlp[-1]):
                nn.init.zeros_(projection.weight)

    def embed(
        self,
        tokens: Int64[Tensor, "B T"],
        start: int = 0,
        past: Int64[Tensor, "B start"] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """Token embeddings, plus those of positions, n-grams and tokens before, if there are any.

        The first token stands at position `start`; `past` are the tokens before it, at which
        n-grams look back.
        """
        text = tokens if past is None else torch.cat([past, tokens], dim=1)
        end = start + tokens.shape[1]
        self.refuse_more_than_the_context(end)
        V = self.config.vocab_size
        x = self.token_embedding(tokens)
        for n, table in self.tables.items():
            rows = ngram_rows(text, int(n), V, table.num_embeddings)
            x = x + table(rows[:, start:])
        for back, table in enumerate(self.before, start=1):
            earlier = F.pad(text, (back, 0), value=V)  # before the first token stands V
            x = x + table(earlier[:, start:end])
        if not self.config.rotary:
            x = x + self.position_embedding.weight[start:end]
        return self.dropout(x)

    def forward(self, tokens: Int64[Tensor, "B T"], cache: list[KVCache] | None = None) -> Float[Tensor, "B T V"]:
        past = self.past_of(tokens, cache)
        x = self.embed(tokens, past.shape[1], past)
        return self.logits(self.through_blocks(x, cache))

    def past_of(self, tokens: Int64[Tensor, "B T"], cache: list[KVCache] | None) -> Int64[Tensor, "B T_past"]:
        """The tokens before these: the cache keeps them, too."""
        if not cache:
            return tokens[:, :0]
        first_cache = cache[0]
        assert isinstance(first_cache, TokenCache)  # as `new_cache` makes it
        return first_cache.extend(tokens)

    def logits(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch V"]:
        logits = super().logits(x)
        cap = self.config.softcap
        return cap * torch.tanh(logits / cap) if cap else logits

    def new_cache(self) -> list[KVCache]:
        return [TokenCache(self.config.context_length) for _ in self.blocks]
