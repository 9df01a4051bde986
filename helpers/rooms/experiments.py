"""Experiments: variants against the whole model, at several learning rates and seeds.

The text is cut into three: a model trains on the first piece, its learning rate is chosen on the
second, and what is reported is measured on the third, the validation split, with other seeds.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from helpers import tables
from helpers.data import Corpus, split
from helpers.errors import CorpusError
from helpers.gpt import count_parameters, evaluating
from helpers.loss import cross_entropy, evaluate
from helpers.optim import TrainConfig
from helpers.rooms.study import GPTStudy, Variant
from helpers.rooms.verdicts import Verdict, verdict
from helpers.tables import Line

CHOOSE = "choose"  # the part of a run: to choose a learning rate, measured on the second piece of the text
REPORT = "report"  # or to be reported, measured on the third
FIRST_CHOOSING_SEED = 1001  # seeds that choose are others than those that are reported


class VariantRun(NamedTuple):
    """One training: this many steps of a variant at a learning rate, and what it is for."""

    steps: int
    variant: str
    rate: float | None  # None: not chosen yet
    seed: int
    part: str  # CHOOSE or REPORT

    def __str__(self) -> str:
        return f"{self.variant}, {self.steps} steps, rate {self.rate}, seed {self.seed}"


@dataclass(frozen=True)
class Comparison(GPTStudy):
    """Variants, each held against the whole model, which is the first of them.

    For each budget of `steps`, a variant gets the best of its rates by `choosing_seeds` runs on the
    held-out piece. More rates are tried until the best one has a lower and a higher neighbour, each
    within a factor of 4. Then `seeds` runs at that rate are reported (of the whole model
    `whole_seeds`, if that is more). `margin`, in nats: what is less makes no difference to us.
    """

    variants: dict[str, Variant]
    sizes: dict[str, Any]
    steps: tuple[int, ...]
    # One far below and one far above: a search that sees only a plateau never leaves it.
    rates: tuple[float, ...] = (4e-4, 3e-3, 6e-3, 1.2e-2, 1e-1)
    batch_size: int = 8
    choosing_seeds: int = 2
    seeds: int = 8
    whole_seeds: int = 0
    margin: float = 0.05
    characters: int | None = None  # to train on; None: all

    run_type = VariantRun

    @property
    def whole(self) -> str:
        """The name of the whole model."""
        return next(iter(self.variants))

    def metric(self, name: str) -> str:
        """The loss at all places; at last places for a variant that sees its future."""
        return "last_loss" if self.variants[name].leaks else "loss"

    def budget(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in self.sizes.items())
        steps = " and ".join(str(steps) for steps in self.steps)
        few = f" on {self.characters} characters" if self.characters else ""
        return (
            f"{sizes}, batch_size {self.batch_size}; {steps} steps{few}; rates by {self.choosing_seeds} seeds on "
            f"held-out text, {self.seeds} seeds reported; margin {self.margin} nats"
        )

    # ------------------------------------------------------------ one run
    def recipe(self, run: VariantRun, device: str = "cpu") -> TrainConfig:
        """Warm up for a tenth of the steps, decay to a tenth of the rate; variants may differ."""
        assert run.rate is not None, f"{run}: the rate is not chosen yet"
        config = TrainConfig(
            batch_size=self.batch_size,
            max_steps=run.steps,
            eval_interval=run.steps,
            learning_rate=run.rate,
            min_learning_rate=run.rate / 10,
            warmup_steps=run.steps // 10,
            seed=run.seed,
            device=device,
        )
        return replace(config, **self.variants[run.variant].recipe)

    def measure(self, run: VariantRun, corpus: Corpus, device: str = "cpu") -> Line:
        """Train once; return the table's line: the run, its losses, and what it took.

        The weights are the last ones: choosing the best ones on the way would need yet another
        piece. A model that has diverged, or is worse than guessing, counts as one that guesses: its
        loss is the logarithm of the vocabulary. No window for `last_loss` fills the context, for
        the very last place is the least trained one.
        """
        start, vocab_size = time.process_time(), corpus.tokenizer.vocab_size
        T = self.sizes["context_length"]
        training_text, val_tokens = split(corpus.tokens.to(self.recipe(run, device).device), T)
        train_tokens, held_out = split(training_text, T)
        model, _ = self.train(run, train_tokens[: self.characters], vocab_size, device)
        measured_on = held_out if run.part == CHOOSE else val_tokens
        loss = evaluate(model, measured_on, T)
        last_loss = last_place_loss(model, measured_on, range(T // 4, T, T // 4), stride=2 * T)
        return {
            **run._asdict(),
            "parameters": count_parameters(model),
            "loss": no_worse_than_guessing(loss, vocab_size),
            "last_loss": no_worse_than_guessing(last_loss, vocab_size),
            "seconds": round(time.process_time() - start, 1),
        }

    # ------------------------------------------------------------ all runs
    def plan(self, lines: Iterable[Line]) -> list[VariantRun]:
        """Every run of the study, in order; a rate is None until `lines` decide on it."""
        by_run = {self.run_of(line): line for line in lines}
        runs: list[VariantRun] = []
        for steps in self.steps:
            for name in self.variants:
                rate, choosing = self._choose(by_run, steps, name)
                seeds = max(self.seeds, self.whole_seeds) if name == self.whole else self.seeds
                runs += choosing
                runs += [VariantRun(steps, name, rate, seed, REPORT) for seed in range(1, seeds + 1)]
        return runs

    def _choose(self, by_run: dict[VariantRun, Line], steps: int, name: str) -> tuple[float | None, list[VariantRun]]:
        """A variant's best rate, or None while it is unknown; and the runs that find it."""
        seeds = range(FIRST_CHOOSING_SEED, FIRST_CHOOSING_SEED + self.choosing_seeds)
        losses = {run: line[self.metric(name)] for run, line in by_run.items()}

        def runs_at(rate: float) -> list[VariantRun]:
            return [VariantRun(steps, name, rate, seed, CHOOSE) for seed in seeds]

        return choose_rate(self.variants[name].rates or self.rates, runs_at, losses)

    def is_known(self, run: VariantRun) -> bool:
        return run.rate is not None

    def report(self, lines: Iterable[Line]) -> str:
        """The verdicts as a table of text, the largest differences first."""
        lines = list(lines)
        rates = {(line["steps"], line["variant"]): line["rate"] for line in lines if line["part"] == REPORT}
        judged = judge(self, lines)

        rows = []
        for (steps, row), damage in sorted(judged.items(), key=lambda item: (item[0][0], -item[1].mean)):
            interval = f"{damage.low:+.3f} to {damage.high:+.3f}"
            rate = str(rates[steps, row])
            rows.append([steps, row, rate, f"{damage.mean:+.3f}", interval, damage.says])
        return tables.table(["steps", "changed", "rate", "damage", "95 % interval", "verdict"], rows)


