"""One answer to each exercise of notebook 11. Yours may look different and be as good: the checks decide."""

import math

import torch

from helpers.rooms import museum_planted as planted
from helpers.rooms.museum_program import T

PlantedA, PlantedB, PlantedC = (planted.planted(label) for label in ("11a", "11b", "11c"))


class MyRepairA(PlantedA):
    seen_by = "every step and every worker reads other pages"

    def deck(self, text, steps, seed, worker=0):
        # One generator for all steps, which nothing sets back.
        dice = torch.Generator().manual_seed(1000 * seed + worker)
        for _ in range(steps):
            starts = torch.randint(len(text) - T, (16, 1), generator=dice)
            yield text[starts + torch.arange(T + 1)]


class MyRepairB(PlantedB):
    seen_by = "every parameter moves, and only matrices decay"

    def forward(self, tokens, real=None):
        real = torch.ones_like(tokens, dtype=torch.bool) if real is None else real
        allowed = self.allowed(real)
        x = self.token(tokens) + self.place(self.places(real))
        for block in self.blocks:
            x = x + self.dropped(self.attention(block, self.normed(block.norm1, x), allowed))
            x = x + self.dropped(block.mlp(self.normed(block.norm2, x)))  # the norm of its own
        return self.head(self.normed(self.norm, x))


class MyRepairC(PlantedC):
    seen_by = "a text means the same, however it goes on"

    def places(self, real):
        # Counted from the front, a place stays what it is when the text goes on.
        return (real.cumsum(dim=1) - 1).clamp(min=0)


def my_floor(V):
    # At best the probabilities are 1 and zeros; their softmax gives the right letter e / (e + V - 1).
    return math.log(math.e + V - 1) - 1


def my_difference(program, tokens, t):
    with torch.no_grad():
        alone, whole = program(tokens[:, :t]), program(tokens)[:, :t]
    return (alone - whole).abs().max().item()


# A sum of 64 products, each of variance 1, has the variance 64.
my_size = 64**0.5
