"""How fast this project is beside others:  python -m tools.bench [group]

Each line is a ratio of medians: ours and the rival take turns in one process, so that whatever else
the machine does hits both. Below 1, ours takes less time. All groups at full size make the table
notebooks/measured/bench.csv; one group alone, or small sizes (--quick), are only printed.
"""

import math
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention, attention
from helpers.data import BUNDLED_PLAY, CharTokenizer, prepare, split
from helpers.errors import Options, command, say, write
from helpers.gpt import GPT, GPTConfig
from helpers.optim import TrainConfig, learning_rate, make_optimizer
from helpers.presets import PRESETS
from helpers.sampling import generate
from helpers.tables import MEASURED, Line, csv_table
from helpers.training import evaluate, updates
from tools.provenance import made_by

Race = tuple[str, Callable, str, Callable]  # ours by name, ours, the rival by name, the rival


# ---------------------------------------------------------------- measuring
def race(ours: Callable, theirs: Callable, rounds: int, clock: Callable[[], float] = time.perf_counter) -> Line:
    """Call ours, theirs, ours, theirs, ...: the ratio of medians, and the range of the rounds' own.

    One more round comes first, for caches and imports, and doesn't count.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(1 + rounds):
        for run, seconds in zip((ours, theirs), taken, strict=True):
            start = clock()
            run()
            seconds.append(clock() - start)
    times, their_times = taken[0][1:], taken[1][1:]
    ratios = [a / b for a, b in zip(times, their_times, strict=True)]
    found = {
        "ratio": median(times) / median(their_times),
        "low": min(ratios),
        "high": max(ratios),
        "seconds": median(times),
        "their_seconds": median(their_times),
    }
    return {name: float(f"{value:.4g}") for name, value in found.items()} | {"rounds": rounds}


# ---------------------------------------------------------------- attention, in the usual ways
# Each maps queries, keys and values (B, H, T, D) and the causal mask (T, T) to contexts as wide.
def written_out(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return attention(query, key, value, mask)[0]


def head_by_head(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    heads = zip(query.unbind(1), key.unbind(1), value.unbind(1), strict=True)
    return torch.stack([attention(*head, mask)[0] for head in heads], dim=1)


def einsum(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    scores = torch.einsum("bhtd,bhsd->bhts", query, key) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return torch.einsum("bhts,bhsd->bhtd", weights, value)


WAYS = {
    "attention(), written out": written_out,
    "one head after another": head_by_head,
    "torch.einsum": einsum,
}


def in_the_way(mix: Callable, layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """What `layer` computes, with its own weights, the heads by `mix`: (B, T, C) -> (B, T, C)."""
    context = mix(*layer.query_key_value(x), layer.mask[: x.shape[1], : x.shape[1]])
    return layer.out_proj(layer.join_heads(context))


# ---------------------------------------------------------------- nanoGPT
# Its model and loops (Karpathy 2022: model.py, train.py, prepare.py), rewritten for a CPU. Layers
# are named as in helpers/gpt.py, so that weights can be copied.
class NanoAttention(nn.Module):
    """One matrix for queries, keys and values; PyTorch's fused attention with its causal flag."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        C, bias = config.n_embd, config.bias
        self.n_head, self.dropout = config.n_head, config.dropout
        self.qkv, self.out_proj = nn.Linear(C, 3 * C, bias=bias), nn.Linear(C, C, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        (B, T, C), H = x.shape, self.n_head
        parts = self.qkv(x).split(C, dim=2)
        query, key, value = (part.view(B, T, H, C // H).transpose(1, 2) for part in parts)
        p = self.dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)
        return self.out_proj(context.transpose(1, 2).contiguous().view(B, T, C))


class NanoBlock(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        C, bias = config.n_embd, config.bias
        self.norm1, self.norm2 = nn.LayerNorm(C, bias=bias), nn.LayerNorm(C, bias=bias)
        self.attention = NanoAttention(config)
        up, down = nn.Linear(C, 4 * C, bias=bias), nn.Linear(4 * C, C, bias=bias)
        self.mlp = nn.Sequential(up, nn.GELU(), down)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class NanoGPT(nn.Module):
    """Tokens (B, T) -> logits (B, T, V) and loss; without `targets`, the last logits and None."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.n_embd)
        self.position_embedding = nn.Embedding(config.context_length, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(NanoBlock(config) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.head.weight = self.token_embedding.weight

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.token_embedding(tokens) + self.position_embedding(positions))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if targets is None:
            return self.head(x[:, [-1], :]), None
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, tokens: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Append `count` tokens to (B, T); for each, the whole window is computed anew."""
        for _ in range(count):
            logits, _ = self(tokens[:, -self.config.context_length :])
            drawn = torch.multinomial(logits[:, -1].softmax(dim=-1), 1, generator=generator)
            tokens = torch.cat([tokens, drawn], dim=1)
        return tokens


def in_nanos_names(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights under nanoGPT's names: those for queries, keys and values one below the other."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        name = re.sub("W_(query|key|value)", "qkv", name)  # they stand in this order
        found[name] = torch.cat([found[name], weight]) if name in found else weight
    return found


def nano_copy(ours: GPT) -> NanoGPT:
    """nanoGPT's model with a copy of our weights."""
    theirs = NanoGPT(ours.config)
    theirs.load_state_dict(in_nanos_names(ours.state_dict()))
    return theirs


def nano_batch(data: np.ndarray, batch_size: int, T: int) -> tuple[Tensor, Tensor]:
    """Random windows of `data` (uint16), and the same one token later, (B, T) each."""
    starts = torch.randint(len(data) - T, (batch_size,)).tolist()
    x = torch.stack([torch.from_numpy(data[i : i + T].astype(np.int64)) for i in starts])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + T].astype(np.int64)) for i in starts])
    return x, y


