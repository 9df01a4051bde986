"""Answers to the exercises of *what matters*: wrong ones, with words of what is said, and right."""

import math
from statistics import fmean

import numpy as np
import torch
import torch.nn.functional as F


def errors_by_covariance(a, b):
    both = torch.cov(torch.stack([a, b]).double()) / len(a)
    return torch.stack([both[0, 0] + both[1, 1] - both[0, 1] - both[1, 0], both.trace()]).sqrt()


def error(x):
    return x.std() / len(x) ** 0.5


def apart(a, b):
    return torch.hypot(error(a), error(b))


def loss_by_loop(logits, targets):
    rows = zip(logits[:, -1].tolist(), targets[:, -1].tolist(), strict=True)
    return fmean(math.log(sum(map(math.exp, row))) - row[target] for row, target in rows)


def mean(runs):
    return math.inf if any(map(math.isnan, runs.tolist())) else fmean(runs.tolist())


WRONG = {
    "10a": [
        ("that is 1 minus what is asked for", 0.358),
        ("no percent", 64.2),
        ("0.7 is not right", 0.7),
    ],
    "10b": [
        ("1.414 where 1 is right", lambda a, b: ((a - b).std() / (len(a) - 1) ** 0.5, apart(a, b))),
        ("in another order", lambda a, b: (apart(a, b), error(a - b))),
        ("paired error: that is the square", lambda a, b: (error(a - b) ** 2, apart(a, b) ** 2)),
        ("that is the paired error alone", lambda a, b: error(a - b)),
        ("changes its input `a`", lambda a, b: (a.sub_(b).std(), 0)),
    ],
    "10c": [
        ("times what it should be", lambda x, y: loss_by_loop(x, y) * len(x)),
        ("averaged", lambda x, y: F.cross_entropy(x[:, -1], y[:, -1], reduction="none")),
        ("a softmax is taken of `x`", lambda x, y: loss_by_loop(x.softmax(-1), y)),
        ("in bits", lambda x, y: loss_by_loop(x, y) / math.log(2)),
        ("where 2.127 is right", lambda x, y: F.cross_entropy(x[:, 0], y[:, 0])),
    ],
    "10e": [
        ("0.1 where 0.3 is right", lambda losses: min(losses, key=lambda x: losses[x].nan_to_num().mean())),
        ("0.3 where 0.1 is right", lambda losses: max(losses, key=lambda x: mean(losses[x]))),
        ("where 0.5 is right", lambda losses: min(map(mean, losses.values()))),
        ("changes its input `losses`", lambda losses: losses.popitem()[0]),
    ],
}  # fmt: skip
RIGHT = {
    "10a": [0.64, [0.642], np.float32(0.6415)],
    "10b": [errors_by_covariance, lambda a, b: (error(b - a), apart(b, a))],
    "10c": [
        loss_by_loop,
        lambda x, y: F.cross_entropy(x.transpose(1, 2), y, reduction="none")[:, -1].mean(),
        lambda x, y: [-x[:, -1].log_softmax(-1).gather(1, y[:, -1:]).mean()],
    ],
    "10e": [
        lambda losses: sorted((mean(runs), rate) for rate, runs in losses.items())[0][1],
        lambda losses: torch.tensor(min(losses, key=lambda x: losses[x].nan_to_num(1e9).mean())),
    ],
}
