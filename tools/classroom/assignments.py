"""Lessons become assignments: without proofs and solutions, with an answer and a check in a cell each."""

import builtins
import functools
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from exercises.questions import GRADERS, exercises
from helpers.errors import ConfigError
from tools.classroom.slicing import statements

ROOT = Path(__file__).resolve().parents[2]
LESSONS = ROOT / "notebooks"
TASK = re.compile(r"\*\*(\w+) · (.+?)\*\*[^(]*\((\w+); difficulty (★+)")
CHECK = re.compile(r'^exercises\.check\("(\w+)", (\w+)\)$', re.M)
SOLUTIONS = re.compile(r" ?[^.]*\[[^]]*\]\(solutions/[^)]*\)\.")  # a sentence that leads to them
PROOFS, EXERCISES = "## The proofs", "## Exercises"
UNGRADED = "predict"  # a prediction is made to be wrong


@dataclass(frozen=True)
class Task:
    """An exercise as its lesson asks for it."""

    label: str
    title: str
    kind: str  # predict, derive, repair or build
    stars: int
    name: str  # of the answer

    @property
    def points(self) -> int:
        return 0 if self.kind == UNGRADED else self.stars


@dataclass(frozen=True)
class Lesson:
    """A lesson with exercises; its name is that of the assignment and of the file."""

    path: Path
    tasks: tuple[Task, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def number(self) -> str:
        return self.name[:2]

    @property
    def points(self) -> int:
        return sum(task.points for task in self.tasks)


@functools.cache
def lessons() -> dict[str, Lesson]:
    """All lessons with exercises, by their numbers, in order."""
    found = {}
    for number in GRADERS:
        path = next(LESSONS.glob(f"{number}_*.ipynb"), None)
        if path is None:
            raise ConfigError(f"notebook {number} is missing in notebooks/: `make fresh` brings it back")
        found[number] = Lesson(path, _tasks(nbformat.read(path, as_version=4)))
    asked = [task.label for lesson in found.values() for task in lesson.tasks]
    if asked != list(exercises()):
        raise ConfigError("the notebooks ask other exercises than exercises/graders judge, or in another order")
    return found


def _tasks(notebook: NotebookNode) -> tuple[Task, ...]:
    about = {}
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (task := TASK.match(cell.source)):
            about[task[1]] = (task[2], task[3], len(task[4]))
        for label, name in CHECK.findall(cell.source) if cell.cell_type == "code" else ():
            found.append(Task(label, *about[label], name))
    return tuple(found)


# ---------------------------------------------------------------- the assignment
def assignment(lesson: Lesson) -> NotebookNode:
    """The lesson as students get it, with what nbgrader needs to know."""
    notebook = nbformat.read(lesson.path, as_version=4)
    tasks = {task.label: task for task in lesson.tasks}
    heads = {cell.source.partition("\n")[0]: i for i, cell in enumerate(notebook.cells) if cell.cell_type == "markdown"}
    proofs, start = heads[PROOFS], heads[EXERCISES]
    above, below = notebook.cells[:proofs], notebook.cells[start:]
    anchors = _anchors(notebook.cells[proofs:start])
    for cell in (*above, *below):
        if cell.cell_type == "markdown":
            cell.source = SOLUTIONS.sub("", cell.source)
            cell.source = re.sub(r"\[([^]]*)\]\(#([^)]*)\)", lambda link: _kept(link, anchors), cell.source)
    notebook.cells = above + [part for cell in _that_run(above, below) for part in _split(cell, tasks)]
    return notebook


def _anchors(cells: list[NotebookNode]) -> set[str]:
    """What links into these cells lead to."""
    lines = [line for cell in cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    headings = {line.lstrip("# ").replace(" ", "-") for line in lines if line.startswith("#")}
    return headings | {f"cell-id={cell.id}" for cell in cells}


def _kept(link: re.Match[str], gone: set[str]) -> str:
    """A link, or its words where it would lead to what students don't get."""
    return link[1] if link[2] in gone else link[0]


def _that_run(above: list[NotebookNode], below: list[NotebookNode]) -> list[NotebookNode]:
    """The cells from the exercises on that need nothing from the proofs, which is defined nowhere else."""
    known: set[str] = set()
    for cell in above:
        known |= _defined(cell)
    kept = []
    for cell in below:
        needed = (
            set().union(*(each.at_once | each.later for each in statements([cell.source]))) if _code(cell) else set()
        )
        own = _defined(cell)
        if any(name not in known | own and not hasattr(builtins, name) for name in needed):
            while kept and kept[-1].cell_type == "markdown":  # what introduces it
                kept.pop()
            continue
        known |= own
        kept.append(cell)
    return kept


def _code(cell: NotebookNode) -> bool:
    return cell.cell_type == "code"


def _defined(cell: NotebookNode) -> set[str]:
    return set().union(*(each.binds for each in statements([cell.source]))) if _code(cell) else set()


def _split(cell: NotebookNode, tasks: dict[str, Task]) -> list[NotebookNode]:
    """A stub in two cells, the answer and its check; nbgrader brings back a check that somebody changed."""
    found = CHECK.search(cell.source) if _code(cell) else None
    if not found:
        return [cell]
    task = tasks[found[1]]
    answer = nbformat.v4.new_code_cell(cell.source[: found.start()].rstrip(), id=cell.id, metadata=cell.metadata)
    check = nbformat.v4.new_code_cell(found[0], id=f"check-{task.label}")
    check.outputs = cell.outputs
    answer.metadata["nbgrader"] = _about(f"answer-{task.label}", solution=True)
    check.metadata["nbgrader"] = _about(f"check-{task.label}", locked=True)
    if task.points:
        check.metadata["nbgrader"] |= {"grade": True, "points": task.points}
    return [answer, check]


def _about(name: str, solution: bool = False, locked: bool = False) -> dict[str, object]:
    facts = {"schema_version": 3, "grade_id": name, "grade": False, "solution": solution, "locked": locked}
    return facts | {"task": False}
