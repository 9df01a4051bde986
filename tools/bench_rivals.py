"""What tools/bench.py holds our code against: the usual ways to write attention, and nanoGPT's model and loops.

Everything here takes the weights of ours and computes the same; tests/tooling/test_bench.py holds it to that. Shapes
are named as in helpers/core/attention.py.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from helpers.attention import MultiHeadAttention, attention
from helpers.gpt import GPT, GPTConfig
from helpers.optim import TrainConfig, learning_rate


# ---------------------------------------------------------------- attention
class Rival(nn.Module):
    """Causal self-attention with a copy of our weights, (B, T, C) -> (B, T, C): `mix` says how the heads are computed.

    The three projections are one matrix, the rows for queries first, then those for keys, then those for values.
    """

    def __init__(self, ours: MultiHeadAttention):
        super().__init__()
        parts = [layer.weight.detach() for layer in (ours.W_query, ours.W_key, ours.W_value)]
        self.qkv, self.out = nn.Parameter(torch.cat(parts)), nn.Parameter(ours.out_proj.weight.detach().clone())
        self.H = ours.num_heads
        self.register_buffer("mask", ours.mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        query, key, value = rearrange(F.linear(x, self.qkv), "b t (n h d) -> n b h t d", n=3, h=self.H)
        return F.linear(rearrange(self.mix(query, key, value, self.mask[:T, :T]), "b h t d -> b t (h d)"), self.out)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Combined projections; then attention as in the formula."""
        return attention(query, key, value, mask)[0]


class Loop(Rival):
    """One head after the other, each with projections of its own."""

    def forward(self, x: Tensor) -> Tensor:
        mask = self.mask[: x.shape[1], : x.shape[1]]
        matrices = self.qkv.view(3, self.H, -1, x.shape[2]).transpose(0, 1).unbind()  # H times (3, D, C)
        heads = [attention(*(F.linear(x, W) for W in three.unbind()), mask)[0] for three in matrices]
        return F.linear(torch.cat(heads, dim=-1), self.out)


class OneMatmul(Rival):
    """A projection each for queries, keys and values of all heads; then attention as in the formula."""

    def forward(self, x: Tensor) -> Tensor:
        B, T = x.shape[:2]
        query, key, value = (F.linear(x, W).view(B, T, self.H, -1).transpose(1, 2) for W in self.qkv.chunk(3))
        context = attention(query, key, value, self.mask[:T, :T])[0]
        return F.linear(context.transpose(1, 2).flatten(2), self.out)


class Einsum(Rival):
    """The formula as sums over named dimensions."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        scores = einsum(query, key, "b h t d, b h s d -> b h t s") / math.sqrt(query.shape[-1])
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        return einsum(weights, value, "b h t s, b h s d -> b h t d")


class CausalSDPA(Rival):
    """PyTorch's fused attention, bare, with its flag for the causal mask."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class MaskedSDPA(Rival):
    """The same, with the mask as a matrix."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, mask)


class PyTorchs(Rival):
    """PyTorch's own layer."""

    def __init__(self, ours: MultiHeadAttention):
        super().__init__(ours)
        self.layer = nn.MultiheadAttention(self.out.shape[1], self.H, bias=False, batch_first=True)
        self.layer.in_proj_weight, self.layer.out_proj.weight = self.qkv, self.out

    def forward(self, x: Tensor) -> Tensor:
        forbidden = ~self.mask[: x.shape[1], : x.shape[1]]  # there, True means forbidden
        return self.layer(x, x, x, attn_mask=forbidden, need_weights=False, is_causal=True)[0]


class Flex(Rival):
    """FlexAttention; compiled, as it is meant to be used. On the CPU it has no backward pass."""

    def __init__(self, ours: MultiHeadAttention, compiled: bool = True):
        super().__init__(ours)
        T = len(self.mask)
        self.allowed = create_block_mask(lambda b, h, t, s: s <= t, None, None, T, T, device=str(self.mask.device))
        self.attention = torch.compile(flex_attention) if compiled else flex_attention

    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return self.attention(query, key, value, block_mask=self.allowed)


WAYS: dict[str, type[Rival]] = {
    "heads in a loop": Loop,
    "one matmul each for query, key, value": OneMatmul,
    "combined QKV": Rival,
    "einsum": Einsum,
    "bare SDPA, causal flag": CausalSDPA,
    "bare SDPA, mask": MaskedSDPA,
    "nn.MultiheadAttention": PyTorchs,
}


