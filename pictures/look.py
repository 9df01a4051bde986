"""Lesson 00's pictures: the two designs, one look back, where networks look, what length costs."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from helpers.rooms.copying import Seen
from helpers.tables import MEASURED, Line, read_table
from pictures.plotting import COLORS, SIGNED, arcs, curves, figure, heatmap, show

GREY = "#555555"


# ---------------------------------------------------------------- two designs
def designs(word: str, backwards: str) -> None:
    """The same reader and writer twice: through one vector, and with a look at every state."""
    _, (above, below) = figure(5, 6.4, rows=2)  # on a phone, too, both can be seen
    above.set_title("everything through one vector")
    below.set_title("attention: a look at every state")
    n, row = len(word), 2
    for ax, pale in ((above, False), (below, True)):
        read_and_written(ax, word, backwards, row if pale else None)
    for i in range(n):
        above.plot([n - 1, (n - 1) / 2, i], [1.12, 2, 2.8], color=COLORS[1], linewidth=1.2, zorder=1)
        below.plot([i, row], [1.12, 2.8], color=COLORS[0], linewidth=1.2, zorder=1)
    box = {"boxstyle": "round,pad=0.5", "facecolor": COLORS[1], "edgecolor": "none"}
    above.text((n - 1) / 2, 2, "one vector", ha="center", va="center", color="white", bbox=box, zorder=3)
    show(
        "Two drawings. Above, letters are read one after the other into states, and all that is written "
        "comes through one vector at the end. Below, the letter that is being written is joined to every "
        "state."
    )


def read_and_written(ax: Axes, word: str, backwards: str, row: int | None) -> None:
    """Letters, their states, and the letters written: all, or the one in `row` dark."""
    arrow = {"arrowstyle": "-|>", "color": "#777777", "shrinkA": 10, "shrinkB": 10}
    ring = {"boxstyle": "circle,pad=0.45", "facecolor": "white", "edgecolor": GREY}
    for i, (letter, answer) in enumerate(zip(word, backwards, strict=True)):
        ax.annotate("", (i, 1), (i, 0), arrowprops=arrow)
        if i:
            ax.annotate("", (i, 1), (i - 1, 1), arrowprops=arrow)
        ax.text(i, 0, letter, ha="center", va="center", fontsize=13)
        ax.text(i, 1, " ", ha="center", va="center", fontsize=8, bbox=ring, zorder=3)
        ax.text(i, 3, answer, ha="center", va="center", fontsize=13, alpha=1 if row in (None, i) else 0.3)
    for y, name in ((0, "read"), (1, "states"), (3, "written")):
        ax.text(-0.75, y, name, ha="right", va="center", color=GREY)
    ax.set(xlim=(-2.2, len(word) - 0.4), ylim=(-0.4, 3.4))
    ax.axis("off")


# ---------------------------------------------------------------- where it leads
def two_writers() -> None:
    """Print what a table of pairs wrote, and what lesson 08's best GPT did: both are stored."""
    _, rungs = read_table(MEASURED / "rungs.csv")
    lines = (MEASURED / "three-minutes.txt").read_text(encoding="utf-8").splitlines()
    print("It sees only the last letter:")
    print(rungs[0]["writes"].replace("↵", "\n"))
    print("\nIt looks back:")
    print("\n".join([line for line in lines if not line.startswith("#")][:9]))


# ---------------------------------------------------------------- one look


def look_back(word: str, trace: Seen, place: int) -> None:
    """How the letter at `place` is written: states, scores, lines as wide as weights, mixture.

    `trace` is what the network had before it, for this one word. A state is a strip of colours, one
    for each of its numbers: blue above zero, orange below.
    """
    _, ax = figure(9, 5.2)
    scores, weights = trace.scores[0, place], trace.weights[0, place]
    best = int(weights.argmax())
    for x, letter in enumerate(word):
        strip(ax, trace.memory[0, x], x)
        ax.text(x, 5.12, letter, ha="center", va="bottom", fontsize=15)
        ax.text(x, 2.78, f"{scores[x]:.1f}", ha="center", va="top", color=GREY)
        ax.text(x, 2.38, f"{weights[x]:.0%}", ha="center", va="top", color=COLORS[2])
        ax.plot([x, 1.5], [1.95, 1.1], color="#BBBBBB", linewidth=0.8, zorder=0)
        width = 9 * float(weights[x])
        ax.plot([x, 5.5], [1.95, 1.1], color=COLORS[2], linewidth=max(width, 0.4), zorder=0)
    n = len(word)
    strip(ax, trace.h[0, place], 1.5, bottom=-1.2)
    strip(ax, trace.context[0, place], 5.5, bottom=-1.2)
    ax.text(1.5, -1.3, "the writer's state,\nagainst which each state is scored", ha="center", va="top")
    ax.text(5.5, -1.3, f"the mixture: {weights[best]:.0%} of this\nis the {ordinal(best)} state",
            ha="center", va="top")  # fmt: skip
    for y, name in ((5.3, "read"), (3.95, "states"), (2.65, "scores"), (2.25, "weights")):
        ax.text(-0.75, y, name, ha="right", va="center", color=GREY)
    ax.set(xlim=(-1.9, n - 0.4), ylim=(-2.2, 5.6))
    ax.axis("off")
    show(
        f"Above the letters of {word}, each with its state as a strip of colours and the score that "
        f"the writer gives it, the highest for the {ordinal(best)}. Below, the writer's state, and the "
        f"mixture, a strip that looks like the {ordinal(best)} state: the line between "
        f"these two is thick, all others are thin."
    )


