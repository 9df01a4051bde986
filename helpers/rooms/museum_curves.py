"""What each fault of the museum does to the curve, and what it does to writing (`python -m
tools.studies museum`).
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Integer
from torch import Tensor

from helpers import tables
from helpers.data import Corpus, split
from helpers.gpt import count_parameters
from helpers.rooms import museum_faults as faults
from helpers.rooms.museum_program import C, H, L, Program, T
from helpers.rooms.study import TextStudy
from helpers.tables import Line

# So many letters are read before the one that is asked for: a text has every length as it grows.
CUTS = range(1, T + 1)


class NearSighted(Program):
    """No fault, but a comparison: healthy heads that see nothing but the last six letters."""

    def allowed(self, real: Tensor) -> Tensor:
        mask = torch.ones(real.shape[1], real.shape[1], dtype=torch.bool)
        return (mask.tril() & mask.triu(-5))[None, None]


class InQuarters(Program):
    """No fault, but a comparison: healthy heads that see nothing beyond the quarter of the text in
    which they stand.
    """

    def allowed(self, real: Tensor) -> Tensor:
        quarter = torch.arange(real.shape[1]) * 4 // real.shape[1]
        mask = torch.ones(real.shape[1], real.shape[1], dtype=torch.bool).tril()
        return (mask & (quarter[:, None] == quarter))[None, None]


# Faults that can be seen, or not, while a text is learned, and how many updates each gets.
SHOWN: dict[type[Program], tuple[int, ...]] = {
    Program: (300, 1200, 4800),
    faults.LoudTable: (300,),
    faults.NotShifted: (300,),
    faults.TurnedRound: (300,),
    faults.ClimbedOver: (300,),
    faults.WrongAxis: (300,),
    faults.NoWayBack: (300,),
    faults.WrongBothWays: (300, 1200),
    NearSighted: (300, 1200, 4800),
    InQuarters: (300, 1200),
    faults.WrongRoot: (300,),
    faults.SoftmaxTwice: (300,),
    faults.NeverCleared: (300,),
    faults.Clones: (300,),
    faults.NormsDecay: (300,),
}
VARIANTS = {kind.__name__: kind for kind in SHOWN}
SIZES = {"channels": C, "heads": H, "layers": L, "context": T}


class Visit(NamedTuple):
    """One training: a program, its updates, and the seed."""

    variant: str
    steps: int
    seed: int

    def __str__(self) -> str:
        return f"{self.variant}, {self.steps} updates, seed {self.seed}"


@dataclass(frozen=True)
class Museum(TextStudy):
    """Every program with every seed. The last tenth of the training text is what they are asked
    about.
    """

    seeds: int = 4
    rate: float = 2e-3
    windows: int = 400  # to measure on, the same for all

    run_type = Visit

    def budget(self) -> str:
        return (
            f"learning rate {self.rate:g}, {self.seeds} seeds; the last tenth of the training text is predicted, in "
            f"{self.windows} windows of {T} letters; honest: the letter after texts of each length from 1 to {T}"
        )

    def plan(self, lines: Iterable[Line]) -> list[Visit]:
        """Seed by seed, so that a table that is cut off has all programs."""
        seeds = range(1, self.seeds + 1)
        return [Visit(kind.__name__, steps, seed) for seed in seeds for kind, all_ in SHOWN.items() for steps in all_]

    def measure(self, run: Visit, corpus: Corpus) -> Line:
        """Train once; the first loss, the loss as a curve shows it (`loss`), and the loss that
        writing meets.
        """
        training_text, _ = split(corpus.tokens.long(), T)
        train_tokens, held_out = split(training_text, T)
        program = VARIANTS[run.variant](corpus.tokenizer.vocab_size, run.seed)
        first = curve_loss(program, held_out, self.windows)
        start = time.process_time()
        program.fit(train_tokens, run.steps, run.seed, self.rate)
        return {
            **run._asdict(),
            "parameters": count_parameters(program),
            "first": round(first, 4),
            "loss": round(curve_loss(program, held_out, self.windows), 4),
            "honest": round(honest_loss(program, held_out, self.windows), 4),
            "seconds": round(time.process_time() - start, 1),
        }

    def report(self, lines: Iterable[Line]) -> str:
        """By program and updates: means over the seeds, and their standard deviations."""
        groups: dict[tuple[str, int], list[Line]] = {}
        for line in lines:
            groups.setdefault((line["variant"], line["steps"]), []).append(line)
        rows = []
        for (name, steps), group in groups.items():
            cells = [
                f"{fmean(numbers):.2f} ± {stdev(numbers) if len(numbers) > 1 else 0:.2f}"
                for numbers in ([line[column] for line in group] for column in ("first", "loss", "honest"))
            ]
            rows.append([name, f"{steps:,}", *cells])
        return tables.table(["program", "updates", "first loss", "curve", "honest"], rows)


def windows(text: Integer[Tensor, "N"], count: int, length: int) -> Integer[Tensor, "count length+1"]:
    """Pieces of a text, spread evenly over it."""
    starts = torch.linspace(0, len(text) - length - 1, count).long()
    return text[starts[:, None] + torch.arange(length + 1)].long()


@torch.no_grad()
def curve_loss(program: Program, text: Integer[Tensor, "N"], count: int) -> float:
    """The mean loss at all places, by the program's own way to ask: what one sees while it is
    trained.
    """
    program.eval()
    tokens, targets = program.pairs(windows(text, count, T))
    return program.loss(program(tokens), targets).item() / targets.numel()


def honest_loss(program: Program, text: Integer[Tensor, "N"], count: int) -> float:
    """The mean loss of the letter after a text that ends there: what writing meets. Nobody can look
    ahead.
    """
    return fmean(honest_losses(program, text, count))


@torch.no_grad()
def honest_losses(program: Program, text: Integer[Tensor, "N"], count: int) -> list[float]:
    """The same for texts of each length."""
    program.eval()
    losses = []
    for cut in CUTS:
        pieces = windows(text, count, cut)
        losses.append(F.cross_entropy(program(pieces[:, :-1])[:, -1], pieces[:, -1]).item())
    return losses
