"""The table of wrong implementations, each with words of the sentence that names it, and of right ones that pass."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers import checks
from helpers.attention import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    attention,
    causal_mask,
)
from helpers.errors import CheckError


def formula(divide=lambda s, q, k, v: s / k.shape[-1] ** 0.5, hide=None, softmax=lambda s: s.softmax(-1), late=None):
    """The formula by einsum, independent of helpers, with places for faults."""

    def candidate(query, key, value, mask=None):
        scores = divide(torch.einsum("...td,...sd->...ts", query, key), query, key, value)
        if mask is not None:
            scores = (hide or (lambda s, m: torch.where(m, s, -torch.inf)))(scores, mask)
        weights = softmax(scores)
        if late and mask is not None:
            weights = late(weights, mask)
        return torch.einsum("...ts,...sd->...td", weights, value), weights

    return candidate


def divided(by):
    return formula(divide=lambda s, q, k, v: s / by(q, k, v))


def seen(mask_of):
    return formula(hide=lambda s, m: s.masked_fill(~mask_of(m), -torch.inf))


def ones(m):
    return torch.ones_like(m)


def with_key(turned):
    def candidate(query, key, value, mask=None):
        scores = query @ turned(key) / key.shape[-1] ** 0.5
        weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
        return weights @ value, weights

    return candidate


def in_place(name):
    def candidate(query, key, value, mask=None):
        result = attention(query, key, value, mask)
        for x in (query, key, value, mask):
            if x is not None and x is locals()[name]:
                x.logical_not_() if x.dtype == torch.bool else x.mul_(2)
        return result

    return candidate


def own_softmax(s):
    s = s.exp()
    return s / (s.sum(-1, keepdim=True) + 1e-12)


WRONG_FORMULAS = {
    # by what the scores are divided
    "/ 1": ("not divided by the square root of the head width", divided(lambda *_: 1)),
    "/ 2": ("divided by a constant, 2, not", divided(lambda *_: 2)),
    "/ 8": ("divided by a constant, 8, not", divided(lambda *_: 8)),
    "/ sqrt(64)": ("divided by a constant, 8, not", divided(lambda *_: math.sqrt(64))),
    "* 3": ("divided by a constant, 0.3333, not", divided(lambda *_: 1 / 3)),
    "/ D": ("divided by the head width, not by its square root", divided(lambda q, k, v: k.shape[-1])),
    "/ (D / 2)": ("divided by half the head width", divided(lambda q, k, v: k.shape[-1] / 2)),
    "/ log2(D)": ("divided by log2 of the head width", divided(lambda q, k, v: math.log2(k.shape[-1]))),
    "/ log(D)": ("divided by the logarithm of the head width", divided(lambda q, k, v: math.log(k.shape[-1]))),
    "/ D ** 2": ("divided by the square of the head width", divided(lambda q, k, v: k.shape[-1] ** 2)),
    "/ sqrt(D / 2)": ("square root of half the head width", divided(lambda q, k, v: (k.shape[-1] / 2) ** 0.5)),
    "* sqrt(D)": ("multiplied by the square root", divided(lambda q, k, v: k.shape[-1] ** -0.5)),
    "/ sqrt(S)": ("square root of the number of keys", divided(lambda q, k, v: k.shape[-2] ** 0.5)),
    "/ S": ("divided by the number of keys", divided(lambda q, k, v: k.shape[-2])),
    "/ sqrt(T)": ("square root of the number of queries", divided(lambda q, k, v: q.shape[-2] ** 0.5)),
    "/ (D // 2 + 1)": ("but by 1 at width 1, 2 at width 3", divided(lambda q, k, v: k.shape[-1] // 2 + 1)),
    "/ -sqrt(D)": ("wrong sign", divided(lambda q, k, v: -(k.shape[-1] ** 0.5))),
    "* 0": ("do not depend on the scores", divided(lambda *_: math.inf)),
    "* 2 at width 16 only": (
        "but by 1 at width 1, 1.732 at width 3",
        divided(lambda q, k, v: k.shape[-1] ** 0.5 / (1 + (k.shape[-1] == 16))),
    ),
    # over which axis the softmax runs
    "dim=-2": ("over the queries, not over the keys", formula(softmax=lambda s: s.softmax(-2))),
    "dim=0": ("runs over the batch", formula(softmax=lambda s: s.softmax(0))),
    "dim=1": ("runs over dim=1", formula(softmax=lambda s: s.softmax(1))),
    "dim=2": ("runs over dim=2, which with heads", formula(softmax=lambda s: s.softmax(2))),
    "dim=-3": ("runs over dim=-3", formula(softmax=lambda s: s.softmax(-3))),
    "no dim": ("as it does when no dim is given", formula(softmax=lambda s: s.softmax(0 if s.dim() == 3 else 1))),
    # which way the key is turned
    "key.T": ("on one text, (T, D), it is right: exchange the last two axes", with_key(lambda k: k.T)),
    "transpose(0, 1)": ("on one text, (T, D), it is right", with_key(lambda k: k.transpose(0, 1))),
    "transpose(1, 2)": ("without heads, (B, T, D), it is right: count the axes", with_key(lambda k: k.transpose(1, 2))),
    "query and key exchanged": ("query and key are exchanged", lambda q, k, v, m=None: attention(k, q, v, m)),
    # the mask
    "inverted": ("the mask is inverted", seen(torch.logical_not)),
    "inverted, a finite fill": ("the mask is inverted", formula(hide=lambda s, m: s.masked_fill(m, -1e9))),
    "forgotten": ("the mask is not applied", seen(ones)),
    "tril(-1)": ("a word must see itself, tril() and not tril(-1)", seen(lambda m: m.tril(-1))),
    "tril(-1), its own": ("tril() and not tril(-1)", seen(lambda m: ones(m).tril(-1))),
    "but itself": ("tril() and not tril(-1)", seen(lambda m: m & ~torch.eye(*m.shape, dtype=torch.bool))),
    "tril(1)": ("must not see the next one, tril() and not tril(1)", seen(lambda m: ones(m).tril(1))),
    "tril(2)": ("tril() and not tril(2)", seen(lambda m: ones(m).tril(2))),
    "rolled": ("tril() and not tril(1)", seen(lambda m: m | m.roll(1, -1))),
    "transposed": ("the mask is transposed", seen(lambda m: m.mT)),
    "flipped": ("keys get", seen(lambda m: m.flip(-1))),
    "window of 2": ("sees only the last 2 words", seen(lambda m: m & ones(m).triu(-1))),
    "window of 4": ("sees only the last 4 words", seen(lambda m: m & ones(m).triu(-3))),
    "window of 1": ("shows every word only itself", seen(lambda m: m & torch.eye(*m.shape, dtype=torch.bool))),
    "causal whatever is asked": ("whatever mask it is given", seen(lambda m: ones(m).tril())),
    "by row, all": ("by row instead of column", seen(lambda m: m.all(-1, keepdim=True).expand_as(m))),
    "by row, the last column": ("by row instead of column", seen(lambda m: m[:, -1:].expand_as(m))),
    "by row, finite": ("by row instead of column", formula(
        hide=lambda s, m: s.masked_fill(~m.all(-1, keepdim=True), -1e9))),
    "the last place leaks": ("forbidden keys get weight", seen(lambda m: m | (ones(m).triu(m.shape[-1] - 1)))),
    "filled with 0": ("set to 0", formula(hide=lambda s, m: s.masked_fill(~m, 0))),
    "times the mask": ("set to 0", formula(hide=lambda s, m: s * m)),
    "weights times the mask": ("comes after the softmax: the rows no longer", formula(
        hide=lambda s, m: s, late=lambda w, m: w * m)),
    "weights times the mask, divided": ("comes after the softmax: where a forbidden score", formula(
        hide=lambda s, m: s, late=lambda w, m: w * m / (w * m).sum(-1, keepdim=True))),
    "added -5": ("a finite number is added", formula(hide=lambda s, m: s - 5.0 * ~m)),
    "added -1e4": ("a finite number is added", formula(hide=lambda s, m: s + -1e4 * ~m)),
    "added -1e9": ("a finite number is added", formula(hide=lambda s, m: s + -1e9 * ~m)),
    "added +1": ("a finite number is added", formula(hide=lambda s, m: s + ~m)),
} | {
    f"filled with {value:g}": ("set to a finite number", formula(hide=lambda s, m, to=value: s.masked_fill(~m, to)))
    for value in (-1.0, -7.5, -20.0, -100.0, -1e4, -65504.0, -1e9, -1e20, torch.finfo(torch.float32).min,
                  torch.finfo(torch.float64).min, 1e-3 - 1, 5.0)
} | {
    # the rest
    f"changes its {name}": (f"it changes its input, the {name}, in place", in_place(name))
    for name in ("query", "key", "value", "mask")
} | {
    "scale in place": ("it changes its input, the query, in place", lambda q, k, v, m=None: attention(
        q.mul_(2).div_(4), k * 2, v, m)),
    "large scores": ("large scores give NaN", formula(softmax=lambda s: s.exp() / s.exp().sum(-1, keepdim=True))),
    "large scores, with an epsilon": ("allowed scores lose their weight", formula(softmax=own_softmax)),
    "the largest of all": ("large scores give NaN", formula(
        softmax=lambda s: (s - s.max()).exp() / (s - s.max()).exp().sum(-1, keepdim=True))),
    "clamped": ("for scores of about -1e+06 the result differs", formula(
        divide=lambda s, q, k, v: (s / k.shape[-1] ** 0.5).clamp(-50, 50))),
    "clamped when masked": ("set to a finite number", formula(softmax=lambda s: s.clamp(-50, 50).softmax(-1))),
    "context": ("the weights are right, but the context differs", lambda q, k, v, m=None: (
        attention(q, k, 2 * v, m)[0], attention(q, k, v, m)[1])),
    "unnormalised": ("differs from the formula", lambda q, k, v, m=None: (
        attention(q, k, v, m)[0], 0.9 * attention(q, k, v, m)[1])),
    "bfloat16": ("differs from the formula", lambda q, k, v, m=None: attention(
        q.bfloat16(), k.bfloat16(), v.bfloat16(), m)),
    "only square": ("for 3 queries and 5 keys with a mask", lambda q, k, v, m=None: attention(
        q.view(k.shape), k, v, m)),
    "no mask allowed": ("for 5 queries and 5 keys with a mask", lambda q, k, v, m: (
        attention(q, k, v) if m is None else 1 / 0)),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG_FORMULAS)
@pytest.mark.filterwarnings("ignore:The use of `x.T`")
def test_every_wrong_formula_is_named(fault):
    words, candidate = WRONG_FORMULAS[fault]
    with pytest.raises(CheckError) as error:
        checks.attention_formula(candidate)
    assert words in str(error.value)


# ---------------------------------------------------------------- right formulas
def filled(s, m):
    return s if m is None else s.masked_fill(~m, -torch.inf)


def fused(q, k, v, m=None):
    weights = F.scaled_dot_product_attention(q, k, torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:-1], -1), m)
    return F.scaled_dot_product_attention(q, k, v, m), weights


def loops(q, k, v, m=None):
    *batch, T, D = q.shape
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    weights = torch.zeros(len(q), T, k.shape[1], dtype=q.dtype)
    for b in range(len(q)):
        for t in range(T):
            allowed = [s for s in range(k.shape[1]) if m is None or m[t, s]]
            scores = torch.tensor([sum(q[b, t, i] * k[b, s, i] for i in range(D)) for s in allowed], dtype=q.dtype)
            weights[b, t, allowed] = (scores / math.sqrt(D)).softmax(0)
    return (weights @ v).view(*batch, T, -1), weights.view(*batch, T, -1)


def baddbmm(q, k, v, m=None):
    *batch, T, D = q.shape
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    bias = torch.zeros(T, k.shape[1], dtype=q.dtype) if m is None else torch.where(m, 0.0, -torch.inf).to(q)
    weights = torch.baddbmm(bias, q, k.mT, alpha=D**-0.5).softmax(-1)
    return torch.bmm(weights, v).view(*batch, T, -1), weights.view(*batch, T, -1)


def by_hand(q, k, v, m=None):
    scores = filled(q @ k.transpose(-2, -1) / math.sqrt(k.size(-1)), m)
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    weights = e / e.sum(-1, keepdim=True)
    return weights @ v, weights


def log_space(q, k, v, m=None):
    scores = filled(q @ k.mT * k.shape[-1] ** -0.5, m)
    weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
    return weights @ v, weights


def single_precision(q, k, v, m=None):
    return attention(q.float(), k.float(), v.float(), m)


def single_and_back(q, k, v, m=None):
    return tuple(x.double() for x in attention(q.float(), k.float(), v.float(), m))


def single_scores(q, k, v, m=None):
    weights = filled((q.float() @ k.float().mT / k.shape[-1] ** 0.5).double(), m).softmax(-1)
    return weights @ v, weights


def views(q, k, v, m=None):
    context, weights = attention(q, k, v, m)
    return context.mT.contiguous().mT, torch.stack([weights, weights], -1)[..., 0]


class Buffer:
    """Writes every result over the last one of the same shape."""

    def __init__(self):
        self.buffers = {}

    def __call__(self, q, k, v, m=None):
        result = attention(q, k, v, m)
        return tuple(self.buffers.setdefault(("cw"[i], x.shape), torch.empty_like(x)).copy_(x)
                     for i, x in enumerate(result))  # fmt: skip


def empty_rows_to_zero(q, k, v, m=None):
    weights = attention(q, k, v, m)[1].nan_to_num()
    return weights @ v, weights


def mask_added(q, k, v, m=None):
    bias = 0 if m is None else torch.zeros(m.shape, dtype=q.dtype).masked_fill(~m, -torch.inf)
    weights = F.softmax(torch.matmul(q, k.transpose(-1, -2)).div(k.shape[-1] ** 0.5) + bias, dim=-1)
    return weights @ v, weights


def key_by_key(q, k, v, m=None):
    scores = torch.stack([(q * k[..., s : s + 1, :]).sum(-1) for s in range(k.shape[-2])], -1) / k.shape[-1] ** 0.5
    weights = filled(scores, m).softmax(-1)
    return sum(weights[..., s : s + 1] * v[..., s : s + 1, :] for s in range(k.shape[-2])), weights


def by_pytorchs_class(q, k, v, m=None):
    """nn.MultiheadAttention with one head and identities for layers, where all widths may be the same."""
    *batch, T, D = q.shape
    E = max(D, v.shape[-1])
    layer = nn.MultiheadAttention(E, 1, bias=False, batch_first=True).double()
    layer.in_proj_weight.data.copy_(torch.eye(E, dtype=q.dtype).repeat(3, 1))
    layer.in_proj_weight.data[:E] *= (E / D) ** 0.5  # it divides by the root of the padded width
    layer.out_proj.weight.data.copy_(torch.eye(E, dtype=q.dtype))
    padded = [F.pad(x, (0, E - x.shape[-1])).reshape(-1, x.shape[-2], E) for x in (q, k, v)]
    context, weights = layer(*padded, attn_mask=None if m is None else ~m)
    return context[..., : v.shape[-1]].view(*batch, T, -1), weights.view(*batch, T, -1)


def online(q, k, v, m=None):
    """One key after the other, with a running maximum, as FlashAttention does."""
    scores = filled(q @ k.mT / k.shape[-1] ** 0.5, m)
    top = torch.full_like(scores[..., :1], -torch.inf)
    total, context = torch.zeros_like(top), torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    for s in range(k.shape[-2]):
        new = torch.maximum(top, scores[..., s : s + 1])
        old, e = ((x - new).exp().nan_to_num(0.0) for x in (top, scores[..., s : s + 1]))
        total, context, top = total * old + e, context * old + e * v[..., s : s + 1, :], new
    return context / total, (scores - top).exp() / total


RIGHT_FORMULAS = [
    attention, formula(), fused, loops, baddbmm, by_hand, log_space, single_precision, single_and_back, single_scores,
    views, Buffer(), empty_rows_to_zero, mask_added, key_by_key, by_pytorchs_class, online,
    lambda q, k, v, m=None: list(attention(q, k, v, m)),
    lambda q, k, v, m=None: attention(q / k.shape[-1] ** 0.25, k * k.shape[-1] ** 0.25, v, m),
    formula(hide=lambda s, m: torch.where(m, s, torch.tensor(-torch.inf, dtype=s.dtype))),
]  # fmt: skip


@pytest.mark.parametrize("candidate", RIGHT_FORMULAS, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_every_right_formula_passes(candidate):
    checks.attention_formula(candidate)


# ---------------------------------------------------------------- several heads
class Parts(nn.Module):
    """Multi-head attention with the layers that the check knows, every head by itself, with places for faults."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, mix=attention, bias=True):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.H, self.mix = num_heads, mix

    def heads(self, x):
        return [W(x).unflatten(-1, (self.H, -1)).transpose(1, 2) for W in (self.W_query, self.W_key, self.W_value)]

    def forward(self, x):
        return self.out_proj(self.mix(*self.heads(x), causal_mask(x.shape[1]))[0].transpose(1, 2).flatten(2))


