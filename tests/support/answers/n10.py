"""Answers to the exercises of *what matters*: wrong ones, with words of what is said, and right."""

import math
from statistics import fmean

import numpy as np
import torch


def errors_by_covariance(a, b):
    covariance = torch.cov(torch.stack([a, b]).double()) / len(a)
    return torch.stack(
        [covariance[0, 0] + covariance[1, 1] - covariance[0, 1] - covariance[1, 0], covariance.trace()]
    ).sqrt()


def error(x):
    return x.std() / len(x) ** 0.5


def apart(a, b):
    return torch.hypot(error(a), error(b))


def mean(runs):
    return math.inf if any(map(math.isnan, runs.tolist())) else fmean(runs.tolist())


WRONG = {
    "10a": [
        ("that is 1 minus what is asked for", 0.358),
        ("no percent", 64.2),
        ("0.7 is not right", 0.7),
        ("0.646 is not right", 0.646),
    ],
    "10b": [
        ("1.414 where 1 is right", lambda a, b: ((a - b).std() / (len(a) - 1) ** 0.5, apart(a, b))),
        ("in another order", lambda a, b: (apart(a, b), error(a - b))),
        ("paired error: that is the square", lambda a, b: (error(a - b) ** 2, apart(a, b) ** 2)),
        ("that is the paired error alone", lambda a, b: error(a - b)),
        ("changes its input `a`", lambda a, b: (a.sub_(b).std(), 0)),
    ],
    "10e": [
        ("0.1 where 0.3 is right", lambda losses: min(losses, key=lambda x: losses[x].nan_to_num().mean())),
        ("0.3 where 0.1 is right", lambda losses: min(
            losses, key=lambda x: losses[x].nan_to_num(10).mean())),
        ("0.1 where 0.3 is right", lambda losses: min(
            losses, key=lambda x: mean(losses[x][: min(map(len, losses.values()))]))),
        ("0.3 where 0.1 is right", lambda losses: max(losses, key=lambda x: mean(losses[x]))),
        ("where 0.5 is right", lambda losses: min(map(mean, losses.values()))),
        ("changes its input `losses`", lambda losses: losses.popitem()[0]),
    ],
}  # fmt: skip
RIGHT = {
    "10a": [0.64, [0.642], np.float32(0.6415)],
    "10b": [errors_by_covariance, lambda a, b: (error(b - a), apart(b, a))],
    "10e": [
        lambda losses: sorted((mean(runs), rate) for rate, runs in losses.items())[0][1],
        lambda losses: torch.tensor(min(losses, key=lambda x: losses[x].nan_to_num(1e9).mean())),
    ],
}
