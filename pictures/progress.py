"""The way through the lessons: questions, times, and which exercises are solved so far."""

import json
import re
from pathlib import Path
from typing import Any

from helpers.errors import ConfigError

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
# What was shipped, in order: a copy beside it, which somebody has solved perhaps, is no lesson.
PATH = (
    "00_why_attention",
    "01_dot_product_scores",
    "02_softmax_weights",
    "03_query_key_value",
    "04_causal_mask",
    "05_dropout",
    "06_multi_head",
    "07_transformer_block",
    "08_nanogpt_shakespeare",
    "09_sampling",
)
ROOMS = ("what_matters", "museum_of_bugs", "todays_models", "speedrun", "scaling_out", "blank_page")


def shipped(folder: Path) -> list[Path]:
    """The lessons that lie in `folder`, the path first, then the rooms beyond."""
    paths = [folder / name for name in PATH] + [folder / "beyond" / name for name in ROOMS]
    return [path for each in paths if (path := each.with_suffix(".ipynb")).exists()]


def here() -> Path:
    """The working folder if lessons lie in it, as in a reader's own copy; else the clone's."""
    return Path.cwd() if shipped(Path.cwd()) else NOTEBOOKS


def lessons(folder: str | Path | None = None) -> str:
    """The notebooks in `folder` as a Markdown table: title, reading time, exercises solved.

    The rooms to visit afterwards come last. An exercise is solved when the notebook, as it was last
    saved, prints so. ConfigError for a folder without lessons.
    """
    folder = Path(folder or here())
    found = shipped(folder)
    if not found:
        raise ConfigError(f"{folder} has no lessons: name the folder of the notebooks")
    rows = []
    for path in found:
        number = path.name[:2] if path.parent == folder else ""
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
    title = re.search(r"^# (?:\d+ · )?(.+)$", head, re.M)
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
