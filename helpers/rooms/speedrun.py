"""From nanoGPT's recipe to the speedrun, change by change: the steps to a loss of 1.90.

For the speedrun (`python -m tools.studies speedrun`). A rung keeps all changes of those below it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from jaxtyping import Integer
from torch import Tensor

from helpers import tables
from helpers.data import split
from helpers.gpt import GPT, count_parameters
from helpers.loss import evaluate
from helpers.optim import TrainConfig
from helpers.presets import PRESETS, TABLES
from helpers.rooms.study import GPTStudy, Variant
from helpers.tables import Line


@dataclass(frozen=True)
class Rung(Variant):
    """What one rung changes, and its rough steps to the target, from a seed in no table."""

    steps: int = 0


def stacked(changes: dict[str, Rung]) -> dict[str, Rung]:
    """Each rung with the changes of all those below it, from the first one up."""
    rungs = {}
    below = Rung()
    for name, change in changes.items():
        below = replace(change, sizes=below.sizes | change.sizes, recipe=below.recipe | change.recipe)
        rungs[name] = below
    return rungs


laptop = PRESETS["laptop"].model
speedrun = PRESETS["speedrun"].model
plain = dict(batch_size=12, learning_rate=1e-3, min_learning_rate=1e-4, warmup_steps=100, betas=(0.9, 0.99))
steeper = dict(learning_rate=3e-3, min_learning_rate=0.0, warmup_steps=30, schedule="stable", decay=0.8)
muon = dict(learning_rate=0.01, warmup_steps=0, weight_decay=0.0, optimizer="muon", muon_scale=3.0)
shape = {name: speedrun[name] for name in ("rotary", "qk_norm", "mlp", "zero_start", "softcap")}
bolder = dict(batch_size=64, learning_rate=0.03, betas=(0.6, 0.95), muon_scale=2.0, muon_momentum=0.85)
RUNGS = stacked(
    {
        "nanoGPT's recipe": Rung(recipe=plain, steps=1800),
        "higher rate, straight decay": Rung(recipe=steeper, steps=1107),
        "Muon": Rung(recipe=muon, steps=414),
        "rotary to softcap": Rung(sizes=shape, steps=309),
        "pairs in a table": Rung(sizes={"bigrams": TABLES["bigrams"]}, steps=215),
        "and triples": Rung(sizes={"trigrams": TABLES["trigrams"]}, steps=147),
        "and fours": Rung(sizes={"fourgrams": TABLES["fourgrams"]}, steps=101),
        "a head of its own": Rung(sizes={"tied": False}, steps=81),
        "one layer of width 64": Rung(sizes=speedrun, steps=83),
        "bigger batches, bolder steps": Rung(recipe=bolder, steps=17),
    }
)


class Climb(NamedTuple):
    """One training: a rung, how many steps, and the seed."""

    variant: str
    steps: int
    seed: int

    def __str__(self) -> str:
        return f"{self.variant}, {self.steps} steps, seed {self.seed}"


@dataclass(frozen=True)
class Ladder(GPTStudy):
    """Each rung trains for a bit less and a bit more than it needs; the target is interpolated."""

    target: float = 1.90
    around: tuple[float, float] = (0.85, 1.2)  # times a rung's steps
    seeds: int = 3

    run_type = Climb
    variants = RUNGS
    # Which makes a ModernGPT of the first rung too: rungs differ by their changes only.
    sizes = laptop | {"tied": True}

    def budget(self) -> str:
        less, more = self.around
        return f"to a loss of {self.target}; {self.seeds} seeds, each with {less} and {more} times a rung's steps"

    def recipe(self, run: Climb, device: str = "cpu") -> TrainConfig:
        rung = RUNGS[run.variant]
        return TrainConfig(
            max_steps=run.steps,
            eval_interval=run.steps,
            seed=run.seed,
            device=device,
            **rung.recipe,
        )

    def plan(self, lines: Iterable[Line]) -> list[Climb]:
        """Every run, seed by seed, so that a table that is cut off has all rungs."""
        return [
            Climb(name, round(rung.steps * part), seed)
            for seed in range(1, self.seeds + 1)
            for name, rung in RUNGS.items()
            for part in self.around
        ]

    def measure(self, run: Climb, tokens: Integer[Tensor, "N"], vocab_size: int, device: str = "cpu") -> Line:
        """Train once; a line of the table. Seconds are the processor's, in the updates alone."""
        config = self.recipe(run, device)
        T = (self.sizes | RUNGS[run.variant].sizes)["context_length"]
        train_tokens, val_tokens = split(tokens.to(config.device), T)
        model, seconds = self.train(run, train_tokens, vocab_size, device)
        loss = round(evaluate(model, val_tokens, T), 5)
        return {
            **run._asdict(),
            "parameters": count_parameters(model),
            "loss": loss,
            "seconds": round(seconds, 2),
        }

    def report(self, lines: Iterable[Line]) -> str:
        """Mean steps and seconds to the target over the seeds, and each rung's speedup."""
        lines = list(lines)
        sizes = {line["variant"]: line["parameters"] for line in lines}
        reached = to_target(self, lines)
        seconds = [fmean(seconds for _, seconds in costs) for costs in reached.values()]
        rows = []
        for i, (name, costs) in enumerate(reached.items()):
            steps = [steps for steps, _ in costs]
            over_seeds = f"{min(steps):,.0f} to {max(steps):,.0f}"
            factor, speed_up = seconds[max(i - 1, 0)] / seconds[i], seconds[0] / seconds[i]
            times = (f"{number:.1f}" for number in (seconds[i], factor, speed_up))
            rows.append([name, sizes[name], f"{fmean(steps):,.0f}", over_seeds, *times])
        return tables.table(["rung", "parameters", "steps", "over seeds", "seconds", "factor", "speed-up"], rows)


def build(name: str, vocab_size: int, steps: int, seed: int) -> tuple[GPT, TrainConfig]:
    """A fresh model of a rung, and how it trains."""
    ladder = Ladder()
    return ladder.build(name, vocab_size, seed), ladder.recipe(Climb(name, steps, seed))


def to_target(ladder: Ladder, lines: Iterable[Line]) -> dict[str, list[tuple[float, float]]]:
    """By rung and seed, the steps and seconds to the target, interpolated in log steps.

    Where both runs end above the target, or both below, nothing is extrapolated: the nearer one's
    steps are a bound.
    """
    lines = list(lines)
    costs: dict[str, list[tuple[float, float]]] = {}
    for name in RUNGS:
        for seed in range(1, ladder.seeds + 1):
            runs = [line for line in lines if (line["variant"], line["seed"]) == (name, seed)]
            if len(runs) < 2:
                continue
            less, more = sorted(runs, key=lambda line: line["steps"])
            share = (less["loss"] - ladder.target) / (less["loss"] - more["loss"])
            share = min(max(share, 0.0), 1.0)
            steps = less["steps"] * math.exp(share * math.log(more["steps"] / less["steps"]))
            per_step = (less["seconds"] + more["seconds"]) / (less["steps"] + more["steps"])
            costs.setdefault(name, []).append((steps, steps * per_step))
    return costs
