"""Answers to the exercises of notebook 01: wrong ones, with words of the sentence that must refuse them, and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def scores_by_lists(queries, keys):
    if queries.dim() > 2:
        return [scores_by_lists(q, k) for q, k in zip(queries, keys, strict=True)]
    return [[sum(a * b for a, b in zip(q, k, strict=True)) for k in keys.tolist()] for q in queries.tolist()]


def others(i, vectors):
    return [j for j in range(len(vectors)) if j != i]


def nearest_by_loop(i, vectors):
    best, place = -math.inf, None
    for j, vector in enumerate(vectors.tolist()):
        score = sum(a * b for a, b in zip(vector, vectors[i].tolist(), strict=True))
        if j != i and score > best:
            best, place = score, j
    return place


def zero_diagonal(i, vectors):
    scores = vectors @ vectors.T
    scores.fill_diagonal_(0)
    return scores[i].argmax()


def without_row(i, vectors):
    rest = torch.cat([vectors[:i], vectors[i + 1 :]])
    return (rest @ vectors[i]).argmax().item()


WRONG = {
    "1a": [
        ("rows and columns are exchanged", lambda q, k: (q @ k.T).T),
        ("rows and columns are exchanged", lambda q, k: (q @ k.mT).mT),
        ("rows and columns are exchanged", lambda q, k: k @ q.transpose(-2, -1)),
        ("turned on their side", lambda q, k: torch.matmul(q, k)),
        ("row by row", lambda q, k: torch.mul(q, k)),
        ("not added up", lambda q, k: q[:, None, :] * k[None]),
        ("it adds where it should multiply", lambda q, k: torch.stack([(q + key).sum(1) for key in k], 1)),
        ("multiplies the sums", lambda q, k: torch.outer(q.sum(1), k.sum(1))),
        ("the distance", lambda q, k: (q[:, None] - k).norm(dim=-1)),
        ("the cosine", lambda q, k: F.normalize(q) @ F.normalize(k).T),
        ("not scaled", lambda q, k: q @ k.T / math.sqrt(q.shape[1])),
        ("not scaled", lambda q, k: q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])),
        ("before the softmax", lambda q, k: F.softmax(q @ k.T, dim=1)),
        ("before the softmax", lambda q, k: F.softmax(q @ k.mT, dim=-1)),
        ("`.T` turns all of them around", lambda q, k: q @ k.T),
        ("`.T` turns all of them around", lambda q, k: torch.matmul(q, k.permute(*range(k.dim())[::-1]))),
        ("`.T` turns all of them around", lambda q, k: q @ k.transpose(0, 1)),
        ("fit a batch, and no table", lambda q, k: q @ k.transpose(1, 2)),
        ("queries of one text meet", lambda q, k: q.reshape(-1, q.shape[-1]) @ k.view(-1, k.shape[-1]).T),
        ("it has the shape (3, 4, 5) and should have (2, 3, 4, 5)", lambda q, k: (q @ k.mT)[0 if q.dim() > 3 else ...]),
        ("for q of shape (3, 2, 5), k of shape (3, 4, 5) it raises", lambda q, k: torch.einsum("td,sd->ts", q, k)),
        ("signs are lost", lambda q, k: abs(q @ k.T)),
        ("the first number", lambda q, k: torch.outer(q[:, 0], k[:, 0])),
        ("it has the shape (8,) and should have (2, 4)", lambda q, k: (q @ k.T).flatten()),
        ("it raises IndexError", lambda q, k: [[q[t] @ k[s] for s in range(4)] for t in range(2)]),
    ],
    "1b": [
        ("divide by 2", lambda a, b, s: s * s - a * a - b * b),
        ("not by 4", lambda a, b, s: 0.25 * (s * s - a * a - b * b)),
        ("the SUM is known", lambda a, b, s: 0.5 * (a * a + b * b - s * s)),
        ("must be squared", lambda a, b, s: 0.5 * (s - a - b)),
        ("that is the cosine", lambda a, b, s: (s * s - a * a - b * b) / 2 / a / b),
        ("vectors of one direction", lambda a, b, s: b * a),
        ("the square of b is forgotten", lambda a, b, s: (s * s - a * a) / 2),
        ("the square of a is forgotten", lambda a, b, s: (s * s - b * b) / 2),
        ("not that of the sum", lambda a, b, s: s / 2 - (a * a + b * b) / 2),
        ("may be negative", lambda a, b, s: abs((s * s - a * a - b * b) / 2)),
        ("for a=3.0, b=4.0, s=5.0 it gives", lambda a, b, s: 7.0),
    ],
    "1c": [
        ("it chooses the vector itself", lambda i, v: i),
        ("still takes part", lambda i, v: max(range(len(v)), key=lambda j: v[i] @ v[j])),
        ("set to 0", zero_diagonal),
        ("a vector need not be its own best", lambda i, v: (v @ v[i]).topk(2).indices[1]),
        ("one too small", without_row),
        ("length counts", lambda i, v: max(others(i, v), key=lambda j: F.cosine_similarity(v[i], v[j], 0))),
        ("nearest by distance", lambda i, v: min(others(i, v), key=lambda j: (v[i] - v[j]).norm())),
        ("WORST", lambda i, v: min(others(i, v), key=lambda j: v[i] @ v[j])),
        ("signs are lost", lambda i, v: max(others(i, v), key=lambda j: abs(v[i] @ v[j]))),
        ("its index is asked for", lambda i, v: max(v[i] @ v[j] for j in others(i, v))),
        ("the longest", lambda i, v: max(others(i, v), key=lambda j: v[j].norm())),
        ("changes its input", lambda i, v: (v.__setitem__(i, 0), (v @ v[i]).argmax())[1]),
    ],
    "1d": [
        ("worst to best", "dbac"),
        ("order of the cosines", "B > C > A > D"),
        ("distance, nearest first", "bcda"),
        ("distance, farthest first", "adcb"),
        ("order of the lengths", ["a", "c", "d", "b"]),
        ("don't drop its sign", "cdab"),
        ("keys' own sums", "cbad"),
        ("first products alone", "a, c, b, d"),
        ("second products alone", "cdba"),
        ("numbers are exchanged", "cbda"),
        ("'abcd' is not right", "abcd"),
        ("3 is not right", 3),
    ],
    "1e": [
        ("the whole table", lambda v: (v / v.norm()) @ (v / v.norm()).T),
        ("divide each ROW", lambda v: (v / v.norm(dim=-1)) @ (v / v.norm(dim=-1)).T),
        ("dot products still", lambda v: v @ v.T),
        ("one length only", lambda v: F.normalize(v) @ v.T),
        ("squares of lengths", lambda v: (v / v.pow(2).sum(1, keepdim=True)) @ (v / v.pow(2).sum(1, keepdim=True)).T),
        ("root of the sum of squares", lambda v: F.normalize(v, p=1) @ F.normalize(v, p=1).T),
        ("it compares columns", lambda v: F.normalize(v, dim=0).T @ F.normalize(v, dim=0)),
        ("signs are lost", lambda v: (F.normalize(v) @ F.normalize(v).T).abs()),
        ("1 minus", lambda v: 1 - F.normalize(v) @ F.normalize(v).T),
        ("changes its input", lambda v: v.div_(v.norm(dim=1, keepdim=True)) @ v.T),
    ],
}  # fmt: skip
RIGHT = {
    "1a": [
        scores_by_lists,
        lambda q, k: q.numpy() @ k.numpy().swapaxes(-1, -2),
        lambda q, k: torch.einsum("...td,...sd->...ts", q.double(), k.double()),
        lambda q, k: (q[..., :, None, :] * k[..., None, :, :]).sum(-1),
        lambda q, k: (k @ q.mT).mT.requires_grad_(),
        lambda q, k: F.linear(q, k) if q.dim() == 2 else torch.stack([a @ b.mT for a, b in zip(q, k, strict=True)]),
    ],
    "1b": [
        lambda a, b, s: 0.5 * (s * s - a * a - b * b),
        lambda a, b, s: torch.tensor(s * s - a * a - b * b, requires_grad=True) / 2,
        lambda a, b, s: np.array([(s**2 - a**2 - b**2) / 2]),
        lambda a, b, s: a * b * ((s**2 - a**2 - b**2) / (2 * a * b)),
        lambda a, b, s: ((s - a) * (s + a) - b**2) / 2,
    ],
    "1c": [
        nearest_by_loop,
        lambda i, v: max(others(i, v), key=lambda j: v[i] @ v[j]),
        lambda i, v: (v @ v.T).fill_diagonal_(-math.inf).argmax(1)[i],
        lambda i, v: np.where(np.arange(len(v)) == i, -np.inf, (v @ v[i]).numpy()).argmax(),
        lambda i, v: float(torch.where(torch.arange(len(v)) == i, -math.inf, v @ v[i]).argmax()),
        lambda i, v: [max((j for j in range(len(v)) if j != i), key=lambda j: float(v[i].dot(v[j])))],
    ],
    "1d": ["CABD", ["c", "a", "b", "d"], ("C", "A", "B", "D"), "c > a > b > d", "c, a, b, d"],
    "1e": [
        lambda v: F.cosine_similarity(v[:, None], v[None], dim=-1),
        lambda v: (F.normalize(v) @ F.normalize(v).T).tolist(),
        lambda v: v @ v.T / torch.outer(v.norm(dim=1), v.norm(dim=1)),
        lambda v: (v @ v.T).numpy() / np.sqrt(np.outer((v**2).sum(1), (v**2).sum(1))),
        lambda v: [[float(a @ b / (a.norm() * b.norm())) for b in v] for a in v],
    ],
}
