"""Lesson 09's pictures: a die as a wheel, what rules keep, a curve of temperatures, the cache's staircase."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pictures.plotting import COLORS, figure, labels, show

Rule = Callable[[Float[Tensor, "V"]], Bool[Tensor, "V"]]


def wheels(logits: Float[Tensor, "V"], alphabet: Sequence[str], nucleus: Rule) -> None:
    """The die for one letter as a wheel at temperatures 0.5, 1 and 2; what the nucleus cuts is pale."""
    heats = (0.5, 1.0, 2.0)
    _, axes = figure(9, 3.4, columns=len(heats))
    phrases = []
    for ax, heat in zip(axes, heats, strict=True):
        p = (logits / heat).softmax(dim=0)
        order = p.argsort(descending=True)
        keep = nucleus(p)[order].tolist()
        names = labels([alphabet[i] for i in order.tolist()])
        shares = p[order].tolist()
        wedges, _ = ax.pie(
            shares, labels=[n if s > 0.025 else "" for n, s in zip(names, shares, strict=True)],
            startangle=90, counterclock=False, wedgeprops={"edgecolor": "white", "linewidth": 0.8},
            colors=[COLORS[i % 5] for i in range(len(shares))],
        )  # fmt: skip
        for wedge, stays in zip(wedges, keep, strict=True):
            wedge.set_alpha(0.75 if stays else 0.15)
        ax.set_title(f"temperature {heat:g}")
        phrases.append(f"at {heat:g}, {names[0]} has {shares[0]:.0%}, and {sum(keep)} letters are kept")
    show(f"Three wheels, a slice for each letter, as wide as it is likely: {'; '.join(phrases)}.")


def kept(places: Mapping[str, Float[Tensor, "V"]], alphabet: Sequence[str], rules: Mapping[str, Rule]) -> None:
    """At each place the likeliest letters as bars; grey is what a rule cuts."""
    _, axes = figure(11, 4.6, rows=len(places), columns=len(rules))
    phrases = []
    for row, (place, p) in zip(axes, places.items(), strict=True):
        order = p.argsort(descending=True)[:24]
        for ax, (name, rule) in zip(row, rules.items(), strict=True):
            keeps = rule(p)
            colors = [COLORS[0] if keeps[i] else "#CCCCCC" for i in order]
            ax.bar(range(len(order)), p[order], color=colors)
            names = labels([alphabet[i] for i in order.tolist()])
            ax.set_xticks(range(len(order)), names, fontsize=7)
            ax.set_title(f"{name} keeps {int(keeps.sum())}")
            phrases.append(f"{name} {int(keeps.sum())} {place}")
        row[0].set_ylabel(place)
    show(f"The likeliest letters at {len(places)} places, as bars. How many are kept: {', '.join(phrases)}.")


def curve_and_points(
    line: Mapping[float, Sequence[tuple[float, float]]],
    points: Mapping[str, Sequence[tuple[float, float]]],
    real: tuple[float, float],
) -> None:
    """Found words against different ones: temperatures as a curve, rules as points, a dot for each draw."""

    def mean(row: Sequence[tuple[float, float]]) -> tuple[float, float]:
        share, distinct = torch.tensor(row).mean(dim=0).tolist()
        return share, distinct

    _, ax = figure(8.5, 4.8)
    path = [mean(row) for row in line.values()]
    ax.plot([d for _, d in path], [f for f, _ in path], color="#777777", lw=2, zorder=1)
    for heat, (share, distinct) in zip(line, path, strict=True):
        ax.plot(distinct, share, "o", color="#777777", ms=7)
        ax.annotate(f"at {heat:g}", (distinct, share), (-9, -3), textcoords="offset points",
                    ha="right", color="#555555", fontsize=9)  # fmt: skip
    phrases = []
    for (name, row), color in zip(points.items(), COLORS, strict=False):
        for share, distinct in row:
            ax.plot(distinct, share, ".", color=color, alpha=0.5, ms=6)
        share, distinct = mean(row)
        ax.plot(distinct, share, "D", color=color, ms=8)
        ax.annotate(name, (distinct, share), (12, -4), textcoords="offset points", color=color)
        phrases.append(f"{name}: {share:.0%} of {distinct:.0f}")
    share, distinct = real
    every = [d for row in [*line.values(), *points.values()] for _, d in row]
    ax.annotate(
        f"Shakespeare: {share:.0%}, {distinct:.0f} different words →", (1, 0.97),
        xycoords="axes fraction", ha="right", va="top",
    )  # fmt: skip
    ax.set(xlabel="different words that are found in the training text")
    ax.set(xlim=(min(every) - 6, max(every) + 30))  # with room for names
    ax.set(ylabel="share of words that are found", ylim=(None, share))
    ends = f"from {path[0][0]:.0%} of {path[0][1]:.0f} to {path[-1][0]:.0%} of {path[-1][1]:.0f}"
    show(
        f"A curve of temperatures, {ends} different words, and rules as points: {'; '.join(phrases)}. "
        f"Shakespeare: {share:.0%} of {distinct:.0f}."
    )


def staircases(steps: int = 12) -> None:
    """Which rows of keys are computed at each step, without the cache and with it."""
    _, axes = figure(10, 3.6, columns=2)
    for ax, cached in zip(axes, (False, True), strict=True):
        for step in range(1, steps + 1):
            for letter in range(1, step + 1):
                color = COLORS[1] if letter == step or not cached else "#CFE3F0"
                ax.barh(step, 0.92, 0.92, left=letter - 0.46, color=color)
        ticks = range(1, steps + 1)
        ax.set(xlabel="letter", ylabel="step", ylim=(steps + 0.6, 0.4), xticks=ticks, yticks=ticks)
        ax.text(steps - 0.5, 1.5, "computed", color=COLORS[1], ha="right", weight="bold")
        if cached:
            ax.text(steps - 0.5, 2.7, "kept", color="#5B92B8", ha="right", weight="bold")
        ax.set_title("with the cache: one new key" if cached else "without: all again, each time")
    show(
        "Two staircases, steps as rows and letters as columns. Without the cache all cells up to the "
        "diagonal are computed at each step; with it only the diagonal, and those before it are kept."
    )
