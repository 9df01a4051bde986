"""Lesson 09's pictures: surprise letter by letter, a die as a wheel, what rules keep, their curves, the cache."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from jaxtyping import Bool, Float
from torch import Tensor

from pictures.plotting import COLORS, figure, labels, show

Rule = Callable[[Float[Tensor, "V"]], Bool[Tensor, "V"]]
Point = tuple[float, float]  # the share of words that are found, and how many different ones
LETTERS = {"family": "monospace"}  # in which I and l differ
HIGHEST = 8.0  # nats, the top of the scale of surprises
BESIDE = (
    ((8, 2), "left"),
    ((-8, -11), "right"),
    ((-8, -11), "right"),
)  # its mark, where a curve's settings are written


def surprises(texts: Mapping[str, tuple[str, Float[Tensor, "T"]]], spike: float = 4.0) -> None:
    """How surprising each letter of some texts is, as bars above the letters, on one scale of 0 to 8 nats.

    Bars above `spike` have another colour, and what the scale can't hold has its number written at the top.
    """
    _, axes = figure(11, 1.75 * len(texts), rows=len(texts))
    phrases = []
    for ax, (name, (text, nats)) in zip(axes, texts.items(), strict=True):
        colors = [COLORS[1] if x > spike else COLORS[0] for x in nats.tolist()]
        ax.bar(range(len(text)), nats.tolist(), 0.8, color=colors)
        for i, x in enumerate(nats.tolist()):
            if x > HIGHEST:
                ax.annotate(f"{x:.0f}", (i, HIGHEST), (0, 1), textcoords="offset points", ha="center", fontsize=8)
        ax.axhline(spike, color="#777777", lw=0.8, ls="--", zorder=0)
        ax.set_xticks(range(len(text)), labels(text), fontsize=11, **LETTERS)
        ax.set(xlim=(-0.8, len(text) - 0.2), ylim=(0, HIGHEST), yticks=(0, spike, HIGHEST), ylabel="nats")
        ax.tick_params(axis="x", length=0)
        ax.set_title(name, loc="left", fontsize=10)
        most = int(nats.argmax())
        phrases.append(
            f"{name}: {nats.mean():.1f} on average, {int((nats > spike).sum())} above {spike:g}, and the most, "
            f"{nats[most]:.1f}, at {labels(text)[most]!r}"
        )
    show(f"The surprise of each letter in nats, as bars, for {len(texts)} texts. {'; '.join(phrases)}.")


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
            colors=[COLORS[i % 5] for i in range(len(shares))], textprops=LETTERS,
        )  # fmt: skip
        for wedge, stays in zip(wedges, keep, strict=True):
            wedge.set_alpha(0.75 if stays else 0.15)
        ax.set_title(f"temperature {heat:g}")
        phrases.append(f"at {heat:g}, {names[0]} has {shares[0]:.0%}, and {sum(keep)} letters are kept")
    show(f"Three wheels, a slice for each letter, as wide as it is likely: {'; '.join(phrases)}.")


def kept(
    logits: Float[Tensor, "T V"],
    line: str,
    alphabet: Sequence[str],
    places: Mapping[str, int],
    rules: Mapping[str, Rule],
) -> None:
    """At named places of a line the likeliest letters as bars; grey is what a rule cuts."""
    _, axes = figure(11, 4.6, rows=len(places), columns=len(rules))
    phrases = []
    for row, (name, place) in zip(axes, places.items(), strict=True):
        p = logits[place].softmax(dim=0)
        order = p.argsort(descending=True)[:24]
        after = f"{name}, after “{''.join(labels(line[: place + 1][-6:]))}”"
        for ax, (rule, keep) in zip(row, rules.items(), strict=True):
            keeps = keep(p)
            colors = [COLORS[0] if keeps[i] else "#CCCCCC" for i in order]
            ax.bar(range(len(order)), p[order].tolist(), color=colors)
            names = labels([alphabet[i] for i in order.tolist()])
            ax.set_xticks(range(len(order)), names, fontsize=9, **LETTERS)
            ax.tick_params(axis="x", length=0)
            ax.set_title(f"{after}: {rule} keeps {int(keeps.sum())}", fontsize=10)
            phrases.append(f"{rule} {int(keeps.sum())} {after}")
        row[0].set_ylabel("probability")
    show(f"The likeliest letters at {len(places)} places, as bars. How many are kept: {', '.join(phrases)}.")


def contest(
    curves: Mapping[str, Mapping[float, Sequence[Point]]],
    points: Mapping[str, Sequence[Point]],
    real: Point,
    named: Mapping[str, Sequence[float]],
) -> None:
    """Found words against different ones: a curve for each rule, from setting to setting, and single points.

    Each setting has a point for each of some networks: a thin line joins those of one network, a thick one the means.
    `named`: which settings of a curve have their number written.
    """
    _, ax = figure(9, 5.4)
    phrases = []
    for (rule, line), color, marker, (at, side) in zip(curves.items(), COLORS, "os^", BESIDE, strict=False):
        for one in zip(*line.values(), strict=True):  # a network's
            ax.plot([d for _, d in one], [s for s, _ in one], color=color, alpha=0.3, lw=1)
        path = {value: mean(some) for value, some in line.items()}
        ax.plot([d for _, d in path.values()], [s for s, _ in path.values()], color=color, marker=marker, lw=2.5,
                label=rule)  # fmt: skip
        for value in named.get(rule, ()):
            share, different = path[value]
            ax.annotate(f"{value:g}", (different, share), at, textcoords="offset points", ha=side, color=color)
        stops = ", ".join(f"{share:.0%} of {different:.0f} at {value:g}" for value, (share, different) in path.items())
        phrases.append(f"{rule}: {stops}")
    for (name, some), color, marker in zip(points.items(), COLORS[3:], "D*P", strict=False):
        ax.plot([d for _, d in some], [s for s, _ in some], marker, color=color, alpha=0.5, ms=4)
        share, different = mean(some)
        ax.plot(different, share, marker, color=color, ms=11, mec="black", mew=0.8, label=name)
        phrases.append(f"{name}: {share:.0%} of {different:.0f}")
    share, different = real
    name = f"Shakespeare: {share:.0%}, {different:.0f} different words"  # too many for the axis
    ax.axhline(share, color="#777777", lw=0.8, ls="--", zorder=0, label=name)
    ax.legend(frameon=False, loc="lower left")
    ax.yaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    ax.set(xlabel="different words that are found in the training text", ylabel="share of words that are found")
    show(
        "The share of words that are found, against how many different ones are: a curve for each rule. "
        f"{'. '.join(phrases)}. Shakespeare: {share:.0%} of {different:.0f}."
    )


def mean(points: Sequence[Point]) -> Point:
    """The middle of some points."""
    return fmean(share for share, _ in points), fmean(different for _, different in points)


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