def choose_rate(
    rates: Sequence[float], runs_at: Callable[[float], list[Any]], losses: Mapping[Any, float]
) -> tuple[float | None, list[Any]]:
    """The best rate, or None while it is unknown; and the runs that find it: those of `rates`, then of others."""
    if len(rates) == 1:
        return rates[0], []
    tried = {rate: runs_at(rate) for rate in rates}
    while True:
        runs = [run for some in tried.values() for run in some]
        if not all(run in losses for run in runs):
            return None, runs
        best = min(tried, key=lambda rate: sum(losses[run] for run in tried[rate]))
        rate = next_rate(tried, best)
        if rate is None:
            return best, runs
        tried[rate] = runs_at(rate)  # last, so that the order of the others stays


def next_rate(rates: Iterable[float], best: float) -> float | None:
    """The rate to try next, when `best` is the best of `rates` so far; None when it is well inside.

    A neighbour that is further than a factor of 4 leaves room between: there, the next rate is
    halfway. Where there is no neighbour, it is as far again as the one on the other side.
    """
    below = max((rate for rate in rates if rate < best), default=0.0)  # 0: there is none
    above = min((rate for rate in rates if rate > best), default=math.inf)
    if below and best / below > 4:
        rate = math.sqrt(below * best)
    elif above < math.inf and above / best > 4:
        rate = math.sqrt(best * above)
    elif not below:
        rate = best * best / above
    elif above == math.inf:
        rate = best * best / below
    else:
        return None
    return float(f"{rate:.2g}")


def no_worse_than_guessing(loss: float, vocab_size: int) -> float:
    """The loss, or that of a guess where the model is worse or its loss is no number."""
    guessing = math.log(vocab_size)
    return round(loss if loss < guessing else guessing, 5)


@torch.no_grad()
def last_place_loss(model: nn.Module, tokens: Integer[Tensor, "N"], lengths: Iterable[int], stride: int = 32) -> float:
    """Mean loss in nats at the LAST place of windows `stride` apart, averaged over lengths.

    Nothing stands after the last place, so a model that cheats by looking ahead cannot cheat here.
    CorpusError for a text that is shorter than a window.
    """
    losses = []
    for T in lengths:
        if len(tokens) <= T:
            raise CorpusError(f"{len(tokens)} tokens are too few: a window of {T} needs at least {T + 1}")
        windows = tokens.unfold(0, T + 1, stride).long()
        total = 0.0
        with evaluating(model):
            for batch in windows.split(256):
                logits = model(batch[:, :-1])[:, -1:]
                total += cross_entropy(logits, batch[:, -1:], reduction="sum")
        losses.append(float(total) / len(windows))
    return fmean(losses)


def judge(study: Comparison, lines: Iterable[Line]) -> dict[tuple[int, str], Verdict]:
    """The verdict on each variant whose runs are there, by budget and name.

    Differences are paired: the same seed means the same batches and, for models of the same sizes,
    the same first weights.
    """
    reported: dict[tuple[int, str], dict[int, Line]] = {}  # by budget and variant, then by seed
    for line in lines:
        if line["part"] == REPORT:
            reported.setdefault((line["steps"], line["variant"]), {})[line["seed"]] = line
    verdicts = {}
    for steps in study.steps:
        for name, variant in study.variants.items():
            changed = reported.get((steps, name), {})
            baseline = reported.get((steps, variant.against or study.whole), {})
            metric = study.metric(name)
            damages = [changed[seed][metric] - baseline[seed][metric] for seed in sorted(changed.keys() & baseline)]
            if name != study.whole and len(damages) >= study.seeds:
                verdicts[steps, name] = verdict(damages, study.margin)
    return verdicts
