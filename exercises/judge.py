"""The judge: it asks an answer, compares, and says what went wrong, in one sentence where one fits.

A wrong answer is explained by the first of these that fits (`_explained`): it reads a tensor of the
notebook, it is as broken as it was, it changes its input; a sentence that the teacher wrote; a
relation between what it gives and what is right; and at last the smallest input for which it fails,
with a property that doesn't hold there. For what is built, properties are all there is.
"""

import dis
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from exercises import compare, relations
from exercises.inputs import Case, cases_of
from exercises.limits import TooLongError, harmless
from helpers.errors import ConfigError
from helpers.gpt import one_thread

Answer = Callable[..., Any]
SECONDS = 5.0  # for all that an answer does
# The instructions of a function that does nothing.
NOTHING = {
    *("RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"),
    *("MAKE_CELL", "COPY_FREE_VARS"),
}


class WrongError(Exception):
    """Its message is the sentence that a learner reads."""


class BrokenError(WrongError):
    """What should be repaired is as broken as it was; the message is a hint."""


class Judgement(NamedTuple):
    word: str  # right, still to do, or not yet
    why: str = ""

    def __str__(self) -> str:
        return f"{self.word}, {self.why}" if self.why else self.word


RIGHT, STILL_TO_DO = Judgement("right"), Judgement("still to do")


def not_yet(why: str) -> Judgement:
    return Judgement("not yet", why)


def as_broken(hint: str) -> Judgement:
    return Judgement("still to do", f"it is as broken as it was: {hint}")


# ---------------------------------------------------------------- exercises
@dataclass
class Exercise:
    """A function is asked for, which does what the reference does. A decorated one adds properties.

    inputs: their names and sizes, as inputs.py describes them; or a function that gives all of
        them, the smallest first, where they are no tables of numbers.
    prepare: makes the inputs that are handed over of those in the line.
    gives: what the parts of a tuple are called.
    scales: also tested with the first input this many times as large.
    mistakes: a sentence for each wrong answer, which is a function or options of the reference.
    broken: of a repair, a hint, and the function that the notebook shows.
    hints: of several values, a sentence for each, told where it is the first that is wrong.
    """

    label: str
    reference: Any = None
    inputs: str | Callable[[], Iterable[tuple[Any, ...]]] = ""
    _: KW_ONLY
    kind: str = "a function"  # or "a class", "a value"
    gives: str = ""
    prepare: Callable[..., dict[str, Any]] | None = None
    scales: tuple[float, ...] = ()
    mistakes: dict[str, Any] = field(default_factory=dict)
    broken: tuple[str, Answer] | None = None
    hints: tuple[str, ...] = ()
    tolerance: float = compare.TOLERANCE
    properties: Callable[[Any], None] | None = None

    def __post_init__(self) -> None:
        EXERCISES[self.label] = self

    def __call__(self, properties: Callable[[Any], None]) -> Callable[[Any], None]:
        self.properties = properties
        return properties

    @functools.cached_property
    def cases(self) -> list[Case]:
        if not self.inputs:
            return []
        with one_thread():
            return cases_of(self.inputs, self.reference, self.prepare, self.scales)

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.gives.split(", ")) if self.gives else ()

    def wrong_answers(self) -> Iterator[tuple[str, Any]]:
        for sentence, wrong in self.mistakes.items():
            with_options = isinstance(wrong, dict)
            yield sentence, functools.partial(self.reference, **wrong) if with_options else wrong


EXERCISES: dict[str, Exercise] = {}
exercise = Exercise


def prediction(label: str, right: Any, tolerance: float = 1e-3, **more: Any) -> Exercise:
    """A value is asked for: a number, a word, or several. `more`: the mistakes and hints of Exercise."""
    return Exercise(label, lambda: right, lambda: [()], kind="a value", tolerance=tolerance, **more)


def built(label: str, kind: str = "a class") -> Exercise:
    """What may be built in many ways is judged by the properties in the decorated function alone.

    Where several things are asked for, `kind` says so ("a class and a function"), and the answer is
    a tuple of them.
    """
    return Exercise(label, kind=kind)


def find(label: str) -> Exercise:
    """The exercise of this label. A lesson loads those of its own notebook alone."""
    number = str(label)[:-1].zfill(2)
    if (Path(__file__).parent / f"n{number}.py").exists():
        importlib.import_module(f"exercises.n{number}")
    if label not in EXERCISES:
        raise ConfigError(f"there is no exercise {label!r}: choose one of {', '.join(every())}")
    return EXERCISES[label]


def every() -> dict[str, Exercise]:
    """All exercises by their labels, in the order of the notebooks."""
    for file in sorted(Path(__file__).parent.glob("n[0-9][0-9].py")):
        importlib.import_module(f"exercises.{file.stem}")
    return dict(sorted(EXERCISES.items(), key=lambda item: (int(item[0][:-1]), item[0])))


