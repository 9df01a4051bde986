"""The exercises of the notebooks: `check("3a", my_attention)` says whether an answer is right, and if not, why.

The graders are in helpers/graders, one module per notebook. A grader calls the answer with inputs of its choice and
yields pairs (given, right), or (given, right, tolerance). Where the answer is a value, it yields the answer itself.
"""

import copy
import functools
import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from helpers.grading.graders import compare
from helpers.grading.graders.limit import TooLongError, at_most
from helpers.support.errors import ConfigError

Answer = Callable[..., Any]
Pairs = Iterator[tuple[Any, ...]]
Grader = Callable[[Answer], Pairs]
SECONDS = 5.0  # for all cases of one answer together


@dataclass(frozen=True)
class Exercise:
    """A grader, and what learners get wrong: a sentence, and the wrong answer that it describes (or a list of such)."""

    grader: Grader
    mistakes: dict[str, Any] = field(default_factory=dict)
    broken: tuple[str, Answer] | None = None  # for a repair: the symptom, and the function that the notebook shows


@dataclass(frozen=True)
class Given:
    """What an answer gave in one case. A problem is its own fault, whatever would be right."""

    value: Any
    case: str = ""
    problem: str = ""
    changed_input: bool = False


Result = tuple[Given, Any, float | None]  # what was given, what is right, and how far off it may be
_EXERCISES: dict[str, Exercise] = {}


def exercise(label: str, mistakes: dict[str, Any] | None = None, **more: Any) -> Callable[[Grader], Grader]:
    """Register a grader under its label, with mistakes by name, and `broken=` for a repair (see Exercise)."""

    def register(grader: Grader) -> Grader:
        _EXERCISES[label] = Exercise(grader, mistakes or {}, **more)
        return grader

    return register


@functools.cache
def exercises() -> dict[str, Exercise]:
    """Every exercise by its label, in the order of the notebooks."""
    from helpers.grading import graders

    for name in sorted(module.name for module in pkgutil.iter_modules(graders.__path__)):
        importlib.import_module(f"{graders.__name__}.{name}")  # now and not above: it imports this module
    return _EXERCISES


def check(label: str, answer: Any) -> None:
    """Print one line: still to do (the answer is `...` or does nothing), not yet, and why, or right.

    The answer gets copies of its inputs, and five seconds for all cases together; the global random generator stays as
    it was. A known mistake is called by its name. ConfigError for a label that no exercise has.
    """
    if label not in exercises():
        raise ConfigError(f"there is no exercise {label!r}: choose one of {', '.join(exercises())}")
    asked = exercises()[label]
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("default")  # an answer's warnings are shown, and are no errors
        try:
            with at_most(SECONDS):
                results = list(_results(asked.grader, answer))
            verdict = _verdict(asked, results)
        except TooLongError:
            verdict = f"not yet, it is still at work after {SECONDS:g} seconds: is there a loop without an end?"
    print(f"{label}: {verdict}")


def _results(grader: Grader, answer: Any) -> Iterator[Result]:
    """What the answer gives, case by case, for the same inputs whatever the answer."""
    value = Given(answer, problem="it should be a value, and is a function" if callable(answer) else "")
    torch.default_generator.manual_seed(0)  # and no GPU's: only this generator is put back
    for given, right, *tolerance in grader(functools.partial(_ask, answer)):
        yield given if isinstance(given, Given) else value, right, tolerance[0] if tolerance else None


def _ask(answer: Any, *inputs: Any) -> Given:
    """What the answer gives for copies of these inputs."""
    if not callable(answer):
        return Given(answer, problem=f"it should be a function, and is {compare.kind(answer)}")
    names, copies = compare.names(answer, len(inputs)), copy.deepcopy(inputs)
    case = ", ".join(map(compare.in_short, names, inputs))
    try:
        with torch.random.fork_rng(devices=[]):  # it may draw numbers: those of the cases stay the same
            value = answer(*copies)
            value = list(value) if isinstance(value, Iterator) else value
    except (Exception, SystemExit) as error:  # a learner's code may raise anything, and "run all" must go on
        message = (str(error).strip() or "without a message").splitlines()[0]
        return Given(None, case, f"it raises {type(error).__name__}: {message}")
    changed = [name for name, *pair in zip(names, inputs, copies, strict=True) if not compare.same(*pair)]
    if changed:
        return Given(value, case, f"it changes its input `{changed[0]}`: work on a copy", changed_input=True)
    if value is None and compare.does_nothing(answer):
        value = ...
    return Given(value, case, "it returns nothing: is a `return` missing?" if value is None else "")


def _verdict(asked: Exercise, results: list[Result]) -> str:
    if any(compare.is_stub(given.value) for given, *_ in results):
        return "still to do"
    faults = [(given, given.problem or _difference(given, *rest)) for given, *rest in results]
    faults = [(given, fault) for given, fault in faults if fault]
    if not faults:
        return "right"
    given, fault = next((pair for pair in faults if pair[0].changed_input), faults[0])
    if asked.broken and _does_the_same(asked, results, asked.broken[1]):
        return f"still to do, it is as broken as it was: {asked.broken[0]}"
    for sentence, wrong in asked.mistakes.items():
        for one in wrong if isinstance(wrong, list) else [wrong]:
            if not given.changed_input and _does_the_same(asked, results, one):
                return f"not yet, {sentence}"
    return f"not yet, for {given.case} {fault}" if given.case and not given.changed_input else f"not yet, {fault}"


def _difference(given: Given, right: Any, tolerance: float | None) -> str:
    return compare.difference(given.value, right, tolerance, tell=bool(given.case))  # a prediction is not told


def _does_the_same(asked: Exercise, results: list[Result], wrong: Any) -> bool:
    """Does the answer give what the wrong one gives in every case, down to the words of what it raises?"""
    return all(
        ours.problem == theirs.problem and (bool(ours.problem) or not _difference(ours, theirs.value, tolerance))
        for (ours, _, tolerance), (theirs, *_) in zip(results, _results(asked.grader, wrong), strict=True)
    )
