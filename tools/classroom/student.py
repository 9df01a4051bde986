"""`make student OUT=folder`: a course to give, with assignments, a gradebook, and the project as students get it."""

import os
import shutil
from pathlib import Path

import nbformat

from helpers.errors import say, shown
from tools.classroom import course
from tools.classroom.assignments import LESSONS, ROOT, lessons
from tools.classroom.doors import a_new_folder

KEPT = ("LICENSE", "Makefile", "docs", "environment.yml", "helpers", "pyproject.toml", "requirements.txt", "tools")
PAGES = ("index.ipynb", "15_blank_page.ipynb", "*.md", "ruff.toml", "measured")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "classroom", "classroom.lock", "torture")
README = """# From dot products to nanoGPT

`make setup` once (it needs Python 3.11 or newer), then `make lab`. The lessons are in `notebooks`, their exercises at
the end of each; every exercise says whether your answer is right. Hand in the lesson's file with your answers in it.
"""


def main(_: list[str]) -> None:
    with a_new_folder("OUT", os.environ.get("OUT", "")) as (folder, out):
        course.need_nbgrader()
        course.begin(folder, lessons().values())
        hand_out(folder, folder / "handout")
    points = sum(lesson.points for lesson in lessons().values())
    say(f"{len(lessons())} assignments with {points} points are in {shown(out)}; handout/ is what students get")


def hand_out(given: Path, folder: Path) -> None:
    """The project without solutions, tests and these tools, its lessons as nbgrader has released them."""
    folder.mkdir()
    (folder / "README.md").write_text(README, encoding="utf-8")
    for name in KEPT:
        _copy(ROOT / name, folder / name)
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    for pattern in PAGES:
        for path in LESSONS.glob(pattern):
            _copy(path, notebooks / path.name)
    for lesson in lessons().values():
        released = given / "release" / lesson.name / lesson.path.name
        nbformat.write(nbformat.read(released, as_version=4), notebooks / lesson.path.name)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=LEFT_OUT)
    else:
        shutil.copy2(source, target)
