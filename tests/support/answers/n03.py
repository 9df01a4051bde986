"""Wrong answers of notebook 03, with words of what must be said, and right ones."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def attend(query, key, value, divisor=None, dim=-1):
    scores = query @ key.transpose(-1, -2) / (divisor or query.shape[-1] ** 0.5)
    weights = F.softmax(scores, dim)
    return weights @ value, weights


class Layer(nn.Module):
    """Three matrices. Others change what becomes of x, or of query, key and value."""

    def __init__(self, C, D):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(C, D, bias=False) for _ in range(3))

    def forward(self, x):
        return self.attend(self.W_query(x), self.W_key(x), self.W_value(x))

    def attend(self, query, key, value):
        return attend(query, key, value)[0]


def attending(attend):
    return type("Layer", (Layer,), {"attend": lambda self, *parts: attend(*parts)})


def forwarding(forward):
    return type("Layer", (Layer,), {"forward": forward})


class InAList(Layer):
    def __init__(self, C, D):
        nn.Module.__init__(self)
        self.parts = [nn.Linear(C, D) for _ in range(3)]

    def forward(self, x):
        return self.attend(*(part(x) for part in self.parts))


class Fused(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.c_attn = nn.Linear(C, 3 * D)

    def forward(self, x):
        return F.scaled_dot_product_attention(*self.c_attn(x).chunk(3, -1))


class Bare(nn.Module):
    """Parameters alone, on either side, and scores that are divided by what one likes."""

    def __init__(self, C, D, divisor=None):
        super().__init__()
        self.divisor = divisor
        self.W_qk = nn.Parameter(torch.randn(2, C, D) / C**0.5)
        self.W_value, self.shift = nn.Parameter(torch.randn(D, C)), nn.Parameter(torch.randn(D))

    def forward(self, x):
        query, key = x[None] @ self.W_qk[:, None]
        return attend(query, key, F.linear(x, self.W_value, self.shift), self.divisor)[0]


WRONG = {
    "3h": [
        ("are exchanged", lambda q, k, A, B, v: (q @ B + k @ A).tanh() @ v),
        ("added up along each row", lambda q, k, A, B, v: (q @ A + k @ B).tanh() * v),
        ("one softmax too many", lambda q, k, A, B, v: ((q @ A + k @ B).tanh() @ v).softmax(0)),
        ("`q` makes no difference", lambda q, k, A, B, v: (k @ B).tanh() @ v),
        ("where [0.664] is right", lambda q, k, A, B, v: (q @ A + k @ B).relu() @ v),
    ],
    "3a": [
        ("another order: return (context, weights)", lambda q, k, v: attend(q, k, v)[::-1]),
        ("that is the weights alone", lambda q, k, v: attend(q, k, v)[1]),
        ("2 things in a tuple", lambda q, k, v: (*attend(q, k, v), 1)),
        ("not with more dimensions", lambda q, k, v: attend(q, k.transpose(0, 1).mT, v)),
    ],
    "3b": [
        ("`x` is used where `m` belongs", lambda x, m, q, k, v: attend(x @ q, x @ k, x @ v)[0]),
        ("`k` is used where `v` belongs", lambda x, m, q, k, v: attend(x @ q, m @ k, m @ k)[0]),
        ("number 1 of them is right", lambda x, m, q, k, v: attend(x @ q, m @ k, m @ v)),
        ("(T, D) is asked for", lambda x, m, q, k, v: attend(x @ q, m @ k, m @ v)[1]),
    ],
    "3c": [
        ("the sign is wrong", lambda w, s, v: (w * ((w * s).sum(1, True) - s)) @ v),
        ("only where S = 1", lambda w, s, v: (s - (w * s).sum(1, True)) @ v),
        ("only where T = 1", lambda w, s, v: (w * (s - (w * s).sum())) @ v),
        ("(T, E) is asked for", lambda w, s, v: w * (s - (w * s).sum(1, True))),
        ("changes its input `s`", lambda w, s, v: (w * s.sub_((w * s).sum(1, True))) @ v),
    ],
    "3d": [("the square of what is asked for", 144), ("7 is not right", 7)],
    "3e": [("the softmax is missing", lambda q, k: q @ k.mT / q.shape[-1] ** 0.5)],
    "3f": [
        ("turn it on its side", lambda q, k: k @ q.T),
        ("the matrix product of `q` and `k`, and no more", lambda q, k: q @ k),
        ("number by number", lambda q, k: k * q),
        ("all is 1/√D times", lambda q, k: q @ k.T / k.shape[1] ** 0.5),
    ],
    "3g": [
        ("not divided by √D", lambda C, D: Bare(C, D, divisor=1)),
        ("gives other numbers", lambda C, D: Bare(C, D, divisor=1.5)),
        ("over the queries", attending(lambda q, k, v: attend(q, k, v, dim=1)[0])),
        ("not divided by √D", attending(lambda q, k, v: attend(q, k, v, 1)[0])),
        ("other texts stand in its batch", attending(lambda q, k, v: attend(q, k, v, dim=0)[0])),
        ("do the weights add up to 1", attending(lambda q, k, v: (q @ k.mT).sigmoid() @ v)),
        ("output 0 doesn't change with input 1", attending(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))),
        ("attention knows no places", forwarding(
            lambda self, x: Layer.forward(self, x + torch.arange(x.shape[1])[:, None] / 10))),
        ("put it into an nn.ModuleList", InAList),
        ("W_key.weight gets no gradient", forwarding(
            lambda self, x: self.attend(self.W_query(x), self.W_query(x), self.W_value(x)))),
        ("no gradient reaches its parameters", forwarding(torch.no_grad()(Layer.forward))),
        ("it makes a float", lambda C, D: C / D),
    ],
}  # fmt: skip
RIGHT = {
    "3h": [
        lambda q, k, A, B, v: [float(v @ torch.tanh(A.T @ q + B.T @ key)) for key in k],
        lambda q, k, A, B, v: np.tanh((q @ A + k @ B).numpy()) @ v.numpy(),
        lambda q, k, A, B, v: (torch.cat([q.expand_as(k), k], 1) @ torch.cat([A, B])).tanh() @ v,
    ],
    "3a": [
        lambda q, k, v: list(attend(q.double(), k.double(), v.double())),
        lambda q, k, v: (x.requires_grad_().tolist() for x in attend(q, k, v)),
        lambda q, k, v: tuple(x.numpy() for x in attend(q / k.shape[-1] ** 0.5, k, v, 1)),
    ],
    "3b": [lambda x, m, q, k, v: attend(x, m @ k @ q.T, m @ v, k.shape[1] ** 0.5)[0].numpy()],
    "3c": [lambda w, s, v: (w * s) @ v - (w * s).sum(1, True) * (w @ v)],
    "3d": [12.0, torch.tensor([[12.01]], requires_grad=True)],
    "3e": [lambda q, k: attend(q / q.shape[-1] ** 0.5, k, k, 1)[1].tolist()],
    "3f": [lambda q, k: sum(torch.outer(q[:, i], k[:, i]) for i in range(q.shape[1]))],
    "3g": [Fused, Bare],
}  # fmt: skip
