"""The machine: the one drawing of the whole series, from words to their contexts, with the numbers of an example.

It lies as its matrix products do: a score stands where its query's row meets its key's column (the keys are drawn
transposed, above the scores), a context's number where a row of weights meets a column of the values. So a word's path
is one row from left to right. What is not given stays a grey outline. All lengths are pixels of a picture 700 wide.
"""

from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from helpers.pictures import plotting
from helpers.support.errors import ConfigError

HEADED = ("query", "key", "scores", "weights", "value", "context")  # what each head has of its own
SHAPES = dict.fromkeys(("x", "output"), "T × C") | dict.fromkeys(("query", "context"), "T × D")
SHAPES |= dict.fromkeys(("key", "value"), "K × D") | dict.fromkeys(("scores", "mask", "weights"), "T × K")
PARTS = (*SHAPES, "softmax", "dropout", "mixture", "heads")
WIDTH = 700  # of the picture, which is 10 inches
SMALL, LARGE = 8.75, 10.3  # its letters, in points
Tone = namedtuple("Tone", "ink line width strength weight")  # of writing, of lines, of cells (0 to 1), of letters
LIT = Tone("black", plotting.COLORS[1], 2.6, 1.0, "bold")
KNOWN = Tone("#444444", "#808080", 1.2, 0.5, "normal")
MISSING = Tone("#707070", "#B8B8B8", 1.2, 0.0, "normal")
Box = tuple[float, float, float, float]  # left, top, width, height
Point = tuple[float, float]


def draw(
    tokens: Sequence[str],
    *,
    lit: Sequence[str] = ("scores",),
    follow: int | None = None,
    keys: Sequence[str] | None = None,
    kept: Tensor | None = None,
    title: str = "",
    **tables: Tensor | None,
) -> None:
    """Show the machine for T `tokens`, with an alternative text made from the same data.

    `tables` are those of one head: x, output (T, C); query (T, D), key, value (T', D); scores, mask, weights (T, T');
    context (T, D). T' counts `keys`, the words that are looked at: by default, the tokens. Where scores or contexts
    come without query, key or value, x is drawn in their place. Scores are what enters the softmax, so divided by √D.
    With `kept` (T, T'), True for the weights that dropout keeps, it is drawn as a step of its own. Parts in `lit` (of
    `PARTS`) and the row of token `follow` stand out. ConfigError for a wrong shape, part or table.
    """
    given = {name: table.detach().cpu() for name, table in tables.items() if table is not None}
    rows, columns = (short(side) for side in (tokens, tokens if keys is None else keys))
    alone = ["query", "key"] * ("scores" in given and given.keys().isdisjoint(("query", "key")))
    alone += ["value"] * ("context" in given and "value" not in given)
    alone = alone if "x" in given and rows == columns else []  # the parts that x itself plays
    shown = given | {name: given["x"] for name in alone}
    _check(shown, len(rows), len(columns), lit, follow)
    dropped = f" Dropout: {lost(given.get('weights'), kept, given.get('mask'))}." if kept is not None else ""
    sketch = _Sketch(rows, columns, shown, alone, lit, kept)
    sketch.write(6, 9, title, LARGE + 1, ha="left", weight="bold")
    sketch.steps()
    for name in SHAPES:
        sketch.part(name, follow)
    plotting.show(_describe(rows, columns, given, alone, lit, follow) + dropped, sketch.ax.figure)


def weight_tables(
    tables: Mapping[str, Tensor], tokens: Sequence[str], *, mask: Tensor, kept: Mapping[str, Tensor] | None = None
) -> None:
    """Show up to four tables of weights (T, T) side by side under their titles, with an alternative text.

    What `mask` (T, T) forbids is hatched; what dropout didn't keep is white with a ×: `kept` has, for some of the
    titles, a boolean table that is True where a weight was kept. ConfigError for a wrong number, shape or title.
    """
    kept = kept or {}
    words = short(tokens)
    T, n = len(tokens), len(tables)
    if not T or not 1 <= n <= 4 or not kept.keys() <= tables.keys():
        raise ConfigError(f"{T} tokens, tables {[*tables]}, kept {[*kept]}: from 1 to 4 tables; `kept` by their titles")
    texts = []
    for title, table in tables.items():
        _check({"weights": table, "mask": mask}, T, T, (), None)
        texts.append(f"{title}: {lost(table, kept[title], mask) if title in kept else 'nothing dropped'}")
    room = room_for(words)
    wide = min((WIDTH - room - 12 * n) / n, 260)
    tall = min(max(wide, 120), 28 * T)
    canvas = Canvas(tall + 54)
    canvas.words(words, room - 6, 28, tall)
    for k, (title, table) in enumerate(tables.items()):
        box = (room + k * (wide + 12), 28, wide, tall)
        canvas.table(title, table, box, "T × T", mask=mask, kept=kept.get(title))
    text = f"Tables of weights side by side for the words {', '.join(words[:12])}. {'; '.join(texts)}."
    forbidden = f" The mask forbids {int((~mask).sum())} of {T * T} cells, which are hatched."
    plotting.show(text + forbidden, canvas.ax.figure)


