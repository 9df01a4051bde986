"""What has come back: a line of points for each student and lesson, and a page with feedback."""

import csv
import functools
import io
import json
import re
import sys
import tarfile
import unicodedata
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from tools.classroom.answers import Statement, needed, statements
from tools.classroom.handout import Lesson, Task, assignment
from tools.classroom.process import judge

CONFIG = """c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "from_dot_products_to_nanogpt"
# Nothing that was handed in runs here: the verdicts stand in the outputs already.
c.ClearSolutions.enabled = c.ClearOutput.enabled = c.Execute.enabled = False
"""


@dataclass(frozen=True)
class Judged:
    """What is to be said of an answer, and the source that was judged."""

    task: Task
    word: str = "missing"
    why: str = "the notebook doesn't define it"
    source: str = ""

    @property
    def points(self) -> int:
        return self.task.points if self.word == "right" else 0

    @property
    def is_open(self) -> bool:
        """There is no answer yet that could be right or wrong."""
        return self.word in ("missing", "still to do")

    def __str__(self) -> str:
        return f"{self.word}, {self.why}" if self.why else self.word


@dataclass
class HandIn:
    """A student's work for a lesson; without a lesson, the notes say what the folder holds."""

    student: str
    lesson: Any = None  # a Lesson, where the file is one
    notes: list[str] = field(default_factory=list)
    notebooks: dict[str, list[str]] = field(default_factory=dict)  # the code cells of each file
    judged: list[Judged] = field(default_factory=list)

    @property
    def points(self) -> int:
        return sum(verdict.points for verdict in self.judged)


def grade(folder: Path, out: Path, lessons: Sequence[Lesson], seconds: float, jobs: int) -> None:
    """Judge all hand-ins, and write points.csv, feedback and a course of nbgrader's into `out`."""
    hand_ins = [hand_in for path in sorted(folder.iterdir()) for hand_in in read(path, lessons)]
    note_missing(hand_ins)
    with ThreadPoolExecutor(jobs) as pool:
        for hand_in in pool.map(functools.partial(judge_all, seconds=seconds), hand_ins):
            summary = f"{hand_in.lesson.name}, {hand_in.points} points" if hand_in.lesson else "no lesson"
            print("; ".join([f"{hand_in.student}: {summary}", *hand_in.notes]), file=sys.stderr)
    out.mkdir(parents=True, exist_ok=True)
    write_points(out / "points.csv", hand_ins)
    write(out / "nbgrader_config.py", CONFIG)
    for lesson in {hand_in.lesson for hand_in in hand_ins if hand_in.lesson}:
        place = out / "source" / lesson.name / f"{lesson.name}.ipynb"
        write(place, nbformat.writes(assignment(lesson)))
    exporter = HTMLExporter()
    for hand_in in hand_ins:
        if hand_in.judged:
            place = Path(hand_in.student, hand_in.lesson.name, hand_in.lesson.name)
            page = with_verdicts(hand_in)
            write(out / "submitted" / place.with_suffix(".ipynb"), nbformat.writes(page))
            html, _ = exporter.from_notebook_node(page)
            write(out / "feedback" / place.with_suffix(".html"), html)
    print(f"{sum(bool(hand_in.judged) for hand_in in hand_ins)} hand-ins were judged: see {out}")


# ---------------------------------------------------------------- what came back
def read(folder: Path, lessons: Sequence[Lesson]) -> list[HandIn]:
    """What a student has handed in, a lesson each; if there is none, one with a note.

    Notebooks are known by their content, whatever they are called.
    """
    if folder.name.startswith("."):
        note = "hidden, since its name begins with a dot: left out"
        return [HandIn(folder.name, notes=[note])] if folder.is_dir() else []
    if not folder.is_dir():
        return [HandIn(folder.name, notes=["it lies outside of the students' folders"])]
    by_lesson: dict[str, HandIn] = {}
    others = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        is_folder = path.is_dir() and not path.is_symlink()  # links may lead in circles
        if any(part.startswith(".") for part in Path(name).parts) or is_folder:
            continue
        if path.exists() and not path.is_file():  # a pipe may never end
            others.append(f"{name} is no regular file")
            continue
        if path.is_symlink():
            others.append(f"{name} is a link")
        content = b""
        try:
            content = path.read_bytes()
            cells = [with_script(cell, path, folder) for cell in code_of(content)]
        except OSError as error:
            others.append(f"{name} can't be read: {error.strerror}")
            continue
        except Exception:  # a file may hold anything
            kind = "an archive: unpack it" if is_archive(content) else "no notebook"
            others.append(f"{name} is {kind}")
            continue
        held = lessons_of(name, cells, lessons)
        if not held:
            others.append(f"{name} is none of the lessons to grade")
        for lesson in held:
            hand_in = by_lesson.setdefault(lesson.name, HandIn(folder.name, lesson))
            hand_in.notebooks[name] = cells
    if len(others) > 3:
        others[3:] = [f"and {len(others) - 3} more"]
    if not by_lesson:
        return [HandIn(folder.name, notes=others or ["the folder is empty, but for hidden files"])]
    for hand_in in by_lesson.values():
        if len(hand_in.notebooks) > 1:
            count, names = len(hand_in.notebooks), ", ".join(hand_in.notebooks)
            hand_in.notes.append(f"{count} notebooks, of which the better one counts: {names}")
    next(iter(by_lesson.values())).notes.extend(others)
    return list(by_lesson.values())


