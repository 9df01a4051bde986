"""One way to run experiments: a study trains variants x learning rates x seeds, and one function says what they show.

The text is cut into three: a model trains on the first piece, its learning rate is chosen on the second, and what is
reported is measured on the third, the validation split, with other seeds. `make study` runs a study in parallel.
"""

import csv
import io
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from helpers.core.data import split
from helpers.core.gpt import GPT, count_parameters
from helpers.core.modern import build_gpt, config_of
from helpers.core.optim import Optimizer, TrainConfig, make_optimizer
from helpers.core.training import cross_entropy, evaluate, updates
from helpers.studies.verdicts import Verdict, verdicts
from helpers.support import console
from helpers.support.errors import ConfigError, CorpusError
from helpers.support.modes import evaluating

MEASURED = Path(__file__).parents[2] / "notebooks" / "measured"
CHOOSE, REPORT = "choose", "report"  # what a run is for, and so on which piece it is measured
MOST_RATES = 5


@dataclass(frozen=True)
class Variant:
    """A change to the whole model, or to its recipe, in ten lines or fewer.

    `sizes` replaces some of GPTConfig's or ModernConfig's, `recipe` some of TrainConfig's; `change` works on the new
    GPT, in place.
    """

    sizes: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    change: Callable[[GPT], None] = lambda model: None
    optimizer: Callable[[nn.Module, TrainConfig], Optimizer] = make_optimizer
    rates: tuple[float, ...] = ()  # to choose from; empty: the study's
    against: str = ""  # the variant that it is held against; empty: the whole model
    leaks: bool = False  # it sees its future, so its loss at all places says nothing


class Run(NamedTuple):
    """One training: so many steps of a variant at a learning rate, and what it is for."""

    steps: int
    variant: str
    rate: float | None  # None: not chosen yet
    seed: int
    part: str  # CHOOSE or REPORT

    def __str__(self) -> str:
        return f"{self.variant}, {self.steps} steps, rate {self.rate}, seed {self.seed}"


@dataclass(frozen=True)
class Study:
    """What to train, and how it will be judged: fixed before the first run.

    The first of `variants` is the whole model. Each gets, for each budget of `steps`, the best of its rates by
    `choosing_seeds` runs on the held-out piece; where that is the lowest or the highest, the next one beyond is tried,
    up to MOST_RATES. Then `seeds` runs at that rate are reported (of the whole model `whole_seeds`, if that is more).
    An interaction is a weighted sum of variants. `margin`, in nats: what is less makes no difference to us.
    """

    variants: dict[str, Variant]
    sizes: dict[str, Any]
    steps: tuple[int, ...]
    rates: tuple[float, ...] = (3e-3, 6e-3, 1.2e-2)
    batch_size: int = 8
    choosing_seeds: int = 2
    seeds: int = 8
    whole_seeds: int = 0
    interactions: dict[str, dict[str, int]] = field(default_factory=dict)
    margin: float = 0.05
    characters: int | None = None  # to train on; None: all

    def __post_init__(self):
        unknown = {name for row in self.rows().values() for name in row} - set(self.variants)
        if unknown:
            raise ConfigError(f"{', '.join(sorted(unknown))}: no variant of the study, which has {self.names()}")
        if self.sizes["context_length"] < 4:
            raise ConfigError("a study takes a context of at least 4: the last places of shorter windows are measured")
        if self.seeds < 2:
            raise ConfigError(f"a study takes at least two seeds, not {self.seeds}: one shows no scatter")

    def names(self) -> str:
        return ", ".join(self.variants)

    @property
    def whole(self) -> str:
        return next(iter(self.variants))

    def rows(self) -> dict[str, dict[str, int]]:
        """By name, what each row of the table adds and subtracts: a variant minus another one, or an interaction."""
        others = {name: variant for name, variant in self.variants.items() if name != self.whole}
        return {name: {name: 1, other.against or self.whole: -1} for name, other in others.items()} | self.interactions

    def metric(self, *names: str) -> str:
        """The loss at all places; at last places as soon as one of the variants sees its future."""
        return "last_loss" if any(self.variants[name].leaks for name in names) else "loss"

    def budget(self) -> str:
        """The settings in one line, for the top of a table."""
        sizes = ", ".join(f"{name} {size}" for name, size in self.sizes.items())
        few = f" on {self.characters} characters" if self.characters else ""
        return (
            f"{sizes}, batch_size {self.batch_size}; {' and '.join(map(str, self.steps))} steps{few}; rates by "
            f"{self.choosing_seeds} seeds on held-out text, {self.seeds} seeds reported; margin {self.margin} nats"
        )


