"""Lesson 05's study: what a student of a thin book learns, by what is hidden while it reads."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from helpers import tables, telegrams
from helpers.rooms import thin_book
from helpers.rooms.study import SyntheticStudy
from helpers.tables import Line

Looks = Callable[[Float[Tensor, "B 1 6"], Tensor, Tensor], Float[Tensor, "B 1 6"]]  # weights, asker, cards


class Student(nn.Module):
    """Lesson 05's: asker (B, 32), cards (B, 6, 96) -> answer (B, 32).

    While it learns, `words` disturbs what it reads, `looks` the weights, knowing what was to be read, and `brought`
    the numbers that each look brings (B, 6, 32), before they are added up.
    """

    def __init__(
        self,
        words: nn.Module | None = None,
        looks: Looks | None = None,
        brought: nn.Module | None = None,
        width: int = 32,
    ):
        super().__init__()
        self.W_query = nn.Linear(32, width, bias=False)
        self.W_key = nn.Linear(96, width, bias=False)
        self.W_value = nn.Linear(96, 32, bias=False)
        self.words = words or nn.Identity()
        self.looks = looks
        self.brought = brought

    def forward(self, asker: Float[Tensor, "B 32"], cards: Float[Tensor, "B 6 96"]) -> Float[Tensor, "B 32"]:
        seen_asker, seen_cards = self.words(asker), self.words(cards)
        query, key, value = self.W_query(seen_asker)[:, None], self.W_key(seen_cards), self.W_value(seen_cards)
        weights = (query @ key.mT / key.shape[-1] ** 0.5).softmax(dim=-1)
        if self.looks and self.training:
            weights = self.looks(weights, asker, cards)
        if self.brought:
            return self.brought(weights.mT * value).sum(dim=1)
        return (weights @ value)[:, 0]


class WholeWords(nn.Module):
    """Dropout for words, each with all its 32 numbers."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        words = x.unflatten(-1, (-1, 32))
        return (words * F.dropout(torch.ones_like(words[..., :1]), self.p, self.training)).flatten(-2)


class Noise(nn.Module):
    """Adds random numbers as large as `share` of the words' own, which have a standard deviation of 0.18."""

    def __init__(self, share: float):
        super().__init__()
        self.std = 0.18 * share

    def forward(self, x: Tensor) -> Tensor:
        return x + self.std * torch.randn_like(x) if self.training else x


def drop(weights: Tensor, asker: Tensor, cards: Tensor, p: float) -> Tensor:
    return F.dropout(weights, p)


def shaken(weights: Tensor, asker: Tensor, cards: Tensor, p: float) -> Tensor:
    """Noise of dropout's size: each weight grows or shrinks by as much, and none is hidden if p < 0.5."""
    size = (p / (1 - p)) ** 0.5
    return weights * (1 + size * torch.where(torch.rand_like(weights) < 0.5, 1.0, -1.0))


def hide_some(weights: Tensor, asker: Tensor, cards: Tensor, p: float, the_needed: bool) -> Tensor:
    """Dropout on the weight of the needed card alone, or on all others' alone."""
    chosen = thin_book.needed(asker, cards)[:, None] == the_needed
    return torch.where(chosen, F.dropout(weights, p), weights)


def students(hidden: str, p: float) -> Callable[[], Student]:
    """Who reads while this is hidden; KeyError for what no student is known for."""
    undisturbed = Student
    return {
        "nothing": undisturbed,
        "AdamW": undisturbed,
        "L2": undisturbed,
        "width": lambda: Student(width=int(p)),
        "words": lambda: Student(nn.Dropout(p)),
        "whole words": lambda: Student(WholeWords(p)),
        "noise on words": lambda: Student(Noise(p)),
        "looks": lambda: Student(looks=partial(drop, p=p)),
        "looks, shaken": lambda: Student(looks=partial(shaken, p=p)),
        "the needed card": lambda: Student(looks=partial(hide_some, p=p, the_needed=True)),
        "all other cards": lambda: Student(looks=partial(hide_some, p=p, the_needed=False)),
        "numbers of looks": lambda: Student(brought=nn.Dropout(p)),
        "words and looks": lambda: Student(nn.Dropout(p), partial(drop, p=p)),
    }[hidden]


