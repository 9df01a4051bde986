"""Lesson 03's pictures: tables of who scores whom, and where *ring* goes with a question."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from jaxtyping import Float
from torch import Tensor

from helpers.tables import Line, column
from pictures.plotting import colored, curves, figure, heatmap, show


def ring_moves_further(
    meaning: Mapping[str, tuple[float, ...]],
    moves: Mapping[str, tuple[Float[Tensor, "2"], Float[Tensor, "2"]]],
) -> None:
    """Words on a map; for each scene where *ring* went without a question (pale) and goes now."""
    _, ax = figure(6.6, 5.6)
    ring = meaning["ring"][:2]
    for word in dict.fromkeys(" ".join(moves).split()):
        at = meaning[word][:2]
        ax.plot(*at, "o", color="#555555", ms=11 if word == "ring" else 6, zorder=3)
        offset = (7, -14 if word in ("a", "finger") else 5)
        ax.annotate(word, at, offset, textcoords="offset points", fontsize=11)
    for (scene, (old, new)), color in colored(moves.items()):
        for end, alpha, width in ((new, 1.0, 2.5), (old, 0.35, 8.0)):
            arrow = {"arrowstyle": "-|>", "color": color, "lw": width, "alpha": alpha}
            ax.annotate("", end.tolist(), ring, arrowprops=arrow | {"shrinkA": 0, "shrinkB": 0})
        left = new[0] < ring[0]
        offset, side = ((14, 8), "left") if left else ((-12, -14), "right")
        ax.annotate(f"in “{scene}”", new.tolist(), offset, textcoords="offset points", ha=side, color=color)
    ax.set(xlabel="about jewels?", ylabel="about sound?", xlim=(-0.1, 2.3), ylim=(-0.1, 2.2))
    ax.set_aspect("equal")
    show(
        "Words as points, ring in the middle. Two pale arrows lead from ring towards the jewels and "
        "towards the sounds; two strong arrows lead further in nearly the same directions."
    )


def table(
    scores: Float[Tensor, "N M"],
    rows: Sequence[str],
    columns: Sequence[str],
    row_name: str,
    column_name: str,
) -> None:
    """A table of scores; the alternative text says which cell of each row is strongest."""
    heatmap(scores, rows, columns, decimals=1, row_name=row_name, column_name=column_name)
    best = (f"{row}: {columns[i]}" for row, i in zip(rows, scores.argmax(dim=1), strict=True))
    show(f"{row_name} against {column_name}. Strongest in each row, {', '.join(best)}.")


def tables(scores: Mapping[str, Float[Tensor, "N N"]], names: Sequence[str]) -> None:
    """Tables of who scores whom side by side, without numbers; the highest score of each row is marked."""
    _, axes = figure(3.4 * len(scores) + 0.8, 3.6, columns=len(scores))
    for (title, table), ax in zip(scores.items(), axes, strict=True):
        heatmap(table, names, title=title, row_name="", column_name="", decimals=None, ax=ax)
        ax.plot(table.argmax(dim=1).tolist(), range(len(names)), "o", color="black", markersize=5)
        ax.set_xticks(range(len(names)), names, rotation=90)
        if ax is not axes[0]:
            ax.set_yticks([])
    show(f"Tables of who scores whom, a black dot on the highest score of each row: {', '.join(scores)}.")


def slopes(widths: Sequence[int], reacts: Mapping[str, Sequence[float]]) -> None:
    """How much weights react to their scores, against the width of queries and keys."""
    ax = curves(widths, reacts, xlabel="width D", ylabel="slopes, added up")
    ax.set(xscale="log", ylim=(-0.08, 1))
    ax.set_xticks(widths, [str(width) for width in widths])
    ax.minorticks_off()
    ends = "; ".join(f"{name} {row[0]:.2f} to {row[-1]:.2f}" for name, row in reacts.items())
    show(f"How much 40 weights react to their scores, from width {widths[0]} to {widths[-1]}: {ends}.")


# ---------------------------------------------------------------- the studies
def twenty(networks: Sequence[Line]) -> dict[str, list[float]]:
    """The shares that are right, for each kind of mirror.csv, printed and returned."""
    right = {}
    for kind in ("one matrix", "own card hidden", "any mirror", "two matrices"):
        shares = right[kind] = column(networks, "right", kind=kind, steps=300, rate=0.01)
        print(f"{len(shares)} times {kind:15} {fmean(shares):4.0%} ({min(shares):.0%} to {max(shares):.0%})")
    return right


def roots(networks: Sequence[Line]) -> None:
    """Print what is right with the root and without it, by the lines of root.csv."""

    def both(what: str, **settings: object) -> list[float]:
        return [fmean(column(networks, what, divided=divided, **settings)) for divided in (True, False)]

    print("start width |  spread:      | right at 0.01 | right at 0.04")
    print("            |  root  no root|  root no root |  root no root")
    for start in (1, 16):
        for width in (32, 256, 2048):
            size = {"start": start, "width": width, "steps": 300}
            spread = both("spread", **size, rate=0.01)
            slow, fast = (both("right", **size, rate=rate) for rate in (0.01, 0.04))
            print(f"{start:5} {width:5} | {spread[0]:5.2f} {spread[1]:7.2f}", end="")
            print(f" | {slow[0]:5.0%} {slow[1]:7.0%} | {fast[0]:5.0%} {fast[1]:7.0%}")