def nano_updates(model: NanoGPT, data: np.ndarray, config: TrainConfig) -> Iterator[float]:
    """One update after the other; yields the loss of each batch.

    The next batch is drawn between forward and backward; AdamW is the one that PyTorch chooses.
    """
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas)
    model.train()
    x, y = nano_batch(data, config.batch_size, model.config.context_length)
    for step in range(config.max_steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config)
        _, loss = model(x, y)
        x, y = nano_batch(data, config.batch_size, model.config.context_length)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss.item()


@torch.no_grad()
def nano_loss(model: NanoGPT, data: np.ndarray, batches: int, batch_size: int) -> float:
    """The mean loss of random batches: an estimate, which differs from call to call."""
    model.eval()
    total = 0.0
    for _ in range(batches):
        _, loss = model(*nano_batch(data, batch_size, model.config.context_length))
        total += loss.item()
    return total / batches


def nano_prepare(text: Path, folder: Path) -> None:
    """A text as two files of uint16, one for each character: 90% to train on, 10% to validate."""
    characters = text.read_text(encoding="utf-8")
    number = {character: i for i, character in enumerate(sorted(set(characters)))}
    cut = int(0.9 * len(characters))
    for name, part in (("train.bin", characters[:cut]), ("val.bin", characters[cut:])):
        np.array([number[c] for c in part], dtype=np.uint16).tofile(folder / name)


# ---------------------------------------------------------------- the groups
V = 65  # different characters, as in tiny Shakespeare; the bundled play has fewer


def attention_races(quick: bool) -> Iterator[Race]:
    """One layer, forward and backward, to its input and its weights."""
    B, T, C, H = (2, 64, 32, 4) if quick else (8, 1024, 768, 12)
    torch.manual_seed(1)
    layer = MultiHeadAttention(C, C, T, 0.0, H, out_bias=False)
    nano = NanoAttention(GPTConfig(V, T, n_layer=1, n_head=H, n_embd=C))
    nano.load_state_dict(in_nanos_names(layer.state_dict()))
    x, gradient = torch.randn(B, T, C, requires_grad=True), torch.randn(B, T, C)

    def both_passes(forward: Callable, weights: nn.Module) -> Callable:
        return lambda: torch.autograd.grad(forward(x), [x, *weights.parameters()], gradient)

    name = f"MultiHeadAttention, forward and backward, B {B}, T {T}, C {C}, H {H}"
    ours = both_passes(layer, layer)
    yield name, ours, "nanoGPT's layer", both_passes(nano, nano)
    for way, mix in WAYS.items():
        yield name, ours, way, both_passes(partial(in_the_way, mix, layer), layer)


def text_to_learn(quick: bool, T: int) -> tuple[Tensor, Tensor]:
    """About a million tokens, as tiny Shakespeare has, to train on and to validate."""
    text = BUNDLED_PLAY.read_text(encoding="utf-8") * (1 if quick else 22)
    return split(CharTokenizer.from_text(text).encode(text).byte(), T)


def as_nano_keeps(tokens: Tensor) -> np.ndarray:
    return tokens.numpy().astype(np.uint16)


