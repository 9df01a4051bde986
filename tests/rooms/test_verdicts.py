"""Verdicts: what they say, how often they err, and their statistics, against printed tables."""

import math

import pytest
import torch

from helpers.errors import ConfigError
from helpers.rooms.verdicts import holm, verdicts


def test_one_row_by_hand():
    """Differences 1, 2, 3: mean 2, standard error 1 / sqrt(3), t = 3.4641.

    With two degrees of freedom the chance of more, on both sides, is 1 - t / sqrt(2 + t * t) =
    0.0742, and the interval reaches 4.3027 standard errors.
    """
    found = verdicts({"row": [1.0, 2.0, 3.0]}, margin=0.5)["row"]
    assert found.mean == 2 and found.p == pytest.approx(1 - math.sqrt(12 / 14), rel=1e-9)
    assert (
        (found.high - 2)
        == pytest.approx(2 - found.low)
        == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)
    )
    assert found.says == "undecided"
    # Against a margin of 5, the chance of a mean this low is that of t = (5 - 2) sqrt(3) = 5.196.
    assert verdicts({"row": [1.0, 2.0, 3.0]}, margin=5)["row"].p_same == pytest.approx(
        (1 - math.sqrt(27 / 29)) / 2, rel=1e-9
    )
    with pytest.raises(
        ConfigError, match="no MLP: a verdict takes the differences of at least two"
    ):
        verdicts({"no MLP": [0.1]}, 0.05)


def test_what_is_said():
    spread = torch.linspace(-0.01, 0.01, 8, dtype=torch.float64)
    rows = {
        "far above": 1.0,
        "far below": -1.0,
        "a little above": 0.02,
        "a little below": -0.02,
        "none": 0.0,
    }
    found = verdicts(
        {name: (spread + mean).tolist() for name, mean in rows.items()} | {"wide": [-2.0, 3.0]},
        0.05,
    )
    assert {name: verdict.says for name, verdict in found.items()} == {
        "far above": "worse",
        "far below": "better",
        "a little above": "slightly worse",
        "a little below": "slightly better",
        "none": "no difference",
        "wide": "undecided",
    }


def test_holm_by_hand():
    """0.01 times 4, 0.013 times 3, 0.03 times 2; 0.04 must not fall below the one before."""
    assert holm({"a": 0.03, "b": 0.01, "c": 0.04, "d": 0.013}) == pytest.approx(
        {"a": 0.06, "b": 0.04, "c": 0.06, "d": 0.04}
    )
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0} and holm({}) == {}


def test_equal_differences_are_certain_and_none_at_all_are_none():
    found = verdicts({"nothing changed": [0.0] * 4, "the same each time": [0.25] * 4}, margin=0.05)
    assert [verdict.says for verdict in found.values()] == ["no difference", "worse"]
    assert found["nothing changed"].p == 1 and found["the same each time"].low == pytest.approx(
        0.25
    )


# ---------------------------------------------------------------- by simulation
def drawn(tables, rows, seeds, mean=0.0):
    """Differences that share a study's baseline: (tables, rows, seeds), around `mean`."""
    generator = torch.Generator().manual_seed(7)
    changed = torch.randn(tables, rows, seeds, generator=generator, dtype=torch.float64)
    whole = torch.randn(tables, 1, seeds, generator=generator, dtype=torch.float64)
    return (changed - whole + mean).tolist()


def share(count, tables):
    """The share of `count`, and five standard errors of a share of 5 %: luck does not fail a test."""
    return count / tables, 5 * math.sqrt(0.05 * 0.95 / tables)


@pytest.mark.slow
def test_the_intervals_hold_the_truth_in_95_percent_of_cases():
    cases = drawn(tables=2000, rows=1, seeds=8, mean=0.3)
    found = [verdicts({"row": rows[0]}, 0.1)["row"] for rows in cases]
    missed, luck = share(sum(not v.low <= 0.3 <= v.high for v in found), len(found))
    assert abs(missed - 0.05) < luck


@pytest.mark.slow
def test_a_false_claim_anywhere_in_a_table_is_as_rare_as_the_level():
    """If nothing differs, 5 % of tables say that something does; without Holm 25 % or more."""
    cases = drawn(tables=300, rows=12, seeds=8)
    found = [list(verdicts(dict(enumerate(rows)), 1e-6).values()) for rows in cases]
    wrong, luck = share(
        sum(any(v.says in ("worse", "better") for v in table) for table in found), len(found)
    )
    assert 0.02 < wrong < 0.05 + luck
    uncorrected = sum(any(not v.low <= 0 <= v.high for v in table) for table in found) / len(found)
    assert uncorrected > 0.25
