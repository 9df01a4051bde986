"""Answers to the exercise 3g, a layer: wrong ones, with words of the sentence that must refuse them, and right."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """Three matrices. Others change what becomes of query, key and value, or of the matrices."""

    def __init__(self, C, D):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(C, D, bias=False) for _ in range(3))

    def forward(self, x):
        return self.attend(self.W_query(x), self.W_key(x), self.W_value(x))

    def attend(self, query, key, value):
        scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
        return self.weights(scores) @ value

    def weights(self, scores):
        return scores.softmax(-1)


def attending(attend):
    return type("Layer", (Layer,), {"attend": lambda self, *parts: attend(*parts)})


def weighing(weights):
    return type("Layer", (Layer,), {"weights": lambda self, scores: weights(scores)})


def forwarding(forward):
    return type("Layer", (Layer,), {"forward": forward})


class InAList(Layer):
    def __init__(self, C, D):
        nn.Module.__init__(self)
        self.parts = [nn.Linear(C, D) for _ in range(3)]

    def forward(self, x):
        return self.attend(*(part(x) for part in self.parts))


class OfTensors(Layer):
    learned = False

    def __init__(self, C, D):
        nn.Module.__init__(self)
        self.W = torch.randn(3, C, D).requires_grad_(self.learned)

    def forward(self, x):
        return self.attend(*(x @ W for W in self.W))


class OfLearnedTensors(OfTensors):
    learned = True


class DrawnEachTime(Layer):
    def forward(self, x):
        return super().forward(x) + 0.1 * torch.randn(())


class KeyDrawnEachTime(Layer):
    def forward(self, x):
        key = nn.Linear(x.shape[-1], self.W_key.out_features)
        return self.attend(self.W_query(x), key(x), self.W_value(x))


def sharing(one, other):
    """Two matrices for three."""

    def __init__(self, C, D):
        Layer.__init__(self, C, D)
        setattr(self, one, getattr(self, other))

    return type("Layer", (Layer,), {"__init__": __init__})


class WithPlaces(Layer):
    def forward(self, x):
        return super().forward(x + torch.arange(x.shape[1])[:, None] / 10)


class OfOneLength(Layer):
    def __init__(self, C, D):
        super().__init__(C, D)
        self.register_buffer("bias", torch.zeros(64, 64))

    def attend(self, query, key, value):
        scores = query @ key.mT / key.shape[-1] ** 0.5 + self.bias[: key.shape[1], : key.shape[1]]
        return scores.softmax(-1) @ value


def in_place(self, x):
    x *= 2
    return Layer.forward(self, x)


def forgot(self, x):
    Layer.forward(self, x)


WRONG = {
    "3g": [
        ("doesn't lie between the values", weighing(lambda scores: scores.softmax(-2))),
        ("when other texts stand in its batch", weighing(lambda scores: scores.softmax(0))),
        ("2 equal words give something else", weighing(lambda scores: scores)),
        ("2 equal words give something else", weighing(torch.exp)),
        ("2 equal words give something else", weighing(torch.sigmoid)),
        ("when other texts stand in its batch", weighing(lambda s: s.flatten().softmax(0).view_as(s) * s.shape[1])),
        ("output 0 doesn't change with input 1: without a mask", weighing(
            lambda scores: scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-1))),
        ("each looks at the other alone", weighing(
            lambda scores: (scores - 1e9 * torch.eye(scores.shape[-1])).softmax(-1))),
        ("has the shape (2, 7) and should have (2, 4, 7)", attending(
            lambda q, k, v: ((q @ k.mT).softmax(-1) @ v).mean(1))),
        ("has the shape (2, 7, 4)", attending(lambda q, k, v: ((q @ k.mT).softmax(-1) @ v).mT)),
        ("it returns a tuple: a tensor alone", attending(lambda q, k, v: (v, (q @ k.mT).softmax(-1)))),
        ("the list self.parts is not registered: use nn.ModuleList", InAList),
        ("it has no parameters", OfTensors),
        ("self.W is not registered", OfLearnedTensors),
        ("two calls with the same input", DrawnEachTime),
        ("is something drawn anew at each", KeyDrawnEachTime),
        ("do query and key share a matrix", sharing("W_key", "W_query")),
        ("its key doesn't either", sharing("W_key", "W_value")),
        ("W_key.weight gets no gradient", forwarding(
            lambda self, x: self.attend(self.W_query(x), self.W_query(x), self.W_value(x)))),
        ("W_query.weight gets no gradient", weighing(lambda scores: scores.detach().softmax(-1))),
        ("no gradient reaches its parameters", forwarding(torch.no_grad()(Layer.forward))),
        ("in another order", WithPlaces),
        ("for x of shape (1, 300, 6) it raises RuntimeError", OfOneLength),
        ("it changes its input", forwarding(in_place)),
        ("it returns nothing: is a `return` missing", forwarding(forgot)),
        ("for C=3, D=7 it raises TypeError", nn.Identity().forward),
        ("for C=3, D=7 it makes a float", lambda C, D: C / D),
    ],
}  # fmt: skip


# ---------------------------------------------------------------- right
class ByPyTorch(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.inner, self.last = nn.MultiheadAttention(C, 1, batch_first=True), nn.Linear(C, D)

    def forward(self, x):
        return self.last(self.inner(x, x, x)[0])


class Fused(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.c_attn = nn.Linear(C, 3 * D)

    def forward(self, x):
        return F.scaled_dot_product_attention(*self.c_attn(x).chunk(3, -1))


class ByEinsum(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.W = nn.ParameterList(torch.randn(D, C) / C**0.5 for _ in range(3))

    def forward(self, x):
        query, key, value = (torch.einsum("btc,dc->btd", x, W) for W in self.W)
        powers = torch.einsum("btd,bsd->bts", query, key).exp()
        return torch.einsum("bts,bsd->btd", powers / powers.sum(-1, keepdim=True), value)


class WordByWord(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.Linear(C, D) for name in ("query", "key", "value")})
        self.parts["narrow"] = nn.Linear(D, D)  # a last matrix

    def forward(self, x):
        texts = []
        for text in x:
            query, key, value = (self.parts[name](text) for name in ("query", "key", "value"))
            texts.append(torch.stack([(key @ one).softmax(0) @ value for one in query]))
        return self.parts["narrow"](torch.stack(texts))


class SoftmaxByHand(Layer):
    def weights(self, scores):
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        return powers / powers.sum(-1, keepdim=True)


RIGHT = {"3g": [Layer, SoftmaxByHand, ByPyTorch, Fused, ByEinsum, WordByWord]}
