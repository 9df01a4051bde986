"""Answers to the exercise 4g, a causal layer: wrong ones, with words of the sentence that refuses them, and right."""

import torch
import torch.nn.functional as F
from torch import nn


def past(scores, diagonal=0):
    return torch.ones(scores.shape[-2:], dtype=torch.bool).tril(diagonal)


class Layer(nn.Module):
    """Three matrices and a mask. Others change what becomes of the scores."""

    def __init__(self, C, D):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(C, D, bias=False) for _ in range(3))

    def forward(self, x):
        query, key = self.query(x), self.key(x)
        return self.weights(query @ key.mT / key.shape[-1] ** 0.5) @ self.value(x)

    def weights(self, scores):
        return scores.masked_fill(~past(scores), -torch.inf).softmax(-1)


def weighing(weights):
    return type("Layer", (Layer,), {"weights": lambda self, scores: weights(scores)})


def masked(mask_of, fill=-torch.inf):
    return weighing(lambda scores: scores.masked_fill(~mask_of(scores), fill).softmax(-1))


def then(change):
    return type("Layer", (Layer,), {"forward": lambda self, x: change(Layer.forward(self, x))})


class MaskOfOneLength(Layer):
    def __init__(self, C, D):
        super().__init__(C, D)
        self.register_buffer("mask", torch.ones(256, 256).tril().bool())

    def weights(self, scores):
        T = scores.shape[-1]
        return scores.masked_fill(~self.mask[:T, :T], -torch.inf).softmax(-1)


class ShortMask(Layer):
    """Behind its 64th word all is seen."""

    def weights(self, scores):
        mask = torch.ones_like(scores[0], dtype=torch.bool)
        mask[:64, :64] = mask[:64, :64].tril()
        return scores.masked_fill(~mask, -torch.inf).softmax(-1)


class InAList(Layer):
    def __init__(self, C, D):
        nn.Module.__init__(self)
        self.query, self.key = nn.Linear(C, D), nn.Linear(C, D)
        self.values = [nn.Linear(C, D)]

    def value(self, x):
        return self.values[0](x)


class WithPlaces(Layer):
    def forward(self, x):
        return super().forward(x + torch.arange(x.shape[1])[:, None] / 10)


class Forgetful(Layer):
    """Scores fall with the distance."""

    def weights(self, scores):
        T = scores.shape[-1]
        return super().weights(scores - 0.2 * (torch.arange(T)[:, None] - torch.arange(T)))


class FromTheEnd(Layer):
    def forward(self, x):
        return super().forward(x / x.shape[1])


def itself_at_first(scores):
    """Only the first word sees itself."""
    mask = past(scores, -1)
    mask[0, 0] = True
    return mask


def exponentials(scores):
    powers = scores.masked_fill(~past(scores), -torch.inf).exp()
    return powers / powers.sum(-1, keepdim=True)


def renormed(scores):
    weights = scores.softmax(-1) * past(scores)
    return weights / weights.sum(-1, keepdim=True)


WRONG = {
    "4g": [
        ("output 0 changes with input 1: it looks into the future", weighing(lambda scores: scores.softmax(-1))),
        ("not at the past: is the mask on the wrong side?", masked(lambda scores: past(scores).mT)),
        ("output 0 changes with input 1", masked(lambda scores: past(scores, 1))),
        ("output 0 changes with input 1", masked(lambda scores: past(scores), 0.0)),
        ("output 0 changes with input 1", masked(lambda scores: past(scores), -5.0)),
        ("in the thousands: are its scores -inf?", masked(lambda scores: past(scores), -1e4)),
        ("in the thousands: are its scores -inf?", weighing(
            lambda scores: (scores - 200 * ~past(scores)).softmax(-1))),
        ("does a row of the mask allow nothing", masked(lambda scores: past(scores, -1))),
        ("output 0 changes with input 1", masked(lambda scores: past(scores, -1), -1e9)),
        ("output 1 doesn't change with input 1: a word must see itself", masked(itself_at_first)),
        ("output 3 doesn't change with input 0: it must see all", masked(
            lambda scores: past(scores) & past(scores, -3).logical_not())),
        ("output 0 changes with input 1", weighing(lambda scores: scores.softmax(-1) * past(scores))),
        ("2 equal words give something else", weighing(lambda scores: Layer.weights(None, scores) ** 2)),
        ("output 0 changes with input 1", weighing(lambda scores: scores.softmax(-1) * past(scores) + 1e-6)),
        ("2 equal words give something else", weighing(
            lambda scores: (scores * past(scores)))),
        ("output 0 changes with input 1", weighing(
            lambda scores: scores.masked_fill(~past(scores), -torch.inf).softmax(-2).nan_to_num())),
        ("or is a score too large for exp", weighing(exponentials)),
        ("output 1 changes with input 2", weighing(renormed)),
        ("Is the mask as long as each text?", MaskOfOneLength),
        ("in a text of 300 words an output changes with the last", ShortMask),
        ("the list self.values is not registered", InAList),
        ("changes with the order of the words before", Forgetful),
        ("in another order", WithPlaces),
        ("the first 1 inputs alone give something else", FromTheEnd),
        ("output 0 changes with input 1", then(lambda y: y - y.mean(1, keepdim=True))),
        ("output 0 changes with input 1", then(lambda y: y / y.norm(dim=1, keepdim=True))),
        ("texts stand in its batch", then(lambda y: y - y.mean(0, keepdim=True))),
    ],
}  # fmt: skip


# ---------------------------------------------------------------- right
class Fused(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.qkv, self.out = nn.Linear(C, 3 * D, bias=False), nn.Linear(D, D)

    def forward(self, x):
        return self.out(F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1), is_causal=True))


class ByPyTorch(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.inner, self.last = nn.MultiheadAttention(C, 1, batch_first=True), nn.Linear(C, D)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.last(self.inner(x, x, x, attn_mask=mask, need_weights=False, is_causal=True)[0])


class ByEinsum(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.W = nn.Parameter(torch.randn(3, C, D) / C)

    def forward(self, x):
        query, key, value = torch.einsum("btc,ncd->nbtd", x, self.W)
        scores = torch.einsum("btd,bsd->bts", query, key)
        future = torch.arange(x.shape[1]) > torch.arange(x.shape[1])[:, None]
        return torch.einsum("bts,bsd->btd", torch.where(future, -1e9, scores).softmax(-1), value)


class RowByRow(Layer):
    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        rows = [(query[:, t : t + 1] @ key[:, : t + 1].mT).softmax(-1) @ value[:, : t + 1] for t in range(x.shape[1])]
        return torch.cat(rows, 1)


class Summed(Layer):
    """The mask is added."""

    def weights(self, scores):
        T = scores.shape[-1]
        scores = scores + torch.full((T, T), float("-inf")).triu(1)
        powers = torch.exp(scores - scores.max(-1, keepdim=True).values)
        return powers / powers.sum(-1, keepdim=True)


class AsManyHeads(nn.Module):
    """More heads than were asked for do no harm."""

    def __init__(self, C, D):
        super().__init__()
        self.heads, self.mix = nn.ModuleList(Layer(C, D) for _ in range(2)), nn.Linear(2 * D, D)

    def forward(self, x):
        return self.mix(torch.cat([head(x) for head in self.heads], -1))


RIGHT = {"4g": [Layer, Fused, ByPyTorch, ByEinsum, RowByRow, Summed, AsManyHeads]}
