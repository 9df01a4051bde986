"""Answers to the exercises of notebook 12: wrong ones, with words of the sentence that must refuse them, and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from helpers.modern import SwiGLU, rotate, rotations


def by_rotate(q, k, i, j):
    """Turned by our own `rotate`, the one further right by what it is ahead."""
    ahead, tables = i - j, rotations(10, 2)
    return rotate(q.expand(10, 2), *tables)[max(ahead, 0)] @ rotate(k.expand(10, 2), *tables)[max(-ahead, 0)]


def by_complex(q, k, i, j):
    q, k = torch.view_as_complex(q), torch.view_as_complex(k)
    return (q * k.conj() * complex(math.cos(i - j), math.sin(i - j))).real


def by_matrix(q, k, i, j):
    c, s = np.cos(i - j), np.sin(i - j)
    return k.numpy() @ np.array([[c, -s], [s, c]]) @ q.numpy()


def by_angles(q, k, i, j):
    between = math.atan2(q[1], q[0]) - math.atan2(k[1], k[0]) + i - j
    return math.hypot(*q) * math.hypot(*k) * math.cos(between)


def turned(x, angle):
    return torch.stack(
        [x[0] * math.cos(angle) - x[1] * math.sin(angle), x[0] * math.sin(angle) + x[1] * math.cos(angle)]
    )


def turned_in_float32(x, place):
    matrix = torch.tensor([[0.0, -1.0], [1.0, 0.0]]) * torch.sin(torch.tensor(float(place)))
    return (matrix + torch.eye(2) * torch.cos(torch.tensor(float(place)))) @ x


def window_by_loop(T, W):
    table = [[False] * T for _ in range(T)]
    for i in range(T):
        for j in range(max(0, i - W + 1), i + 1):
            table[i][j] = True
    return table


def table(T, seen):
    return [[seen(i, j) for j in range(T)] for i in range(T)]


def silu(a):
    return a / (1 + torch.exp(-a))


def linear_by_loop(query, key, value):
    S, rows = torch.zeros(key.shape[1], value.shape[1]), []
    for q, k, v in zip(query, key, value, strict=True):
        S += torch.outer(k, v)
        rows.append(q @ S)
    return torch.stack(rows)


def linear_by_lists(query, key, value):
    """In plain Python, the state as a list of lists."""
    state, rows = [[0.0] * value.shape[1] for _ in range(key.shape[1])], []
    for q, k, v in zip(query.tolist(), key.tolist(), value.tolist(), strict=True):
        state = [[old + a * b for old, b in zip(row, v, strict=True)] for row, a in zip(state, k, strict=True)]
        rows.append([sum(a * row[j] for a, row in zip(q, state, strict=True)) for j in range(len(v))])
    return rows


def linear_by_sums(query, key, value):
    """Looks back, and adds up one pair at a time."""
    rows = torch.zeros_like(value)
    for t in range(len(query)):
        for s in range(t + 1):
            rows[t] += (query[t] * key[s]).sum() * value[s]
    return rows


def linear_on_its_side(query, key, value):
    """The state (E, D)."""
    S, rows = np.zeros((value.shape[1], key.shape[1])), np.zeros(value.shape)
    for t in range(len(rows)):
        S += np.outer(value[t], key[t])
        rows[t] = S @ query[t].numpy()
    return rows


def read_too_early(query, key, value):
    S, rows = torch.zeros(key.shape[1], value.shape[1]), []
    for q, k, v in zip(query, key, value, strict=True):
        rows.append(q @ S)
        S = S + k[:, None] * v
    return torch.stack(rows)


def read_at_the_end(query, key, value):
    S = torch.zeros(key.shape[1], value.shape[1])
    for k, v in zip(key, value, strict=True):
        S += torch.outer(k, v)
    return query @ S


def anew_each_time(query, key, value):
    return torch.stack([q @ torch.outer(k, v) for q, k, v in zip(query, key, value, strict=True)])


def outer_turned_round(query, key, value):
    S, rows = torch.zeros(value.shape[1], key.shape[1]), []
    for q, k, v in zip(query, key, value, strict=True):
        S = S + torch.outer(v, k)
        rows.append(q @ S)
    return torch.stack(rows)


def read_by_columns(query, key, value):
    S, rows = torch.zeros(key.shape[1], value.shape[1]), []
    for q, k, v in zip(query, key, value, strict=True):
        S = S + torch.outer(k, v)
        rows.append(S @ q)
    return torch.stack(rows)


def only_the_last(query, key, value):
    S = torch.zeros(key.shape[1], value.shape[1])
    for q, k, v in zip(query, key, value, strict=True):
        S += torch.outer(k, v)
        row = q @ S
    return row


BYTES = 1_610_612_736
WRONG = {
    "12a": [
        ("exchanged", (402_653_184, 1_610_612_736)),
        ("keys AND values", (24 * 8192 * 2048 * 2, 6 * 8192 * 2048 * 2)),
        ("two bytes, not more", (2 * 24 * 8192 * 2048 * 4, 24 * 8192 * 2048 * 2)),
        ("two bytes, not more", (2 * 24 * 8192 * 2048 * 16, 2 * 24 * 8192 * 512 * 16)),
        ("each layer", (2 * 8192 * 2048 * 2, 2 * 8192 * 512 * 2)),
        ("share the width", (2 * 24 * 8192 * 2048 * 16 * 2, 2 * 24 * 8192 * 2048 * 4 * 2)),
        ("not 128", (2 * 24 * 8192 * 128 * 2, 2 * 24 * 8192 * 128 * 2 / 4)),
        ("old queries", (3 * 24 * 8192 * 2048 * 2, BYTES / 4)),
        ("the scores are not kept", (24 * 16 * 8192 * 8192 * 2, 24 * 4 * 8192 * 8192 * 2)),
        ("all of them", (1.61, 0.4)),
        ("all of them", (1.5, 0.375)),
        ("a head's width stays 128", (BYTES, BYTES)),
        ("both keys and values", (BYTES, BYTES // 2 + BYTES // 8)),
        ("not one", (BYTES, 2 * 24 * 8192 * 128 * 2)),
        ("a quarter", (BYTES, 4 * BYTES)),
        ("is not right", (1_610_612_000, 402_653_000)),
        ("2 things in a tuple", BYTES),
    ],
    "12b": [
        ("can't tell neighbours apart", lambda q, k, i, j: turned_in_float32(q, i) @ turned_in_float32(k, j)),
        ("the sign before the sine", lambda q, k, i, j: turned(q, j) @ turned(k, i)),
        ("the distance has a sign", lambda q, k, i, j: turned(q, abs(j - i)) @ k),
        ("subtracted, not added", lambda q, k, i, j: turned(q, i + j) @ k),
        ("the part with the sine", lambda q, k, i, j: (q @ k) * math.cos(i - j)),
        ("the part with the cosine", lambda q, k, i, j: turned(q, math.pi / 2) @ k * math.sin(i - j)),
        ("one product is taken from the other", lambda q, k, i, j: (
            (q @ k) * math.cos(i - j) + (q @ k.flip(0)) * math.sin(i - j))),
        ("exchanged", lambda q, k, i, j: (q @ k) * math.sin(i - j) + (q[0] * k[1] - q[1] * k[0]) * math.cos(i - j)),
        ("only the query", lambda q, k, i, j: turned(q, i) @ k),
        ("only the key", lambda q, k, i, j: turned(k, j) @ q),
        ("nothing is turned", lambda q, k, i, j: torch.dot(q, k)),
        ("degrees", lambda q, k, i, j: turned(q, (i - j) * math.pi / 180) @ k),
        ("no root here", lambda q, k, i, j: turned(q, i - j) @ k / math.sqrt(2)),
        ("a score is one", lambda q, k, i, j: turned(q, i - j) * k),
        ("a score is one", lambda q, k, i, j: turned(q, i).double() * turned(k, j)),
        ("changes its input `q`", lambda q, k, i, j: q.mul_(2) @ k),
    ],
    "12c": [
        ("not W", lambda T, W: torch.ones(T, T).tril().triu(-W)),
        ("one too few", lambda T, W: torch.ones(T, T).tril().triu(2 - W)),
        ("itself, too", lambda T, W: table(T, lambda i, j: i - W < j < i)),
        ("the window is gone", lambda T, W: table(T, lambda i, j: j <= i)),
        ("of the future", lambda T, W: torch.ones(T, T).tril(W - 1).triu(1 - W)),
        ("rows are queries", lambda T, W: torch.ones(T, T).tril(W - 1).triu()),
        ("FORBIDDEN", lambda T, W: ~torch.tensor(window_by_loop(T, W))),
        ("blocks with walls", lambda T, W: table(T, lambda i, j: j <= i and i // W == j // W)),
        ("the FIRST W tokens", lambda T, W: table(T, lambda i, j: j <= i and j < W)),
        ("further away", lambda T, W: torch.ones(T, T).tril(-W)),
        ("itself alone", lambda T, W: torch.eye(T)),
        ("added to scores", lambda T, W: torch.where(torch.tensor(window_by_loop(T, W)), 0.0, -torch.inf)),
        ("shape", lambda T, W: torch.ones(T, W)),
    ],
    "12d": [
        ("W opens", lambda x, W, V: silu(x @ V) * (x @ W)),
        ("that is GLU", lambda x, W, V: F.glu(torch.cat([x @ V, x @ W], -1))),
        ("GEGLU", lambda x, W, V: F.gelu(x @ W) * (x @ V)),
        ("ReGLU", lambda x, W, V: (x @ W).clamp(min=0) * (x @ V)),
        ("the gate is missing", lambda x, W, V: (x @ W) * (x @ V)),
        ("nothing is let through", lambda x, W, V: silu(x @ W)),
        ("multiplied, not added", lambda x, W, V: silu(x @ W) + x @ V),
        ("only one of the two", lambda x, W, V: silu(x @ W) * silu(x @ V)),
        ("before the product", lambda x, W, V: silu((x @ W) * (x @ V))),
        ("closed and open", lambda x, W, V: (x @ W) / (1 + torch.exp(x @ W)) * (x @ V)),
        ("e^a overflows", lambda x, W, V: (x @ W) * torch.exp(x @ W) / (torch.exp(x @ W) + 1) * (x @ V)),
        ("that is a softmax", lambda x, W, V: (x @ W) * F.softmax(x @ W, -1) * (x @ V)),
        ("it raises RuntimeError", lambda x, W, V: silu(x @ W.T) * (x @ V.T)),
    ],
    "12e": [
        ("read before the token has entered it", read_too_early),
        ("every row knows the whole text", read_at_the_end),
        ("the future and not the past", lambda q, k, v: torch.triu(q @ k.T) @ v),
        ("a softmax", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        ("a softmax", lambda q, k, v: (q @ k.T + torch.full((len(q), len(q)), -torch.inf).triu(1)).softmax(-1) @ v),
        ("divided by √D", lambda q, k, v: linear_by_loop(q, k, v) / math.sqrt(q.shape[1])),
        ("by the sum of the scores", lambda q, k, v: (
            linear_by_loop(q, k, v) / linear_by_loop(q, k, torch.ones(len(v), 1)))),
        ("that is a mean", lambda q, k, v: torch.stack(
            [row / (t + 1) for t, row in enumerate(linear_by_loop(q, k, v))])),
        ("made anew", anew_each_time),
        ("outer product is the wrong way round", outer_turned_round),
        ("read the wrong way round", read_by_columns),
        ("query and key are exchanged", lambda q, k, v: linear_by_loop(k, q, v)),
        ("the key enters the state, not the query", lambda q, k, v: linear_by_loop(q, q, v)),
        ("what is forbidden counts 0", lambda q, k, v: (
            (q @ k.T).masked_fill(~torch.ones(len(q), len(q)).tril().bool(), float("-inf")) @ v)),
        ("multiply them by the values", lambda q, k, v: torch.tril(q @ k.T)),
        ("that is the state", lambda q, k, v: sum(torch.outer(a, b) for a, b in zip(k, v, strict=True))),
        ("the last row alone", only_the_last),
        ("rows don't add up", lambda q, k, v: linear_by_loop(q, k, v).cumsum(0)),
        ("without a bend", lambda q, k, v: linear_by_loop(F.elu(q) + 1, F.elu(k) + 1, v)),
        ("changes its input `v`", lambda q, k, v: (linear_by_loop(q, k, v), v.zero_())[0]),
    ],
}  # fmt: skip
RIGHT = {
    "12a": [
        (BYTES, BYTES // 4),
        [24 * 8192 * 16 * (128 + 128) * 16 / 8, 24 * 8192 * 4 * (128 + 128) * 16 / 8],
        torch.tensor([BYTES, BYTES / 4], dtype=torch.float64),
        (1.5 * 2**30, 0.375 * 2**30),
        np.array([BYTES, 402_653_184]),
    ],
    "12b": [
        by_rotate,
        by_complex,
        by_matrix,
        by_angles,
        lambda q, k, i, j: turned(q, i - j) @ k,
        lambda q, k, i, j: [turned(k, j - i).double() @ q.double()],
    ],
    "12c": [
        window_by_loop,
        lambda T, W: torch.ones(T, T).tril().triu(1 - W),
        lambda T, W: np.tri(T, dtype=bool) & ~np.tri(T, k=-W, dtype=bool),
        lambda T, W: table(T, lambda i, j: j in range(i - W + 1, i + 1)),
        lambda T, W: torch.ones(T, T, dtype=torch.bool).tril() ^ torch.ones(T, T, dtype=torch.bool).tril(-W),
    ],
    "12d": [
        lambda x, W, V: F.silu(x @ W) * (x @ V),
        lambda x, W, V: silu(x @ W) * (x @ V),
        lambda x, W, V: F.glu(torch.cat([(x @ W) * (x @ V), x @ W], dim=-1)),
        lambda x, W, V: torch.einsum("btf,btf,btf->btf", x @ W, 0.5 + 0.5 * torch.tanh(x @ W / 2), x @ V),
        lambda x, W, V: torch.func.functional_call(
            SwiGLU(*W.shape, bias=False), {"weight": torch.cat([W, V], 1).T}, (x,)).tolist(),
    ],
    "12e": [
        linear_by_loop,
        linear_by_lists,
        linear_by_sums,
        linear_on_its_side,
        lambda q, k, v: (q @ k.T).tril() @ v,
        lambda q, k, v: torch.einsum("td,tde->te", q, torch.einsum("td,te->tde", k, v).cumsum(0)),
        lambda q, k, v: [q[t] @ (k[: t + 1].T @ v[: t + 1]) for t in range(len(q))],
    ],
}  # fmt: skip
