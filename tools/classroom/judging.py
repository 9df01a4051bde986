"""One submission: the answers are found, asked in their jail, and judged out here."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from exercises import judge
from exercises.judge import RIGHT, Built, Given, Question, Verdict
from exercises.limit import TooLongError
from exercises.questions import exercises
from exercises.steps import STEPS
from helpers.errors import printable
from tools.classroom import plain, slicing
from tools.classroom.assignments import CHECK, Lesson, Task
from tools.classroom.jail import STILL, Ended, Jail, Limits, NoJailError

GONE = Verdict("missing", "the notebook doesn't define it")
WORDS = ("right", "still to do", "not yet")
GRACE = 3.0  # seconds that a jail may take longer than its answer


@dataclass(frozen=True)
class Judged:
    """What is to be said of one answer; `unusual` is what a teacher may want to look at in it."""

    task: Task
    verdict: Verdict
    unusual: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        return self.task.points if self.verdict == RIGHT else 0


@dataclass(frozen=True)
class Room:
    """Where answers live: what every jail of this class has in common."""

    code: Path
    walled: bool
    hidden: tuple[Path, ...]
    limits: Limits = field(default_factory=Limits)
    earlier: Path | None = None  # the steps of all notebooks, for answers that build on those of earlier ones


class _Lively:
    """A jail that is there when it is needed, and a new one after the last has ended."""

    def __init__(self, room: Room, learns: bool):
        self.room, self.learns, self.jail = room, learns, None
        self.end = time.monotonic() + room.limits.seconds

    def call(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        if time.monotonic() > self.end:
            raise Ended(f"the {self.room.limits.seconds} seconds of this submission are over")
        try:
            if self.jail is None:
                self.jail = Jail(self.room.code, self.room.walled, self.room.hidden, self.room.limits, self.learns)
            return self.jail.call(message, seconds)
        except Ended:
            self.close()
            raise

    def close(self) -> None:
        if self.jail is not None:
            self.jail.close()
        self.jail = None


def judged(lesson: Lesson, cells: Sequence[str], room: Room) -> list[Judged]:
    """The verdict on each exercise of the lesson, from the code cells of a submission."""
    lively = _Lively(room, any(isinstance(exercises()[task.label], Built) for task in lesson.tasks))
    ours = earlier_steps(lesson, room.earlier)
    try:
        return [_judged(task, cells, ours, lively) for task in lesson.tasks]
    finally:
        lively.close()


def earlier_steps(lesson: Lesson, path: Path | None) -> list[slicing.Statement]:
    """What answers may build on: the steps that earlier notebooks ask for, as a solution has them."""
    if path is None:
        return []
    later = {name for step in STEPS if int(step.label[:-1]) >= int(lesson.number) for name in step.answer}
    return [each for each in slicing.statements([path.read_text("utf-8")]) if not each.binds & later]


def _judged(task: Task, cells: Sequence[str], ours: list[slicing.Statement], lively: _Lively) -> Judged:
    """As it stands where its check stands; if nothing is done there, as it stands at the end."""
    check = [place for place, cell in enumerate(cells) if task.label in (label for label, _ in CHECK.findall(cell))]
    found = Judged(task, GONE)
    for before in dict.fromkeys([*(place + 1 for place in check[:1]), len(cells)]):
        cut = slicing.slice_for(task.name, cells, before, ours)
        if cut is not None:
            found = Judged(task, _verdict(task, cut.source, lively), cut.unusual)
        if cut is not None and found.verdict.word != "still to do":
            return found
    for cell in slicing.broken(cells):
        if task.name in cell.text:
            return Judged(task, Verdict("not yet", f"its cell is no Python, {cell.why}"))
    return found


def _verdict(task: Task, source: str, lively: _Lively) -> Verdict:
    seconds = lively.room.limits.answer
    question = exercises()[task.label]
    try:
        reply = lively.call({"source": source, "name": task.name, "seconds": seconds}, seconds + GRACE)
        if reply.get("late"):
            return _late(seconds)
        if "fault" in reply:
            return Verdict("not yet", _said(reply["fault"]))
        if isinstance(
            question, Question
        ):  # whatever comes out of a jail: it is no reason to ask for a verdict in there
            try:
                return _from_outside(question, reply, lively)
            except plain.NotPlainError:  # its inputs are functions or models
                pass
        reply = lively.call({"label": task.label, "seconds": seconds}, seconds + GRACE)
        if reply.get("late"):
            return _late(seconds)
        word = _said(reply.get("word"))
        return Verdict(word if word in WORDS else "not yet", _said(reply.get("why")))
    except NoJailError:
        raise
    except Ended as ended:
        return Verdict("not yet", str(ended))
    except TooLongError:
        return _late(seconds)
    except Exception as error:  # a value that no grader has thought of
        return Verdict("not yet", f"what it gives can't be judged ({type(error).__name__})")


def _late(seconds: float) -> Verdict:
    return Verdict("not yet", STILL.format(seconds))


def _from_outside(question: Question, reply: dict[str, Any], lively: _Lively) -> Verdict:
    """The grader works here, where no answer can reach it; an answer that is a function is asked through its jail.

    NotPlainError when an input can't be sent.
    """
    with _in_peace():
        if not reply.get("callable"):
            return judge.judged(question, reply.get("value"))
        seconds = lively.room.limits.answer
        end = time.monotonic() + seconds

        def ask(answer: Any, *inputs: Any) -> Given:
            left = max(end - time.monotonic(), 0.01)
            message = {"inputs": inputs, "dice": torch.get_rng_state(), "seconds": left}
            plain.pack(inputs)
            given = lively.call(message, left + GRACE)
            if given.get("late"):
                raise TooLongError
            return Given(
                given.get("value"), _said(given.get("inputs")), _said(given.get("fault")), bool(given.get("changed"))
            )

        cases = list(judge.results(question.grader, _stand_in, ask))
        return judge.verdict(question, cases)


def _stand_in(*_: Any) -> None:
    """For an answer that lives elsewhere."""
    raise NotImplementedError


@contextmanager
def _in_peace() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _said(text: Any) -> str:
    """What came out of a jail as words, in one line and not too long."""
    return " ".join(printable(text if isinstance(text, str) else "").split())[:300]
