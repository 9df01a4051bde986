"""The exercises of *the museum of bugs*: faults to find and repair, and two tools for whoever looks for them."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from exercises.judge import Answer, Pairs, built, exercise
from helpers.errors import CheckError
from helpers.rooms import museum_checks as checks
from helpers.rooms import museum_planted as planted
from helpers.rooms.museum_program import Program


def _repair(label: str) -> Callable[[Any], None]:
    def trial(answer: Any) -> None:
        """A class that replaces the part with the wrong line, and names in `seen_by` a check that saw it."""
        broken = planted.planted(label)
        if not (isinstance(answer, type) and issubclass(answer, broken)):
            raise CheckError(f"it should be a class that builds on {broken.__name__}, as the faults build on Program")
        if answer.seen_by not in checks.CHECKS:
            names = ", ".join(f'"{name}"' for name in checks.CHECKS)
            raise CheckError(f"`seen_by` should be the name of a check, one of {names}")
        if not checks.said_of(broken, answer.seen_by):
            raise CheckError(f'on the program as it is, "{answer.seen_by}" stays green: which check goes red?')
        if not any(callable(part) for name, part in vars(answer).items() if not name.startswith("__")):
            raise CheckError("that is the right check; now replace the part with the wrong line")
        for name, sentence in checks.table([answer])[answer.__name__].items():
            if sentence:
                raise CheckError(f'"{name}" is red now: {sentence}')
        tokens, real = checks.letters(2, 12), torch.ones(2, 12, dtype=torch.bool)
        real[1, :7] = False
        with torch.no_grad():
            given, right = (kind(65, seed=1).eval()(tokens, real)[real] for kind in (answer, Program))
        if not torch.allclose(given, right, atol=1e-4):
            raise CheckError("every check is green, and yet its logits aren't those of the healthy program")

    return trial


for _label in planted.LINES:
    built(_label, "a class")(_repair(_label))


@exercise(
    "11d",
    {
        "that is a blind guess: the perfect answer does better": lambda V: math.log(V),
        "that is the lowest of a healthy loss: here the softmax is taken of probabilities, which lie between 0 and 1": (
            lambda V: 0.0
        ),
        "there are V - 1 wrong letters, not V": lambda V: math.log(math.e + V) - 1,
        "the right letter's logit is 1, and the logarithm of its share needs it: take 1 away": (
            lambda V: math.log(math.e + V - 1)
        ),
        "that is the share itself: the loss is minus its logarithm": lambda V: math.e / (math.e + V - 1),
        "the sign is wrong: a loss is minus the logarithm": lambda V: 1 - math.log(math.e + V - 1),
        "that is a loss in bits: the others are in nats": lambda V: (math.log(math.e + V - 1) - 1) / math.log(2),
    },
)
def floor(answer: Answer) -> Pairs:
    """answer(V) -> the lowest loss that cross_entropy can give when it gets probabilities of V letters for logits."""
    for V in (65, 2, 10, 50_257):
        yield answer(V), math.log(math.e + V - 1) - 1


class _Small(nn.Module):
    """Logits that depend on what came before, and, if it is faulty, on how long the text is."""

    def __init__(self, faulty: bool, V: int):
        super().__init__()
        self.table, self.faulty = nn.Embedding(V, V), faulty

    def forward(self, tokens: Tensor) -> Tensor:
        T = tokens.shape[1]
        before = (
            self.table(tokens).cumsum(dim=1) / (4.0 ** torch.arange(T))[:, None]
        )  # the largest difference isn't at the end
        return before * T if self.faulty else before


def _difference(how: Callable[[Tensor, Tensor], Any], cut: int = 0) -> Answer:
    def variant(program: nn.Module, tokens: Tensor, t: int) -> Any:
        with torch.no_grad():
            return how(program(tokens[:, : t - cut]), program(tokens)[:, : t - cut])

    return variant


def _after_the_cut(program: nn.Module, tokens: Tensor, t: int) -> float:
    with torch.no_grad():
        return (program(tokens[:, t:]) - program(tokens)[:, t:]).abs().max().item()


@exercise(
    "11e",
    {
        "that is the mean: one wrong number among thousands would drown in it, so take the largest": _difference(
            lambda alone, whole: (alone - whole).abs().mean().item()
        ),
        "a difference may be below zero: take its size": [
            _difference(lambda alone, whole: (alone - whole).max().item()),
            _difference(lambda alone, whole: (whole - alone).max().item()),
        ],
        "that is a yes or no: the largest difference is asked for": [
            _difference(lambda alone, whole: bool(torch.allclose(alone, whole))),
            _difference(lambda alone, whole: torch.equal(alone, whole)),
            _difference(lambda alone, whole: float(not torch.equal(alone, whole))),
        ],
        "that compares the last place only: all t places should agree": _difference(
            lambda alone, whole: (alone[:, -1] - whole[:, -1]).abs().max().item()
        ),
        "that compares what comes after the cut: the beginnings should agree": _after_the_cut,
        "that compares probabilities: logits are asked for": _difference(
            lambda alone, whole: (alone.softmax(-1) - whole.softmax(-1)).abs().max().item()
        ),
        "the differences are squared": _difference(lambda alone, whole: ((alone - whole) ** 2).max().item()),
        "that is the sum of all differences: the largest is asked for": _difference(
            lambda alone, whole: (alone - whole).abs().sum().item()
        ),
    },
)
def difference(answer: Answer) -> Pairs:
    """answer(program, tokens (B, T), t) -> how far the logits of the first t tokens move when the others follow."""
    right = _difference(lambda alone, whole: (alone - whole).abs().max().item())
    for faulty, V, B, T, t in (
        (True, 5, 1, 9, 4),
        (False, 7, 2, 6, 3),
        (True, 3, 3, 12, 11),
        (True, 6, 2, 5, 1),
        (True, 4, 1, 7, 2),
        (True, 2, 1, 3, 1),
    ):
        program, tokens = _Small(faulty, V), torch.randint(V, (B, T))
        yield answer(program, tokens, t), right(program, tokens, t)
    healthy = Program(9, seed=3).eval()
    tokens = torch.randint(9, (2, 20))
    yield answer(healthy, tokens, 7), right(healthy, tokens, 7), 1e-4


@exercise(
    "11f",
    {
        "that is the variance: the size is its root": 64,
        "each of the 64 products has size 1, and there are 64 of them": 1,
        "sizes of independent numbers don't add up: their squares do": [32, 128],
        "that is the first loss, in the end a matter of the largest logit: the size of a logit is asked for": [41, 42],
        "that would be for a table of 0.02": 0.16,
        "that is for 16 channels, one head's: the table has 64": 4,
    },
)
def size(answer: Answer) -> Pairs:
    """answer = the standard deviation of a dot product of 64 independent pairs of size 1."""
    yield answer, 8.0, 0.1