# ---------------------------------------------------------------- one run
def build(study: Study, name: str, vocab_size: int, seed: int) -> GPT:
    """A fresh GPT, changed as `name` says; ConfigError for a name that is not among the study's variants."""
    if name not in study.variants:
        raise ConfigError(f"unknown variant {name!r}: choose one of {study.names()}")
    torch.manual_seed(seed)
    variant = study.variants[name]
    sizes: dict[str, Any] = {"vocab_size": vocab_size} | study.sizes | variant.sizes
    model = build_gpt(config_of(sizes))
    with torch.no_grad():
        variant.change(model)
    return model


def recipe(study: Study, run: Run, device: str = "cpu") -> TrainConfig:
    """How a run trains: a tenth of the steps to warm up, then down to a tenth of the rate, unless `recipe` differs."""
    if run.rate is None:
        raise ConfigError(f"{run}: the rate is not chosen yet")
    config = TrainConfig(
        batch_size=study.batch_size,
        max_steps=run.steps,
        eval_interval=run.steps,
        learning_rate=run.rate,
        min_learning_rate=run.rate / 10,
        warmup_steps=run.steps // 10,
        seed=run.seed,
        device=device,
    )
    return replace(config, **study.variants[run.variant].recipe)


@torch.no_grad()
def last_place_loss(model: nn.Module, tokens: Integer[Tensor, "N"], lengths: Iterable[int], stride: int = 32) -> float:
    """Mean loss in nats at the LAST place of windows that start `stride` tokens apart, averaged over their lengths.

    Nothing stands after the last place, so a model that cheats by looking ahead cannot here. CorpusError for a text
    that is shorter than a window.
    """
    found = []
    for T in lengths:
        if len(tokens) <= T:
            raise CorpusError(f"{len(tokens)} tokens are too few: a window of {T} needs at least {T + 1}")
        windows = tokens.unfold(0, T + 1, stride).long()
        with evaluating(model):
            sums = [cross_entropy(model(w[:, :-1])[:, -1:], w[:, -1:], reduction="sum") for w in windows.split(256)]
        found.append(sum(sums).item() / len(windows))
    return fmean(found)


