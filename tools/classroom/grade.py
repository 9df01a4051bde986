"""`make grade SUBMISSIONS=folder OUT=folder`: judge what came back, one folder for each student.

All submissions are read before the first one runs, and nothing is written before the last one has ended: no submission
can lose or change another's result. OUT becomes a course of nbgrader's, with points.csv and feedback/ in it.
"""

import argparse
import csv
import hashlib
import io
import multiprocessing
import os
import re
import shlex
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from exercises.questions import exercises
from helpers.errors import ConfigError, Options, note, printable, say, shown
from tools.classroom import course, jail
from tools.classroom.assignments import CHECK, LESSONS, ROOT, Lesson, lessons
from tools.classroom.doors import a_folder, a_new_folder, named
from tools.classroom.jail import Limits
from tools.classroom.judging import Judged, Room, judged

SECRETS = ("notebooks", "tests", "build", ".git")  # where solutions stand
LARGEST = 20 * 2**20  # bytes of a notebook
NAME = re.compile(r"\w[\w .@-]{0,99}")  # of a student's folder
NO_WALLS = (
    "this system lets nobody take network and file system away (unshare), so only time, memory and output are limited: "
    "grade what strangers hand in in a container, as docs/teaching.md shows"
)


@dataclass
class Submission:
    """A notebook of a student, as it was before anything ran."""

    student: str
    file: str
    lesson: Lesson | None = None
    cells: list[NotebookNode] = field(default_factory=list)
    note: str = ""
    judged: list[Judged] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def points(self) -> int:
        return sum(each.points for each in self.judged)


def main(arguments: list[str]) -> None:
    options = _options(arguments)
    folder = a_folder("SUBMISSIONS", os.environ.get("SUBMISSIONS", ""))
    if named("OUT", os.environ.get("OUT", "")).is_relative_to(folder):
        raise ConfigError("OUT lies in SUBMISSIONS: name a folder elsewhere")
    with a_new_folder("OUT", os.environ["OUT"]) as (work, out):
        course.need_nbgrader()
        submissions = read(folder)
        watched = (folder, ROOT / "helpers", ROOT / "tools")
        before = digest(watched)
        course.begin(work, {each.lesson.name: each.lesson for each in submissions if each.lesson}.values())
        start = time.monotonic()
        judge_all(submissions, [folder, *(ROOT / name for name in SECRETS if (ROOT / name).is_dir())], options)
        if digest(watched) != before:
            note(f"while this was graded, something changed in {shown(folder)} or in this project: look at both")
        write(work, submissions)
    done = sum(bool(each.judged) for each in submissions)
    seconds = time.monotonic() - start
    say(f"{done} of {len(submissions)} submissions were judged in {seconds:.0f} s: {shown(out / 'points.csv')}")


@dataclass(frozen=True)
class Settings:
    jobs: int
    limits: Limits


def _options(arguments: Sequence[str]) -> Settings:
    parser = Options(prog="make grade", description="P holds these options")
    defaults = Limits()
    parser.add_argument("--jobs", type=_positive, default=1, help="submissions at a time")
    parser.add_argument("--answer", type=_positive, default=int(defaults.answer), help="seconds for an answer")
    parser.add_argument("--seconds", type=_positive, default=defaults.seconds, help="seconds for a submission")
    parser.add_argument("--memory", type=_positive, default=defaults.memory, help="megabytes for a process")
    try:
        more = shlex.split(os.environ.get("P", ""))
    except ValueError as error:
        raise ConfigError(f"P={os.environ['P']}: {str(error).lower()}") from None
    given = parser.parse_args([*arguments, *more])
    return Settings(given.jobs, Limits(given.answer, given.seconds, given.memory))


def _positive(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"it should be a number from 1 to 999999, not {text}")
    return int(text)


# ---------------------------------------------------------------- what came back
def read(folder: Path) -> list[Submission]:
    """All notebooks in the students' folders. ConfigError if there are none, or a name can't be a student's."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_dir() or path.is_symlink():
            continue
        if not NAME.fullmatch(path.name):
            allowed = "letters, digits, spaces and . @ - _"
            raise ConfigError(f"the folder {shown(path.name)!r} can't be a student's name: it may have {allowed}")
        found += _newest(_opened(path.name, file, folder) for file in _notebooks(path))
    if not found:
        raise ConfigError(f"{shown(folder)} should hold one folder for each student, with notebooks in it")
    return found


def _notebooks(folder: Path) -> list[Path]:
    """In the order in which they were written; links lead elsewhere and are no submissions."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place, name) for name in files if name.endswith(".ipynb") and not name.startswith(".")]
    return sorted((path for path in found if not path.is_symlink()), key=lambda path: (path.stat().st_mtime, path))


def _opened(student: str, path: Path, folder: Path) -> Submission:
    made = Submission(student, printable(str(path.relative_to(folder))))
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST // 2**20} MB")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            notebook = nbformat.reads(path.read_text("utf-8"), as_version=4)
        made.cells = [cell for cell in notebook.cells if isinstance(cell.source, str)]
        made.lesson = _lesson(path, [cell.source for cell in made.cells])
    except Exception as error:  # a file may hold anything
        why = str(error).strip() or type(error).__name__
        made.note = f"no notebook: {printable(why.splitlines()[0])[:200]}"
        return made
    if made.lesson is None:
        made.note = "no lesson of this course: neither the file's name nor a check says which"
    return made


