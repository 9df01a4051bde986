"""The scoreboard: what each part of attention is worth in Verona, a row for each part, seed by seed.

A notebook prints its own rows and sees them drawn under those of the notebooks before it, which are
read from a table in notebooks/measured/.
"""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

from helpers.errors import ConfigError
from helpers.tables import MEASURED
from pictures import plotting

STORED = MEASURED / "scoreboard.csv"
COLUMNS = ["notebook", "part", "question", "without", "with"]
WITHOUT = plotting.COLORS[1]
WITH = plotting.COLORS[0]
# How often a blind guess is right: what stands on any of the six cards, but for three questions.
ANY_CARD = 1 / 6
BLIND = {
    "what does romeo give? 6 layers, 100 steps": 1 / 8,  # it has not even found which things stand on cards
    "what does romeo give and get?": 1 / 30,  # the one card, and then the other
    "what is brewed from both?": 1 / 8,  # one of eight things, on a card or not
}


@dataclass(frozen=True)
class Row:
    """What a part of attention is worth: accuracies without it and with it, one for each seed."""

    notebook: str  # its number, such as 03 or 02b
    part: str
    question: str
    without: tuple[float, ...]
    having: tuple[float, ...]

    def __str__(self) -> str:
        name = f"{self.notebook} {self.part}"
        return f"{name} | {self.question} | without {_digits(self.without)} | with {_digits(self.having)}"


def _digits(side: Sequence[float]) -> str:
    return " ".join(f"{accuracy:.2f}" for accuracy in side)


def read_line(line: str) -> Row:
    """The row that `scoreboard` printed. ConfigError for any other line."""
    match = re.fullmatch(r"(\d+b?) (.*?) \| (.*?) \| without (.+?) \| with (.+)", line.strip())
    try:
        if not match:
            raise ValueError
        notebook, part, question, without, having = match.groups()
        return Row(notebook, part, question, _accuracies(without), _accuracies(having))
    except ValueError:
        raise ConfigError(
            f'not a row of the scoreboard: {line!r}; one looks like "03 value | question | without 0.5 | with 1.0"'
        ) from None


def _accuracies(digits: str) -> tuple[float, ...]:
    return tuple(map(float, digits.split()))


def to_csv(rows: Sequence[Row]) -> str:
    """The rows as a table, a line for each seed.

    ConfigError when a row has not as many seeds without as with.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in rows:
        if len(row.without) != len(row.having):
            raise ConfigError(
                f"{row.part} needs the same seeds without and with: {len(row.without)}, {len(row.having)}"
            )
        for without, having in zip(row.without, row.having, strict=True):
            table.writerow([row.notebook, row.part, row.question, f"{without:.2f}", f"{having:.2f}"])
    return text.getvalue()


def from_csv(text: str) -> list[Row]:
    """The rows of such a table, in its order."""
    sides: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for line in csv.DictReader(io.StringIO(text)):
        key = (line["notebook"], line["part"], line["question"])
        sides.setdefault(key, []).append((float(line["without"]), float(line["with"])))
    rows = []
    for key, pairs in sides.items():
        without, having = zip(*pairs, strict=True)
        rows.append(Row(*key, without, having))
    return rows


# ---------------------------------------------------------------- drawn
def scoreboard(*live: Row, measured: Path = STORED) -> None:
    """Print this notebook's rows and draw them under those of earlier notebooks."""
    print(*live, sep="\n")
    stored = from_csv(measured.read_text(encoding="utf-8")) if measured.exists() else []
    rows = [row for row in stored if row.notebook < live[0].notebook] + list(live)
    _, ax = plotting.figure(7.6, 1.3 + 0.62 * len(rows))
    for y, row in enumerate(rows):
        _draw(ax, y, row, bold=row in live)
    ax.set(xlim=(-0.03, 1.03), ylim=(len(rows) - 0.5, -0.75))
    ax.set_xlabel("share of right answers (a dot for each seed; dashed: a blind guess)")
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
    ax.grid(axis="x", color="#E5E5E5", zorder=0)
    ax.set_yticks([])
    plotting.bare(ax)
    phrases = [f"{row.part} {_spread(row.without)} without it and {_spread(row.having)} with it" for row in rows]
    plotting.show(f"The scoreboard, worst to best seed: {'; '.join(phrases)}.")


def _draw(ax: Axes, y: int, row: Row, bold: bool) -> None:
    weight = "bold" if bold else "normal"
    ax.text(
        -0.09,
        y - 0.02,
        f"{row.notebook}  {row.part}",
        ha="right",
        va="bottom",
        fontsize=11,
        weight=weight,
    )
    ax.text(-0.09, y + 0.04, row.question, ha="right", va="top", fontsize=9, color="#555555")
    blind = BLIND.get(row.question, ANY_CARD)
    ax.plot(
        (blind, blind),
        (y - 0.12, y + 0.33),
        color="#777777",
        linewidth=1.2,
        linestyle=(0, (2, 1.5)),
        zorder=2,
    )
    if min(row.having) - max(row.without) > 0.1:  # room for an arrow
        arrow = {"arrowstyle": "-|>", "color": "#BBBBBB", "shrinkA": 10, "shrinkB": 10}
        ax.annotate("", (min(row.having), y), (max(row.without), y), arrowprops=arrow)
    for name, side, color, inside in (
        ("without", row.without, WITHOUT, "white"),
        ("with", row.having, WITH, WITH),
    ):
        ends = (min(side), max(side))
        ax.plot(ends, (y, y), color=color, alpha=0.25, linewidth=11, solid_capstyle="round", zorder=1)
        ax.plot(side, [y] * len(side), "o", color=color, markerfacecolor=inside, markersize=6, zorder=3)
        label = f"{name} {_spread(side)}" if y == 0 else _spread(side)
        ax.text(
            sum(ends) / 2,
            y - 0.2,
            label,
            ha="center",
            va="bottom",
            color=color,
            fontsize=9,
            weight=weight,
        )


def _spread(side: Sequence[float]) -> str:
    """The worst and the best of the seeds, or the one number that they all round to."""
    low = f"{min(side):.2f}"
    high = f"{max(side):.2f}"
    return low if low == high else f"{low}–{high}"
