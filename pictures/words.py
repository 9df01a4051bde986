"""Lesson 01's pictures: keys and their shadows on a query's line, a map of words, bar codes."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from pictures.plotting import COLORS, SIGNED, figure, show

PLAIN = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0}


def arrows(query: Float[Tensor, "2"], keys: Mapping[str, Float[Tensor, "2"]]) -> None:
    """The query and the keys as arrows on a grid, for an explorer."""
    _, ax = figure(6, 4.6)
    for (name, key), color in zip(keys.items(), COLORS, strict=False):
        draw_key(ax, query, key, name, color)
    ax.annotate("query", query, (16, -18), textcoords="offset points", weight="bold")
    ax.axis("on")
    ax.set(xticks=range(-1, 3), yticks=range(-1, 4), axisbelow=True)
    ax.grid(color="#E5E5E5")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=8, labelcolor="#777777")


def shadows(query: Float[Tensor, "2"], keys: Mapping[str, Float[Tensor, "2"]]) -> None:
    """The same, in a panel for each key, with its shadow: as long as its score."""
    _, axes = figure(9, 3.6, columns=len(keys))
    for (name, key), color, ax in zip(keys.items(), COLORS, axes, strict=False):
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
    # A key in the query's direction is drawn beside it, or the query would hide it
    same = torch.cosine_similarity(query, key, dim=0) > 0.999
    beside = torch.tensor([-0.05, 0.07]) * same
    ax.annotate("", beside + key, beside, arrowprops=PLAIN | {"color": color, "lw": 2.5})
    ax.annotate("", query, (0, 0), arrowprops=PLAIN | {"color": "black", "lw": 3.5})
    ax.annotate(text, key, (-5, 5), textcoords="offset points", ha="right", color=color)
    ax.set(xlim=(-1.5, 2.5), ylim=(-1.2, 3.4), aspect="equal")
    ax.axis("off")


def pair_by_pair(queries: Float[Tensor, "B T D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B T S"]:
    """The scores, each multiplied out and added up: what stands in where exercise 1a isn't solved."""
    return (queries[:, :, None] * keys[:, None]).sum(dim=-1)


def word_map(asks: str, vectors: Mapping[str, Float[Tensor, "V"]]) -> None:
    """Words on a plane whose first axis is the line of the word that asks.

    So the shadow of each word on that line is its score, exactly. Up and down is the direction in
    which the words differ most otherwise, stretched until no word hides another.
    """
    query = vectors[asks] / vectors[asks].norm()
    words = [word for word in vectors if word != asks]
    table = torch.stack([vectors[word] for word in words])
    scores = table @ query
    rest = table - scores[:, None] * query
    rest = rest - rest.mean(dim=0)
    direction = torch.linalg.svd(rest, full_matrices=False).Vh[0]
    height = apart(scores, 8 * rest @ direction, [len(word) for word in words])
    _, ax = figure(10, 5.6)
    ax.plot([0, 0.67], [0, 0], color="black", lw=3)
    ax.text(0.655, 0.15, f"{asks} (its tip is far right, at 1)", ha="right", va="bottom", weight="bold")
    best = scores.topk(min(4, len(words))).indices.tolist()
    for i, (word, x, y) in enumerate(zip(words, scores.tolist(), height.tolist(), strict=True)):
        color = COLORS[1] if i in best else "#444444"
        if i in best:
            ax.plot([x, x], [y, 0], color=COLORS[1], lw=1, ls=":")
        ax.text(x, y, word, ha="center", va="center", color=color, fontsize=10)
    ax.set(xlim=(-0.01, 0.67), ylim=(height.min() - 0.6, height.max() + 0.6))
    ax.set(xlabel=f"score with {asks}: the shadow on its line", yticks=[])
    ax.spines["left"].set_visible(False)
    names = ", ".join(words[i] for i in best)
    show(
        f"A map of {len(words)} words. To the right, the arrow of {asks}; each word lies as far to "
        f"the right as its score. Farthest are {names}."
    )


def apart(x: Float[Tensor, "N"], y: Float[Tensor, "N"], letters: list[int]) -> Float[Tensor, "N"]:
    """Heights at which no word of so many `letters` hides another, or the line at 0."""
    y = torch.where(y.abs() < 0.4, torch.where(y < 0, -0.4, 0.4), y)
    for _ in range(400):
        for i in range(len(x)):
            for j in range(i):
                close = abs(x[i] - x[j]) < 0.0045 * (letters[i] + letters[j])
                if close and abs(y[i] - y[j]) < 0.42 and y[i] * y[j] > 0:
                    # The outer one of the two moves on
                    k = i if abs(y[i]) >= abs(y[j]) else j
                    y[k] += 0.1 if y[k] > 0 else -0.1
    return y


def bar_codes(
    query: Float[Tensor, "96"],
    cards: Mapping[str, Float[Tensor, "96"]],
    words: Mapping[str, list[str]],
) -> None:
    """A query above some cards: three boxes each, a bar code of 32 numbers in every box."""
    rows = {"the query": query, **cards}
    _, ax = figure(9.5, 0.75 * len(rows))
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
    ax.set(xlim=(-24, 102), ylim=(-len(rows) + 0.4, 0.95))
    ax.axis("off")
    show(
        "Rows of three boxes for giver, thing and receiver, each box a bar code of 32 numbers: the "
        "query, with one code three times, and below it cards, of which some have that code in the "
        "first or the last box."
    )