def note_missing(hand_ins: Sequence[HandIn]) -> None:
    """In a student's first line, name the lessons that others have handed in and this one hasn't."""
    all_of_them = dict.fromkeys(hand_in.lesson.name for hand_in in hand_ins if hand_in.lesson)
    names: dict[str, list[str]] = {}
    first: dict[str, HandIn] = {}
    for hand_in in [hand_in for hand_in in hand_ins if hand_in.lesson]:
        first.setdefault(hand_in.student, hand_in)
        names.setdefault(hand_in.student, []).append(hand_in.lesson.name)
    for student, hand_in in first.items():
        if missing := [name for name in all_of_them if name not in names[student]]:
            hand_in.notes.append(f"not handed in: {', '.join(missing)}")


def code_of(content: bytes) -> list[str]:
    """The code cells of a notebook, of any edition and encoding; damaged ones are left out."""
    notebook = json.loads(content)
    sources = []
    for sheet in notebook.get("worksheets", [notebook]):  # as notebooks were until 2014
        for cell in [cell for cell in sheet["cells"] if isinstance(cell, dict)]:
            source = cell.get("source", cell.get("input"))
            if cell.get("cell_type") == "code" and isinstance(source, str | list):
                sources.append("".join(map(str, source)))
    return sources


def is_archive(content: bytes) -> bool:
    """Whether a file holds other files: a .zip, a .tar.gz, ..."""
    try:
        return zipfile.is_zipfile(io.BytesIO(content)) or tarfile.is_tarfile(io.BytesIO(content))
    except Exception:  # of a .gz that is cut off: a file may hold anything
        return False


def with_script(cell: str, notebook: Path, folder: Path) -> str:
    """The cell with the scripts that it runs by `%run`, if they lie in the student's folder."""

    def content(run: re.Match[str]) -> str:
        try:
            script = (notebook.parent / run[2]).resolve()
            if script.is_file() and script.is_relative_to(folder.resolve()):
                return script.read_text("utf-8-sig", errors="replace")
        except Exception:  # a name may be anything
            pass
        return run[0]

    return re.sub(r"^%run +(?:-\S+ +)*(['\"]?)(.+?\.py)\1(?: .*)?$", content, cell, flags=re.M)


def lessons_of(name: str, cells: Sequence[str], lessons: Sequence[Lesson]) -> list[Lesson]:
    """The lessons that a notebook's checks belong to; without any, the one that it names."""
    checked = {label for cell in cells for statement in parsed(cell)[0] for label in statement.checks}
    matches = [lesson for lesson in lessons if checked & {task.label for task in lesson.tasks}]
    if checked:
        return matches
    name = unicodedata.normalize("NFC", name)
    return [lesson for lesson in lessons if lesson.tasks and lesson.name in name][:1]


def parsed(cell: str) -> tuple[list[Statement], str]:
    """What a cell says, or why it says nothing."""
    try:
        return statements(cell), ""
    except Exception as error:  # a cell may hold anything
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        return [], f"{line}{getattr(error, 'msg', error)}"


# ---------------------------------------------------------------- judging
def judge_all(hand_in: HandIn, seconds: float) -> HandIn:
    """Judge its notebooks, and keep the better; what fails here costs this hand-in only."""
    for name, cells in hand_in.notebooks.items():
        try:
            judged = judge_notebook(hand_in.lesson, cells, seconds)
        except Exception as error:  # a cell may hold anything
            hand_in.notes.append(f"{name} can't be judged: {type(error).__name__}: {error}")
            continue
        if not hand_in.judged or sum(verdict.points for verdict in judged) > hand_in.points:
            hand_in.judged = judged
    return hand_in


def judge_notebook(lesson: Lesson, cells: Sequence[str], seconds: float) -> list[Judged]:
    """The verdict on each exercise of the lesson, from the code cells of a notebook."""
    shipped, asked_for = as_shipped(lesson)
    own: list[Statement] = []
    broken: dict[str, str] = {}  # cells that are no Python, and why
    for cell in cells:
        code, why = parsed(cell)
        own += code
        broken |= {cell: why} if why else {}
    verdicts = [judge_task(task, shipped, own, asked_for, seconds) for task in lesson.tasks]
    return [explained(verdict, cells, broken) for verdict in verdicts]


