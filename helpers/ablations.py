"""What matters: one small GPT, trained again and again, each time with one part taken out or exchanged.

Notebook 10 builds single variants and reads the tables in MEASURED, which `make ablations` writes.
"""

import csv
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention
from helpers.data import CharTokenizer, split
from helpers.errors import ConfigError
from helpers.gpt import GPT, Block, GPTConfig, count_parameters
from helpers.guards import evaluating
from helpers.sampling import generate
from helpers.training import TrainConfig, cross_entropy, evaluate, train

SIZES: dict[str, Any] = dict(context_length=64, n_layer=4, n_head=4, n_embd=64)
BUDGET = TrainConfig(batch_size=16, max_steps=1000, eval_interval=1000, learning_rate=3e-3, min_learning_rate=3e-4)
MEASURED = Path(__file__).parents[1] / "notebooks" / "measured"
WHOLE = "the whole model"


# ---------------------------------------------------------------- how a part is taken out
class Nothing(nn.Module):
    """A branch that adds zero: in the place of an attention or an MLP that is taken out."""

    def forward(self, x: Tensor, cache: None = None) -> Tensor:
        return torch.zeros_like(x)


def attend(
    layer: MultiHeadAttention,
    x: Float[Tensor, "B T C"],
    cache: None = None,
    *,
    causal: bool = True,
    scaled: bool = True,
    axis: int = -1,
) -> Float[Tensor, "B T C"]:
    """Multi-head attention spelled out, so that the mask, the root and the axis of the softmax can be changed."""
    query, key, value = (layer.split_heads(W(x)) for W in (layer.W_query, layer.W_key, layer.W_value))
    scores = query @ key.transpose(-2, -1)
    if scaled:
        scores = scores / math.sqrt(key.shape[-1])
    if causal:
        scores = scores.masked_fill(~layer.mask[: x.shape[1], : x.shape[1]], float("-inf"))
    return layer.out_proj(layer.join_heads(scores.softmax(dim=axis) @ value))


def without_residual(block: Block, x: Tensor, cache: None = None) -> Tensor:
    return block.mlp(block.norm2(block.attention(block.norm1(x))))


def post_norm(block: Block, x: Tensor, cache: None = None) -> Tensor:
    x = block.norm1(x + block.attention(x))
    return block.norm2(x + block.mlp(x))


def change_attention(model: GPT, **parts: object) -> None:
    for block in model.blocks:
        block.attention.forward = partial(attend, block.attention, **parts)


def change_blocks(model: GPT, forward: Callable[..., Tensor]) -> None:
    for block in model.blocks:
        block.forward = partial(forward, block)


def replace_in_blocks(model: GPT, names: Iterable[str], module: type[nn.Module]) -> None:
    for block in model.blocks:
        for name in names:
            setattr(block, name, module())


def remove_norms(model: GPT) -> None:
    replace_in_blocks(model, ["norm1", "norm2"], nn.Identity)
    model.norm = nn.Identity()


def set_positions(model: GPT, table: Tensor) -> None:
    """Fix the position embeddings at `table`: they are no longer learned."""
    model.position_embedding.weight.requires_grad_(False).copy_(table)


def sinusoids(T: int, C: int) -> Float[Tensor, "T C"]:
    """Sines in the even channels, cosines in the odd ones, of wavelengths from 2 pi to 10,000 * 2 pi (Vaswani et al.
    2017, section 3.5)."""
    frequency = 10_000 ** (-torch.arange(0, C, 2) / C)  # (C/2,)
    angle = torch.arange(T)[:, None] * frequency  # (T, C/2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :C]


def untie(model: GPT) -> None:
    model.head.weight = nn.Parameter(torch.randn_like(model.head.weight) * 0.02)


def use_post_norm(model: GPT) -> None:
    change_blocks(model, post_norm)
    model.norm = nn.Identity()  # the last block has just normalised


def sgd(model: GPT, config: TrainConfig) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=config.learning_rate, momentum=0.9)


@dataclass(frozen=True)
class Variant:
    """What differs from the whole model: its sizes, the training, or something that `change` does to the new GPT."""

    sizes: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, object] = field(default_factory=dict)
    change: Callable[[GPT], None] = lambda model: None
    optimizer: Callable[[GPT, TrainConfig], torch.optim.Optimizer] | None = None


