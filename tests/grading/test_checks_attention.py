"""The checks of attention, as a formula and as a class: right ones pass, and each mistake is called by its name."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers.core.attention import MultiHeadAttention, attention
from helpers.grading import checks
from helpers.grading.checks import mistakes
from helpers.grading.checks.heads import multi_head_mistakes
from helpers.grading.checks.mistakes import ADDED, FINITE, FORGOTTEN, INVERTED, ROOT, UPSIDE_DOWN, WIDTH, ZERO
from helpers.support.errors import CheckError
from helpers.world.book import CausalAttention


# ---------------------------------------------------------------- mistakes by name
def test_the_formula_passes():
    checks.attention_formula(attention)
    checks.attention_formula(lambda q, k, v, mask: attention(q, k, v, mask))


def plain(query, key, value, mask=None, divide=lambda s, d: s / d**0.5, hide=None, dim=-1):
    """The formula by einsum, independent of checks.py, with places for faults."""
    scores = divide(torch.einsum("...td,...sd->...ts", query, key), query.shape[-1])
    if mask is not None:
        scores = (hide or (lambda s, m: torch.where(m, s, torch.tensor(-torch.inf, dtype=s.dtype))))(scores, mask)
    weights = scores.softmax(dim)
    return weights @ value, weights


def pytorchs(query, key, value, mask=None):
    weights = F.scaled_dot_product_attention(query, key, torch.eye(key.shape[-2], dtype=key.dtype), mask)
    return F.scaled_dot_product_attention(query, key, value, mask), weights


def hidden_by(value):
    return lambda s, m: s.masked_fill(~m, value)


DIM, DIM_1, *_ = mistakes.AXES
FORMULA_FAULTS = {
    "no root": (ROOT, {"divide": lambda s, d: s}),
    "d": (WIDTH, {"divide": lambda s, d: s / d}),
    "dim=-2": (DIM, {"dim": -2}),
    "dim=1": (DIM_1, {"dim": 1}),
    "inverted": (INVERTED, {"hide": lambda s, m: s.masked_fill(m, -torch.inf)}),
    "inverted, finite": (INVERTED, {"hide": lambda s, m: s.masked_fill(m, -1e9)}),
    "inverted but for itself": (
        INVERTED,
        {"hide": lambda s, m: s.masked_fill(m & ~torch.eye(*m.shape).bool(), -torch.inf)},
    ),
    "no mask": (FORGOTTEN, {"hide": lambda s, m: s}),
    "zeros": (ZERO, {"hide": hidden_by(0.0)}),
    "times the mask": (ZERO, {"hide": lambda s, m: s * m}),
    "added": (ADDED, {"hide": lambda s, m: s + ~m * -1e9}),
    "added, smallest": (ADDED, {"hide": lambda s, m: s + ~m * torch.finfo(torch.float32).min}),
}
FINITE_VALUES = (-1.0, -10.0, -100.0, -1e4, -1e5, -1e6, -65504.0, -1e9, -1e10, -1e12, -1e20)
for number in (*FINITE_VALUES, torch.finfo(torch.float32).min, torch.finfo(torch.float64).min):
    FORMULA_FAULTS[f"filled with {number:g}"] = (FINITE, {"hide": hidden_by(number)})


def test_right_spellings_pass():
    for right in (plain, pytorchs, lambda *case: plain(*case, hide=lambda s, m: s + torch.zeros(m.shape)
                  .masked_fill(~m, -torch.inf))):  # fmt: skip
        checks.attention_formula(right)


@pytest.mark.parametrize("fault", FORMULA_FAULTS)
def test_each_mistake_is_called_by_its_name(fault):
    name, options = FORMULA_FAULTS[fault]
    with pytest.raises(CheckError) as error:
        checks.attention_formula(lambda *case: plain(*case, **options))
    assert str(error.value) == f"not attention: {name}"


def naive(query, key, value, mask=None):
    scores = (query @ key.mT / query.shape[-1] ** 0.5).exp()
    weights = scores if mask is None else scores * mask
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ value, weights


def test_a_softmax_that_overflows_is_not_taken_for_a_finite_mask():
    with pytest.raises(CheckError) as error:
        checks.attention_formula(naive)
    assert str(error.value) == f"not attention: {mistakes.OVERFLOW}"
    with pytest.raises(CheckError) as error:
        checks.multi_head(heads(formula=naive))
    assert str(error.value) == f"not multi-head attention: {mistakes.OVERFLOW}"


def test_a_finite_mask_that_spares_empty_rows_is_found_on_low_scores():
    def spares(query, key, value, mask=None):
        _, weights = plain(query, key, value, mask, hide=hidden_by(-1e12))
        weights = weights if mask is None else weights * mask.any(-1, keepdim=True)
        return weights @ value, weights

    with pytest.raises(CheckError) as error:
        checks.attention_formula(spares)
    assert str(error.value) == f"not attention: {FINITE}"


def test_what_is_no_attention_at_all_gets_one_sentence():
    with pytest.raises(CheckError, match="it raises ZeroDivisionError: division by zero"):
        checks.attention_formula(lambda *case: 1 / 0)
    with pytest.raises(CheckError, match="must return two tensors"):
        checks.attention_formula(lambda *case: (plain(*case)[0], None))
    with pytest.raises(CheckError, match="it raises TypeError"):
        checks.attention_formula(lambda query: None)


def test_a_fault_without_a_name_is_refused_too():
    with pytest.raises(CheckError, match="differs from the formula by"):
        checks.attention_formula(lambda q, k, v, mask: attention(q, k, 1.01 * v, mask))
    with pytest.raises(CheckError, match=r"differs from the formula by 0\.0"):
        checks.attention_formula(
            lambda q, k, v, mask: (attention(q, k, v, mask)[0], attention(q, k, v, mask)[1] * 0.99)
        )
    with pytest.raises(CheckError, match=r"the context should have the shape \(2, 5, 3\), not \(2, 5, 2\)"):
        checks.attention_formula(lambda q, k, v, mask: attention(q, k, v[..., :2], mask))
    with pytest.raises(CheckError, match=r"the context should have the shape \(2, 5, 3\), not \(2, 3, 5\)"):
        checks.attention_formula(lambda q, k, v, mask: (attention(q, k, v, mask)[0].mT, attention(q, k, v, mask)[1]))
    with pytest.raises(CheckError, match="must return two tensors"):
        checks.attention_formula(lambda q, k, v, mask: attention(q, k, v, mask)[0])


def always_causal(query, key, value, mask):
    mask = None if mask is None else torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    return attention(query, key, value, mask)


def only_three_dimensions(query, key, value, mask):
    context, weights = attention(*(x.reshape(-1, *x.shape[-2:]) for x in (query, key, value)), mask)
    return context, weights


def test_masks_and_shapes_of_every_kind_are_tried():
    for wrong in (always_causal, only_three_dimensions):
        with pytest.raises(CheckError, match="not attention"):
            checks.attention_formula(wrong)


# ---------------------------------------------------------------- classes
class Heads(nn.Module):
    """Multi-head attention, head by head, independent of checks.py, with places for faults."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, formula=plain, arrange=None, bias=False):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.num_heads = [num_heads]  # whatever a class calls it, the check must not touch it
        self.frozen = nn.Parameter(torch.ones(context_length, context_length).tril(), requires_grad=False)
        self.dropout, self.formula, self.arrange = nn.Dropout(dropout), formula, arrange or (lambda c: torch.cat(c, -1))

    def forward(self, x):
        mask = self.frozen[: x.shape[1], : x.shape[1]] == 1
        contexts = []
        for W in zip(
            *(W(x).chunk(self.num_heads[0], -1) for W in (self.W_query, self.W_key, self.W_value)), strict=True
        ):
            contexts.append(self.dropout(self.formula(*W, mask)[1]) @ W[2])
        return self.out_proj(self.arrange(contexts))


