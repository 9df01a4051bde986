"""Lesson 06's machine: a sheet for each head, fanned out, and the one output row that they add up to.

What a head finds, its context, times its own slice of W_o gives a contribution to all C numbers of a word; the
contributions are added up. So the sheets lie below each other, with x, which they share, to their left, and to their
right, for the one word that is followed, the sum. On a phone all is stacked, and whatever comes after the weights is
drawn for that word only.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pictures import plotting
from pictures.machine import SHAPES
from pictures.marks import (
    BAND,
    FOLLOWED,
    GREENEST,
    KNOWN,
    LARGE,
    NARROW,
    WIDTH,
    Box,
    Cells,
    Drawing,
    Point,
    Sketch,
    Tone,
    room_for,
    short,
)

ALIKE = 0.005  # weights that differ by less
ROW = 13  # pixels, of a word in a table
ALONG = ("query", "weights", "context", "contribution")  # a word's path on a sheet
ABOVE = {"key": "weights", "value": "context", "slice": "contribution"}  # what stands above what
LABELS = {"key": "keyᵀ", "slice": "its slice of W_o"}
LOUD = 0.2  # the least weight that is written; cells are too narrow for those of all words


def draw(
    tokens: Sequence[str],
    numbers: Sequence[str],
    x: Float[Tensor, "T C"],
    heads: Mapping[str, Mapping[str, Tensor]],
    follow: int,
) -> Drawing:
    """Draw the machine for T `tokens`, with a sheet for each of `heads`; the row of token `follow` stands out.

    `numbers` are the names of the C numbers of a word. Each head, by its question, has query, key, value and
    context (T, D), weights (T, T), and its `slice` of W_o (D, C).
    """
    rows = short(tokens)
    tables: dict[str, Tensor] = {"x": x}
    for h, head in enumerate(heads.values(), start=1):
        tables |= {f"{name} {h}": table for name, table in head.items() if name != "key"}
        tables |= {f"key {h}": head["key"].T, f"contribution {h}": head["context"] @ head["slice"]}
    tables |= {f"added {h}": tables[f"contribution {h}"] for h in range(1, len(heads) + 1)}
    tables["output"] = torch.stack([tables[f"added {h}"] for h in range(1, len(heads) + 1)]).sum(dim=0)

    wide, narrow = (kind(rows, numbers, tables, list(heads), follow) for kind in (_Sheets, _NarrowSheets))
    data = {
        "rows": rows,
        "numbers": list(numbers),
        "heads": list(heads),
        "drawings": [wide.drawing(), narrow.drawing()],
        "tables": {name: plotting.rounded(table) for name, table in tables.items()},
        "follow": follow,
    }
    return Drawing(wide.painted(), _describe(rows, numbers, tables, list(heads), follow), data)


def _describe(rows: list[str], numbers: Sequence[str], tables: Mapping[str, Tensor], heads: list[str], t: int) -> str:
    """The drawing in words: where each head looks, and what is added up."""
    looks, sums = [], []
    for h, question in enumerate(heads, start=1):
        most, s = tables[f"weights {h}"][t].max(dim=0)
        looks.append(f"head {h} ({question}) gives {plotting.numeral(most.item(), 2)} to {rows[s]}")
    for c, name in enumerate(numbers):
        parts = [plotting.numeral(tables[f"contribution {h}"][t, c].item(), 2) for h in range(1, len(heads) + 1)]
        sums.append(f"{name} {' + '.join(parts)} = {plotting.numeral(tables['output'][t, c].item(), 2)}")
    return (
        f"The machine of attention for {' '.join(rows)}, with {len(heads)} sheets, one for each head. Both read the "
        f"same x. Followed: {rows[t]}; {', '.join(looks)}. Each head's context times its own slice of W_o is a "
        f"contribution to all {len(numbers)} numbers, and the contributions add up to one row of the output: "
        f"{'; '.join(sums)}."
    )


class _Sheets(Sketch):
    """The marks: a sheet below the other, x to their left, the output to their right."""

    def __init__(
        self, rows: list[str], numbers: Sequence[str], tables: Mapping[str, Tensor], heads: list[str], follow: int
    ):
        super().__init__()
        self.rows, self.numbers, self.heads, self.follow = rows, numbers, heads, follow
        self.contents = tables
        self.room = room_for(rows)  # of words
        self.head_room = room_for(numbers) - 6  # of the numbers' names, upright
        self.T, self.C = tables["x"].shape
        self.D = tables["slice 1"].shape[0]
        along = [tuple(f"{name} {h}" for name in ALONG) for h, _ in enumerate(heads, start=1)]
        self.lines = [("x",), *along]
        self.sum = [f"added {h}" for h, _ in enumerate(heads, start=1)]
        self.single = [*self.sum, "output"]  # of these tables only the followed row is drawn
        self.boxes: dict[str, Box] = {}
        self.sheets: list[Box] = []
        self.layout()
        for h, question in enumerate(heads, start=1):
            self.sheet(h, question)
        for name in self.boxes:
            self.part(name)
        self.arrows_from_x()
        self.signs()
        self.followed()

    # ------------------------------------------------------------ where everything lies
    def layout(self) -> None:
        left = self.room + 16 * self.C + 26
        self.sheets = [(left, 6 + h * (self.tall() + 8), 0, self.tall()) for h in range(len(self.heads))]
        for h, (_, top, *_) in enumerate(self.sheets, start=1):
            self.lay_sheet(h, left, top)
        right = self.right("contribution 1") + 10
        self.sheets = [(left, top, right - left, tall) for _, top, _, tall in self.sheets]
        self.height = self.sheets[-1][1] + self.tall() + 6
        self.boxes["x"] = (self.room, self.boxes["query 1"][1], 16 * self.C, ROW * self.T)
        self.lane = right + 10  # in which contributions go to the sum
        self.lay_sum(right + 38, self.height / 2 - 12 * len(self.sum), 29 * self.C)

    def lay_sum(self, left: float, top: float, wide: float) -> None:
        for k, name in enumerate((*self.sum, "output")):
            self.boxes[name] = (left, top + 26 * k, wide, 18)

    def tall(self) -> float:
        """The height of a sheet."""
        return 24 + self.room + 14 * self.D + 56 + ROW * self.T + 20

    def lay_sheet(self, h: int, left: float, top: float) -> None:
        floor = top + 24 + self.room + 14 * self.D  # of the tables above
        below, tall = floor + 56, ROW * self.T
        start = left + 10
        for name, wide, gap in (
            ("query", 23 * self.D, 8),
            ("weights", 14 * self.T, 12),
            ("context", 24 * self.D, 12),
            ("contribution", 29 * self.C, 0),
        ):
            self.boxes[f"{name} {h}"] = (start, below, wide, tall)
            start += wide + gap
        self.stand(f"key {h}", floor, 14 * self.D)
        self.stand(f"value {h}", floor, floor - top - 24)
        self.stand(f"slice {h}", floor, 14 * self.D)

    def stand(self, name: str, floor: float, tall: float) -> None:
        """A table above another one, as wide as that."""
        kind, h = name.split()
        left, _, wide, _ = self.boxes[f"{ABOVE[kind]} {h}"]
        self.boxes[name] = (left, floor - tall, wide, tall)

    # ------------------------------------------------------------ the marks
    def sheet(self, h: int, question: str) -> None:
        """The sheet itself, its title, its matrices, and what happens on the way down."""
        box = self.sheets[h - 1]
        self.frame(box, 0.1, KNOWN, fill="white")
        self.frame(box, 0.2, KNOWN, line=KNOWN.line, width=KNOWN.width)
        left, top, *_ = box
        self.write(left + 8, top + 15, f"head {h}: {question}", KNOWN._replace(ink="black"), LARGE, ha="left")
        for k, text in enumerate(("its own", "W_query", "W_key", "W_value")):
            self.write(left + 8, top + 38 + 14 * k, text, KNOWN, ha="left")
        self.down("key", h, "row · column ÷ √D,\nthen softmax")
        self.towards_contribution(h)

    def towards_contribution(self, h: int) -> None:
        self.down("value", h, "mixture")
        self.down("slice", h, "row ·\ncolumn")

    def down(self, name: str, h: int, text: str) -> None:
        x, floor = self.middle(f"{name} {h}"), self.floor(f"{name} {h}")
        self.arrow((x, floor + 8), (x, floor + 38), tone=KNOWN)
        ha = "left" if self.width == WIDTH else "right"
        self.write(x + (8 if ha == "left" else -8), floor + 21, text, KNOWN, ha=ha, linespacing=1.3)

    def part(self, name: str) -> None:
        """One table in its box, with its name, its shape, and words or names of numbers."""
        box = self.boxes[name]
        left, top, wide, tall = box
        kind = name.split()[0]
        self.frame(box, 2, KNOWN, fill="white")
        self.frame(box, 6, KNOWN, line=KNOWN.line, width=KNOWN.width)
        if name not in self.single:
            self.cells(name, self.contents[name], box)
        if kind in ABOVE:
            share = 0.62 if kind == "key" else 0.5  # beside the title
            self.write(left + share * wide, self.header(name), LABELS.get(kind, kind), KNOWN, LARGE)
        elif kind == "output":
            self.write(left + wide / 2, top + tall + 13, "output", KNOWN, LARGE)
            self.write(left + wide / 2, top + tall + 28, "one row of T × C", KNOWN)
        elif name not in self.sum:
            above = self.head_room + 11 if kind == "x" else 9
            self.write(left + wide / 2, top - above, kind, KNOWN, LARGE)
            self.write(left + wide / 2, top + tall + 11, self.shape(name), KNOWN)
        if kind in ("x", "slice") or name == "added 1":
            self.upright(self.numbers, box)
        if kind == "key":
            self.upright(self.rows, box)
        if kind == "x":
            for t, word in enumerate(self.rows):
                followed = {"ink": "black", "weight": "bold"} if t == self.follow else {}
                self.write(left - 6, top + (t + 0.5) * ROW, word, KNOWN._replace(**followed), ha="right")

    def header(self, name: str) -> float:
        """The height of the names of the tables that stand above others."""
        return self.sheets[int(name[-1]) - 1][1] + 15

    def shape(self, name: str) -> str:
        letters = "T × C" if name.startswith("contribution") else SHAPES[name.split()[0]].replace("K", "T")
        return letters.replace("T", "1", 1) if name in self.single else letters

    def upright(self, words: Sequence[str], box: Box) -> None:
        left, top, wide, _ = box
        for k, word in enumerate(words):
            x = left + (k + 0.5) * wide / len(words)
            self.write(x, top - 5, word, KNOWN, rotation=90, va="bottom")

    def cells(self, name: str, table: Tensor, box: Box, tone: Tone = KNOWN) -> None:
        whole = self.contents[name]
        reach = 1.5 * whole.abs().max().clamp(min=1e-9).item()
        style: dict[str, Any] = {"cmap": plotting.SHARE, "limits": (0, GREENEST)}
        if not name.startswith("weights"):
            style = {"limits": (-reach, reach)}
        style |= {"matrix": table, "box": box, "strength": tone.strength, "color": tone.ink}
        # What somebody has set is written for all words, the rest for the one that is followed; weights by themselves.
        followed = tone == FOLLOWED and not name.startswith("weights")
        style |= {"numbers": followed != self.is_set(name), "most": max(self.T, self.C)}
        self.marks.append(Cells(tone, style))

    def is_set(self, name: str) -> bool:
        return name.split()[0] in ("x", "key", "slice")

    def arrows_from_x(self) -> None:
        """All of x goes to all heads: up to the first one's matrices, and down to the others'."""
        x, top = self.middle("x"), self.boxes["x"][1]
        for k, (left, sheet, *_) in enumerate(self.sheets):
            start = self.floor("x") + 18 if k else top - self.head_room - 20
            self.arrow((x, start), (x, sheet + 50), (left - 1, sheet + 50), tone=KNOWN)
        note = "every head reads\nall of x"
        self.write(6, self.sheets[0][1] + 26, note, KNOWN, ha="left", linespacing=1.3)

    def signs(self) -> None:
        """Of the sum: a plus between two rows, where no arrow comes, and what it equals."""
        tone = KNOWN._replace(ink="black", weight="bold")
        x = self.boxes["output"][0] - 12
        for above, below in pairwise(self.sum):
            self.write(x, (self.floor(above) + self.boxes[below][1]) / 2, "+", tone, LARGE)
        self.write(x, self.floor("output") - 9, "=", tone, LARGE)

    # ------------------------------------------------------------ the row that is followed: a front end draws it anew
    def followed(self) -> None:
        for line in self.lines:
            first, last = self.boxes[line[0]], self.boxes[line[-1]]
            y, tall = self.row(line[0])
            self.frame((first[0] - 4, y, last[0] + last[2] - first[0] + 8, tall), 1, FOLLOWED, fill=BAND)
            for name in line:
                self.followed_row(name)
        for h, _ in enumerate(self.heads, start=1):
            weights = self.contents[f"weights {h}"][self.follow]
            found = (weights > weights.max() - ALIKE).nonzero().flatten().tolist()
            for s in found if len(found) < self.T else ():
                self.look(h, s)
            for way in filter(None, (self.way_there(h), self.way_back(h))):
                self.arrow(*way, tone=FOLLOWED)
        for name in (*self.sum, "output"):
            self.followed_row(name)

    def followed_row(self, name: str) -> None:
        left, _, wide, _ = self.boxes[name]
        y, tall = self.row(name)
        row = self.contents[name][self.follow]
        self.cells(name, row[None], (left, y, wide, tall), FOLLOWED)
        self.frame((left, y, wide, tall), 7, FOLLOWED, line="black", width=FOLLOWED.width)
        if name.startswith("weights"):
            for s, weight in enumerate(row.tolist()):
                if weight >= LOUD:
                    x = left + (s + 0.5) * wide / self.T
                    self.write(x, y + tall / 2, plotting.numeral(weight, 2), FOLLOWED)

    def look(self, h: int, s: int) -> None:
        """Where a head looks most: the column of that word's key, and the row of its value."""
        left, top, wide, tall = self.boxes[f"key {h}"]
        self.frame((left + s * wide / self.T, top, wide / self.T, tall), 7, FOLLOWED, line="black", width=1.6)
        if f"value {h}" in self.boxes:
            left, top, wide, tall = self.boxes[f"value {h}"]
            self.frame((left, top + s * tall / self.T, wide, tall / self.T), 7, FOLLOWED, line="black", width=1.6)

    def row(self, name: str) -> tuple[float, float]:
        """The followed row of a table: its top and its height."""
        _, top, _, tall = self.boxes[name]
        return (top, tall) if name in self.single else (top + self.follow * ROW, ROW)

    def way_there(self, h: int) -> tuple[Point, ...]:
        """From the row of x to that of a query."""
        lane = (self.right("x") + self.sheets[0][0]) / 2
        return self.way("x", lane, f"query {h}", self.boxes[f"query {h}"][0] - 2)

    def way_back(self, h: int) -> tuple[Point, ...]:
        """From the row of a contribution to the sum."""
        name = f"added {h}"
        end = self.right(name) + 2 if self.lane > self.boxes[name][0] else self.boxes[name][0] - 2
        return self.way(f"contribution {h}", self.lane, name, end)

    def way(self, before: str, lane: float, after: str, end: float) -> tuple[Point, ...]:
        (y, tall), (y_end, tall_end) = self.row(before), self.row(after)
        start, stop = y + tall / 2, y_end + tall_end / 2
        return (self.right(before) + 2, start), (lane, start), (lane, stop), (end, stop)

    def drawing(self) -> dict[str, Any]:
        """For a front end, which draws the followed row itself."""
        everything = self.marks
        self.marks = [mark for mark in everything if mark.tone != FOLLOWED]
        drawing: dict[str, Any] = super().drawing()
        drawing |= {"single": self.single, "lane": round(self.lane, 1), "room": self.room}
        self.marks = everything
        for name in self.contents:
            drawing["tones"][name]["most"] = max(self.T, self.C) if self.is_set(name) else 0
        return drawing