# ---------------------------------------------------------------- asking
@dataclass(frozen=True)
class Given:
    """What an answer gave for one case."""

    value: Any = None
    raised: str = ""
    changed: str = ""  # the name of an input that it changed

    @property
    def fails(self) -> bool:
        return bool(self.raised or self.changed)


def ask(answer: Answer, case: Case) -> Given:
    """What the answer gives for copies of the inputs, whatever it does."""
    copies = case.copies()
    try:
        with torch.random.fork_rng(devices=[]):  # it may draw: the next case finds the same numbers
            torch.manual_seed(0)
            value = compare.kept(answer(*copies))
    except (TooLongError, KeyboardInterrupt):
        raise
    except BaseException as error:  # an answer may raise anything
        return Given(raised=raised(error))
    for name, before, after in zip(names(answer, case), case.inputs, copies, strict=True):
        if not compare.unchanged(before, after):
            return Given(value, changed=name)
    return Given(value)


@dataclass(frozen=True)
class Asked:
    """An answer with its cases, for properties."""

    answer: Answer
    cases: list[Case]

    def __call__(self, *inputs: Any) -> Any:
        result = ask(self.answer, Case(("",) * len(inputs), inputs, None))
        if result.raised:
            raise WrongError(result.raised)
        if result.changed:
            raise WrongError("it changes an input: work on a copy")
        return result.value

    def results(self) -> Iterator[tuple[Case, Any]]:
        """What it gives for each case."""
        for case in self.cases:
            yield case, self(*case.copies())


def raised(error: BaseException) -> str:
    message = (str(error).strip() or "without a message").splitlines()[0]
    return f"it raises {type(error).__name__}: {message}"


def names(answer: Answer, case: Case) -> tuple[str, ...]:
    """What the answer calls its inputs."""
    try:
        own = tuple(inspect.signature(answer).parameters)
    except (TypeError, ValueError):
        own = ()
    return own if len(own) == len(case.names) else case.names


def described(answer: Answer, case: Case) -> str:
    pairs = zip(names(answer, case), case.inputs, strict=True)
    return ", ".join(f"{name} = {compare.shown(x)}" for name, x in pairs)


def is_stub(value: Any) -> bool:
    return value is ... or (isinstance(value, (list, tuple)) and any(map(is_stub, value)))


def does_nothing(answer: Any) -> bool:
    """Is its body, or that of a layer's `forward`, nothing but `...`, `pass` or a docstring?"""
    if isinstance(answer, (tuple, list)):
        return any(map(does_nothing, answer))
    if isinstance(answer, type):
        own = [value for name, value in vars(answer).items() if not name.startswith("__")]
        forward = getattr(answer, "forward", nn.Module.forward)
        stub = bool(own) and all(value is ... for value in own)
        return stub or forward is nn.Module.forward or does_nothing(forward)
    code = getattr(inspect.unwrap(answer) if callable(answer) else None, "__code__", None)
    return code is not None and {step.opname for step in dis.get_instructions(code)} <= NOTHING


# ---------------------------------------------------------------- the judgement
def said(label: str, answer: Any, seconds: float | None = None) -> Judgement:
    """What is to be said of an answer; ConfigError for a label that no exercise has."""
    exercise = find(label)
    # First what is ours, so that it takes none of the answer's time: the cases, and the first
    # gradient and the first optimizer of a process, which are slow.
    x = torch.ones(1, requires_grad=True)
    torch.autograd.grad(x, x, x)
    if not exercise.cases:
        torch.optim.SGD([x])
    seconds = seconds or SECONDS
    try:
        with harmless(seconds):
            return judged(exercise, answer)
    except Exception as error:  # what it returns may raise, too, when it is looked at
        return not_yet(raised(error))
    except TooLongError:
        why = f"it is still at work after {seconds:g} seconds: is there a loop without an end?"
        return not_yet(why)


def judged(exercise: Exercise, answer: Any) -> Judgement:
    if is_stub(answer):
        return STILL_TO_DO
    if exercise.kind == "a value":
        return _judged_value(exercise, answer)
    if not _is_of_its_kind(exercise, answer):
        return not_yet(f"it should be {exercise.kind}, and is {compare.kind(answer)}")
    if not exercise.cases:
        return STILL_TO_DO if does_nothing(answer) else _tried(exercise, answer) or RIGHT
    results = [ask(answer, case) for case in exercise.cases]
    if any(is_stub(result.value) for result in results):
        return STILL_TO_DO
    if all(result.value is None and not result.fails for result in results):
        nothing = not_yet("it returns nothing: is a `return` missing?")
        return STILL_TO_DO if does_nothing(answer) else nothing
    wrong = [
        place
        for place, (case, result) in enumerate(zip(exercise.cases, results, strict=True))
        if result.fails or not compare.same(result.value, case.right, exercise.tolerance)
    ]
    if not wrong:
        return _tried(exercise, answer) or RIGHT
    return _explained(exercise, answer, results, wrong)


