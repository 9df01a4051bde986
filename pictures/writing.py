"""Lesson 08's pictures: the ladder as a tower, a passage coloured by surprise, heads of three networks."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from helpers.tables import Line
from pictures.plotting import COLORS, bare, figure, labels, show


def tower(rungs: Mapping[str, tuple[float, str]], parts: Mapping[str, Sequence[str]]) -> None:
    """Rungs from the ground up: the `parts` of each as boxes, its loss, and what it writes."""
    _, ax = figure(11, 0.75 * len(rungs))
    phrases = []
    for y, (name, (loss, text)) in enumerate(rungs.items()):
        color = COLORS[1 if "don't" in name else 0]
        for x, part in enumerate(parts[name]):
            wide = 0.86
            box = FancyBboxPatch((x, y), wide, 0.5, boxstyle="round,pad=0.02", fc=color, alpha=0.3, lw=0)
            ax.add_patch(box)
            ax.text(x + wide / 2, y + 0.25, part, ha="center", va="center", fontsize=8)
        ax.text(-0.2, y + 0.25, name, ha="right", va="center")
        ax.text(6.4, y + 0.25, f"{loss:.2f}", va="center", weight="bold", color=color, fontsize=13)
        ax.text(7.4, y + 0.25, text[:48], va="center", family="monospace", fontsize=9)
        phrases.append(f"{name}: {loss:.2f}, {text[:48]!r}")
    ax.set(xlim=(-4.4, 15.6), ylim=(-0.2, len(rungs)))
    ax.axis("off")
    show(f"A tower of models, from the ground up, each with its loss and a line of its text. {'; '.join(phrases)}.")


def surprise_text(rows: Mapping[int, Float[Tensor, "N"]], text: str, top: float = 6.0) -> None:
    """`text` once for each step, with the nats of each letter; the redder, the more it surprised."""
    _, ax = figure(0.9 + 0.19 * len(text), 0.5 + 0.34 * len(rows))
    for i, nats in enumerate(rows.values()):
        for j, (letter, n) in enumerate(zip(labels(text), nats.tolist(), strict=True)):
            shade = 0.85 * min(1.0, n / top)
            box = Rectangle((j, i), 1, 0.92, facecolor=COLORS[1], alpha=shade, linewidth=0)
            ax.add_patch(box)
            ax.text(j + 0.5, i + 0.48, letter, ha="center", va="center", family="monospace", fontsize=11)
    ax.set(xlim=(0, len(text)), ylim=(len(rows), 0), xticks=[])
    ax.set_yticks([i + 0.46 for i in range(len(rows))], [f"step {step:,}" for step in rows])
    bare(ax)
    means = ", ".join(f"step {step:,} {nats.mean():.1f}" for step, nats in rows.items())
    show(
        f"A passage, once for each of several steps, each letter the redder the more it surprised. Mean nats: {means}."
    )


def heads(lines: Sequence[Line]) -> None:
    """A panel for each network: how much each head looks at the last gap, and what its loss costs."""
    seeds = sorted({line["seed"] for line in lines})
    _, axes = figure(10, 3.4, columns=len(seeds))
    phrases = []
    for ax, seed in zip(axes, seeds, strict=True):
        mine = [line for line in lines if line["seed"] == seed]
        most = max(mine, key=lambda line: line["more"])
        for line in mine:
            color = COLORS[1 if line is most else 0]
            ax.plot(line["more"], line["loss"], "o", ms=11, alpha=0.75, color=color)
            layer = str(line["what"]).split(".")[0]
            ax.text(line["more"], line["loss"], layer, ha="center", va="center", color="white",
                    fontsize=8)  # fmt: skip
        rank = 1 + sum(line["loss"] > most["loss"] for line in mine)
        ax.set(title=f"network {seed}", xlabel="attention to the last gap", xlim=(0, 0.8))
        ax.set(ylim=(-0.01, 0.02 + max(line["loss"] for line in lines)))
        phrases.append(
            f"network {seed}: the head that looks most at it, {most['more']:.0%}, costs {most['loss']:.3f}, "
            f"number {rank} of {len(mine)}"
        )
    axes[0].set(ylabel="rise of the loss without it")
    show(f"A dot for each head, with its layer. {'; '.join(phrases)}.")
