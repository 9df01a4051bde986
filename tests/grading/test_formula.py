"""The attention formula: right ones pass however they are written, and each mistake is called by its name."""

import pytest
import torch
from attention_formulas import RIGHT_FORMULAS, WRONG_FORMULAS

from helpers.attention import attention
from helpers.errors import CheckError
from helpers.grading import checks

pytestmark = pytest.mark.usefixtures("unchecked")  # it asks thousands of wrong answers


@pytest.mark.parametrize("fault", WRONG_FORMULAS)
@pytest.mark.filterwarnings("ignore:The use of `x.T`")
def test_every_wrong_formula_is_named(fault):
    words, candidate = WRONG_FORMULAS[fault]
    with pytest.raises(CheckError) as error:
        checks.attention_formula(candidate)
    assert words in str(error.value)


@pytest.mark.parametrize("candidate", RIGHT_FORMULAS, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_every_right_formula_passes(candidate):
    checks.attention_formula(candidate)


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


def test_a_finite_mask_that_spares_empty_rows_is_found_on_low_scores():
    def spares(query, key, value, mask=None):
        _, weights = WRONG_FORMULAS["filled with -1e+20"][1](query, key, value, mask)
        weights = weights if mask is None else weights * mask.any(-1, keepdim=True)
        return weights @ value, weights

    with pytest.raises(CheckError, match="forbidden keys get weight"):
        checks.attention_formula(spares)


def test_what_is_no_attention_at_all_gets_one_sentence():
    with pytest.raises(CheckError, match="it raises ZeroDivisionError: division by zero"):
        checks.attention_formula(lambda *case: 1 / 0)
    with pytest.raises(CheckError, match="it returns a NoneType, which is no number and no tensor"):
        checks.attention_formula(lambda *case: (attention(*case)[0], None))
    with pytest.raises(CheckError, match="it raises TypeError"):
        checks.attention_formula(lambda query: None)


@pytest.mark.slow
def test_a_fault_without_a_name_is_refused_too():
    with pytest.raises(CheckError, match=r"it gives .* where -0\.3264 is right"):
        checks.attention_formula(lambda q, k, v, mask: attention(q, k, 1.01 * v, mask))
    with pytest.raises(CheckError, match=r"it gives .* where 0\.\d+ is right"):
        checks.attention_formula(
            lambda q, k, v, mask: (attention(q, k, v, mask)[0], attention(q, k, v, mask)[1] * 0.99)
        )
    with pytest.raises(CheckError, match=r"it has the shape \(2, 5, 2\) and should have \(2, 5, 3\)"):
        checks.attention_formula(lambda q, k, v, mask: attention(q, k, v[..., :2], mask))
    with pytest.raises(CheckError, match=r"it has the shape \(2, 3, 5\) and should have \(2, 5, 3\)"):
        checks.attention_formula(lambda q, k, v, mask: (attention(q, k, v, mask)[0].mT, attention(q, k, v, mask)[1]))
    with pytest.raises(CheckError, match="it should return 2 things in a tuple"):
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
