"""Answers to the exercises of notebook 06, and words that must be said of the wrong ones."""

import torch
import torch.nn.functional as F
from gpt_variants import Heads, ManyHeads
from nanogpt import NanoAttention
from torch import nn

from exercises.attending import join, join_by_view, multi_head, split
from exercises.n06 import merge


def through_zeros(contexts, W_out):
    """All other heads are silenced, and the whole is mixed."""
    silenced = (torch.eye(len(contexts))[:, :, None, None] * contexts).transpose(1, 2)  # (H, T, H, D)
    return silenced.flatten(2) @ W_out


def by_moving(m1, l1, context1, m2, l2, context2):
    """The first context moves to the second by the second's share, as in FlashAttention."""
    m = torch.where(m1 > m2, m1, m2)
    before, new = l1 * torch.exp(m1 - m), l2 * torch.exp(m2 - m)
    return m, before + new, context1 + new / (before + new) * (context2 - context1)


# ---------------------------------------------------------------- layers
def with_(**methods):
    return type("Heads", (Heads,), methods)


def scored(weigh):
    """Heads that make contexts of scores and values in another way."""

    def attend(self, query, key, value, start):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        return weigh(scores, torch.ones_like(scores).tril().bool()) @ value

    return with_(attend=attend)


class WordsAsValues(Heads):
    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        self.W_value = nn.Identity()


class Bare(Heads):
    """Parameters alone."""

    def __init__(self, C, num_heads):
        nn.Module.__init__(self)
        self.num_heads = num_heads
        self.matrices = nn.ParameterList(torch.randn(C, C) / C**0.5 for _ in range(4))
        self.W_query, self.W_key, self.W_value, self.W_out = (lambda x, i=i: x @ self.matrices[i] for i in range(4))


class BareUndivided(Bare):
    def attend(self, query, key, value, start):
        return Heads.attend(self, query * query.shape[-1] ** 0.5, key, value, start)


class SharedKeys(Heads):
    """All heads ask the same keys, and get the same values."""

    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        self.W_key, self.W_value = (nn.Linear(C, C // num_heads, bias=False) for _ in range(2))

    def forward(self, x):
        key, value = self.W_key(x)[:, None], self.W_value(x)[:, None]
        return self.W_out(self.join(self.attend(self.split(self.W_query(x)), key, value, 0)))


class AlwaysTwo(Heads):
    def __init__(self, C, num_heads):
        super().__init__(C, 2)


class InAList(ManyHeads):
    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        parts = list(self.parts)
        del self.parts
        self.parts = parts


class Nano(NanoAttention):
    def __init__(self, C, num_heads):
        super().__init__(C, num_heads, dropout=0.0)


class ByPyTorch(nn.MultiheadAttention):
    def __init__(self, C, num_heads):
        super().__init__(C, num_heads, batch_first=True)

    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return super().forward(x, x, x, attn_mask=future, need_weights=False)[0]


class InTurn(Heads):
    """The heads take their numbers in turn."""

    def split(self, x):
        return x.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)

    def join(self, x):
        return x.permute(0, 2, 3, 1).flatten(2)


WRONG = {
    "6c": [
        ("that is what all heads write together", lambda c, o: c.transpose(0, 1).flatten(1) @ o),
        ("yours take their rows in turn", lambda c, o: torch.stack([c[h] @ o[h :: len(c)] for h in range(len(c))])),
    ],
    "6d": [
        ("it only averages", lambda *x: (*merge(*x)[:2], (x[2] + x[5]) / 2)),
        ("that is the context alone", lambda *x: merge(*x)[2]),
        ("all is there, in another order", lambda *x: merge(*x)[::-1]),
        ("as its context", lambda *x: (*merge(*x)[:2], merge(*x)[1] * merge(*x)[2])),
        ("it should return 3 things in a tuple", lambda *x: merge(*x)[:2]),
    ],
    "6e": [
        ("the softmax runs over the heads", lambda q, k, v, H: multi_head(q, k, v, H, dim=1)),
        ("the future is not hidden", lambda q, k, v, H: (
            join(F.scaled_dot_product_attention(split(q, H), split(k, H), split(v, H))))),
    ],
    "6g": [
        ("the scores are divided by √C", with_(attend=lambda self, q, k, v, start: (
            Heads.attend(self, q / self.num_heads**0.5, k, v, start)))),
        ("the heads are joined by view alone", with_(join=lambda self, x: join_by_view(x))),
        ("not divided by √D", BareUndivided),
        ("gives other numbers", with_(forward=lambda self, x: x + Heads.forward(self, x))),
        ("do all heads look at the same places", with_(attend=lambda self, q, k, v, start: (
            Heads.attend(self, q[:, :1], k[:, :1], v, start)))),
        ("four matrices, for query, key, value", WordsAsValues),
        ("four matrices, for query, key, value", SharedKeys),
        ("gives other numbers", AlwaysTwo),
        ("it looks into the future", scored(lambda scores, past: scores.softmax(-1).tril())),
        ("do the weights add up to 1", with_(attend=lambda self, q, k, v, start: (
            (q[..., :1] @ k.mT[..., :1, :]).tril() @ v))),
        ("put it into an nn.ModuleList", InAList),
        ("W_key.weight gets no gradient", with_(attend=lambda self, q, k, v, start: (
            Heads.attend(self, q, q, v, start)))),
        ("attention knows no places", with_(forward=lambda self, x: (
            Heads.forward(self, x + torch.arange(x.shape[1])[:, None] / 10)))),
        ("a tensor alone is asked for", with_(forward=lambda self, x: (x, None))),
    ],
}  # fmt: skip
RIGHT = {
    "6c": [
        through_zeros,
        lambda c, o: [head @ rows for head, rows in zip(c, o.chunk(len(c)), strict=True)],
        lambda c, o: torch.einsum("htd,hdc->htc", c.double(), o.double().view(*c.shape[::2], -1)).numpy(),
    ],
    "6d": [by_moving, lambda *x: [y.numpy() for y in merge(*(y.double() for y in x))]],
    "6e": [lambda q, k, v, H: multi_head(q, k, v, H, hidden=torch.finfo(torch.float32).min)],
    "6g": [ManyHeads, Nano, ByPyTorch, InTurn, Bare],
}
