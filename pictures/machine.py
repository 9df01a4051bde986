"""The machine: the one drawing of the series, from words to contexts, with an example's numbers.

It lies as its matrix products do: a score stands where its query's row meets its key's column (the
keys are drawn transposed, above the scores), a context's number where a row of weights meets a
column of the values. So a word's path is one row from left to right. What is not given stays a grey
outline. All lengths are pixels of a picture 700 wide.

Where it can be touched, a front end draws it again from the same marks: sharp, in light and dark,
and on a phone, 350 wide, in two rows, of which the lower one runs back to the left.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pictures import plotting
from pictures.marks import (
    BAND,
    FOLLOWED,
    GREENEST,
    KNOWN,
    LARGE,
    LIT,
    MISSING,
    NARROW,
    OF_A_MASK,
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

HEADED = ("query", "key", "scores", "weights", "value", "context")  # what each head has of its own
SHAPES = {  # K keys are looked at by T tokens
    "x": "T × C",
    "output": "T × C",
    "query": "T × D",
    "context": "T × D",
    "key": "K × D",
    "value": "K × D",
    "scores": "T × K",
    "mask": "T × K",
    "weights": "T × K",
}
PARTS = (*SHAPES, "softmax", "dropout", "mixture", "heads")
LINES = ("x", "query", "scores", "weights", "context", "output")  # a word's path


def draw(
    tokens: Sequence[str],
    *,
    lit: Sequence[str] = ("scores",),
    follow: int | None = None,
    keys: Sequence[str] | None = None,
    kept: Tensor | None = None,
    **tables: Tensor | None,
) -> Drawing:
    """Draw the machine for T `tokens`, with an alternative text made from the same data.

    `tables` are those of one head: x, output (T, C); query (T, D), key, value (T', D); scores,
    mask, weights (T, T'); context (T, D). T' counts `keys`, the words that are looked at: by
    default, the tokens. Where scores or contexts come without query, key or value, x is drawn in
    their place. Scores are what enters the softmax, so divided by √D. With `kept` (T, T'), True for
    the weights that dropout keeps, it is drawn as a step of its own. Parts in `lit` (of `PARTS`)
    and the row of token `follow` stand out.
    """
    numbers = {name: table.detach().cpu() for name, table in tables.items() if table is not None}
    rows = short(tokens)
    columns = rows if keys is None else short(keys)
    alone = _played_by_x(numbers) if rows == columns else []
    contents = numbers | {name: numbers["x"] for name in alone}
    text = _describe(rows, columns, numbers, alone, lit, follow)
    if kept is not None:
        text += f" Dropout: {lost(numbers['weights'], kept, numbers.get('mask'))}."

    wide, narrow = (sketch(rows, columns, contents, alone, lit, follow, kept) for sketch in (_Wide, _Narrow))
    data = {
        "rows": rows,
        "columns": columns,
        "drawings": [wide.drawing(), narrow.drawing()],
        "tables": {name: plotting.rounded(table) for name, table in contents.items()},
        "alone": alone,
        "kept": None if kept is None else plotting.rounded(kept),
        "follow": follow,
    }
    return Drawing(wide.painted(), text, data)


def lost(weights: Tensor, kept: Tensor, mask: Tensor | None) -> str:
    """What dropout has done, in words."""
    kept = kept.cpu()
    allowed = torch.ones_like(kept) if mask is None else mask.cpu()
    dropped = int((allowed & ~kept).sum())
    sums = weights.cpu().masked_fill(~allowed, 0).sum(-1)
    range_of_sums = f"rows add up to between {sums.min():.2f} and {sums.max():.2f}"
    return f"{dropped} of {int(allowed.sum())} weights are dropped (×), and {range_of_sums}"


def _played_by_x(numbers: Mapping[str, Tensor]) -> list[str]:
    """The parts that x plays without projections: query and key of scores, value of contexts."""
    if "x" not in numbers:
        return []
    parts = []
    if "scores" in numbers and "query" not in numbers and "key" not in numbers:
        parts += ["query", "key"]
    if "context" in numbers and "value" not in numbers:
        parts.append("value")
    return parts


def _describe(rows: list, columns: list, numbers: Mapping, alone: list, lit: Sequence[str], follow: int | None) -> str:
    """The drawing in words: what is filled, lit, forbidden, followed and still missing."""
    sizes = [f"{name} ({len(table)} × {table.shape[1]})" for name, table in numbers.items()]
    text = f"The machine of attention for the words {', '.join(rows[:12])}."
    text += f" Filled with numbers: {', '.join(sizes) or 'nothing yet'}."
    if columns != rows:
        text += f" The words looked at are {', '.join(columns[:12])}."
    if alone:
        text += f" No projections yet: x = {' = '.join(alone)}."
    if "mask" in numbers:
        text += (
            f" The mask forbids {int((~numbers['mask']).sum())} of {numbers['mask'].numel()} cells, which are hatched."
        )
    name = "weights" if "weights" in numbers else "scores"
    if follow is not None and name in numbers:
        most, column = numbers[name][follow].max(dim=0)
        largest = plotting.numeral(most.item(), 2)
        text += f" Followed: {rows[follow]}; the largest of its {name} is {largest}, for {columns[column]}."
    missing = [name for name in (*SHAPES, "heads") if name not in (*numbers, *alone)]
    return text + f" Lit: {', '.join(lit) or 'nothing yet'}. Outlines only: {', '.join(missing)}."


def layout(contents: Mapping[str, Tensor], T: int, T_key: int, room: float) -> dict[str, Box]:
    """Where each table lies when words need `room`: a row, and above it what meets it there."""
    columns = {"x": 3, "output": 2} | dict.fromkeys(HEADED, 2)  # as long as there is no table
    columns |= {name: table.shape[1] for name, table in contents.items()}
    # In cells; wider tables are squeezed.
    wide = {name: min(max(count, 2), 3.5) for name, count in columns.items()}
    wide |= dict.fromkeys(("scores", "mask", "weights"), min(max(T_key, 3), 6.5))
    # From each to the next.
    gaps = {
        "x": 52,
        "query": 16,
        "scores": 60,
        "weights": 16,
        "context": 30,
        "output": 6,
    }
    cells = sum(wide[name] for name in gaps)
    cell = min(28, (WIDTH - room - sum(gaps.values())) / cells)
    tall = {
        "key": min(20 * wide["key"], 60),
        "mask": min(20 * T, 120),
        "value": min(20 * T_key, 120),
    }
    floor = 62 + max(tall["key"] + room + 12, tall["mask"], tall["value"])
    boxes = {}
    left = room
    for name, gap in gaps.items():
        boxes[name] = (left, floor + room + 42, wide[name] * cell, tall["mask"])
        left += wide[name] * cell + gap
    for name, below in (("key", "scores"), ("mask", "weights"), ("value", "context")):
        boxes[name] = (boxes[below][0], floor - tall[name], wide[below] * cell, tall[name])
    return boxes


class _Wide(Sketch):
    """Lays the machine out for a wide page."""

    def __init__(
        self,
        rows: list,
        columns: list,
        contents: Mapping,
        alone: list,
        lit: Sequence,
        follow: int | None,
        kept: Tensor | None,
    ):
        super().__init__()
        self.rows = rows
        self.columns = columns
        self.own_words = rows == columns
        self.contents = contents
        self.alone = alone
        self.lit = lit
        self.follow = follow
        self.kept = kept
        self.room = room_for(rows + columns)
        self.lines = self.rows_of_tables()
        self.boxes = self.layout()
        _, top, _, height = self.boxes["x"]
        self.row = top + height / 2  # of the tables that lie in a row
        self.height = max(map(self.floor, self.boxes)) + 32
        self.steps()
        for name in SHAPES:
            if name in self.boxes:
                self.part(name)

    def rows_of_tables(self) -> list[tuple[str, ...]]:
        """The tables that lie side by side, each row as words run through it."""
        return [LINES]

    def layout(self) -> dict[str, Box]:
        return layout(self.contents, len(self.rows), len(self.columns), self.room)

    def tone(self, part: str, result: str = "") -> Tone:
        """Lit if asked for, else known if it is there; a step is there if its `result` is."""
        if part in self.lit:
            return LIT
        return KNOWN if (result or part) in self.contents else MISSING

    # ------------------------------------------------------------ the tables
    def part(self, name: str) -> None:
        """One table in its box, with its name, shape and words; the key stands transposed."""
        box = self.boxes[name]
        if name in HEADED:
            self.other_heads(box)
        tone = self.tone(name)
        self.frame(box, 2, tone, fill="white")
        self.frame(box, 6, tone, line=tone.line, width=tone.width)
        table = self.contents.get(name)
        if table is not None:
            table = table.T if name == "key" else table
            self.cells(name, table)
        self.label(name)
        self.shape(name, table)
        self.words_of(name)
        if self.follow is not None and name not in ("key", "value", "mask"):
            self.followed_row(name, self.follow)

    def other_heads(self, box: Box) -> None:
        """Two sheets behind a box."""
        left, top, width, height = box
        tone = self.tone("heads")
        for behind in (8, 4):
            shifted = (left + behind, top + behind, width, height)
            self.frame(shifted, 1.9 - behind / 100, tone, line=tone.line, fill="white", width=tone.width)

    def cells(self, name: str, table: Tensor) -> None:
        tone = self.tone(name)
        style: dict[str, Any] = {
            "matrix": table,
            "box": self.boxes[name],
            "color": tone.ink,
            "strength": tone.strength,
            "numbers": name != "mask",
        }
        if name in ("weights", "mask"):
            style |= {"cmap": plotting.SHARE, "allowed": self.contents.get("mask")}
            style["limits"] = (0, GREENEST if name == "weights" else OF_A_MASK)
        if name == "weights":
            style["kept"] = self.kept
        self.marks.append(Cells(tone, style))

    def label(self, name: str) -> None:
        """The name of a table above its cells, or in the middle of an empty box."""
        left, top, width, height = self.boxes[name]
        label = "keyᵀ" if name == "key" else name
        if name in self.alone:
            label += " = xᵀ" if name == "key" else " = x"
        y = top - 9 if name in self.contents else top + height / 2
        if name == "key" and name in self.contents:
            y -= self.room  # its words stand between
        self.write(left + width / 2, y, label, self.tone(name), LARGE)

    def shape(self, name: str, table: Tensor | None) -> None:
        """The shape of a table below it; beside it for the key, which stands upon others."""
        left, top, width, height = self.boxes[name]
        wide_as_x = name in self.alone or (name == "context" and "value" in self.alone)
        letters = SHAPES["x" if wide_as_x else name].replace("K", "T" if self.own_words else "T′")
        if name == "key":
            letters = " × ".join(reversed(letters.split(" × ")))
        if table is not None:
            letters += f" = {table.shape[0]} × {table.shape[1]}"
        plain = self.tone(name)._replace(weight="normal")
        if name == "key":
            self.write(left - 6, top + height / 2, letters, plain, ha="right")
        else:
            below = 19 if name in HEADED else 10
            self.write(left + width / 2, top + height + below, letters, plain)

    def words_of(self, name: str) -> None:
        """Words beside the first table of a row and the values, upright above the keys: as many as fit."""
        left, top, width, height = self.boxes[name]
        begins = name in {min(line, key=lambda other: self.boxes[other][0]) for line in self.lines}
        if not begins and name not in ("value", "key"):
            return
        words = self.rows if begins else self.columns
        size = width / len(words) if name == "key" else height / len(words)
        step = 1 + int(10 // size)
        # So that the word that is followed is among them.
        first = (self.follow or 0) % step if begins else 0
        tone = self.tone("x" if begins else name)._replace(weight="normal")
        for k in range(first, len(words), step):
            along = (k + 0.5) * size
            if name == "key":
                rotation = 90 if self.room > 30 else 0
                self.write(left + along, top - 5, words[k], tone, rotation=rotation, va="bottom")
            elif name == "value":
                self.value_word(k, along, tone)
            else:
                followed = FOLLOWED._replace(ink=tone.ink) if k == self.follow else tone
                self.write(left - 6, top + along, words[k], followed, ha="right")

    def value_word(self, k: int, along: float, tone: Tone) -> None:
        left, top, width, _ = self.boxes["value"]
        self.write(left + width + 13, top + along, self.columns[k], tone, ha="left")

    def followed_row(self, name: str, follow: int) -> None:
        """A frame around the followed token's row, and a band beside x from edge to edge."""
        left, top, width, height = self.boxes[name]
        tall = height / len(self.rows)
        y = top + follow * tall
        if name in self.contents:
            self.frame((left, y, width, tall), 7, FOLLOWED, line="black", width=2.2)
        if name in [line[0] for line in self.lines]:
            self.frame((2, y, self.width - 4, tall), 0, FOLLOWED, fill=BAND)

    # ------------------------------------------------------------ the arrows between the tables
    def step(self, part: str, text: str, spot: Point, *path: Point, result: str = "", ha: str = "left") -> None:
        """An arrow along a path, and at a spot what happens on it; lit ones lie on top."""
        tone = self.tone(part, result)
        self.arrow(*path, tone=tone)
        self.write(*spot, text, tone, ha=ha)

    def steps(self) -> None:
        """All arrows: to key and value, along the row of tables, down into it, from the mask."""
        self.line_to_key_and_value()
        self.arrows_along_the_row()
        self.arrows_into_the_row()
        self.name_of_heads()

    def name_of_heads(self) -> None:
        x = self.right("scores") + 4
        y = self.floor("scores") + 4
        self.write(x, y, "heads", self.tone("heads"), ha="left")

    def line_to_key_and_value(self) -> None:
        """A line along the top, which rises from x, or comes from other words."""
        bus = 24  # the height of the line
        start = self.middle("x")
        bottom = self.boxes["x"][1] - 18 if self.own_words else bus
        self.write(start + 8, bus + 18, self.where_from(), KNOWN, ha="left", linespacing=1.4)
        for name in ("key", "value"):
            x = self.middle(name)
            end = self.boxes[name][1] - 18
            if name == "key":
                end -= self.room  # its words stand between
            text = "" if name in self.alone else f"W_{name}"
            self.step(name, text, (x + 6, bus + 12), (start, bottom), (start, bus), (x, bus), (x, end))

    def where_from(self) -> str:
        """A note on where keys and values come from, where it isn't projections of x."""
        if not self.own_words:
            return "from other words"
        return f"no projections yet:\nx = {' = '.join(self.alone)}" if self.alone else ""

    def arrows_along_the_row(self) -> None:
        query = "=" if "query" in self.alone else "W_query"
        self.across("x", "query", "query", query)
        self.across("scores", "weights", "softmax", "softmax")
        self.across("context", "output", "output", "")
        if self.kept is not None:
            tone = self.tone("dropout", "weights")
            self.write(self.gap, self.row + 10, "then\ndropout", tone, va="top", linespacing=1.3)

    def across(self, before: str, after: str, part: str, text: str) -> None:
        """An arrow from a table to the next one in the row."""
        start = self.right(before)
        end = self.boxes[after][0] - 5
        spot = ((start + end) / 2, self.row - 9)
        self.step(part, text, spot, (start, self.row), (end, self.row), result=after, ha="center")

    def product(self) -> str:
        """What a score is."""
        divided = "query" in self.contents and "query" not in self.alone
        return "row · column ÷ √D" if divided else "row · column"

    def arrows_into_the_row(self) -> None:
        """From keys to scores, from values to contexts, from the mask to the softmax."""
        floor = self.floor("key")  # of the tables above the row
        roof = self.boxes["x"][1] - 18  # of the row
        x = self.middle("scores")
        # Beside the arrow, and not across the mask's, which few words leave no room for.
        side, ha = (8, "left") if self.gap - x > 98 else (-8, "right")
        self.step("scores", self.product(), (x + side, floor + 36), (x, floor + 12), (x, roof), result="scores", ha=ha)
        x = self.middle("context")
        self.step("mixture", "mixture", (x + 8, floor + 36), (x, floor + 28), (x, roof), result="context")
        mask = self.boxes["mask"]
        level = mask[1] + mask[3] / 2
        start = (mask[0] - 5, level)
        self.step(
            "mask",
            "",
            (self.gap, self.row),
            start,
            (self.gap, level),
            (self.gap, self.row - 18),
        )

    @property
    def gap(self) -> float:
        """The middle between scores and weights."""
        return (self.right("scores") + self.boxes["weights"][0] - 5) / 2

    def right(self, name: str) -> float:
        """Where an arrow starts beside a table, and beside the heads behind it."""
        return super().right(name) + (9 if name in HEADED else 5)


class _Narrow(_Wide):
    """For a phone: weights below scores, context below query, output below x. What nobody needs yet is left out."""

    width = NARROW

    def rows_of_tables(self) -> list[tuple[str, ...]]:
        below = {"weights", "context", "output", "value"} & set(self.contents)
        return [LINES[:3], LINES[3:]] if below else [LINES[:3]]

    def layout(self) -> dict[str, Box]:
        wide = {name: table.shape[1] for name, table in self.contents.items()}
        x = min(max(wide.get("x", 3), wide.get("output", 2), 2), 3.5)
        head = min(max(wide.get("query", 2), wide.get("value", 2), wide.get("context", 2), 2), 3.5)
        words = min(max(len(self.columns), 3), 6.5)
        cell = min(28, (NARROW - self.room - 58 - 18 - 14) / (x + head + words))
        lefts = (self.room, self.room + x * cell + 58, self.room + (x + head) * cell + 76)
        tall = min(20 * len(self.rows), 120)
        above = min(20 * len(self.columns), 120)  # the values' height
        key = (lefts[2], 58 + self.room, words * cell, min(20 * min(max(wide.get("key", 2), 2), 3.5), 60))
        top = key[1] + key[3] + 56
        middle = top + tall + 72
        low = middle + above + 68
        boxes = {
            "x": (lefts[0], top, x * cell, tall),
            "query": (lefts[1], top, head * cell, tall),
            "key": key,
            "scores": (lefts[2], top, words * cell, tall),
        }
        if len(self.lines) == 1:
            return boxes
        boxes |= {
            "value": (lefts[1], middle, head * cell, above),
            "weights": (lefts[2], low, words * cell, tall),
            "context": (lefts[1], low, head * cell, tall),
            "output": (lefts[0], low, x * cell, tall),
        }
        if "mask" in self.contents:
            boxes["mask"] = (lefts[2], middle + above - tall, words * cell, tall)
        return boxes

    def name_of_heads(self) -> None:
        if "weights" in self.boxes:
            x, y = self.right("scores"), self.floor("scores") + 34
            self.write(x, y, "heads", self.tone("heads"), ha="right")

    def value_word(self, k: int, along: float, tone: Tone) -> None:
        left, top, _, _ = self.boxes["value"]
        self.write(left - 6, top + along, self.columns[k], tone, ha="right")

    def line_to_key_and_value(self) -> None:
        """From x up and along the top to the keys, and down to the values."""
        bus = 14
        x, top, wide, tall = self.boxes["x"]
        start = x + wide / 2 if self.own_words else self.room
        self.write(start + 6, bus + 24, self.where_from(), KNOWN, ha="left", linespacing=1.4)
        key = self.middle("key")
        end = self.boxes["key"][1] - 18 - self.room
        text = "" if "key" in self.alone else "W_key"
        up = ((start, top - 18), (start, bus)) if self.own_words else ((start, bus),)
        self.step("key", text, (key - 6, bus + 11), *up, (key, bus), (key, max(end, bus + 10)), ha="right")
        if "value" not in self.boxes:
            return
        text = "" if "value" in self.alone else "W_value"
        lane = self.boxes["value"][1] - 30
        down = ((start, top + tall + 20), (start, lane)) if self.own_words else ((6, lane),)
        end = self.boxes["value"][1] - (18 if "value" in self.contents else 4)
        value = self.middle("value")
        self.step("value", text, (start + 6, lane - 9), *down, (value, lane), (value, end))

    def arrows_along_the_row(self) -> None:
        self.across("x", "query", "query", "=" if "query" in self.alone else "W_query")
        if "weights" not in self.boxes:
            return
        x, floor = self.middle("scores"), self.floor("scores") + 30
        roof = self.boxes["weights"][1] - 18
        if "mask" in self.boxes:
            mask = self.boxes["mask"]
            self.step("mask", "", (x, floor), (x, floor), (x, mask[1] - 18))
            floor = self.floor("mask") + 18
        spot = (x - 8, (floor + roof) / 2)
        self.step("softmax", "softmax", spot, (x, floor), (x, roof), result="weights", ha="right")
        if self.kept is not None:
            self.write(x + 8, spot[1], "dropout", self.tone("dropout", "weights"), ha="left")
        left, end = self.boxes["context"][0] - 5, self.boxes["output"]
        row = end[1] + end[3] / 2
        self.step("output", "", (left, row), (left, row), (end[0] + end[2] + 5, row), result="output")

    def arrows_into_the_row(self) -> None:
        x, floor, roof = self.middle("scores"), self.floor("key") + 12, self.boxes["scores"][1] - 18
        spot = (x - 8, (floor + roof) / 2)
        self.step("scores", self.product(), spot, (x, floor), (x, roof), result="scores", ha="right")
        if "context" not in self.boxes:
            return
        x, floor, roof = self.middle("context"), self.floor("value") + 28, self.boxes["context"][1] - 18
        self.step(
            "mixture", "mixture", (x - 8, (floor + roof) / 2), (x, floor), (x, roof), result="context", ha="right"
        )
