"""Tables of runs: a CSV file whose first lines, after a #, say how it was made."""

import csv
import io
import json
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).parents[1] / "notebooks" / "measured"

Line = dict[str, Any]  # of a table: names of columns, and what stands there


def table(lines: list[Line], comments: list[str]) -> str:
    """The text of a table under its comment lines, for `read_table`."""
    text = io.StringIO()
    text.writelines(f"# {comment}\n" for comment in comments)
    writer = csv.DictWriter(text, lines[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def read_table(path: Path) -> tuple[list[str], list[Line]]:
    """The comment lines of a table, and its lines with numbers as numbers."""
    with path.open(encoding="utf-8", newline="") as file:
        texts = file.readlines()
    comments = [text[2:].strip() for text in texts if text.startswith("# ")]
    rows = csv.DictReader(text for text in texts if not text.startswith("# "))
    return comments, [{name: _value(text) for name, text in row.items()} for row in rows]


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
