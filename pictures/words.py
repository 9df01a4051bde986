"""Lesson 01's pictures: keys and their shadows, the product of two tables, words that ask, bar codes."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from pictures.plotting import COLORS, SIGNED, colored, figure, show, table

PLAIN = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0}


def arrows(query: Float[Tensor, "2"], keys: Mapping[str, Float[Tensor, "2"]]) -> None:
    """The query and the keys as arrows on a grid, for an explorer."""
    _, ax = figure(6, 4.6)
    for (name, key), color in colored(keys.items()):
        draw_key(ax, query, key, name, color)
    ax.annotate("query", query, (-46, 4), textcoords="offset points", weight="bold")
    ax.axis("on")
    ax.set(xticks=range(-1, 3), yticks=range(-1, 4), axisbelow=True)
    ax.grid(color="#E5E5E5")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=8, labelcolor="#777777")


def shadows(query: Float[Tensor, "2"], keys: Mapping[str, Float[Tensor, "2"]]) -> None:
    """The same, in a panel for each key, with its shadow: as long as its score."""
    _, axes = figure(9, 3.6, columns=len(keys))
    for ((name, key), ax), color in colored(zip(keys.items(), axes, strict=True)):
        foot = (query @ key) * query
        band = torch.stack([torch.zeros(2), foot])
        ax.plot(*band.T, color=color, lw=9, alpha=0.4, solid_capstyle="butt")
        ax.plot(*torch.stack([key, foot]).T, color=color, lw=1.2, ls=":")
        ax.axline((0, 0), query.tolist(), color="#BBBBBB", lw=1, zorder=0)
        for mark in (-1, 1, 2, 3):
            ax.plot(*(mark * query), "o", markersize=3, color="#777777", zorder=0)
            ax.annotate(str(mark), mark * query, (4, -10), textcoords="offset points", fontsize=8)
        draw_key(ax, query, key, f"{name}: score {query @ key:.1f}", color)


def draw_key(ax: Axes, query: Float[Tensor, "2"], key: Float[Tensor, "2"], text: str, color: str) -> None:
    ax.annotate("", key, (0, 0), arrowprops=PLAIN | {"color": color, "lw": 2.5})
    ax.annotate("", query, (0, 0), arrowprops=PLAIN | {"color": "black", "lw": 3.5})
    below = key[1] * query[0] < key[0] * query[1]
    place, side = ((6, -12), "left") if below else ((-5, 5), "right")
    ax.annotate(text, key, place, textcoords="offset points", ha=side, color=color)
    ax.set(xlim=(-1.5, 2.5), ylim=(-1.2, 3.4), aspect="equal")
    ax.axis("off")


def pair_by_pair(queries: Float[Tensor, "B T D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B T S"]:
    """The scores, each multiplied out and added up: what stands in where exercise 1a isn't solved."""
    return (queries[:, :, None] * keys[:, None]).sum(dim=-1)


def turned(query: Float[Tensor, "2"], key: Float[Tensor, "2"]) -> None:
    """A query of length 1, a key and its shadow; then the paper is turned until the query lies flat."""
    back = torch.stack([query, torch.stack([-query[1], query[0]])])  # its rows are the new axes
    _, axes = figure(8, 3.8, columns=2)
    for ax, turn, title in zip(axes, (torch.eye(2), back), ("before", "the paper turned"), strict=True):
        q, k = turn @ query, turn @ key
        foot = (q @ k) * q
        ax.plot(*torch.stack([torch.zeros(2), foot]).T, color=COLORS[1], lw=9, alpha=0.4, solid_capstyle="butt")
        ax.plot(*torch.stack([k, foot]).T, color=COLORS[1], lw=1.2, ls=":")
        ax.axline((0, 0), q.tolist(), color="#BBBBBB", lw=1, zorder=0)
        for vector, name, color, width in ((k, "key", COLORS[1], 2.5), (q, "query", "black", 3.5)):
            ax.annotate("", vector, (0, 0), arrowprops=PLAIN | {"color": color, "lw": width})
            text = f"{name} ({vector[0]:.1f}, {vector[1]:.1f})"
            left = name == "query"
            ax.annotate(text, vector, (6, -14 if left else 4), textcoords="offset points", color=color)
        ax.set(xlim=(-0.6, 4.0), ylim=(-0.6, 3.4), aspect="equal", title=title)
        ax.axis("off")
    show(
        "Two drawings of a query, a key and the key's shadow on the query's line. In the second the paper is turned: "
        "the query is (1, 0), and the shadow is as long as the key's first number."
    )


