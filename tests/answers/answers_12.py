"""Answers to the exercises of notebook 12: wrong ones, with words of the sentence that must refuse them, and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from helpers.core.modern import SwiGLU, ngram_rows, rotate, rotations


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


def rows_by_loop(tokens, V, rows):
    found = []
    for text in tokens.tolist():
        found.append([(a * (V + 1) + b) % rows for a, b in zip([V, *text], text, strict=False)])
    return found


def rows_by_windows(tokens, V, rows):
    pairs = F.pad(tokens, (1, 0), value=V).unfold(1, 2, 1)
    return (pairs * torch.tensor([V + 1, 1])).sum(-1).remainder(rows)


def rows_by_numpy(tokens, V, rows):
    before = np.hstack([np.full((len(tokens), 1), V), tokens.numpy()[:, :-1]])
    return np.mod(before * (V + 1) + tokens.numpy(), rows)


def pairs_from(start, make=lambda a, b, V: a * (V + 1) + b):
    def answer(tokens, V, rows):
        return [[make(a, b, V) % rows for a, b in zip([start(text, V), *text], text, strict=False)]
                for text in tokens.tolist()]  # fmt: skip

    return answer


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
        ("the base is V + 1", pairs_from(lambda text, V: V, lambda a, b, V: a * V + b)),
        ("the digits are exchanged", pairs_from(lambda text, V: V, lambda a, b, V: b * (V + 1) + a)),
        ("not 0", pairs_from(lambda text, V: 0)),
        ("not V - 1", pairs_from(lambda text, V: V - 1)),
        ("not -1", pairs_from(lambda text, V: -1)),
        ("no ring", pairs_from(lambda text, V: text[-1])),
        ("that token again", pairs_from(lambda text, V: text[0])),
        ("each begins anew", lambda x, V, rows: np.reshape(
            pairs_from(lambda text, V: V)(x.reshape(1, -1), V, rows), tuple(x.shape))),
        ("the NEXT token", lambda x, V, rows: (
            (torch.cat([x[:, 1:], torch.full((len(x), 1), V)], 1) * (V + 1) + x) % rows)),
        ("the modulo is missing", lambda x, V, rows: rows_by_loop(x, V, 10**12)),
        ("only added", pairs_from(lambda text, V: V, lambda a, b, V: a + b)),
        ("those are the tokens", lambda x, V, rows: x % rows),
        ("those are triples", lambda x, V, rows: ngram_rows(x, 3, V, rows)),
        ("has a row, too", lambda x, V, rows: rows_by_windows(x, V, rows)[:, 1:]),
        ("changes its input `x`", lambda x, V, rows: x.roll(1, 1).copy_(x.mul_(2))),
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
        rows_by_loop,
        rows_by_windows,
        rows_by_numpy,
        lambda x, V, rows: ngram_rows(x, 2, V, rows),
        lambda x, V, rows: (ngram_rows(x, 2, V, rows) + rows).float() - rows,
    ],
}  # fmt: skip
