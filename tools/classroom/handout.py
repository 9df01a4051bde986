"""The lessons as they were shipped, and as students get them: without solutions."""

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from helpers import ROOT
from tools.classroom.answers import Statement, statements
from tools.lessons import NOTEBOOKS, everyone, name_others, named

MY_GPT = NOTEBOOKS / "solutions" / "my_gpt.py"  # the steps of all lessons
# Neither README nor tests, which lead to solutions.
PROJECT = """
    LICENSE Makefile docs environment.yml exercises helpers pictures pyproject.toml
    requirements.txt requirements-dev.txt tools .binder .gitattributes .gitignore
""".split()  # noqa: SIM905
BESIDE = ("*.md", "*.toml", "measured")  # what else is handed out of notebooks/
README = """# From dot products to nanoGPT

`make setup` once (it needs Python 3.11 or newer), then `make lab`. The lessons are in `notebooks`,
their exercises at the end of each; every exercise says whether your answer is right. Hand in the
lesson's file with your answers in it.
"""
TASK = re.compile(r"\*\*(\w+) · (.+?)\*\*[^(]*\((\w+); difficulty (★+)")
TO_SOLUTIONS = re.compile(r" ?[^.\n]*\[[^]]*\]\((?:\.\./)*solutions/[^)]*\)\.")  # a sentence


@dataclass(frozen=True)
class Task:
    """An exercise as its lesson asks for it."""

    label: str
    name: str  # of the answer
    points: int  # one for each star of its difficulty; a prediction, made to be wrong, has none


@dataclass(frozen=True)
class Lesson:
    """A notebook that was shipped, and its exercises in their order."""

    path: Path
    tasks: tuple[Task, ...]

    @property
    def name(self) -> str:
        return self.path.stem


def lessons(only: Sequence[str] = ()) -> list[Lesson]:
    """All that were shipped, or `only` these; what lies beside them is named."""
    name_others(NOTEBOOKS)
    paths = dict.fromkeys(named(name, NOTEBOOKS) for name in only) or everyone(NOTEBOOKS)
    return [Lesson(path, _tasks(nbformat.read(path, as_version=4))) for path in paths]


def _tasks(notebook: NotebookNode) -> tuple[Task, ...]:
    points: dict[str, int] = {}
    tasks = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for label, _, kind, stars in TASK.findall(cell.source):
                points[label] = 0 if kind == "predict" else len(stars)
        elif "exercises.check" in cell.source:
            checks = {k: v for statement in statements(cell.source) for k, v in statement.checks.items()}
            # The blank page asks again for what lessons have asked for, and gives no points.
            tasks += [Task(label, name, points[label]) for label, name in checks.items() if points]
    return tuple(tasks)


def hand_out(out: Path, which: Sequence[Lesson]) -> None:
    """Write the project as students get it, with these lessons."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "README.md").write_text(README, encoding="utf-8")
        beside = [path for pattern in BESIDE for path in NOTEBOOKS.glob(pattern)]
        for path in [*(ROOT / name for name in PROJECT), *beside]:
            target = project / path.relative_to(ROOT)
            target.parent.mkdir(exist_ok=True)
            if path.is_dir():
                unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "solutions")
                shutil.copytree(path, target, ignore=unwanted)
            elif path.exists():
                shutil.copy2(path, target)
        for lesson in which:
            target = project / lesson.path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(assignment(lesson), target)
        shutil.copytree(project, out, dirs_exist_ok=True)
    points = sum(task.points for lesson in which for task in lesson.tasks)
    print(f"{len(which)} notebooks, with {points} points in all, are in {out}")


def assignment(lesson: Lesson) -> NotebookNode:
    """The lesson as it is handed out: no links to solutions, and a place for each answer."""
    notebook = nbformat.read(lesson.path, as_version=4)
    points = {task.label: task.points for task in lesson.tasks}
    cells: list[NotebookNode] = []
    for cell in notebook.cells:
        code = statements(cell.source) if cell.cell_type == "code" else []
        cells += _split(cell, code, points)
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = TO_SOLUTIONS.sub("", cell.source)
    notebook.cells = cells
    return notebook


def _split(cell: NotebookNode, code: Sequence[Statement], points: dict[str, int]) -> list[NotebookNode]:
    """An exercise as nbgrader knows it: a cell for the answer, and one for its check."""
    label = next(iter(code[-1].checks), "") if code else ""
    if label not in points:
        return [cell]
    check = nbformat.v4.new_code_cell(code[-1].source, id=f"check-{label}", outputs=cell.outputs)
    answer = nbformat.v4.new_code_cell(id=cell.id, metadata=cell.metadata)
    answer.source = cell.source.strip().removesuffix(check.source).rstrip()
    facts = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False}
    answer.metadata["nbgrader"] = facts | {"grade_id": f"answer-{label}", "solution": True}
    check.metadata["nbgrader"] = facts | {"grade_id": f"check-{label}", "locked": True}
    if points[label]:
        check.metadata["nbgrader"] |= {"grade": True, "points": points[label]}
    return [answer, check]
