"""Lesson 03's pictures: where *ring* goes with a question, what words look for, arcs over a line."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pictures.plotting import COLORS, curves, figure, heatmap, show


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
        offset = (7, -14 if word == "a" else 5)
        ax.annotate(word, at, offset, textcoords="offset points", fontsize=11)
    for (scene, (old, new)), color in zip(moves.items(), COLORS, strict=False):
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


def learned_beside_counted(
    askers: Sequence[str],
    vocabulary: Sequence[str],
    learned: Float[Tensor, "V V"],
    counts: Float[Tensor, "V V"],
    best: int = 5,
) -> None:
    """For each word that asks, what it looks for most (rows of weights), beside what was counted."""
    _, axes = figure(2.5 * len(askers), 2.9, columns=len(askers))
    phrases, far = [], 0.02 + float(learned[[vocabulary.index(word) for word in askers]].max())
    for word, ax in zip(askers, axes, strict=True):
        i = vocabulary.index(word)
        weights, counted = learned[i], counts[i] / counts[i].sum()
        top = weights.topk(min(best, len(weights))).indices
        names = [vocabulary[j] for j in top]
        phrases.append(f"{word} looks for {', '.join(names)}")
        up, down = [y - 0.2 for y in range(len(names))], [y + 0.2 for y in range(len(names))]
        ax.barh(up, weights[top].tolist(), 0.38, color=COLORS[0], label="learned")
        ax.barh(down, counted[top].tolist(), 0.38, color="#BBBBBB", label="counted")
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set(title=f"{word} looks for", xlabel="weight", xlim=(0, far))
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
    axes[-1].legend(frameon=False, loc="lower right")
    show("Bars, learned beside counted, nearly equally long. " + "; ".join(phrases) + ".")


def arcs(words: Sequence[str], weights: Float[Tensor, "T T"]) -> None:
    """A line, and an arc from each word to the one that it looks at most, as wide as the weight."""
    _, ax = figure(9, 3)
    phrases = []
    for i, row in enumerate(weights):
        j, weight = int(row.argmax()), float(row.max())
        phrases.append(f"{words[i]} at {words[j]}, {weight:.0%}")
        ax.text(i, 0, words[i], ha="center", va="center", fontsize=14)
        # What lies before a word is drawn above the line, what comes after it below
        back = j <= i
        y, color = (0.14, COLORS[0]) if back else (-0.14, COLORS[1])
        height = (0.25 if back else -0.25) * abs(i - j)
        turn = torch.linspace(0, 0.92 * torch.pi, 60)
        x = (i + j) / 2 + (i - j) / 2 * turn.cos()
        ax.plot(x, y + height * turn.sin(), color=color, lw=5 * weight)
        tip = {
            "arrowstyle": "-|>",
            "color": color,
            "shrinkA": 0,
            "shrinkB": 0,
            "mutation_scale": 20,
        }
        last = (float(x[-1]), y + height * float(turn[-1].sin()))
        ax.annotate("", (j, y), last, arrowprops=tip)
        ax.text((i + j) / 2, y + 1.02 * height + (0.1 if back else -0.1), f"{weight:.0%}",
                ha="center", va="center", color=color, fontsize=9)  # fmt: skip
    ax.set(xlim=(-0.6, len(words) - 0.4))
    ax.axis("off")
    show("Arcs over a line, from each word to the one it looks at most: " + "; ".join(phrases) + ".")


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


def slopes(widths: Sequence[int], reacts: Mapping[str, Sequence[float]]) -> None:
    """How much weights react to their scores, against the width of queries and keys."""
    ax = curves(widths, reacts, xlabel="width D", ylabel="slopes, added up")
    ax.set(xscale="log", ylim=(0, 1))
    ax.set_xticks(widths, [str(width) for width in widths])
    ax.minorticks_off()
    ends = "; ".join(f"{name} {row[0]:.2f} to {row[-1]:.2f}" for name, row in reacts.items())
    show(f"How much 40 weights react to their scores, from width {widths[0]} to {widths[-1]}: {ends}.")
