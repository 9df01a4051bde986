"""Solutions run: each script asserts what its answers must do. The exercises' own tests judge them."""

import runpy

import pytest
from notebook_file import BY_NAME, cells
from scheduling import COURSE

from exercises.judge import every
from tools.lessons import NOTEBOOKS, solution_of, solutions

SCRIPTS = solutions(NOTEBOOKS)


@pytest.mark.slow
@pytest.mark.lesson
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_of_solutions_runs_with_its_explorations(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)  # where my_gpt.py lies
    runpy.run_path(str(path), run_name="__main__")


def test_every_exercise_is_answered_by_a_script_and_explained_there():
    again = {room["name"] for room in COURSE["rooms"] if "number" not in room}
    labels = [
        line.split('"')[1]
        for name, notebook in BY_NAME.items()
        if name not in again
        for cell in cells(notebook)
        for line in cell.source.splitlines()
        if line.startswith('exercises.check("')
    ]
    missing = [label for label in labels if f"# **{label} · " not in solution_of(label).read_text(encoding="utf-8")]
    assert sorted(labels) == sorted(every()) and not missing
