"""Wrong answers of notebook 04, with words of what must be said, and right ones."""

import torch
import torch.nn.functional as F
from torch import nn


def attend(query, key, value, mask=None):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ value, weights


def attend_by_number(query, key, value, mask=None):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e20)
    return scores.softmax(-1) @ value, scores.softmax(-1)


def of_one_shape(query, key, value, mask=None):
    return attend(query, key, value, mask.view(len(query), -1))


def by_pytorch(query, key, value, mask=None):
    one = torch.eye(key.shape[-2]).expand(*key.shape[:-1], -1)
    return [F.scaled_dot_product_attention(query, key, x, mask).tolist() for x in (value, one)]


def with_future(function, x, future):
    futures = ((t, torch.cat([x[:t], future(x[t:])])) for t in range(1, len(x)))
    return all(torch.equal(function(changed)[:t], function(x)[:t]) for t, changed in futures)


def past(scores, diagonal=0):
    return torch.ones(scores.shape[-2:], dtype=torch.bool).tril(diagonal)


def causal(scores, diagonal=0, fill=-torch.inf, dim=-1):
    return scores.masked_fill(~past(scores, diagonal), fill).softmax(dim)


def mask_of_256(scores):
    T = scores.shape[-1]
    return scores.masked_fill(torch.ones(256, 256).triu(1).bool()[:T, :T], -torch.inf).softmax(-1)


class Layer(nn.Module):
    """Three matrices and a mask. Others change what becomes of the scores."""

    def __init__(self, C, D):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(C, D, bias=False) for _ in range(3))

    def forward(self, x):
        query, key = self.query(x), self.key(x)
        return self.weights(query @ key.mT / key.shape[-1] ** 0.5) @ self.value(x)

    def weights(self, scores):
        return causal(scores)


def weighing(weights):
    return type("Layer", (Layer,), {"weights": lambda self, scores: weights(scores)})


def doubled(layer):
    layer.weights = lambda scores: causal(scores.square())
    return layer


class WithoutDivision(Layer):
    def forward(self, x):
        return causal(self.query(x) @ self.key(x).mT) @ self.value(x)


class Bare(Layer):
    def __init__(self, C, D):
        nn.Module.__init__(self)
        self.matrices = nn.ParameterList(torch.randn(C, D) / C**0.5 for _ in range(3))
        self.query, self.key, self.value = (lambda x, i=i: x @ self.matrices[i] for i in range(3))


class Fused(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.qkv, self.out = nn.Linear(C, 3 * D, bias=False), nn.Linear(D, D)

    def forward(self, x):
        return self.out(F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1), is_causal=True))


WRONG = {
    "4h": [
        ("number 1: one layer reaches", (2, 7, 2)),
        ("number 2: what the place two before", (3, 9, 2)),
        ("number 3: before place 1", (3, 7, 7)),
    ],
    "4a": [
        ("`m` makes no difference", lambda q, k, v, m=None: attend(q, k, v)),
        ("None means that everything is allowed", lambda q, k, v, m=None: attend(q, k, v, ~~m)),
        ("not with more dimensions in front", of_one_shape),
        ("set to a number", lambda q, k, v, m=None: attend_by_number(q, k, v, m)),
    ],
    "4c": [
        ("for f = attends to everything", lambda f, x: True),
        ("for f = doubles x", lambda f, x: False),
        ("leaks what adds up to nothing", lambda f, x: with_future(f, x, lambda y: y + 10)),
        ("divides by a length over time", lambda f, x: with_future(f, x, torch.neg)),
        ("leaks signs, not sizes", lambda f, x: with_future(f, x, lambda y: 2 * y)),
        ("leaks its last channel", lambda f, x: with_future(
            f, x, lambda y: torch.cat([30 * torch.randn(y.shape)[:, :1], y[:, 1:]], 1))),
    ],
    "4e": [
        ("the future is not hidden", lambda scores: scores.softmax(-1)),
        ("set to a number", lambda scores: causal(scores, fill=-1e9)),
        ("where [[1, 0], [", lambda scores: causal(scores, diagonal=1)),
        ("a row of weights adds up to", lambda scores: causal(scores, dim=0)),
        ("divide each by its sum", lambda scores: causal(scores) / len(scores)),
    ],
    "4g": [
        ("the future is not hidden", weighing(lambda scores: scores.softmax(-1))),
        ("for large numbers: it looks into the future", weighing(lambda scores: causal(scores, fill=-1e4))),
        ("output 0 changes with input 1", weighing(lambda scores: causal(scores, diagonal=1))),
        ("does a row of the mask allow nothing", weighing(lambda scores: causal(scores, -1))),
        ("it should see that word, too", weighing(
            lambda scores: causal(scores.masked_fill(past(scores, -3), -torch.inf)))),
        ("do the weights add up to 1", weighing(lambda scores: scores * past(scores))),
        ("of shape (1, 1100, 6) it raises RuntimeError", weighing(mask_of_256)),
        ("is the mask long enough", weighing(
            lambda scores: causal(scores) if len(scores[0]) < 64 else scores.softmax(-1))),
        ("gives other numbers", lambda C, D: doubled(Bare(C, D))),
        ("attention knows no places", weighing(
            lambda scores: causal(scores + 0.2 * torch.arange(scores.shape[-1])))),
    ],
}  # fmt: skip
RIGHT = {
    "4h": [[3, 7, 2], torch.tensor([3, 7, 2])],
    "4a": [by_pytorch, lambda q, k, v, m=None: attend(q.double(), k.double(), v.double(), m)],
    "4c": [
        lambda f, x: all(torch.allclose(f(x[:t]), f(x)[:t], atol=1e-6) for t in range(1, len(x))),
        lambda f, x: int(with_future(f, x, lambda y: -3 * y.flip(0, 1) + torch.arange(y.shape[1]))),
    ],
    "4e": [
        lambda scores: causal(scores, fill=torch.finfo().min).requires_grad_().numpy(force=True),
    ],
    "4g": [WithoutDivision, Fused, Bare],
}  # fmt: skip
