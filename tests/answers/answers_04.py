"""Answers to the exercises of notebook 04: wrong ones, with words of the sentence that must refuse them, and right."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F


def places(T):
    return torch.arange(T)[:, None], torch.arange(T)


def masked(scores, fill, diagonal=1):
    return scores.masked_fill(torch.ones(scores.shape).triu(diagonal).bool(), fill)


def numbers(x):
    return torch.arange(1, len(x) + 1)[:, None]


def averages_by_loop(x):
    total, rows = torch.zeros(x.shape[1]), []
    for t, row in enumerate(x):
        total = total + row
        rows.append(total / (t + 1))
    return torch.stack(rows)


def window_by_loop(T, window):
    mask = [[False] * T for _ in range(T)]
    for t in range(T):
        for s in range(max(0, t - window + 1), t + 1):
            mask[t][s] = True
    return mask


def other_future(function, x, future):
    before = function(x)
    for t in range(1, len(x)):
        after = function(torch.cat([x[:t], future(x[t:])]))
        if not torch.equal(before[:t], after[:t]):
            return False
    return True


def cut_off(function, x):
    return all(torch.allclose(function(x[:t]), function(x)[:t], atol=1e-6) for t in range(1, len(x)))


def with_last(x, token):
    return torch.cat([x[:-1], token[None]])


def with_first(x, token):
    return torch.cat([token[None], x[1:]])


def token_by_token(function, x):
    generator = torch.Generator().manual_seed(3)
    for t, size in itertools.product(range(len(x)), (0.1, 5, -50)):
        y = x.clone()
        y[t] += size * torch.randn(x.shape[1], generator=generator)
        if (function(y)[:t] != function(x)[:t]).any():
            return False
    return True


def drawn_by_numpy(function, x):
    future = torch.from_numpy(np.random.default_rng(0).normal(0, 20, (3, *x.shape))).float()
    return np.all([
        np.array_equal(function(torch.cat([x[:t], y[t:]]))[:t], function(x)[:t]) for y in future for t in range(len(x))
    ])  # fmt: skip


def by_rows(scores):
    rows = torch.zeros_like(scores)
    for t in range(len(scores)):
        rows[t, : t + 1] = F.softmax(scores[t, : t + 1], 0)
    return rows


def logistic(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


WRONG = {
    "4a": [
        ("those are the sums", lambda x: torch.ones(len(x), len(x)).tril() @ x),
        ("each row counts itself", lambda x: torch.stack([x[:t].mean(0) if t else 0 * x[0] for t in range(len(x))])),
        ("divide by t + 1", lambda x: x.cumsum(0) / (numbers(x) - 1)),
        ("divided by T", lambda x: x.cumsum(0) / x.shape[0]),
        ("the later ones are the future", lambda x: x.mean(0, keepdim=True).repeat(len(x), 1)),
        ("the average of the future", lambda x: x.flip(0).cumsum(0).flip(0) / numbers(x).flip(0)),
        ("one row ahead", lambda x: torch.stack([x[: t + 2].mean(0) for t in range(len(x))])),
        ("the last two rows", lambda x: torch.stack([x[max(0, t - 1) : t + 1].mean(0) for t in range(len(x))])),
        ("along the channels", lambda x: (x.T.cumsum(0) / numbers(x.T)).T),
        ("it leaves x", lambda x: x),
        ("changes its input `x`", lambda x: x.cumsum_(0) / numbers(x)),
        ("it gives", lambda x: torch.zeros_like(x)),
    ],
    "4b": [
        ("the whole past", lambda T, window: torch.ones(T, T).tril().bool()),
        ("True and False are exchanged", lambda T, window: ~torch.tensor(window_by_loop(T, window))),
        ("one too wide", lambda T, window: window_by_loop(T, window + 1)),
        ("one too narrow", lambda T, window: window_by_loop(T, window - 1)),
        ("does not see itself", lambda T, w: (places(T)[1] < places(T)[0]) & (places(T)[1] >= places(T)[0] - w)),
        ("it looks ahead", lambda T, window: torch.tensor(window_by_loop(T, window)).T),
        ("it looks both ways", lambda T, w: (places(T)[0] - places(T)[1]).abs() < w),
        ("nothing else", lambda T, w: places(T)[1] + w <= places(T)[0]),
        ("into blocks", lambda T, w: torch.block_diag(*[torch.ones(w, w).tril()] * T)[:T, :T] > 0),
        ("numbers to add", lambda T, w: torch.zeros(T, T).masked_fill(~torch.tensor(window_by_loop(T, w)), -torch.inf)),
        ("for T=4, window=1 it gives", lambda T, window: torch.tensor(window_by_loop(T, max(window, 2)))),
    ],
    "4c": [
        ("True is not always right", lambda f, x: True),
        ("False is not always right", lambda f, x: False),
        ("True and False are exchanged", lambda f, x: not token_by_token(f, x)),
        ("only the last token", lambda f, x: torch.equal(f(with_last(x, x[-1] + 100))[:-1], f(x)[:-1])),
        ("only the last token", lambda f, x: torch.equal(f(with_last(x, -5 * x[-1].flip(0)))[:-1], f(x)[:-1])),
        ("only the first output", lambda f, x: torch.equal(f(with_first(9 * torch.randn(x.shape), x[0]))[0], f(x)[0])),
        ("the same number was added", lambda f, x: other_future(f, x, lambda y: y + 10)),
        ("only the order of the future", lambda f, x: other_future(f, x, lambda y: y.flip(0))),
        ("only the signs", lambda f, x: other_future(f, x, lambda y: -1 * y)),
        ("only stretched", lambda f, x: other_future(f, x, lambda y: 2 * y)),
        ("those after t may change", lambda f, x: all(
            torch.equal(f(torch.cat([x[:t], -5 * torch.rand(x[t:].shape)])), f(x)) for t in range(1, len(x)))),
        ("it sees no jumps", lambda f, x: other_future(f, x, lambda y: y + 1e-3 * torch.rand(y.shape))),
        ("it returns a str", lambda f, x: f.__doc__),
        ("where False is right", lambda f, x: len(x) == 4 or token_by_token(f, x)),
    ],
    "4d": [
        ("half of all", 500_000),
        ("the diagonal is missing", 499_500),
        ("those are all scores", 1_000_000),
        ("the diagonal alone", 1000),
        ("only the diagonal is hidden", 999_000),
        ("not 1,001", 501_501),
        ("three quarters", 750_000),
        ("without its half", 1_001_000),
        ("500501 is not right", 500_501),
    ],
    "4e": [
        ("nothing is hidden", lambda s: F.softmax(s, 1)),
        ("set to 0", lambda s: F.softmax(s.tril(), 1)),
        ("set to a number", lambda s: F.softmax(masked(s, -1000), 1)),
        ("the past is hidden", lambda s: F.softmax(masked(s.T, -torch.inf).T, 1)),
        ("does not see itself", lambda s: F.softmax(masked(s, -torch.inf, 0), 1)),
        ("one token ahead", lambda s: F.softmax(masked(s, -torch.inf, 2), 1)),
        ("runs down the columns", lambda s: F.softmax(masked(s, -torch.inf), 0)),
        ("the whole table", lambda s: F.softmax(s, 1).tril() / F.softmax(s, 1).tril().sum()),
        ("a second softmax", lambda s: F.softmax(F.softmax(s, 1).tril(), 1)),
        ("divided by t + 1", lambda s: F.softmax(s, 1).tril() / numbers(s)),
        ("the scores decide", lambda s: torch.ones(s.shape).tril() / numbers(s)),
        ("sums of the columns", lambda s: F.softmax(s, 1).tril() / F.softmax(s, 1).tril().sum(0, keepdim=True)),
    ],
    "4f": [
        ("the lead is forgotten", lambda lead, fill: logistic(fill)),
        ("the number is forgotten", lambda lead, fill: logistic(lead)),
        ("the other weight", lambda lead, fill: 1 - logistic(lead + fill)),
        ("added, not taken away", lambda lead, fill: logistic(lead - fill)),
        ("that sign is wrong", lambda lead, fill: logistic(-lead + fill)),
        ("divide by their sum", lambda lead, fill: math.exp(lead + fill)),
        ("something still leaks", lambda lead, fill: 0),
        ("its sigmoid", lambda lead, fill: fill + lead),
        ("for lead=0.0, fill=-10.0 it gives", lambda lead, fill: 0.5),
    ],
}  # fmt: skip
RIGHT = {
    "4a": [
        averages_by_loop,
        lambda x: x.cumsum(0) / numbers(x),
        lambda x: np.cumsum(x.numpy(), 0) / np.arange(1, len(x) + 1)[:, None],
        lambda x: masked(torch.zeros(len(x), len(x)), -torch.inf).softmax(1) @ x,
        lambda x: [x[: t + 1].double().mean(0) for t in range(len(x))],
        lambda x: x.clone().requires_grad_().cumsum(0).div(numbers(x)).tolist(),
    ],
    "4b": [
        window_by_loop,
        lambda T, w: torch.tensor(window_by_loop(T, w)).int(),
        lambda T, w: np.tri(T, dtype=bool) & ~np.tri(T, k=-w, dtype=bool),
        lambda T, w: torch.ones(T, T).tril().triu(-w + 1),
        lambda T, w: [[t - w < s <= t for s in range(T)] for t in range(T)],
        lambda T, w: (places(T)[0] - places(T)[1]).ge(0) & (places(T)[0] - places(T)[1]).lt(w),
    ],
    "4c": [
        cut_off,
        token_by_token,
        drawn_by_numpy,
        lambda f, x: torch.tensor(other_future(f, x, lambda y: 7 * torch.randn(y.shape))),
        lambda f, x: int(other_future(f, x, lambda y: y.flip(0).flip(1) * -3 + torch.arange(y.shape[1]))),
    ],
    "4d": [500_500.0, sum(range(1, 1001)), torch.ones(1000, 1000).tril().sum(), np.int64(500500), [500500]],
    "4e": [
        by_rows,
        lambda s: F.softmax(s, 1).tril() / F.softmax(s, 1).tril().sum(1, keepdim=True),
        lambda s: F.softmax(s.double() + masked(torch.zeros(s.shape), -torch.inf), 1).tolist(),
        lambda s: torch.stack([F.pad(F.softmax(s[t, : t + 1], 0), (0, len(s) - t - 1)) for t in range(len(s))]),
        lambda s: F.softmax(masked(s, torch.finfo(s.dtype).min), -1).requires_grad_().numpy(force=True),
        lambda s: F.softmax(torch.where(places(len(s))[0] >= places(len(s))[1], s, -torch.inf), dim=1),
    ],
    "4f": [
        lambda lead, fill: torch.sigmoid(torch.tensor(lead + fill)),
        lambda lead, fill: torch.tensor([0.0, lead + fill], dtype=torch.float64).softmax(0)[1],
        lambda lead, fill: np.exp(lead + fill) / (1 + np.exp(lead + fill)),
        lambda lead, fill: (1 + math.tanh((lead + fill) / 2)) / 2,
        lambda lead, fill: [1 / (1 + math.exp(-(lead + fill)))],
    ],
}  # fmt: skip
