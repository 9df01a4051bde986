"""The reader's GPT trains in a lesson: live, within its time, and the lesson goes on."""

import re

import pytest
import torch
from exercise_answers import NOTEBOOKS

from exercises import finale, twin, yours
from helpers.data import CharTokenizer
from helpers.gpt import GPTConfig
from pictures import plotting

SMALL = dict(context_length=16, n_layer=2, n_head=2, n_embd=16)
TEXT = "to be or not to be, that is the question\n" * 60
PAGE = (NOTEBOOKS / "solutions" / "my_gpt.py").read_text(encoding="utf-8")


@pytest.fixture
def file(tmp_path, monkeypatch, unchecked):
    path = tmp_path / "my_gpt.py"
    monkeypatch.setenv("MY_GPT", str(path))
    monkeypatch.setattr(plotting, "display", lambda *_, **__: None)
    monkeypatch.setattr(finale, "SIZES", dict(context_length=16, n_layer=1, n_head=2, n_embd=16))
    return path


def put(file, *labels, source=PAGE):
    """The whole page as if it were each of these steps."""
    steps = {"": yours.HEAD} | dict.fromkeys(labels, yours.definitions(source))
    file.write_text(yours.written(steps), encoding="utf-8")


def test_where_steps_are_missing_they_are_named_and_nothing_is_trained(file, monkeypatch, capsys):
    assert finale.learn(TEXT) is None and finale.write_again(TEXT, "t") is None
    assert "Missing: MyGPT, my_batch, my_train." in capsys.readouterr().out
    put(file, "8b")
    assert finale.learn(TEXT) is None and "Missing: MyGPT, my_train." in capsys.readouterr().out
    monkeypatch.delenv("MY_GPT")
    assert finale.learn(TEXT) is None and "Missing: MyGPT, my_batch, my_train." in capsys.readouterr().out


@pytest.mark.slow
def test_it_learns_and_writes_and_leaves_a_page(file, capsys):
    put(file, "7f", "8b", "8g")
    training = finale.learn(TEXT, ([1, 150], [3.0, 1.0]), steps=150)
    assert training.steps == [50, 100, 150] and training.losses[0] > training.losses[-1]
    assert training.loss < 3 and len(training.sample) > 300
    page = file.with_suffix(".html").read_text(encoding="utf-8")
    assert f"{training.parameters:,} parameters" in page and "def my_train" in page
    assert training.sample[:9] in page and not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert "Look inside" in page  # for it computes what ours does
    assert finale.write_again(TEXT, "to") is None  # before step 9h
    put(file, "7f", "8b", "8g", "9h")
    assert finale.write_again(TEXT, "to", 20).startswith("to")
    assert torch.load(file.with_suffix(".pt"))


@pytest.mark.slow
def test_it_ends_when_its_time_is_over(file, capsys):
    put(file, "7f", "8b", "8g")
    training = finale.learn(TEXT, seconds=1.0, steps=10**6)
    assert "after 1 seconds it had made" in capsys.readouterr().out and training.loss < 4


def test_what_ours_writes_stands_beside_it_where_somebody_reads(file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(finale.presets, "run_folder", lambda *_: tmp_path)
    finale.show_ours(None)
    (tmp_path / "sample.txt").write_text("What; thy", encoding="utf-8")
    finale.show_ours(None)
    assert capsys.readouterr().out == "\nours writes:\nWhat; thy\n"
    monkeypatch.delenv("MY_GPT")
    finale.show_ours(None)
    assert capsys.readouterr().out == ""


def gpt_of(source):
    parts = {"__name__": "a file"}
    exec(source, parts)
    torch.manual_seed(1)
    model = parts["MyGPT"](11, **SMALL)
    with torch.no_grad():  # a norm of ones and zeros would hide which is which
        for weight in model.parameters():
            weight += 0.3 * torch.randn(weight.shape)
    return model


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("self.W_query, self.W_key =", "self.W_value, self.W_key ="),  # the values' matrix is made first
        ("self.gain, self.shift =", "self.shift, self.gain ="),
        (
            "self.shift = nn.Parameter(torch.ones(C)), nn.Parameter(torch.zeros(C))",
            "self.shift = nn.Parameter(torch.ones(C)), 0",
        ),
    ],
    ids=["ours", "values first", "shifts first", "no shift"],
)
def test_the_microscope_shows_whatever_computes_the_same(before, after):
    source = PAGE.replace(before, after) if before else PAGE
    if before.startswith("self.W_query"):
        source = source.replace("self.W_value, self.W_out =", "self.W_query, self.W_out =")
    model = gpt_of(source)
    ours = twin.twin(model, GPTConfig(11, **SMALL))
    tokens = torch.arange(20).view(2, 10) % 11
    torch.testing.assert_close(ours(tokens), model(tokens), atol=1e-3, rtol=0)


def test_what_the_microscope_cant_show_is_said():
    model = gpt_of(PAGE.replace("nn.GELU()", "nn.ReLU()"))
    assert twin.inside(model, CharTokenizer("abcdefghijk"), SMALL, 2.0, 150, "abc") == twin.LEFT_OUT
