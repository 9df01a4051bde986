"""Every solution is right, every stub is still to do, and what learners get wrong is refused."""

import contextlib
import importlib.util
import math
import re
import signal
import sys
import threading
import time
import types
import warnings
from functools import partial
from pathlib import Path

import nbformat
import pytest
import torch

from helpers import exercises
from helpers.errors import ConfigError

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
LABELS = list(exercises.exercises())


def module_at(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked_in(paths) -> dict[str, tuple[str, str]]:
    """Label: the notebook's number and the name of the answer, as the notebooks ask for it."""
    return {
        label: (re.search(r"\d\d", path.name)[0], name)
        for path in sorted(paths)
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
        for label, name in re.findall(r'^exercises\.check\("(\w+)", (\w+)\)$', cell.source, re.M)
    }


ASKED = asked_in(NOTEBOOKS.glob("*.ipynb"))
SOLVED = asked_in(NOTEBOOKS.glob("solutions/*.ipynb"))


def solution(label: str):
    number, name = (ASKED | SOLVED)[label]
    return getattr(module_at(NOTEBOOKS / "solutions" / f"solutions_{number}.py"), name)


MISTAKES = {
    id(one)
    for exercise in exercises.exercises().values()
    for wrong in exercise.mistakes.values()
    for one in (wrong if isinstance(wrong, list) else [wrong])
}
GIVEN = {}  # by a mistake that answers are compared with: the same each time, so it is found out once


@pytest.fixture
def verdict(capsys, monkeypatch):
    """What `check` prints, after the label."""
    results = exercises._results

    def checked(label, answer) -> str:
        def given(grader, other):
            if other is answer or id(other) not in MISTAKES:
                return results(grader, other)
            if (label, id(other)) not in GIVEN:
                GIVEN[label, id(other)] = list(results(grader, other))
            return GIVEN[label, id(other)]

        monkeypatch.setattr(exercises, "_results", given)
        assert exercises.check(label, answer) is None
        line = capsys.readouterr().out
        assert line.startswith(f"{label}: ") and line.count("\n") == 1
        return line.removeprefix(f"{label}: ").rstrip()

    return checked


def test_the_notebooks_ask_every_exercise_once_and_under_its_number():
    assert list(ASKED) == LABELS and len(ASKED) == 67
    assert all(int(label[:-1]) == int(number) for label, (number, _) in ASKED.items())


def test_the_solutions_are_notebooks_too_and_answer_what_is_asked():
    assert ASKED == SOLVED


def test_the_notebooks_are_stored_with_every_exercise_still_to_do():
    """A repair's broken version too, which the notebooks must show as the grader knows it."""
    for path in NOTEBOOKS.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            for label in re.findall(r'^exercises\.check\("(\w+)"', cell.source, re.M):
                assert cell.outputs[0].text.startswith(f"{label}: still to do"), label


@pytest.mark.parametrize("number", sorted({number for number, _ in ASKED.values()}))
def test_a_notebook_of_solutions_shows_the_solutions_and_how_they_are_judged(number):
    path = NOTEBOOKS / "solutions" / f"solutions_{number}.py"
    notebook, source = nbformat.read(path.with_suffix(".ipynb"), as_version=4), path.read_text(encoding="utf-8")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert all(set(cell.metadata) <= {"tags"} for cell in notebook.cells)
    for label, (_, name) in SOLVED.items():
        found = [cell for cell in code if f'exercises.check("{label}", {name})' in cell.source]
        if int(label[:-1]) == int(number):
            (cell,) = found
            assert cell.source.rsplit("exercises.check", 1)[0].strip() in source
            assert [output.text for output in cell.outputs] == [f"{label}: right\n"]


@pytest.mark.parametrize("label", LABELS)
def test_solutions_are_right_and_stubs_still_to_do(label, verdict):
    answer = solution(label)
    assert verdict(label, answer) == "right"
    assert verdict(label, ...) == verdict(label, (..., ...)) == "still to do"
    if callable(answer):
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
    with pytest.raises(ConfigError, match=r"there is no exercise '3z': choose one of 0a, 0b, .*, 12e$"):
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


# ---------------------------------------------------------------- inputs and the generator
def test_an_answer_that_changes_its_input_is_told_so_even_when_its_result_is_right(verdict):
    assert verdict("4a", lambda x: x.zero_()) == "not yet, it changes its input `x`: work on a copy"
    late = lambda x: torch.zeros_like(x) if len(x) == 6 else x.zero_()  # noqa: E731
    assert verdict("4a", late) == "not yet, it changes its input `x`: work on a copy"
    right = solution("0a")
    assert "changes its input `dictionary`" in verdict(
        "0a", lambda words, dictionary: (right(words, dictionary), dictionary.clear())[0]
    )
    assert "changes its input `words`" in verdict(
        "0a", lambda words, dictionary: (right(words, dictionary), words.clear())[0]
    )
    assert "changes its input `input 1`" in verdict("2a", lambda *inputs: inputs[0].mul_(1.5).softmax(-1))
    assert "changes its input `model`" in verdict(
        "8c", lambda model, prompt, n: torch.nn.init.zeros_(model.head.weight)
    )


def test_what_an_answer_does_to_its_input_does_not_reach_the_cases_that_follow(verdict):
    seen = []
    verdict(
        "0a",
        lambda words, dictionary: (seen.append((list(words), dict(dictionary))), words.clear(), dictionary.clear()),
    )
    clean = []
    verdict("0a", lambda words, dictionary: clean.append((words, dictionary)))
    assert seen == clean and len(seen) > 5


@pytest.mark.slow
def test_no_answer_can_touch_the_global_generator(verdict):
    torch.manual_seed(7)
    state = torch.get_rng_state()
    for label in ("8c", "2b", "4c"):
        for answer in (
            solution(label),
            lambda *_: torch.manual_seed(1),
            lambda *_: 1 / 0,
            lambda *_: ...,
            lambda *_: torch.randn(3),
        ):
            verdict(label, answer)
            assert torch.equal(torch.get_rng_state(), state)


def test_the_inputs_are_the_same_ones_every_time_whatever_the_answer_draws():
    def seen(drawn: int) -> list[torch.Tensor]:
        inputs = []
        torch.manual_seed(drawn)
        exercises.check("2b", lambda *x: inputs.append(torch.cat([*map(torch.flatten, x), torch.randn(drawn)])))
        return [x[: len(x) - drawn] for x in inputs]

    assert len(seen(0)) > 3 and all(map(torch.equal, seen(0), seen(7)))


# ---------------------------------------------------------------- an answer without an end
def endless(weights):
    while True:
        with contextlib.suppress(Exception):  # must not swallow the end
            time.sleep(0.01)


def stubborn(weights):
    try:
        while True:
            time.sleep(0.01)
    except:  # noqa: E722  it swallows everything, once
        pass
    while True:
        time.sleep(0.01)


def test_an_endless_answer_is_stopped(verdict, monkeypatch):
    monkeypatch.setattr(exercises, "SECONDS", 0.2)
    start = time.monotonic()
    assert verdict("0d", endless) == ("not yet, it is still at work after 0.2 seconds: is there a loop without an end?")
    assert time.monotonic() - start < 4
    if hasattr(signal, "SIGALRM"):
        assert "still at work" in verdict("0d", stubborn)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="only POSIX has this signal")
