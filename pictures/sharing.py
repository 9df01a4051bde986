"""Two processes share a batch: what each holds and sends, with an example's numbers; the ring, and two lanes."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int64
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from pictures import plotting
from pictures.marks import KNOWN, LARGE, LIT, MISSING, SMALL, Box, Canvas

TOPS = (30, 196)  # of the tables of process 0, and of process 1
TALL = 96
# Left edges and widths of the columns.
TEXTS = (70, 90)
WEIGHTS = (220, 116)
OWN = (396, 116)
MEAN = (572, 116)
BLUE, ORANGE, GREEN = plotting.COLORS[:3]


def draw_shared(
    texts: Float[Tensor, "B C"],
    weights: Float[Tensor, "C D"],
    gradients: Sequence[Float[Tensor, "C D"]],
) -> None:
    """Show how two processes share B texts; with an alternative text.

    `gradients` are what each computes from its half of the texts; they add up to the gradient of
    the batch.
    """
    B, C = texts.shape
    total = gradients[0] + gradients[1]
    canvas = _Halves(TOPS[1] + TALL + 8)
    for process, gradient in enumerate(gradients):
        top = TOPS[process]
        canvas.write(34, top + TALL / 2, f"process\n{process}", LARGE, weight="bold")
        canvas.half("its texts", texts, process, _box(TEXTS, top))
        canvas.across(TEXTS, WEIGHTS, top)
        canvas.whole("weights", weights, _box(WEIGHTS, top))
        canvas.across(WEIGHTS, OWN, top)
        canvas.whole("gradient of its texts", gradient, _box(OWN, top))
        canvas.whole("gradient of all", total, _box(MEAN, top))
    canvas.sums()
    plotting.show(
        f"Two processes share a batch of {B} texts: each holds {B // 2} of them and all {C} × {weights.shape[1]} "
        "weights. Each computes the gradient of its own texts; by an all-reduce both get the sum, and make the same "
        "update.",
        canvas.ax.figure,
    )


def _box(column: tuple[int, int], top: float) -> Box:
    left, width = column
    return left, top, width, TALL


class _Halves(Canvas):
    """A picture with a row of tables for each process."""

    def whole(self, name: str, table: Tensor, box: Box) -> None:
        """A table that the process holds as a whole."""
        self.named(name, box)
        self.held(table, box, table)

    def held(self, rows: Tensor, box: Box, of: Tensor) -> None:
        """Rows of a table, in its colours, framed."""
        reach = 1.5 * float(of.abs().max())
        plotting.table(self.ax, rows, box, limits=(-reach, reach), fontsize=SMALL)
        self.frame(box, 7, line=LIT.line, width=LIT.width)

    def named(self, name: str, box: Box) -> None:
        left, top, width, _ = box
        self.frame(box, 6, line=MISSING.line, width=MISSING.width)
        self.write(left + width / 2, top - 12, name, LARGE, color=KNOWN.ink)

    def half(self, name: str, table: Tensor, process: int, box: Box) -> None:
        """A table of which the process holds one half; the other is empty."""
        left, top, width, height = box
        self.named(name, box)
        place = (left, top + process * height / 2, width, height / 2)
        self.held(table.chunk(2)[process], place, table)

    def across(self, before: tuple[int, int], after: tuple[int, int], top: float) -> None:
        y = top + TALL / 2
        self.arrow((sum(before) + 6, y), (after[0] - 5, y))

    def sums(self) -> None:
        """The two gradients meet between the rows, and their sum goes to both."""
        meet = (sum(OWN) + MEAN[0]) / 2
        level = (TOPS[0] + TALL + TOPS[1]) / 2
        for top in TOPS:
            middle = top + TALL / 2
            towards = 17 if top < level else -17
            self.arrow(
                (sum(OWN) + 6, middle),
                (meet - 8, middle),
                (meet - 8, level - towards),
                line=LIT.line,
                width=2,
            )
            self.arrow(
                (meet + 8, level - towards),
                (meet + 8, middle),
                (MEAN[0] - 5, middle),
                line=LIT.line,
                width=2,
            )
        self.ax.plot(meet, level, "o", markersize=22, color="white", markeredgecolor=LIT.line, zorder=4)
        self.ax.plot(meet, level, "+", markersize=12, color="black", markeredgewidth=1.6, zorder=5)
        self.write(meet + 24, level, "all-reduce", LARGE, ha="left", weight="bold")


# ---------------------------------------------------------------- the ring, and two lanes
def circle(workers: int, turns: Sequence[int], after: Callable[[int], Int64[Tensor, "N N"]]) -> None:
    """Workers in a circle with a gradient in as many parts each, after this many turns.

    `after(turn)` says of how many gradients each worker's part (N, N) is the sum. Parts have a
    colour each, the fuller the more are in it; an arrow carries the part that is sent next.
    """
    N, colors = workers, plotting.COLORS
    _, axes = plotting.figure(11, 3.2, columns=len(turns))
    for ax, turn in zip(axes, turns, strict=True):
        held = after(turn)
        for i in range(N):
            angle = math.pi / 2 - 2 * math.pi * i / N
            x, y = 1.25 * math.cos(angle), 1.25 * math.sin(angle)
            for part in range(N):
                left, share = x + (part - N / 2) * 0.26, int(held[i, part]) / N
                box = (left, y - 0.17)
                ax.add_patch(Rectangle(box, 0.24, 0.34, facecolor=colors[part], alpha=0.12))
                ax.add_patch(Rectangle(box, 0.24, 0.34 * share, facecolor=colors[part], alpha=0.9))
            above = 1 if y > -0.1 else -1
            ax.text(x, y + 0.33 * above, f"worker {i}", ha="center", va="center", fontsize=9)
            if turn < 2 * (N - 1):
                sent = (i - turn) % N  # as in the code
                towards = math.pi / 2 - 2 * math.pi * (i + 1) / N
                start, end = angle - 0.42, towards + 0.42
                arrow = FancyArrowPatch(
                    (0.85 * math.cos(start), 0.85 * math.sin(start)),
                    (0.85 * math.cos(end), 0.85 * math.sin(end)),
                    connectionstyle="arc3,rad=-0.25", arrowstyle="-|>", mutation_scale=14,
                    color=colors[sent], linewidth=2.2,
                )  # fmt: skip
                ax.add_patch(arrow)
        title = "before" if not turn else f"after turn {turn}"
        ax.set(xlim=(-1.95, 1.95), ylim=(-1.75, 1.75), title=title, aspect="equal")
        ax.axis("off")
    plotting.show(
        f"{N} workers in a circle, each with a gradient in {N} coloured parts, after {', '.join(map(str, turns))} "
        f"turns. Parts fill up as they are added on their way round; after {N - 1} turns each worker has one "
        f"full part, after {2 * (N - 1)} all are full."
    )


def two_lanes(layers: int, send: float) -> None:
    """A step of `layers` layers: forward 1, back 2 units each, and `send` units to send a layer's
    gradient; sent after the way back, and hidden behind it.
    """
    _, axes = plotting.figure(10, 2.9, rows=2)
    ends = []
    for ax, hidden in zip(axes, (False, True), strict=True):
        free = 0.0  # when the network is free
        for layer in range(layers):
            name = str(layer + 1)
            _piece(ax, layer, 1, 1, BLUE, name)
            start = layers + 2 * (layers - 1 - layer)
            _piece(ax, start, 2, 1, ORANGE, name)
        for layer in reversed(range(layers)):
            ready = layers + 2 * (layers - layer) if hidden else 3 * layers
            free = max(free, ready)
            _piece(ax, free, send, 0, GREEN, str(layer + 1))
            free += send
        ends.append(free)
        ax.set_yticks([0, 1], ["send", "compute"])
        ax.set(xlim=(0, layers * (3 + send) + 0.3), ylim=(-0.6, 1.6), xticks=[])
        ax.set_title("sent as soon as it is ready" if hidden else "sent at the end", loc="left")
        plotting.bare(ax)
    plotting.show(
        f"Two lanes, computing and sending, for {layers} layers. If gradients are sent at the end, a step takes "
        f"{ends[0]:.1f} units; if each is sent as soon as it is ready, behind the way back, {ends[1]:.1f}."
    )


def _piece(ax: Axes, left: float, width: float, lane: int, color: str, name: str) -> None:
    ax.add_patch(Rectangle((left, lane - 0.36), width - 0.06, 0.72, color=color, alpha=0.55))
    ax.text(left + width / 2 - 0.03, lane, name, ha="center", va="center", fontsize=9)


# ---------------------------------------------------------------- how large, for so much computing
def valleys(
    losses: Mapping[float, Mapping[int, Sequence[float]]], best: Mapping[float, tuple[float, float, float]]
) -> None:
    """For each budget, in operations: the losses of several seeds at each number of weights, and a parabola.

    `best`: the parabola of each budget, over the logarithm of the number of weights: how much it bends, where it is
    lowest, and how low. Right, its lowest points.
    """
    _, (left, right) = plotting.figure(10, 4, columns=2)
    phrases = []
    for (budget, by_size), color in plotting.colored(losses.items()):
        bend, lowest, low = best[budget]
        sizes = sorted(by_size)
        for size in sizes:
            left.plot([size] * len(by_size[size]), by_size[size], "o", color=color, ms=3.5, alpha=0.5)
        x = np.linspace(math.log(sizes[0]), math.log(sizes[-1]), 60)
        curve = low + bend * (x - lowest) ** 2
        left.plot(np.exp(x), curve, color=color, lw=1.5)
        left.plot(math.exp(lowest), low, "*", color=color, ms=13, mec="black", mew=0.6)
        left.annotate(
            power_of_ten(budget), (sizes[-1], curve[-1]), (6, 0), textcoords="offset points", color=color, va="center"
        )
        right.plot(budget, math.exp(lowest), "*", color=color, ms=13, mec="black", mew=0.6)
        phrases.append(f"{power_of_ten(budget)} operations: {math.exp(lowest):,.0f} weights, loss {low:.2f}")
    left.set(xscale="log", xlabel="weights", ylabel="loss (nats)")
    right.set(xscale="log", yscale="log", xlabel="operations", ylabel="weights at the lowest point")
    right.set_yticks([2_000, 5_000, 10_000, 20_000, 50_000])
    right.minorticks_off()
    right.yaxis.set_major_formatter("{x:,.0f}")
    left.xaxis.set_major_formatter("{x:,.0f}")
    plotting.show(
        "Left, for each budget of computing the losses of GPTs of five sizes, and a parabola through them, with a star "
        f"where it is lowest. Right, these stars. {'; '.join(phrases)}."
    )


def power_of_ten(number: float) -> str:
    """270,000,000,000 as 2.7 · 10¹¹."""
    mantissa, exponent = f"{number:.1e}".split("e+")
    return f"{mantissa.removesuffix('.0')} · 10{exponent.translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
