"""Lesson 03's two studies: one matrix for both roles, and scores that aren't divided by the root of their width."""

import time
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from helpers import tables, telegrams
from helpers.rooms.study import SyntheticStudy
from helpers.tables import Line


def mixed(scores: Float[Tensor, "B 6"], cards: Float[Tensor, "B 6 96"]) -> Float[Tensor, "B 32"]:
    """The things on the cards, mixed by a softmax."""
    return (scores.softmax(dim=-1)[:, None] @ cards[:, :, 32:64])[:, 0]


# ---------------------------------------------------------------- the mirror
class Mirror(nn.Module):
    """One table for who looks for whom: asker (B, 32), cards (B, 6, 96) -> answer (B, 32).

    "one matrix": both names go through the same one. "any mirror": I score you as you score me, and that is
    all that is asked of it. "own card hidden": the first, where nobody sees a card of his own. "two matrices": lesson
    03's own, for givers alone.
    """

    def __init__(self, kind: str):
        super().__init__()
        self.kind = kind
        self.W_query = nn.Linear(32, 32, bias=False)
        self.W_key = nn.Linear(32, 32, bias=False)

    def table(self, asker: Float[Tensor, "N 32"], giver: Float[Tensor, "M 32"]) -> Float[Tensor, "N M"]:
        """What each asker scores each giver."""
        if self.kind == "any mirror":
            return self.W_query(asker) @ giver.mT + (self.W_query(giver) @ asker.mT).mT
        keys = self.W_key if self.kind == "two matrices" else self.W_query
        return self.W_query(asker) @ keys(giver).mT / 32**0.5

    def forward(self, asker: Float[Tensor, "B 32"], cards: Float[Tensor, "B 6 96"]) -> Float[Tensor, "B 32"]:
        giver = cards[:, :, :32]
        scores = self.table(asker[:, None], giver)[:, 0]
        if self.kind == "own card hidden":
            scores = scores.masked_fill((giver * asker[:, None]).sum(dim=-1) > 0.5, float("-inf"))
        return mixed(scores, cards)


class Looked(NamedTuple):
    """One training of a mirror."""

    kind: str
    steps: int
    rate: float
    seed: int


MIRRORS = ("one matrix", "any mirror", "own card hidden", "two matrices")


class Mirrors(SyntheticStudy):
    """Whom a network finds that scores you as you score it."""

    run_type = Looked

    def budget(self) -> str:
        return (
            "what does romeo's hero give?, 32 scenes a step, Adam; right: of 2,000 new scenes; own, hero and fan: for "
            "how many of the eight this one's score is the highest"
        )

    def plan(self, lines: Iterable[Line]) -> list[Looked]:
        as_usual = [Looked(kind, 300, 0.01, seed) for seed in range(20) for kind in MIRRORS]
        otherwise = [(1200, 0.01), (300, 0.0025), (300, 0.04)]
        return as_usual + [Looked(kind, *how, seed) for how in otherwise for seed in range(8) for kind in MIRRORS]

    def measure(self, run: Looked) -> Line:
        start = time.process_time()
        model = telegrams.fit(lambda: Mirror(run.kind), "hero", run.seed, steps=run.steps, lr=run.rate)
        people = telegrams.embed(torch.arange(8))
        with torch.no_grad():
            best = model.table(people, people).argmax(dim=1)
        heroes = telegrams.HEROES
        wins = {"own": torch.arange(8), "hero": heroes, "fan": heroes.argsort()}
        return {
            **run._asdict(),
            "right": round(telegrams.accuracy(model, "hero", run.seed), 4),
            **{name: int((best == whom).sum()) for name, whom in wins.items()},
            "seconds": round(time.process_time() - start, 1),
        }

    def report(self, lines: Iterable[Line]) -> str:
        """By kind and training: what is right, seed by seed, and whose score is the highest, on average."""
        rows = []
        for run, group in self.by_setting(lines).items():
            right = [line["right"] for line in group]
            wins = [f"{fmean(line[name] for line in group):.1f}" for name in ("own", "hero", "fan")]
            spread = tables.spread(right, ".0%")
            rows.append([run.kind, f"{run.steps:,}", f"{run.rate:g}", str(len(group)), spread, *wins])
        return tables.table(["", "steps", "rate", "seeds", "right", "own", "hero", "fan"], rows)