def scrambled(split=True, join=True):
    class Scrambled(MultiHeadAttention):
        def split_heads(self, x):
            return x.reshape(x.shape[0], 3, x.shape[1], 4) if split else super().split_heads(x)

        def join_heads(self, x):
            return x.reshape(x.shape[0], x.shape[2], 12) if join else super().join_heads(x)

    return Scrambled


class Unprojected(Heads):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.project, self.arrange = self.arrange, lambda c: torch.cat(c, -1)

    def forward(self, x):
        out_proj, self._modules["out_proj"] = self.out_proj, nn.Identity()
        result = super().forward(x)
        self._modules["out_proj"] = out_proj
        return result


class InTurn(MultiHeadAttention):
    def split_heads(self, x):
        return x.view(*x.shape[:2], 4, 3).permute(0, 3, 1, 2)


class OneHead(Heads):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads):
        super().__init__(d_in, d_out, context_length, dropout, 1)


class AlwaysDropping(MultiHeadAttention):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5)


def heads(**options):
    return lambda *sizes: Heads(*sizes, **options)


SPLIT, JOINED, BOTH, TURN, ORDER, ONE_HEAD, PROJECTION, *_ = multi_head_mistakes(attention, 3)
BEHIND_AN_OUTPUT = {"added": FINITE, "added, smallest": FINITE, "inverted but for itself": UPSIDE_DOWN}
MULTI_HEAD_FAULTS = {
    "one head": (ONE_HEAD, OneHead),
    "split by view": (SPLIT, scrambled(join=False)),
    "joined by view": (JOINED, scrambled(split=False)),
    "both by view": (BOTH, scrambled()),
    "in turn": (TURN, InTurn),
    "reversed": (ORDER, heads(arrange=lambda c: torch.cat(c[::-1], -1))),
    "rolled": (ORDER, heads(arrange=lambda c: torch.cat([c[1], c[2], c[0]], -1))),
    "two exchanged": (ORDER, heads(arrange=lambda c: torch.cat([c[0], c[2], c[1]], -1))),
    "number by number": (ORDER, heads(arrange=lambda c: torch.stack(c, -1).flatten(2))),
    "projection unused": (PROJECTION, Unprojected),
    "projection missing": (PROJECTION, lambda i, o, *rest: CausalAttention(i, o, *rest[:2])),
    "dropout left on": ("dropout is left on in evaluation", AlwaysDropping),
} | {
    fault: (BEHIND_AN_OUTPUT.get(fault, name), heads(formula=lambda *case, options=options: plain(*case, **options)))
    for fault, (name, options) in FORMULA_FAULTS.items()
    if fault not in ("filled with -1.79769e+308", "dim=1")  # no input shows the first; the second has no batch here
}


