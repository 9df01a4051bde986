"""Tables: CSV files whose first lines, after a #, say how they were made; and printed ones."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from helpers import ROOT

MEASURED = ROOT / "notebooks" / "measured"

Line = dict[str, Any]  # of a table: names of columns, and what stands there


def csv_table(lines: list[Line], comments: list[str]) -> str:
    """The text of a table under its comment lines, for `read_table`."""
    text = io.StringIO()
    text.writelines(f"# {comment}\n" for comment in comments)
    writer = csv.DictWriter(text, lines[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def read_table(path: Path) -> tuple[list[str], list[Line]]:
    """The comment lines of a table, and its lines with numbers as numbers, True and False as such."""
    with path.open(encoding="utf-8", newline="") as file:
        texts = file.readlines()
    comments = [text[2:].strip() for text in texts if text.startswith("# ")]
    rows = csv.DictReader(text for text in texts if not text.startswith("# "))
    return comments, [{name: _value(text) for name, text in row.items()} for row in rows]


def _value(text: str) -> object:
    if text in ("True", "False"):  # as csv writes them
        return text == "True"
    try:
        return json.loads(text)
    except ValueError:
        return text


def column(lines: Iterable[Line], name: str, **settings: object) -> list[Any]:
    """What stands under `name` in the lines that have these settings."""
    return [line[name] for line in lines if settings.items() <= line.items()]


def row(things: Iterable[object], form: str = ".2f") -> str:
    """Numbers or words side by side, each in the same form: row([0.5, 1]) is "0.50 1.00"."""
    return " ".join(format(thing, form) for thing in things)


def spread(numbers: Sequence[float], form: str = ".2f", what: str = "") -> str:
    """The mean, `what` it is of, and the range: spread([0.4, 0.6], ".0%", " right") is "50% right (40% to 60%)"."""
    return f"{fmean(numbers):{form}}{what} ({min(numbers):{form}} to {max(numbers):{form}})"


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Text columns under a header, words to the left, numbers to the right."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in line] for line in [header, *rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    right = [bool(rows) and isinstance(rows[0][i], (int, float)) for i in range(len(header))]
    for line in cells:
        line[:] = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
    return "\n".join("  ".join(line).rstrip() for line in cells)
