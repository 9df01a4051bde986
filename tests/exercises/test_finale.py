"""The reader's GPT trains in a lesson: live, within its time, and whatever it does, the lesson goes on."""

import pytest
import torch
from exercise_answers import NOTEBOOKS, module_at

import exercises
from exercises import finale
from pictures import plotting

TEXT = "to be or not to be, that is the question\n" * 60
PAGE = module_at(NOTEBOOKS / "solutions" / "my_gpt.py")


@pytest.fixture
def file(tmp_path, monkeypatch, unchecked):
    path = tmp_path / "my_gpt.py"
    monkeypatch.setenv("MY_GPT", str(path))
    monkeypatch.setattr(plotting, "display", lambda *_, **__: None)
    monkeypatch.setattr(finale, "SIZES", dict(context_length=16, n_layer=1, n_head=2, n_embd=16))
    return path


@pytest.fixture
def solved(file):
    for label, name in {"7f": "MyGPT", "8b": "my_batch", "8g": "my_train"}.items():
        exercises.check(label, getattr(PAGE, name))
    return file


def test_where_steps_are_missing_they_are_named_and_nothing_is_trained(file, monkeypatch, capsys):
    assert finale.learn(TEXT) is None and finale.write_again(TEXT, "t") is None
    assert "Missing: 7f, 8b, 8g." in capsys.readouterr().out
    exercises.check("8b", PAGE.my_batch)
    assert finale.learn(TEXT) is None and "Missing: 7f, 8g." in capsys.readouterr().out
    monkeypatch.delenv("MY_GPT")
    assert finale.learn(TEXT) is None and "Missing: 7f, 8b, 8g." in capsys.readouterr().out


@pytest.mark.slow
def test_it_learns_and_writes_and_leaves_a_page(solved, capsys):
    training = finale.learn(TEXT, {"ours": ([1, 150], [3.0, 1.0])}, steps=150)
    assert training.steps == [50, 100, 150] and training.losses[0] > training.losses[-1]
    assert training.loss < 3 and len(training.sample) > 300
    page = solved.with_suffix(".html").read_text(encoding="utf-8")
    assert f"{training.parameters:,} parameters" in page and "def my_train" in page and training.sample[:9] in page
    assert "http" not in page and 'class="todo">scores' in page
    capsys.readouterr()
    assert finale.write_again(TEXT, "to") is None  # before step 9h
    exercises.check("9h", PAGE.my_write)
    assert finale.write_again(TEXT, "to", 20).startswith("to") and torch.load(solved.with_suffix(".pt"))


def test_what_ours_writes_stands_beside_it_where_somebody_reads(file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(finale.presets, "run_folder", lambda *_: tmp_path)
    finale.show_ours(None)
    (tmp_path / "sample.txt").write_text("What; thy", encoding="utf-8")
    finale.show_ours(None)
    assert capsys.readouterr().out == "\nours writes:\nWhat; thy\n"
    monkeypatch.delenv("MY_GPT")
    finale.show_ours(None)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_it_ends_when_its_time_is_over_and_stands_where_it_stands(solved, capsys):
    training = finale.learn(TEXT, seconds=1.0, steps=10**6)
    assert "after 1 seconds it had made" in capsys.readouterr().out and training.loss < 4


@pytest.mark.slow
def test_a_training_that_raises_is_named_and_the_lesson_goes_on(solved, capsys):
    source = solved.read_text(encoding="utf-8").replace("optimizer.zero_grad()", "optimizer.zero_grads()")
    solved.write_text(source, encoding="utf-8")
    assert finale.learn(TEXT) is None
    assert "your GPT stopped: AttributeError: " in capsys.readouterr().out
