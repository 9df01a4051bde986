"""The exercises of the notebooks: `check("3a", my_attention)` says whether an answer is right, and if not, why.

The graders are in graders/, one file for each notebook.
"""

import copy
import functools
import importlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from helpers.grading import compare
from helpers.grading.limit import TooLongError, at_most
from helpers.grading.registry import EXERCISES, Exercise, Grader
from helpers.support.errors import ConfigError

SECONDS = 5.0  # for all cases of one answer together
GRADERS = {
    "00": "helpers.grading.graders.n00",
    "01": "helpers.grading.graders.n01",
    "02": "helpers.grading.graders.n02",
    "03": "helpers.grading.graders.n03",
    "04": "helpers.grading.graders.n04",
    "05": "helpers.grading.graders.n05",
    "06": "helpers.grading.graders.n06",
    "07": "helpers.grading.graders.n07",
    "08": "helpers.grading.graders.n08",
    "09": "helpers.grading.graders.n09",
    "10": "helpers.grading.graders.n10",
    "12": "helpers.grading.graders.n12",
}


# ---------------------------------------------------------------- the exercises
def exercises() -> dict[str, Exercise]:
    """Every exercise by its label, in the order of the notebooks."""
    for notebook in GRADERS:
        _load_graders(notebook)
    return {label: EXERCISES[label] for label in sorted(EXERCISES, key=lambda label: (int(label[:-1]), label))}


def _asked(label: str) -> Exercise:
    """The exercise with this label. A lesson loads the graders of its own notebook alone."""
    notebook = str(label)[:-1].zfill(2)
    if notebook in GRADERS:
        _load_graders(notebook)
    if label not in EXERCISES:
        raise ConfigError(f"there is no exercise {label!r}: choose one of {', '.join(exercises())}")
    return EXERCISES[label]


def _load_graders(notebook: str) -> None:
    importlib.import_module(GRADERS[notebook])


# ---------------------------------------------------------------- what an answer gives
@dataclass(frozen=True)
class Given:
    """What an answer gave for some inputs. A fault is the answer's own, whatever would be right."""

    value: Any
    inputs: str = ""
    fault: str = ""
    changed_input: bool = False


@dataclass(frozen=True)
class Case:
    """What an answer gave, what is right, and how far off an answer may be."""

    given: Given
    right: Any
    tolerance: float | None = None

    @property
    def fault(self) -> str:
        return self.given.fault or self.difference_from(self.right)

    def difference_from(self, other: Any) -> str:
        tell = bool(self.given.inputs)  # a prediction has no inputs, and what is right is not told
        return compare.difference(self.given.value, other, self.tolerance, tell)


def check(label: str, answer: Any) -> None:
    """Print one line: still to do (the answer is `...` or does nothing), not yet, and why, or right.

    The answer gets copies of its inputs, and five seconds for all cases together; the global random generator stays as
    it was. A known mistake is called by its name. ConfigError for a label that no exercise has.
    """
    asked = _asked(label)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("default")  # an answer's warnings are shown, and are no errors
        try:
            with at_most(SECONDS):
                cases = list(_results(asked.grader, answer))
            verdict = _verdict(asked, cases)
        except TooLongError:
            verdict = f"not yet, it is still at work after {SECONDS:g} seconds: is there a loop without an end?"
    print(f"{label}: {verdict}")


def _results(grader: Grader, answer: Any) -> Iterator[Case]:
    """What the answer gives, case by case, for the same inputs whatever the answer."""
    value = Given(answer, fault="it should be a value, and is a function" if callable(answer) else "")
    torch.default_generator.manual_seed(0)  # and no GPU's: only this generator is put back
    for given, *rest in grader(functools.partial(_ask, answer)):
        yield Case(given if isinstance(given, Given) else value, *rest)


def _ask(answer: Any, *inputs: Any) -> Given:
    """What the answer gives for copies of these inputs."""
    if not callable(answer):
        return Given(answer, fault=f"it should be a function, and is {compare.kind(answer)}")
    names = compare.names(answer, len(inputs))
    copies = copy.deepcopy(inputs)
    described = ", ".join(map(compare.in_short, names, inputs))
    try:
        with torch.random.fork_rng(devices=[]):  # it may draw numbers: those of the cases stay the same
            value = answer(*copies)
            value = list(value) if isinstance(value, Iterator) else value
    except (Exception, SystemExit) as error:  # a learner's code may raise anything, and "run all" must go on
        message = (str(error).strip() or "without a message").splitlines()[0]
        return Given(None, described, f"it raises {type(error).__name__}: {message}")
    for name, before, after in zip(names, inputs, copies, strict=True):
        if not compare.same(before, after):
            return Given(value, described, f"it changes its input `{name}`: work on a copy", changed_input=True)
    if value is not None:
        return Given(value, described)
    if compare.does_nothing(answer):
        return Given(..., described)
    return Given(None, described, "it returns nothing: is a `return` missing?")


# ---------------------------------------------------------------- the verdict
def _verdict(asked: Exercise, cases: list[Case]) -> str:
    if any(compare.is_stub(case.given.value) for case in cases):
        return "still to do"
    wrong = [case for case in cases if case.fault]
    if not wrong:
        return "right"
    if asked.broken and _does_the_same(asked.grader, cases, asked.broken[1]):
        return f"still to do, it is as broken as it was: {asked.broken[0]}"
    for case in wrong:
        if case.given.changed_input:
            return f"not yet, {case.fault}"
    for sentence, mistake in asked.wrong_answers():
        if _does_the_same(asked.grader, cases, mistake):
            return f"not yet, {sentence}"
    first = wrong[0]
    return f"not yet, for {first.given.inputs} {first.fault}" if first.given.inputs else f"not yet, {first.fault}"


def _does_the_same(grader: Grader, cases: list[Case], other: Any) -> bool:
    """Does the answer give what the other one gives in every case, down to the words of what it raises?"""
    for ours, theirs in zip(cases, _results(grader, other), strict=True):
        if ours.given.fault != theirs.given.fault:
            return False
        if not ours.given.fault and ours.difference_from(theirs.given.value):
            return False
    return True
