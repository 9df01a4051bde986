"""Classes of several heads: right ones pass however they are written, and each mistake is called by its name."""

import pytest
import torch
import torch.nn.functional as F
from attention_formulas import (
    WRONG_FORMULAS,
    baddbmm,
    by_hand,
    by_pytorchs_class,
    fused,
    key_by_key,
    log_space,
    loops,
    mask_added,
    online,
    single_and_back,
    views,
)
from torch import nn

from helpers.attention import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper, attention, causal_mask
from helpers.errors import CheckError
from helpers.grading import checks

pytestmark = pytest.mark.usefixtures("unchecked")  # it asks thousands of wrong answers


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


def split_by(split):
    """The heads split in another way."""
    return changed(heads=lambda self, x: [split(W(x), self.H) for W in (self.W_query, self.W_key, self.W_value)])


def joined_by(join):
    """The heads' contexts (B, H, T, D) joined in another way."""
    return changed(forward=lambda self, x: self.out_proj(join(attention(*self.heads(x), causal_mask(x.shape[1]))[0])))


def by_view(x, H):
    return x.reshape(x.shape[0], H, x.shape[1], -1)


def in_turn(x, H):
    return x.view(*x.shape[:2], -1, H).permute(0, 3, 1, 2)


def in_order(*order):
    """Of three heads; where there are two, or one, as it should be."""
    return joined_by(lambda c: torch.cat([c[:, h] for h in (order if c.shape[1] == 3 else range(c.shape[1]))], -1))


class BothByView(split_by(by_view)):
    def forward(self, x):
        contexts = attention(*self.heads(x), causal_mask(x.shape[1]))[0]
        return self.out_proj(contexts.reshape(*x.shape[:2], -1))


def unprojected(self, x):
    return attention(*self.heads(x), causal_mask(x.shape[1]))[0].transpose(1, 2).flatten(2)


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


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT_CLASSES)
def test_every_right_class_passes(name):
    checks.multi_head(RIGHT_CLASSES[name])


# Inside a class some are told by other words, for only the output shows; None: there it is no mistake, or can't show.
ALIKE = {
    "dim=0": "runs over the batch", "dim=-3": "runs over dim=1", "no dim": "runs over dim=1",
    "dim=2": "over the queries", "transposed": "the mask shows the future and hides the past", "flipped": "it gives",
    "inverted but for itself": "the mask shows the future", "* 2 at width 16 only": None,
    "large scores, with an epsilon": "it gives nan", "clamped": "with numbers up to", "causal whatever is asked": None,
    "only square": None, "key.T": None, "transpose(0, 1)": None, "unnormalised": None,
    "no mask allowed": "ZeroDivisionError", "context": "it gives", "filled with -1.79769e+308": None,
    "filled with -7.5": "it gives", "filled with -0.999": "it gives", "filled with 5": "it gives",
    "filled with -12345": "forbidden keys get weight", "clamped when masked": "forbidden keys get weight",
    "/ sqrt(T)": "square root of the number of keys", "bfloat16": None, "scale in place": None,
    "the last place leaks": "it gives",
} | {f"changes its {name}": None for name in ("query", "key", "value", "mask")}  # fmt: skip
WRONG_CLASSES = {
    name: (ALIKE.get(name, words), mixing(name)) for name, (words, _) in WRONG_FORMULAS.items() if ALIKE.get(name, 1)
} | {
    "/ the root of all heads": ("square root of the width of all heads together", parts(whole_width)),
    "one wide head": ("one wide head", lambda d_in, d_out, T, p, H: Parts(d_in, d_out, T, p, 1)),
    "split by view": ("the heads are split by view alone", split_by(by_view)),
    "split by view, for three heads of four numbers": ("the heads are split by view alone", split_by(
        lambda x, H: x.reshape(len(x), 3, -1, 4))),
    "joined by view": ("the heads are joined by view alone", joined_by(lambda c: c.reshape(len(c), c.shape[2], -1))),
    "both by view": ("the heads are split and joined by view alone", BothByView),
    "in turn": ("the heads take their numbers in turn", split_by(in_turn)),
    "reversed": ("joined in the wrong order", in_order(2, 1, 0)),
    "rolled": ("joined in the wrong order", in_order(1, 2, 0)),
    "two exchanged": ("joined in the wrong order", in_order(0, 2, 1)),
    "number by number": ("joined in the wrong order", joined_by(lambda c: c.permute(0, 2, 3, 1).flatten(2))),
    "projection unused": ("the output projection is missing", changed(forward=unprojected)),
    "changes x": ("it changes its input `x`", changed(forward=lambda self, x: Parts.forward(self, x.mul_(2)))),
    "changes x afterwards": ("it changes its input `x`", changed(
        forward=lambda self, x: (Parts.forward(self, x), x.zero_())[0])),
    "keeps something": ("two results: is dropout left on in evaluation, or does it keep a state?", Counting),
    "dropout in evaluation": ("is dropout left on in evaluation", changed(
        forward=lambda self, x: F.dropout(Parts.forward(self, x), 0.5))),
    "only whole texts": ("it raises", changed(forward=lambda self, x: Parts.forward(self, x) + torch.zeros(
        {6: 5, 7: 6, 5: 4}[x.shape[-1]], 1))),
    "a text of one word, squeezed": ("shape", changed(forward=lambda self, x: Parts.forward(self, x).squeeze())),
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


@pytest.mark.slow
def test_what_is_no_multi_head_attention_gets_one_sentence():
    faults = {
        "it has no linear layer W_query": lambda *sizes: nn.Identity(),
        "it gives": parts(lambda q, k, v, mask: attention(q.exp(), k, v, mask)),
        "it raises TypeError": lambda: None,
        r"it has the shape \(2, 2, 5, 6\) and should have \(2, 5, 12\)": changed(forward=lambda self, x: (x, x)),
        r"it has the shape \(2, 5, 6\)": changed(forward=lambda self, x: x),
        r"it has the shape \(2, 12, 5\) and should have \(2, 5, 12\)": changed(
            forward=lambda self, x: Parts.forward(self, x).mT
        ),
        "it has no linear layer out_proj": type(
            "Hidden", (MultiHeadAttention,), {"out_proj": property(lambda self: nn.Sequential(nn.Linear(12, 12)))}
        ),
    }
    for words, build in faults.items():
        with pytest.raises(CheckError, match=f"not multi-head attention: .*{words}"):
            checks.multi_head(build)
