"""Variants against the whole model: each interval is drawn where it lies, and the search where it tried."""

import pytest

from helpers.rooms.verdicts import verdict
from pictures import changes

WORSE, SAME = verdict([0.2, 0.3, 0.25, 0.22], 0.05), verdict([0.01, -0.01, 0.0, 0.005], 0.05)
BETTER = verdict([-0.1, -0.12, -0.11, -0.1], 0.05)


def lines_of(ax):
    return [list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in ax.lines]


def test_verdicts_stand_by_group_the_lowest_on_top_with_their_intervals(drawn):
    changes.verdicts({"a": WORSE, "b": SAME, "c": BETTER}, {"first": ["a"], "then": ["b", "c"]}, 0.05, (-0.2, 0.4))
    ((ax, alt),) = drawn
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "c", "b"]
    for y, v in zip(ax.get_yticks(), (WORSE, BETTER, SAME), strict=True):
        assert [(v.low, y), (v.high, y)] in lines_of(ax) and [(v.mean, y)] in lines_of(ax)
    assert alt.index(f"a {WORSE.mean:+.3f}, worse") < alt.index(f"c {BETTER.mean:+.3f}, better") < alt.index("b ")


def test_damages_stand_above_their_budgets_with_their_intervals(drawn):
    judged = {(400, "a"): WORSE, (6000, "a"): SAME, (400, "b"): SAME, (6000, "b"): BETTER}
    changes.by_budget(judged, ["a", "b"])
    ((ax, alt),) = drawn
    assert [label.get_text() for label in ax.get_xticklabels()] == ["400 steps", "6,000 steps"]
    for name in "ab":
        (line,) = (line for line in lines_of(ax) if [y for _, y in line] == [judged[n, name].mean for n in (400, 6000)])
        assert [round(x) for x, _ in line] == [0, 1]
    assert sum([y for _, y in line] == [SAME.low, SAME.high] for line in lines_of(ax)) == 2
    assert "a +0.24, +0.00; b +0.00, -0.11" in alt


def test_the_search_tells_what_was_tried_first(drawn):
    changes.search({0.1: [3.3, 3.4], 0.01: [2.0, 2.2], 0.2: [3.3, 3.3]}, (0.1, 0.2), 3.35, "frequencies")
    ((ax, alt),) = drawn
    dots = {line.get_xdata()[0]: line.get_color() for line in ax.lines if line.get_marker() == "o"}
    assert dots == {0.01: changes.BLUE, 0.1: changes.ORANGE, 0.2: changes.ORANGE}
    line = next(line for line in ax.lines if len(set(line.get_xdata())) == 3)
    assert line.get_ydata() == pytest.approx([2.1, 3.35, 3.3])
    assert "0.01 2.10; 0.1 3.35; 0.2 3.30" in alt and "frequencies: 3.35" in alt
