"""The GPT of the series: nanoGPT's model, layer by layer in nanoGPT's order.

For a reader who comes from nanoGPT: wte, wpe, drop, h, ln_f, lm_head are called token_embedding, position_embedding,
dropout, blocks, norm, head here; c_attn's rows are W_query, W_key, W_value, one below the other; c_proj is out_proj.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import psutil
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.attention import KVCache, MultiHeadAttention
from helpers.errors import ConfigError
from helpers.guards import Range, Share, Width, checked, evaluating


@checked
@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a GPT. ConfigError when one of them makes no sense, or when the heads don't divide the width."""

    vocab_size: Annotated[int, Range(1, 0x110000)]  # Unicode has no more characters
    context_length: Width
    n_layer: Annotated[int, Range(1, 1_000)]
    n_head: Width
    n_embd: Width
    dropout: Share = 0.0
    bias: bool = False

    def __post_init__(self):
        if self.n_embd % self.n_head:
            raise ConfigError(f"n_head={self.n_head} does not divide n_embd={self.n_embd}: choose a divisor of it")


@checked
class Block(nn.Module):
    """One layer: tokens talk (attention), then each thinks (MLP); both add to what was there: (B, T, C) -> (B, T, C).

    Pre-norm, as in GPT-2 (Radford et al. 2019, section 2.3).
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        C, bias = config.n_embd, config.bias
        self.norm1 = nn.LayerNorm(C, bias=bias)
        self.attention = MultiHeadAttention(
            C, C, config.context_length, config.dropout, config.n_head, qkv_bias=bias, out_bias=bias
        )
        self.norm2 = nn.LayerNorm(C, bias=bias)
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C, bias=bias), nn.GELU(), nn.Linear(4 * C, C, bias=bias))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "B T C"], cache: KVCache | None = None) -> Float[Tensor, "B T C"]:
        x = x + self.dropout(self.attention(self.norm1(x), cache=cache))
        return x + self.dropout(self.mlp(self.norm2(x)))


@checked
class GPT(nn.Module):
    """Tokens -> a score for every possible next token, at every position: (B, T) -> logits (B, T, V).

    With equal weights it gives nanoGPT's logits. Initialisation: N(0, 0.02), the two projections that end each
    residual branch scaled by 1/sqrt(2 L) (GPT-2, section 2.3). The head shares its matrix with the token embedding.
    ConfigError when the weights and masks are larger than the memory.
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        _refuse_more_than_memory(config)
        self.token_embedding = nn.Embedding(config.vocab_size, config.n_embd)
        self.position_embedding = nn.Embedding(config.context_length, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.head.weight = self.token_embedding.weight
        self.apply(self._initialise)

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, Block):  # `apply` reaches a block after its layers
            for projection in (module.attention.out_proj, module.mlp[-1]):
                nn.init.normal_(projection.weight, std=0.02 / math.sqrt(2 * self.config.n_layer))

    def embed(self, tokens: Int64[Tensor, "B T"], start: int = 0) -> Float[Tensor, "B T C"]:
        """Token plus position embeddings; the first token stands at position `start`."""
        if tokens.ndim != 2 or tokens.dtype not in (torch.int32, torch.int64):
            raise ConfigError(f"tokens must be whole numbers (B, T), not {tokens.dtype} {tuple(tokens.shape)}")
        end = start + tokens.shape[1]
        if end > self.config.context_length:
            raise ConfigError(f"{end} tokens do not fit into a context of {self.config.context_length}: crop them")
        positions = torch.arange(start, end, device=tokens.device)
        return self.dropout(self.token_embedding(tokens) + self.position_embedding(positions))

    def forward(self, tokens: Int64[Tensor, "B T"], cache: list[KVCache] | None = None) -> Float[Tensor, "B T V"]:
        x = self.embed(tokens, start=len(cache[0]) if cache else 0)
        for i, block in enumerate(self.blocks):
            x = block(x, cache[i] if cache else None)
        return self.head(self.norm(x))

    def new_cache(self) -> list[KVCache]:
        """An empty cache for `forward`: one entry a layer."""
        return [KVCache(self.config.context_length) for _ in self.blocks]

    def bare(self) -> Any:
        """This model as `bare` strips it, for one who calls it once a token: on a CPU with its matrices by column."""
        here = {weight.device.type for weight in self.parameters()} == {"cpu"}
        return bare(self, by_column=here and 4 * count_parameters(self) < psutil.virtual_memory().available / 2)

    def is_plain(self) -> bool:
        """Whether all its parts are this project's and PyTorch's, none of the reader's own."""
        return all(type(part) in PLAIN for part in self.modules())


def _refuse_more_than_memory(config: GPTConfig) -> None:
    V, T, L, C = config.vocab_size, config.context_length, config.n_layer, config.n_embd
    needed, there = 4 * (V + T + 12 * L * C) * C + L * T * T, psutil.virtual_memory().total
    if needed > there and torch.get_default_device().type != "meta":
        raise ConfigError(f"a model of this size takes {needed / 1e9:,.0f} GB, and this machine has {there / 1e9:,.0f}")


PLAIN = {GPT, Block, MultiHeadAttention, nn.ModuleList, nn.Sequential}
PLAIN |= {nn.Embedding, nn.LayerNorm, nn.Linear, nn.GELU, nn.Dropout}


def bare(module: nn.Module, by_column: bool = False) -> Any:
    """The module without what nn.Module costs at each call: the same `forward` on the same tensors, in the same mode.

    For writing token by token, where that cost counts. What is in `PLAIN` is stripped, part by part; a part of another
    class, with a hook, or with a `forward` of its own stays as it is. Hooks on every module of the process are not
    called, and what is changed afterwards is not seen, except for values of weights.

    `by_column` copies the matrices of linear layers, and puts the columns, not the rows, one after the other: the same
    numbers, and a product with one vector takes a third less time (width 384, one core). Then the weights' values are
    those of now as well.
    """
    kind, own = type(module), vars(module)
    if kind not in PLAIN or "forward" in own or any(own[name] for name in own if name.endswith("_hooks")):
        return module
    if kind is nn.Dropout and not module.training:
        return lambda x: x
    children = {name: bare(child, by_column) for name, child in module._modules.items()}
    copy = object.__new__(_called_directly(kind, kind.forward))
    vars(copy).update(own | module._parameters | module._buffers | children, _modules=children)
    if by_column and kind is nn.Linear:
        vars(copy)["weight"] = module.weight.detach().t().contiguous().t()
    return copy


@functools.cache
def _called_directly(kind: type, forward: Callable) -> type:
    return type(kind.__name__, (kind,), {"__call__": forward})


@torch.no_grad()
def attention_maps(model: GPT, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "L B H T T"]:
    """The attention weights of every layer and head, without dropout: row = query, column = key."""
    with evaluating(model):
        x, maps = model.embed(tokens), []
        for block in model.blocks:
            maps.append(block.attention(block.norm1(x), return_weights=True)[1])
            x = block(x)
    return torch.stack(maps)


def count_parameters(model: nn.Module) -> int:
    """Parameters of a model, shared ones counted once."""
    return sum(p.numel() for p in model.parameters())