def training_races(quick: bool) -> Iterator[Race]:
    steps = 2 if quick else 20

    def some_of(loop: Iterator) -> Callable:
        return lambda: list(islice(loop, steps))

    for name in ("smoke",) if quick else ("smoke", "laptop"):
        preset = PRESETS[name]
        config = replace(preset.training, max_steps=100_000)  # more than are asked for
        tokens, _ = text_to_learn(quick, preset.model["context_length"])
        torch.manual_seed(1)
        model = GPT(preset.model_config(V))
        theirs = nano_updates(nano_copy(model), as_nano_keeps(tokens), config)
        optimizer, dice = make_optimizer(model, config), torch.Generator().manual_seed(1)
        ours = updates(model, tokens, config, optimizer, dice)
        yield f"{name}, {steps} steps of training", some_of(ours), "nanoGPT's loop", some_of(theirs)


def evaluation_races(quick: bool) -> Iterator[Race]:
    """The loss on a whole text beside nanoGPT's estimate from as many tokens."""
    name = "smoke" if quick else "laptop"
    T, B = PRESETS[name].model["context_length"], PRESETS[name].training.batch_size
    _, tokens = text_to_learn(quick, T)
    model = GPT(PRESETS[name].model_config(V))
    ours = partial(evaluate, model, tokens, T)
    batches = round(len(tokens) / (B * T))
    theirs = partial(nano_loss, nano_copy(model), as_nano_keeps(tokens), batches, B)
    yield f"{name}, loss on {len(tokens):,} tokens", ours, "nanoGPT's estimate", theirs


def generation_races(quick: bool) -> Iterator[Race]:
    for name, beyond in ({"smoke": 40} if quick else {"laptop": 500, "gpu": 600}).items():
        torch.manual_seed(1)
        model = GPT(PRESETS[name].model_config(V))
        nano, dice = nano_copy(model).eval(), torch.Generator().manual_seed(1)
        prompt = torch.zeros(1, dtype=torch.long)
        within = model.config.context_length
        for count, where in ((within, "within the window"), (beyond, "beyond the window")):
            label = f"{name}, {count} tokens, {where}"
            ours = partial(generate, model, prompt, count, generator=dice)
            theirs = partial(nano.generate, prompt[None], count, dice)
            yield label, ours, "nanoGPT's loop", theirs
            yield label, ours, "ours without the cache", partial(ours, use_cache=False)


def data_races(quick: bool) -> Iterator[Race]:
    megabytes = 1 if quick else 20
    once = BUNDLED_PLAY.read_bytes()
    with TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "text.txt"
        text.write_bytes(once * (megabytes * 1_000_000 // len(once)))
        ours = partial(prepare, [text], folder / "ours", overwrite=True)
        theirs = partial(nano_prepare, text, folder)
        yield f"preparing {megabytes} MB", ours, "nanoGPT's recipe", theirs


GROUPS: dict[str, Callable[[bool], Iterator[Race]]] = {
    "attention": attention_races,
    "training": training_races,
    "evaluation": evaluation_races,
    "generation": generation_races,
    "data": data_races,
}


# ---------------------------------------------------------------- the command
def about(program: str) -> list[str]:
    """The comment lines of a table: how it was made, and where."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux; elsewhere Python knows the name
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    named = re.search(r"model name\s*: (.+)", text)
    processor = named[1] if named else platform.processor()
    cores, threads = os.cpu_count(), torch.get_num_threads()
    return [
        made_by(program),
        f"machine: {processor}, {cores} logical cores, {platform.system()} {platform.machine()}",
        f"{threads} threads, Python {platform.python_version()}, torch {torch.__version__}",
    ]


def main(arguments: list[str]) -> None:
    parser = Options(prog="python -m tools.bench", description="Measure speed against rivals.")
    parser.add_argument("group", nargs="?", choices=GROUPS, help="only this one (all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--out", type=Path, help="file for what is measured, as a table")
    told = parser.parse_args(arguments)
    words = [parser.prog, told.group, "--quick" if told.quick else None]
    comments = about(" ".join(word for word in words if word))
    say("\n".join(comments))
    lines: list[Line] = []
    for group in [told.group] if told.group else GROUPS:
        for ours, run_ours, theirs, run_theirs in GROUPS[group](told.quick):
            found = race(run_ours, run_theirs, rounds=2 if told.quick else 9)
            lines.append({"group": group, "ours": ours, "theirs": theirs, **found})
            spread = f"{found['low']:.3g} to {found['high']:.3g}"
            say(f"{group}: {ours} / {theirs}: {found['ratio']:.3g} ({spread})")
    whole = not told.group and not told.quick
    if told.out or whole:
        write(told.out or MEASURED / "bench.csv", csv_table(lines, comments))


if __name__ == "__main__":
    sys.exit(command(main))