def _lesson(path: Path, sources: list[str]) -> Lesson | None:
    """By the name of the file, or by the checks in it."""
    for lesson in lessons().values():
        if lesson.name in path.stem:
            return lesson
    labels = {label for source in sources for label, _ in CHECK.findall(source)}
    counts = {number: sum(task.label in labels for task in lesson.tasks) for number, lesson in lessons().items()}
    best = max(counts, key=lambda number: counts[number])
    return lessons()[best] if counts[best] else None


def _newest(submissions: Iterator[Submission]) -> list[Submission]:
    """One for each lesson, the last that was written; and what is none."""
    kept: dict[str, Submission] = {}
    others = []
    for each in submissions:
        if each.lesson is None:
            others.append(each)
            continue
        earlier = kept.get(each.lesson.name)
        each.note = f"it is newer than {earlier.file}, which doesn't count" if earlier else each.note
        kept[each.lesson.name] = each
    return [*sorted(kept.values(), key=lambda each: each.lesson.name if each.lesson else ""), *others]


# ---------------------------------------------------------------- all of them
def judge_all(submissions: Sequence[Submission], hidden: Sequence[Path], options: Settings) -> None:
    """Fill in what is to be said of each."""
    with tempfile.TemporaryDirectory(prefix="classroom-") as folder:
        walled = jail.walls(Path(folder))
        if not walled:
            note(NO_WALLS)
        code = jail.copy_of_the_code(ROOT, Path(folder) / "code")
        earlier = LESSONS / "solutions" / "my_gpt.py"
        room = Room(code, walled, tuple(hidden), options.limits, earlier if earlier.is_file() else None)
        waiting = [each for each in submissions if each.lesson]
        left = _in_a_pool(waiting, room, options.jobs)
        for each in left:  # a worker has died; whose fault it was shows when each has one of its own
            if _in_a_pool([each], room, 1):
                each.note = "not judged: its grader broke twice, look at it yourself"


def _in_a_pool(waiting: Sequence[Submission], room: Room, jobs: int) -> list[Submission]:
    """Those that could not be judged because a worker died."""
    left = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, max(len(waiting), 1)), context, exercises) as pool:
        work = {
            pool.submit(_judge, each.lesson.number if each.lesson else "", _code(each), room): each for each in waiting
        }
        for done in as_completed(work):
            each = work[done]
            try:
                each.judged, each.seconds = done.result()
            except Exception:  # the worker has died, or found no process for the answers
                left.append(each)
                continue
            of = each.lesson.points if each.lesson else 0
            note(f"{each.student}: {each.file}, {each.points} of {of} points, {each.seconds:.0f} s")
    return left


def _code(submission: Submission) -> list[str]:
    return [cell.source for cell in submission.cells if cell.cell_type == "code"]


def _judge(number: str, cells: list[str], room: Room) -> tuple[list[Judged], float]:
    start = time.monotonic()
    return judged(lessons()[number], cells, room), time.monotonic() - start


def digest(folders: Sequence[Path]) -> str:
    """Of the names and contents of all files; Python's own copies don't count."""
    sum_ = hashlib.sha256()
    for folder in folders:
        for place, names, files in os.walk(folder):
            names[:] = sorted(name for name in names if name != "__pycache__")
            for name in sorted(files):
                path = Path(place, name)
                sum_.update(f"{path}\0{path.is_symlink()}\0".encode(errors="surrogateescape"))
                if path.is_file():
                    sum_.update(hashlib.sha256(path.read_bytes()).digest())
    return sum_.hexdigest()


# ---------------------------------------------------------------- what is written
def write(folder: Path, submissions: Sequence[Submission]) -> None:
    """Into the course all that was judged, and points.csv."""
    for each in submissions:
        if each.lesson and each.judged:
            course.hand_in(folder, each.student, each.lesson, each.cells, each.judged)
    course.grade(folder, {each.lesson.name: each.lesson for each in submissions if each.lesson}.values())
    (folder / "points.csv").write_text(table(submissions), encoding="utf-8-sig", newline="")


def table(submissions: Sequence[Submission]) -> str:
    """One line for each submission, as CSV: points of each exercise, and what was said of it."""
    used = [lesson for lesson in lessons().values() if any(each.lesson == lesson for each in submissions)]
    tasks = [task for lesson in used for task in lesson.tasks]
    columns = [name for task in tasks for name in ([task.label] if task.points else []) + [f"{task.label} said"]]
    text = io.StringIO()
    lines = csv.DictWriter(text, ["student", "lesson", "points", "of", "seconds", "note", "look at", *columns])
    lines.writeheader()
    for each in submissions:
        line = {
            "student": each.student,
            "lesson": each.lesson.name if each.lesson else each.file,
            "points": each.points,
            "of": each.lesson.points if each.lesson else "",
            "seconds": f"{each.seconds:.1f}",
            "note": each.note,
            "look at": "; ".join(f"{one.task.label}: {', '.join(one.unusual)}" for one in each.judged if one.unusual),
        }
        for one in each.judged:
            line |= {one.task.label: one.points} if one.task.points else {}
            line[f"{one.task.label} said"] = str(one.verdict)
        lines.writerow(line)
    return text.getvalue()
