"""Answers to the exercises of notebook 01: wrong ones, with words of what must be said, and right ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def scores_by_lists(queries, keys):
    if queries.dim() > 2:
        return [scores_by_lists(q, k) for q, k in zip(queries, keys, strict=True)]
    return [[float(q @ k) for k in keys] for q in queries]


def others(i, vectors):
    return [j for j in range(len(vectors)) if j != i]


def divided_in_place(vectors):
    return vectors.div_(vectors.norm(dim=1, keepdim=True)) @ vectors.mT


WRONG = {
    "1a": [
        ("rows and columns are exchanged", lambda q, k: k @ q.mT),
        ("all is 1/√D times", lambda q, k: q @ k.mT / math.sqrt(q.shape[-1])),
        ("one softmax too many", lambda q, k: (q @ k.mT).softmax(-1)),
        ("number by number", lambda q, k: q * k),
        ("added up along each row", lambda q, k: q.unsqueeze(-2) * k.unsqueeze(-3)),
        ("not with more dimensions in front", lambda q, k: torch.einsum("td,sd->ts", q, k)),
        ("right only where D = 1", lambda q, k: q[..., :1] @ k[..., :1].mT),
        ("keeps the lengths", lambda q, k: F.normalize(q) @ F.normalize(k).T),  # and fails in 3D
    ],
    "1b": [
        ("twice as large", lambda a, b, d: a * a + b * b - d * d),
        ("half as large", lambda a, b, d: (a * a + b * b - d * d) / 4),
        ("if the third length were that of a + b", lambda a, b, d: (d * d - a * a - b * b) / 2),
        ("the signs are lost", lambda a, b, d: abs(a * a + b * b - d * d) / 2),
        ("it gives -8 where 0 is right", lambda a, b, d: (a * a - d * d) / 2),
    ],
    "1d": [("is not right", ("abcd", "b")), ("by direction alone", ("cabd", "c"))],
    "1e": [
        ("right only where T = 1", lambda v: (v / v.norm()) @ (v / v.norm()).mT),
        ("it gives [[9]] where [[1]] is right", lambda v: v @ v.mT),
        ("not turned on its side", lambda v: F.normalize(v, dim=0).mT @ F.normalize(v, dim=0)),
        ("that is 1 minus", lambda v: 1 - F.normalize(v) @ F.normalize(v).mT),
        ("changes its input `vectors`", divided_in_place),
    ],
}
RIGHT = {
    "1a": [
        scores_by_lists,
        lambda q, k: q.numpy() @ k.numpy().swapaxes(-1, -2),
        lambda q, k: torch.einsum("...td,...sd->...ts", q.double(), k.double()),
        lambda q, k: (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1),
    ],
    "1b": [
        lambda a, b, d: torch.tensor(a * a + b * b - d * d, requires_grad=True) / 2,
        lambda a, b, d: np.array([(a**2 + b**2 - d**2) / 2]),
    ],
    "1d": [("CABD", "B"), ["cabd", "b"]],
    "1e": [
        lambda v: F.cosine_similarity(v[:, None], v[None], dim=-1).tolist(),
        lambda v: (v @ v.mT).numpy() / np.sqrt(np.outer((v**2).sum(1), (v**2).sum(1))),
        lambda v: [[float(a @ b / (a.norm() * b.norm())) for b in v] for a in v],
    ],
}
