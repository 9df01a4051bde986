"""Answers to the exercises of notebook 07: wrong ones, with words of the sentence that must refuse them, and right."""

import functools
import math

import numpy as np
import torch
import torch.nn.functional as F


def centered(x):
    return x - torch.sum(x, -1, True) / x.shape[-1]


def deviation(x, divisor=0, inside=1e-5):
    return torch.sqrt((centered(x) ** 2).sum(-1, True) / (x.shape[-1] - divisor) + inside)


def normed(x, gain, shift, **more):
    return centered(x) / deviation(x, **more) * gain + shift


def row_by_row(x, gain, shift):
    rows = []
    for row in x.flatten(0, -2).tolist():
        mean = sum(row) / len(row)
        root = math.sqrt(sum((a - mean) ** 2 for a in row) / len(row) + 1e-5)
        rows.append([(a - mean) / root * g + s for a, g, s in zip(row, gain.tolist(), shift.tolist(), strict=True)])
    return torch.tensor(rows).view(x.shape)


@functools.cache
def parameters(V, T, L, C):
    with torch.device("meta"):
        mlps = [torch.nn.Linear(C, 4 * C, bias=False) for _ in range(2 * L)]
        rest = [torch.nn.Linear(C, C, bias=False) for _ in range(4 * L)]
        rest += [torch.nn.LayerNorm(C, bias=False) for _ in range(2 * L + 1)]
        rest += [torch.nn.Embedding(V, C), torch.nn.Embedding(T, C)]
    return [sum(p.numel() for module in modules for p in module.parameters()) for modules in (mlps, rest)]


def all_of(V, T, L, C, words=1, places=1, attention=4, gains=2, last=1):
    return words * V * C + places * T * C + L * ((attention + 8) * C**2 + gains * C) + last * C


def stacked(step):
    def answer(x, norm, branches):
        stream = x
        for branch in branches:
            stream = step(stream, norm, branch, x)
        return stream

    return answer


def recursive(x, norm, branches):
    return recursive(x + branches[0](norm(x)), norm, branches[1:]) if branches else x


def collected(x, norm, branches):
    """What went in, and all that the branches have written."""
    written = [x]
    for branch in branches:
        written.append(branch(norm(sum(written))))
    return torch.stack(written).sum(0)


