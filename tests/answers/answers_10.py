"""Answers to the exercises of notebook 10: wrong ones, with words of the sentence that must refuse them, and right."""

import math
from fractions import Fraction
from itertools import accumulate
from statistics import fmean, stdev, variance

import numpy as np
import torch
import torch.nn.functional as F

from helpers.rooms.verdicts import holm


def errors_by_loop(a, b):
    differences = [x - y for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    spread = variance(a.tolist()) + variance(b.tolist())
    return [stdev(differences) / math.sqrt(len(a)), math.sqrt(spread / len(a))]


def errors_by_covariance(a, b):
    both = torch.cov(torch.stack([a, b]).double()) / len(a)
    return torch.stack([both[0, 0] + both[1, 1] - both[0, 1] - both[1, 0], both.trace()]).sqrt()


def errors_of_numpy(a, b):
    a, b = a.double().numpy(), b.double().numpy()
    return np.std(a - b) / (len(a) - 1) ** 0.5, np.hypot(np.std(a), np.std(b)) / (len(a) - 1) ** 0.5


def errors_by_pairs(a, b):
    """The variance is half the mean square distance of two different runs."""

    def squared(x):
        return ((x[:, None] - x) ** 2).double().sum() / 2 / (len(x) - 1) / len(x) ** 2

    return squared(a - b).sqrt(), (squared(a) + squared(b)).sqrt()


def error(x):
    return x.std() / len(x) ** 0.5


def apart(a, b):
    return torch.hypot(error(a), error(b))


def loss_by_loop(logits, targets):
    rows = zip(logits[:, -1].tolist(), targets[:, -1].tolist(), strict=True)
    return fmean(math.log(sum(map(math.exp, row))) - row[target] for row, target in rows)


def holm_by_loop(p):
    """The k-th in order, compared with all that are no larger."""
    ranked = sorted(p.tolist())
    steps = [min(1, max((len(p) - k) * ranked[k] for k in range(place + 1))) for place in range(len(p))]
    return [steps[ranked.index(x)] if ranked.count(x) == 1 else steps[len(p) - 1 - ranked[::-1].index(x)] for x in p]


def holm_by_table(p):
    """No sorting: each claim's factor is the number of those that are no smaller."""
    ahead = (p[None] < p[:, None]).sum(1)
    steps = (len(p) - ahead) * p
    return torch.where(p[None] <= p[:, None], steps[None], 0.0).amax(1).clamp(max=1)


def holm_by_numpy(p):
    order = np.argsort(p.numpy(), kind="stable")
    steps = np.maximum.accumulate(p.numpy()[order] * np.arange(len(p), 0, -1))
    return np.minimum(1, steps[np.argsort(order)])


def holm_by_accumulate(p):
    order = sorted(range(len(p)), key=lambda i: p[i].item())
    steps = accumulate((float(p[i]) * (len(p) - k) for k, i in enumerate(order)), max)
    return [x for _, x in sorted(zip(order, (min(1.0, x) for x in steps), strict=True))]


def sorted_steps(p, factors):
    return p.sort().values * torch.tensor(factors)


def back(p, steps):
    return steps[p.argsort().argsort()]


def down(R):
    return list(range(R, 0, -1))


def mean(runs):
    return math.inf if any(map(math.isnan, runs.tolist())) else fmean(runs.tolist())


def rate_by_table(losses):
    means = torch.stack([runs.mean() for runs in losses.values()])
    return list(losses)[torch.where(means.isnan(), torch.inf, means).argmin()]


def rate_by_loop(losses):
    best = None
    for rate in losses:
        if math.isfinite(losses[rate].sum()) and (best is None or losses[rate].mean() < losses[best].mean()):
            best = rate
    return best


def first_without_a_look_at_nan(losses):
    best = None
    for rate, runs in losses.items():
        if best is None or runs.mean() < losses[best].mean():
            best = rate
    return best


WRONG = {
    "10a": [
        ("for one change", 0.05),
        ("declared on average", 1.0),
        ("NONE of them", 0.358),
        ("exactly one", 0.377),
        ("two or more", 0.264),
        ("judged rightly", 0.95),
        ("that is percent", 64.2),
        ("for nineteen", 0.623),
        ("next to never", 0.0),
        ("0.7 is not right", 0.7),
        ("no number", "64 %"),
    ],
    "10b": [
        ("divide by S - 1", lambda a, b: (
            (a - b).std(correction=0) / len(a) ** 0.5, ((a.var(correction=0) + b.var(correction=0)) / len(a)) ** 0.5)),
        ("into the variance only", lambda a, b: (
            (a - b).std() / (len(a) - 1) ** 0.5, ((a.var() + b.var()) / (len(a) - 1)) ** 0.5)),
        ("how far single runs scatter", lambda a, b: ((a - b).std(), (a.var() + b.var()).sqrt())),
        ("the ROOT of S", lambda a, b: ((a - b).std() / len(a), (a.var() + b.var()).sqrt() / len(a))),
        ("take the root", lambda a, b: (error(a - b) ** 2, apart(a, b) ** 2)),
        ("exchanged", lambda a, b: (apart(a, b), error(a - b))),
        ("subtract seed by seed", lambda a, b: (apart(a, b), apart(a, b))),
        ("both are paired", lambda a, b: (error(a - b), error(a - b))),
        ("scatter LESS", lambda a, b: (error(a + b), apart(a, b))),
        ("their squares do", lambda a, b: (error(a - b), error(a) + error(b))),
        ("noise does not cancel noise", lambda a, b: (error(a - b), abs(error(a) - error(b)))),
        ("the error of one mean", lambda a, b: (error(a - b), error(b))),
        ("not 2 S", lambda a, b: (error(a - b), ((a.var() + b.var()) / (2 * len(a))).sqrt())),
        ("thrown together", lambda a, b: (error(a - b), torch.cat([a, b]).std() / len(a) ** 0.5)),
        ("the second is missing", lambda a, b: error(a - b)),
        ("2 things in a tuple", lambda a, b: ((a - b).mean(), error(a - b), apart(a, b))),
        ("changes its input `a`", lambda a, b: (a.sub_(b).std(), 0)),
    ],
    "10c": [
        ("over all places", lambda x, y: F.cross_entropy(x.transpose(1, 2), y)),
        ("the first place", lambda x, y: F.cross_entropy(x[:, 0], y[:, 0])),
        ("the last text", lambda x, y: F.cross_entropy(x[-1], y[-1])),
        ("the target of the last place", lambda x, y: F.cross_entropy(x[:, -1], y[:, 0])),
        ("the sum over the texts", lambda x, y: F.cross_entropy(x[:, -1], y[:, -1]) * len(x)),
        ("one loss for each text", lambda x, y: F.cross_entropy(x[:, -1], y[:, -1], reduction="none")),
        ("the softmax twice", lambda x, y: F.cross_entropy(F.softmax(x, -1)[:, -1], y[:, -1])),
        ("the sign is wrong", lambda x, y: -loss_by_loop(x, y)),
        ("the logarithm is missing", lambda x, y: x[:, -1].softmax(-1)[range(len(x)), y[:, -1]].mean()),
        ("first the logarithm", lambda x, y: -x[:, -1].softmax(-1)[range(len(x)), y[:, -1]].mean().log()),
        ("over the texts", lambda x, y: F.nll_loss(F.log_softmax(x[:, -1], 0), y[:, -1])),
        ("bits", lambda x, y: loss_by_loop(x, y) / math.log(2)),
        ("right guesses", lambda x, y: np.mean((x[:, -1].argmax(1) == y[:, -1]).numpy())),
    ],
    "10d": [
        ("Bonferroni", lambda p: [min(1.0, float(x) * len(p)) for x in p]),
        ("the running maximum", lambda p: back(p, sorted_steps(p, down(len(p)))).clamp(max=1)),
        ("at most 1", lambda p: back(p, sorted_steps(p, down(len(p))).cummax(0).values)),
        ("in sorted order", lambda p: sorted(holm_by_loop(p))),
        ("the wrong way", lambda p: torch.tensor(sorted(holm_by_loop(p)))[p.sort().indices]),
        ("the largest factor", lambda p: back(p, sorted_steps(p, down(len(p))[::-1]).clamp(max=1))),
        ("it does not sort", lambda p: (p * torch.tensor(down(len(p)))).clamp(max=1)),
        ("R, not R - 1", lambda p: back(p, sorted_steps(p, range(len(p) - 1, -1, -1)).cummax(0).values).clamp(max=1)),
        ("Benjamini", lambda p: [
            min(min(1, x * len(p) / (p <= x).sum().item()) for x in p.tolist() if x >= one) for one in p.tolist()]),
        ("Hochberg", lambda p: back(p, sorted_steps(p, down(len(p))).clamp(max=1).flip(0).cummin(0).values.flip(0))),
        ("the decisions", lambda p: [x <= 0.05 for x in holm_by_loop(p)]),
        ("nothing is adjusted", lambda p: p.clone()),
        ("changes its input", lambda p: p.mul_(len(p))),
    ],
    "10e": [
        ("one lucky run", lambda losses: sorted(losses, key=lambda rate: losses[rate].nan_to_num(9).min())[0]),
        ("a rate that diverged wins", first_without_a_look_at_nan),
        ("are left out", lambda losses: min(
            losses, key=lambda rate: x.mean() if len(x := losses[rate][~losses[rate].isnan()]) else torch.tensor(9))),
        ("NaN has become 0", lambda losses: min(losses, key=lambda rate: losses[rate].nan_to_num().mean())),
        ("HIGHEST", lambda losses: max(losses, key=lambda rate: mean(losses[rate]))),
        ("that is a sum", lambda losses: min(losses, key=lambda rate: losses[rate].nan_to_num(1e9).sum())),
        ("the worst run only", lambda losses: min(losses, key=lambda rate: losses[rate].nan_to_num(1e9).max())),
        ("the median", lambda losses: min(losses, key=lambda rate: losses[rate].nan_to_num(1e9).median())),
        ("one seed only", lambda losses: min(losses, key=lambda rate: losses[rate][0].nan_to_num(1e9))),
        ("that is the loss", lambda losses: min(map(mean, losses.values()))),
        ("place in the dictionary", lambda losses: list(losses).index(rate_by_loop(losses))),
        ("changes its input", lambda losses: losses.popitem()[0]),
        ("changes its input", lambda losses: min(losses, key=lambda rate: losses[rate].nan_to_num_(1e9).mean())),
    ],
}  # fmt: skip
RIGHT = {
    "10a": [
        0.64,
        0.6415140775914581,
        float(1 - Fraction(19, 20) ** 20),
        [sum(math.comb(20, k) * 0.05**k * 0.95 ** (20 - k) for k in range(1, 21))],
        -math.expm1(20 * math.log1p(-0.05)),
        np.float32(0.642),
    ],
    "10b": [
        errors_by_loop,
        errors_by_covariance,
        errors_of_numpy,
        errors_by_pairs,
        lambda a, b: (error(b - a), apart(b, a)),
    ],
    "10c": [
        loss_by_loop,
        lambda x, y: F.cross_entropy(x.transpose(1, 2), y, reduction="none")[:, -1].mean(),
        lambda x, y: -x[:, -1].log_softmax(-1).gather(1, y[:, -1:]).mean(),
        lambda x, y: -torch.distributions.Categorical(logits=x[:, -1]).log_prob(y[:, -1]).sum() / len(y),
        lambda x, y: [(x[:, -1].logsumexp(-1) - (x[:, -1] * F.one_hot(y[:, -1], x.shape[-1])).sum(-1)).mean()],
    ],
    "10d": [
        holm_by_loop,
        holm_by_table,
        holm_by_numpy,
        holm_by_accumulate,
        lambda p: list(holm(dict(enumerate(p.tolist()))).values()),
    ],
    "10e": [
        rate_by_table,
        rate_by_loop,
        lambda losses: min(losses, key=lambda rate: mean(losses[rate])),
        lambda losses: sorted((mean(runs), rate) for rate, runs in losses.items())[0][1],
        lambda losses: torch.tensor(min(losses, key=lambda rate: losses[rate].nan_to_num(1e9, 1e9).mean())),
    ],
}  # fmt: skip