# ---------------------------------------------------------------- nanoGPT
class NanoBlock(nn.Module):
    """nanoGPT's block: attention with combined projections and PyTorch's fused kernel, then the MLP."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        C, bias = config.n_embd, config.bias
        self.config, self.norm1, self.norm2 = config, nn.LayerNorm(C, bias=bias), nn.LayerNorm(C, bias=bias)
        self.qkv, self.out = nn.Linear(C, 3 * C, bias=bias), nn.Linear(C, C, bias=bias)
        self.up, self.gelu, self.down = nn.Linear(C, 4 * C, bias=bias), nn.GELU(), nn.Linear(4 * C, C, bias=bias)
        self.dropout, self.dropout2 = nn.Dropout(config.dropout), nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        (B, T, C), H = x.shape, self.config.n_head
        parts = self.qkv(self.norm1(x)).split(C, dim=2)
        query, key, value = (part.view(B, T, H, C // H).transpose(1, 2) for part in parts)
        dropped = self.config.dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, dropout_p=dropped, is_causal=True)
        x = x + self.dropout(self.out(context.transpose(1, 2).contiguous().view(B, T, C)))
        return x + self.dropout2(self.down(self.gelu(self.up(self.norm2(x)))))


class NanoGPT(nn.Module):
    """nanoGPT's model (Karpathy 2022, model.py) with a copy of our weights: tokens (B, T) -> logits.

    With `targets` those of all places, and the loss; without, those of the last place only: (B, 1, V).
    """

    def __init__(self, ours: GPT):
        super().__init__()
        self.config = config = ours.config
        self.tokens = nn.Embedding(config.vocab_size, config.n_embd)
        self.positions = nn.Embedding(config.context_length, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(NanoBlock(config) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.load_state_dict(in_nanos_names(ours))
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if targets is None:
            return self.head(x[:, [-1], :]), None
        logits = self.head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1), ignore_index=-1)


def in_nanos_names(ours: GPT) -> dict[str, Tensor]:
    """The weights of our GPT under the names of NanoGPT, which has one matrix for queries, keys and values."""
    names = {"token_embedding": "tokens", "position_embedding": "positions", "attention.out_proj": "out"}
    names |= {"mlp.0": "up", "mlp.2": "down"}
    weights: dict[str, Tensor] = {}
    for name, weight in ours.state_dict().items():
        for old, new in names.items():
            name = name.replace(f"{old}.", f"{new}.")
        for part in ("query", "key", "value"):  # the order in which they lie in the state dict
            name = name.replace(f"attention.W_{part}.", "qkv.")
        weights[name] = torch.cat([weights[name], weight]) if name in weights else weight
    return weights


def windows(path: Path, config: GPTConfig, batch_size: int) -> tuple[Tensor, Tensor]:
    """A batch as nanoGPT's train.py draws it: a slice of a memory-mapped file for each window, and a stack of them."""
    T, data = config.context_length, np.memmap(path, dtype=np.uint16, mode="r")  # anew each time: it leaks otherwise
    starts = torch.randint(len(data) - T, (batch_size,)).tolist()
    x, y = ([torch.from_numpy(data[i + s : i + s + T].astype(np.int64)) for i in starts] for s in (0, 1))
    return torch.stack(x), torch.stack(y)


def nano_updates(model: NanoGPT, path: Path, config: TrainConfig) -> Iterator[float]:
    """The loop of nanoGPT's train.py on a CPU, without its evaluations; each update yields its loss.

    The next batch is drawn between forward and backward, and AdamW is the one that PyTorch takes by itself there.
    """
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    model.train()
    x, y = windows(path, model.config, config.batch_size)
    for step in range(config.max_steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config)
        _, loss = model(x, y)
        x, y = windows(path, model.config, config.batch_size)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        yield loss.item()


@torch.no_grad()
def nano_generate(model: NanoGPT, tokens: Tensor, max_new_tokens: int, generator: torch.Generator) -> Tensor:
    """nanoGPT's `generate`: the last tokens (B, T) through the whole model for each new one, nothing kept."""
    for _ in range(max_new_tokens):
        logits = model(tokens[:, -model.config.context_length :])[0]
        chances = F.softmax(logits[:, -1], dim=-1)
        tokens = torch.cat([tokens, torch.multinomial(chances, 1, generator=generator)], dim=1)
    return tokens


# ---------------------------------------------------------------- data
def nano_alphabet(path: Path) -> tuple[str, dict[str, int]]:
    """The first half of nanoGPT's data/shakespeare_char/prepare.py: the text, and the number of each character."""
    text = path.read_text(encoding="utf-8")
    return text, {character: i for i, character in enumerate(sorted(set(text)))}


def nano_encode(text: str, number: dict[str, int]) -> np.ndarray:
    """The second half: the ids, character by character."""
    return np.array([number[character] for character in text], dtype=np.uint16)
