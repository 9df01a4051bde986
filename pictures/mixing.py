"""Lesson 02's pictures: shares as bars, mixtures as places, the hill that a network rolls down."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from pictures.plotting import COLORS, figure, show

ARROW = {"arrowstyle": "-|>", "lw": 3}


def bars(panels: Mapping[str, tuple[Sequence[str], Float[Tensor, "N"]]], alt: str) -> None:
    """A panel of bars for each title: the bars' names and heights."""
    _, axes = figure(3 * len(panels), 2.7, columns=len(panels))
    for ax, (title, (names, heights)) in zip(axes, panels.items(), strict=True):
        container = ax.bar(list(names), heights.tolist(), color=COLORS[0], alpha=0.8, width=0.65)
        ax.bar_label(container, fmt="%.2f", padding=2, fontsize=8)
        ax.axhline(0, color="#999999", linewidth=0.8)
        ax.set_title(title, pad=14)
        low, high = min(0.0, float(heights.min())), float(heights.max())
        ax.set(ylim=(1.2 * low, 1.2 * high), yticks=[])
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0, labelsize=9)
    show(alt)


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


def ring_moves(
    meaning: Mapping[str, tuple[float, float]],
    looks: Mapping[str, tuple[Float[Tensor, "T"], Float[Tensor, "2"]]],
) -> None:
    """For each scene its weights and context: an arrow from *ring* to where it ends up."""
    _, ax = figure(7, 6)
    ring, words = torch.tensor(meaning["ring"]), {"ring"}
    for (scene, (weights, context)), color in zip(looks.items(), COLORS, strict=False):
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
        reach = torch.tensor([-0.05, 0.05])
        ax.plot(knob + reach, error + slope * reach, color=COLORS[1], lw=1.5, zorder=2)
        ax.plot(knob, error, "o", color=COLORS[1], ms=11, zorder=3)
        ax.annotate(str(step), (knob, error), ha="center", va="center", color="white", fontsize=8, zorder=4)
    ax.set(xlabel="the giver's knob", ylabel="error", title=title)
    if alone:
        show(
            "The error against the giver's knob: a hill that falls to the right and gets flatter."
            + (f" {len(ball)} balls roll down it, with a tangent each." if ball else "")
        )


def error_along(turns: Float[Tensor, "N"], error_at: Callable[[float], tuple[Tensor, Tensor]]) -> Float[Tensor, "N"]:
    """The error at each setting of the knob; `error_at` gives it and the knobs."""
    with torch.no_grad():
        return torch.stack([error_at(float(turn))[0] for turn in turns])
