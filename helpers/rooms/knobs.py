"""Lesson 02b's network: three knobs say which box of a card counts, for many questions at once."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from helpers import telegrams

Choice = Callable[[Float[Tensor, "*batch N"]], Float[Tensor, "*batch N"]]  # scores -> weights


class Knobs(nn.Module):
    """Who asks (B, 32), six cards (B, 6, 96) -> answers (B, 32): the things, mixed by `choose`."""

    def __init__(self, choose: Choice, start: Float[Tensor, "3"]):
        super().__init__()
        self.knobs = nn.Parameter(start.clone())
        self.choose = choose

    def forward(self, asker: Float[Tensor, "B 32"], cards: Float[Tensor, "B 6 96"]) -> Float[Tensor, "B 32"]:
        boxes = cards.unflatten(-1, (3, 32))
        fits = (boxes * asker[:, None, None]).sum(dim=-1)  # is the asker in the box? (B, 6, 3)
        weights = self.choose(fits @ self.knobs)
        return (weights[..., None] * boxes[:, :, 1]).sum(dim=1)


def trained(choose: Choice, start: Float[Tensor, "3"], seed: int = 0) -> Knobs:
    """After 300 steps of 32 questions each."""
    return telegrams.fit(lambda: Knobs(choose, start), "give", seed)


def accuracies(choose: Choice, starts: Sequence[Float[Tensor, "3"]]) -> list[float]:
    """The share of right answers after training, for seeds 0, 1, ..., each with its start."""
    return [telegrams.accuracy(trained(choose, start, seed), "give", seed) for seed, start in enumerate(starts)]


def ground(choose: Choice, turns: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """The error over 400 questions at each turn of the giver's knob; the others stand at 1."""
    inputs, answers = telegrams.look_up("give", 400, torch.Generator().manual_seed(1))
    with torch.no_grad():
        errors = [telegrams.loss(Knobs(choose, torch.tensor([turn, 1.0, 1.0]))(*inputs), answers) for turn in turns]
    return torch.stack(errors)