def product(words: list[str], x: Float[Tensor, "T C"]) -> None:
    """x, x on its side, and where a row of the one meets a column of the other, their score."""
    T, C = x.shape
    _, ax = figure(8.5, 5)
    cell, gap = 1.0, 0.6
    table(ax, x.T, (C + gap, 0, T * cell, C * cell), fontsize=10)
    table(ax, x, (0, C + gap, C * cell, T * cell), fontsize=10)
    table(ax, x @ x.T, (C + gap, C + gap, T * cell, T * cell), fontsize=10)
    row = T - 1
    for left, top, width, height in ((0, C + gap + row, C, 1), (C + gap, C + gap + row, T, 1)):
        ax.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor="black", linewidth=2.2, zorder=5))
    for i, word in enumerate(words):
        ax.text(-0.2, C + gap + i + 0.5, word, ha="right", va="center")
        ax.text(C + gap + i + 0.5, -0.15, word, ha="center", va="bottom")
    names = (
        ("x", C / 2, C + gap - 0.15),
        ("x.T", C + gap - 0.2, C / 2),
        ("scores", C + gap + T / 2, C + gap + T + 0.15),
    )
    for name, left, top in names:
        where = {"x": ("center", "bottom"), "x.T": ("right", "center"), "scores": ("center", "top")}[name]
        ax.text(left, top, name, ha=where[0], va=where[1], weight="bold")
    ax.set(xlim=(-1.6, C + gap + T + 0.1), ylim=(C + gap + T + 0.7, -0.8))
    ax.axis("off")
    show(
        f"Three tables: x, a row for each of the words {', '.join(words)}; above, x on its side, a column for each; "
        "and where a row meets a column, their score. The row of the last word is framed."
    )


def strips(vocabulary: Sequence[str], vectors: Float[Tensor, "V V"], askers: Sequence[str]) -> None:
    """A strip for each word that asks: all others lie at their scores, and the best five have names."""
    _, ax = figure(10, 1.5 * len(askers))
    best_of = []
    for y, asks in enumerate(askers):
        me = vocabulary.index(asks)
        scores = vectors @ vectors[me]
        others = [i for i in range(len(vocabulary)) if i != me]
        ranked = sorted(others, key=lambda i: -scores[i])
        best, rest = ranked[:5], ranked[5:]
        up_and_down = [0.16 * ((7 * i) % 11 / 5 - 1) for i in rest]  # or dots would hide one another
        ax.plot(scores[rest], [y + d for d in up_and_down], ".", color="#999999", markersize=3)
        left = 1.0
        for i in best:  # from the right: each name keeps clear of the one before
            width = 0.0085 * len(vocabulary[i])
            x = min(float(scores[i]), left - width / 2)
            left = x - width / 2 - 0.008
            ax.plot([scores[i], x], [y, y - 0.3], color=COLORS[1], linewidth=0.8)
            ax.plot(scores[i], y, "o", color=COLORS[1], markersize=5)
            ax.text(x, y - 0.32, vocabulary[i], ha="center", va="bottom", color=COLORS[1])
        best_of.append(f"{asks}: {', '.join(vocabulary[i] for i in best)}")
    ax.set(yticks=range(len(askers)), ylim=(len(askers) - 0.6, -0.7), xlabel="score", xlim=(-0.01, None))
    ax.set_yticklabels([f"{asks} asks" for asks in askers], fontsize=11)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    show(
        f"A strip of dots for each word that asks, a dot for each other word. Farthest right are, {'; '.join(best_of)}."
    )


def bar_codes(
    query: Float[Tensor, "96"],
    cards: Mapping[str, Float[Tensor, "96"]],
    words: Mapping[str, list[str]],
    scores: Float[Tensor, "N"] | None = None,
) -> None:
    """A query above some cards: three boxes each, a bar code of 32 numbers in every box.

    With `scores`, the right column holds them.
    """
    rows = {"the query": query, **cards}
    _, ax = figure(9.5, 0.62 * len(rows))
    for y, (name, row) in enumerate(rows.items()):
        boxes = zip((0, 34, 68), row.split(32), words[name], strict=True)
        for left, box, word in boxes:
            ax.imshow(
                box[None].numpy(),
                extent=(left, left + 32, -y - 0.5, -y),
                aspect="auto",
                cmap=SIGNED,
                clim=(-0.25, 0.25),
            )
            # Hairlines, or neighbours of one sign would look like one number
            ax.vlines(range(left, left + 33), -y - 0.5, -y, color="white", linewidth=0.6)
            ax.text(left + 16, -y + 0.06, word, ha="center")
        ax.text(-2, -y - 0.25, name, ha="right", va="center")
    for left, box in ((0, "giver"), (34, "thing"), (68, "receiver")):
        ax.text(left + 16, 0.55, box, ha="center", color="#555555", style="italic")
    if scores is not None:
        ax.text(108, 0.55, "score", ha="center", color="#555555", style="italic")
        for y, score in enumerate(scores.tolist(), start=1):
            ax.text(108, -y - 0.25, f"{score:z.0f}", ha="center", va="center", fontsize=14, weight="bold")
    ax.set(xlim=(-24, 114), ylim=(-len(rows) + 0.4, 0.95))
    ax.axis("off")
    column = (
        ""
        if scores is None
        else f" At the right, their scores: {' '.join(f'{score:z.0f}' for score in scores.tolist())}."
    )
    show(
        "Rows of three boxes for giver, thing and receiver, each box a bar code of 32 numbers: the "
        "query, with one code three times, and below it cards, of which some have that code in the "
        f"first or the last box.{column}"
    )
