"""What a table of paired differences shows, and what it does not: one function for every study."""

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple, TypeVar

from scipy.special import stdtr, stdtrit  # Student's t: its share below a number, and the inverse

from helpers.errors import ConfigError

Row = TypeVar("Row", bound=Hashable)
LEVEL = 0.05  # the chance of a false claim


class Verdict(NamedTuple):
    """One row's answer.

    `says` is one of: worse, better, slightly worse, slightly better, no difference, undecided.
    """

    mean: float  # of the differences; above 0 is worse
    low: float  # the 95 % interval of this row alone
    high: float
    p: float  # of "no difference at all", after Holm's correction
    p_same: float  # of "a difference of the margin or more", after Holm's correction
    says: str


def verdicts(differences: Mapping[Row, Sequence[float]], margin: float) -> dict[Row, Verdict]:
    """A verdict for each row, from its differences: by seed, loss with the change minus without.

    Student's t for paired differences. A row is "worse" or "better" where no difference at all is
    refuted, and "no difference" where one of `margin` or more is refuted, in either direction (two
    one-sided tests, Schuirmann 1987); "slightly" so where both are, and "undecided" where neither
    is. Each kind of claim is corrected over all rows (Holm 1979): as long as the differences are
    roughly normal, the chance of one or more false claims of a kind in the whole table is at most
    LEVEL. The margin must be fixed before the differences are seen. ConfigError for a row with
    fewer than two differences or with one that is no number.
    """
    estimates = {row: _estimate(row, values) for row, values in differences.items()}
    p_differs = {}
    p_same = {}
    for row, (mean, error, df) in estimates.items():
        p_differs[row] = float(2 * stdtr(df, -abs(mean) / error))
        p_same[row] = float(stdtr(df, -(margin - abs(mean)) / error))
    p_differs = holm(p_differs)
    p_same = holm(p_same)

    judged = {}
    for row, (mean, error, df) in estimates.items():
        half = float(stdtrit(df, 1 - LEVEL / 2)) * error
        says = _says(mean, differs=p_differs[row] <= LEVEL, same=p_same[row] <= LEVEL)
        judged[row] = Verdict(mean, mean - half, mean + half, p_differs[row], p_same[row], says)
    return judged


def _estimate(row: object, values: Sequence[float]) -> tuple[float, float, int]:
    """Mean, standard error (never 0: equal differences are certain), and degrees of freedom."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        raise ConfigError(
            f"{row}: a verdict takes the differences of at least two seeds, all of them numbers"
        )
    error = stdev(values) / math.sqrt(len(values))
    return fmean(values), max(error, sys.float_info.min), len(values) - 1


def _says(mean: float, differs: bool, same: bool) -> str:
    """The verdict in words: is a difference certain, and is it surely within the margin?"""
    if not differs:
        return "no difference" if same else "undecided"
    direction = "worse" if mean > 0 else "better"
    return f"slightly {direction}" if same else direction


def holm(p: Mapping[Row, float]) -> dict[Row, float]:
    """Adjusted p-values (Holm 1979), which never fall.

    The smallest is taken times the number of rows, the next one times one less, and so on.
    """
    adjusted = {}
    highest = 0.0
    for place, row in enumerate(sorted(p, key=p.__getitem__)):
        highest = max(highest, min(1.0, (len(p) - place) * p[row]))
        adjusted[row] = highest
    return {row: adjusted[row] for row in p}
