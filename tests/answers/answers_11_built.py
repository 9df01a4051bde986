"""Answers to the repairs of notebook 11: wrong ones, with words of the sentence that must refuse them, and right."""

import numpy as np
import torch
from torch import nn

from helpers.rooms.museum_planted import planted
from helpers.rooms.museum_program import Program, T

A, B, C = (planted(label) for label in ("11a", "11b", "11c"))
PAGES = "every step and every worker reads other pages"
MOVES = "every parameter moves, and only matrices decay"
LONGER = "a text means the same, however it goes on"


def named(kind, name):
    """The planted program with a name, and nothing repaired."""
    return type("Mine", (kind,), {"seen_by": name})


def repaired(kind, name, **parts):
    return type("Mine", (kind,), {"seen_by": name, **parts})


def deck(seed_of, length=T + 1):
    """Batches of windows of one generator."""

    def variant(self, text, steps, seed, worker=0):
        dice = torch.Generator().manual_seed(seed_of(seed, worker))
        for _ in range(steps):
            yield text[torch.randint(len(text) - T, (16, 1), generator=dice) + torch.arange(length)]

    return variant


def again_in_each_step(self, text, steps, seed, worker=0):
    for _ in range(steps):
        dice = torch.Generator().manual_seed(seed + worker)
        yield text[torch.randint(len(text) - T, (16, 1), generator=dice) + torch.arange(T + 1)]


def always_the_same(self, text, steps, seed, worker=0):
    for _ in range(steps):
        yield text[worker * 1000 : worker * 1000 + T + 1].expand(16, -1)


def anew_in_each_step(self, text, steps, seed, worker=0):
    for step in range(steps):
        dice = torch.Generator().manual_seed(10_000 * seed + 100 * step + worker)
        yield text[torch.randint(len(text) - T, (16, 1), generator=dice) + torch.arange(T + 1)]


def window_by_window(self, text, steps, seed, worker=0):
    dice = np.random.default_rng([seed, worker])
    for _ in range(steps):
        yield torch.stack([text[i : i + T + 1] for i in dice.integers(len(text) - T, size=16).tolist()])


def one_deck(self, text, steps, seed, worker=0):
    torch.manual_seed(1000 * seed + worker)
    starts = torch.randint(len(text) - T, (steps, 16, 1)).tolist()
    for batch in starts:
        yield text[torch.tensor(batch) + torch.arange(T + 1)]


def forward(norm):
    """The program's pass, with the norm that the MLP reads."""

    def variant(self, tokens, real=None):
        real = torch.ones_like(tokens, dtype=torch.bool) if real is None else real
        allowed = self.allowed(real)
        x = self.token(tokens) + self.place(self.places(real))
        for block in self.blocks:
            x = x + self.dropped(self.attention(block, self.normed(block.norm1, x), allowed))
            x = x + self.dropped(block.mlp(norm(self, block, x)))
        return self.head(self.normed(self.norm, x))

    return variant


def healthy_forward(self, tokens, real=None):
    return Program.forward(self, tokens, real)


def by_branches(self, tokens, real=None):
    if real is None:
        real = tokens >= 0
    x, allowed = self.token(tokens) + self.place(self.places(real)), self.allowed(real)
    for block in self.blocks:
        for norm, branch in ((block.norm1, lambda y, b=block: self.attention(b, y, allowed)), (block.norm2, block.mlp)):
            x = x + self.dropped(branch(self.normed(norm, x)))
    return self.head(self.normed(self.norm, x))


def places_by_loop(self, real):
    rows = []
    for row in real.tolist():
        count, places = 0, []
        for it in row:
            places.append(max(0, count))
            count += it
        rows.append(places)
    return torch.tensor(rows)


def wrong_places(how):
    return repaired(C, LONGER, places=how)


WRONG = {
    "11a": [
        ("builds on PlantedA", Program),
        ("builds on PlantedA", repaired(Program, PAGES, deck=deck(lambda seed, worker: 1000 * seed + worker))),
        ("the name of a check", named(A, "the pages")),
        ("stays green", named(A, "the first loss is ln V")),
        ("now replace", named(A, PAGES)),
        ("two workers read", repaired(A, PAGES, deck=deck(lambda seed, worker: seed))),
        ("only 16 are different", repaired(A, PAGES, deck=again_in_each_step)),
        ("is red now", repaired(A, PAGES, start=lambda self: None)),
        ("raises TypeError", repaired(A, PAGES, deck=lambda self, text: None)),
        ("of 64 windows", repaired(A, PAGES, deck=always_the_same)),
    ],
    "11b": [
        ("builds on PlantedB", nn.Linear),
        ("the name of a check", named(B, "norm2")),
        ("stays green", named(B, "no letter sees the future")),
        ("now replace", named(B, MOVES)),
        ("norm2.weight doesn't move", repaired(B, MOVES, forward=forward(lambda p, b, x: p.normed(b.norm1, x)))),
        ("norm1.weight doesn't move", repaired(B, MOVES, normed=lambda self, norm, x: x)),
        ("raises AttributeError", repaired(B, MOVES, forward=forward(lambda p, b, x: b.norm3(x)))),
        ("aren't those of the healthy program", repaired(B, MOVES, forward=forward(lambda p, b, x: 2 * b.norm2(x)))),
        ("no letter sees the future", repaired(B, MOVES, forward=forward(lambda p, b, x: b.norm2(x.flip(1))))),
        ("norm2.weight doesn't move", repaired(B, MOVES, forward=forward(lambda p, b, x: x))),
    ],
    "11c": [
        ("builds on PlantedC", Program),
        ("the name of a check", named(C, "places")),
        ("stays green", named(C, "no letter sees the future")),
        ("now replace", named(C, LONGER)),
        ("than at the start of a longer text", wrong_places(lambda self, real: (real.shape[1] - real.cumsum(1)))),
        ("than alone", wrong_places(lambda self, real: torch.arange(real.shape[1]).expand_as(real))),
        ("is red now", wrong_places(lambda self, real: real.cumsum(dim=1))),
        ("aren't those of the healthy program", wrong_places(lambda self, real: real.cumsum(dim=1) * 0)),
        ("raises NameError", wrong_places(lambda self, real: nowhere(real))),
    ],
}  # fmt: skip
RIGHT = {
    "11a": [
        repaired(A, PAGES, deck=deck(lambda seed, worker: 1000 * seed + worker)),
        repaired(A, PAGES, deck=deck(lambda seed, worker: 1_000_003 * worker + seed)),
        repaired(A, PAGES, deck=anew_in_each_step),
        repaired(A, PAGES, deck=window_by_window),
        repaired(A, PAGES, deck=one_deck),
    ],
    "11b": [
        repaired(B, MOVES, forward=healthy_forward),
        repaired(B, MOVES, forward=forward(lambda p, b, x: p.normed(b.norm2, x))),
        repaired(B, MOVES, forward=forward(lambda p, b, x: b.norm2(x))),
        repaired(B, MOVES, forward=by_branches),
        repaired(
            B, MOVES, forward=forward(lambda p, b, x: nn.functional.layer_norm(x, x.shape[-1:], *b.norm2.parameters()))
        ),
    ],
    "11c": [
        wrong_places(lambda self, real: (real.cumsum(dim=1) - 1).clamp(min=0)),
        wrong_places(lambda self, real: real.cumsum(dim=1).sub(1).relu()),
        wrong_places(lambda self, real: (real.int().cumsum(-1) - real.int()).long()),
        wrong_places(places_by_loop),
        wrong_places(lambda self, real: torch.nn.functional.pad(real.cumsum(1), (1, 0))[:, :-1]),
    ],
}
