"""The GPT of the series: nanoGPT's model, layer by layer in nanoGPT's order.

For a reader who comes from nanoGPT: wte is token_embedding here, wpe position_embedding, drop
dropout, h blocks, ln_f norm, lm_head head; c_attn is W_query, W_key and W_value, one below the
other; c_proj is out_proj.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.attention import KVCache, MultiHeadAttention
from helpers.errors import ConfigError
from helpers.rules import Rule, require, whole

LARGEST = 16_384  # width of a matrix or a context: a square matrix of it takes 1 GB


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a GPT; ConfigError when one is out of range, or the heads don't divide the width."""

    vocab_size: int
    context_length: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float = 0.0
    bias: bool = False

    def __post_init__(self):
        require(self, "vocab_size", whole(1, 0x110000))  # Unicode has no more characters
        require(self, "context_length n_layer n_head n_embd", whole(1, LARGEST))
        require(self, "dropout", Rule(lambda p: 0 <= p <= 1, "a share from 0 to 1"))
        if self.n_embd % self.n_head:
            heads, width = f"n_head={self.n_head}", f"n_embd={self.n_embd}"
            raise ConfigError(f"{heads} does not divide {width}: choose a divisor of it")


class Block(nn.Module):
    """One layer: tokens talk (attention), then each thinks (MLP): (B, T, C) -> (B, T, C).

    Both add to what was there. Pre-norm, as in GPT-2 (Radford et al. 2019, section 2.3).
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


class GPT(nn.Module):
    """Tokens (B, T) -> logits (B, T, V), a score for every next token at every position.

    With equal weights it gives nanoGPT's logits. Initialisation: N(0, 0.02), the last projection of
    each residual branch scaled by 1/sqrt(2 L) (GPT-2, section 2.3). The head shares its matrix with
    the token embedding. ConfigError when the tokens outgrow the context.
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
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

    def forward(self, tokens: Int64[Tensor, "B T"], cache: list[KVCache] | None = None) -> Float[Tensor, "B T V"]:
        start = len(cache[0]) if cache else 0
        x = self.embed(tokens, start)
        return self.logits(self.through_blocks(x, cache))

    def through_blocks(self, x: Float[Tensor, "B T C"], cache: list[KVCache] | None = None) -> Float[Tensor, "B T C"]:
        caches = cache or [None] * len(self.blocks)
        for block, its_cache in zip(self.blocks, caches, strict=True):
            x = block(x, its_cache)
        return x

    def logits(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch V"]:
        """Logits from the residual stream, after the last layer or after any other."""
        return self.head(self.norm(x))

    def embed(self, tokens: Int64[Tensor, "B T"], start: int = 0) -> Float[Tensor, "B T C"]:
        """Token plus position embeddings; the first token stands at position `start`."""
        end = start + tokens.shape[1]
        self.refuse_more_than_the_context(end)
        positions = torch.arange(start, end, device=tokens.device)
        return self.dropout(self.token_embedding(tokens) + self.position_embedding(positions))

    def refuse_more_than_the_context(self, count: int) -> None:
        if count > self.config.context_length:
            context = f"a context of {self.config.context_length}"
            raise ConfigError(f"{count} tokens do not fit into {context}: crop them")

    def new_cache(self) -> list[KVCache]:
        """An empty cache for `forward`: one entry for each layer."""
        return [KVCache(self.config.context_length) for _ in self.blocks]


# ---------------------------------------------------------------- to look inside
class Passed(NamedTuple):
    """What a layer got, and what it made of that."""

    input: Tensor
    output: Tensor


@torch.no_grad()
def watch(model: nn.Module, x: Tensor, layers: Iterable[nn.Module]) -> dict[nn.Module, Passed]:
    """What passes through these `layers` of a model while it computes model(x), without dropout."""
    passed = {}

    def note(layer: nn.Module, inputs: tuple, output: Tensor) -> None:
        passed[layer] = Passed(inputs[0], output)

    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        with evaluating(model):
            model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return passed


@torch.no_grad()
def attention_weights(layer: MultiHeadAttention, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B H T T"]:
    """The weights with which a layer reads x, without dropout: row = query, column = key."""
    with evaluating(layer):
        _, weights = layer(x, return_weights=True)
    return weights


def attention_maps(model: GPT, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "L B H T T"]:
    """The `attention_weights` of every layer and head, as the model reads `tokens`."""
    layers = [block.attention for block in model.blocks]
    passed = watch(model, tokens, layers)
    return torch.stack([attention_weights(layer, passed[layer].input) for layer in layers])


def count_parameters(model: nn.Module) -> int:
    """Parameters of a model, shared ones counted once."""
    return sum(p.numel() for p in model.parameters())


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards each layer is in its own mode again, come what may."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside, for tensors so small that waking the others takes longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
