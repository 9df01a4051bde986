"""Drawings that are painted here and drawn again by a front end, both from the same marks.

A `Sketch` collects marks; `painted` makes them a picture, on a `Canvas`, and `drawing` hands them to
a front end, which knows each tone by its name. All lengths are pixels.
"""

from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from pictures import plotting

WIDTH = 700  # of the picture, which is 10 inches
NARROW = 350
SMALL = 8.75  # its letters, in points
LARGE = 10.3
# Of writing, of lines, of cells (0 to 1), of letters; by its name, a front end knows it.
Tone = namedtuple("Tone", "ink line width strength weight name")
LIT = Tone("black", plotting.COLORS[1], 2.6, 1.0, "bold", "lit")
KNOWN = Tone("#444444", "#808080", 1.2, 0.5, "normal", "known")
MISSING = Tone("#707070", "#B8B8B8", 1.2, 0.0, "normal", "missing")
FOLLOWED = Tone("black", "black", 2.2, 1.0, "bold", "followed")
BAND = "#FBE9B7"  # behind the row that is followed
GREENEST = 0.6  # the weight from which on a cell is fully green
OF_A_MASK = 6  # the same for what a mask allows, 1: it is pale, for it doesn't say how much
Box = tuple[float, float, float, float]  # left, top, width, height
Point = tuple[float, float]


class Drawing(NamedTuple):
    """A machine not shown yet: its figure, its alternative text, and what a touch can ask."""

    figure: Figure
    text: str
    data: dict[str, Any]


class Canvas:
    """An empty picture 700 pixels wide, y downwards; words, frames, tables, arrows go on it."""

    def __init__(self, height: float):
        self.height = height
        fig, self.ax = plotting.figure(10, 10 * height / WIDTH)
        fig.set_layout_engine("none")
        self.ax.set(position=(0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0), autoscale_on=False)
        self.ax.axis("off")

    def write(self, x: float, y: float, text: str, size: float = SMALL, **style: Any) -> None:
        self.ax.text(x, y, text, **{"ha": "center", "va": "center", "zorder": 5, "fontsize": size} | style)

    def frame(self, box: Box, zorder: float, line: str = "none", fill: str = "none", width: float = 0) -> None:
        self.ax.add_patch(Rectangle(box[:2], *box[2:], zorder=zorder, edgecolor=line, facecolor=fill, linewidth=width))

    def arrow(self, *path: Point, line: str = KNOWN.line, width: float = KNOWN.width, zorder: float = 1) -> None:
        """Along a path of straight lines, with the tip at its end."""
        style: dict[str, Any] = {"color": line, "lw": width, "zorder": zorder}
        self.ax.plot(*zip(*path[:-1], strict=True), solid_capstyle="butt", **style)
        style |= {"arrowstyle": "-|>", "mutation_scale": 12, "shrinkA": 0, "shrinkB": 0}
        self.ax.add_patch(FancyArrowPatch(*path[-2:], **style))

    def words(self, words: Sequence[str], x: float, top: float, height: float) -> None:
        """Words beside a table's rows, right-aligned at x: as many as there is room for."""
        step = 1 + int(10 // (height / len(words)))
        for k in range(0, len(words), step):
            self.write(x, top + (k + 0.5) * height / len(words), words[k], color=KNOWN.ink, ha="right")

    def table(
        self,
        name: str,
        table: Tensor,
        box: Box,
        shape: str,
        mask: Tensor | None = None,
        at: float = 0.5,
        **style: Any,
    ) -> None:
        """A table, its name above and its shape below at share `at`; with a mask, of weights."""
        left, top, width, height = box
        if mask is not None:
            style |= {"cmap": plotting.SHARE, "allowed": mask, "limits": (0, GREENEST)}
        self.frame(box, 2, fill="white")
        plotting.table(self.ax, table, box, fontsize=SMALL, **style)
        self.frame(box, 6, line=KNOWN.line, width=KNOWN.width)
        self.write(left + at * width, top - 10, name, LARGE, color=KNOWN.ink)
        if "=" not in shape:
            shape += f" = {' × '.join(map(str, table.shape))}"
        self.write(left + at * width, top + height + 11, shape, color=KNOWN.ink)


class Mark(Protocol):
    """One thing that is drawn: `paint` puts it on a canvas, `data` is what a front end needs for it."""

    kind: str  # by which a front end knows it

    @property
    def tone(self) -> Tone: ...

    @property
    def depth(self) -> float: ...

    def paint(self, canvas: Canvas) -> None: ...

    def data(self) -> dict[str, Any]: ...


@dataclass
class Word:
    tone: Tone
    at: Point
    text: str
    size: float = SMALL
    style: dict[str, Any] = field(default_factory=dict)  # of Matplotlib's text
    depth = 5
    kind = "write"

    def paint(self, canvas: Canvas) -> None:
        canvas.write(
            *self.at, self.text, self.size, **{"color": self.tone.ink, "weight": self.tone.weight} | self.style
        )

    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"at": _rounded(*self.at), "text": self.text}
        data |= {name: self.style[name] for name in ("ha", "va") if self.style.get(name, "center") != "center"}
        data |= {"large": True} if self.size == LARGE else {}
        data |= {"turned": True} if self.style.get("rotation") else {}
        return data


