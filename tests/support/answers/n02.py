"""Answers to the exercises of notebook 02: wrong ones, with words of what must be said, and right ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def numpy_softmax(scores):
    scores = np.asarray(scores, dtype=np.float64)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def contexts_one_by_one(queries, keys, values):
    if queries.dim() > 2:
        every = zip(queries, keys, values, strict=True)
        return torch.stack([contexts_one_by_one(*inputs) for inputs in every])
    return torch.stack([(keys @ row).softmax(0) @ values for row in queries])


def felt(error, knobs, i, width):
    there = torch.zeros_like(knobs)
    there[i] = width
    return error(knobs + there) - error(knobs - there)


def rolled(error, knobs, rate, steps, width=0.001, at_once=True):
    knobs = knobs.clone()
    for _ in range(steps):
        seen = knobs.clone() if at_once else knobs
        for i in range(len(knobs)):
            knobs[i] -= rate * felt(error, seen, i, width) / (2 * width)
    return knobs


def in_place(error, knobs, rate, steps):
    for i in range(len(knobs)):
        knobs[i] -= rate * felt(error, knobs, i, 0.001) / 0.002
    return knobs


WRONG = {
    "2j": [
        ("it goes uphill", lambda error, knobs, rate, steps: rolled(error, knobs, -rate, steps)),
        ("feel all of them first", lambda *given: rolled(*given, at_once=False)),
        ("whatever `steps` says", lambda error, knobs, rate, steps: rolled(error, knobs, rate, 1)),
        ("changes its input `knobs`", in_place),
        ("where [1.2] is right", lambda error, knobs, rate, steps: rolled(error, knobs, rate * 0.002, steps)),
    ],
    "2h": [("an exponential never is", "ad"), ("b lies outside", "abcd"), ("is not right", "c")],
    "2i": [
        ("number 1: the slope at 1", (0.6, 0.5, 1.0)),
        ("number 2: one step", (1.4, 0.1, 1.0)),
        ("number 3", (1.4, 0.5, 1.1)),
    ],
    "2a": [
        ("divide each by its sum", lambda s: torch.exp(s - s.amax(-1, keepdim=True))),
        ("the softmax is missing", lambda s: s.log_softmax(-1)),
        ("it divides by the sum of all rows", lambda s: s.flatten().softmax(0).view(s.shape)),
        ("the scores themselves are divided", lambda s: s / s.sum(-1, keepdim=True)),
        ("for scores = [2, -1] it gives [2, -1] where", lambda scores: scores / scores.sum(0)),
        ("it raises IndexError", lambda s: s.softmax(dim=1)),
        ("it gives [1, 0]", lambda s: F.one_hot(s.argmax(-1), s.shape[-1])),
        ("changes its input `s`", lambda s: s.sub_(s.amax(-1, True)).softmax(-1)),
    ],
    "2b": [
        ("it scales the scores", F.scaled_dot_product_attention),
        ("it scales", lambda q, k, v: F.softmax(q @ k.T / math.sqrt(q.shape[1]), 1) @ v),
        ("`q` makes no difference", lambda q, k, v: v.mean(-2, True).expand(*q.shape[:-1], -1)),
        ("(T, S), and (T, E) is asked for", lambda q, k, v: (q @ k.mT).softmax(-1)),
        ("more dimensions in front", lambda q, k, v: F.softmax(q @ k.T, -1) @ v),
    ],
    "2d": [
        ("in reverse order", (0.833, 0.133, 0.033)),
        ("no percent", (3.33, 13.33, 83.33)),
        ("(0.2, 0.2, 0.6) is not right", (0.2, 0.2, 0.6)),
        ("is not right", (0.13, 0.83)),
    ],
    "2e": [
        ("rows and columns", lambda s: s.softmax(-1).mT),
        ("divide each by its sum", lambda s: torch.exp(s - s.amax(-1, True))),
        ("right only where S = 1", lambda s: s.softmax(1).softmax(2)),
        ("only the first of B", lambda s: s[0].softmax(-1)),
        ("(B, T, S) is asked for", lambda s: s.mean(0).softmax(-1)),
    ],
    "2f": [
        ("the sign is wrong", lambda n, p: math.log((1 - p) / (n - 1) / p)),
        ("one exponential too many", lambda n, p: p / (1 - p) * (n - 1)),
        ("in bits", lambda n, p: math.log2(p / (1 - p) * (n - 1))),
        ("it gives 0 where 2.197 is right", lambda n, p: math.log(n - 1)),
    ],
    "2g": [
        ("number 2: a sum", (2, 3)),
        ("number 1: row t belongs", (6, 0)),
        ("2 things in a tuple", 2),
    ],
}
RIGHT = {
    "2j": [
        rolled,
        lambda error, knobs, rate, steps: rolled(error, knobs.float(), rate, steps, 0.01),
        lambda error, knobs, rate, steps: rolled(error, knobs, rate, steps).tolist(),
    ],
    "2h": ["D", ["d"]],
    "2i": [[1.4, 0.5, 1.0], torch.tensor([1.4, 0.5, 1.0])],
    "2a": [
        numpy_softmax,
        lambda s: s.softmax(-1).tolist(),
        lambda s: torch.exp(s - s.logsumexp(-1, keepdim=True)),
        lambda s: s.double().requires_grad_().log_softmax(-1).exp(),
    ],
    "2b": [
        contexts_one_by_one,
        lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None], scale=1.0)[0],
        lambda q, k, v: numpy_softmax(q @ k.mT) @ v.numpy(),
        lambda q, k, v: ((q @ k.mT).softmax(-1)[..., None] * v[..., None, :, :]).sum(-2).tolist(),
    ],
    "2d": [
        [0.0333, 0.1333, 0.8333],
        np.array([1, 4, 25]) / 30,
        (0.03, 0.13, 0.83),
        (torch.tensor(1 / 30, requires_grad=True), 2 / 15, np.float32(5 / 6)),
    ],
    "2e": [
        lambda s: [[row.softmax(0) for row in table] for table in s],
        numpy_softmax,
        lambda s: s.mT.softmax(1).mT,
    ],
    "2f": [
        lambda n, p: torch.tensor(p / (1 - p) * (n - 1)).log(),
        lambda n, p: [np.log(p * (n - 1) / (1 - p))],
    ],
    "2g": [[2, 0], torch.tensor([2.0, 0.0]), (np.int64(2), False)],
}
