"""The study of *scaling out*: with so much computing, how large should a GPT be?

Five widths are trained with each of five budgets of computing.
"""

import time
from collections.abc import Iterable
from statistics import fmean
from typing import ClassVar, NamedTuple

from helpers import tables
from helpers.data import Corpus, split
from helpers.loss import evaluate
from helpers.optim import TrainConfig
from helpers.rooms.experiments import CHOOSE, FIRST_CHOOSING_SEED, REPORT, choose_rate
from helpers.rooms.study import GPTStudy, Variant
from helpers.tables import Line

T, BATCH, LAYERS = 64, 16, 2
# By budget, in operations: five widths about the best one
WIDTHS = {
    1e10: (4, 8, 12, 16, 24),
    3e10: (8, 12, 16, 24, 36),
    9e10: (12, 16, 24, 36, 52),
    2.7e11: (16, 24, 36, 52, 76),
    8.1e11: (16, 24, 36, 52, 76),
}
RATES = (3e-3, 6e-3, 1.2e-2)
SEEDS = (1, 2, 3)


class Trained(NamedTuple):
    """One training: a width, a budget, a rate (None: not chosen yet), and what it is for."""

    operations: float
    width: int
    rate: float | None
    seed: int
    part: str  # CHOOSE, measured on text that is held out of training, or REPORT, on the validation split

    @property
    def variant(self) -> str:
        return str(self.width)


def weights_of(width: int) -> int:
    """The matrices' numbers that work for each letter: those of the blocks, and the head's 65 rows."""
    return 12 * LAYERS * width**2 + 65 * width


def steps_of(width: int, operations: float) -> int:
    """Six operations for each number and letter, and 12 L C T for the looks."""
    a_letter = 6 * weights_of(width) + 12 * LAYERS * width * T
    return round(operations / (a_letter * BATCH * T))


class Law(GPTStudy):
    """Losses by budget and width."""

    run_type = Trained
    variants: ClassVar = {str(width): Variant({"n_embd": width}) for widths in WIDTHS.values() for width in widths}
    sizes: ClassVar = {"context_length": T, "n_layer": LAYERS, "n_head": 4}

    def budget(self) -> str:
        return (
            f"GPTs of {LAYERS} layers and 4 heads, windows of {T} letters, {BATCH} a step; a warm-up over a tenth of "
            "the steps, AdamW, the rate falls to a tenth; it is chosen by one seed on held-out text; "
            f"{len(SEEDS)} seeds on the validation split"
        )

    def plan(self, lines: Iterable[Line]) -> list[Trained]:
        losses = {self.run_of(line): line["loss"] for line in lines}
        runs: list[Trained] = []
        for operations, widths in WIDTHS.items():
            for width in widths:

                def runs_at(rate: float, operations: float = operations, width: int = width) -> list[Trained]:
                    return [Trained(operations, width, rate, FIRST_CHOOSING_SEED, CHOOSE)]

                rate, choosing = choose_rate(RATES, runs_at, losses)
                runs += choosing
                runs += [Trained(operations, width, rate, seed, REPORT) for seed in SEEDS]
        return runs

    def is_known(self, run: Trained) -> bool:
        return run.rate is not None

    def recipe(self, run: Trained, device: str = "cpu") -> TrainConfig:
        assert run.rate is not None, f"{run}: the rate is not chosen yet"
        steps = steps_of(run.width, run.operations)
        return TrainConfig(
            batch_size=BATCH,
            max_steps=steps,
            eval_interval=steps,
            learning_rate=run.rate,
            min_learning_rate=run.rate / 10,
            warmup_steps=steps // 10,
            seed=run.seed,
            device=device,
        )

    def measure(self, run: Trained, corpus: Corpus, device: str = "cpu") -> Line:
        start = time.process_time()
        training_text, val_tokens = split(corpus.tokens.to(self.recipe(run, device).device), T)
        train_tokens, held_out = split(training_text, T)
        model, _ = self.train(run, train_tokens, corpus.tokenizer.vocab_size, device)
        loss = evaluate(model, held_out if run.part == CHOOSE else val_tokens, T)
        steps = steps_of(run.width, run.operations)
        measured = {"weights": weights_of(run.width), "steps": steps, "loss": round(loss, 4)}
        return {**run._asdict(), **measured, "seconds": round(time.process_time() - start, 1)}

    def report(self, lines: Iterable[Line]) -> str:
        """By budget: the mean loss of each width."""
        lines = [line for line in lines if line["part"] == REPORT]
        every = sorted({width for widths in WIDTHS.values() for width in widths})
        rows = []
        for operations, widths in WIDTHS.items():
            means = {}
            for width in widths:
                losses = tables.column(lines, "loss", operations=operations, width=width)
                means[width] = f"{fmean(losses):.3f}" if losses else "?"
            rows.append([f"{operations:.1e}", *(means.get(width, "") for width in every)])
        return tables.table(["operations", *(f"width {width}" for width in every)], rows)
