"""Figures in one line each: tokens as labels, colours for every eye, an alternative text.

Each function draws; `show(alt)` then displays the figure with its alternative text. The background
is always white, so that a figure reads the same on a dark page as on a light one.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation
from matplotlib.ticker import NullFormatter, StrMethodFormatter
from PIL import Image
from torch import Tensor

# Okabe and Ito's palette (Color Universal Design, 2008), in the order in which lines take its
# colours.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SIGNED = LinearSegmentedColormap.from_list("signed", [COLORS[1], "white", COLORS[0]])  # around zero
SHARE = LinearSegmentedColormap.from_list("share", ["white", COLORS[2]])  # from zero up
NOTHING = "#E4E4E4"  # an exact zero
MOST = 6  # rows and columns of a table whose numbers are written
STYLE: dict[str, Any] = {
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "axes.prop_cycle": plt.cycler(color=COLORS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "text.parse_math": False,  # a $ of the corpus is a $
}
# How a newline, a space and a star, which explorers take for emphasis, are written.
SPECIAL = {
    "\n": "\u21b5",
    " ": "\u00b7",
    "*": "\u2217",
}


def figure(
    width: float = 6.0,
    height: float = 4.0,
    columns: int = 1,
    rows: int = 1,
    widths: Sequence[float] | None = None,
):
    """A figure in the series' style, and its axes (an array if several, of relative `widths`)."""
    plt.rcParams.update(STYLE)  # ty: ignore[no-matching-overload]  (it wants every key as a literal)
    return plt.subplots(rows, columns, figsize=(width, height), width_ratios=widths)


def show(alt: str, target: Figure | None = None, handle: Any = None) -> None:
    """Display `target` (default: the current figure) with `alt` for screen readers; close it.

    With a `handle` of an earlier display, that output is replaced. ValueError when `alt` is empty.
    """
    bundle, metadata = output(alt, target)
    if handle is None:
        display(bundle, metadata=metadata, raw=True)
    else:
        handle.update(bundle, metadata=metadata, raw=True)


