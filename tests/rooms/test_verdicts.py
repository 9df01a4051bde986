"""Verdicts: what they say, and how often their intervals hold the truth."""

import math

import pytest
import torch

from helpers.rooms.verdicts import verdict


def test_by_hand():
    """Differences 1, 2, 3: mean 2, standard error 1 / sqrt(3), and with two degrees of freedom the
    interval reaches 4.3027 of it.
    """
    found = verdict([1.0, 2.0, 3.0], margin=0.5)
    half = 4.30265 / math.sqrt(3)
    assert found.mean == 2 and found.says == "undecided"
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half), rel=1e-5)


@pytest.mark.parametrize(
    ("mean", "says"),
    [
        (1.0, "worse"),
        (-1.0, "better"),
        (0.02, "slightly worse"),
        (-0.02, "slightly better"),
        (0.0, "no difference"),
        (0.048, "worse"),  # its interval leaves the margin
    ],
)
def test_what_is_said(mean, says):
    spread = torch.linspace(-0.01, 0.01, 8, dtype=torch.float64)
    assert verdict((spread + mean).tolist(), 0.05).says == says


def test_equal_differences_are_certain():
    assert verdict([0.0] * 4, 0.05) == (0, 0, 0, "no difference")
    assert verdict([0.25] * 4, 0.05) == (0.25, 0.25, 0.25, "worse")
    assert verdict([-2.0, 3.0], 0.05).says == "undecided"


@pytest.mark.slow
def test_the_intervals_hold_the_truth_in_95_percent_of_cases():
    generator = torch.Generator().manual_seed(7)
    cases = 0.3 + torch.randn(2000, 8, generator=generator, dtype=torch.float64)
    verdicts = [verdict(case, 0.1) for case in cases.tolist()]
    missed = sum(not v.low <= 0.3 <= v.high for v in verdicts) / len(verdicts)
    luck = 5 * math.sqrt(0.05 * 0.95 / len(verdicts))
    assert abs(missed - 0.05) < luck
