"""Wrong formulas, each with words of the sentence that names it, and right ones that pass."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from helpers.attention import attention


def formula(
    divide=lambda s, q, k, v: s / k.shape[-1] ** 0.5,
    hide=None,
    softmax=lambda s: s.softmax(-1),
    late=None,
):
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


def naive(query, key, value, mask=None):
    exponentials = (query @ key.mT / query.shape[-1] ** 0.5).exp()
    weights = exponentials if mask is None else exponentials * mask
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ value, weights


# Fmt: skip.
# Numbers that the table does not have.
WRONG_FORMULAS = (
    {
        # by what the scores are divided
        "/ 1": ("not divided by the square root of the head width", divided(lambda *_: 1)),
        "/ 2": ("divided by a constant, not", divided(lambda *_: 2)),
        "/ 8": ("divided by a constant, not", divided(lambda *_: 8)),
        "/ sqrt(64)": ("divided by a constant, not", divided(lambda *_: math.sqrt(64))),
        "* 3": ("divided by a constant, not", divided(lambda *_: 1 / 3)),
        "/ D": (
            "divided by the head width, not by its square root",
            divided(lambda q, k, v: k.shape[-1]),
        ),
        "/ (D / 2)": ("divided by half the head width", divided(lambda q, k, v: k.shape[-1] / 2)),
        "/ log2(D)": (
            "divided by log2 of the head width",
            divided(lambda q, k, v: math.log2(k.shape[-1])),
        ),
        "/ log(D)": (
            "divided by the logarithm of the head width",
            divided(lambda q, k, v: math.log(k.shape[-1])),
        ),
        "/ D ** 2": (
            "divided by the square of the head width",
            divided(lambda q, k, v: k.shape[-1] ** 2),
        ),
        "/ sqrt(D / 2)": (
            "square root of half the head width",
            divided(lambda q, k, v: (k.shape[-1] / 2) ** 0.5),
        ),
        "* sqrt(D)": (
            "multiplied by the square root",
            divided(lambda q, k, v: k.shape[-1] ** -0.5),
        ),
        "/ sqrt(S)": (
            "square root of the number of keys",
            divided(lambda q, k, v: k.shape[-2] ** 0.5),
        ),
        "/ S": ("divided by the number of keys", divided(lambda q, k, v: k.shape[-2])),
        "/ sqrt(T)": (
            "square root of the number of queries",
            divided(lambda q, k, v: q.shape[-2] ** 0.5),
        ),
        "/ (D // 2 + 1)": ("it gives", divided(lambda q, k, v: k.shape[-1] // 2 + 1)),
        "/ -sqrt(D)": ("wrong sign", divided(lambda q, k, v: -(k.shape[-1] ** 0.5))),
        "* 0": ("do not depend on the scores", divided(lambda *_: math.inf)),
        "* 2 at width 16 only": (
            "for query of shape (2, 3, 4, 16)",
            divided(lambda q, k, v: k.shape[-1] ** 0.5 / (1 + (k.shape[-1] == 16))),
        ),
        # over which axis the softmax runs
        "dim=-2": ("over the queries, not over the keys", formula(softmax=lambda s: s.softmax(-2))),
        "dim=0": ("runs over the batch", formula(softmax=lambda s: s.softmax(0))),
        "dim=1": ("runs over dim=1", formula(softmax=lambda s: s.softmax(1))),
        "dim=2": ("runs over dim=2, which with heads", formula(softmax=lambda s: s.softmax(2))),
        "dim=-3": ("runs over dim=-3", formula(softmax=lambda s: s.softmax(-3))),
        "no dim": (
            "as it does when no dim is given",
            formula(softmax=lambda s: s.softmax(0 if s.dim() == 3 else 1)),
        ),
        # which way the key is turned
        "key.T": ("exchange the key's last two axes", with_key(lambda k: k.T)),
        "transpose(0, 1)": (
            "exchange the key's last two axes",
            with_key(lambda k: k.transpose(0, 1)),
        ),
        "transpose(1, 2)": ("counted from the end", with_key(lambda k: k.transpose(1, 2))),
        "query and key exchanged": (
            "query and key are exchanged",
            lambda q, k, v, m=None: attention(k, q, v, m),
        ),
        # the mask
        "inverted": ("the mask is inverted", seen(torch.logical_not)),
        "inverted, a finite fill": (
            "the mask is inverted",
            formula(hide=lambda s, m: s.masked_fill(m, -1e9)),
        ),
        "inverted but for itself": (
            "the mask is inverted",
            seen(lambda m: ~m | torch.eye(*m.shape, dtype=torch.bool)),
        ),
        "forgotten": ("the mask is not applied", seen(ones)),
        "tril(-1)": ("a word must see itself, tril() and not tril(-1)", seen(lambda m: m.tril(-1))),
        "tril(-1), its own": ("tril() and not tril(-1)", seen(lambda m: ones(m).tril(-1))),
        "but itself": (
            "tril() and not tril(-1)",
            seen(lambda m: m & ~torch.eye(*m.shape, dtype=torch.bool)),
        ),
        "tril(1)": (
            "must not see the next one, tril() and not tril(1)",
            seen(lambda m: ones(m).tril(1)),
        ),
        "tril(2)": ("tril() and not tril(2)", seen(lambda m: ones(m).tril(2))),
        "rolled": ("tril() and not tril(1)", seen(lambda m: m | m.roll(1, -1))),
        "transposed": ("the mask is transposed", seen(lambda m: m.mT)),
        "flipped": ("keys get", seen(lambda m: m.flip(-1))),
        "window of 2": ("sees only the last 2 words", seen(lambda m: m & ones(m).triu(-1))),
        "window of 4": ("sees only the last 4 words", seen(lambda m: m & ones(m).triu(-3))),
        "window of 1": (
            "shows every word only itself",
            seen(lambda m: m & torch.eye(*m.shape, dtype=torch.bool)),
        ),
        "causal whatever is asked": ("whatever mask it is given", seen(lambda m: ones(m).tril())),
        "by row, all": (
            "by row instead of column",
            seen(lambda m: m.all(-1, keepdim=True).expand_as(m)),
        ),
        "by row, the last column": (
            "by row instead of column",
            seen(lambda m: m[:, -1:].expand_as(m)),
        ),
        "by row, finite": (
            "by row instead of column",
            formula(hide=lambda s, m: s.masked_fill(~m.all(-1, keepdim=True), -1e9)),
        ),
        "the last place leaks": (
            "forbidden keys get weight",
            seen(lambda m: m | (ones(m).triu(m.shape[-1] - 1))),
        ),
        "filled with 0": ("set to 0", formula(hide=lambda s, m: s.masked_fill(~m, 0))),
        "times the mask": ("set to 0", formula(hide=lambda s, m: s * m)),
        "weights times the mask": (
            "comes after the softmax: the rows no longer",
            formula(hide=lambda s, m: s, late=lambda w, m: w * m),
        ),
        "weights times the mask, divided": (
            "comes after the softmax: where a forbidden score",
            formula(hide=lambda s, m: s, late=lambda w, m: w * m / (w * m).sum(-1, keepdim=True)),
        ),
        "added -5": ("a finite number is added", formula(hide=lambda s, m: s - 5.0 * ~m)),
        "added -1e4": ("a finite number is added", formula(hide=lambda s, m: s + -1e4 * ~m)),
        "added -1e9": ("a finite number is added", formula(hide=lambda s, m: s + -1e9 * ~m)),
        "added, the smallest number": (
            "a finite number is added",
            formula(hide=lambda s, m: s + torch.finfo(torch.float32).min * ~m),
        ),
        "added +1": ("a finite number is added", formula(hide=lambda s, m: s + ~m)),
    }
    | {
        f"filled with {value:g}": (
            words,
            formula(hide=lambda s, m, to=value: s.masked_fill(~m, to)),
        )
        for words, values in {
            "set to a finite number": (
                -1.0,
                -20.0,
                -100.0,
                -1e4,
                -65504.0,
                -1e9,
                -1e20,
                torch.finfo(torch.float32).min,
                torch.finfo(torch.float64).min,
                -12_345.0,
            ),
            "forbidden keys get weight": (
                -7.5,
                1e-3 - 1,
                5.0,
            ),
        }.items()
        for value in values
    }
    | {
        # the rest
        f"changes its {name}": (f"it changes its input `{name}`", in_place(name))
        for name in ("query", "key", "value", "mask")
    }
    | {
        "scale in place": (
            "it changes its input `q`",
            lambda q, k, v, m=None: attention(q.mul_(2).div_(4), k * 2, v, m),
        ),
        "large scores": (
            "large scores give NaN",
            formula(softmax=lambda s: s.exp() / s.exp().sum(-1, keepdim=True)),
        ),
        "the mask times the exponentials": ("large scores give NaN", naive),
        "large scores, with an epsilon": (
            "allowed scores lose their weight",
            formula(softmax=own_softmax),
        ),
        "the largest of all": (
            "large scores give NaN",
            formula(
                softmax=lambda s: (s - s.max()).exp() / (s - s.max()).exp().sum(-1, keepdim=True)
            ),
        ),
        "clamped": (
            "with numbers up to 2198",
            formula(divide=lambda s, q, k, v: (s / k.shape[-1] ** 0.5).clamp(-50, 50)),
        ),
        "clamped when masked": (
            "set to a finite number",
            formula(softmax=lambda s: s.clamp(-50, 50).softmax(-1)),
        ),
        "context": (
            "it gives",
            lambda q, k, v, m=None: (attention(q, k, 2 * v, m)[0], attention(q, k, v, m)[1]),
        ),
        "unnormalised": (
            "it gives",
            lambda q, k, v, m=None: (attention(q, k, v, m)[0], 0.9 * attention(q, k, v, m)[1]),
        ),
        "bfloat16": (
            "it gives",
            lambda q, k, v, m=None: attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), m),
        ),
        "only square": (
            "q of shape (2, 3, 4), k of shape (2, 5, 4)",
            lambda q, k, v, m=None: attention(q.view(k.shape), k, v, m),
        ),
        "no mask allowed": (
            "m of shape (5, 5) it raises ZeroDivisionError",
            lambda q, k, v, m: attention(q, k, v) if m is None else 1 / 0,
        ),
    }
)


# ---------------------------------------------------------------- right formulas
def filled(s, m):
    return s if m is None else s.masked_fill(~m, -torch.inf)


def fused(q, k, v, m=None):
    weights = F.scaled_dot_product_attention(
        q, k, torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:-1], -1), m
    )
    return F.scaled_dot_product_attention(q, k, v, m), weights


def loops(q, k, v, m=None):
    *batch, T, D = q.shape
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    weights = torch.zeros(len(q), T, k.shape[1], dtype=q.dtype)
    for b in range(len(q)):
        for t in range(T):
            allowed = [s for s in range(k.shape[1]) if m is None or m[t, s]]
            scores = torch.tensor(
                [sum(q[b, t, i] * k[b, s, i] for i in range(D)) for s in allowed], dtype=q.dtype
            )
            weights[b, t, allowed] = (scores / math.sqrt(D)).softmax(0)
    return (weights @ v).view(*batch, T, -1), weights.view(*batch, T, -1)


def baddbmm(q, k, v, m=None):
    *batch, T, D = q.shape
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    bias = (
        torch.zeros(T, k.shape[1], dtype=q.dtype)
        if m is None
        else torch.where(m, 0.0, -torch.inf).to(q)
    )
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
    scores = (
        torch.stack([(q * k[..., s : s + 1, :]).sum(-1) for s in range(k.shape[-2])], -1)
        / k.shape[-1] ** 0.5
    )
    weights = filled(scores, m).softmax(-1)
    return sum(weights[..., s : s + 1] * v[..., s : s + 1, :] for s in range(k.shape[-2])), weights


def by_pytorchs_class(q, k, v, m=None):
    """nn.MultiheadAttention with one head, identities for layers, and all widths padded to one."""
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


# Fmt: skip.
RIGHT_FORMULAS = [
    attention,
    formula(),
    fused,
    loops,
    baddbmm,
    by_hand,
    log_space,
    single_precision,
    single_and_back,
    single_scores,
    views,
    Buffer(),
    empty_rows_to_zero,
    mask_added,
    key_by_key,
    by_pytorchs_class,
    online,
    lambda q, k, v, m=None: list(attention(q, k, v, m)),
    lambda q, k, v, m=None: attention(q / k.shape[-1] ** 0.25, k * k.shape[-1] ** 0.25, v, m),
    formula(hide=lambda s, m: torch.where(m, s, torch.tensor(-torch.inf, dtype=s.dtype))),
]
