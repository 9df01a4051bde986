"""Answers to the exercises of notebook 11: wrong ones, with words of the sentence that must refuse them, and right."""

import math
from fractions import Fraction

import numpy as np
import torch
from torch import nn


def difference_by_loop(program, tokens, t):
    far = 0.0
    with torch.no_grad():
        alone, whole = program(tokens[:, :t]).tolist(), program(tokens).tolist()
    for one, other in zip(alone, whole, strict=True):
        for a, b in zip(one, other[:t], strict=True):
            far = max([far, *(abs(x - y) for x, y in zip(a, b, strict=True))])
    return far


def difference_by_norm(program, tokens, t):
    with torch.inference_mode():
        apart = program(tokens)[:, :t] - program(tokens[:, :t])
    return float(apart.flatten().norm(p=math.inf))


def apart(program, tokens, t):
    with torch.no_grad():
        return program(tokens[:, :t]) - program(tokens)[:, :t]


WRONG = {
    "11d": [
        ("a blind guess", lambda V: math.log(V)),
        ("lowest of a healthy loss", lambda V: 0.0),
        ("V - 1 wrong letters", lambda V: math.log(math.e + V) - 1),
        ("take 1 away", lambda V: math.log(math.e + V - 1)),
        ("the share itself", lambda V: math.e / (math.e + V - 1)),
        ("the sign is wrong", lambda V: 1 - math.log(math.e + V - 1)),
        ("in bits", lambda V: math.log2(math.e + V - 1) - math.log2(math.e)),
        ("where 3.2005 is right", lambda V: 3.2),
    ],
    "11e": [
        ("that is the mean", lambda p, x, t: apart(p, x, t).abs().mean().item()),
        ("below zero", lambda p, x, t: apart(p, x, t).max().item()),
        ("a yes or no", lambda p, x, t: not apart(p, x, t).any()),
        ("the last place only", lambda p, x, t: apart(p, x, t)[:, -1].abs().max().item()),
        ("after the cut", lambda p, x, t: (p(x[:, t:]) - p(x)[:, t:]).abs().max().item()),
        ("probabilities", lambda p, x, t: (
            p(x[:, :t]).softmax(-1) - p(x)[:, :t].softmax(-1)).abs().max().item()),
        ("squared", lambda p, x, t: apart(p, x, t).square().max().item()),
        ("the sum", lambda p, x, t: apart(p, x, t).abs().sum().item()),
    ],
    "11f": [
        ("the variance", 64.0),
        ("there are 64 of them", 1.0),
        ("their squares do", 32),
        ("the size of a logit is asked for", 42.0),
        ("a table of 0.02", 0.16),
        ("one head's", 4.0),
        ("is not right", 7.0),
    ],
}  # fmt: skip
RIGHT = {
    "11d": [
        lambda V: math.log(math.e + V - 1) - 1,
        lambda V: -math.log(math.e / (math.e + V - 1)),
        lambda V: math.log1p((V - 1) / math.e),
        lambda V: nn.functional.cross_entropy((torch.arange(V) == 0).double(), torch.tensor(0)),
    ],
    "11e": [
        difference_by_loop,
        difference_by_norm,
        lambda p, x, t: apart(p, x, t).abs().max(),
        lambda p, x, t: max(apart(p, x, t).max().item(), -apart(p, x, t).min().item()),
    ],
    "11f": [8, 64**0.5, float(Fraction(8)), np.sqrt(64), torch.tensor(8.0)],
}
