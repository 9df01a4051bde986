"""Every check is itself checked: right answers pass, wrong ones are refused, known mistakes by their name."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers import checks
from helpers.attention import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper, attention, causal_mask
from helpers.checks import mistakes
from helpers.checks.heads import multi_head_mistakes
from helpers.checks.mistakes import ADDED, FINITE, FORGOTTEN, INVERTED, ROOT, UPSIDE_DOWN, WIDTH, ZERO
from helpers.errors import CheckError, ConfigError


# ---------------------------------------------------------------- properties
def test_close():
    checks.close(torch.ones(2), torch.ones(2) + 1e-7)
    with pytest.raises(CheckError, match=r"1 of 2 entries differ, the first at \(1,\): 1 and 2"):
        checks.close(torch.ones(2), torch.tensor([1.0, 2.0]))
    with pytest.raises(CheckError, match="the shapes differ"):
        checks.close(torch.ones(2), torch.ones(2, 1))
    with pytest.raises(CheckError):
        checks.close(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    checks.close(torch.tensor([-torch.inf, 1.0]), torch.tensor([-torch.inf, 1.0]))
    with pytest.raises(CheckError, match=r"the shapes differ: \(2, 3\) and \(3, 2\)"):  # as many numbers
        checks.close(torch.ones(2, 3), torch.ones(3, 2))


@pytest.mark.parametrize("sign", [-1, 1])
def test_tolerances_are_what_they_say(sign):
    zero = torch.zeros(3, dtype=torch.float64)
    for tolerance, options in ((1e-6, {}), (0.5, {"tolerance": 0.5})):
        checks.close(zero, zero + sign * 0.9 * tolerance, **options)
        with pytest.raises(CheckError, match="3 of 3 entries differ"):
            checks.close(zero, zero + sign * 1.1 * tolerance, **options)

    rows = torch.full((2, 4), 0.25, dtype=torch.float64)
    checks.rows_sum_to_one(rows * (1 + sign * 0.9e-5))
    with pytest.raises(CheckError, match="rows do not sum to 1"):
        checks.rows_sum_to_one(rows * (1 + sign * 1.1e-5))
    columns = torch.tensor([[0.2, 0.3], [0.8, 0.7]], dtype=torch.float64)
    for factor, named in ((0.9e-5, True), (1.1e-5, False)):
        with pytest.raises(CheckError) as error:
            checks.rows_sum_to_one(columns * (1 + sign * factor))
        assert ("the columns do" in str(error.value)) == named


def off_by(factor=0.0, shift=0.0):
    """Attention, its weights shifted and its context by a factor off."""

    def candidate(query, key, value, mask=None):
        context, weights = attention(query, key, value, mask)
        return context * (1 + factor), weights + shift

    return candidate


@pytest.mark.parametrize("sign", [-1, 1])
def test_attention_may_be_off_by_as_much_as_single_precision_and_not_by_more(sign):
    checks.attention_formula(off_by(factor=sign * 0.9e-5))
    checks.attention_formula(off_by(shift=-0.9e-6))  # above 0, it would be weight on what is forbidden
    with pytest.raises(CheckError, match="set to a finite number, which still gets weight"):
        checks.attention_formula(off_by(shift=1e-12))
    for wrong in (off_by(factor=sign * 1.3e-5), off_by(shift=sign * 1.3e-5)):
        with pytest.raises(CheckError, match="not attention"):
            checks.attention_formula(wrong)


# ---------------------------------------------------------------- what must be refused
def test_a_refusal_is_printed_and_must_be_the_one_that_was_meant(capsys):
    with checks.refused("not causal"):
        checks.causal(lambda x: x.flip(1), torch.randn(2, 6, 3))
    with checks.refused("3 heads"):
        MultiHeadAttention(8, 8, 6, 0.0, 3)  # a ConfigError
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("not causal: the output at position 0") and second.startswith("3 heads do not divide")

    with (
        pytest.raises(CheckError, match="nothing was refused: 'not causal' went unnoticed"),
        checks.refused("not causal"),
    ):
        checks.causal(lambda x: x, torch.randn(2, 6, 3))
    with pytest.raises(CheckError, match="refused, but not for 'inverted': 3 heads do not") as error:  # noqa: SIM117
        with checks.refused("inverted"):
            MultiHeadAttention(8, 8, 6, 0.0, 3)
    assert isinstance(error.value.__cause__, ConfigError)
    for other in (ValueError("inverted"), KeyboardInterrupt("inverted")):  # not ours, so not a refusal
        with pytest.raises(type(other)), checks.refused("inverted"):
            raise other
    assert capsys.readouterr().out == ""


# ---------------------------------------------------------------- causality and rows


def test_causality_is_tried_on_batches_of_different_tokens():
    for x in (torch.randn(6, 3), torch.randn(2, 1, 3), torch.ones(2, 6, 3), torch.zeros(2, 6, dtype=torch.long)):
        with pytest.raises(CheckError, match="causality is tried on"):
            checks.causal(lambda x: x, x)
    for other in (lambda x: x[:, :-1], lambda x: x.transpose(0, 1), lambda x: x.transpose(1, 2)):
        with pytest.raises(CheckError, match="not one row for each of 6 tokens"):
            checks.causal(other, torch.randn(2, 6, 3))


def test_rows_sum_to_one():
    scores = torch.randn(2, 4, 4)
    checks.rows_sum_to_one(scores.softmax(-1))
    with pytest.raises(CheckError, match="the columns do: is the softmax taken over the queries"):
        checks.rows_sum_to_one(scores.softmax(-2))
    with pytest.raises(CheckError, match="do not sum to 1"):
        checks.rows_sum_to_one(scores.softmax(-1) * 0.9)
    with pytest.raises(CheckError, match="negative"):
        checks.rows_sum_to_one(torch.tensor([[2.0, -1.0]]))


def test_causal():
    torch.manual_seed(0)
    heads, x = MultiHeadAttention(4, 4, 6, 0.0, 2), torch.randn(2, 6, 4)
    checks.causal(heads, x)
    checks.causal(lambda ids: ids.cumsum(1), torch.randint(9, (2, 6)))
    leaks = {
        "no mask": lambda x: attention(x, x, x)[0],
        "inverted": lambda x: attention(x, x, x, ~causal_mask(6) | torch.eye(6, dtype=torch.bool))[0],
        "one ahead": lambda x: attention(x, x, x, torch.ones(6, 6, dtype=torch.bool).tril(1))[0],
        "softmax over queries": lambda x: (x @ x.mT).masked_fill(~causal_mask(6), -torch.inf).softmax(-2) @ x,
        "an earlier output only": lambda x: torch.cat([x[:, :1] + x[:, 2:3], x[:, 1:]], dim=1),
        "sees the length only": lambda x: x + x[:, -1:],
    }
    for leak in leaks.values():
        with pytest.raises(CheckError, match="not causal"):
            checks.causal(leak, x)
    with pytest.raises(CheckError, match="not causal"):
        checks.causal(lambda ids: ids.flip(1).cumsum(1).flip(1), torch.randint(9, (2, 6)))


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


class Dropped(CausalAttention):
    """Causal attention with a dropout of one's own choice."""

    def __init__(self, on_scores=lambda x, _: x, on_weights=lambda x, _: x, after_mask=False):
        super().__init__(3, 4, 6, 0.5)
        self.on_scores, self.on_weights, self.after_mask = on_scores, on_weights, after_mask

    def forward(self, x):
        scores = self.W_query(x) @ self.W_key(x).mT / 2
        if not self.after_mask:
            scores = self.on_scores(scores, self.training)
        scores = scores.masked_fill(~self.mask, -torch.inf)
        if self.after_mask:
            scores = self.on_scores(scores, self.training)
        return self.on_weights(scores.softmax(-1), self.training) @ self.W_value(x)


