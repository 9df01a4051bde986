"""The way through the lessons: questions, times, and which exercises are solved so far."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from helpers import ROOT
from helpers.errors import ConfigError

NOTEBOOKS = ROOT / "notebooks"


def course(folder: Path) -> dict[str, Any]:
    """What course.toml lists; a folder of notebooks without one, as a reader's copy, has ours."""
    own = folder / "course.toml"
    path = own if own.exists() else NOTEBOOKS / "course.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def shipped(folder: Path) -> list[Path]:
    """The lessons that lie in `folder`, the path first, then the rooms beyond."""
    contents = course(folder)
    rooms = [folder / "beyond" / room["name"] for room in contents["rooms"]]
    paths = [*(folder / name for name in contents["path"]), *rooms]
    return [path for stem in paths if (path := stem.with_suffix(".ipynb")).exists()]


def here() -> Path:
    """The working folder if lessons lie in it, as in a reader's own copy; else the clone's."""
    return Path.cwd() if shipped(Path.cwd()) else NOTEBOOKS


def lessons(folder: str | Path | None = None) -> str:
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
        head = _joined(cells[0]["source"])
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        printed = "".join(_joined(output.get("text", "")) for output in outputs)
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    ):
        return f"| {number} | {path.name} can't be read: `python -m tools.notebooks fresh` brings it back | | |"
    title = re.search(r"^# (?:\d+b? · )?(.+)$", head, re.M)
    time = re.search(r"^\*\*How long\.\*\* (.+?)(?: to read| for the story|\.)", head, re.M)
    verdicts = dict(re.findall(r"^(\d+[a-z]): (.+)$", printed, re.M))
    solved = [label for label, verdict in verdicts.items() if verdict.startswith("right")]
    progress = f"{len(solved)} of {len(verdicts)}"
    if solved:
        progress += f": {', '.join(solved)}"
    name = title[1] if title else path.stem
    minutes = time[1] if time else ""
    return f"| {number} | [{name}]({address}) | {minutes} | {progress} |"


def _joined(text: Any) -> str:
    """A text of a notebook, which may be stored as a list of its lines."""
    return text if isinstance(text, str) else "".join(text)
