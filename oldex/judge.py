"""The judge. It asks an answer, compares what it gives with what is right, and calls a known mistake by its name.

Exercises and the checks of attention are judged in this one way: a question has a grader, which asks the answer in
several cases, and a table of mistakes, a sentence for each wrong answer. An answer that does the same as a wrong one in
every case is told its sentence.

What may be built in many ways, a layer or a whole GPT, is judged by a trial instead: it tries what the answer does,
property by property, and the first one that doesn't hold says what is wrong.
"""

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from exercises import compare
from exercises.compare import ROUNDING, Near
from helpers.errors import CheckError

Answer = Callable[..., Any]
Pairs = Iterator[tuple[Any, ...]]
Grader = Callable[[Answer], Pairs]
Trial = Callable[[Any], None]  # raises CheckError, whose message is the sentence


@dataclass(frozen=True)
class Question:
    """A grader, and what people get wrong: a sentence, and the wrong answer that it describes (or a list of such).

    The grader calls the answer with inputs of its choice and yields pairs (given, right), or (given, right, tolerance).
    Where the answer is a value, the grader yields the answer itself. In a mistake, ... stands for anything.
    """

    grader: Grader
    mistakes: dict[str, Any] = field(default_factory=dict)
    broken: tuple[str, Answer] | None = None  # for a repair: the symptom, and the function that the notebook shows

    def wrong_answers(self) -> Iterator[tuple[str, Any]]:
        for sentence, wrong in self.mistakes.items():
            for answer in wrong if isinstance(wrong, list) else [wrong]:
                yield sentence, answer


@dataclass(frozen=True)
class Built:
    """What is judged by what it does: a trial, and what the answer should be, such as "a class" or "a function"."""

    trial: Trial
    kind: str
    broken: None = None  # nobody is shown one to repair

    def wrong_answers(self) -> Iterator[tuple[str, Any]]:
        """None: the properties say what is wrong."""
        return iter(())


EXERCISES: dict[str, Question | Built] = {}  # by their labels


def exercise(
    label: str, mistakes: dict[str, Any], broken: tuple[str, Answer] | None = None
) -> Callable[[Grader], Grader]:
    """A decorator that makes a grader the exercise `label`."""

    def register(grader: Grader) -> Grader:
        EXERCISES[label] = Question(grader, mistakes, broken)
        return grader

    return register


def built(label: str, kind: str) -> Callable[[Trial], Trial]:
    """A decorator that makes a trial the exercise `label`."""

    def register(trial: Trial) -> Trial:
        EXERCISES[label] = Built(trial, kind)
        return trial

    return register


@dataclass(frozen=True)
class Given:
    """What an answer gave for some inputs. A fault is the answer's own, whatever would be right."""

    value: Any
    inputs: str = ""
    fault: str = ""
    changed_input: bool = False


@dataclass(frozen=True)
class Case:
    """What an answer gave, what is right, and how near an answer must come."""

    given: Given
    right: Any
    near: Near = ROUNDING

    @property
    def fault(self) -> str:
        return self.given.fault or self.difference_from(self.right)

    def difference_from(self, other: Any) -> str:
        tell = bool(self.given.inputs)  # a prediction has no inputs, and what is right is not told
        return compare.difference(self.given.value, other, self.near, tell)

    def does_the_same(self, other: Given) -> bool:
        """Is that what another answer gives, down to the words of what it raises?"""
        if other.value is ...:
            return True
        if self.given.fault or other.fault:
            return self.given.fault == other.fault
        return not self.difference_from(other.value)


class Verdict(NamedTuple):
    word: str  # right, still to do, or not yet
    why: str = ""

    def __str__(self) -> str:
        return f"{self.word}, {self.why}" if self.why else self.word


RIGHT = Verdict("right")


# ---------------------------------------------------------------- the judgement
def refuse(what: str, question: Question, candidate: Answer) -> None:
    """CheckError, which says why the candidate is not what it should be, unless it is."""
    with torch.random.fork_rng(devices=[]):
        said = verdict(question, list(results(question.grader, candidate)))
    if said != RIGHT:
        raise CheckError(f"not {what}: {said.why or said.word}")


