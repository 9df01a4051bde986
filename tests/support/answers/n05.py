"""Wrong answers of notebook 05, with words of what must be said, and right ones."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def causal(scores, fill=-torch.inf):
    future = torch.arange(scores.shape[-1]) > torch.arange(scores.shape[-2])[:, None]
    return F.softmax(torch.where(future, fill, scores), dim=-1)


def dropped(weights, keep, p):
    return torch.where(keep, weights, 0.0) / (1 - p)


def attend(q, k, v, keep, p, fill=-torch.inf, divisor=None):
    return dropped(causal(q @ k.mT / (divisor or q.shape[2] ** 0.5), fill), keep, p) @ v


def repaired(scores, keep, p, training):
    return dropped(causal(scores), keep, p) if training else causal(scores)


def by_numpy(scores, keep, p, training):
    weights = np.tril(np.exp(scores.numpy() - scores.numpy().max(1, keepdims=True)))
    weights /= weights.sum(1, keepdims=True)
    return np.where(keep, weights / (1 - p), 0) if training else weights


class Layer(nn.Module):
    """Draws for x by `keep(x)`, and scales by `scaled(x, keep)`."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return self.scaled(x, self.keep(x)) if self.training else x

    def keep(self, x):
        return torch.rand_like(x) >= self.p

    def scaled(self, x, keep):
        return x * keep / (1 - self.p)


class DrawsAlways(Layer):
    def forward(self, x):
        keep = self.keep(x)
        return self.scaled(x, keep) if self.training else x


def keeping(keep):
    return type("Layer", (Layer,), {"keep": lambda self, x: keep(x, self.p)})


def scaling(scaled):
    return type("Layer", (Layer,), {"scaled": lambda self, x, keep: scaled(x, keep, self.p)})


def forwarding(forward):
    return type("Layer", (Layer,), {"forward": forward})


WRONG = {
    "5b": [
        ("for T = 1, p = 0.2 it gives 0.8", lambda T, p: sum(1 - p**t for t in range(1, T + 1))),
        ("for T = 1, p = 0.2 it gives 0.25", lambda T, p: p / (1 - p)),
        ("all of it is 0", lambda T, p: 0),
    ],
    "5c": [
        ("set to a number", lambda q, k, v, keep, p: attend(q, k, v, keep, p, fill=-1e9)),
        ("not divided by √D", lambda q, k, v, keep, p: attend(q, k, v, keep, p, divisor=1)),
        ("exchanged in `keep`", lambda q, k, v, keep, p: attend(q, k, v, ~keep, p)),
        ("nothing is dropped", lambda q, k, v, keep, p: attend(q, k, v, keep | True, 0)),
        ("p = 0 it gives [[[4]]]", lambda q, k, v, keep, p: attend(q, k, v, keep, 0.5)),
    ],
    "5d": [("half of what is right", 1.75), ("3 is not right", 3), ("is not right", [3.5, "more"])],
    "5e": [
        ("not divided by 1 - p", lambda s, keep, p, train: repaired(s, keep, 0, train)),
        ("exchanged in `train`", lambda s, keep, p, train: repaired(s, keep, p, not train)),
        ("exchanged in `keep`", lambda s, keep, p, train: repaired(s, ~keep, p, train)),
        ("softmax too many", lambda s, keep, p, train: repaired(s, keep, p, train).softmax(1)),
        ("changes its input `s`", lambda s, keep, p, train: s.masked_fill_(~keep, 0)),
    ],
    "5f": [
        ("in evaluation x should", forwarding(lambda self, x: self.scaled(x, self.keep(x)))),
        ("random numbers, too", DrawsAlways),
        ("no numbers become 0", scaling(lambda x, keep, p: x + 0.1 * torch.randn_like(x))),
        ("that is what should be kept", keeping(lambda x, p: torch.rand_like(x) < p)),
        ("a share of 0.50", keeping(lambda x, p: torch.rand_like(x) >= 0.5)),
        ("two calls drop the same", keeping(lambda x, p: x >= x.quantile(p))),
        ("all texts of a batch", keeping(lambda x, p: torch.rand(x.shape[1:]) >= p)),
        ("all numbers of a word", keeping(lambda x, p: torch.rand_like(x)[..., :1] >= p)),
        ("two by two", keeping(
            lambda x, p: (torch.rand_like(x) >= p)[..., torch.arange(x.shape[-1]) // 2])),
        ("of every call the same count", keeping(lambda x, p: (
            torch.randperm(x.numel()).view(x.shape) >= p * x.numel()))),
        ("of every word the same count", keeping(lambda x, p: (
            torch.rand_like(x).argsort(-1) >= p * x.shape[-1]))),
        ("multiplied by 5", scaling(lambda x, keep, p: x * keep / p)),
        ("nothing in between", scaling(lambda x, keep, p: x * keep * torch.rand_like(x))),
        ("with p=0 nothing is dropped", scaling(lambda x, keep, p: x * keep / (1 - p + 1e-6))),
        ("no gradient comes back", scaling(lambda x, keep, p: x.detach() * keep / (1 - p))),
        ("the gradient should pass", scaling(
            lambda x, keep, p: (x * keep / (1 - p)).detach() + x - x.detach())),
        ("changes its input", scaling(lambda x, keep, p: x.mul_(keep) / (1 - p))),
        ("x may have any", forwarding(lambda self, x: Layer.forward(self, torch.atleast_2d(x)))),
        ("of shape (5,) it raises", keeping(lambda x, p: torch.rand_like(x[:, :]) >= p)),
    ],
}  # fmt: skip
RIGHT = {
    "5b": [
        lambda T, p: p * (1 - p**T) / (1 - p),
        lambda T, p: torch.full((T,), p, dtype=torch.float64).cumprod(0).sum(),
        lambda T, p: [np.sum(p ** np.arange(1, T + 1))],
    ],
    "5c": [lambda q, k, v, keep, p: attend(q, k, v, keep, p, torch.finfo().min).numpy()],
    "5d": [7 / 2, [3.5], torch.tensor([4.0, 10.0, 0.0, 0.0]).mean()],
    "5e": [
        by_numpy,
        lambda s, keep, p, train: dropped(causal(s), keep | (not train), p * train).tolist(),
    ],
    "5f": [nn.Dropout, forwarding(lambda self, x: F.dropout(x, self.p, self.training))],
}  # fmt: skip