@pytest.mark.parametrize("fault", MULTI_HEAD_FAULTS)
def test_each_mistake_of_several_heads_is_called_by_its_name(fault):
    name, build = MULTI_HEAD_FAULTS[fault]
    torch.manual_seed(0)
    with pytest.raises(CheckError) as error:
        checks.multi_head(build)
    assert str(error.value) == f"not multi-head attention: {name}"


def test_multi_head_accepts_what_is_right_and_changes_nothing_else():
    checks.multi_head(MultiHeadAttention)
    checks.multi_head(lambda *sizes: MultiHeadAttention(*sizes, qkv_bias=True, out_bias=False))
    checks.multi_head(Heads)
    checks.multi_head(heads(bias=True, formula=pytorchs))


def test_what_is_no_multi_head_attention_gets_one_sentence():
    faults = {
        "it has no linear layer W_query": lambda *sizes: nn.Identity(),
        "differs from the formula by": heads(formula=lambda q, k, v, mask: attention(q.exp(), k, v, mask)),
        "it raises TypeError": lambda: None,
        "it raises RuntimeError": type(  # a mask that is not cut to a shorter text
            "M",
            (MultiHeadAttention,),
            {
                "forward": lambda self, x: (
                    super(type(self), self).forward(x)
                    + 0 * self.mask[0, 0] * (self.mask.float() @ torch.ones(5, 12)).double()
                )
            },
        ),
        "it returns a tuple": type("T", (MultiHeadAttention,), {"forward": lambda self, x: (x, x)}),
        r"the output has the shape \(2, 5, 6\)": type("S", (MultiHeadAttention,), {"forward": lambda self, x: x}),
        r"the output has the shape \(2, 12, 5\) instead of \(2, 5, 12\)": type(
            "R", (MultiHeadAttention,), {"forward": lambda self, x: super(type(self), self).forward(x).mT}
        ),
        "it has no linear layer out_proj": type(
            "Q", (MultiHeadAttention,), {"out_proj": property(lambda self: nn.Sequential(nn.Linear(12, 12)))}
        ),
    }
    for words, build in faults.items():
        with pytest.raises(CheckError, match=f"not multi-head attention: .*{words}"):
            checks.multi_head(build)
