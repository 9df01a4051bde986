"""Lesson 00's picture of one look back, with the states of a trained network."""

import torch
from jaxtyping import Float
from torch import Tensor

from helpers.rooms.copying import Seen
from pictures.plotting import COLORS, SIGNED, figure, show

GREY = "#555555"


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
