"""From nanoGPT's recipe to the speedrun, one change after the other, and the steps that each takes to a loss of 1.90.

For notebook 12 (`make ladder`). A rung keeps all changes of those below it.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

import torch
from jaxtyping import Integer
from torch import Tensor

from helpers.core.data import split
from helpers.core.gpt import count_parameters
from helpers.core.modern import ModernConfig, ModernGPT
from helpers.core.optim import TrainConfig, make_optimizer
from helpers.core.training import evaluate, updates
from helpers.runs.presets import PRESETS, TABLES
from helpers.support import console


@dataclass(frozen=True)
class Rung:
    """What one rung changes. `steps`: about how many take it to the target, found with another seed than the table's.

    `model` replaces some of ModernConfig's settings, `training` some of TrainConfig's.
    """

    steps: int
    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


laptop, speedrun = PRESETS["laptop"], PRESETS["speedrun"]
plain = dict(batch_size=12, learning_rate=1e-3, min_learning_rate=1e-4, warmup_steps=100, betas=(0.9, 0.99))
steeper = dict(learning_rate=3e-3, min_learning_rate=0.0, warmup_steps=30, schedule="stable", decay=0.8)
muon = dict(learning_rate=0.01, warmup_steps=0, weight_decay=0.0, optimizer="muon", muon_scale=3.0)
bolder = dict(batch_size=64, learning_rate=0.03, betas=(0.6, 0.95), muon_scale=2.0, muon_momentum=0.85)
SHAPE = ("rotary", "qk_norm", "mlp", "zero_start", "softcap")
RUNGS = {
    "nanoGPT's recipe": Rung(1800, laptop.model, plain),
    "higher rate, straight decay": Rung(1107, {}, steeper),
    "Muon": Rung(414, {}, muon),
    "rotary to softcap": Rung(309, {name: speedrun.model[name] for name in SHAPE}),
    "pairs in a table": Rung(215, {"bigrams": TABLES["bigrams"]}),
    "and triples": Rung(147, {"trigrams": TABLES["trigrams"]}),
    "and fours": Rung(101, {"fourgrams": TABLES["fourgrams"]}),
    "a head of its own": Rung(81, {"tied": False}),
    "one layer of width 64": Rung(83, speedrun.model),
    "bigger batches, bolder steps": Rung(17, {}, bolder),
}


class Climb(NamedTuple):
    """One training: a rung, how many steps, and the seed."""

    variant: str
    steps: int
    seed: int

    def __str__(self) -> str:
        return f"{self.variant}, {self.steps} steps, seed {self.seed}"


@dataclass(frozen=True)
class Ladder:
    """Each rung is trained for a bit less and a bit more than it needs; between the two, the target is interpolated."""

    target: float = 1.90
    around: tuple[float, float] = (0.85, 1.2)  # times a rung's steps
    seeds: int = 3

    def budget(self) -> str:
        less, more = self.around
        return f"to a loss of {self.target}; {self.seeds} seeds, each with {less} and {more} times a rung's steps"


def build(name: str, vocab_size: int, steps: int, seed: int) -> tuple[ModernGPT, TrainConfig]:
    """A fresh model of the rung, and how it trains."""
    sizes, settings = {}, {}
    for rung in list(RUNGS.values())[: list(RUNGS).index(name) + 1]:
        sizes |= rung.model
        settings |= rung.training
    config = TrainConfig(max_steps=steps, eval_interval=steps, seed=seed, **settings)
    torch.manual_seed(seed)
    return ModernGPT(ModernConfig(vocab_size=vocab_size, **sizes)), config


# ---------------------------------------------------------------- the four verbs that `make study` calls
def plan(ladder: Ladder, lines: Iterable[dict]) -> list[Climb]:
    """Every run, seed by seed, so that a table that is cut off has all rungs."""
    seeds = range(1, ladder.seeds + 1)
    return [
        Climb(name, round(rung.steps * part), seed)
        for seed in seeds
        for name, rung in RUNGS.items()
        for part in ladder.around
    ]


def missing(ladder: Ladder, lines: Iterable[dict]) -> list[Climb]:
    done = {Climb(*(line[part] for part in Climb._fields)) for line in lines}
    return [run for run in plan(ladder, lines) if run not in done]


def measure(
    ladder: Ladder, run: Climb, tokens: Integer[Tensor, "N"], vocab_size: int, device: str = "cpu"
) -> dict[str, Any]:
    """Train once; a line of the table. The processor's seconds are those of the updates, the evaluation's apart."""
    model, config = build(run.variant, vocab_size, run.steps, run.seed)
    optimizer = make_optimizer(model, config)
    T, generator = model.config.context_length, torch.Generator().manual_seed(run.seed)
    train_tokens, val_tokens = split(tokens, T)
    start = time.process_time()
    for _ in updates(model, train_tokens, config, optimizer, generator):
        pass
    seconds = time.process_time() - start
    loss = round(evaluate(model, val_tokens, T), 5)
    return {**run._asdict(), "parameters": count_parameters(model), "loss": loss, "seconds": round(seconds, 2)}


def to_target(ladder: Ladder, lines: Iterable[dict]) -> dict[str, list[tuple[float, float]]]:
    """By rung, for each seed the steps and the seconds to the target: on the line through two runs, in log steps."""
    found: dict[str, list[tuple[float, float]]] = {}
    lines = list(lines)
    for name in RUNGS:
        for seed in range(1, ladder.seeds + 1):
            runs = [line for line in lines if (line["variant"], line["seed"]) == (name, seed)]
            if len(runs) < 2:
                continue
            less, more = sorted(runs, key=lambda line: line["steps"])
            share = (less["loss"] - ladder.target) / (less["loss"] - more["loss"])
            steps = less["steps"] * math.exp(share * math.log(more["steps"] / less["steps"]))
            per_step = (less["seconds"] + more["seconds"]) / (less["steps"] + more["steps"])
            found.setdefault(name, []).append((steps, steps * per_step))
    return found


def report(ladder: Ladder, lines: list[dict]) -> str:
    """The ladder as a table of text: steps and seconds to the target (mean over seeds), and what each rung gains."""
    rows, first, before = [], 0.0, 0.0
    sizes = {line["variant"]: line["parameters"] for line in lines}
    for name, seeds in to_target(ladder, lines).items():
        steps, seconds = (fmean(column) for column in zip(*seeds, strict=True))
        first, before = first or seconds, before or seconds
        low, high = (bound(steps for steps, _ in seeds) for bound in (min, max))
        gains = (f"{since / seconds:.1f}" for since in (before, first))
        rows.append([name, sizes[name], f"{steps:,.0f}", f"{low:,.0f} to {high:,.0f}", f"{seconds:.1f}", *gains])
        before = seconds
    return console.table(["rung", "parameters", "steps", "over seeds", "seconds", "factor", "speed-up"], rows)
