"""Answers to the exercises of *today's models*: wrong ones, with words of what is said, and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F

BYTES = 1_610_612_736


def by_complex(q, k, i, j):
    q, k = torch.view_as_complex(q), torch.view_as_complex(k)
    return (q * k.conj() * complex(math.cos(i - j), math.sin(i - j))).real


def turned(x, angle):
    cos, sin = math.cos(angle), math.sin(angle)
    return torch.stack([x[0] * cos - x[1] * sin, x[0] * sin + x[1] * cos])


def table(T, seen):
    return [[seen(i, j) for j in range(T)] for i in range(T)]


def silu(a):
    return a / (1 + torch.exp(-a))


def linear_by_loop(query, key, value):
    S, rows = torch.zeros(key.shape[1], value.shape[1]), []
    for q, k, v in zip(query, key, value, strict=True):
        S += torch.outer(k, v)
        rows.append(q @ S)
    return rows


def linear_on_its_side(query, key, value):
    """The state (E, D)."""
    S, rows = np.zeros((value.shape[1], key.shape[1])), np.zeros(value.shape)
    for t in range(len(rows)):
        S += np.outer(value[t], key[t])
        rows[t] = S @ query[t].numpy()
    return rows


WRONG = {
    "12b": [
        ("the sign of `j` is wrong", lambda q, k, i, j: turned(q, i + j) @ k),
        ("it gives 0.12 where 0.5192", lambda q, k, i, j: turned(q, i) @ k),
        ("1/1.41 times", lambda q, k, i, j: turned(q, i - j) @ k / math.sqrt(2)),
        ("still has to be added up", lambda q, k, i, j: turned(q, i - j) * k),
        ("for q = [0.4, -0.2], k = ", lambda q, k, i, j: turned(q, abs(j - i)) @ k),
    ],
    "12c": [
        ("`W` is one too large", lambda T, W: torch.ones(T, T).tril().triu(-W)),
        ("`W` is one too small", lambda T, W: torch.ones(T, T).tril().triu(2 - W)),
        ("True and False are exchanged", lambda T, W: torch.ones(T, T).tril().triu(1 - W) < 1),
        ("rows and columns are exchanged", lambda T, W: torch.ones(T, T).tril(W - 1).triu()),
        ("for T = 1, W = 1", lambda T, W: table(T, lambda i, j: i - W < j < i)),
        ("T = 70, W = 5", lambda T, W: torch.ones(16, 16).tril().triu(1 - W)[:T, :T]),
    ],
    "12d": [
        ("`W` and `V` are exchanged", lambda x, W, V: silu(x @ V) * (x @ W)),
        ("it gives [[[1.762]]]", lambda x, W, V: silu(x @ W)),
        ("it raises RuntimeError", lambda x, W, V: silu(x @ W.T) * (x @ V.T)),
    ],
    "12e": [
        ("1/√D times", lambda q, k, v: (q @ k.T).tril() @ v / math.sqrt(q.shape[1])),
        (
            "it gives [[2]] where [[4]]",
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        ),
        ("`q` and `k` are exchanged", lambda q, k, v: linear_by_loop(k, q, v)),
        ("right only where T = 1", lambda q, k, v: torch.triu(q @ k.T) @ v),
        ("it has the shape (T, T)", lambda q, k, v: (q @ k.T).tril()),
    ],
}
RIGHT = {
    "12b": [by_complex, lambda q, k, i, j: [turned(q, i - j).double() @ k.double()]],
    "12c": [
        lambda T, W: table(T, lambda i, j: j in range(i - W + 1, i + 1)),
        lambda T, W: torch.ones(T, T).tril().triu(1 - W),
        lambda T, W: np.tri(T, dtype=bool) & ~np.tri(T, k=-W, dtype=bool),
    ],
    "12d": [
        lambda x, W, V: silu(x @ W) * (x @ V),
        lambda x, W, V: F.glu(torch.cat([(x @ W) * (x @ V), x @ W], dim=-1)),
    ],
    "12e": [
        linear_by_loop,
        linear_on_its_side,
        lambda q, k, v: (q @ k.T).tril() @ v,
    ],
}