def short(tokens: Sequence[str]) -> list[str]:
    """Tokens as labels of at most ten letters."""
    return [word if len(word) <= 10 else word[:9] + "…" for word in plotting.labels(tokens)]


def room_for(words: Sequence[str]) -> float:
    """How many pixels the longest word takes beside a table."""
    return 14 + 5.7 * max(map(len, words))


def lost(weights: Tensor | None, kept: Tensor, mask: Tensor | None) -> str:
    """What dropout has done, in words; ConfigError unless `kept` is boolean and speaks of all the weights."""
    if weights is None or kept.dtype != torch.bool or kept.shape != weights.shape:
        like = "no weights" if weights is None else f"weights of shape {tuple(weights.shape)}"
        raise ConfigError(f"kept is {kept.dtype} of shape {tuple(kept.shape)} for {like}: it must be boolean, one each")
    kept = kept.cpu()
    allowed = torch.ones_like(kept) if mask is None else mask.cpu()
    sums = weights.cpu().masked_fill(~allowed, 0).sum(-1)
    dropped = f"{int((allowed & ~kept).sum())} of {int(allowed.sum())} weights are dropped (×)"
    return f"{dropped}, and rows add up to between {sums.min():.2f} and {sums.max():.2f}"


def _check(given: Mapping[str, Tensor], T: int, T_key: int, lit: Sequence[str], follow: int | None) -> None:
    """ConfigError unless all parts exist and every table has the shape that its words, and other tables, ask for."""
    if isinstance(lit, str) or not {*lit} <= {*PARTS} or not given.keys() <= SHAPES.keys():
        raise ConfigError(f"lit={lit!r} and tables {', '.join(given)}: the parts are {', '.join(PARTS)}")
    if not T or not T_key or (follow is not None and not 0 <= follow < T):
        raise ConfigError(f"{T} tokens, {T_key} keys, follow={follow}: it takes one of each, and `follow` < tokens")
    wide = dict.fromkeys(("scores", "mask", "weights"), T_key)
    wide |= {name: given[like].shape[-1] for name, like in (("key", "query"), ("context", "value")) if like in given}
    for name, table in given.items():
        rows = T_key if name in ("key", "value") else T
        columns = wide.get(name)
        if table.ndim != 2 or len(table) != rows or not 0 < table.shape[1] == (columns or table.shape[1]):
            raise ConfigError(f"{name} is of shape {tuple(table.shape)}: here it must be ({rows}, {columns or 'any'})")
    if "mask" in given and given["mask"].dtype != torch.bool:
        raise ConfigError(f"mask is of {given['mask'].dtype}: it must be boolean, True where attention is allowed")


def _describe(rows: list, columns: list, given: Mapping, alone: list, lit: Sequence[str], follow: int | None) -> str:
    """The drawing in words: what is filled, lit, forbidden, followed and still missing."""
    filled = ", ".join(f"{name} ({len(table)} × {table.shape[1]})" for name, table in given.items()) or "nothing yet"
    text = f"The machine of attention for the words {', '.join(rows[:12])}. Filled with numbers: {filled}."
    text += f" The words looked at are {', '.join(columns[:12])}." if columns != rows else ""
    text += f" No projections yet: x = {' = '.join(alone)}." if alone else ""
    if "mask" in given:
        text += f" The mask forbids {int((~given['mask']).sum())} of {given['mask'].numel()} cells, which are hatched."
    name = next((name for name in ("weights", "scores") if name in given), "")
    if follow is not None and name:
        most, where = given[name][follow].max(dim=0)
        text += f" Followed: {rows[follow]}; the largest of its {name} is {most:.2f}, for {columns[where]}."
    missing = ", ".join(name for name in (*SHAPES, "heads") if name not in (*given, *alone))
    return text + f" Lit: {', '.join(lit) or 'nothing yet'}. Outlines only: {missing}."


