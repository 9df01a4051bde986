"""How an answer is judged, whatever it is about: its inputs, what it gives, and what it does."""

import contextlib
import signal
import sys
import time

import pytest
import torch

from exercises import judge
from exercises.inputs import cases_of
from exercises.judge import exercise, prediction
from helpers.errors import ConfigError


@pytest.fixture
def said(monkeypatch):
    """What is said of an answer to an exercise of this test's own, which doubles a table."""
    monkeypatch.setattr(judge, "EXERCISES", {})
    exercise("99a", lambda x: 2 * x, "x: T C", mistakes={"it is not doubled": lambda x: x + 0})
    prediction("99b", "cab")
    return lambda answer, label="99a", **more: str(judge.said(label, answer, **more))


def test_an_unknown_label_gets_the_labels_there_are():
    with pytest.raises(ConfigError, match=r"there is no exercise '3z': choose one of .*3a, 3b"):
        judge.said("3z", 1)


def test_ten_lines_make_an_exercise(said):
    assert said(lambda x: x * 2) == said(lambda table: table + table) == "right"
    assert said(...) == said(lambda x: ...) == said(lambda x: None) == "still to do"
    assert said(lambda x: x + 0) == "not yet, it is not doubled"
    assert said(lambda x: 2 * x.mT).startswith("not yet, rows and columns are exchanged")
    assert said(lambda x: -2 * x) == "not yet, the sign is wrong"
    assert said(lambda x: x.numel() and print()) == "not yet, it returns nothing: is a `return` missing?"
    assert said(7) == "not yet, it should be a function, and is an int"


def test_inputs_for_which_nothing_is_right_are_the_teacher_s_mistake():
    with pytest.raises(ValueError, match=r"has NaN for \{'x': .*`prepare` such inputs first"):
        cases_of("x: T C", lambda x: x.log())


def test_without_a_name_the_smallest_wrong_input_is_shown(said):
    x = cases_of("x: T C", lambda x: 2 * x)[0].inputs[0].item()
    found = said(lambda x: x + 3)
    assert found.startswith(f"not yet, for x = [[{x:g}]] it gives [[{x + 3:g}]] where [[{2 * x:g}]]")
    assert "it is right only where T = 1: " in said(lambda x: 2 * x if len(x) == 1 else 0 * x - 1)


def test_a_tensor_that_the_notebook_has_is_no_input(said):
    """`key` for `keys`, where the lesson above has a `key` of its own."""
    notebook = {"x": torch.ones(2, 2), "numbers": torch.ones(2, 2)}
    notebook["mean"] = torch.ones(2)
    exec("def mine(table): return 2 * numbers\ndef right(x): return 2 * x", notebook)
    exec("def centred(x): return x - x.mean()", notebook)
    verdict = said(notebook["mine"])
    assert verdict == "not yet, it reads the notebook's `numbers`: were its own inputs meant (table)?"
    assert said(notebook["right"]) == "right"
    assert "`mean`" not in said(notebook["centred"])  # a method is no tensor


def test_a_property_and_an_example_speak_of_one_input(said):
    """What doesn't hold of the example isn't said beside it."""

    @exercise(
        "99c",
        lambda x: x.softmax(-1),
        lambda: [(torch.tensor(x),) for x in ([2.0, -1], [900.0, 1])],
    )
    def _(answer):
        for case, _ in answer.results():
            if case.inputs[0].max() > 100:
                raise judge.WrongError("large numbers are wrong")

    verdict = said(lambda x: x * 0.5 + 7, "99c")
    assert verdict.startswith("not yet, for x = [2, -1] it gives [8, 6.5] where [0.9526, ")


def test_the_first_cases_can_be_followed_by_hand():
    cases = cases_of("query: ... T D, key: ... S D, H = H", lambda query, key, H: 0)
    assert cases[0].sizes == {"T": 1, "D": 1, "S": 1, "H": 1}
    assert all(x.abs().max() < 25 for x in cases[1].inputs[:2]) and len(cases[-1].batch) == 2
    again = cases_of("query: ... T D, key: ... S D, H = H", lambda query, key, H: 0)
    assert all(torch.equal(a.inputs[0], b.inputs[0]) for a, b in zip(cases, again, strict=True))


def test_an_input_that_is_changed_is_told_and_reaches_no_other_case(said):
    assert said(lambda x: x.mul_(2)) == "not yet, it changes its input `x`: work on a copy"
    assert "changes its input" in said(lambda x: 2 * x if len(x) < 3 else x.mul_(2))


def test_a_predicted_word_may_be_written_in_any_way_and_is_not_told(said):
    assert said("C, A, B", "99b") == said(["c", "a", "b"], "99b") == "right"
    assert said("abc", "99b") == "not yet, 'abc' is not right"
    assert said(lambda: "cab", "99b") == "not yet, it should be a value, and is a function"


# ---------------------------------------------------------------- nothing that it does harms
def endless(x):
    while True:
        with contextlib.suppress(Exception):  # must not swallow the end
            time.sleep(0.01)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="only POSIX has this signal")
def test_an_endless_answer_is_stopped_and_the_alarm_is_as_before(said):
    rung = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        assert said(endless, seconds=0.2).startswith("not yet, it is still at work after 0.2 sec")
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        signal.raise_signal(signal.SIGALRM)
        assert rung == [1]
    finally:
        signal.signal(signal.SIGALRM, handler)


def test_ctrl_c_reaches_the_reader(said):
    with pytest.raises(KeyboardInterrupt):
        said(lambda x: signal.raise_signal(signal.SIGINT))


def test_exits_and_exceptions_are_no_harm(said):
    assert "it raises SystemExit: 3" in said(lambda x: sys.exit(3))
    assert "it raises ZeroDivisionError: division by zero" in said(lambda x: 1 / 0)


def test_settings_and_random_numbers_stay_as_they_were(said):
    def changes(x):
        torch.manual_seed(3)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        return 2 * x

    torch.manual_seed(7)
    state = torch.get_rng_state()
    assert said(changes) == said(lambda x: 2 * x + 0 * torch.randn(1)) == "right"
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
    assert torch.equal(torch.get_rng_state(), state)


def test_a_flood_of_print_is_cut(said, capsys):
    assert said(lambda x: print(1000 * "la ") or 2 * x) == "right"
    printed = capsys.readouterr().out
    assert len(printed) < 2100 and "characters more that it prints]" in printed
    said(lambda x: print("here") or 2 * x)
    assert capsys.readouterr().out.startswith("here\nhere\n")


def test_an_exercise_makes_its_cases_once(said):
    made = []
    found = exercise("99z", lambda: 0, lambda: made.append(1) or [])
    assert found.cases is found.cases and made == [1]
