"""Answers to the exercise 6g, heads: wrong ones, with words of the sentence that must refuse them, and right."""

import torch
import torch.nn.functional as F
from gpt_variants import Heads, ManyHeads
from nanogpt import NanoAttention
from torch import nn


def with_(**methods):
    return type("Heads", (Heads,), methods)


def masked(mask_of, fill=-torch.inf):
    def attend(self, query, key, value, start):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        return scores.masked_fill(~mask_of(torch.ones_like(scores, dtype=torch.bool)), fill).softmax(-1) @ value

    return with_(attend=attend)


def by_view(self, x):
    B, T, C = x.shape
    return x.reshape(B, self.num_heads, T, C // self.num_heads)


def exchanged(self, x):
    return x.unflatten(-1, (-1, self.num_heads)).transpose(1, 2)


def without(last):
    """The heads side by side, or on top of each other."""

    def __init__(self, C, num_heads):
        Heads.__init__(self, C, num_heads)
        self.W_out = last

    return with_(__init__=__init__)


def one_softmax(self, query, key, value, start):
    """The weights of all heads together add up to 1."""
    scores = (query @ key.mT).masked_fill(torch.ones(query.shape[2], query.shape[2]).triu(1).bool(), -torch.inf)
    together = scores.transpose(1, 2)  # (B, T, H, S)
    return together.flatten(2).softmax(-1).view_as(together).transpose(1, 2) @ value


class InAList(ManyHeads):
    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        parts = list(self.parts)
        del self.parts
        self.parts = parts


class AlwaysTwo(Heads):
    def __init__(self, C, num_heads):
        super().__init__(C, 2)


class OneAfterTheOther(Heads):
    """The same head for all: each has the queries and keys of the first."""

    def attend(self, query, key, value, start):
        return Heads.attend(self, query[:, :1], key[:, :1], value, start)


class FixedMask(Heads):
    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        self.register_buffer("mask", torch.ones(128, 128).tril().bool(), persistent=False)

    def attend(self, query, key, value, start):
        mask = self.mask[: query.shape[2], : query.shape[2]]
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def among_heads(self, query, key, value, start):
    """Forgets to put the heads first, so each word's heads look at each other."""
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))  # (B, T, H, D)
    H = query.shape[2]
    scores = (query @ key.mT).masked_fill(torch.ones(H, H).triu(1).bool(), -torch.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2)


class OneMatrix(Heads):
    """Its query is its key."""

    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        self.W_key = self.W_query


class OneQuery(Heads):
    """One query for all heads, with keys of their own."""

    def attend(self, query, key, value, start):
        return Heads.attend(self, query[:, :1].expand_as(key), key, value, start)


class WordsAsValues(Heads):
    """Its values are the words themselves, cut into heads."""

    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        self.W_value = nn.Identity()


class WholeWordsAsValues(Heads):
    """Every head mixes whole words, and the last matrix is as wide as all of them together."""

    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        del self.W_value
        self.W_out = nn.Linear(num_heads * C, C)

    def forward(self, x):
        value = x[:, None].expand(-1, self.num_heads, -1, -1)
        return self.W_out(self.join(self.attend(self.split(self.W_query(x)), self.split(self.W_key(x)), value, 0)))


def times(factor):
    """Heads whose scores, not yet divided by anything, are multiplied; factor(H, D)."""

    def scaled(self, query, key, value, start):
        H, D = query.shape[1], query.shape[-1]
        return Heads.attend(self, query * D**0.5 * factor(H, D), key, value, start)

    return with_(attend=scaled)


