"""What notebooks/course.toml lists, and what the head of a notebook says of it."""

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from helpers import ROOT

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


class Head(NamedTuple):
    """What the first cell of a notebook says."""

    number: str  # "" for a room
    title: str
    time: str  # to read: "25 minutes", "An hour", or ""


def head_of(cell: str) -> Head | None:
    """What the first cell of a notebook says; None where it has no title."""
    heading = re.search(r"^# (?:(\d+b?) · )?(.+)$", cell, re.M)
    time = re.search(r"^\*\*How long\.\*\* (.+?)(?:,|\.| to read| for the story)", cell, re.M)
    return Head(heading[1] or "", heading[2].strip(), time[1] if time else "") if heading else None
