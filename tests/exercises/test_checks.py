"""Values that should be close, rows of weights, and refusals: right ones pass, wrong ones are refused."""

import pytest
import torch

from exercises.formula import check_attention
from exercises.heads import check_heads
from helpers import checks
from helpers.attention import MultiHeadAttention, attention
from helpers.errors import CheckError, ConfigError


# ---------------------------------------------------------------- values
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


# ---------------------------------------------------------------- rows
def test_rows_sum_to_one():
    scores = torch.randn(2, 4, 4)
    checks.rows_sum_to_one(scores.softmax(-1))
    with pytest.raises(CheckError, match="the columns do: is the softmax taken over the queries"):
        checks.rows_sum_to_one(scores.softmax(-2))
    with pytest.raises(CheckError, match="do not sum to 1"):
        checks.rows_sum_to_one(scores.softmax(-1) * 0.9)
    with pytest.raises(CheckError, match="negative"):
        checks.rows_sum_to_one(torch.tensor([[2.0, -1.0]]))


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


def test_no_check_touches_the_global_generator():
    """A reader who seeds once gets the same numbers with a check in between and without one."""
    torch.manual_seed(5)
    before = torch.get_rng_state()
    check_attention(attention)
    check_heads(MultiHeadAttention)
    assert torch.equal(torch.get_rng_state(), before)
