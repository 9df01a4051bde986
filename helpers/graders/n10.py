"""The exercises of notebook 10: what matters."""

import torch
from torch import nn, randn

from helpers.exercises import Answer, Pairs, exercise


@exercise(
    "10a", hint="compare with the whole model of the SAME seed; then mean and std (over seeds - 1) along the seeds"
)
def damage(answer: Answer) -> Pairs:
    """answer(losses (variants, seeds), whole (seeds,)) -> mean and standard deviation of the damage (variants, 2)."""
    losses, whole = 2 + 0.1 * randn(3, 4), 2 + 0.1 * randn(4)
    yield answer(losses, whole), torch.stack([(losses - whole).mean(1), (losses - whole).std(1)], dim=1)


@exercise("10b", hint="F.cross_entropy of the last logits and last targets")
def honest_loss(answer: Answer) -> Pairs:
    """answer(logits (B, T, V), targets (B, T)) -> mean loss at the last position, where nothing can leak."""
    logits, targets = randn(6, 5, 7), torch.arange(30).view(6, 5) % 7
    yield answer(logits, targets), nn.functional.cross_entropy(logits[:, -1], targets[:, -1])


@exercise("10c", hint="triu(1) keeps what is above the diagonal")
def leaks(answer: Answer) -> Pairs:
    """answer(weights (T, T)) -> how much weight each query puts on its own future, summed (T,)."""
    for weights in (randn(4, 4).softmax(-1), randn(6, 6).softmax(-1)):
        yield answer(weights), weights.triu(1).sum(-1)
