"""Every solution is right, every stub is still to do, and what learners get wrong is refused."""

import re

import nbformat
import pytest
from exercise_answers import ANSWERS, ASKED, LABELS, NOTEBOOKS, module_at, solution

from exercises import judge
from exercises.attending import ATTENTION, CAUSAL, HEADS
from exercises.n05 import DROPS

EXERCISES = judge.every()
TABLES = [module_at(path) for path in sorted(ANSWERS.glob("*.py"))]
WRONG = {label: rows for table in TABLES for label, rows in table.WRONG.items()}
RIGHT = {label: rows for table in TABLES for label, rows in table.RIGHT.items()}
# Where a sentence that several exercises share must be told.
HOMES = (
    dict.fromkeys(HEADS, "6e")
    # Who repairs one of 6e's two faults is told so; these are among the rows of 6g.
    | dict.fromkeys([s for s in HEADS if "divided by √C" in s or "are joined by view alone" in s], "")
    | dict.fromkeys(ATTENTION, "3a")
    | dict.fromkeys(CAUSAL, "5c")
    | dict.fromkeys(DROPS, "5c")
)
pytestmark = pytest.mark.usefixtures("unchecked")  # it asks hundreds of wrong answers


def test_the_notebooks_ask_every_exercise_once_and_under_its_number():
    assert sorted(ASKED, key=LABELS.index) == LABELS
    assert all(int(label[:-1]) == int(number) for label, (number, _) in ASKED.items())


def test_the_notebooks_are_stored_with_every_exercise_still_to_do():
    """A repair's broken version too, which the notebooks must show as the judge knows it."""
    for path in NOTEBOOKS.rglob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            for label in re.findall(r'^exercises\.check\("(\w+)"', cell.source, re.M):
                stored = "".join(output.get("text", "") for output in cell.outputs)
                assert stored.startswith(f"{label}: still to do"), f"{label}: store {path.stem}"


@pytest.mark.parametrize("label", LABELS)
def test_solutions_are_right_and_stubs_still_to_do(label, verdict):
    answer, kind = solution(label), EXERCISES[label].kind
    assert verdict(label, answer) == "right"
    assert verdict(label, ...) == verdict(label, (..., ...)) == "still to do"
    if kind == "a value":
        assert verdict(label, lambda: answer).startswith("not yet, it should be a value, and is a")
        return
    assert verdict(label, 3.5) == f"not yet, it should be {kind}, and is a float"
    if EXERCISES[label].cases:
        assert verdict(label, lambda *_: None) == verdict(label, lambda *_: ...) == "still to do"
        assert "it raises ZeroDivisionError: division by" in verdict(label, lambda *_: 1 / 0)
        assert verdict(label, lambda *_: "text").startswith("not yet, ")


@pytest.mark.parametrize("label", [label for label in LABELS if EXERCISES[label].broken])
def test_a_broken_version_that_nobody_has_repaired_is_still_to_do(label, verdict):
    hint, broken = EXERCISES[label].broken
    assert verdict(label, broken) == f"still to do, it is as broken as it was: {hint}"


@pytest.mark.slow
@pytest.mark.parametrize("label", LABELS)
def test_every_mistake_is_told_in_its_own_sentence(label, verdict):
    """What exercises on attention share may be no mistake in one of them, and is told at home."""
    told = dict(EXERCISES[label].wrong_answers())
    for sentence in [s for s in told if s not in HOMES] + [s for s in HOMES if HOMES[s] == label]:
        assert verdict(label, told[sentence]) == f"not yet, {sentence}"


@pytest.mark.slow
@pytest.mark.parametrize(("label", "number"), [(label, i) for label in WRONG for i in range(len(WRONG[label]))])
def test_a_wrong_answer_is_refused_in_words_that_help(label, number, verdict):
    words, answer = WRONG[label][number]
    said = verdict(label, answer)
    assert said.startswith("not yet, ") and words in said


@pytest.mark.slow
@pytest.mark.parametrize(("label", "number"), [(label, i) for label in RIGHT for i in range(len(RIGHT[label]))])
def test_a_right_answer_is_accepted_however_it_is_written(label, number, verdict):
    assert verdict(label, RIGHT[label][number]) == "right"


def test_every_exercise_has_its_rows():
    assert WRONG.keys() == RIGHT.keys() == set(LABELS)