class Reading(NamedTuple):
    """One student."""

    hidden: str  # what is hidden from it, or what else keeps it from learning by heart
    strength: float  # p; of a decay: its size; of the noise: its share; of a narrow student: its width
    size: int  # scenes of its book
    steps: int
    rate: float
    seed: int


SEEDS = range(10)
AS_USUAL = (50, 300, 0.01)
THREE = (("nothing", 0.0), ("words", 0.5), ("looks", 0.25))
HIDDEN = {
    "nothing": (0.0,),
    "words": (0.1, 0.25, 0.5, 0.75, 0.9),
    "looks": (0.1, 0.25, 0.5, 0.75, 0.9),
    "words and looks": (0.5,),
    "whole words": (0.1, 0.25, 0.5),
    "numbers of looks": (0.25, 0.5, 0.75),
    "the needed card": (0.25, 0.5),
    "all other cards": (0.25, 0.5),
    "looks, shaken": (0.25, 0.45),
    "noise on words": (0.5, 1.0, 2.0),
    "AdamW": (0.3, 1.0, 3.0, 10.0),
    "L2": (0.0003, 0.001, 0.003, 0.01),
    "width": (2.0, 4.0, 8.0, 16.0),
}
OTHERWISE = ((50, 1200, 0.01), (50, 300, 0.0025), (50, 300, 0.04), (50, 1200, 0.00125))
BOOKS = ((25, 300, 0.01), (100, 300, 0.01), (200, 300, 0.01))
STOPPED_EARLY = tuple((50, steps, 0.01) for steps in (10, 20, 40, 80, 160))


class ThinBook(SyntheticStudy):
    """What is hidden, how much of it, and the dull ways to keep a student from learning by heart."""

    run_type = Reading

    def budget(self) -> str:
        return (
            "the student of notebook 05, 32 scenes of its book a step, Adam; shares of right answers: own and new "
            "scenes (2,000 draws each), own and 500 new ones without the needed card, own without another card"
        )

    def plan(self, lines: Iterable[Line]) -> list[Reading]:
        settings = [(name, strength, *AS_USUAL) for name, strengths in HIDDEN.items() for strength in strengths]
        settings += [(*what, *how) for how in OTHERWISE + BOOKS for what in THREE]
        settings += [("nothing", 0.0, *how) for how in STOPPED_EARLY]
        return [Reading(*setting, seed) for setting in settings for seed in SEEDS]

    def measure(self, run: Reading) -> Line:
        start = time.process_time()
        decays: dict[str, Any] = {
            "AdamW": partial(torch.optim.AdamW, weight_decay=run.strength),
            "L2": partial(torch.optim.Adam, weight_decay=run.strength),
        }
        scenes = telegrams.few(run.size, run.seed)
        student = telegrams.fit(
            students(run.hidden, run.strength),
            "hero",
            run.seed,
            examples=scenes,
            steps=run.steps,
            lr=run.rate,
            make_optimizer=decays.get(run.hidden, torch.optim.Adam),
        )
        own, new = thin_book.book(run.seed, run.size), thin_book.book(1000 + run.seed, 500)
        right = {
            "own": telegrams.accuracy(student, "hero", run.seed, examples=scenes),
            "new": telegrams.accuracy(student, "hero", run.seed),
            "own_without": thin_book.without(student, own, own.needed),
            "new_without": thin_book.without(student, new, new.needed),
            "another": thin_book.without(student, own, own.needed.roll(1, dims=1)),
        }
        shares = {name: round(share, 4) for name, share in right.items()}
        return {**run._asdict(), **shares, "seconds": round(time.process_time() - start, 1)}

    def report(self, lines: Iterable[Line]) -> str:
        """By setting: the means over the seeds, and the range of what is right on new scenes."""
        rows = []
        for run, group in self.by_setting(lines).items():
            means = [
                f"{fmean(line[name] for line in group):.0%}"
                for name in ("own", "new", "own_without", "new_without", "another")
            ]
            new = [line["new"] for line in group]
            settings = [run.hidden, f"{run.strength:g}", str(run.size), f"{run.steps:,}", f"{run.rate:g}"]
            rows.append([*settings, *means, f"{min(new):.0%}–{max(new):.0%}"])
        heads = ["hidden", "strength", "book", "steps", "rate", "own", "new", "own without", "new without", "another"]
        return tables.table([*heads, "new, over seeds"], rows)
