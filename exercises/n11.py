"""The exercises of *the museum of bugs*: faults to find and repair, and two tools to find them."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from exercises.judge import WrongError, built, exercise
from exercises.properties import stir
from helpers.rooms import museum_checks as checks
from helpers.rooms.museum_planted import LINES, planted
from helpers.rooms.museum_program import Program


def repair(label: str) -> None:
    broken = planted(label)
    kind = f"a class that builds on {broken.__name__}"

    @built(label, kind)
    def repaired(MyRepair: Any) -> None:
        """A class that replaces the part with the wrong line, and names a check that saw it."""
        if not (isinstance(MyRepair, type) and issubclass(MyRepair, broken)):
            raise WrongError(f"it should be {kind}, as the faults build on Program")
        names_a_red_check(MyRepair, broken)
        if not any(callable(part) for name, part in vars(MyRepair).items() if name[:2] != "__"):
            raise WrongError("that is the right check; now replace the part with the wrong line")
        for name in checks.CHECKS:
            if sentence := checks.said_of(MyRepair, name):
                raise WrongError(f'"{name}" is red now: {sentence}')
        is_healthy(MyRepair)
        deals_windows(MyRepair)


def names_a_red_check(MyRepair: Any, broken: type) -> None:
    name = MyRepair.seen_by
    if name not in checks.CHECKS:
        raise WrongError(
            f"`seen_by` should be the name of a check, and {name!r} is none: "
            f"checks.table([{broken.__name__}]) lists them"
        )
    if not checks.said_of(broken, name):
        raise WrongError(f'on the program as it is, "{name}" stays green: which check goes red?')


@torch.no_grad()
def is_healthy(MyRepair: Any) -> None:
    """It gives the logits of the healthy program, also beside a text that is padded."""
    tokens, real = checks.random_letters(2, 12), torch.ones(2, 12, dtype=torch.bool)
    real[1, :7] = False
    mine, healthy = (kind(65, seed=1).eval() for kind in (MyRepair, Program))
    for _ in range(2):  # fresh, and with numbers of which no two layers have the same
        if not torch.allclose(mine(tokens, real)[real], healthy(tokens, real)[real], atol=1e-4):
            raise WrongError("every check is green, and yet its logits aren't those of the healthy program")
        mine.load_state_dict(stir(healthy).state_dict(), strict=False)


def deals_windows(MyRepair: Any) -> None:
    """Its batches have the healthy program's shapes, and lie in the text; another seed deals others."""
    text = torch.arange(200)
    batches, right, other_batches = (
        list(kind(65, seed=1).deck(text, 3, seed)) for kind, seed in ((MyRepair, 1), (Program, 1), (MyRepair, 2))
    )
    if [batch.shape for batch in batches] != [batch.shape for batch in right]:
        raise WrongError("every check is green, and yet it deals another number or size of windows")
    if not all((batch.diff() == 1).all() for batch in batches):
        raise WrongError("every check is green, and yet its windows aren't pieces of the text")
    if torch.equal(torch.cat(batches), torch.cat(other_batches)):
        raise WrongError("every check is green, and yet two seeds deal the same windows")


for label in LINES:
    repair(label)


class KnowsLength(nn.Module):
    """a small program that knows how long its text is"""  # as the judge shows it to a reader

    def __init__(self, V: int):
        super().__init__()
        self.table = nn.Embedding(V, V)
        nn.init.normal_(self.table.weight, generator=torch.Generator().manual_seed(V))

    def forward(self, tokens: Tensor) -> Tensor:
        T = tokens.shape[1]
        fading = 4.0 ** -torch.arange(T)[:, None]  # the largest difference isn't at the end
        return self.table(tokens).cumsum(1) * fading * T


@torch.no_grad()
def both(program: nn.Module, tokens: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """The logits of the first t tokens alone, and of the same places in the whole text."""
    return program(tokens[:, :t]), program(tokens)[:, :t]


def difference(program: nn.Module, tokens: Tensor, t: int) -> float:
    alone, whole = both(program, tokens, t)
    return (alone - whole).abs().max().item()


def programs() -> Iterator[tuple[nn.Module, Tensor, int]]:
    for V, B, T, t in ((2, 1, 3, 1), (4, 1, 7, 2), (3, 3, 12, 11), (5, 2, 9, 4)):
        yield KnowsLength(V), checks.random_letters(B, T, V=V), t
    yield nn.Embedding(5, 5), checks.random_letters(2, 8, V=5), 3  # the next letter, from the last alone


exercise(
    "11e",  # The check that saw program B
    difference,
    programs,
    mistakes={
        "that is the mean: one wrong number among thousands would drown in it, so take the largest": (
            lambda program, tokens, t: torch.sub(*both(program, tokens, t)).abs().mean()
        ),
        "a difference may be below zero: take its size": (
            lambda program, tokens, t: torch.sub(*both(program, tokens, t)).max()
        ),
        "that compares what comes after the cut: the beginnings should agree": (
            lambda program, tokens, t: (program(tokens[:, t:]) - program(tokens)[:, t:]).abs().max()
        ),
    },
)
