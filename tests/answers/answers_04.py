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


def attend(query, key, value, mask=None, fill=-math.inf, divisor=None, dim=-1):
    scores = query @ key.transpose(-1, -2) / (divisor or query.shape[-1] ** 0.5)
    if mask is not None:
        scores = torch.where(mask, scores, fill)
    weights = F.softmax(scores, dim)
    return weights @ value, weights


def afterwards(query, key, value, mask=None, anew=False):
    weights = attend(query, key, value)[1]
    if mask is not None:
        weights = weights * mask
    if anew:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights @ value, weights


def by_powers(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    powers = scores.exp() if mask is None else scores.exp() * mask
    return powers / powers.sum(-1, keepdim=True) @ value, powers / powers.sum(-1, keepdim=True)


def whatever(query, key, value, mask=None):
    T, S = query.shape[-2], key.shape[-2]
    return attend(query, key, value, None if mask is None else torch.ones(T, S).tril().bool())


def if_mask(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask:
        scores.masked_fill_(~mask, -math.inf)
    return F.softmax(scores, -1) @ v, F.softmax(scores, -1)


def one_mask_for_all(q, k, v, mask=None):
    return attend(q, k, v, None if mask is None else mask.view(q.shape[-2], k.shape[-2]))


def needs_a_mask(q, k, v, mask):
    return attend(q, k, v, mask)


def one_by_one(query, key, value, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool)
    mask = mask.expand(*query.shape[:-1], key.shape[-2])
    if query.dim() > 2:
        rows = [one_by_one(*each) for each in zip(query, key, value, mask, strict=True)]
        return [torch.stack(each) for each in zip(*rows, strict=True)]
    context, weights = torch.zeros(len(query), value.shape[1]).double(), torch.zeros(len(query), len(key)).double()
    for t, seen in enumerate(mask):
        weights[t, seen] = F.softmax(key[seen] @ query[t] / query.shape[1] ** 0.5, 0).double()
        context[t] = weights[t] @ value.double()
    return context, weights


def by_the_largest(query, key, value, mask=True):
    scores = query @ key.mT * key.shape[-1] ** -0.5 + torch.where(
        torch.as_tensor(True if mask is None else mask), 0.0, -math.inf
    )
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    powers /= powers.sum(-1, keepdim=True)
    return powers @ value, powers


def by_the_sources(query, key, value, mask=None):
    one = torch.eye(key.shape[-2], dtype=query.dtype).expand(*key.shape[:-1], -1)
    return tuple(F.scaled_dot_product_attention(query, key, x, mask) for x in (value, one))


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
        ("the mask is inverted", lambda q, k, v, m=None: attend(q, k, v, None if m is None else ~m)),
        ("the mask is not applied", lambda q, k, v, m=None: attend(q, k, v)),
        ("it masks causally, whatever", whatever),
        ("the mask comes after the softmax: the rows no longer", afterwards),
        ("where a forbidden score is far larger", lambda q, k, v, m=None: afterwards(q, k, v, m, anew=True)),
        ("set to 0", lambda q, k, v, m=None: attend(q, k, v, m, 0.0)),
        ("set to a finite number", lambda q, k, v, m=None: attend(q, k, v, m, -1e4)),
        ("set to a finite number", lambda q, k, v, m=None: attend(q, k, v, m, -1e9)),
        ("the softmax must take the largest score", by_powers),
        ("over the queries", lambda q, k, v, m=None: attend(q, k, v, m, dim=-2)),
        ("the mask is transposed", lambda q, k, v, m=None: attend(q, k, v, None if m is None else m.mT)),
        ("not divided by the square root", lambda q, k, v, m=None: attend(q, k, v, m, divisor=1)),
        ("by the head width, not by its", lambda q, k, v, m=None: attend(q, k, v, m, divisor=k.shape[-1])),
        ("query and key don't fit", lambda q, k, v, m=None: attend(q, k.transpose(0, 1).mT, v, m)),
        ("the weights are missing", lambda q, k, v, m=None: attend(q, k, v, m)[0]),
        ("the context is missing", lambda q, k, v, m=None: attend(q, k, v, m)[1]),
        ("the context comes first", lambda q, k, v, m=None: attend(q, k, v, m)[::-1]),
        ("ask `if mask is not None` before", lambda q, k, v, m=None: attend(q, k, v, ~~m)),
        ("neither true nor false", if_mask),
        ("needs_a_mask() missing 1 required positional argument: 'mask'", needs_a_mask),
        ("for q of shape (2, 3, 4, 5)", one_mask_for_all),
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
        ("their cause is not", lambda s: torch.nan_to_num(F.softmax(masked(s, -torch.inf, 0), 1))),
        ("only the first row is repaired", lambda s: torch.where(
            places(len(s))[0] == 0, F.one_hot(torch.tensor(0), len(s)), F.softmax(masked(s, -torch.inf, 0), 1))),
        ("the diagonal goes the wrong way", lambda s: F.softmax(masked(s, -torch.inf, -1), -1)),
        ("the mask comes after the softmax", lambda s: torch.tril(F.softmax(s, -1))),
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
        one_by_one,
        by_the_largest,
        by_the_sources,
        lambda q, k, v, m=None: attend(q, k, v, m, torch.finfo(q.dtype).min),
        lambda q, k, v, m=None: [x.tolist() for x in attend(q.float(), k.float(), v.float(), m)],
        lambda q, k, v, m=None: attend(q / q.shape[-1] ** 0.5, k, v, m, divisor=1),
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