def measure(study: Study, run: Run, tokens: Integer[Tensor, "N"], vocab_size: int, device: str = "cpu") -> dict:
    """Train once; a line of the table: the run, its losses on its piece of the text, and what it took.

    The weights are the last ones: choosing the best ones on the way would need yet another piece. A model that has
    diverged, or is worse than guessing, counts as one that guesses: its loss is the logarithm of the vocabulary. No
    window for `last_loss` fills the context, for the very last place is the least trained one.
    """
    start, T, config = time.process_time(), study.sizes["context_length"], recipe(study, run, device)
    learnt, val_tokens = split(tokens.to(config.device), T)
    train_tokens, held_out = split(learnt, T)
    train_tokens = train_tokens[: study.characters]
    model = build(study, run.variant, vocab_size, run.seed).to(config.device)
    variant, generator = study.variants[run.variant], torch.Generator().manual_seed(run.seed)
    optimizer = variant.optimizer(model, config)
    torch.manual_seed(run.seed)  # draws the dropout
    for loss in updates(model, train_tokens, config, optimizer, generator):
        if not math.isfinite(loss):
            break
    measured_on, guessing = held_out if run.part == CHOOSE else val_tokens, math.log(vocab_size)
    losses = {
        "loss": evaluate(model, measured_on, T),
        "last_loss": last_place_loss(model, measured_on, range(T // 4, T, T // 4), stride=2 * T),
    }
    return {
        **run._asdict(),
        "parameters": count_parameters(model),
        **{name: round(loss if loss < guessing else guessing, 5) for name, loss in losses.items()},
        "seconds": round(time.process_time() - start, 1),
    }


# ---------------------------------------------------------------- all runs
def plan(study: Study, lines: Iterable[dict]) -> list[Run]:
    """Every run of the study, in order. The rate of a run is None until the `lines` that are there decide on it."""
    done = {Run(*(line[part] for part in Run._fields)): line for line in lines}
    runs: list[Run] = []
    for steps in study.steps:
        for name in study.variants:
            best, choosing = _choose(study, done, steps, name)
            seeds = max(study.seeds, study.whole_seeds if name == study.whole else 0)
            runs += [*choosing, *(Run(steps, name, best, seed, REPORT) for seed in range(1, seeds + 1))]
    return runs


def _choose(study: Study, done: dict[Run, dict], steps: int, name: str) -> tuple[float | None, list[Run]]:
    """The best rate of a variant, or None as long as it is not known; and the runs that it takes to know it.

    A single rate takes none. Their seeds are others than those that are reported.
    """
    rates, seeds = list(study.variants[name].rates or study.rates), range(1001, 1001 + study.choosing_seeds)
    while len(rates) > 1:
        runs = [Run(steps, name, rate, seed, CHOOSE) for rate in rates for seed in seeds]
        if not all(run in done for run in runs):
            return None, runs
        metric = study.metric(name)
        best = min(rates, key=lambda rate: sum(done[run][metric] for run in runs if run.rate == rate))
        ordered = sorted(rates)
        if best not in (ordered[0], ordered[-1]) or len(rates) >= MOST_RATES:
            return best, runs
        neighbour = ordered[1] if best == ordered[0] else ordered[-2]
        rates.append(float(f"{best * best / neighbour:.2g}"))  # last, so that the order of the others stays
    return rates[0], []


def missing(study: Study, lines: Iterable[dict]) -> list[Run]:
    """The runs that can be made now, and are not among the `lines`."""
    done = {Run(*(line[part] for part in Run._fields)) for line in lines}
    return [run for run in plan(study, lines) if run.rate is not None and run not in done]


def conduct(study: Study, tokens: Integer[Tensor, "N"], vocab_size: int, lines: Iterable[dict] = ()) -> list[dict]:
    """The `lines` that are there and those that the study still needs, one run after the other.

    For a study that takes seconds, in a notebook. Others take `make study`.
    """
    lines = list(lines)
    while runs := missing(study, lines):
        lines += [measure(study, run, tokens, vocab_size) for run in runs]
    return lines


# ---------------------------------------------------------------- what the runs show
def judge(study: Study, lines: Iterable[dict]) -> dict[tuple[int, str], Verdict]:
    """The verdict on each row, by its budget and name: rows whose runs are there, corrected together.

    Differences are paired: the same seed means the same batches and, for models of the same sizes, first weights.
    """
    losses: dict[tuple[int, str], dict[int, dict]] = {}
    for line in lines:
        if line["part"] == REPORT:
            losses.setdefault((line["steps"], line["variant"]), {})[line["seed"]] = line
    differences: dict[tuple[int, str], list[float]] = {}
    for steps in study.steps:
        for row, weights in study.rows().items():
            metric, found = study.metric(*weights), {name: losses.get((steps, name), {}) for name in weights}
            seeds = sorted(set.intersection(*map(set, found.values())))
            if len(seeds) >= study.seeds:
                terms = [[weight * found[name][seed][metric] for name, weight in weights.items()] for seed in seeds]
                differences[steps, row] = list(map(sum, terms))
    return verdicts(differences, study.margin)


def report(study: Study, lines: list[dict]) -> str:
    """The verdicts as a table of text, the largest differences first."""
    rates = {(line["steps"], line["variant"]): line["rate"] for line in lines if line["part"] == REPORT}
    judged = sorted(judge(study, lines).items(), key=lambda item: (item[0][0], -item[1].mean))
    rows = []
    for (steps, row), v in judged:
        rate, interval = rates.get((steps, row), ""), f"{v.low:+.3f} to {v.high:+.3f}"
        p = f"{v.p:.4f}" if v.p >= 1e-4 else "< 0.0001"
        rows.append([steps, row, str(rate), f"{v.mean:+.3f}", interval, p, v.says])
    return console.table(["steps", "changed", "rate", "damage", "95 % interval", "p (Holm)", "verdict"], rows)


# ---------------------------------------------------------------- tables
def table(lines: list[dict], comments: list[str]) -> str:
    """A CSV file under comment lines, for `read_table`."""
    text = io.StringIO()
    text.writelines(f"# {comment}\n" for comment in comments)
    writer = csv.DictWriter(text, lines[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


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

    rows = csv.DictReader(line for line in lines if not line.startswith("# "))
    return comments, [{name: value(text) for name, text in line.items()} for line in rows]