def layout(shown: Mapping[str, Tensor], T: int, T_key: int, room: float) -> dict[str, Box]:
    """Where each table lies, when words need `room`: a row of tables, and above it those that meet it from above."""
    counts = {"x": 3, "output": 2} | dict.fromkeys(HEADED, 2) | {name: table.shape[1] for name, table in shown.items()}
    wide = {name: min(max(n, 2), 3.5) for name, n in counts.items()}  # in cells; wider tables are squeezed
    wide |= dict.fromkeys(("scores", "mask", "weights"), min(max(T_key, 3), 6.5))
    row = {"x": 46, "query": 16, "scores": 54, "weights": 16, "context": 30, "output": 6}  # and the gap to the next
    cell = min(28, (WIDTH - room - sum(row.values())) / sum(wide[name] for name in row))
    tall = {"key": min(20 * wide["key"], 60), "mask": min(20 * T, 120), "value": min(20 * T_key, 120)}
    floor = 62 + max(tall["key"] + room + 12, tall["mask"], tall["value"])
    boxes = {}
    left = room
    for name, gap in row.items():
        boxes[name] = (left, floor + room + 42, wide[name] * cell, tall["mask"])
        left += wide[name] * cell + gap
    for name, below in (("key", "scores"), ("mask", "weights"), ("value", "context")):
        boxes[name] = (boxes[below][0], floor - tall[name], wide[below] * cell, tall[name])
    return boxes


class Canvas:
    """An empty picture 700 pixels wide, y downwards, and what is drawn on it: words, frames, tables, arrows."""

    def __init__(self, height: float):
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
        self, name: str, table: Tensor, box: Box, shape: str, mask: Tensor | None = None, at: float = 0.5, **style: Any
    ) -> None:
        """A table with its name above and its shape below, `at` a share of its width; with a mask, one of weights."""
        left, top, width, height = box
        if mask is not None:  # weights of 0.6 and more are fully green
            style |= {"cmap": plotting.SHARE, "allowed": mask, "limits": (0, 0.6)}
        self.frame(box, 2, fill="white")
        plotting.table(self.ax, table, box, fontsize=SMALL, **style)
        self.frame(box, 6, line=KNOWN.line, width=KNOWN.width)
        self.write(left + at * width, top - 10, name, LARGE, color=KNOWN.ink)
        text = shape if "=" in shape else f"{shape} = {' × '.join(map(str, table.shape))}"
        self.write(left + at * width, top + height + 11, text, color=KNOWN.ink)