def test_the_alarm_is_as_it_was_afterwards(verdict, monkeypatch):
    monkeypatch.setattr(exercises, "SECONDS", 0.1)
    rung = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        for answer in (solution("0d"), endless, lambda _: 1 / 0):
            verdict("0d", answer)
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        signal.raise_signal(signal.SIGALRM)
        assert rung == [1]
    finally:
        signal.signal(signal.SIGALRM, handler)


def test_an_endless_answer_is_stopped_in_another_thread_too(monkeypatch, capsys):
    monkeypatch.setattr(exercises, "SECONDS", 0.2)
    traced = []

    def others():
        exercises.check("0d", endless)
        traced.append(sys.gettrace())
        monkeypatch.setattr(exercises, "SECONDS", 60)  # a trace makes Python slow
        exercises.check("0d", solution("0d"))

    before = threading.gettrace()
    thread = threading.Thread(target=others, daemon=True)
    thread.start()
    thread.join(60)
    first, second = capsys.readouterr().out.splitlines()
    assert "still at work after 0.2 seconds" in first and second == "0d: right" and traced == [before]


def test_an_interrupt_from_the_keyboard_is_not_caught(monkeypatch):
    def interrupted(weights):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        exercises.check("0d", interrupted)
    if hasattr(signal, "SIGALRM"):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