def parts(mix=attention, cls=Parts, **options):
    return lambda *sizes: cls(*sizes, mix=mix, **options)


def mixing(name):
    return parts(WRONG_FORMULAS[name][1])


def changed(**methods):
    return type("Changed", (Parts,), methods)


def whole_width(q, k, v, m):
    return attention(q / q.shape[1] ** 0.5, k, v, m)


class Counting(Parts):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) + self.calls


class Fused(nn.Module):
    """nanoGPT's way: one layer of 3 * C outputs."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, shape="3 H D", order=(0, 1, 2), mix=attention):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d_in, 3 * d_out), nn.Linear(d_out, d_out)
        self.H, self.shape, self.order, self.mix = num_heads, shape, order, mix

    def forward(self, x):
        B, T, _ = x.shape
        sizes = {"3": 3, "H": self.H, "D": self.c_proj.in_features // self.H}
        parts = self.c_attn(x).view(B, T, *(sizes[name] for name in self.shape.split()))
        parts = parts.movedim(2 + self.shape.split().index("3"), 0).transpose(2, 3)
        context = self.mix(*(parts[i] for i in self.order), causal_mask(T))[0]
        return self.c_proj(context.transpose(1, 2).reshape(B, T, -1))


class Wrapped(nn.Module):
    """nn.MultiheadAttention, which needs as many channels out as in and a mask that is True where it is FORBIDDEN."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, bias=True, forbidden=torch.logical_not):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_out, num_heads, dropout, bias=bias, batch_first=True)
        self.forbidden = forbidden

    def forward(self, x):
        return self.inner(x, x, x, attn_mask=self.forbidden(causal_mask(x.shape[1])), need_weights=False)[0]


