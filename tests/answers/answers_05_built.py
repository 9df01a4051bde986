"""Answers to the exercise 5f, dropout: wrong ones, with words of the sentence that must refuse them, and right."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """Draws for x by `keep(x, p)`, and scales by `scaled(x, keep, p)`."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        return self.scaled(x, self.keep(x))

    def keep(self, x):
        return torch.rand_like(x) >= self.p

    def scaled(self, x, keep):
        return x * keep / (1 - self.p)


def keeping(keep):
    return type("Layer", (Layer,), {"keep": lambda self, x: keep(x, self.p)})


def scaling(scaled):
    return type("Layer", (Layer,), {"scaled": lambda self, x, keep: scaled(x, keep, self.p)})


def forwarding(forward):
    return type("Layer", (Layer,), {"forward": forward})


def in_place(x, keep, p):
    x *= keep
    return x / (1 - p)


class Once(Layer):
    def __init__(self, p):
        super().__init__(p)
        self.seed = 7

    def keep(self, x):
        return torch.rand(x.shape, generator=torch.Generator().manual_seed(self.seed)) >= self.p


WRONG = {
    "5f": [
        ("x should come back as it is: self.training tells", forwarding(lambda self, x: self.scaled(x, self.keep(x)))),
        ("random numbers, too: there is no need", forwarding(
            lambda self, x: self.scaled(x, keep) if (keep := self.keep(x)).any() and self.training else x)),
        ("in training no number becomes 0", forwarding(
            lambda self, x: x if self.training else self.scaled(x, self.keep(x)))),
        ("is dropped: that is what should be kept", keeping(lambda x, p: torch.rand_like(x) < p)),
        ("what is kept stays as it is", scaling(lambda x, keep, p: x * keep)),
        ("what is kept is multiplied by 5.000, and not by 1.250", scaling(lambda x, keep, p: x * keep / p)),
        ("what is kept is multiplied by 0.800", scaling(lambda x, keep, p: x * keep * (1 - p))),
        ("in training no number becomes 0", scaling(lambda x, keep, p: x + 0.1 * torch.randn_like(x))),
        ("neither kept nor dropped", scaling(lambda x, keep, p: x * keep * torch.rand_like(x))),
        ("all texts of a batch lose the same", keeping(lambda x, p: torch.rand(x.shape[1:]) >= p)),
        ("all texts of a batch lose the same", keeping(lambda x, p: torch.rand(x.shape[-1]) >= p)),
        ("all words of a text lose the same", keeping(
            lambda x, p: (torch.rand_like(x) >= p)[:, :1] if x.dim() > 2 else torch.rand_like(x) >= p)),
        ("whole words are dropped", keeping(lambda x, p: torch.rand_like(x)[..., :1] >= p)),
        ("numbers aren't dropped independently", keeping(
            lambda x, p: (torch.rand_like(x) >= p)[..., torch.arange(x.shape[-1]) // 2])),
        ("two calls drop the same numbers", Once),
        ("a share of 0.5", keeping(lambda x, p: torch.rand_like(x) >= 0.5)),
        ("a share of 0.4", keeping(lambda x, p: torch.randn_like(x) >= -0.25 if p < 0.5 else torch.rand_like(x) >= p)),
        ("two calls drop the same numbers", keeping(lambda x, p: x >= x.quantile(p))),
        ("it changes its input", scaling(in_place)),
        ("no gradient comes back", scaling(lambda x, keep, p: x.detach() * keep / (1 - p))),
        ("the gradient should pass as x does", scaling(
            lambda x, keep, p: (x * keep / (1 - p)).detach() + x - x.detach())),
        ("with p=0", scaling(lambda x, keep, p: x * keep / (1 - p + 1e-6))),
        ("all numbers become 0", scaling(lambda x, keep, p: 0 * x)),
        ("has the shape (5, 1)", scaling(lambda x, keep, p: x[..., None] * keep[..., None])),
        ("returns nothing", scaling(lambda x, keep, p: print(end=""))),
        ("it returns a list", scaling(lambda x, keep, p: x.tolist())),
        ("for p=0.2 it makes a float", lambda p: 1 - p),
    ],
}  # fmt: skip


class Inner(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.inner = nn.Dropout(p)

    def forward(self, x):
        return self.inner(x)


class ByBernoulli(Layer):
    def scaled(self, x, keep):
        return torch.where(torch.bernoulli(torch.full_like(x, 1 - self.p)) == 1, x / (1 - self.p), 0.0)


class ByNumPy(Layer):
    def keep(self, x):
        return torch.from_numpy(np.random.default_rng(torch.randint(1000, ()).item()).random(x.shape) >= self.p)


class NumberByNumber(Layer):
    def keep(self, x):
        return torch.tensor([draw >= self.p for draw in torch.rand(x.numel()).tolist()]).view_as(x)


class OnACopy(Layer):
    def forward(self, x):
        y = x.clone()
        if self.training and self.p > 0:
            dropped = torch.empty(x.shape).uniform_() < self.p
            y[dropped] = 0
            y *= 1 / (1 - self.p)
        return y


RIGHT = {
    "5f": [
        Layer,
        Inner,
        ByBernoulli,
        ByNumPy,
        NumberByNumber,
        OnACopy,
        forwarding(lambda self, x: F.dropout(x, self.p, self.training)),
    ]
}