# ---------------------------------------------------------------- the root
class Wide(nn.Module):
    """Lesson 03's LookUp with queries and keys of any width, matrices that start larger, and a root or none."""

    def __init__(self, width: int, start: float, divided: bool):
        super().__init__()
        self.W_query = nn.Linear(32, width, bias=False)
        self.W_key = nn.Linear(96, width, bias=False)
        for matrix in self.parameters():
            matrix.data *= start
        self.divisor = width**0.5 if divided else 1.0

    def scores(self, asker: Float[Tensor, "B 32"], cards: Float[Tensor, "B 6 96"]) -> Float[Tensor, "B 6"]:
        return (self.W_query(asker)[:, None] @ self.W_key(cards).mT)[:, 0] / self.divisor

    def forward(self, asker: Float[Tensor, "B 32"], cards: Float[Tensor, "B 6 96"]) -> Float[Tensor, "B 32"]:
        return mixed(self.scores(asker, cards), cards)


class Scored(NamedTuple):
    """One training, with the root or without it."""

    width: int
    start: float  # times nn.Linear's own
    divided: bool
    steps: int
    rate: float
    seed: int


class Root(SyntheticStudy):
    """From which width and which start on a network without the root learns worse."""

    run_type = Scored

    def budget(self) -> str:
        return (
            "what does romeo's hero give?, 32 scenes a step, Adam; spread: the standard deviation of the scores before "
            "any step; right: of 2,000 new scenes"
        )

    def plan(self, lines: Iterable[Line]) -> list[Scored]:
        sizes = [(width, start, divided) for start in (1.0, 4.0, 16.0) for width in (32, 256, 2048)
                 for divided in (True, False)]  # fmt: skip
        by_steps = [Scored(*size, steps, 0.01, seed) for steps in (20, 300) for seed in range(8) for size in sizes]
        by_rate = [Scored(*size, 300, rate, seed) for rate in (0.0025, 0.04) for seed in range(3) for size in sizes]
        return by_steps + by_rate

    def measure(self, run: Scored) -> Line:
        start = time.process_time()
        model = telegrams.fit(lambda: Wide(*run[:3]), "hero", run.seed, steps=run.steps, lr=run.rate)
        torch.manual_seed(run.seed)
        inputs, _ = telegrams.look_up("hero", 200, torch.Generator().manual_seed(run.seed))
        with torch.no_grad():
            spread = Wide(*run[:3]).scores(*inputs).std().item()
        return {
            **run._asdict(),
            "spread": round(spread, 3),
            "right": round(telegrams.accuracy(model, "hero", run.seed), 4),
            "seconds": round(time.process_time() - start, 1),
        }

    def report(self, lines: Iterable[Line]) -> str:
        """By size: the scores' spread at the start, and what is right after each training."""
        groups: dict[tuple, dict[tuple, list[Line]]] = {}
        for line in lines:
            size = (line["start"], line["width"], line["divided"])
            groups.setdefault(size, {}).setdefault((line["steps"], line["rate"]), []).append(line)
        trainings = [(20, 0.01), (300, 0.01), (300, 0.0025), (300, 0.04)]
        rows = []
        for (start, width, divided), by_training in groups.items():
            spread = fmean(line["spread"] for group in by_training.values() for line in group)
            shares = []
            for training in trainings:
                right = [line["right"] for line in by_training.get(training, [])]
                shares.append(tables.spread(right, ".0%") if right else "")
            rows.append([f"{start:g}", str(width), "yes" if divided else "no", f"{spread:.2f}", *shares])
        heads = [f"{steps} steps, rate {rate:g}" for steps, rate in trainings]
        return tables.table(["start", "width", "divided", "spread", *heads], rows)
