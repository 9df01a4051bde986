"""Every solution is right, every stub is still to do, and what learners get wrong is refused."""

import re
import types
from functools import cache, partial
from pathlib import Path

import nbformat
import pytest
import torch
from exercise_answers import ASKED, LABELS, NOTEBOOKS, module_at, solution

import exercises
from exercises.judge import Built
from helpers.errors import ConfigError

BUILT = {label: asked for label, asked in exercises.exercises().items() if isinstance(asked, Built)}
pytestmark = pytest.mark.usefixtures("unchecked")  # it asks thousands of wrong answers


def test_the_notebooks_ask_every_exercise_once_and_under_its_number():
    assert list(ASKED) == LABELS and len(ASKED) == 95
    assert all(int(label[:-1]) == int(number) for label, (number, _) in ASKED.items())


def test_the_notebooks_are_stored_with_every_exercise_still_to_do():
    """A repair's broken version too, which the notebooks must show as the grader knows it."""
    for path in NOTEBOOKS.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            for label in re.findall(r'^exercises\.check\("(\w+)"', cell.source, re.M):
                assert cell.outputs[0].text.startswith(f"{label}: still to do"), label


@pytest.mark.parametrize("label", LABELS)
def test_solutions_are_right_and_stubs_still_to_do(label, verdict):
    answer = solution(label)
    assert verdict(label, answer) == "right"
    assert verdict(label, ...) == verdict(label, (..., ...)) == "still to do"
    if label in BUILT:
        kind = BUILT[label].kind
        assert verdict(label, 3.5) == f"not yet, it should be {kind}, and is a float"
        assert verdict(label, lambda *_: None) == "still to do"
    elif callable(answer):
        assert verdict(label, lambda *_: ...) == verdict(label, lambda *_: None) == "still to do"
        assert re.match(
            "not yet, for .+ it raises ZeroDivisionError: division by zero", verdict(label, lambda *_: 1 / 0)
        )
        assert re.match("not yet, .+", verdict(label, lambda *_: "text"))
        assert verdict(label, 3.5).startswith("not yet, it should be a function, and is a float")
    else:
        assert verdict(label, lambda: answer) == "not yet, it should be a value, and is a function"
        assert verdict(label, {1}).startswith("not yet, ")


def test_an_unknown_label_gets_the_labels_there_are():
    with pytest.raises(ConfigError, match=r"there is no exercise '3z': choose one of 0a, 0b, .*, 14e$"):
        exercises.check("3z", lambda: None)


# ---------------------------------------------------------------- stubs
def test_what_does_nothing_is_still_to_do_and_what_forgot_its_return_is_not(verdict):
    def docstring(weights):
        """Only this."""

    def passes(weights):
        pass

    def forgot(weights):
        weights.argmax(dim=-1)

    def forgot_in_one_case(weights):
        if len(weights) > 1:
            return weights.argmax(dim=-1)

    assert (
        verdict("0d", docstring) == verdict("0d", passes) == verdict("0d", torch.no_grad()(docstring)) == "still to do"
    )
    assert verdict("0d", forgot) == ("not yet, for weights of shape (3, 6) it returns nothing: is a `return` missing?")
    assert "weights of shape (1, 4) it returns nothing" in verdict("0d", forgot_in_one_case)
    assert "it returns nothing" in verdict("0d", partial(setattr, types.SimpleNamespace(), "weights"))


@pytest.mark.parametrize("label", [label for label in LABELS if exercises.exercises()[label].broken])
def test_a_broken_version_that_nobody_has_repaired_is_still_to_do(label, verdict):
    symptom, broken = exercises.exercises()[label].broken
    assert verdict(label, broken) == f"still to do, it is as broken as it was: {symptom}"


# ---------------------------------------------------------------- what learners get wrong, and unusual right answers
ANSWERS = [module_at(path) for path in sorted((Path(__file__).parents[1] / "answers").glob("*.py"))]


@cache
def table(name: str) -> dict[str, list]:
    return {label: answers for module in ANSWERS for label, answers in getattr(module, name).items()}


def wrong_ones():
    """Of what is built, a dozen mistakes each: all of them take minutes, for a whole GPT is tried each time."""
    for label, rows in table("WRONG").items():
        for number in range(len(rows)):
            late = label in BUILT and number >= 12
            yield pytest.param(label, number, marks=pytest.mark.weekly if late else pytest.mark.slow)


@pytest.mark.parametrize(("label", "number"), list(wrong_ones()))
def test_a_wrong_answer_is_refused_by_a_sentence_that_names_the_mistake(label, number, verdict):
    words, answer = table("WRONG")[label][number]
    said = verdict(label, answer)
    assert said.startswith("not yet, ") and words in said


@pytest.mark.parametrize(("label", "number"), [(k, i) for k, rows in table("RIGHT").items() for i in range(len(rows))])
def test_a_right_answer_is_accepted_however_it_is_written(label, number, verdict):
    assert verdict(label, table("RIGHT")[label][number]) == "right"


@pytest.mark.parametrize("label", LABELS)
def test_six_wrong_answers_and_four_right_ones_are_tried(label):
    assert len({words for words, _ in table("WRONG")[label]}) >= 6 and len(table("RIGHT")[label]) >= 4
    assert set(table("WRONG")) == set(table("RIGHT")) == set(LABELS)


@pytest.mark.slow
@pytest.mark.parametrize("label", LABELS)
def test_every_mistake_is_refused_by_its_own_sentence(label, verdict):
    for sentence, wrong in exercises.exercises()[label].wrong_answers():
        assert verdict(label, something(wrong)) == f"not yet, {sentence}"


def something(wrong):
    """A mistake, with a 7 wherever it stands for anything."""
    if isinstance(wrong, tuple):
        return tuple(map(something, wrong))
    if callable(wrong):
        return lambda *inputs: 7 if (given := wrong(*inputs)) is ... else given
    return 7 if wrong is ... else wrong
