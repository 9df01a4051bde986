"""The pictures of lessons 02 and 02b: shares as cakes, mixtures as places, hills that a network rolls down."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from pictures.plotting import COLORS, colored, figure, show

ARROW = {"arrowstyle": "-|>", "lw": 3}


def exponentials(names: Sequence[str], scores: Float[Tensor, "N"]) -> None:
    """The curve of the exponential, the scores below it, and one cake cut by what it makes of them."""
    _, (left, right) = figure(8.5, 3.8, columns=2, widths=(3, 1))
    line = torch.linspace(-2.2, 2.3, 100)
    left.plot(line, line.exp(), color="#777777", lw=2)
    powers = scores.exp()
    for (name, score, power), color in colored(zip(names, scores.tolist(), powers.tolist(), strict=True)):
        left.plot([score, score], [0, power], color=color, lw=10, alpha=0.8, solid_capstyle="butt")
        left.annotate(
            f"{name}: {power:.2f}", (score, power), (-6, 6), textcoords="offset points", ha="right", color=color
        )
    left.set(xlabel="score", ylabel="its exponential", ylim=(0, 10), xticks=range(-2, 3))
    cut(right, names, powers / powers.sum())
    right.set_title("the cake")
    show(
        f"A curve that rises ever faster, with a bar below it for each of the scores of {', '.join(names)}. At the "
        "right, one bar is cut in proportion to the bars."
    )


def cut(ax: Axes, names: Sequence[str], shares: Float[Tensor, "N"], colors: Sequence[str] = COLORS) -> None:
    """A cake as one bar, the first share on top."""
    bottom = 1.0
    for (name, share), color in colored(zip(names, shares.tolist(), strict=True), colors):
        bottom -= share
        ax.bar([0], [share], bottom=[bottom], color=color, alpha=0.8, width=0.6, edgecolor="white")
        if share > 0.02:
            ax.annotate(f"{name} {share:.0%}", (0.34, bottom + share / 2), va="center", fontsize=9)
    ax.set(xlim=(-0.4, 1.1), ylim=(0, 1))
    ax.axis("off")


def path_of_mixtures(
    names: Sequence[str], values: Float[Tensor, "N 2"], query: Float[Tensor, "2"], solved: bool
) -> None:
    """Words on a map and a query; when `solved`, the mixtures from hot to cold. It is shown by others."""
    _, ax = figure(5.4, 5)
    for name, at in zip(names, values, strict=True):
        ax.plot(*at, "o", color=COLORS[0], ms=9)
        ax.annotate(name, at, (8, 6), textcoords="offset points", color=COLORS[0])
    ax.annotate("", query, (0, 0), arrowprops=ARROW | {"color": "black"})
    ax.annotate("ring asks", query / 2, (6, -14), textcoords="offset points")
    if solved:
        fence(ax, values)
        heat = torch.logspace(2, -2, 81)
        path = torch.stack([(values @ query / t).softmax(dim=0) @ values for t in heat])
        ax.plot(*path.T, color=COLORS[1], lw=3)
        for t in (100, 1, 0.3, 0.1, 0.03):
            at = (values @ query / t).softmax(dim=0) @ values
            ax.plot(*at, "o", color=COLORS[1], ms=6)
            offset = (-30, -3) if t == 100 else (8, -4)
            ax.annotate(f"{t:g}", at, offset, textcoords="offset points", color=COLORS[1])
    ax.set(xlabel="about jewels?", ylabel="about sound?", xlim=(-0.1, 2.3), ylim=(-0.1, 2.3))
    ax.set_aspect("equal")


def fence(ax: Axes, values: Float[Tensor, "N 2"]) -> None:
    """The region that mixtures never leave: the words that lie outermost, joined around it."""
    middle = values.mean(dim=0)
    around = torch.atan2(*(values - middle).T.flip(0)).argsort()
    ax.fill(*values[around].T, color="#999999", alpha=0.2, zorder=0)


def ring_moves(
    meaning: Mapping[str, tuple[float, float]],
    looks: Mapping[str, tuple[Float[Tensor, "T"], Float[Tensor, "2"]]],
) -> None:
    """For each scene its weights and context: an arrow from *ring* to where it ends up."""
    _, ax = figure(7, 6)
    ring, words = torch.tensor(meaning["ring"]), {"ring"}
    for (scene, (weights, context)), color in colored(looks.items()):
        for word, weight in zip(scene.split(), weights, strict=True):
            at = torch.tensor(meaning[word])
            ax.plot(*torch.stack([context, at]).T, color=color, lw=20 * weight, alpha=0.25)
            ax.plot(*at, "o", color="#555555", ms=6)
            if word not in words:
                offset = (7, -13 if word == "a" else 5)
                ax.annotate(word, at, offset, textcoords="offset points", fontsize=11)
                words.add(word)
        ax.annotate("", context, ring, arrowprops=ARROW | {"color": color, "lw": 4})
        last = scene == list(looks)[-1] and len(looks) > 2
        at, side = ((-10, -22), "right") if last else ((12, 14), "left")
        ax.annotate(f"in “{scene}”", context, at, textcoords="offset points", ha=side, color=color)
    ax.plot(*ring, "ko", ms=11)
    ax.annotate("ring", ring, (9, 7), textcoords="offset points", fontsize=15, fontweight="bold")
    ax.set(xlabel="about jewels?", ylabel="about sound?", xlim=(-0.1, 2.4), ylim=(-0.1, 2.2))
    ax.set_aspect("equal")
    show(
        "Words as points; to the right gold and finger, at the top bell and loud; ring in the "
        "middle. An arrow leads from ring to its context in each scene: down to the right among "
        "jewels, up to the left among sounds, and hardly anywhere where both are near."
    )


def cakes(all_: Mapping[str, tuple[Sequence[str], Float[Tensor, "N"]]]) -> None:
    """A cake for each title: the names and shares of its pieces, the small ones without a name."""
    _, axes = figure(2.9 * len(all_), 3.2, columns=len(all_))
    color_of = dict(colored(next(iter(all_.values()))[0]))
    for ax, (title, (names, shares)) in zip(axes, all_.items(), strict=True):
        cut(ax, names, shares, [color_of.get(name, "#999999") for name in names])
        ax.set_title(title, loc="left")
    told = "; ".join(
        f"{title}: {', '.join(f'{n} {s:.0%}' for n, s in zip(names, shares.tolist(), strict=True) if s > 0.02)}"
        for title, (names, shares) in all_.items()
    )
    show(f"Bars cut into shares. {told}.")


def hill(
    turns: Float[Tensor, "N"],
    errors: Float[Tensor, "N"],
    ball: Sequence[tuple[float, float, float]] = (),
    *,
    ax: Axes | None = None,
    title: str = "",
) -> None:
    """The error for each setting of one knob, and a ball: (knob, error, slope) at each step.

    With an `ax` it is one of several panels, and isn't shown yet.
    """
    alone = ax is None
    if alone:
        _, ax = figure(7, 3.6)
    ax.plot(turns, errors, color=COLORS[0], lw=3, zorder=1)
    for step, (knob, error, slope) in enumerate(ball):
        reach = torch.tensor([-0.25, 0.25])
        ax.plot(knob + reach, error + slope * reach, color=COLORS[1], lw=1.5, zorder=2)
        ax.plot(knob, error, "o", color=COLORS[1], ms=11, zorder=3)
        ax.annotate(str(step), (knob, error), ha="center", va="center", color="white", fontsize=8, zorder=4)
    ax.set(xlabel="the giver's knob", ylabel="error", title=title)
    ax.set_ylim(*((-0.1, 1.1 * float(errors.max())) if ball else (None, None)))
    if alone:
        balls = f" Balls with tangents on it: {len(ball)}." if ball else ""
        show("The error against the giver's knob: a hill that falls to the right and gets flatter." + balls)


def cliff(turns: Float[Tensor, "N"], soft: Float[Tensor, "N"], hard: Float[Tensor, "N"], start: float) -> None:
    """The ground under a soft choice, and that under a hard one, which jumps at the start."""
    _, (left, right) = figure(9, 3, columns=2)
    hill(turns, soft, ax=left, title="a soft choice")
    at = int((turns - start).abs().argmin())
    edge = hard.clone()
    edge[at] = torch.nan  # there two cards tie
    hill(turns, edge, ax=right, title="a hard choice")
    right.plot(start, hard[at], "o", color=COLORS[0])
    show(
        "Two drawings of the error against the giver's knob. With a soft choice it falls along a slope. With a "
        "hard one it is level and high, jumps where all start, and is level at 0."
    )
