"""Wrong formulas are named and right ones pass; so are leaks of the future, and rows that are no weights."""

import pytest
import torch
from attention_formulas import RIGHT_FORMULAS, WRONG_FORMULAS

from helpers.core.attention import attention, causal_mask
from helpers.grading import checks
from helpers.support.errors import CheckError


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