VARIANTS = {
    WHOLE: Variant(),
    "no causal mask": Variant(change=partial(change_attention, causal=False)),
    "softmax over queries": Variant(change=partial(change_attention, axis=-2)),
    "no scaling": Variant(change=partial(change_attention, scaled=False)),
    "one head": Variant(sizes={"n_head": 1}),
    "no positions": Variant(change=lambda model: set_positions(model, torch.tensor(0.0))),
    "sinusoids, not learned": Variant(
        change=lambda model: set_positions(
            model, 0.02 * math.sqrt(2) * sinusoids(*model.position_embedding.weight.shape)
        )
    ),
    "no residual": Variant(change=partial(change_blocks, forward=without_residual)),
    "no LayerNorm": Variant(change=remove_norms),
    "post-norm": Variant(change=use_post_norm),
    "no attention": Variant(change=partial(replace_in_blocks, names=["attention"], module=Nothing)),
    "no MLP": Variant(change=partial(replace_in_blocks, names=["mlp"], module=Nothing)),
    "no MLP, 12 layers": Variant(
        sizes={"n_layer": 12}, change=partial(replace_in_blocks, names=["mlp"], module=Nothing)
    ),
    "untied head": Variant(change=untie),
    "no warm-up": Variant(budget={"warmup_steps": 0}),
    **{
        f"SGD, rate {rate}": Variant(budget={"learning_rate": rate, "min_learning_rate": rate / 10}, optimizer=sgd)
        for rate in (0.1, 0.3, 1.0)
    },
}


def build(name: str, vocab_size: int, seed: int) -> GPT:
    """A fresh GPT without what `name` says; ConfigError for a name that is not in VARIANTS."""
    if name not in VARIANTS:
        raise ConfigError(f"unknown variant {name!r}: choose one of {', '.join(VARIANTS)}")
    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=vocab_size, **SIZES | VARIANTS[name].sizes))
    with torch.no_grad():
        VARIANTS[name].change(model)
    return model


# ---------------------------------------------------------------- how the damage is measured
@torch.no_grad()
def writing_loss(model: nn.Module, tokens: Int64[Tensor, "N"], stride: int = 32) -> float:
    """Mean loss in nats at the LAST position of windows that start `stride` tokens apart: what a writer faces.

    Nothing stands after the last position, so a model that cheats by looking ahead cannot here.
    """
    T = model.config.context_length
    windows = tokens.unfold(0, T + 1, stride)
    with evaluating(model):
        losses = [cross_entropy(model(w[:, :-1])[:, -1:], w[:, -1:], reduction="sum") for w in windows.split(256)]
    return (sum(losses) / len(windows)).item()


def cut(config: TrainConfig, steps: int | None) -> TrainConfig:
    """`config`, or a run of so many steps (with a tenth of them to warm up, and no record between first and last)."""
    if steps is None:
        return config
    return replace(config, max_steps=steps, eval_interval=steps, warmup_steps=min(config.warmup_steps, steps // 10))


def run(name: str, seed: int, tokens: Int64[Tensor, "N"], tokenizer: CharTokenizer, steps: int | None = None) -> dict:
    """Train one variant; a line of the table: its losses on the validation split, what it writes, what it took."""
    start = time.perf_counter()
    variant, train_tokens, val_tokens = VARIANTS[name], *split(tokens, SIZES["context_length"])
    config = cut(replace(BUDGET, seed=seed, **variant.budget), steps)
    model = build(name, tokenizer.vocab_size, seed)
    optimizer = variant.optimizer(model, config) if variant.optimizer else None
    train(model, train_tokens, val_tokens, config, optimizer=optimizer)
    prompt, generator = tokenizer.encode("\n"), torch.Generator().manual_seed(1)
    text = generate(model, prompt, 200, temperature=0.8, generator=generator, use_cache=False, keep=1.0)
    return {
        "variant": name,
        "seed": seed,
        "parameters": count_parameters(model),
        "steps": config.max_steps,
        "writing_loss": round(writing_loss(model, val_tokens), 4),
        "parallel_loss": round(evaluate(model, val_tokens, SIZES["context_length"]), 4),
        "seconds": round(time.perf_counter() - start, 1),
        "text": json.dumps(tokenizer.decode(text[1:]), ensure_ascii=False),
    }


# ---------------------------------------------------------------- the tables
def read_table(path: Path) -> tuple[list[str], list[dict]]:
    """The comment lines of a table, and its lines with numbers as numbers."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = file.readlines()
    comments = [line[2:].strip() for line in lines if line.startswith("# ")]

    def value(text: str) -> object:
        try:
            return json.loads(text)
        except ValueError:
            return text

    table = csv.DictReader(line for line in lines if not line.startswith("# "))
    return comments, [{name: value(text) for name, text in line.items()} for line in table]
