"""Lesson 00's two studies: what length costs a network of 2014, and where a translator looks."""

import time
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

from helpers import tables
from helpers.rooms import copying, translating
from helpers.rooms.study import SyntheticStudy
from helpers.tables import Line

NETWORKS = ATTENTION, ONE_VECTOR = "attention", "one vector"
SEEDS = range(1, 9)
LENGTHS = (1, 2, 4, 8, 12, 16, 20, 24)
SENTENCE = ["Kannst", "du", "mir", "helfen", "diesen", "Satz", "zu", "übersetzen"]
ALIGNED = (1, 2, 4, 3, 7, 8, 5, 6)  # the German word of each English one


class Words(NamedTuple):
    """One training on words that are written backwards."""

    network: str  # attention or one vector
    width: int
    steps: int
    rate: float
    seed: int


class Copying(SyntheticStudy):
    """Attention and one vector, narrow and wide, at three budgets, and at other rates."""

    run_type = Words

    def budget(self) -> str:
        return (
            "random words of up to 20 letters out of 8, batches of 64, Adam with a one-cycle schedule up to the rate; "
            "right_N: the share of letters that are right in 500 words of N letters"
        )

    def plan(self, lines: Iterable[Line]) -> list[Words]:
        both = [(name, width) for width in (16, 48) for name in NETWORKS]
        budgets = [Words(*what, steps, 0.01, seed) for seed in SEEDS for steps in (1000, 4000, 16000) for what in both]
        rates = [Words(*what, 4000, rate, seed) for rate in (0.0025, 0.04) for seed in (1, 2, 3) for what in both]
        return budgets + rates

    def measure(self, run: Words) -> Line:
        start = time.process_time()
        model = copying.trained(run.network == ATTENTION, run.width, run.steps, run.rate, run.seed)
        right = {f"right_{n}": round(copying.accuracy(model, n), 4) for n in LENGTHS}
        return {**run._asdict(), **right, "seconds": round(time.process_time() - start, 1)}

    def report(self, lines: Iterable[Line]) -> str:
        """By network, budget and rate: the mean over the seeds, and the range at 20 letters."""
        rows = []
        for run, group in sorted(self.by_setting(lines).items()):
            means = [f"{fmean(line[f'right_{n}'] for line in group):.0%}" for n in LENGTHS]
            at_20 = [line["right_20"] for line in group]
            rows.append(
                [
                    run.network,
                    str(run.width),
                    f"{run.steps:,}",
                    f"{run.rate:g}",
                    *means,
                    f"{min(at_20):.0%}–{max(at_20):.0%}",
                ]
            )
        return tables.table(["network", "width", "steps", "rate", *map(str, LENGTHS), "range at 20"], rows)


class Sentences(NamedTuple):
    """One training of a translator."""

    writes_from: str  # words, states or both
    steps: int
    rate: float
    seed: int


class Translating(SyntheticStudy):
    """Where translators look, by what they may write from."""

    run_type = Sentences

    def budget(self) -> str:
        return (
            "random questions of a small grammar, batches of 64, Adam with a one-cycle schedule up to the rate; "
            f"lines: where the thickest line of each English word of {' '.join(SENTENCE)!r} goes, counted from 1"
        )

    def plan(self, lines: Iterable[Line]) -> list[Sentences]:
        settings = [(1000, 0.03), (4000, 0.03), (4000, 0.0075), (1000, 0.12)]
        return [
            Sentences(source, *setting, seed)
            for setting in settings
            for seed in SEEDS
            for source in ("words", "states", "both")
        ]

    def measure(self, run: Sentences) -> Line:
        start = time.process_time()
        model = translating.trained(SENTENCE, run.writes_from, run.steps, run.rate, run.seed)
        written, weights = model.translate(SENTENCE)
        return {
            **run._asdict(),
            "right": round(translating.accuracy(model), 4),
            "writes": " ".join(written),
            "lines": " ".join(str(place + 1) for place in weights.argmax(dim=-1).tolist()),
            "seconds": round(time.process_time() - start, 1),
        }

    def report(self, lines: Iterable[Line]) -> str:
        """By network and budget: words that are right, and each word's lines that are as drawn."""
        rows = []
        for run, group in self.by_setting(lines).items():
            places = [[int(place) for place in line["lines"].split()] for line in group]
            as_drawn = [sum(row[i] == ALIGNED[i] for row in places) for i in range(8)]
            right = fmean(line["right"] for line in group)
            rows.append(
                [
                    run.writes_from,
                    f"{run.steps:,}",
                    f"{run.rate:g}",
                    str(len(group)),
                    f"{right:.1%}",
                    *map(str, as_drawn),
                ]
            )
        words = ["Can", "you", "help", "me", "to", "translate", "this", "sentence"]
        return tables.table(["writes from", "steps", "rate", "seeds", "right", *words], rows)
