"""What paired differences show, and what they don't: the same two questions for every study."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.special import stdtrit  # the inverse of Student's t


class Verdict(NamedTuple):
    """`says`: worse, better, slightly worse, slightly better, no difference, or undecided."""

    mean: float  # of the differences; above 0 is worse
    low: float  # its 95 % interval
    high: float
    says: str


def verdict(differences: Sequence[float], margin: float) -> Verdict:
    """What differences say, by seed: loss with the change minus without.

    The interval is Student's. Is zero outside? Then the change is worse, or better. Does all of the
    interval lie within the margin? Then it makes no difference, or one that is slight. Neither:
    undecided. The margin must be fixed before the differences are seen.
    """
    mean = fmean(differences)
    error = stdev(differences) / math.sqrt(len(differences))
    half = float(stdtrit(len(differences) - 1, 0.975)) * error
    low, high = mean - half, mean + half
    same = -margin <= low and high <= margin
    if low <= 0 <= high:
        says = "no difference" if same else "undecided"
    else:
        says = ("slightly " if same else "") + ("worse" if mean > 0 else "better")
    return Verdict(mean, low, high, says)