class _Sketch(Canvas):
    """The drawing under way: its axes, the boxes of its tables, and in which tone each part is drawn."""

    def __init__(self, rows: list, columns: list, shown: Mapping, alone: list, lit: Sequence, kept: Tensor | None):
        self.rows = rows
        self.columns = columns
        self.shown = shown
        self.alone = alone
        self.lit = lit
        self.kept = kept
        self.room = room_for(rows + columns)
        self.boxes = layout(shown, len(rows), len(columns), self.room)
        super().__init__(sum(self.boxes["x"][1::2]) + 32)

    def tone(self, part: str, result: str = "") -> Tone:
        """Lit if asked for, else known if it is there; a step (softmax) is there if its `result` is."""
        return LIT if part in self.lit else KNOWN if (result or part) in self.shown else MISSING

    def part(self, name: str, follow: int | None) -> None:
        """One table in its box, with its name and shape; the key stands transposed, other heads stand behind."""
        tone = self.tone(name)
        heads = self.tone("heads")
        table = self.shown.get(name)
        box = self.boxes[name]
        left, top, width, height = box
        as_x = name in self.alone or (name == "context" and "value" in self.alone)  # of x's width
        label = name
        shape = SHAPES["x" if as_x else name]
        spot = (left + width / 2, top + height + (19 if name in HEADED else 10))  # of the shape: below,
        side = "center"
        if name == "key":
            label = "keyᵀ"
            shape = shape[::-1]
            table = None if table is None else table.T
            spot = (left - 6, top + height / 2)  # or beside
            side = "right"
        for behind in (8, 4) if name in HEADED else ():
            shifted = (left + behind, top + behind, width, height)
            self.frame(shifted, 1.9 - behind / 100, heads.line, "white", heads.width)
        self.frame(box, 2, fill="white")
        self.frame(box, 6, line=tone.line, width=tone.width)
        y = top + height / 2 if table is None else top - 9 - self.room * (name == "key")
        if table is not None:
            label += " = x" * (name in self.alone) + "ᵀ" * (name in self.alone and name == "key")
            shape += f" = {table.shape[0]} × {table.shape[1]}"
            # Weights of 0.6 and more are fully green; what a mask allows is pale: it doesn't say how much.
            share = {"weights": (0, 0.6), "mask": (0, 6)}.get(name)
            style: dict[str, Any] = {"color": tone.ink, "strength": tone.strength, "numbers": name != "mask"}
            style |= {"cmap": plotting.SHARE, "allowed": self.shown.get("mask"), "limits": share} if share else {}
            style |= {"kept": self.kept} if name == "weights" else {}
            plotting.table(self.ax, table, box, fontsize=SMALL, **style)
        self.write(left + width / 2, y, label, LARGE, color=tone.ink, weight=tone.weight)
        self.write(*spot, shape.replace("K", "T" if self.rows == self.columns else "T′"), color=tone.ink, ha=side)
        if name in ("x", "value", "key"):
            self.name(name, follow)
        if follow is not None and name not in ("key", "value", "mask"):
            row = (left, top + follow * height / len(self.rows), width, height / len(self.rows))
            if table is not None:
                self.frame(row, 7, line="black", width=2.2)
            if name == "x":  # the band runs from the left edge to the right
                self.frame((2, row[1], WIDTH - 4, row[3]), 0, fill="#FBE9B7")

    def name(self, name: str, follow: int | None) -> None:
        """Words beside a table's rows, or upright above its columns: as many as there is room for."""
        left, top, width, height = self.boxes[name]
        words = self.rows if name == "x" else self.columns
        upright = name == "key"
        size = (width if upright else height) / len(words)
        side, x = ("right", left - 6) if name == "x" else ("left", left + width + 13)
        style: dict[str, Any] = {"rotation": 90 * (self.room > 30), "va": "bottom"} if upright else {"ha": side}
        step = 1 + int(10 // size)
        for k in range((follow or 0) % step if name == "x" else 0, len(words), step):
            weight = "bold" if name == "x" and k == follow else "normal"
            spot = (left + (k + 0.5) * size, top - 5) if upright else (x, top + (k + 0.5) * size)
            self.write(*spot, words[k], color=self.tone(name).ink, weight=weight, **style)

    def step(self, part: str, text: str, spot: Point, *path: Point, result: str = "", ha: str = "left") -> None:
        """An arrow along a path, with what happens on it written at a spot; what is lit lies above what isn't."""
        tone = self.tone(part, result)
        self.arrow(*path, line=tone.line, width=tone.width, zorder=1 + tone.strength / 2)
        self.write(*spot, text, color=tone.ink, weight=tone.weight, ha=ha)

    def steps(self) -> None:
        """The arrows between the tables."""
        box = self.boxes
        middle = {name: left + width / 2 for name, (left, _, width, _) in box.items()}
        edge = {name: left + width + 5 + 4 * (name in HEADED) for name, (left, _, width, _) in box.items()}
        row = box["x"][1] + box["x"][3] / 2  # the middle of the row of tables,
        roof = box["x"][1] - 18  # above it,
        floor = sum(box["key"][1::2])  # and below those that stand over it
        bus = 24  # the line along the top, which leads down to keys and values
        own_words = self.rows == self.columns
        start = (middle["x"], roof if own_words else bus)  # the line rises from x, or comes from other words
        note = f"no projections yet:\nx = {' = '.join(self.alone)}" if self.alone else ""
        note = note if own_words else "from other words"
        self.write(middle["x"] + 8, bus + 18, note, ha="left", linespacing=1.4, color=KNOWN.ink)
        for name in ("key", "value"):
            spot = (middle[name] + 6, bus + 12)
            end = box[name][1] - 18 - self.room * (name == "key")
            text = "" if name in self.alone else f"W_{name}"
            self.step(name, text, spot, start, (middle["x"], bus), (middle[name], bus), (middle[name], end))
        texts = {"query": "=" if "query" in self.alone else "W_query", "softmax": "softmax"}
        links = ("x", "query", "query"), ("scores", "weights", "softmax"), ("context", "output", "output")
        for before, name, part in links:
            a = edge[before]
            b = box[name][0] - 5
            self.step(part, texts.get(part, ""), ((a + b) / 2, row - 9), (a, row), (b, row), result=name, ha="center")
        gap = (edge["scores"] + box["weights"][0] - 5) / 2  # between scores and weights
        if self.kept is not None:
            tone = self.tone("dropout", "weights")
            self.write(gap, row + 10, "then\ndropout", color=tone.ink, weight=tone.weight, va="top", linespacing=1.3)
        product = "row · column" + " ÷ √D" * ("query" in self.shown and "query" not in self.alone)
        for name, part, text, below in ("scores", "scores", product, 12), ("context", "mixture", "mixture", 28):
            x = middle[name]
            self.step(part, text, (x + 8, floor + 36), (x, floor + below), (x, roof), result=name)
        side = box["mask"][1] + box["mask"][3] / 2
        self.step("mask", "", (gap, row), (box["mask"][0] - 5, side), (gap, side), (gap, row - 18))
        heads = self.tone("heads")
        x = edge["scores"] + 4
        y = sum(box["scores"][1::2]) + 4
        self.write(x, y, "heads", ha="left", color=heads.ink, weight=heads.weight)