def _is_of_its_kind(exercise: Exercise, answer: Any) -> bool:
    count = len(re.findall(r"\b(?:class|function)\b", exercise.kind))
    parts = answer if isinstance(answer, (tuple, list)) else (answer,)
    return len(parts) == count and all(map(callable, parts))


def _judged_value(exercise: Exercise, answer: Any) -> Judgement:
    right = compare.as_word(exercise.cases[0].right)
    if callable(answer):
        return not_yet(f"it should be a value, and is {compare.kind(answer)}")
    if isinstance(answer, str) and not isinstance(right, str):
        return not_yet("it should be a number, and is a string")
    value = compare.as_word(answer) if isinstance(right, str) else answer
    if compare.same(value, right, exercise.tolerance):
        return RIGHT
    for sentence, mistake in exercise.wrong_answers():
        if compare.same(value, compare.as_word(mistake), exercise.tolerance):
            return not_yet(sentence)
    if why := relations.of_values(value, right, exercise.tolerance):
        return not_yet(why)
    if isinstance(right, tuple):
        parts = compare.parts_of(value) or ()
        if len(parts) != len(right):
            return not_yet(f"it should be {len(right)} things in a tuple")
        place = compare.first_wrong(parts, right, exercise.tolerance)
        return not_yet(f"number {place + 1}: {exercise.hints[place]}")
    return not_yet(f"{compare.shown(answer)} is not right")


def _tried(exercise: Exercise, answer: Any, cases: list[Case] | None = None) -> Judgement | None:
    """A property that doesn't hold, for all cases or only for some."""
    if not exercise.properties:
        return None
    try:
        exercise.properties(Asked(answer, cases or exercise.cases) if exercise.cases else answer)
    except BrokenError as error:
        return as_broken(str(error))
    except WrongError as error:
        return not_yet(str(error))
    except (Exception, SystemExit) as error:
        return not_yet(raised(error))
    return None


def _explained(exercise: Exercise, answer: Answer, results: list[Given], wrong: list[int]) -> Judgement:
    """Why an answer is wrong."""
    if name := _tensor_of_the_notebook(answer):
        inputs = ", ".join(names(answer, exercise.cases[0]))
        return not_yet(f"it reads the notebook's `{name}`: were its own inputs meant ({inputs})?")
    pairs = [(case, result.value) for case, result in zip(exercise.cases, results, strict=True) if not result.raised]
    gives_wrong = [exercise.cases[place] for place in wrong if not results[place].raised]
    if not all(case.batch for case in gives_wrong):  # wrong for a table already: first things first
        pairs = [(case, value) for case, value in pairs if not case.batch]
    if gives_wrong and exercise.broken and _does_the_same(exercise.broken[1], pairs, exercise.tolerance):
        return as_broken(exercise.broken[0])
    for result in results:
        if result.changed:
            return not_yet(f"it changes its input `{result.changed}`: work on a copy")
    if gives_wrong:
        for sentence, mistake in exercise.wrong_answers():
            if _does_the_same(mistake, pairs, exercise.tolerance):
                return not_yet(sentence)
        arguments = names(answer, exercise.cases[0])
        if why := relations.found(pairs, exercise.reference, arguments, exercise.parts, exercise.tolerance):
            return not_yet(why)
    return _example(exercise, answer, results, wrong, pairs)


def _tensor_of_the_notebook(answer: Answer) -> str:
    """The name of a tensor that a function finds outside, where `key` is written for `keys`, say."""
    function = inspect.unwrap(answer)
    outside = getattr(function, "__globals__", {})
    loads = dis.get_instructions(function) if outside else ()
    used = [load.argval for load in loads if load.opname in ("LOAD_GLOBAL", "LOAD_NAME")]  # no attributes
    return next((name for name in used if isinstance(outside.get(name), torch.Tensor)), "")


def _does_the_same(mistake: Answer, pairs: relations.Pairs, tolerance: float) -> bool:
    """Does a wrong answer give the same, wherever this one gives something? The largest case first."""
    for case, value in reversed(pairs):
        result = ask(mistake, case)
        if result.raised or not compare.same(value, result.value, tolerance):
            return False
    return True


def _example(
    exercise: Exercise, answer: Answer, results: list[Given], wrong: list[int], pairs: relations.Pairs
) -> Judgement:
    """The smallest case that is wrong, and what is known about where it is."""
    first, result = exercise.cases[wrong[0]], results[wrong[0]]
    when = relations.only_right_where(exercise.cases, wrong)
    if result.raised:
        return not_yet(f"{when}for {described(answer, first)} {result.raised}")
    difference = compare.difference(result.value, first.right, exercise.parts, exercise.tolerance)
    if difference.endswith("things in a tuple"):
        return not_yet(difference)
    example = f"for {described(answer, first)} {difference}"
    if when:
        return not_yet(f"{when}{example}")
    if shape := relations.other_shape(pairs):
        return not_yet(f"{shape}{example}")
    if verdict := _tried(exercise, answer, [first]):  # what is said of it is true of this example
        return not_yet(f"{verdict.why}; {example}")
    return not_yet(example)