WRONG = {
    "7a": [
        ("normalises the columns", lambda x, g, s: normed(x.T, 1, 0).T * g + s),
        ("the whole table at once", lambda x, g, s: F.layer_norm(x, x.shape) * g + s),
        ("not by C - 1", lambda x, g, s: normed(x, g, s, divisor=1)),
        ("1e-5 is missing", lambda x, g, s: normed(x, g, s, inside=0)),
        ("1e-5 stands outside", lambda x, g, s: centered(x) / (deviation(x, inside=0) + 1e-5) * g + s),
        ("not another number", lambda x, g, s: F.layer_norm(x, x.shape[1:], g, s, eps=1e-6)),
        ("divides by the variance", lambda x, g, s: centered(x) / deviation(x) ** 2 * g + s),
        ("the mean is not taken away", lambda x, g, s: x / deviation(x) * g + s),
        ("RMSNorm", lambda x, g, s: F.rms_norm(x, x.shape[1:], g, 1e-5) + s),
        ("the gain is forgotten", lambda x, g, s: F.layer_norm(x, g.shape) + s),
        ("the shift is forgotten", lambda x, g, s: F.layer_norm(x, g.shape, g)),
        ("gain and shift are forgotten", lambda x, g, s: F.layer_norm(x, g.shape)),
        ("after the gain", lambda x, g, s: (F.layer_norm(x, g.shape) + s) * g),
        ("gain and shift are exchanged", lambda x, g, s: F.layer_norm(x, g.shape, s, g)),
        ("the length of the row", lambda x, g, s: centered(x) / (centered(x).norm(dim=1, keepdim=True) + 1e-5) * g + s),
        ("nothing is divided", lambda x, g, s: centered(x) * g + s),
        ("count from the end", lambda x, g, s: normed(x.transpose(1, -1), 1, 0).transpose(1, -1) * g + s),
        ("changes its input `x`", lambda x, g, s: x.sub_(x.mean(1, True)) / deviation(x) * g + s),
    ],
    "7c": [
        ("of one block", lambda V, T, L, C: 8 * C**2 / all_of(V, T, L, C)),
        ("count it once", lambda V, T, L, C: 8 * C**2 * L / all_of(V, T, L, C, words=2)),
        ("the tables count", lambda V, T, L, C: 2 / 3),
        ("the token table", lambda V, T, L, C: 8 * C**2 * L / all_of(V, T, L, C, words=0)),
        ("the position table", lambda V, T, L, C: 8 * C**2 * L / all_of(V, T, L, C, places=0)),
        ("both tables", lambda V, T, L, C: 8 * C**2 * L / all_of(0, 0, L, C)),
        ("two matrices", lambda V, T, L, C: 4 * C**2 * L / all_of(V, T, L, C)),
        ("attention has four", lambda V, T, L, C: 8 * C**2 * L / all_of(V, T, L, C, attention=3)),
        ("the gains are forgotten", lambda V, T, L, C: 8 * C**2 * L / all_of(V, T, L, C, gains=0, last=0)),
        ("the last norm", lambda V, T, L, C: 8 * C**2 * L / all_of(V, T, L, C, last=0)),
        ("two norms", lambda V, T, L, C: 8 * C**2 * L / all_of(V, T, L, C, gains=1)),
        ("no biases", lambda V, T, L, C: (8 * C**2 + 5 * C) * L / all_of(V, T, L, C, gains=13, last=2)),
        ("no part of the MLP", lambda V, T, L, C: (8 * C**2 + C) * L / all_of(V, T, L, C)),
        ("a percentage", lambda V, T, L, C: 100 * 8 * C**2 * L / all_of(V, T, L, C)),
        ("divide by all", lambda V, T, L, C: parameters(V, T, L, C)[0]),
        ("everything else", lambda V, T, L, C: parameters(V, T, L, C)[1] / sum(parameters(V, T, L, C))),
        ("for V=5, T=3, L=2, C=2 it gives", lambda V, T, L, C: 0.5),
    ],
    "7d": [
        ("one causal layer is not enough", (1, 0, 1)),
        ("the causal mask tells", (0, 0, 1)),
        ("more than it takes", (3, 0, 1)),
        ("the outputs never differ", (2, 2, 1)),
        ("no layer has to find that out", (2, 0, 2)),
        ("8 is not right", (8, 0, 1)),
        ("3 things in a tuple", (2, 1)),
    ],
    "7e": [
        ("no residual path", stacked(lambda x, norm, branch, _: branch(norm(x)))),
        ("post-norm", stacked(lambda x, norm, branch, _: norm(branch(x) + x))),
        ("nothing is normalised any more", stacked(lambda x, norm, branch, _: branch(x) + x)),
        ("what a branch writes", stacked(lambda x, norm, branch, _: x + norm(branch(x)))),
        ("added to the first x", stacked(lambda x, norm, branch, first: first + branch(norm(x)))),
        ("all branches read the first x", lambda x, norm, branches: x + sum(b(norm(x)) for b in branches)),
        ("the stream is still normalised", stacked(lambda x, norm, branch, _: norm(x) + branch(x))),
        ("without a last norm", lambda x, norm, branches: norm(recursive(x, norm, branches))),
        ("only the last branch", lambda x, norm, branches: recursive(x, norm, branches[-1:])),
        ("only the first branch", lambda x, norm, branches: recursive(x, norm, branches[:1])),
        ("doubles", stacked(lambda x, norm, branch, _: x + x + branch(norm(x)))),
        ("for x of shape (2, 6)", lambda x, norm, branches: recursive(x, norm, branches) if branches else norm(x)),
        ("for x of shape (3, 4), norm, 2 branches it", lambda x, norm, branches: recursive(x, norm, branches[::-1])),
    ],
}  # fmt: skip
RIGHT = {
    "7a": [
        row_by_row,
        lambda x, g, s: F.layer_norm(x, x.shape[-1:], g, s),
        lambda x, g, s: normed(x.double(), g, s),
        lambda x, g, s: ((x - x.mean(-1, True)) * (x.var(-1, correction=0) + 1e-5).rsqrt()[..., None]).requires_grad_()
        * g + s,
        lambda x, g, s: (x.numpy() - x.numpy().mean(-1, keepdims=True))
        / np.sqrt(x.numpy().var(-1, keepdims=True) + 1e-5) * g.numpy() + s.numpy(),
        lambda x, g, s: g * (centered(x) / ((centered(x) ** 2).mean(-1, True) + 1e-5) ** 0.5) + s,
    ],
    "7c": [
        lambda V, T, L, C: 8 * C * C * L / (V * C + T * C + L * (12 * C * C + 2 * C) + C),
        lambda V, T, L, C: parameters(V, T, L, C)[0] / sum(parameters(V, T, L, C)),
        lambda V, T, L, C: 1 / (1 + (V + T + 1 + L * (4 * C + 2)) / (8 * C * L)),
        lambda V, T, L, C: [torch.tensor(8 * C * L) / (V + T + 12 * C * L + 2 * L + 1)],
        lambda V, T, L, C: np.divide(8 * C**2 * L, all_of(V, T, L, C)),
    ],
    "7d": [(2, 0, 1), [2, 0, 1], torch.tensor([2.0, 0.0, 1.0]), np.array([2, 0, 1]), (2, False, True)],
    "7e": [
        recursive,
        collected,
        stacked(lambda x, norm, branch, _: torch.add(branch(norm(x)), x)),
        lambda x, norm, branches: functools.reduce(lambda y, branch: y + branch(norm(y)), branches, x).numpy(),
        lambda x, norm, branches: recursive(x.requires_grad_(), norm, tuple(branches)).tolist(),
    ],
}  # fmt: skip