def strip(ax, state: Float[Tensor, "C"], x: float, bottom: float = 2.9) -> None:
    """The numbers of a state as a column of colours, 2.2 high."""
    column = torch.as_tensor(state)[:, None].numpy()
    extent = (x - 0.18, x + 0.18, bottom, bottom + 2.2)
    ax.imshow(column, cmap=SIGNED, vmin=-1, vmax=1, extent=extent, aspect="auto")


def ordinal(place: int) -> str:
    return ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")[place]


# ---------------------------------------------------------------- where it looks
def grow(word: str, film: Mapping[int, Float[Tensor, "T S"]]) -> None:
    """All weights of a word that is written backwards, after this many steps of training each."""
    _, axes = figure(3 * len(film), 3.1, columns=len(film))
    for (steps, weights), ax in zip(film.items(), axes, strict=True):
        places(ax, word, weights, f"after {steps:,} steps")
    axes[0].set_ylabel("to be written")
    first, last = (film[steps] for steps in (min(film), max(film)))
    first, crossed = float(first.max()), on_the_line(last)
    show(
        f"Tables of weights, a row for each letter to be written and a column for each letter of {word} read. "
        f"At first the largest is {first:.2f}. At the end that of {crossed} of {len(word)} rows lies on the line from "
        "the top right to the bottom left."
    )


def on_the_line(weights: Float[Tensor, "T S"]) -> int:
    """In how many rows the largest weight lies on the line from the top right to the bottom left."""
    T = len(weights)
    return sum(int(weights[t].argmax()) == T - 1 - t for t in range(T))


def places(ax: Axes, word: str, weights: Float[Tensor, "T S"], title: str) -> None:
    heatmap(
        weights, word[::-1], word, title=title, row_name="", column_name="read", decimals=None, limits=(0, 1), ax=ax
    )  # fmt: skip


def longer(words: Sequence[str], weights_of: Callable[[str], Float[Tensor, "T S"]]) -> None:
    """All weights of words that get longer; a dotted line shows where the darkest cells should be."""
    _, axes = figure(4.6 * len(words), 4.5, columns=len(words))
    phrases = []
    for word, ax in zip(words, axes, strict=True):
        weights, n = weights_of(word), len(word)
        places(ax, word, weights, f"{n} letters")
        phrases.append(f"in the word of {n} letters, the darkest cell of {on_the_line(weights)} of its rows lies on it")
        ax.plot([n - 1, 0], [0, n - 1], color=COLORS[1], linewidth=1, linestyle=":")
    axes[0].set_ylabel("to be written")
    show(f"Tables of weights with a dotted line from the top right to the bottom left: {'; '.join(phrases)}.")


def over_yours(german: Sequence[str], english: Sequence[str], yours: Tensor, weights: Tensor) -> None:
    """A network's lines, blue, over those drawn by hand, wide and pale."""
    _, ax = figure(8, 2.8)
    arcs(german, english, yours, ax=ax)
    for line in ax.lines:
        line.set(color="#D8D8D8", linewidth=14)
    arcs([""] * len(german), [""] * len(english), weights, ax=ax)
    show(
        "The German sentence above, the English one below. Wide pale lines are those drawn by hand, blue ones the "
        "network's: they lie on the pale ones, except perhaps the line of the word to."
    )


def found(runs: Sequence[Line], english: Sequence[str], yours: Tensor) -> str:
    """How many of the networks that made the `runs` look where each of your lines goes: "Can 8, you 8"."""
    return ", ".join(f"{word} {n}" for word, n in zip(english, agreeing(runs, yours), strict=True))


def agreeing(runs: Sequence[Line], yours: Tensor) -> list[int]:
    places = [[int(place) for place in run["lines"].split()] for run in runs]
    ends = (yours.argmax(dim=-1) + 1).tolist()
    return [sum(row[i] == end for row in places) for i, end in enumerate(ends)]


def trained(runs: Sequence[Line], source: str = "words", steps: int = 1000, rate: float = 0.03) -> list[Line]:
    """Those of the translators that write from this source and were trained so."""
    return [run for run in runs if (run["writes_from"], run["steps"], run["rate"]) == (source, steps, rate)]


