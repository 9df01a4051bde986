"""What the notebooks ask, what their solutions answer, and the mistakes that the graders know."""

import functools
import importlib.util
import re
import sys
import types
from pathlib import Path

import nbformat

import exercises

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
sys.path.append(str(NOTEBOOKS / "solutions"))  # where my_gpt.py lies, on which the later solutions stand
LABELS = list(exercises.exercises())


@functools.cache
def module_at(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked_in(paths) -> dict[str, tuple[str, str]]:
    """Label: the notebook's number and the name of the answer, as the notebooks ask for it."""
    return {
        label: (re.search(r"\d\d", path.name)[0], name)
        for path in sorted(paths)
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
        for label, name in re.findall(r'^exercises\.check\("(\w+)", (\w+)\)$', cell.source, re.M)
    }


BLANK_PAGE = NOTEBOOKS / "15_blank_page.ipynb"  # it asks for the steps again
ASKED = asked_in(path for path in NOTEBOOKS.glob("*.ipynb") if path != BLANK_PAGE)
SOLVED = asked_in(NOTEBOOKS.glob("solutions/*.ipynb"))


def solution(label: str):
    number, name = (ASKED | SOLVED)[label]
    return getattr(module_at(NOTEBOOKS / "solutions" / f"solutions_{number}.py"), name)


MISTAKES = {id(wrong) for exercise in exercises.exercises().values() for _, wrong in exercise.wrong_answers()}
GIVEN = {}  # by a mistake that answers are compared with: the same each time, so it is found out once