# ---------------------------------------------------------------- what may go on beside
def test_prints_warnings_and_exits_are_no_faults(capsys):
    def noisy(weights):
        print("working")
        warnings.warn("careful", stacklevel=1)
        return weights.argmax(-1)

    with pytest.warns(UserWarning, match="careful"):
        exercises.check("0d", noisy)
    assert capsys.readouterr().out.splitlines()[-1] == "0d: right"
    exercises.check("0d", lambda weights: sys.exit(3))
    assert capsys.readouterr().out == "0d: not yet, for weights of shape (3, 6) it raises SystemExit: 3\n"


def test_shapes_are_compared_and_not_counts(verdict):
    assert verdict("1a", lambda q, k: (q @ k.T).flatten()).endswith("it has the shape (8,) and should have (2, 4)")


def test_two_things_asked_for_are_two_things(verdict):
    both = solution("3a")
    assert verdict("3a", lambda *x: list(both(*x))) == "right"
    for answer in (lambda *x: (*both(*x), 1), lambda *x: both(*x)[:1]):
        assert verdict("3a", answer).endswith("it should return 2 things in a tuple")
    assert "it gives '?' where 'can' is right" in verdict("0a", lambda words, _: ["?"] * len(words))


def test_a_prediction_is_refused_without_being_told(verdict):
    for label in ("0b", "1d", "2d", "3d", "4d", "5d", "6f", "7d", "8f", "9e", "10a", "12a"):
        right = str(solution(label))
        for wrong in (17, (17, 18), (17, 18, 19), "badc", "17"):
            assert right not in verdict(label, wrong) and "where" not in verdict(label, wrong)


def test_what_is_no_number_is_said_to_be_none_and_nan_is_wrong(verdict):
    assert "it returns a str, which is no number and no tensor" in verdict("8a", lambda _: "text")
    assert "it returns a set, which is no number and no tensor" in verdict("8a", lambda _: {1})
    assert "it gives nan where 1 is right" in verdict("8a", lambda _: float("nan"))


def test_rounding_is_no_fault_and_more_is(verdict):
    assert verdict("8a", lambda loss: math.exp(loss) + 1.8e-5) == "right"
    assert "it gives 1.000022 where 1 is right" in verdict("8a", lambda loss: math.exp(loss) + 2.2e-5)


# ---------------------------------------------------------------- what learners get wrong, and unusual right answers
ANSWERS = [module_at(path) for path in sorted((Path(__file__).parent / "answers").glob("*.py"))]


def table(name: str) -> dict[str, list]:
    return {label: answers for module in ANSWERS for label, answers in getattr(module, name).items()}


@pytest.mark.slow
@pytest.mark.parametrize(("label", "number"), [(k, i) for k, rows in table("WRONG").items() for i in range(len(rows))])
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
    assert list(table("WRONG")) == list(table("RIGHT")) == LABELS


@pytest.mark.slow
@pytest.mark.parametrize("label", LABELS)
def test_every_mistake_is_refused_by_its_own_sentence(label, verdict):
    for sentence, wrong in exercises.exercises()[label].mistakes.items():
        for one in wrong if isinstance(wrong, list) else [wrong]:
            if isinstance(one, tuple):
                one = tuple(7 if x is ... else x for x in one)
            assert verdict(label, one) == f"not yet, {sentence}"