def otherwise(runs: Sequence[Line], english: Sequence[str], yours: Tensor) -> None:
    """Print what became of your lines in trainings that were longer, or of other steps."""
    for name, steps, rate in (
        ("4,000 steps", 4000, 0.03),
        ("4,000 steps, nudged a quarter as far in each", 4000, 0.0075),
        ("1,000 steps, nudged four times as far", 1000, 0.12),
    ):
        group = trained(runs, "words", steps, rate)
        right = sum(run["writes"] == " ".join(english) for run in group)
        print(f"{name}: {right} of {len(group)} translate it; lines found: {found(group, english, yours)}")


def held(runs: Sequence[Line], english: Sequence[str], yours: Tensor) -> None:
    """How many of eight networks look where your line goes, by words and by what they may write from."""
    _, ax = figure(8.5, 2.6)
    told = []
    for source, color, side in (
        ("words", COLORS[0], -0.27),
        ("states", COLORS[2], 0),
        ("both", COLORS[1], 0.27),
    ):
        group = trained(runs, source)
        counts = agreeing(group, yours)
        label = {"both": "from states and its own state"}.get(source, f"from {source}")
        bars = ax.bar([i + side for i in range(len(english))], counts, 0.25, color=color, label=label)
        ax.bar_label(bars, fontsize=8, padding=1)
        told.append(f"writing {label}: {found(group, english, yours)}")
    ax.set_xticks(range(len(english)), english)
    ax.set(ylabel="of 8 networks", ylim=(0, 9.2), yticks=[0, 4, 8])
    ax.legend(ncols=3, frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    show(f"Bars: how many of eight networks look where your line goes, {'; '.join(told)}.")


# ---------------------------------------------------------------- what length costs
def length_costs(lines: Sequence[Line]) -> None:
    """Right letters by length, for attention and one vector, by steps of training, narrow and wide."""
    lengths = [1, 2, 4, 8, 12, 16, 20]
    _, axes = figure(11, 4.2, columns=2)
    told = []
    for width, ax in zip((48, 16), axes, strict=True):
        ends: list[str] = []
        for network, color in (("attention", COLORS[0]), ("one vector", COLORS[1])):
            for steps, style in ((1000, ":"), (4000, "--"), (16000, "-")):
                group = [
                    line
                    for line in lines
                    if (line["network"], line["width"], line["steps"], line["rate"]) == (network, width, steps, 0.01)
                ]
                means = [fmean(line[f"right_{n}"] for line in group) for n in lengths]
                ax.plot(lengths, means, style, color=color, marker="os"[network != "attention"], markersize=4)
                if network == "one vector":
                    ax.annotate(
                        f"{steps:,}",
                        (lengths[-1], means[-1]),
                        (7, 0),
                        textcoords="offset points",
                        va="center",
                        color=color,
                    )
                    ends.append(f"{means[-1]:.1%} after {steps:,}")
        ax.axhline(1 / 8, color=GREY, linewidth=0.8, linestyle="--")
        told.append(f"{width} numbers: {', '.join(ends)}")
        ax.set(
            xlabel="letters in the word",
            title=f"states of {width} numbers",
            ylim=(0, 1.08),
            xticks=[1, 4, 8, 12, 16, 20],
        )
    axes[0].set_ylabel("share of letters right")
    axes[0].text(1, 1 / 8, "a blind guess", va="bottom", color=GREY)
    axes[0].text(4, 1.01, "attention, all three", va="bottom", color=COLORS[0])
    axes[0].text(8, 0.45, "one vector,\nby steps of training", va="top", color=COLORS[1])
    show(
        "Two panels, for states of 48 numbers and of 16: the share of right letters in words of one to twenty. "
        "Attention's curves stay near the top, but for the narrow one after 1,000 steps. Those of one vector fall "
        "with the length, and less the longer it is "
        f"trained. At twenty letters, {'; '.join(told)} steps."
    )


def right_at(
    length: int, lines: Sequence[Line], budgets: Sequence[int] = (1000, 4000, 16000), rate: float = 0.01
) -> None:
    """Print how many letters are right in words of each length, by network and training, for states of 48 numbers."""
    for network in ("attention", "one vector"):
        for steps in budgets:
            wanted = (network, 48, steps, rate)
            group = [line for line in lines if (line["network"], line["width"], line["steps"], line["rate"]) == wanted]
            shares = [line[f"right_{length}"] for line in group]
            spread = f"worst to best of {len(shares)}: {min(shares):.0%} to {max(shares):.0%}"
            print(f"{network:10} {steps:6,} steps: {fmean(shares):.0%} ({spread})")


def fading(effect: Callable[[float, int], float]) -> None:
    """How much of a first letter is left after each number of letters: 0c's answer as a picture, once there is one."""
    if effect(0.5, 1) is None:
        return
    T = list(range(1, 41))
    ax = curves(
        T,
        {f"a = {a}": [effect(a, t) for t in T] for a in (0.9, 0.97, 0.99)},
        xlabel="letters read",
        ylabel="what is left of the first",
    )
    ax.set(ylim=(0, 1.05))
    show("Curves that fall from 1: for a = 0.9 to nearly nothing within forty letters, for 0.99 by a third.")