class Encoder(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(d_out, num_heads, 4 * d_out, dropout, batch_first=True)

    def forward(self, x):
        return self.layer(x, src_mask=~causal_mask(x.shape[1]), is_causal=True)


class Grouped(Parts):
    """Fewer heads for keys and values, as in Llama."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, groups=1, tile=False):
        super().__init__(d_in, d_out, context_length, dropout, num_heads)
        width = d_out // num_heads * groups
        self.W_key, self.W_value, self.G, self.tile = nn.Linear(d_in, width), nn.Linear(d_in, width), groups, tile
        assert num_heads % groups == 0

    def heads(self, x):
        query = self.W_query(x).unflatten(-1, (self.H, -1)).transpose(1, 2)
        few = [W(x).unflatten(-1, (self.G, -1)).transpose(1, 2) for W in (self.W_key, self.W_value)]
        n = self.H // self.G
        return query, *(y.repeat(1, n, 1, 1) if self.tile else y.repeat_interleave(n, 1) for y in few)


class Alone(nn.Module):
    """Every head's layers by themselves."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads):
        super().__init__()
        self.inner = MultiHeadAttentionWrapper(d_in, d_out // num_heads, context_length, dropout, num_heads)
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        return self.out_proj(self.inner(x))


def looped(self, x):
    T, C, outputs = x.shape[1], self.out_proj.in_features, []
    q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
    for h in range(self.H):
        part = slice(h * C // self.H, (h + 1) * C // self.H)
        outputs.append(attention(q[..., part], k[..., part], v[..., part], causal_mask(T))[0])
    return self.out_proj(torch.cat(outputs, -1))


def by_einsum(self, x):
    q, k, v = (W(x).view(*x.shape[:2], self.H, -1) for W in (self.W_query, self.W_key, self.W_value))
    scores = torch.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5
    weights = scores.masked_fill(~causal_mask(x.shape[1]), -torch.inf).softmax(-1)
    W = self.out_proj.weight.view(-1, self.H, q.shape[-1])
    return torch.einsum("bhts,bshd,chd->btc", weights, v, W) + self.out_proj.bias


def growing(self, x):
    """Causal attention is attention on each beginning of the text, of which the last output is kept."""
    rows = [attention(*self.heads(x[:, : t + 1]))[0][:, :, -1] for t in range(x.shape[1])]
    return self.out_proj(torch.stack(rows, 2).transpose(1, 2).flatten(2))


RIGHT_CLASSES = {
    "the helper": MultiHeadAttention,
    "with biases": lambda *sizes: MultiHeadAttention(*sizes, qkv_bias=True, out_bias=False),
    "a loop over heads": changed(forward=looped),
    "einsum": changed(forward=by_einsum),
    "each beginning": changed(forward=growing),
    "a copy of x": changed(forward=lambda self, x: Parts.forward(self, x.clone().mul_(2).div_(2))),
    "fused": Fused,
    "fused, by heads": lambda *sizes: Fused(*sizes, shape="H 3 D"),
    "fused, in turn": lambda *sizes: Fused(*sizes, shape="H D 3"),
    "fused, key first": lambda *sizes: Fused(*sizes, order=(1, 0, 2)),
    "fused, as wide as it comes in": lambda d_in, *sizes: Fused(sizes[0], *sizes),
    "nn.MultiheadAttention": Wrapped,
    "nn.MultiheadAttention without biases": lambda *sizes: Wrapped(*sizes, bias=False),
    "one group of keys": Grouped,
    "two groups of keys": lambda *sizes: Grouped(*sizes, groups=2),
    "two groups of keys, in turn": lambda *sizes: Grouped(*sizes, groups=2, tile=True),
} | {f"with {f.__name__}": parts(f) for f in (
    fused, loops, baddbmm, by_hand, log_space, single_and_back, views, mask_added, key_by_key, online,
    by_pytorchs_class)}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT_CLASSES)
def test_every_right_class_passes(name):
    checks.multi_head(RIGHT_CLASSES[name])


# Inside a class some are told by other words, for only the output shows; None: there it is no mistake, or can't show.
ALIKE = {
    "dim=0": "runs over the batch", "dim=-3": "runs over dim=1", "no dim": "runs over dim=1",
    "dim=2": "over the queries", "transposed": "the mask shows the future and hides the past", "flipped": "keys get",
    "added -1e4": "set to a finite number", "added -1e9": "set to a finite number", "* 2 at width 16 only": None,
    "large scores, with an epsilon": "large scores give NaN",
    "clamped": "the result differs",
    "causal whatever is asked": None, "only square": None, "key.T": None, "transpose(0, 1)": None,
    "transpose(1, 2)": "it raises RuntimeError", "unnormalised": None, "no mask allowed": "ZeroDivisionError",
    "context": "differs", "filled with -1.79769e+308": None, "/ sqrt(T)": "square root of the number of keys",
    "/ S": "divided by the number of keys",
    "/ (D // 2 + 1)": "but by 2 at width 3, 3 at width 4, 4 at width 7", "large scores": "large scores",
    "tril(2)": "tril(2)", "bfloat16": None, "scale in place": None,
    "rolled": "tril(1)", "the last place leaks": "keys get weight", "/ log(D)": "the logarithm of the head width",
} | {f"changes its {name}": None for name in ("query", "key", "value", "mask")}  # fmt: skip
WRONG_CLASSES = {
    name: (ALIKE.get(name, words), mixing(name)) for name, (words, _) in WRONG_FORMULAS.items() if ALIKE.get(name, 1)
} | {
    "/ the root of all heads": ("square root of the width of all heads together", parts(whole_width)),
    "one wide head": ("one wide head", lambda d_in, d_out, T, p, H: Parts(d_in, d_out, T, p, 1)),
    "changes x": ("it changes its input in place", changed(forward=lambda self, x: Parts.forward(self, x.mul_(2)))),
    "changes x afterwards": ("it changes its input in place", changed(
        forward=lambda self, x: (Parts.forward(self, x), x.zero_())[0])),
    "keeps something": ("two results: it keeps a state", Counting),
    "dropout in evaluation": ("dropout is left on in evaluation", changed(
        forward=lambda self, x: F.dropout(Parts.forward(self, x), 0.5))),
    "only whole texts": ("it raises", changed(forward=lambda self, x: Parts.forward(self, x) + torch.zeros(
        {6: 5, 7: 6, 5: 4}[x.shape[-1]], 1))),
    "fused, without the root": ("not divided by the square root", lambda *sizes: Fused(
        *sizes, mix=WRONG_FORMULAS["/ 1"][1])),
    "fused, tril(1)": ("tril(1)", lambda *sizes: Fused(*sizes, mix=WRONG_FORMULAS["tril(1)"][1])),
    "fused, by view": ("are split by view alone", type("F", (Fused,), {"forward": lambda self, x: self.c_proj(attention(
        *(y.reshape(len(x), self.H, x.shape[1], -1) for y in self.c_attn(x).chunk(3, -1)), causal_mask(x.shape[1])
        )[0].transpose(1, 2).flatten(2))})),
    "nn.MultiheadAttention, no mask": ("the mask is not applied", lambda *sizes: Wrapped(
        *sizes, forbidden=torch.zeros_like)),
    "nn.MultiheadAttention, our mask": ("is inverted", lambda *sizes: Wrapped(*sizes, forbidden=lambda m: m)),
    "nn.TransformerEncoderLayer": ("check the attention alone", Encoder),
    "heads by themselves": ("it has no linear layer W_query; what it has: inner.heads.0.W_query (12 to 3)", Alone),
    "other names": ("one fused layer of 36 outputs", lambda d_in, d_out, *rest: nn.Sequential(
        nn.Linear(d_in, d_out), nn.Linear(d_out, d_out))),
    "groups that do not divide": ("3 heads of width 4 need 12 each", lambda d_in, d_out, *rest: (
        lambda m: (setattr(m, "W_key", nn.Linear(d_in, 8)), m)[1])(Parts(d_in, d_out, *rest))),
    "projection missing": ("the output projection is missing", lambda d_in, d_out, T, p, H: CausalAttention(
        d_in, d_out, T, p)),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG_CLASSES)
@pytest.mark.filterwarnings("ignore:The use of `x.T`")
def test_every_wrong_class_is_named(fault):
    words, build = WRONG_CLASSES[fault]
    torch.manual_seed(0)
    with pytest.raises(CheckError, match="not multi-head attention: ") as error:
        checks.multi_head(build)
    assert words in str(error.value)


# ---------------------------------------------------------------- dropout
class Dropping(nn.Module):
    """Causal attention with `num_heads` heads, with a place for everything that one might drop."""

    def __init__(self, num_heads=1, p=0.2, project=False, share=None, named=True, **places):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(3, 4) for _ in range(3))
        self.out_proj = nn.Linear(4, 4) if project else nn.Identity()
        self.H, self.share, self.places = num_heads, p if share is None else share, places
        if named:
            self.num_heads, self.dropout = num_heads, p

    def drop(self, place, x):
        how = self.places.get(place)
        return how(x, self.share) if how and self.training else x

    def forward(self, x):
        x = self.drop("x", x)
        layers = {"query": self.W_query, "key": self.W_key, "value": self.W_value}
        parts = [self.drop(name, W(x)).unflatten(-1, (self.H, -1)).transpose(1, 2) for name, W in layers.items()]
        scores = self.drop("scores", parts[0] @ parts[1].mT / parts[0].shape[-1] ** 0.5)
        scores = self.drop("masked", scores.masked_fill(~causal_mask(x.shape[1]), -torch.inf))
        context = self.drop("weights", scores.softmax(-1)) @ parts[2]
        joined = self.drop("joined", self.drop("context", context).transpose(1, 2).flatten(2))
        return self.drop("output", self.out_proj(joined))


def shaped(*kept):
    """Dropout that draws one number for all entries along the axes that are not kept (True)."""

    def drop(x, p):
        kept_here = kept[-x.dim() :]
        ones = torch.ones([n if keep else 1 for n, keep in zip(x.shape, kept_here, strict=True)])
        return x * F.dropout(ones, p)

    return drop


def noisy(x, p):
    return x + p * torch.randn_like(x)


def gaussian(x, p):
    return x * (1 + (p / (1 - p)) ** 0.5 * torch.randn_like(x))


def masked(divide=lambda p: 1 - p, keep=lambda p: 1 - p):
    return lambda x, p: x * (torch.rand_like(x) < keep(p)) / divide(p)


def unseeded(x, p, generator=torch.Generator().manual_seed(0)):  # noqa: B008
    return x * (torch.rand(x.shape, generator=generator) > p) / (1 - p)


class Changing(Dropping):
    def forward(self, x):
        output = super().forward(x)
        if self.training:
            x += 1
        return output


WRONG_DROPOUTS = {
    "numbers of the values": ("numbers of the values", dict(value=F.dropout)),
    "numbers of the values, heads": ("numbers of the values", dict(value=F.dropout, num_heads=2, project=True)),
    "whole values": ("whole values", dict(value=shaped(1, 1, 0))),
    "the same keys": ("whole values", dict(weights=shaped(1, 1, 0, 1), num_heads=2, project=True)),
    "whole rows": ("whole rows", dict(weights=shaped(1, 1, 1, 0))),
    "whole rows, heads": ("whole rows", dict(weights=shaped(1, 1, 1, 0), num_heads=2, project=True)),
    "whole heads": ("whole heads", dict(weights=shaped(1, 1, 0, 0), num_heads=2, project=True)),
    "the only head": ("whole heads", dict(weights=shaped(1, 1, 0, 0))),
    "whole heads of the context": ("whole heads", dict(context=shaped(1, 1, 0, 0), num_heads=2, project=True)),
    "context": ("numbers of the output", dict(context=F.dropout)),
    "joined": ("numbers of the output", dict(joined=F.dropout, num_heads=2, project=True)),
    "output": ("numbers of the output", dict(output=F.dropout, num_heads=2, project=True)),
    "columns of the output": ("the same numbers of the output", dict(output=shaped(1, 0, 1))),
    "tokens": ("whole rows", dict(output=shaped(1, 1, 0))),
    "x": ("dropout comes before the softmax", dict(x=F.dropout)),
    "query": ("dropout comes before the softmax", dict(query=F.dropout)),
    "key": ("dropout comes before the softmax", dict(key=F.dropout)),
    "scores": ("dropout comes before the softmax", dict(scores=F.dropout)),
    "masked": ("dropout comes before the softmax", dict(masked=F.dropout)),
    "weights and output": ("single numbers are dropped too", dict(weights=F.dropout, output=F.dropout)),
    "one mask for the batch": ("every text of a batch loses the same", dict(weights=shaped(0, 1, 1, 1))),
    "noise on the output": ("noise is added", dict(output=noisy)),
    "noise on the weights": ("noise is added", dict(weights=noisy)),
    "noise on the values": ("noise is added", dict(value=noisy)),
    "Gaussian dropout": ("noise is added", dict(weights=gaussian)),
    "Gaussian dropout, heads": ("noise is added", dict(weights=gaussian, num_heads=2, project=True)),
    "noise that is not 0 on average": ("noise is added", dict(output=lambda x, p: x + torch.rand_like(x))),
    "not scaled": ("kept weights must be divided by 1 - p", dict(weights=masked(divide=lambda p: 1))),
    "not scaled, heads": ("kept weights must be divided by 1 - p", dict(
        weights=masked(divide=lambda p: 1), num_heads=2, project=True)),
    "divided by p": ("are divided by p; they must", dict(weights=masked(divide=lambda p: p))),
    "times 1 - p": ("kept weights must be divided by 1 - p", dict(weights=masked(divide=lambda p: 1 / (1 - p)))),
    "p kept, divided by p": ("1 - p is taken for p: of the weights 0.8 is dropped, with p = 0.2", dict(
        weights=lambda x, p: F.dropout(x, 1 - p))),
    "p kept": ("p is the share that is kept: of the weights 0.8 is dropped, not p = 0.2", dict(
        weights=masked(keep=lambda p: p))),
    "p ignored": ("p is ignored: of the weights 0.5 is dropped, not p = 0.2", dict(weights=F.dropout, share=0.5)),
    "p ignored, heads": ("p is ignored: of the weights 0.1 is dropped, not p = 0.2", dict(
        weights=F.dropout, share=0.1, num_heads=4, project=True)),
    "p nearly right": ("p is ignored: of the weights 0.21 is dropped, not p = 0.2", dict(
        weights=F.dropout, share=0.21)),
    "never": ("never applied", dict()),
    "another generator": ("do not follow torch.manual_seed", dict(weights=unseeded)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG_DROPOUTS)
def test_every_wrong_dropout_is_named(fault):
    words, options = WRONG_DROPOUTS[fault]
    torch.manual_seed(1)
    module = Dropping(**options)
    with pytest.raises(CheckError) as error:
        checks.dropout(module, torch.randn(6, 3))
    assert words in str(error.value)


def test_dropout_leaves_x_as_it_is():
    torch.manual_seed(1)
    with pytest.raises(CheckError, match="it changes its input in place"):
        checks.dropout(Changing(weights=F.dropout), torch.randn(6, 3))


def test_a_p_that_the_module_does_not_state_can_be_given():
    torch.manual_seed(1)
    module, x = Dropping(weights=F.dropout, named=False), torch.randn(6, 3)
    checks.dropout(module, x)
    checks.dropout(module, x, p=0.2)
    with pytest.raises(CheckError, match=r"p is ignored: of the weights 0.2 is dropped, not p = 0.3"):
        checks.dropout(module, x, p=0.3)


RIGHT_DROPOUTS = {
    "one head": dict(weights=F.dropout),
    "two heads": dict(weights=F.dropout, num_heads=2),
    "two heads, projected": dict(weights=F.dropout, num_heads=2, project=True),
    "four heads, one number each": dict(weights=F.dropout, num_heads=4),
    "four heads, projected, nameless": dict(weights=F.dropout, num_heads=4, project=True, named=False),
    "two heads, nameless": dict(weights=F.dropout, num_heads=2, project=True, named=False),
    "by hand": dict(weights=masked()),
    "hardly any": dict(weights=F.dropout, p=0.01),
    "most": dict(weights=F.dropout, p=0.9, num_heads=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT_DROPOUTS)
def test_every_right_dropout_passes(name):
    for seed in (1, 2):
        torch.manual_seed(seed)
        checks.dropout(Dropping(**RIGHT_DROPOUTS[name]), torch.randn(6, 3))
    checks.dropout(Dropping(**RIGHT_DROPOUTS[name]), torch.randn(1, 3))


# ---------------------------------------------------------------- causality, rows
def leaking(mask_of):
    def function(x):
        mask = mask_of(causal_mask(x.shape[1]))
        return attention(x, x, x, mask)[0]

    return function


def with_entry(t, s):
    def mask_of(mask):
        mask[t, s] = True
        return mask

    return mask_of


def large_only(x):
    return x + (x.abs() > 1e4).any(1, keepdim=True)


def finite(x):
    return (x @ -x.mT).masked_fill(~causal_mask(x.shape[1]), -1e9).softmax(-1) @ x


class Overwriting:
    """Leaks, and writes every output over the last one."""

    def __init__(self):
        self.output = None

    def __call__(self, x):
        new = x + x.flip(1)
        self.output = new if self.output is None else self.output.copy_(new)
        return self.output


def doubling(x):
    x *= 2
    return x


def zeroing_later(x):
    output = x.cumsum(1)
    x[:, -1] = 0
    return output


LEAKS = {
    "the last place but one": ("at position 4 or before", leaking(with_entry(4, 5))),
    "the first, the next": ("at position 0 changes", leaking(with_entry(0, 1))),
    "the first, the last": ("at position 0 changes", leaking(with_entry(0, 5))),
    "the third": ("at position 2 or before", leaking(with_entry(2, 4))),
    "the next": ("at position 0 changes", leaking(lambda mask: mask | torch.ones_like(mask).tril(1))),
    "triu": ("at position 0 changes", leaking(lambda mask: mask.mT)),
    "only the mean": ("at position 0", lambda x: x + x.mean(1, keepdim=True)),
    "a faint mean": ("at position 0", lambda x: x + 1e-5 * x.mean(1, keepdim=True)),
    "the largest": ("at position 0", lambda x: x - x.amax((1, 2), keepdim=True)),
    "the norm": ("at position 0", lambda x: x / x.norm(dim=(1, 2), keepdim=True)),
    "large inputs": ("for inputs 1,000,000 times as large", large_only),
    "a finite mask": ("for inputs 1,000,000 times as large", finite),
    "overwriting": ("at position 0", Overwriting()),
    "doubling": ("it changes its input in place", doubling),
    "zeroing": ("it changes its input in place", zeroing_later),
    "random": ("two calls with the same input", lambda x: x + torch.rand_like(x)),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_every_leak_is_found(leak):
    words, function = LEAKS[leak]
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(5))
    with pytest.raises(CheckError) as error:
        checks.causal(function, x)
    assert words in str(error.value)


@pytest.mark.parametrize("ids", [[0, 1, 2, 1, 0, 0], [0, 0, 0, 0, 0, 1], [3, 1, 3, 1, 3, 3]])
def test_no_id_hides_a_leak(ids):
    x = torch.tensor([ids, ids[::-1]])
    for t in range(5):
        with pytest.raises(CheckError, match=f"at position {t} or before" if t else "at position 0 changes"):
            checks.causal(
                lambda x, t=t: torch.cat([x[:, :t], x[:, t : t + 1] + x[:, t + 1 : t + 2], x[:, t + 1 :]], 1), x
            )
    checks.causal(lambda x: x.cumsum(1), x)


def test_what_is_causal_passes_large_or_not_a_number():
    x = torch.randn(2, 6, 3)
    checks.causal(lambda x: x.exp(), x)
    checks.causal(lambda x: x / 0 * 0, x)
    checks.causal(leaking(lambda mask: mask.tril(-1)), x)  # the first row allows nothing
    checks.causal(lambda x: x.cumsum(1), x.double())
    checks.causal(lambda x: x.cumsum(1), x.bfloat16())
    checks.causal(leaking(lambda mask: mask), x.half())


def test_rows_are_numbers_of_at_least_0():
    nothing = torch.full((1, 3), -torch.inf).softmax(-1)
    for rows in (nothing, torch.cat([torch.eye(3), nothing])):
        with pytest.raises(CheckError, match=r"3 of \d+ weights are not a number \(NaN\): does a row allow nothing"):
            checks.rows_sum_to_one(rows)
    with pytest.raises(CheckError, match=r"a weight is negative: -0.1000"):
        checks.rows_sum_to_one(torch.tensor([[1.1, -0.1], [0.5, 0.5]]))
    with pytest.raises(CheckError, match="the columns do: is the softmax taken over the queries"):
        checks.rows_sum_to_one(torch.randn(2, 3, 4, 5).softmax(-2))
    with pytest.raises(CheckError, match=r"do not sum to 1 but to inf .. inf$"):
        checks.rows_sum_to_one(torch.full((2, 2), torch.inf))
    with pytest.raises(CheckError, match=r"do not sum to 1 but to .*[0-9]$"):
        checks.rows_sum_to_one(torch.randn(2, 3, 4, 5).softmax(1))
    checks.rows_sum_to_one(torch.eye(3)[:, [1, 0, 2]])
