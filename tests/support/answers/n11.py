"""Answers to the museum's exercises: wrong ones, with words of what is said of them, and right."""

import math

import torch
from torch import nn

from helpers.rooms.museum_planted import planted
from helpers.rooms.museum_program import Program, T

A, B, C = (planted(label) for label in ("11a", "11b", "11c"))
PAGES = "every step and every worker reads other pages"
MOVES = "every parameter moves, and only matrices decay"
LONGER = "a text means the same, however it goes on"


def repaired(kind, name, **parts):
    return type("Mine", (kind,), {"seen_by": name, **parts})


def deck(seed_of):
    """Batches of windows, with a generator that is made anew for each step."""

    def variant(self, text, steps, seed, worker=0):
        for step in range(steps):
            dice = torch.Generator().manual_seed(seed_of(seed, step, worker))
            yield text[torch.randint(len(text) - T, (16, 1), generator=dice) + torch.arange(T + 1)]

    return variant


def forward(norm):
    """The program's pass, with the norm that the MLP reads."""

    def variant(self, tokens, real=None):
        real = torch.ones_like(tokens, dtype=torch.bool) if real is None else real
        allowed = self.allowed(real)
        x = self.token(tokens) + self.place(self.places(real))
        for block in self.blocks:
            x = x + self.dropped(self.attention(block, self.normed(block.norm1, x), allowed))
            x = x + self.dropped(block.mlp(norm(block, x)))
        return self.head(self.normed(self.norm, x))

    return variant


def places(how):
    return repaired(C, LONGER, places=how)


def apart(program, tokens, t):
    with torch.no_grad():
        return program(tokens[:, :t]) - program(tokens)[:, :t]


WRONG = {
    "11a": [
        ("builds on PlantedA", Program),
        ("checks.table([PlantedA]) lists them", repaired(A, "the pages")),
        ("stays green", repaired(A, "the first loss is ln V")),
        ("now replace the part", repaired(A, PAGES)),
        ("two workers read", repaired(A, PAGES, deck=deck(lambda seed, step, worker: step))),
        ("only 16 are different", repaired(A, PAGES, deck=deck(lambda seed, step, worker: worker))),
        ("two seeds deal the same", repaired(A, PAGES, deck=deck(lambda seed, *rest: hash(rest)))),
        (
            "aren't pieces of the text",
            repaired(
                A,
                PAGES,
                deck=lambda self, text, *how: (
                    batch.flip(1) for batch in deck(lambda *numbers: hash(numbers))(self, text, *how)
                ),
            ),
        ),
        (
            "number or size of windows",
            repaired(
                A,
                PAGES,
                deck=lambda self, *how: (batch[:, :-1] for batch in deck(lambda *numbers: hash(numbers))(self, *how)),
            ),
        ),
    ],
    "11b": [
        ("stays green", repaired(B, "no letter sees the future")),
        ("norm2.weight doesn't move", repaired(B, MOVES, forward=forward(lambda b, x: b.norm1(x)))),
        ("sees the future", repaired(B, MOVES, forward=forward(lambda b, x: b.norm2(x.flip(1))))),
        ("the healthy program", repaired(B, MOVES, forward=forward(lambda b, x: 2 * b.norm2(x)))),
        (
            "the healthy program",
            repaired(B, MOVES, forward=forward(lambda b, x: b.norm2(b.norm1(x)))),
        ),
    ],
    "11c": [
        ("now replace the part", repaired(C, LONGER)),
        ("of a longer text", places(lambda self, real: real.shape[1] - real.cumsum(1))),
        ("than alone", places(lambda self, real: torch.arange(real.shape[1]).expand_as(real))),
        ("the healthy program", places(lambda self, real: real.cumsum(dim=1) * 0)),
    ],
    "11e": [
        ("that is the square", lambda p, x, t: apart(p, x, t).square().max().item()),
        ("knows how long its text is", lambda p, x, t: apart(p, x, t)[:, -1].abs().max().item()),
        ("it gives False where", lambda p, x, t: not apart(p, x, t).any()),
    ],
}
RIGHT = {
    "11a": [
        repaired(A, PAGES, deck=deck(lambda *numbers: hash(numbers))),
    ],
    "11b": [
        repaired(B, MOVES, forward=Program.forward),
        repaired(B, MOVES, forward=forward(lambda b, x: b.norm2(x))),
    ],
    "11c": [
        places(lambda self, real: real.cumsum(dim=1).sub(1).relu()),
        places(lambda self, real: nn.functional.pad(real.cumsum(1), (1, 0))[:, :-1]),
    ],
    "11e": [
        lambda p, x, t: apart(p, x, t).abs().max(),
        lambda p, x, t: float(apart(p, x, t).flatten().norm(p=math.inf)),
    ],
}