def as_shipped(lesson: Lesson) -> tuple[list[Statement], set[str]]:
    """What we have shipped, which a notebook may have lost, and the names that the exercises ask for."""
    shipped: list[Statement] = []
    asked_for = {task.name for task in lesson.tasks}
    for cell in nbformat.read(lesson.path, as_version=4).cells:
        code = statements(cell.source) if cell.cell_type == "code" else []
        if any(statement.checks for statement in code):
            asked_for |= {name for statement in code for name in statement.binds}
        else:
            shipped += code
    return shipped, asked_for


def judge_task(
    task: Task, shipped: list[Statement], own: list[Statement], asked_for: set[str], seconds: float
) -> Judged:
    """The verdict on the best of the answers that a notebook checks, and of the one that it ends with."""
    answers = [
        (statement.checks[task.label], shipped + own[:end])
        for end, statement in enumerate(own, start=1)
        if task.label in statement.checks
    ]
    best = Judged(task)
    for expression, before in [*answers, (task.name, shipped + own)]:
        source, unbound = needed(expression, before)
        is_known = source != "" and source == best.source
        if best.word == "right" or task.name in unbound or is_known:
            continue
        earlier = sorted(unbound - asked_for)  # steps of earlier lessons, perhaps
        word, why = judge(task.label, source, expression, earlier, seconds)
        if best.is_open or word == "right":
            best = Judged(task, word, why, source)
    return best


def explained(verdict: Judged, cells: Sequence[str], broken: dict[str, str]) -> Judged:
    """The same; of an answer that is open with what may have hidden it: a %run, or a cell that is no Python."""
    # What it runs and doesn't hold, or what is no script.
    elsewhere = [line.strip() for line in "\n".join(cells).splitlines() if line.startswith("%run")]
    if verdict.is_open and elsewhere:
        verdict = replace(verdict, why=f"and this was not followed: {', '.join(elsewhere)}")
    for cell, why in broken.items():
        if verdict.is_open and verdict.task.name in cell:
            verdict = Judged(verdict.task, "not yet", f"its cell is no Python, {why}", cell)
    return verdict


def solved(lesson: Lesson) -> list[str]:
    """The exercises whose answers the lesson itself gives away, as it lies in notebooks/."""
    cells = nbformat.read(lesson.path, as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    judged = judge_notebook(lesson, code, 10.0)
    return [verdict.task.label for verdict in judged if verdict.word == "right"]


# ---------------------------------------------------------------- what is written
def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_points(path: Path, hand_ins: Sequence[HandIn]) -> None:
    """A line for each hand-in: the points of each exercise, and what was said of it."""
    tasks = {verdict.task.label: verdict.task for hand_in in hand_ins for verdict in hand_in.judged}
    columns = ["student", "lesson", "points", "of", "note"]
    for label, task in tasks.items():
        columns += [label, f"{label} said"] if task.points else [f"{label} said"]
    with path.open("w", encoding="utf-8-sig", errors="backslashreplace", newline="") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore")
        table.writeheader()
        for hand_in in hand_ins:
            lesson, of = "", ""
            if hand_in.lesson:
                lesson, of = hand_in.lesson.name, sum(task.points for task in hand_in.lesson.tasks)
            row = {"student": hand_in.student, "lesson": lesson, "points": hand_in.points, "of": of}
            row["note"] = "; ".join(hand_in.notes)
            for verdict in hand_in.judged:
                row |= {verdict.task.label: verdict.points, f"{verdict.task.label} said": str(verdict)}
            for key, value in row.items():
                if str(value).startswith(("=", "+", "-", "@")):  # no formula in a table program
                    row[key] = f"'{value}"
            table.writerow(row)


def with_verdicts(hand_in: HandIn) -> NotebookNode:
    """Our exercises with what was judged of each and the verdict below it, also for nbgrader."""
    notebook = assignment(hand_in.lesson)
    heads = [cell.source.startswith("## Exercises") for cell in notebook.cells]
    notebook.cells = [notebook.cells[0], *notebook.cells[heads.index(True) :]]
    judged = {verdict.task.label: verdict for verdict in hand_in.judged}
    for cell in notebook.cells:
        part, _, label = cell.metadata.get("nbgrader", {}).get("grade_id", "").partition("-")
        if part == "answer":
            cell.source = judged[label].source or cell.source
        elif part == "check":
            verdict, text = judged[label], f"{label}: {judged[label]}"
            right = nbformat.v4.new_output("stream", text=text)
            wrong = nbformat.v4.new_output(  # which nbgrader takes for no points
                "error", ename=verdict.word, evalue=verdict.why, traceback=[text]
            )
            cell.outputs = [right if verdict.word == "right" or not verdict.task.points else wrong]
    return notebook