def drop(x, training):
    return F.dropout(x, 0.5, training)


DROPOUT_FAULTS = {
    "left on in evaluation": lambda: Dropped(on_weights=lambda w, _: F.dropout(w, 0.5)),
    "never applied": lambda: Dropped(),
    "before the softmax": lambda: Dropped(on_scores=drop),
    "before the softmax: it": lambda: Dropped(on_scores=drop, after_mask=True),
    "must be divided by 1 - p": lambda: Dropped(on_weights=lambda w, on: w * (torch.rand_like(w) < 0.5) if on else w),
    "must be divided by": lambda: Dropped(on_weights=lambda w, on: w * (torch.rand_like(w) > 0.02) if on else w),
    "comes before the softmax: it must": lambda: Dropped(on_scores=drop, on_weights=drop),
}


@pytest.mark.parametrize("name", DROPOUT_FAULTS)
def test_dropout_in_the_wrong_place_is_named(name):
    torch.manual_seed(1)
    with pytest.raises(CheckError, match=name):
        checks.dropout(DROPOUT_FAULTS[name](), torch.randn(6, 3))


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_on_the_weights_passes(p):
    torch.manual_seed(1)
    x = torch.randn(6, 3)
    for module in (
        CausalAttention(3, 4, 6, p),
        MultiHeadAttention(3, 4, 6, p, 2),
        MultiHeadAttentionWrapper(3, 4, 6, p, 2),
        Dropped(on_weights=drop),
    ):
        checks.dropout(module, x)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("fault", [None, *DROPOUT_FAULTS])
def test_whatever_dropout_finds_the_mode_and_the_global_generator_stay_as_they_were(fault, training):
    module = (DROPOUT_FAULTS[fault]() if fault else Dropped(on_weights=drop)).train(training)
    module.W_query.train(not training)  # a layer of its own mind
    torch.manual_seed(7)
    x, state = torch.randn(6, 3), torch.get_rng_state()
    with pytest.raises(CheckError) if fault else nullcontext():
        checks.dropout(module, x)
    assert module.training is training and module.W_query.training is not training
    assert torch.equal(torch.get_rng_state(), state)


def test_the_verdict_on_dropout_does_not_depend_on_the_global_generator():
    x, draws = torch.randn(6, 3), []

    def drawing(weights, training):
        draws.append(torch.rand(3))
        return drop(weights, training)

    module = Dropped(on_weights=drawing)
    for seed in (1, 2):
        torch.manual_seed(seed)
        checks.dropout(module, x)
    first, second = torch.stack(draws).chunk(2)
    assert torch.equal(first, second)
