"""Answers to the exercises of notebook 03: wrong ones, with words of the sentence that must refuse them, and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def attend(query, key, value, divisor=None, dim=-1):
    divisor = divisor or math.sqrt(key.shape[-1])
    weights = F.softmax(torch.matmul(query, key.transpose(-1, -2)) / divisor, dim=dim)
    return torch.matmul(weights, value), weights


def naive(query, key, value):
    powers = torch.exp(query @ key.mT / key.shape[-1] ** 0.5)
    return powers @ value / powers.sum(-1, keepdim=True), powers / powers.sum(-1, keepdim=True)


def one_by_one(query, key, value):
    if query.dim() > 2:
        contexts, weights = zip(*map(one_by_one, query, key, value), strict=True)
        return torch.stack(contexts), torch.stack(weights)
    weights = torch.stack([F.softmax(key @ q / key.shape[1] ** 0.5, 0) for q in query])
    return weights @ value, weights


def by_jacobian(weights, scores, values):
    rows = [(torch.diag(w) - torch.outer(w, w)) @ s for w, s in zip(weights, scores, strict=True)]
    return torch.stack(rows) @ values


def by_autograd(weights, scores, values):
    factor = torch.ones((), requires_grad=True)
    contexts = (factor * scores).softmax(-1) @ values
    return [[torch.autograd.grad(c, factor, retain_graph=True)[0] for c in row] for row in contexts]


def by_small_steps(weights, scores, values, h=1e-5):
    up, down = (F.softmax(scores.double() * factor, -1) @ values.double() for factor in (1 + h, 1 - h))
    return (up - down) / (2 * h)


def covariance(weights, scores, values):
    rows = []
    for w, s in zip(weights.double().numpy(), scores.double().numpy(), strict=True):
        v = values.double().numpy()
        rows.append([(w * s * column).sum() - (w * s).sum() * (w * column).sum() for column in v.T])
    return rows


WRONG = {
    "3a": [
        ("not divided by √D", lambda q, k, v: attend(q, k, v, 1)),
        ("divided by D", lambda q, k, v: attend(q, k, v, q.shape[-1])),
        ("multiplied by √D", lambda q, k, v: attend(q, k, v, q.shape[-1] ** -0.5)),
        ("a number of words", lambda q, k, v: attend(q, k, v, k.shape[-2] ** 0.5)),
        ("a number of words", lambda q, k, v: attend(q, k, v, len(q) ** 0.5)),
        ("the values' width", lambda q, k, v: attend(q, k, v, v.shape[-1] ** 0.5)),
        ("runs over the queries", lambda q, k, v: attend(q, k, v, dim=-2)),
        ("in a table only", lambda q, k, v: attend(q, k, v, dim=1)),
        ("exchanged", lambda q, k, v: attend(q, k, v)[::-1]),
        ("the scores beside the context", lambda q, k, v: (attend(q, k, v)[0], q @ k.mT / q.shape[-1] ** 0.5)),
        ("the context is missing", lambda q, k, v: attend(q, k, v)[1]),
        ("the weights are missing", lambda q, k, v: attend(q, k, v)[0]),
        ("large scores give NaN", naive),
        ("2 things in a tuple", lambda q, k, v: (*attend(q, k, v), 1)),
        ("for q of shape (2, 4, 3)", lambda q, k, v: attend(q, k, v) if q.dim() == 2 else
         (torch.zeros(*q.shape[:-1], v.shape[-1]), torch.zeros(*q.shape[:-1], k.shape[-2]))),
    ],
    "3b": [
        ("that is self-attention", lambda x, m, q, k, v: attend(x @ q, x @ k, x @ v)[0]),
        ("the memory's self-attention", lambda x, m, q, k, v: attend(m @ q, m @ k, m @ v)[0]),
        ("the roles are exchanged", lambda x, m, q, k, v: attend(m @ q, x @ k, x @ v)[0]),
        ("the values come from x", lambda x, m, q, k, v: attend(x @ q, m @ k, x @ v)[0]),
        ("the keys come from x", lambda x, m, q, k, v: attend(x @ q, x @ k, m @ v)[0]),
        ("W_query and W_key are exchanged", lambda x, m, q, k, v: attend(x @ k, m @ q, m @ v)[0]),
        ("W_key is used where", lambda x, m, q, k, v: attend(x @ q, m @ k, m @ k)[0]),
        ("not divided by √D", lambda x, m, q, k, v: attend(x @ q, m @ k, m @ v, 1)[0]),
        ("divided by √C", lambda x, m, q, k, v: attend(x @ q, m @ k, m @ v, x.shape[1] ** 0.5)[0]),
        ("runs over the queries", lambda x, m, q, k, v: attend(x @ q, m @ k, m @ v, dim=0)[0]),
        ("mixed as it is", lambda x, m, q, k, v: attend(x @ q, m @ k, m)[0]),
        ("without the weights", lambda x, m, q, k, v: attend(x @ q, m @ k, m @ v)),
        ("those are the weights", lambda x, m, q, k, v: attend(x @ q, m @ k, m @ v)[1]),
    ],
    "3c": [
        ("lowers the others", lambda w, s, v: (s * w) @ v),
        ("moves ALL weights", lambda w, s, v: (s * (w - w**2)) @ v),
        ("is weighted, by the weights", lambda w, s, v: (w * (s - s.mean(1, True))) @ v),
        ("multiply by the weights before you add", lambda w, s, v: (w * s - w * s.sum(1, True)) @ v),
        ("down the columns", lambda w, s, v: w * (s - (w * s).sum(0)) @ v),
        ("the whole table", lambda w, s, v: (w * s - w * (w * s).sum()) @ v),
        ("the sign is wrong", lambda w, s, v: -by_jacobian(w, s, v)),
        ("a small weight moves little", lambda w, s, v: (s - (w * s).sum(1, True)) @ v),
        ("weighted once more", lambda w, s, v: (w * s - (w * s).sum(1, True)) @ v),
        ("they still have to mix the values", lambda w, s, v: by_jacobian(w, s, torch.eye(s.shape[1]))),
        ("those are the contexts", lambda w, s, v: F.softmax(s, 1) @ v),
        ("what the factor 2 changes", lambda w, s, v: F.softmax(2 * s, 1) @ v - w @ v),
        ("that step is too large", lambda w, s, v: (F.softmax(1.1 * s, 1) @ v - F.softmax(s, 1) @ v) / 0.1),
        ("as if they were scores", lambda w, s, v: by_jacobian(w.softmax(1), w, v)),
        ("multiplied by itself", lambda w, s, v: by_jacobian(w, w, v)),
        ("changes its input `s`", lambda w, s, v: (w * s.sub_((w * s).sum(1, True))) @ v),
        ("for w of shape (4, 6), s of shape (4, 6), v of shape (6, 3) it gives", lambda w, s, v: 0 * w @ v),
    ],
    "3d": [
        ("144 is the variance", 144),
        ("64 of them are added up", 1.5),
        ("64 of them are added up", 2.25),
        ("if both standard deviations were 1", 8),
        ("are multiplied, not added", 28.0),
        ("count squared under the root", 8 * math.sqrt(1.5)),
        ("standard deviations don't", 96),
        ("0 is the mean", 0),
        ("7 is not right", 7),
    ],
    "3e": [
        ("not divided at all", lambda q, k: attend(q, k, k, 1)[1]),
        ("its square root is meant", lambda q, k: F.softmax(q @ k.mT / q.shape[-1], -1)),
        ("multiplied by √D", lambda q, k: F.softmax(q @ k.mT * q.shape[-1] ** 0.5, -1)),
        ("the number of queries", lambda q, k: attend(q, k, k, q.shape[-2] ** 0.5)[1]),
        ("if without its root", lambda q, k: attend(q, k, k, k.shape[-2])[1]),
        ("still takes part", lambda q, k: attend(q, k, k, math.sqrt(k.shape[-2] * k.shape[-1]))[1]),
        ("16 was the width in that text", lambda q, k: attend(q, k, k, math.sqrt(16))[1]),
        ("dimension 1 is the width of a table only", lambda q, k: attend(q, k, k, math.sqrt(k.shape[1]))[1]),
        ("the number of texts", lambda q, k: attend(q, k, k, math.sqrt(q.shape[0]))[1]),
        ("it divides after the softmax", lambda q, k: F.softmax(q @ k.mT, -1) / math.sqrt(k.shape[-1])),
        ("runs over the queries", lambda q, k: attend(q, k, k, dim=-2)[1]),
        ("those are the scores", lambda q, k: q @ k.mT / math.sqrt(q.shape[-1])),
        ("large scores give NaN", lambda q, k: naive(q, k, k)[1]),
        ("for q of shape (2, 4, 3), k of shape (2, 5, 3) it raises", lambda q, k: F.softmax(
            torch.einsum("td,sd->ts", q, k) / q.shape[-1] ** 0.5, -1)),
    ],
    "3f": [
        ("that is (D, D): x meets", lambda q, k: q.T @ k),
        ("turned over", lambda q, k: (q @ k.T).T),
        ("that is (D, D), and", lambda q, k: (q.T @ k).T),
        ("turned on its side", lambda q, k: torch.matmul(q, k)),
        ("W_key is forgotten", lambda q, k: q @ q.T),
        ("W_query is forgotten", lambda q, k: k @ k.T),
        ("number by number", lambda q, k: k * q),
        ("both matrices are added", lambda q, k: k + q),
        ("scaled by √D", lambda q, k: q @ k.T / math.sqrt(k.shape[1])),
        ("averages both directions", lambda q, k: (q @ k.T + (q @ k.T).T) / 2),
    ],
}  # fmt: skip
RIGHT = {
    "3a": [
        one_by_one,
        lambda q, k, v: list(attend(q.double(), k.double(), v.double())),
        lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), attend(q, k, v)[1]),
        lambda q, k, v: tuple(x.numpy() for x in attend(q, k, v)),
        lambda q, k, v: (x.requires_grad_().tolist() for x in attend(q / k.shape[-1] ** 0.5, k, v, 1)),
    ],
    "3b": [
        lambda x, m, q, k, v: F.scaled_dot_product_attention((x @ q)[None], (m @ k)[None], (m @ v)[None])[0],
        lambda x, m, q, k, v: attend(x @ q, m @ k, m)[0] @ v,
        lambda x, m, q, k, v: [attend(row[None] @ q, m @ k, m @ v)[0][0] for row in x],
        lambda x, m, q, k, v: attend((x @ q).requires_grad_(), m @ k, m @ v)[0].double(),
        lambda x, m, q, k, v: attend(x, m @ k @ q.T, m @ v, k.shape[1] ** 0.5)[0].numpy(),
    ],
    "3c": [
        by_jacobian,
        by_autograd,
        by_small_steps,
        covariance,
        lambda w, s, v: (w * s) @ v - torch.einsum("ts,ts->t", w, s)[:, None] * (w @ v),
        lambda w, s, v: torch.stack([((w * s)[t, :, None] * (v - w[t] @ v)).sum(0) for t in range(len(w))]),
        lambda w, s, v: torch.autograd.functional.jvp(lambda f: F.softmax(f * s, 1) @ v, torch.tensor(1.0))[1],
    ],
    "3d": [12.0, math.sqrt(144), torch.tensor(12), np.array([12.0]), torch.tensor([[12.01]], requires_grad=True)],
    "3e": [
        lambda q, k: one_by_one(q, k, k)[1],
        lambda q, k: attend(q.double(), k.double(), k.double())[1].tolist(),
        lambda q, k: F.softmax((q / q.shape[-1] ** 0.25) @ (k / k.shape[-1] ** 0.25).mT, -1),
        lambda q, k: F.scaled_dot_product_attention(q, k, torch.eye(k.shape[-2]).expand(*k.shape[:-1], -1)),
        lambda q, k: F.log_softmax(torch.einsum("...td,...sd->...ts", q, k) / k.shape[-1] ** 0.5, -1).exp().numpy(),
    ],
    "3f": [
        lambda q, k: (k @ q.T).T,
        lambda q, k: torch.einsum("cd,ed->ce", q, k).requires_grad_(),
        lambda q, k: q.numpy() @ k.numpy().T,
        lambda q, k: sum(torch.outer(q[:, i], k[:, i]) for i in range(q.shape[1])),
        lambda q, k: (torch.eye(len(q)) @ q) @ (torch.eye(len(k)) @ k).T,
    ],
}  # fmt: skip
