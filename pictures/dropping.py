"""Lesson 05's pictures: what dropout leaves of a name, how rates compare, and what was learned by heart."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from helpers.tables import Line, column, spread
from pictures.plotting import COLORS, SIGNED, bare, colored, figure, show

GREY_FIRST = ("#777777", *COLORS)


def bar_codes(name: str, numbers: Float[Tensor, "C"], keeps: Mapping[str, Bool[Tensor, "C"]], p: float) -> None:
    """A word's numbers as a bar code, once for each row of `keeps`; what isn't kept is crossed out.

    Where something is missing, the others are divided by 1 - p.
    """
    C = len(numbers)
    _, ax = figure(9, 0.7 * len(keeps))
    for y, (title, keep) in enumerate(keeps.items()):
        code = numbers * keep / (1 if keep.all() else 1 - p)
        extent = (0, C, -y - 0.8, -y)
        ax.imshow(code[None].numpy(), extent=extent, aspect="auto", cmap=SIGNED, clim=(-0.4, 0.4))
        ax.vlines(range(C + 1), -y - 0.8, -y, color="white", linewidth=1.5)
        gone = [i + 0.5 for i, stays in enumerate(keep) if not stays]
        ax.plot(gone, [-y - 0.4] * len(gone), "x", color="#777777", markersize=6)
        ax.text(-0.5, -y - 0.4, title, ha="right", va="center")
    ax.set(xlim=(-6, C), ylim=(-len(keeps) + 0.1, 0.1))
    ax.axis("off")
    counts = ", ".join(f"{title}: {int(keep.sum())}" for title, keep in keeps.items())
    show(f"The {C} numbers of {name} as bar codes. How many are left: {counts}.")


def curve(rights: Mapping[str, Mapping[float, Sequence[float]]]) -> None:
    """The share of right answers against the share that is dropped: a line through the means, a dot a seed."""
    _, ax = figure(7.5, 3.8)
    phrases = []
    for i, ((name, by_rate), color) in enumerate(colored(rights.items(), GREY_FIRST)):
        means = [sum(row) / len(row) for row in by_rate.values()]
        ax.plot(list(by_rate), means, color=color, lw=2)
        for p, row in by_rate.items():
            ax.plot([p] * len(row), row, "o", color=color, markersize=4, alpha=0.4)
        middle = list(by_rate)[len(by_rate) // 2]
        at = (middle, means[len(by_rate) // 2])
        offset = (0, (8, -26, 14)[i % 3])
        ax.annotate(name, at, offset, textcoords="offset points", color=color, ha="center")
        phrases.append(f"{name} " + ", ".join(f"{mean:.2f}" for mean in means))
    ax.set(xlabel="share of numbers dropped, p", ylabel="share right", ylim=(0, 1.15))
    rates = ", ".join(f"{p:g}" for p in next(iter(rights.values())))
    show(f"Right answers where {rates} of the numbers are dropped: {'; '.join(phrases)}.")


def rights(rows: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Shares of right answers: a row for each kind of student, in it a colour for each exam, a dot a seed."""
    _, ax = figure(8, 0.8 + 0.5 * len(rows))
    exams = list(next(iter(rows.values())))
    for y, by_exam in enumerate(rows.values()):
        for exam, color in colored(exams):
            shares = by_exam[exam]
            ax.plot(shares, [y] * len(shares), "o", color=color, markersize=4, alpha=0.35)
            ax.plot(
                fmean(shares), y, "|", color=color, markersize=18, markeredgewidth=3, label=exam if y == 0 else None
            )
    ax.set_yticks(range(len(rows)), list(rows))
    ax.invert_yaxis()
    ax.set(xlabel="share right", xlim=(-0.03, 1.03))
    bare(ax)
    if len(exams) > 1:
        ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(exams))
    show(f"Shares of right answers as dots, a row for each kind of student: {', '.join(rows)}.")


def part_of_the_lead(parts: Mapping[str, Float[Tensor, "n"]]) -> None:
    """For each kind of student, which part of its lead one card makes: a dot for each scene, and the median."""
    _, ax = figure(8, 0.8 + 0.8 * len(parts))
    dice = torch.Generator().manual_seed(0)
    for y, (row, color) in enumerate(colored(parts.values(), GREY_FIRST)):
        shown = row.clamp(-0.5, 1.5)
        jitter = y + 0.5 * (torch.rand(len(row), generator=dice) - 0.5)
        ax.plot(shown.tolist(), jitter.tolist(), "o", color=color, markersize=3, alpha=0.4)
        ax.vlines(row.median(), y - 0.38, y + 0.38, color="black", linewidth=2.5)
    ax.set_yticks(range(len(parts)), list(parts))
    ax.invert_yaxis()
    ax.set(xlabel="part of the lead that comes from the card with the answer", xlim=(-0.55, 1.55))
    ax.set_xticks([0, 0.5, 1], ["nothing", "half", "all of it"])
    bare(ax)
    show(f"Dots for scenes, a row for each kind of student: {', '.join(parts)}. A black line marks each median.")


# ---------------------------------------------------------------- the study
def share_right(shares: Sequence[float]) -> str:
    return spread(shares, ".0%", " right")


def hidden(students: Sequence[Line]) -> None:
    """New scenes, and own ones without the needed card, by what was hidden; `students` are thin_book.csv's lines."""
    usual = {"size": 50, "steps": 300, "rate": 0.01}
    rows = {}
    for label, what, strength in (
        ("nothing", "nothing", 0.0),
        ("numbers of words", "words", 0.5),
        ("numbers of looks", "numbers of looks", 0.5),
        ("whole words", "whole words", 0.25),
        ("whole looks", "looks", 0.25),
        ("looks at the answer's card only", "the needed card", 0.5),
        ("looks at the other cards only", "all other cards", 0.5),
    ):
        new, gone = (column(students, exam, hidden=what, strength=strength, **usual) for exam in ("new", "own_without"))
        rows[label] = {"new scenes": new, "its own, card taken away": gone}
        print(f"{label:32} new {share_right(new)}, card gone {share_right(gone)}")
    rights(rows)


def dull_ways(students: Sequence[Line]) -> None:
    """Right answers to new scenes: ways to keep a student from learning by heart, each at its best strength."""
    ways = {
        "nothing": [{"hidden": "nothing"}],
        "a narrower student": [{"hidden": "width"}],
        "stopped early": [{"hidden": "nothing", "steps": steps} for steps in (10, 20, 40, 80, 160)],
        "an eighth of the rate, 1,200 steps": [{"hidden": "nothing", "steps": 1200, "rate": 0.00125}],
        "weight decay, in the loss": [{"hidden": "L2"}],
        "weight decay, in the step": [{"hidden": "AdamW"}],
        "noise on the words": [{"hidden": "noise on words"}],
        "dropout on the words": [{"hidden": "words"}],
    }
    rows = {}
    for label, settings in ways.items():
        groups = []
        for setting in settings:
            these = {"size": 50, "steps": 300, "rate": 0.01} | setting
            strengths = dict.fromkeys(column(students, "strength", **these))
            groups += [column(students, "new", strength=strength, **these) for strength in strengths]
        rows[label] = {"new scenes": max(groups, key=sum)}
        print(f"{label:36} {share_right(rows[label]['new scenes'])}")
    rights(rows)
    decayed = {"hidden": "L2", "strength": 0.003}
    own, new, gone = (share_right(column(students, exam, **decayed)) for exam in ("own", "new", "own_without"))
    print(f"decay in the loss (0.003): new {new}, its own {own}, card gone {gone}")
