"""How an answer is judged, whatever it is about: its inputs, its end, and what may go on beside."""

import contextlib
import math
import signal
import sys
import threading
import time
import warnings

import pytest
import torch
from exercise_answers import solution

import exercises


# ---------------------------------------------------------------- inputs and the generator
def test_an_answer_that_changes_its_input_is_told_so_even_when_its_result_is_right(verdict):
    assert verdict("2a", lambda x: x.zero_()) == "not yet, it changes its input `x`: work on a copy"
    late = lambda x: torch.zeros_like(x) if len(x) == 6 else x.zero_()  # noqa: E731
    assert verdict("2a", late) == "not yet, it changes its input `x`: work on a copy"
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


@pytest.mark.slow
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
