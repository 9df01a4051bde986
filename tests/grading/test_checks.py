"""Every check is itself checked: right answers pass, wrong ones are refused, known mistakes by their name."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

from helpers.core.attention import MultiHeadAttention, attention, causal_mask
from helpers.grading import checks
from helpers.support.errors import CheckError, ConfigError
from helpers.world.book import CausalAttention, MultiHeadAttentionWrapper


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


# ---------------------------------------------------------------- dropout
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
