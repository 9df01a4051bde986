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


def contexts_one_by_one(queries, keys, values):
    if queries.dim() > 2:
        return torch.stack([contexts_one_by_one(*each) for each in zip(queries, keys, values, strict=True)])
    return torch.stack([(keys @ row).softmax(0) @ values for row in queries])


def bisected(lead, share):
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if 1 / (1 + math.exp(-min(lead / middle, 700))) > share else (low, middle)
    return middle


def with_lead(n, share):
    """By trying: half of the interval in which the lead must lie goes at every step."""
    low, high = 0.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if math.exp(middle) / (math.exp(middle) + n - 1) > share else (middle, high)
    return middle


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
        ("no √D yet", lambda q, k, v: F.softmax(q @ k.T / math.sqrt(q.shape[1]), 1) @ v),
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
        ("the raw scores mix", lambda q, k, v: q @ k.mT @ v),
        ("runs over the queries", lambda q, k, v: F.softmax(q @ k.transpose(-2, -1), -2) @ v),
        ("`.T` turns all of them around", lambda q, k, v: F.softmax(q @ k.T, -1) @ v),
        ("`.T` turns all of them around", lambda q, k, v: numpy_softmax(q @ k.T, 1) @ v.numpy()),
        ("fit a batch, and no table", lambda q, k, v: F.softmax(q @ k.transpose(1, 2), -1) @ v),
        ("in a table only", lambda q, k, v: F.softmax(q @ k.mT, 1) @ v),
        ("for q of shape (3, 2, 5), k of shape", lambda q, k, v: (q.dim() - 1) * F.softmax(q @ k.mT, -1) @ v),
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
        ("that is temperature 1", (0.125, 0.25, 0.625)),
        ("that is temperature 2", np.sqrt([1, 2, 5]) / np.sqrt([1, 2, 5]).sum()),
        ("divides the scores, not the weights", (0.25, 0.5, 1.25)),
        ("divides the scores, not the weights", (0.0625, 0.125, 0.3125)),
        ("to double an exponent is to square", (0.07, 0.27, 0.67)),
        ("e to the power 0 is 1", (0, 0.14, 0.86)),
        ("the order is reversed", (0.833, 0.133, 0.033)),
        ("divide them by their sum", (1, 4, 25)),
        ("exponentials first", (0, 0.3, 0.7)),
        ("those are scores", torch.tensor([1, 4, 25]).log()),
        ("percentages", (3.33, 13.33, 83.33)),
        ("does not yet give it everything", [0, 0, 1]),
        ("less equal, not equal", (0.33, 0.33, 0.33)),
        ("0.2 is not right", (0.2, 0.2, 0.6)),
        ("3 things", (0.13, 0.83)),
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
        ("no part of its crowd", lambda n, p: math.log(p * n) - math.log(1 - p)),
        ("with all others together", lambda n, p: torch.logit(torch.tensor(p, dtype=torch.float64))),
        ("the others together get", lambda n, p: math.log(p) + math.log(n - 1)),
        ("the larger the crowd", lambda n, p: math.log(p / (1 - p)) - math.log(n - 1)),
        ("for a share of one half", lambda n, p: math.log(n - 1)),
        ("the share itself is forgotten", lambda n, p: math.log(n - 1) - math.log1p(-p)),
        ("the sign is wrong", lambda n, p: math.log((1 - p) / (n - 1) / p)),
        ("the logarithm is missing", lambda n, p: p / ((1 - p) / (n - 1))),
        ("base e", lambda n, p: math.log(p * (n - 1) / (1 - p), 2)),
        ("of its own weight", lambda n, p: np.log(p)),
        ("belongs under the logarithm", lambda n, p: math.log(p * (n - 1)) / (1 - p)),
        ("not of scores", lambda n, p: p - (1 - p) / (n - 1)),
        ("for n=2, p=0.9 it gives", lambda n, p: 1.0),
    ],
    "2g": [
        ("does not know the order of its terms", (5, 0)),
        ("does not know the order of its terms", (5, 5)),
        ("two places hold another word", (0, 0)),
        ("and each has a row", (1, 1)),
        ("three rows are those that stay", (3, 2)),
        ("only two words have moved", (4, 0)),
        ("count the rows", (0.4, 0)),
        ("takes its context along", [2, 2]),
        ("does not change with their order", (2, 5)),
        ("the words that did not move ask as before", (2, 3)),
        ("in the same way", (2, 1)),
        ("stands nowhere in the formula", (2, 4)),
        ("7 is not right", (2, 7)),
        ("2 things in a tuple", 2),
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
        contexts_one_by_one,
        lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None], scale=1.0)[0],
        lambda q, k, v: numpy_softmax(q.numpy() @ k.numpy().swapaxes(-1, -2)) @ v.numpy(),
        lambda q, k, v: torch.einsum("...ts,...se->...te", F.softmax(q @ k.mT, -1), v).requires_grad_().double(),
        lambda q, k, v: (F.softmax(q @ k.mT, -1)[..., None] * v[..., None, :, :]).sum(-2).tolist(),
    ],
    "2c": [
        bisected,
        lambda lead, p: lead / torch.logit(torch.tensor(p, dtype=torch.float64)),
        lambda lead, p: lead / (math.log(p) - math.log(1 - p)),
        lambda lead, p: np.array([lead / (2 * np.arctanh(2 * p - 1))]),
        lambda lead, p: -lead / math.log(1 / p - 1),
    ],
    "2d": [
        [0.0333, 0.1333, 0.8333],
        torch.tensor([0, math.log(2) / 0.5, math.log(5) / 0.5]).softmax(0),
        np.array([1, 4, 25]) / 30,
        (0.03, 0.13, 0.83),
        (torch.tensor(1 / 30, requires_grad=True), 2 / 15, np.float32(5 / 6)),
    ],
    "2e": [
        lambda s: torch.stack([F.softmax(table, dim=1) for table in s]),
        lambda s: [[row.softmax(0) for row in table] for table in s],
        numpy_softmax,
        lambda s: s.mT.softmax(1).mT,
        lambda s: torch.exp(s - s.logsumexp(2, keepdim=True)).double(),
    ],
    "2f": [
        with_lead,
        lambda n, p: math.log(n - 1) + math.log(p) - math.log1p(-p),
        lambda n, p: torch.logit(torch.tensor(p, dtype=torch.float64)) + math.log(n - 1),
        lambda n, p: [np.log(p * (n - 1) / (1 - p))],
        lambda n, p: -math.log((1 / p - 1) / (n - 1)),
        lambda n, p: 2 * np.arctanh(2 * p - 1) + np.log(n - 1),
    ],
    "2g": [(2, 0), [2, 0], torch.tensor([2.0, 0.0]), np.array([2, 0]), (np.int64(2), False)],
}