def is_right(grader: Grader, answer: Any) -> bool:
    with torch.random.fork_rng(devices=[]):  # `results` draws, which nobody outside should notice
        return not any(case.fault for case in results(grader, answer))


def judged(question: Question | Built, answer: Any) -> Verdict:
    """What is to be said of an answer."""
    if isinstance(question, Built):
        return _tried(question, answer)
    return verdict(question, list(results(question.grader, answer)))


def _tried(question: Built, answer: Any) -> Verdict:
    """The verdict of a trial."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    if any(part is ... or (callable(part) and compare.does_nothing(part)) for part in parts):
        return Verdict("still to do")
    if not all(map(callable, parts)):
        return Verdict("not yet", f"it should be {question.kind}, and is {compare.kind(answer)}")
    torch.default_generator.manual_seed(0)
    try:
        question.trial(answer)
    except CheckError as error:
        return Verdict("not yet", str(error))
    except (Exception, SystemExit) as error:  # a learner's code may raise anything, and "run all" must go on
        return Verdict("not yet", raised(error))
    return RIGHT


def raised(error: BaseException) -> str:
    """What an answer raises, as a sentence."""
    message = (str(error).strip() or "without a message").splitlines()[0]
    return f"it raises {type(error).__name__}: {message}"


def verdict(question: Question, cases: list[Case]) -> Verdict:
    """What is to be said of an answer that gave this."""
    if any(compare.is_stub(case.given.value) for case in cases):
        return Verdict("still to do")
    wrong = [case for case in cases if case.fault]
    if not wrong:
        return RIGHT
    if question.broken and _does_the_same(question.grader, cases, question.broken[1]):
        return Verdict("still to do", f"it is as broken as it was: {question.broken[0]}")
    for case in wrong:
        if case.given.changed_input:
            return Verdict("not yet", case.fault)
    for sentence, mistake in question.wrong_answers():
        if _does_the_same(question.grader, cases, mistake):
            return Verdict("not yet", sentence)
    first = wrong[0]
    return Verdict("not yet", f"for {first.given.inputs} {first.fault}" if first.given.inputs else first.fault)


def _does_the_same(grader: Grader, cases: list[Case], mistake: Any) -> bool:
    others = results(grader, mistake)
    return all(case.does_the_same(other.given) for case, other in zip(cases, others, strict=True))


# ---------------------------------------------------------------- what an answer gives
def results(grader: Grader, answer: Any, asking: Callable[..., Given] | None = None) -> Iterator[Case]:
    """What the answer gives, case by case, for the same inputs whatever the answer; `asking` is how it is asked."""
    value = Given(answer, fault="it should be a value, and is a function" if callable(answer) else "")
    torch.default_generator.manual_seed(0)  # and no GPU's: only this generator is put back
    for given, right, *tolerance in grader(functools.partial(asking or ask, answer)):
        yield Case(given if isinstance(given, Given) else value, right, *map(compare.near, tolerance))


def ask(answer: Any, *inputs: Any) -> Given:
    """What the answer gives for copies of these inputs."""
    if not callable(answer):
        return Given(answer, fault=f"it should be a function, and is {compare.kind(answer)}")
    names = compare.names(answer, len(inputs))
    copies = copy.deepcopy(inputs)
    described = ", ".join(map(compare.in_short, names, inputs))
    try:
        with torch.random.fork_rng(devices=[]):  # it may draw numbers: those of the cases stay the same
            value = compare.kept(answer(*copies))
    except (Exception, SystemExit) as error:  # a learner's code may raise anything, and "run all" must go on
        return Given(None, described, raised(error))
    for name, before, after in zip(names, inputs, copies, strict=True):
        if not compare.same(before, after):
            return Given(value, described, f"it changes its input `{name}`: work on a copy", changed_input=True)
    if value is not None:
        return Given(value, described)
    if compare.does_nothing(answer):
        return Given(..., described)
    return Given(None, described, "it returns nothing: is a `return` missing?")