def output(alt: str, target: Figure | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """A figure's picture and `alt` as Jupyter stores them, and their metadata; closes the figure.

    ValueError when `alt` is empty.
    """
    if not alt.strip():
        raise ValueError("a figure needs an alternative text: say in a sentence what one sees")
    target = target or plt.gcf()
    for ax in target.axes:
        _keep_apart(ax)
        for axis in (ax.xaxis, ax.yaxis):
            # Matplotlib's own labels are formulas there, which are switched off.
            if axis.get_scale() == "log":
                axis.set_major_formatter(StrMethodFormatter("{x:g}"))
                axis.set_minor_formatter(NullFormatter())
    png, width = picture(target)
    return {"image/png": png, "text/plain": alt}, {"image/png": {"alt": alt, "width": width}}


def _keep_apart(ax: Axes) -> None:
    """Move the names at the ends of lines up until each has a line of its own."""

    def height(end: Annotation) -> float:  # in points
        return ax.transData.transform(end.xy)[1] * 72 / ax.figure.dpi

    ends = [text for text in ax.texts if isinstance(text, Annotation) and text.get_gid() == "end"]
    floor = -np.inf
    for end in sorted(ends, key=height):
        floor = max(height(end), floor + 14)
        end.set_position((7, floor - height(end)))


def picture(target: Figure) -> tuple[bytes, int]:
    """PNG of a figure, and how many pixels wide to show it; closes the figure.

    It has one and a half times the pixels, for fine screens, and 256 colours: half of the bytes.
    """
    png = io.BytesIO()
    small = io.BytesIO()
    target.savefig(png, format="png", dpi=1.5 * target.dpi)
    plt.close(target)
    Image.open(png).convert("RGB").quantize(256).save(small, format="png", optimize=True)
    return small.getvalue(), round(target.get_figwidth() * target.dpi)


def colored(things: Iterable[Any], colors: Sequence[str] = COLORS) -> Iterator[tuple[Any, str]]:
    """Each thing with a colour of its own; where there are more things than colours, these begin again."""
    return zip(things, cycle(colors), strict=False)


def labels(tokens: Sequence[str]) -> list[str]:
    """Tokens as axis labels: spaces and newlines made visible."""
    return [SPECIAL.get(token, token) for token in tokens]


def bare(ax: Axes) -> None:
    """Take away the frame, and the ticks' strokes; what stands beside them stays."""
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def heatmap(
    matrix: Tensor,
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    title: str = "",
    row_name: str = "query",
    column_name: str = "key",
    decimals: int | None = 2,
    limits: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A matrix as coloured cells: `rows` downwards, `columns` (default: the same) rightwards.

    Colours lie evenly around zero where there are negative numbers. Numbers are written into the
    cells to `decimals` places (None: not at all). NaN cells stay grey.
    """
    columns = rows if columns is None else columns
    if ax is None:
        _, ax = figure(1.5 + 0.75 * len(columns), 1.2 + 0.5 * len(rows))
    values = matrix.detach().cpu().float().numpy()
    if limits is None:
        limits = (np.nanmin(values), np.nanmax(values))
        if limits[0] < 0:
            reach = 1.5 * np.nanmax(np.abs(values))  # pale enough to read black on
            limits = (-reach, reach)
    low, high = limits
    cmap = SIGNED if low < 0 else SHARE
    ax.imshow(values, cmap=cmap.with_extremes(bad="#BBBBBB"), vmin=low, vmax=high, aspect="auto")
    ax.set_xticks(range(len(columns)), labels(columns), rotation=90 if max(map(len, columns)) > 10 else 0)
    ax.set_yticks(range(len(rows)), labels(rows))
    ax.set(xlabel=column_name, ylabel=row_name, title=title)
    bare(ax)
    if decimals is not None:
        for i, j in np.argwhere(~np.isnan(values)):
            ax.text(j, i, f"{values[i, j]:z.{decimals}f}", ha="center", va="center")
    return ax


def table(
    ax: Axes,
    matrix: Tensor,
    box: tuple[float, float, float, float],
    *,
    cmap: LinearSegmentedColormap = SIGNED,
    limits: tuple[float, float] | None = None,
    allowed: Tensor | None = None,
    kept: Tensor | None = None,
    strength: float = 1.0,
    numbers: bool = True,
    most: int = MOST,
    color: str = "black",
    fontsize: float = 9.0,
) -> None:
    """A matrix as coloured cells in a `box` (left, top, width, height) of axes with y downwards.

    Without `limits`, colours lie evenly around zero; `strength` below 1 makes them paler. An exact
    zero is grey, a cell that is not `allowed` (default: not finite) is hatched. Numbers are written
    in tables of up to `most` rows and columns, to 2 decimals or to as many as fit.
    """
    values = matrix.detach().cpu().double().numpy()
    free = np.isfinite(values) if allowed is None else allowed.cpu().numpy()
    dropped = np.zeros_like(free) if kept is None else free & ~kept.cpu().numpy()
    left, top, width, height = box
    x = np.linspace(left, left + width, values.shape[1] + 1)  # where the cells begin and end
    y = np.linspace(top, top + height, len(values) + 1)
    cell = (x[1] - x[0], y[1] - y[0])
    em = _em(ax, fontsize)
    texts = []
    if numbers and max(values.shape) <= most and cell[1] > em:
        texts = written(np.where(free, values, 0), cell[0] / em)

    if limits is None:
        # Pale enough to read black on.
        reach = 1.5 * np.abs(values[np.isfinite(values)]).max(initial=1e-9)
        limits = (-reach, reach)
    style: dict[str, Any] = {"vmin": limits[0], "vmax": limits[1], "alpha": strength, "zorder": 3}
    if texts:
        style |= {"edgecolors": "white", "linewidth": 1}
    ax.pcolormesh(x, y, np.ma.masked_equal(values, 0), cmap=cmap.with_extremes(bad=NOTHING), **style)
    _fill(ax, x, y, ~free, NOTHING, edgecolor="#8C8C8C", hatch="////", linewidth=0)
    _fill(ax, x, y, dropped, "white", edgecolor=NOTHING, linewidth=1)

    middle_x = (x[:-1] + x[1:]) / 2
    middle_y = (y[:-1] + y[1:]) / 2
    if dropped.any():
        i, j = dropped.nonzero()
        size = min(6, 0.3 * fontsize / em * min(cell))  # of a ×, in points, within its cell
        ax.plot(middle_x[j], middle_y[i], "x", markersize=size, color="#404040", zorder=5)
    if texts:
        style = {"ha": "center", "va": "center", "fontsize": fontsize, "color": color, "zorder": 5}
        for i, j in np.argwhere(free & ~dropped):
            ax.text(middle_x[j], middle_y[i], texts[i][j], **style)


def _em(ax: Axes, fontsize: float) -> float:
    """The size of letters in units of the axes."""
    pixels = ax.transData.transform((1, 0)) - ax.transData.transform((0, 0))  # of one unit
    return fontsize * ax.figure.get_dpi() / 72 / pixels[0]


def _fill(ax: Axes, x: np.ndarray, y: np.ndarray, mask: np.ndarray, color: str, **style: Any) -> None:
    """Give those cells of a table one colour, whatever their numbers."""
    if mask.any():
        cells = np.ma.masked_where(~mask, np.zeros(mask.shape))
        ax.pcolor(x, y, cells, cmap=ListedColormap([color]), zorder=3, **style)


def written(values: np.ndarray, ems: float) -> list[list[str]]:
    """Numbers as texts that fit a width in ems, to 2 decimals or fewer; none if they can't."""
    wide = {".": 0.32, "−": 0.84}  # any digit of the house's letters: 0.64

    def width(text: str) -> float:
        return sum(wide.get(sign, 0.64) for sign in text)

    are_whole = np.array_equal(values, values.round())
    for decimals in [0] if are_whole else [2, 1]:
        texts = [[numeral(value, decimals) for value in row] for row in values.tolist()]
        if max(width(text) for row in texts for text in row) <= ems:
            return texts
    return []


def numeral(value: float, decimals: int) -> str:
    """A number with a proper minus, and none before a zero; 0.125 and its neighbours round alike."""
    return f"{round(value, decimals + 3):z.{decimals}f}".replace("-", "−")


def rounded(tensor: Tensor) -> Any:
    """A tensor as lists, to four decimals so that machines store the same; a mask as 0 and 1."""
    if tensor.dim() > 1:
        return [rounded(row) for row in tensor]
    return tensor.int().tolist() if tensor.dtype == torch.bool else [round(x, 4) for x in tensor.double().tolist()]


def curves(
    x: Sequence | Tensor,
    lines: Mapping[str, Sequence | Tensor],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    milestones: Mapping[str, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """One named line each, with its own marker and colour; `milestones` are dashed levels."""
    if ax is None:
        _, ax = figure(7, 4)
    for (name, y), marker in zip(lines.items(), cycle("os^Dv<>"), strict=False):
        (line,) = ax.plot(x, y, marker=marker, markersize=5, label=name)
        if len(lines) > 1:
            last = max(i for i, value in enumerate(y) if value == value)  # which NaN doesn't
            end = (float(x[last]), float(y[last]))
            style: dict[str, Any] = {
                "color": line.get_color(),
                "va": "center",
                "gid": "end",
                "annotation_clip": False,
            }
            ax.annotate(name, end, (7, 0), textcoords="offset points", **style)
    for name, level in (milestones or {}).items():
        ax.axhline(level, color="#555555", linewidth=1, linestyle="--")
        ax.annotate(
            name,
            (1, level),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            color="#333333",
        )
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    return ax


def letters(lines: Mapping[str, str]) -> Axes:
    """Texts of equal length as rows of lettered cells, two and two in the same colour."""
    length = len(next(iter(lines.values())))
    _, ax = figure(1.2 + 0.32 * length, 0.7 + 0.32 * len(lines))
    for row, text in enumerate(lines.values()):
        color = COLORS[row // 2 % len(COLORS)]
        alpha = 0.25 if row % 2 else 0.1
        box = {"boxstyle": "square,pad=0.35", "facecolor": color, "alpha": alpha, "linewidth": 0}
        for column, letter in enumerate(labels(text)):
            ax.text(column, row, letter, ha="center", va="center", family="monospace", bbox=box)
    ax.set(xlim=(-0.6, length - 0.4), ylim=(len(lines) - 0.4, -0.6))
    ax.set_xticks(range(length), range(length), fontsize=7)
    ax.set_yticks(range(len(lines)), lines)
    bare(ax)
    return ax


def cells(
    texts: Sequence[Sequence[str]],
    groups: Tensor,
    rows: Sequence[str],
    *,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """A table of short texts; cells of one group (integers of the same shape) share a colour."""
    if ax is None:
        _, ax = figure(1.2 + len(texts[0]), 0.8 + 0.4 * len(texts))
    for i, line in enumerate(texts):
        for j, text in enumerate(line):
            color = COLORS[int(groups[i, j]) % len(COLORS)]
            ax.add_patch(Rectangle((j - 0.48, i - 0.46), 0.96, 0.92, facecolor=color, alpha=0.3, linewidth=0))
            ax.text(j, i, text, ha="center", va="center", fontsize=9)
    ax.set(xlim=(-0.6, len(texts[0]) - 0.4), ylim=(len(texts) - 0.5, -0.5), title=title)
    ax.set_xticks([])
    ax.set_yticks(range(len(rows)), labels(rows))
    bare(ax)
    return ax


def arcs(read: Sequence[str], written: Sequence[str], weights: Tensor, *, ax: Axes | None = None) -> Axes:
    """Lines from words `written` below to those `read` above, as thick as the weights (T, S)."""
    if ax is None:
        _, ax = figure(7, 2.5)
    above = np.linspace(0, 1, len(read))
    below = np.linspace(0, 1, len(written))
    for i, j in (weights > 0.01).nonzero().tolist():  # a thinner line would not be seen
        width = 6 * weights[i, j].item()
        ax.plot([above[j], below[i]], [1, 0], color=COLORS[0], linewidth=width, alpha=0.8)
    for x, word in zip(above, labels(read), strict=True):
        ax.text(x, 1.06, word, ha="center", va="bottom", fontsize=12)
    for x, word in zip(below, labels(written), strict=True):
        ax.text(x, -0.06, word, ha="center", va="top", fontsize=12)
    ax.set(xlim=(-0.08, 1.08), ylim=(-0.3, 1.3))
    ax.axis("off")
    return ax


class Live:
    """A figure that is drawn again, in place, whenever `update` is called with new data."""

    def __init__(self, draw: Callable[..., object], alt: str):
        self.draw = draw
        self.alt = alt
        self.handle = None

    def update(self, *data: object) -> None:
        if self.handle is None:
            self.handle = display({"text/plain": self.alt}, raw=True, display_id=True)
        self.draw(*data)
        show(self.alt, handle=self.handle)
