"""Answers to the exercises of notebook 02: wrong ones, with words of the sentence that must refuse them, and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def naive(scores, dim=-1):
    return torch.exp(scores) / torch.exp(scores).sum(dim, keepdim=True)


def softmax_by_rows(scores):
    flat = scores.reshape(-1, scores.shape[-1])
    rows = []
    for row in flat.tolist():
        powers = [math.exp(x - max(row)) for x in row]
        rows.append([power / sum(powers) for power in powers])
    return torch.tensor(rows).view(scores.shape)


def numpy_softmax(scores, axis=-1):
    scores = np.asarray(scores, dtype=np.float64)
    powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def bisected(lead, share):
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if 1 / (1 + math.exp(-min(lead / middle, 700))) > share else (low, middle)
    return middle


def apart(scores):
    return float(scores.max() - scores.min())


def ratio(scores):
    return float(scores.max() / scores.min())


WRONG = {
    "2a": [
        ("large scores give NaN", naive),
        ("the mean away is not enough", lambda s: naive(s - s.mean(-1, keepdim=True))),
        ("the largest score of the whole tensor", lambda s: naive(s - s.max())),
        ("cuts large scores off", lambda s: naive(s.clip(-50, 50))),
        ("over the first dimension", lambda s: F.softmax(s, dim=0)),
        ("over the second dimension", lambda s: F.softmax(s, dim=1)),
        ("the whole tensor adds up", lambda s: (s - s.max()).exp() / (s - s.max()).exp().sum()),
        ("divide by the sum of each row", lambda s: torch.exp(s - s.max(-1, keepdim=True).values)),
        ("take the exponential first", lambda s: s / s.sum(-1, keepdim=True)),
        ("the logarithms of the weights", lambda s: F.log_softmax(s, dim=-1)),
        ("its base is 2", lambda s: torch.softmax(math.log(2) * s, -1)),
        ("sigmoid", lambda s: 1 / (1 + torch.exp(-s))),
        ("hard maximum", lambda s: F.one_hot(s.argmax(-1), s.shape[-1]).float()),
        ("changes its input `scores`", lambda scores: scores.sub_(scores.amax(-1, True)).softmax(-1)),
    ],
    "2b": [
        ("no √D yet", lambda q, k, v: F.scaled_dot_product_attention(q, k, v)),
        ("runs over the queries", lambda q, k, v: F.softmax(q @ k.T, 0) @ v),
        ("the raw scores mix", lambda q, k, v: (q @ k.T) @ v),
        ("those are the weights", lambda q, k, v: F.softmax(q @ k.T, 1)),
        ("it mixes the keys", lambda q, k, v: F.softmax(q @ k.T, 1) @ k),
        ("that is no softmax", lambda q, k, v: (q @ k.T) @ v / (q @ k.T).sum(1, keepdim=True)),
        ("the best score", lambda q, k, v: torch.stack([v[(k @ row).argmax()] for row in q])),
        ("the plain average", lambda q, k, v: torch.full((len(q), len(k)), 1 / len(k)) @ v),
        ("the values take part in finding", lambda q, k, v: F.softmax(q @ v.T, 1) @ v),
        ("not divided by their sum", lambda q, k, v: torch.exp(q @ k.T) @ v),
        ("large scores give NaN", lambda q, k, v: naive(q @ k.T) @ v),
        ("turned on their side", lambda q, k, v: F.softmax(torch.matmul(q, k), 1) @ v),
    ],
    "2c": [
        ("upside down: the hotter", lambda lead, p: (math.log(p) - math.log(1 - p)) / lead),
        ("doesn't multiply", lambda lead, p: (math.log(p) - math.log(1 - p)) * lead),
        ("the logarithm is missing", lambda lead, p: lead / (p / (1 - p))),
        ("the smaller is 1 - share", lambda lead, p: lead / math.log(1 / p)),
        ("makes the temperature negative", lambda lead, p: -lead / math.log(p / (1 - p))),
        ("base e", lambda lead, p: lead / math.log(p / (1 - p), 10)),
        ("the lead is forgotten", lambda lead, p: 1 / (math.log(p) - math.log(1 - p))),
        ("not one on each side", lambda lead, p: lead / 2 / math.log(p / (1 - p))),
        ("ratios of exponentials", lambda lead, p: lead * (1 - p)),
        ("needs both shares", lambda lead, p: lead / math.log(1 / (1 - p))),
        ("for lead=1.0, p=0.9 it gives", lambda lead, p: 1.0),
    ],
    "2d": [
        ("changes no weight", (0.333, 0.333, 0.333)),
        ("changes no weight", (0.331, 0.333, 0.336)),
        ("not everything", [0, 0, 1]),
        ("the order is reversed", (0.625, 0.25, 0.125)),
        ("exponentials first", (0, 0.3, 0.7)),
        ("divide them by their sum", (1, 2, 5)),
        ("percentages", (12.5, 25, 62.5)),
        ("e to the power 0 is 1", (0, 0.286, 0.714)),
        ("those are the scores", (0, 0.693, 1.609)),
        ("nothing overflows", (math.nan, math.nan, math.nan)),
        ("0.2 is not right", (0.2, 0.2, 0.6)),
        ("3 things", (0.25, 0.625)),
    ],
    "2e": [
        ("over the batch", lambda s: F.softmax(s, 0)),
        ("each table adds up to 1", lambda s: torch.stack([t.flatten().softmax(0).view(t.shape) for t in s])),
        ("the whole tensor adds up", lambda s: (s - s.max()).exp() / (s - s.max()).exp().sum()),
        ("large scores give NaN", naive),
        ("rows and columns", lambda s: F.softmax(s, -1).transpose(1, 2)),
        ("rows and columns", lambda s: F.softmax(s.transpose(1, 2), 1).transpose(1, 2).mT),
        ("no softmax", lambda s: s / s.sum(2, keepdim=True)),
        ("divide by the sum of each row", lambda s: torch.exp(s - s.max(-1, keepdim=True).values)),
        ("taken twice", lambda s: F.softmax(F.softmax(s, 1), 2)),
        ("the first sequence only", lambda s: s[0].softmax(1)),
        ("averaged the sequences", lambda s: s.mean(0).softmax(1)),
    ],
    "2f": [
        ("True is not always right", lambda s: True),
        ("False is not always right", lambda s: False),
        ("wrong way round", lambda s: math.log(ratio(s)) > apart(s)),
        ("with the ratio's logarithm", lambda s: apart(s) > ratio(s)),
        ("no fixed difference", lambda s: apart(s) > 1),
        ("no fixed level", lambda s: (s > 1).all()),
        ("RELATIVE to that of the smallest", lambda s: F.softmax(s, 0).max() > (s / s.sum()).max()),
        ("the smallest is meant", lambda s: len(s) > 1 and apart(s.topk(2)[0]) > math.log(ratio(s.topk(2)[0]))),
        ("the last and the first", lambda s: (s[-1] - s[0] > torch.log(s[-1] / s[0])).item()),
        ("large scores overflow", lambda s: s.exp().max() / s.exp().min() > ratio(s)),
        ("base e", lambda s: apart(s) > math.log10(ratio(s))),
    ],
}  # fmt: skip
RIGHT = {
    "2a": [
        softmax_by_rows,
        numpy_softmax,
        lambda s: F.softmax(s, dim=-1).tolist(),
        lambda s: torch.exp(s - torch.logsumexp(s, -1, keepdim=True)),
        lambda s: s.double().requires_grad_().log_softmax(-1).exp(),
        lambda s: naive(s - s.max(dim=-1, keepdim=True).values.expand_as(s)),
    ],
    "2b": [
        lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None], scale=1.0)[0],
        lambda q, k, v: numpy_softmax(q.numpy() @ k.numpy().T) @ v.numpy(),
        lambda q, k, v: [(k @ row).softmax(0) @ v for row in q],
        lambda q, k, v: torch.einsum("ts,se->te", F.softmax(q @ k.T, 1), v).requires_grad_().double(),
        lambda q, k, v: sum(F.softmax(q @ k.T, 1)[:, s, None] * v[s] for s in range(len(k))),
    ],
    "2c": [
        bisected,
        lambda lead, p: lead / torch.logit(torch.tensor(p, dtype=torch.float64)),
        lambda lead, p: lead / (math.log(p) - math.log(1 - p)),
        lambda lead, p: np.array([lead / (2 * np.arctanh(2 * p - 1))]),
        lambda lead, p: -lead / math.log(1 / p - 1),
    ],
    "2d": [
        [0.125, 0.25, 0.625],
        torch.tensor([100.0, 100 + math.log(2), 100 + math.log(5)]).softmax(0),
        np.array([1, 2, 5]) / 8,
        (0.13, 0.25, 0.62),
        (torch.tensor(0.125, requires_grad=True), 0.25, np.float32(0.625)),
    ],
    "2e": [
        lambda s: torch.stack([F.softmax(table, dim=1) for table in s]),
        lambda s: [[row.softmax(0) for row in table] for table in s],
        numpy_softmax,
        lambda s: s.mT.softmax(1).mT,
        lambda s: torch.exp(s - s.logsumexp(2, keepdim=True)).double(),
    ],
    "2f": [
        lambda s: apart(s) > math.log(ratio(s)),
        lambda s: s.max() - s.log().max() > s.min() - s.log().min() and s.max() > s.min(),
        lambda s: np.ptp(s.numpy()) > np.ptp(np.log(s.numpy())),
        lambda s: int(apart(s) > math.log(ratio(s))),
        lambda s: torch.tensor([math.exp(min(apart(s), 700)) > ratio(s)]),
        lambda s: s.log_softmax(0).max() - s.log_softmax(0).min() > (s.max() / s.min()).log(),
    ],
}