WRONG = {
    "6g": [
        ("all 3 heads ask with the same query", OneQuery),
        ("do the values have a matrix of their own", WordsAsValues),
        ("a head's values are D = C / num_heads numbers", WholeWordsAsValues),
        ("the wider a head, the larger its scores: divide them by the root of D", times(lambda H, D: 1)),
        ("the wider a head, the larger its scores: divide them by the root of D", times(lambda H, D: (H * D) ** -0.5)),
        ("the wider a head, the smaller its scores: divide them by the root of D", times(lambda H, D: 1 / D)),
        ("x itself is added to what attention gives", with_(forward=lambda self, x: x + Heads.forward(self, x))),
        ("do query and key share a matrix", OneMatrix),
        ("each word sees itself alone", with_(attend=among_heads)),
        ("all heads look at the same places: is num_heads used", with_(split=lambda self, x: x[:, None])),
        ("all heads look at the same places", OneAfterTheOther),
        ("ways: are H and D", with_(split=exchanged)),
        ("in 2 ways", AlwaysTwo),
        ("With one head it doesn't happen: are heads cut out", with_(split=by_view)),
        ("With one head it doesn't happen: are heads cut out", with_(split=by_view, join=lambda self, x: x.reshape(
            len(x), -1, x.shape[1] * x.shape[3]))),
        ("With one head it doesn't happen: are heads cut out", with_(join=lambda self, x: x.reshape(
            len(x), -1, x.shape[1] * x.shape[3]))),
        ("is the last matrix missing", without(nn.Identity())),
        ("has the shape (2, 5, 6) and should have (2, 5, 12)", with_(
            forward=lambda self, x: Heads.forward(self, x)[..., :6])),
        ("it looks into the future", masked(lambda ones: ones)),
        ("is the mask on the wrong side", masked(lambda ones: ones.triu())),
        ("does a row of the mask allow nothing", masked(lambda ones: ones.tril(-1))),
        ("are its scores -inf?", masked(lambda ones: ones.tril(), -1e4)),
        ("one softmax for each", with_(attend=one_softmax)),
        ("it looks into the future", with_(attend=lambda self, q, k, v, start: (q @ k.mT).softmax(-1).tril() @ v)),
        ("equal words give something else", with_(attend=lambda self, q, k, v, start: (q @ k.mT).tril() @ v)),
        ("the list self.parts is not registered", InAList),
        ("Is the mask as long as each text", FixedMask),
        ("W_key.weight gets no gradient", with_(
            attend=lambda self, q, k, v, start: Heads.attend(self, q, q, v, start))),
        ("in another order", with_(
            forward=lambda self, x: Heads.forward(self, x + torch.arange(x.shape[1])[:, None] / 10))),
        ("it returns a tuple", with_(forward=lambda self, x: (Heads.forward(self, x), None))),
        ("for C=12, num_heads=1 it raises ZeroDivisionError", lambda C, num_heads: 1 / 0),
    ],
}  # fmt: skip


# ---------------------------------------------------------------- right
class Nano(NanoAttention):
    def __init__(self, C, num_heads):
        super().__init__(C, num_heads, dropout=0.0)


class ByPyTorch(nn.Module):
    def __init__(self, C, num_heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(C, num_heads, batch_first=True)

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.inner(x, x, x, attn_mask=mask, need_weights=False)[0]


class ByEinsum(nn.Module):
    """Each head writes to the output by its own matrix, and the heads are added up."""

    def __init__(self, C, num_heads):
        super().__init__()
        D = C // num_heads
        self.W = nn.Parameter(torch.randn(3, num_heads, D, C) / C**0.5)
        self.out = nn.Parameter(torch.randn(num_heads, C, D) / C**0.5)

    def forward(self, x):
        query, key, value = torch.einsum("btc,nhdc->nbhtd", x, self.W)
        scores = torch.einsum("bhtd,bhsd->bhts", query, key) / query.shape[-1] ** 0.5
        past = torch.ones(x.shape[1], x.shape[1]).tril()
        return torch.einsum("bhts,bhsd,hcd->btc", scores.masked_fill(past == 0, -1e9).softmax(-1), value, self.out)


class InTurn(Heads):
    """The heads take their numbers in turn."""

    def split(self, x):
        return x.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)

    def join(self, x):
        return x.permute(0, 2, 3, 1).flatten(2)


class SharedKeys(Heads):
    """All heads ask the same keys."""

    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        self.W_key = nn.Linear(C, C // num_heads)

    def forward(self, x):
        query, key, value = self.split(self.W_query(x)), self.W_key(x)[:, None], self.split(self.W_value(x))
        return self.W_out(self.join(self.attend(query, key, value, 0)))


class OneKeyAndValue(SharedKeys):
    """Today's heads, which share keys and values, with queries and keys of one size."""

    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        self.W_value = nn.Linear(C, C // num_heads)

    def forward(self, x):
        query, key, value = self.split(self.W_query(x)), self.W_key(x)[:, None], self.W_value(x)[:, None]
        query, key = (F.rms_norm(y, y.shape[-1:]) for y in (query, key))
        return self.W_out(self.join(self.attend(query, key, value, 0)))


class Biased(Heads):
    def __init__(self, C, num_heads):
        super().__init__(C, num_heads)
        self.W_query, self.W_key, self.W_value, self.W_out = (nn.Linear(C, C) for _ in range(4))


RIGHT = {"6g": [Heads, ManyHeads, Nano, ByPyTorch, ByEinsum, InTurn, SharedKeys, OneKeyAndValue, Biased]}
