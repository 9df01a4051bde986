"""The way through the lessons: questions, times, and which exercises are solved so far."""

import json
import re
from pathlib import Path
from typing import Any

from helpers.course import head_of, here, shipped
from helpers.errors import ConfigError


def lesson_table(folder: str | Path | None = None) -> str:
    """The notebooks in `folder` as a Markdown table: title, reading time, exercises solved.

    The rooms to visit afterwards come last. An exercise is solved when the notebook, as it was last
    saved, prints so. ConfigError for a folder without lessons.
    """
    folder = Path(folder or here())
    paths = shipped(folder)
    if not paths:
        raise ConfigError(f"{folder} has no lessons: name the folder of the notebooks")
    rows = []
    for path in paths:
        number = path.stem.partition("_")[0] if path.parent == folder else ""
        rows.append(_row(path, number, path.relative_to(folder).as_posix()))
    return "\n".join(["| | lesson | to read | solved |", "|---|---|---|---|", *rows])


def _row(path: Path, number: str, address: str) -> str:
    """The line of the table for one notebook."""
    # Read as JSON: nbformat takes seconds to import. What can't be read is no file, JSON or notebook.
    try:
        cells = json.loads(path.read_bytes())["cells"]
        head = head_of(_joined(cells[0]["source"]))
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        printed = "".join(_joined(output.get("text", "")) for output in outputs)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return f"| {number} | {path.name} can't be read: `python -m tools.notebooks fresh` brings it back | | |"
    verdicts = dict(re.findall(r"^(\d+[a-z]): (.+)$", printed, re.M))
    solved = [label for label, verdict in verdicts.items() if verdict.startswith("right")]
    progress = f"{len(solved)} of {len(verdicts)}"
    if solved:
        progress += f": {', '.join(solved)}"
    name, time = (head.title, head.time) if head else (path.stem, "")
    return f"| {number} | [{name}]({address}) | {time} | {progress} |"


def _joined(text: Any) -> str:
    """A text of a notebook, which may be stored as a list of its lines."""
    return text if isinstance(text, str) else "".join(text)
