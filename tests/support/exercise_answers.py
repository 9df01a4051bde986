"""What the notebooks ask, and what their solutions answer."""

import functools
import importlib.util
import re
import sys
import types
from pathlib import Path

import nbformat
import torch

from exercises import judge
from helpers.course import NOTEBOOKS, course
from tools.lessons import lessons, named, solution_of

# Where my_gpt.py lies, on which the later solutions stand.
sys.path.append(str(NOTEBOOKS / "solutions"))
ANSWERS = Path(__file__).parent / "answers"
LABELS = list(judge.every())


@functools.cache
def module_at(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    with torch.random.fork_rng(devices=[]):  # a solution tries its answers
        spec.loader.exec_module(module)
    return module


def number_of(path: Path) -> str:
    """The number of a notebook's exercises: 02b's are those of 02, a room's is in course.toml."""
    rooms = {room["name"]: room.get("number") for room in course(NOTEBOOKS)["rooms"]}
    return f"{rooms[path.stem]:02}" if path.stem in rooms else path.stem[:2]


def asked_in(paths) -> dict[str, tuple[str, str]]:
    """Label: the notebook's number and the name of the answer, as the notebooks ask for it."""
    return {
        label: (number_of(path), name)
        for path in paths
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
        for label, name in re.findall(r'^exercises\.check\("(\w+)", (\w+)\)$', cell.source, re.M)
    }


BLANK_PAGE = named("blank_page")  # it asks for the steps again
ASKED = asked_in(path for path in lessons() if path != BLANK_PAGE)


def solution(label: str):
    return getattr(module_at(solution_of(label)), ASKED[label][1])
