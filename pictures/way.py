"""The way to the reader's own GPT, drawn as a path: what it has, and where the next step waits."""

import textwrap
from collections.abc import Mapping, Sequence

from pictures import plotting

DONE = plotting.COLORS[0]
NEXT = plotting.COLORS[1]
AHEAD = "#BBBBBB"


def draw_way(steps: Mapping[str, str], solved: Sequence[str], about: str) -> None:
    """Show the steps (label: name) as stones with their names: solved ones filled, the next one marked.

    `about` stands below it: where the file is, and how long.
    """
    labels = list(steps)
    following = next((label for label in labels if label not in solved), None)
    _, ax = plotting.figure(10, 2.1)
    places = [(i, 0.28 * (-1) ** i) for i in range(len(labels))]
    for (x, y), (x_next, y_next), label in zip(places, places[1:], labels, strict=False):
        color = DONE if label in solved else AHEAD
        ax.plot([x, x_next], [y, y_next], color=color, linewidth=3, zorder=1, solid_capstyle="round")
    for (x, y), label in zip(places, labels, strict=True):
        color = DONE if label in solved else NEXT if label == following else AHEAD
        face = color if label in solved else "white"
        ax.plot(
            x,
            y,
            "o",
            markersize=17,
            color=color,
            markerfacecolor=face,
            markeredgewidth=2.5,
            zorder=2,
        )
        ink = "white" if label in solved else color if label == following else "#767676"
        ax.text(x, y, label, ha="center", va="center", fontsize=8, color=ink, zorder=3)
        away = 0.42 if y > 0 else -0.42
        style = {"va": "bottom" if y > 0 else "top", "ha": "center", "fontsize": 8.5}
        style |= {"color": NEXT, "weight": "bold"} if label == following else {"color": "#444444"}
        ax.text(x, y + away, textwrap.fill(steps[label], 12), **style)
    ax.set(xlim=(-0.7, len(labels) - 0.3), ylim=(-1.35, 1.35))
    ax.axis("off")
    ax.set_title(about, fontsize=10, color="#444444", loc="left")
    phrase = f"the next one, {following}, is {steps[following]}" if following else "the way is done"
    plotting.show(f"A path of {len(labels)} steps to a GPT of your own: {len(solved)} are solved, {phrase}.")
