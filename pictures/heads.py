"""Lesson 08's pictures of heads: where they look, how one of them grew, and what it costs to lose them."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from helpers.tables import Line, column
from pictures.plotting import COLORS, SHARE, STYLE, figure, labels, show

FRAME = COLORS[1]  # of the head that looks at the letter before


def keenest(lines: Sequence[Line]) -> Line:
    """The line of the head that looks most at the letter before."""
    return max(lines, key=lambda line: line["one_back"])


def maps(weights: Float[Tensor, "L H T T"], text: str) -> None:
    """A map for each head, and the one that looks most at the letter before framed, and drawn large beside them."""
    L, H, T, _ = weights.shape
    shares = weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=-1)  # (L, H)
    one, (layer, head) = shares.max(), divmod(shares.argmax().item(), H)
    plt.rcParams.update(STYLE)  # ty: ignore[no-matching-overload]  (it wants every key as a literal)
    target = plt.figure(figsize=(7.5, 3.9))
    panels: Any = target.subfigures(1, 2, width_ratios=(1, 1.02))
    left, right = panels
    for i, row in enumerate(left.subplots(L, H, squeeze=False)):
        for j, ax in enumerate(row):
            _draw_map(ax, weights[i, j])
            if (i, j) == (layer, head):
                ax.spines[:].set(visible=True, color=FRAME, linewidth=2.5)
            if j == 0:
                ax.set_ylabel(f"layer {i + 1}", rotation=0, ha="right", va="center")
            if i == 0:
                ax.set_title(f"head {j + 1}", fontsize=10)
    large = right.subplots()
    _draw_map(large, weights[layer, head])
    large.spines[:].set(visible=True, color=FRAME, linewidth=2.5)
    for ticks in (large.set_xticks, large.set_yticks):
        ticks(range(T), labels(text), family="monospace", fontsize=9)
    large.xaxis.tick_top()
    large.tick_params(length=0, pad=2)
    large.set_title(f"head {layer + 1}.{head + 1}", fontsize=10)
    show(
        f"Maps of {L * H} heads that read “{text}”, letters that ask downwards, letters that are read rightwards. "
        f"Framed and drawn large is head {layer + 1}.{head + 1}: a line just below the diagonal, "
        f"{one:.0%} of its attention at the letter before; of the others none has more than "
        f"{shares.flatten().sort().values[-2]:.0%} there."
    )


def _draw_map(ax, weights: Float[Tensor, "T T"]) -> None:
    ax.imshow(weights.numpy(), cmap=SHARE, vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color="#BBBBBB")


def growth(lines: Sequence[Line], one: Mapping[int, str], pairs: float) -> None:
    """Over the steps, of each network: the share one letter back of head `one`, and below it the loss, with and
    without that head.

    The lines are those of heads_growth.csv; `one` names the head of each seed, such as "1.4"; `pairs` is the loss of
    somebody who knows only which letter follows which.
    """
    _, (above, below) = figure(7.2, 5.2, rows=2)
    phrases = []
    for seed, color in zip(one, COLORS[1:], strict=False):
        mine = [line for line in lines if line["seed"] == seed and line["step"] > 0]
        steps, shares = column(mine, "step"), column(mine, one[seed])
        style = {"color": color, "marker": "o", "markersize": 4}
        above.plot(steps, shares, **style, label=f"network {seed}, head {one[seed]}")
        below.plot(steps, column(mine, "loss"), **style, label="" if phrases else "with all heads")
        below.plot(steps, column(mine, "without"), "--", color=color, label="" if phrases else "without that head")
        half = next((step for step, share in zip(steps, shares, strict=True) if share > 0.5), None)
        when = f"above one half from step {half:,}" if half else "never above one half"
        phrases.append(
            f"network {seed}: {when}, {shares[-1]:.0%} at the end, where the loss is {mine[-1]['loss']:.2f}, and "
            f"{mine[-1]['without']:.2f} without the head"
        )
    above.set(ylabel="attention to the letter before", ylim=(0, 1))
    above.yaxis.set_major_formatter(PercentFormatter(1, 0))
    below.axhline(pairs, color="#555555", linewidth=1, linestyle=":")
    below.annotate("a table of pairs", (0.99, pairs), xycoords=("axes fraction", "data"), ha="right", va="bottom",
                   color="#333333")  # fmt: skip
    below.set(xlabel="step", ylabel="loss (nats per letter)")
    for ax in (above, below):
        ax.set_xscale("log")
        ax.set_xticks([25, 50, 100, 250, 500, 1000, 3000])
        ax.legend(frameon=False)
    show(
        f"Above, the share of a head's attention at the letter before, over the steps of its training; below, the "
        f"loss of its network, and dashed without the head; a table of pairs has {pairs:.2f}. {'; '.join(phrases)}."
    )


def costs(lines: Sequence[Line]) -> None:
    """A panel for each network: a dot for each head, by its layer, as high as the loss rises without it.

    The lines are those of heads.csv. Orange is the head that looks most at the letter before; who gives more than half
    to a place one, two or three back has that beside its dot.
    """
    seeds = sorted({line["seed"] for line in lines})
    _, axes = figure(7.4, 3.2, columns=len(seeds))
    highest = max(column(lines, "cost"))
    phrases = []
    for ax, seed in zip(axes, seeds, strict=True):
        mine = [line for line in lines if line["seed"] == seed]
        most = keenest(mine)
        width = len({line["head"] for line in mine})
        for line in mine:
            x = line["layer"] + 0.16 * (line["head"] - (width + 1) / 2)
            color = COLORS[1 if line is most else 0]
            ax.plot(x, line["cost"], "o", ms=9, alpha=0.75, color=color, markeredgewidth=0)
            for name in ("one", "two", "three"):
                share = line[f"{name}_back"]
                if share > 0.5:
                    ax.annotate(f"{share:.0%} {name} back", (x, line["cost"]), (0, 7), textcoords="offset points",
                                va="bottom", color=color)  # fmt: skip
        layers = sorted({line["layer"] for line in mine})
        ax.set(title=f"network {seed}", xlabel="layer", xticks=layers, xlim=(layers[0] - 0.5, layers[-1] + 0.5))
        ax.set(ylim=(-0.05 * highest, 1.1 * highest))
        rank = 1 + sum(line["cost"] > most["cost"] for line in mine)
        others = max(line["cost"] for line in mine if line is not most)
        phrases.append(
            f"network {seed}: the head that looks most at the letter before, {most['one_back']:.0%}, in layer "
            f"{most['layer']}, costs {most['cost']:.2f}, number {rank} of {len(mine)}; of the others the costliest "
            f"{others:.2f}"
        )
    axes[0].set(ylabel="rise of the loss without it")
    show(f"A dot for each head of {len(seeds)} networks, by layer. {'; '.join(phrases)}.")
