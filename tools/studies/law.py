"""The study of *scaling out*: with so much computing, how large should a GPT be?

Five sizes are trained with five budgets of computing each, at the best of their learning rates.
"""

import math
import time
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

import torch
from jaxtyping import Integer
from torch import Tensor

from helpers import tables
from helpers.data import split
from helpers.gpt import GPT, GPTConfig
from helpers.loss import evaluate
from helpers.optim import TrainConfig, make_optimizer
from helpers.rooms.experiments import CHOOSE, FIRST_CHOOSING_SEED, REPORT, next_rate
from helpers.rooms.study import Study
from helpers.tables import Line
from helpers.training import updates

T, BATCH, LAYERS = 64, 16, 2
WIDTHS = (16, 28, 48, 84, 144)
BUDGETS = (3e10, 9e10, 2.7e11, 8.1e11, 2.43e12)  # operations
RATES = (3e-3, 6e-3, 1.2e-2)
SEEDS = (1, 2, 3)


class Trained(NamedTuple):
    """One training: a width, a budget, a rate (None: not chosen yet), and what it is for."""

    width: int
    operations: float
    rate: float | None
    seed: int
    part: str  # CHOOSE, measured on text that is held out of training, or REPORT, on the validation split


def weights_of(width: int) -> int:
    """The matrices' numbers that work for each letter: those of the blocks, and the head's 65 rows."""
    return 12 * LAYERS * width**2 + 65 * width


def steps_of(width: int, operations: float) -> int:
    """Six operations for each number and letter, and 12 L C T for the looks."""
    a_letter = 6 * weights_of(width) + 12 * LAYERS * width * T
    return round(operations / (a_letter * BATCH * T))


class Law(Study):
    """Losses by width and budget."""

    run_type = Trained

    def budget(self) -> str:
        return (
            f"GPTs of {LAYERS} layers and 4 heads, widths {', '.join(map(str, WIDTHS))}, windows of {T} letters, "
            f"{BATCH} a step; a warm-up over a tenth of the steps, AdamW, the rate falls to a tenth and is chosen by "
            f"one seed on held-out text; {len(SEEDS)} seeds on the validation split"
        )

    def plan(self, lines: Iterable[Line]) -> list[Trained]:
        by_run = {self.run_of(line): line["loss"] for line in lines}
        runs: list[Trained] = []
        for operations in BUDGETS:
            for width in WIDTHS:
                rate, choosing = self._choose(by_run, width, operations)
                runs += choosing + [Trained(width, operations, rate, seed, REPORT) for seed in SEEDS]
        return runs

    def _choose(
        self, by_run: dict[Trained, float], width: int, operations: float
    ) -> tuple[float | None, list[Trained]]:
        """The best rate, or None while it is unknown; and the runs that find it."""
        rates = list(RATES)
        while True:
            runs = [Trained(width, operations, rate, FIRST_CHOOSING_SEED, CHOOSE) for rate in rates]
            if not all(run in by_run for run in runs):
                return None, runs
            best = min(runs, key=by_run.__getitem__).rate
            assert best is not None
            rate = next_rate(rates, best)
            if rate is None:
                return best, runs
            rates.append(rate)

    def is_known(self, run: Trained) -> bool:
        return run.rate is not None

    def measure(self, run: Trained, tokens: Integer[Tensor, "N"], vocab_size: int, device: str = "cpu") -> Line:
        assert run.rate is not None
        start = time.process_time()
        training_text, val_tokens = split(tokens, T)
        train_tokens, held_out = split(training_text, T)
        steps = steps_of(run.width, run.operations)
        config = TrainConfig(
            batch_size=BATCH,
            max_steps=steps,
            eval_interval=steps,
            learning_rate=run.rate,
            min_learning_rate=run.rate / 10,
            warmup_steps=steps // 10,
            seed=run.seed,
        )
        torch.manual_seed(run.seed)
        model = GPT(GPTConfig(vocab_size, context_length=T, n_layer=LAYERS, n_head=4, n_embd=run.width))
        batches = torch.Generator().manual_seed(run.seed)
        for loss in updates(model, train_tokens, config, make_optimizer(model, config), batches):
            if not math.isfinite(loss):
                break
        loss = evaluate(model, held_out if run.part == CHOOSE else val_tokens, T)
        measured = {"weights": weights_of(run.width), "steps": steps, "loss": round(loss, 4)}
        return {**run._asdict(), **measured, "seconds": round(time.process_time() - start, 1)}

    def report(self, lines: Iterable[Line]) -> str:
        """By budget: the mean loss of each width."""
        found: dict[float, dict[int, list[float]]] = {}
        for line in lines:
            if line["part"] == REPORT:
                found.setdefault(line["operations"], {}).setdefault(line["width"], []).append(line["loss"])
        rows = [
            [f"{operations:.1e}", *(f"{fmean(losses[width]):.3f}" if width in losses else "" for width in WIDTHS)]
            for operations, losses in found.items()
        ]
        return tables.table(["operations", *(f"width {width}" for width in WIDTHS)], rows)
