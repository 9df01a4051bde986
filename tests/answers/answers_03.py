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


def by_jacobian(weights, d_weights):
    rows = []
    for w, d in zip(weights, d_weights, strict=True):
        rows.append((torch.diag(w) - torch.outer(w, w)) @ d)
    return torch.stack(rows)


def by_autograd(weights, d_weights):
    scores = weights.log().requires_grad_()
    scores.softmax(-1).backward(d_weights)
    return scores.grad


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
        ("lowers the others", lambda w, d: d * w),
        ("moves ALL weights", lambda w, d: d * (w - w**2)),
        ("is weighted, by the weights", lambda w, d: w * (d - d.mean(1, True))),
        ("multiply by the weights before you add", lambda w, d: w * d - w * d.sum(1, True)),
        ("down the columns", lambda w, d: w * (d - (w * d).sum(0))),
        ("the whole table", lambda w, d: w * d - w * (w * d).sum()),
        ("the sign is wrong", lambda w, d: -by_jacobian(w, d)),
        ("multiply by the weights at the end", lambda w, d: d - (w * d).sum(1, True)),
        ("weighted once more", lambda w, d: w * d - (w * d).sum(1, True)),
        ("as if they were scores", lambda w, d: by_jacobian(w.softmax(1), d)),
        ("unchanged", lambda w, d: d.clone()),
        ("changes its input `d`", lambda w, d: w * d.sub_((w * d).sum(1, True))),
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
        ("now both are keys", lambda x, q, k: (x @ k) @ (x @ k).T),
        ("rows and columns are exchanged", lambda x, q, k: ((x @ q) @ (x @ k).T).T),
        ("neither matrix", lambda x, q, k: x @ x.T),
        ("the keys are the bare x", lambda x, q, k: (x @ q) @ x.T),
        ("the queries are the bare x", lambda x, q, k: x @ (x @ k).T),
        ("it scales", lambda x, q, k: (x @ q) @ (x @ k).T / math.sqrt(q.shape[1])),
        ("before the softmax", lambda x, q, k: F.softmax((x @ q) @ (x @ k).T, 1)),
        ("still symmetric", lambda x, q, k: 0.5 * (x @ q @ k.T @ x.T + x @ k @ q.T @ x.T)),
        ("makes the scores symmetric", lambda x, q, k: (x @ (q + k)) @ (x @ (q + k)).T / 4),
        ("no mask is asked for", lambda x, q, k: torch.tril((x @ q) @ (x @ k).T)),
        ("it gives", lambda x, q, k: torch.zeros(len(x), len(x))),
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
        lambda w, d: w * d - w * torch.einsum("ts,ts->t", w, d)[:, None],
        lambda w, d: w.numpy() * (d.numpy() - np.sum(w.numpy() * d.numpy(), 1, keepdims=True)),
        lambda w, d: w.double() * (d.double() - torch.linalg.vecdot(w, d)[:, None]),
    ],
    "3d": [12.0, math.sqrt(144), torch.tensor(12), np.array([12.0]), torch.tensor([[12.01]], requires_grad=True)],
    "3e": [
        lambda x, q, k: x @ q @ k.T @ x.T,
        lambda x, q, k: (x.double() @ q.double()) @ (x.double() @ k.double()).T,
        lambda x, q, k: [[(a @ q) @ (b @ k) for b in x] for a in x],
        lambda x, q, k: torch.einsum("td,sd->ts", x @ q, x @ k).requires_grad_(),
        lambda x, q, k: (x @ q).numpy() @ (x @ k).numpy().T,
    ],
    "3f": [
        lambda q, k: (k @ q.T).T,
        lambda q, k: torch.einsum("cd,ed->ce", q, k).requires_grad_(),
        lambda q, k: q.numpy() @ k.numpy().T,
        lambda q, k: sum(torch.outer(q[:, i], k[:, i]) for i in range(q.shape[1])),
        lambda q, k: (torch.eye(len(q)) @ q) @ (torch.eye(len(k)) @ k).T,
    ],
}  # fmt: skip
