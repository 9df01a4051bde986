"""Answers about sizes in notebook 07: wrong ones, with words of the sentence that must refuse them, and right."""

import math

import numpy as np
import torch


def by_quadrature(V, C, std):
    """The average of e to the power of a normal number, as a sum over a few places."""
    places, weights = np.polynomial.hermite_e.hermegauss(30)
    return np.log(V * (weights * np.exp(std * np.sqrt(C) * places)).sum() / weights.sum())


WRONG = {
    "7g": [
        ("the context of 64 is only", (32_768, 16_384, 8_320)),
        ("the context of 64 is only", (800, 2_560, 8_320)),
        ("there are four", (200, 2_560, 1_300)),
        ("there are two texts", (400, 1_280, 650)),
        ("there are two texts", (800, 1_280, 1_300)),
        ("for all three layers", (2_400, 7_680, 1_300)),
        ("hidden only afterwards", (440, 2_560, 1_300)),
        ("the sum of D products", (6_400, 2_560, 1_300)),
        ("every token meets every token", (80, 2_560, 1_300)),
        ("widens", [800, 640, 1_300]),
        ("brings them back", (800, 3_200, 1_300)),
        ("heads are attention's", (800, 10_240, 1_300)),
        ("no token meets another", (800, 25_600, 1_300)),
        ("what it GIVES", (800, 4_096, 1_300)),
        ("not the last one alone", (800, 2_560, 130)),
        ("not C", (800, 2_560, 640)),
        ("after the last layer", (800, 2_560, 3_900)),
        ("7 is not right", (7, 2_560, 1_300)),
        ("3 things in a tuple", (800, 2_560)),
    ],
    "7h": [
        ("even chances", lambda V, C, std: -math.log(1 / V)),
        ("HALF the variance", lambda V, C, std: math.log(V) + C * std * std),
        ("square it", lambda V, C, std: math.log(V) + C * std / 2),
        ("its variance is meant", lambda V, C, std: math.log(V) + math.sqrt(C) * std),
        ("not √C times", lambda V, C, std: math.log(V) + math.sqrt(C) * std**2 / 2),
        ("C products, not one", lambda V, C, std: math.log(V) + std**2 / 2),
        ("not C times C", lambda V, C, std: math.log(V) + C**2 * std**2 / 2),
        ("not shared among", lambda V, C, std: math.log(V) + std**2 / C / 2),
        ("the sign is wrong", lambda V, C, std: math.log(V * math.exp(-C * std**2 / 2))),
        ("the logarithm of e to a power", lambda V, C, std: math.log(V) + math.expm1(C * std**2 / 2)),
        ("in bits", lambda V, C, std: math.log2(V * math.exp(C * std**2 / 2))),
        ("the perplexity", lambda V, C, std: math.exp(math.log(V) + C * std**2 / 2)),
        ("the right one, too", lambda V, C, std: math.log((V - 1) * math.exp(C * std**2 / 2))),
        ("ln V is not multiplied", lambda V, C, std: C * std**2 / 2 * math.log(V)),
        ("for V=65, C=32, std=0.02 it gives", lambda V, C, std: 4.2),
    ],
}  # fmt: skip
RIGHT = {
    "7g": [
        (800, 2_560, 1_300),
        [800.0, 2_560.0, 1_300.0],
        torch.tensor([800, 2_560, 1_300]),
        np.array([2 * 4 * 10**2, 2 * 10 * 128, 2 * 10 * 65]),
        (torch.zeros(2, 4, 10, 10).numel(), torch.zeros(2, 10, 128).numel(), torch.zeros(2, 10, 65).numel()),
    ],
    "7h": [
        by_quadrature,
        lambda V, C, std: math.log(V * math.exp(C * std**2 / 2)),
        lambda V, C, std: torch.full((V,), C * std**2 / 2, dtype=torch.float64).logsumexp(0),
        lambda V, C, std: [np.log(V) + np.square(std * np.sqrt(C)) / 2],
        lambda V, C, std: torch.tensor(float(V)).log() + torch.tensor(std).square() * C / 2,
    ],
}
