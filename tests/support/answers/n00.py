"""Answers to the exercises of notebook 00: wrong ones, with words of what must be said, and right ones."""

from fractions import Fraction

import numpy as np
import torch


def simulated(a, T):
    x = torch.zeros(T, dtype=torch.float64, requires_grad=True)
    h = torch.zeros((), dtype=torch.float64)
    for t in range(T):
        h = a * h + x[t]
    h.backward()
    return x.grad[0]


WRONG = {
    "0b": [
        ("in reverse order", (1600, 128)),
        ("number 2: a score is ONE", (128, 820)),
        ("number 1: 128 numbers", (40, 1600)),
        ("2 things in a tuple", 128),
        ("number 2: a score is ONE", (128, 1599)),
        ("number 1: 128 numbers", (127, 1600)),
    ],
    "0c": [
        ("`a` is taken as 1", lambda a, T: 1.0),
        ("the signs are lost", lambda a, T: abs(a ** (T - 1))),
        ("stands on its head", lambda a, T: a ** (1 - T)),
        ("it gives 0.5 where 1 is right", lambda a, T: a),
    ],
    "0d": [
        ("all is 1 too large", lambda w: 1 + w.argmax(1)),
        ("a dimension of 1 too many", lambda w: w.topk(1).indices),
        ("it has the shape (T, S), and (T) is asked for", lambda w: (w == w.amax(1, True)).long()),
        ("it gives [1] where [0] is right", lambda w: w.amax(1)),
        ("changes its input `w`", lambda w: w.mul_(2).argmax(-1)),
        ("not yet", lambda w: (w > 0.5).int().argmax(-1)),
        ("for 3 words written and 6 read", lambda w: w[:, :3].argmax(-1)),
    ],
}
RIGHT = {
    "0b": [[128, 1600], (128.0, Fraction(1600)), np.array([128, 1600])],
    "0c": [simulated, lambda a, T: np.power(float(a), T - 1)[None], lambda a, T: [a**T / a]],
    "0d": [
        lambda w: [row.index(max(row)) for row in w.tolist()],
        lambda w: w.numpy().argmax(axis=1),
        lambda w: w.max(dim=1).indices.double().requires_grad_(),
    ],
}
