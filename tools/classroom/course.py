"""A course as nbgrader keeps it: what was handed out, what came back, the gradebook, pages with feedback."""

import html
import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from exercises.judge import RIGHT
from helpers.errors import ConfigError, RunError
from tools.classroom.assignments import CHECK, EXERCISES, ROOT, Lesson, assignment
from tools.classroom.judging import Judged

CONFIG = '''"""A course of From dot products to nanoGPT, for nbgrader."""

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "from_dot_products_to_nanogpt"
# What students get has stubs already, and keeps the pictures of the lesson.
c.ClearSolutions.enabled = False
# Nothing that was handed in runs in here: `make grade` judges it elsewhere, and its verdicts stand in the outputs.
c.Execute.enabled = False
c.ClearOutput.enabled = False
'''
LONGEST = 20_000  # characters of a cell on a page


def need_nbgrader() -> None:
    """ConfigError without it."""
    if importlib.util.find_spec("nbgrader") is None:
        raise ConfigError("nbgrader is missing: `make classroom` installs it")


def begin(folder: Path, lessons: Iterable[Lesson]) -> None:
    """A new course in an empty folder, with these lessons as assignments."""
    (folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    lessons = list(lessons)
    for lesson in lessons:
        _write(assignment(lesson), folder / "source" / lesson.name / lesson.path.name)
    _nbgrader(folder, "generate", lessons)


def hand_in(
    folder: Path, student: str, lesson: Lesson, cells: Sequence[NotebookNode], judged: Sequence[Judged]
) -> None:
    """Put a submission into the course: its answers in the cells of the assignment, the verdicts in their outputs."""
    path = folder / "submitted" / student / lesson.name / lesson.path.name
    _write(with_verdicts(lesson, cells, judged), path)


def grade(folder: Path, lessons: Iterable[Lesson]) -> None:
    """Let nbgrader read the points and write the pages."""
    _nbgrader(folder, "grade", list(lessons))


def _write(notebook: NotebookNode, path: Path) -> None:
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)


def _nbgrader(folder: Path, action: str, lessons: list[Lesson]) -> None:
    names = [lesson.name for lesson in lessons]
    command = [sys.executable, "-W", "ignore", "-m", "tools.classroom.books", str(folder), action, *names]
    beside = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    )  # nbgrader's alembic
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PATH": beside}, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or "it says nothing").splitlines()[-1]
        raise RunError(f"nbgrader failed, and nothing was written: {last}")


# ---------------------------------------------------------------- what came back
def with_verdicts(lesson: Lesson, cells: Sequence[NotebookNode], judged: Sequence[Judged]) -> NotebookNode:
    """The exercises of a lesson with a student's answers, each verdict below its check.

    The cells are our own, in our order, whatever became of them: only the source of answers is the student's. Cells
    that we don't know come first.
    """
    notebook = assignment(lesson)
    start = next(i for i, cell in enumerate(notebook.cells) if cell.source.startswith(EXERCISES))
    ours = {cell.id: cell for cell in notebook.cells}
    known = {cell.source.strip() for cell in notebook.cells}
    theirs = {cell.id: cell for cell in cells if cell.id in ours and cell.cell_type == "code"}
    verdicts = {each.task.label: each for each in judged}
    below = notebook.cells[start:]
    for cell in below:
        if cell.cell_type != "code":
            continue
        cell.outputs = []
        check = CHECK.search(cell.source)
        if check:
            cell.outputs = [_output(verdicts[check[1]])]
        elif cell.id in theirs:
            cell.source = _cut(CHECK.sub("", theirs[cell.id].source).rstrip())
    shown = {cell.source.strip() for cell in below}
    added = [cell for cell in cells if CHECK.sub("", cell.source).strip() not in known | shown | {""}]
    for place, cell in enumerate(added):
        name, source = f"added-{place}", _cut(cell.source)
        if cell.cell_type == "code":
            added[place] = nbformat.v4.new_code_cell(source, id=name)
        else:  # as it was typed: a page must not run what somebody wrote into a notebook
            added[place] = nbformat.v4.new_markdown_cell(textwrap.indent(source, "    "), id=name)
    above = [nbformat.v4.new_markdown_cell(_summary(lesson, judged), id="summary")]
    if added:
        above += [nbformat.v4.new_markdown_cell("## Other cells of this notebook", id="added"), *added]
    notebook.cells = [*above, *below]
    return notebook


def _cut(source: str) -> str:
    return (
        source if len(source) <= LONGEST else f"{source[:LONGEST]}\n# ... and {len(source) - LONGEST:,} more characters"
    )


def _summary(lesson: Lesson, judged: Sequence[Judged]) -> str:
    rows = [assignment(lesson).cells[0].source.partition("\n")[0], "", "| exercise | points | |", "|---|---|---|"]
    for each in judged:
        points = f"{each.points} of {each.task.points}" if each.task.points else ""
        said = re.sub(r"([]\\|[!$])", r"\\\1", html.escape(str(each.verdict)))
        rows.append(f"| {each.task.label} · {each.task.title} | {points} | {said} |")
    return "\n".join(rows)


def _output(each: Judged) -> NotebookNode:
    """What nbgrader takes for all points, or for none."""
    line = f"{each.task.label}: {each.verdict}"
    if each.verdict == RIGHT or not each.task.points:
        return nbformat.v4.new_output("stream", text=f"{line}\n")
    return nbformat.v4.new_output("error", ename=each.verdict.word, evalue=each.verdict.why, traceback=[line])