class _NarrowSheets(_Sheets):
    """For a phone: x, the sheets and the output below each other; of what follows the weights, one row."""

    width = NARROW

    def layout(self) -> None:
        heads = range(1, len(self.heads) + 1)
        self.single += [f"{name} {h}" for name in ("context", "contribution") for h in heads]
        left, self.lane = 18, NARROW - 9
        inner = left + self.room + 6
        top = self.head_room + 22
        self.boxes["x"] = (inner, top, 22 * self.C, ROW * self.T)
        top += ROW * self.T + 40
        for h in heads:
            self.sheets.append((left, top, self.lane - 11 - left, self.tall()))
            self.lay_sheet(h, left, top)
            top += self.tall() + 8
        left, _, wide, _ = self.boxes["contribution 1"]
        self.lay_sum(left, top + self.head_room + 10, wide)
        self.height = self.floor("output") + 38

    def tall(self) -> float:
        return super().tall() + 14 * self.D + self.head_room + 98

    def lay_sheet(self, h: int, left: float, top: float) -> None:
        floor = top + 24 + self.room + 14 * self.D
        start, below = left + self.room + 6, floor + 56
        self.boxes[f"query {h}"] = (start, below, 24 * self.D, ROW * self.T)
        cell = min(20, (self.lane - 19 - start - 24 * self.D - 8) / self.T)
        self.boxes[f"weights {h}"] = (start + 24 * self.D + 8, below, cell * self.T, ROW * self.T)
        self.stand(f"key {h}", floor, 14 * self.D)
        below += ROW * self.T + self.head_room + 14 * self.D + 80
        self.boxes[f"context {h}"] = (start, below, 28 * self.D, 18)
        self.boxes[f"contribution {h}"] = (start + 28 * self.D + 60, below, 32 * self.C, 18)
        self.stand(f"slice {h}", below - 26, 14 * self.D)

    def towards_contribution(self, h: int) -> None:
        """From the weights to what they mix."""
        start, floor = self.middle(f"weights {h}"), self.floor(f"weights {h}") + 20
        x, top = self.middle(f"context {h}"), self.boxes[f"context {h}"][1]
        self.arrow((start, floor), (start, floor + 10), (x, floor + 10), (x, top - 18), tone=KNOWN)
        self.write(x + 8, floor + 50, "mixture of\nthe values", KNOWN, ha="left", linespacing=1.3)

    def header(self, name: str) -> float:
        if name.startswith("slice"):
            return self.boxes[name][1] - self.head_room - 11
        return super().header(name)

    def arrows_from_x(self) -> None:
        x, floor = self.middle("x"), self.floor("x") + 18
        for _, top, *_ in self.sheets:
            self.arrow((x, floor), (x, floor + 8), (4, floor + 8), (4, top + 60), (17, top + 60), tone=KNOWN)
        self.write(x + 8, floor + 9, "every head reads all of x", KNOWN, ha="left")

    def way_there(self, h: int) -> tuple[Point, ...]:
        return ()