@dataclass
class Frame:
    tone: Tone
    box: Box
    depth: float
    style: dict[str, Any] = field(default_factory=dict)  # of Canvas.frame
    kind = "frame"

    def paint(self, canvas: Canvas) -> None:
        canvas.frame(self.box, self.depth, **self.style)

    def data(self) -> dict[str, Any]:
        fill = {"white": "paper", BAND: "band"}.get(self.style.get("fill", "none"), "none")
        return {"box": _rounded(*self.box), "fill": fill}


@dataclass
class Arrow:
    tone: Tone
    path: Sequence[Point]
    kind = "arrow"

    @property
    def depth(self) -> float:
        return 1 + self.tone.strength / 2  # lit ones lie on top

    def paint(self, canvas: Canvas) -> None:
        canvas.arrow(*self.path, line=self.tone.line, width=self.tone.width, zorder=self.depth)

    def data(self) -> dict[str, Any]:
        return {"path": [_rounded(*point) for point in self.path]}


@dataclass
class Cells:
    """Those of a table; a front end has the table, and paints them itself."""

    tone: Tone
    style: dict[str, Any]  # of plotting.table
    depth = 3
    kind = "cells"

    def paint(self, canvas: Canvas) -> None:
        plotting.table(canvas.ax, fontsize=SMALL, **self.style)

    def data(self) -> dict[str, Any]:
        return {}


class Sketch:
    """The marks of a drawing, and where its tables lie.

    Whoever draws gives it boxes (and a height), contents by the boxes' names, and lines: names of tables that lie
    side by side.
    """

    width = WIDTH
    height: float
    boxes: dict[str, Box]
    contents: Mapping[str, Tensor]
    lines: list[tuple[str, ...]]

    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def write(self, x: float, y: float, text: str, tone: Tone, size: float = SMALL, **style: Any) -> None:
        self.marks.append(Word(tone, (x, y), text, size, style))

    def frame(self, box: Box, depth: float, tone: Tone, **style: Any) -> None:
        self.marks.append(Frame(tone, box, depth, style))

    def arrow(self, *path: Point, tone: Tone) -> None:
        self.marks.append(Arrow(tone, path))

    def tone(self, part: str) -> Tone:
        """That of a table and its numbers."""
        return KNOWN

    def middle(self, name: str) -> float:
        """Half-way from a table's left to its right."""
        left, _, width, _ = self.boxes[name]
        return left + width / 2

    def right(self, name: str) -> float:
        left, _, width, _ = self.boxes[name]
        return left + width

    def floor(self, name: str) -> float:
        _, top, _, height = self.boxes[name]
        return top + height

    def painted(self) -> Figure:
        """The picture."""
        canvas = Canvas(self.height)
        for mark in self.marks:
            mark.paint(canvas)
        return canvas.ax.figure

    def drawing(self) -> dict[str, Any]:
        """For a front end: boxes by names, and marks from the deepest up; colours are its own."""
        drawn = sorted((mark for mark in self.marks if mark.kind != "cells"), key=lambda mark: mark.depth)
        tones = {name: self.tone(name) for name in self.contents}
        return {
            "width": self.width,
            "height": round(self.height, 2),
            "lines": [list(line) for line in self.lines],
            "boxes": {name: _rounded(*box) for name, box in self.boxes.items()},
            "tones": {name: {"tone": tone.name, "strength": tone.strength} for name, tone in tones.items()},
            "marks": [
                {"kind": mark.kind, "tone": mark.tone.name, "above": mark.depth > 3} | mark.data() for mark in drawn
            ],
        }


def short(tokens: Sequence[str]) -> list[str]:
    """Tokens as labels of at most ten letters."""
    return [word if len(word) <= 10 else word[:9] + "…" for word in plotting.labels(tokens)]


def room_for(words: Sequence[str]) -> float:
    """How many pixels the longest word takes beside a table."""
    return 14 + 5.7 * max(map(len, words))


def _rounded(*lengths: float) -> list[float]:
    return [round(length, 1) for length in lengths]
