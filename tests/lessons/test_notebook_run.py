"""The notebooks, run in this process with a text of the reader's own, before another ledger and with other values."""

from pathlib import Path

import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook
from notebook_code import BY_NAME
from notebook_run import run

from helpers.data import Corpus
from helpers.errors import LedgerError
from helpers.world import ledger

RUNS = {name: {"seeds": [0]} for name in BY_NAME if "01" <= name[:2] <= "07"} | {
    "02_softmax_weights": {"seeds": [0, 1]},  # it says that two networks are one
    "10_what_matters": {"steps": 8},
    "12_todays_models": {},
    "13_speedrun": {"steps": 4},
    "14_scaling_out": {},
}
# These learn nothing from the text, or take long: `make torture` runs them.
RARELY = {"02_softmax_weights", "03_query_key_value", "05_dropout", "14_scaling_out"}
PLATFORM = {"raschka-3.5.2-dropout-ones"}  # another platform may draw other random numbers, and the notebook says so
SPARED = {"05_dropout": "raschka-3.5.2-dropout-weights"}  # it looks into the printed table for where that comes from


def rows_of(name):
    return {row["id"] for row in ledger.rows() if row["notebook"] == name}


@pytest.mark.slow
@pytest.mark.lesson
@pytest.mark.filterwarnings("ignore:Glyph")  # of the reader's text
@pytest.mark.parametrize(
    ("name", "parameters"),
    [pytest.param(*run, marks=[pytest.mark.torture] if run[0] in RARELY else []) for run in RUNS.items()],
    ids=RUNS,
)
def test_with_own_text_it_runs_and_every_proof_in_it_can_fail(name, parameters, own_text, monkeypatch, capsys):
    rows = rows_of(name)
    seen = run(BY_NAME[name], own_text | parameters, monkeypatch, spared=SPARED.get(name, ""))
    printed = capsys.readouterr().out
    assert "your own text" in printed
    assert seen.reproduced == rows - {id for id in PLATFORM if f"skipped: {id}" in printed}
    assert not seen.deaf  # with other numbers in the ledger every call fails
    assert not seen.assertions - seen.evaluated - seen.needs_corpus
    unbreakable = seen.evaluated - seen.breakable - seen.needs_corpus
    assert unbreakable == set()  # with other values every assertion fails


@pytest.mark.slow
def test_the_rows_of_09_notice_another_ledger(monkeypatch):
    """The cells that need no trained model."""
    rows = rows_of("09_sampling")
    seen = run(BY_NAME["09_sampling"], {}, monkeypatch, only=("cell-02", "cell-03", "cell-08", "cell-47", "cell-54"))
    assert seen.reproduced == rows and not seen.deaf


@pytest.mark.slow
def test_the_rows_of_08_notice_another_ledger(monkeypatch):
    """Its two cells, with a text of tiny Shakespeare's size and the losses of a run that went as published."""
    letters = "".join(map(chr, range(33, 98)))
    given = {
        "corpus": Corpus((letters * 20_000)[: corpus.SIZE], corpus.TINY, Path(), ""),
        "estimates": torch.tensor([1.89, 1.90, 1.90, 1.91]),
        "whole": 1.9,
        "as_published": True,
        "preset": "laptop",
    }
    seen = run(BY_NAME["08_nanogpt_shakespeare"], given, monkeypatch, only=("cell-04", "cell-52", "cell-85"))
    assert seen.reproduced == rows_of("08_nanogpt_shakespeare") and not seen.deaf


# ---------------------------------------------------------------- the run itself
START = "from helpers.world import ledger\ninputs = ledger.inputs('journey')\nscores = inputs @ inputs[1]"
HONEST = 'ledger.check("raschka-3.3.1-scores", scores)'


def run_cells(monkeypatch, *sources):
    return run(new_notebook(cells=[new_code_cell(source) for source in (START, *sources)]), {}, monkeypatch)


def test_an_honest_call_and_an_assertion_that_can_fail_are_seen(monkeypatch):
    seen = run_cells(monkeypatch, HONEST, "assert scores.argmax() == 1\nassert (scores > 0.5).all()")
    assert seen.reproduced == {"raschka-3.3.1-scores"} and not seen.deaf
    assert seen.assertions == seen.evaluated == seen.breakable and len(seen.assertions) == 2


@pytest.mark.parametrize(
    "source",
    [
        'ledger.check("raschka-3.3.1-scores", ledger.row("raschka-3.3.1-scores")["printed"])',
        'row = next(r for r in ledger.rows() if r["id"].endswith("scores"))\nledger.check(row["id"], row["printed"])',
        'ledger.check("raschka-3.3.1-scores", getattr(ledger, "_led" + "ger")()["row"][0]["printed"])',
    ],
)
def test_the_ledgers_own_values_are_wrong_ones(source, monkeypatch):
    with pytest.raises(LedgerError, match=r"raschka-3.3.1-scores: 6 of 6 numbers differ"):
        run_cells(monkeypatch, source)


@pytest.mark.parametrize(
    "source",
    [
        f"if len(scores) > 6:\n    {HONEST}",
        f"def f():\n    {HONEST}",
        f"ledger.check = lambda *_: None\n{HONEST}",
        'print("reproduced: raschka-3.3.1-scores (")',
    ],
)
def test_a_call_that_is_not_made_is_missed(source, monkeypatch):
    assert not run_cells(monkeypatch, source).reproduced


@pytest.mark.parametrize(
    "test",
    ["len(scores) >= 0", "scores.abs().min() >= 0", "scores.shape == (scores + 1).shape", "(scores == scores).all()",
     "isinstance(scores, type(inputs))", "scores.sum() < 5 or scores.sum() >= 5"],
)  # fmt: skip
def test_an_assertion_that_no_value_can_break_is_seen(test, monkeypatch):
    seen = run_cells(monkeypatch, f"assert {test}")
    assert len(seen.evaluated) == 1 and not seen.breakable


def test_an_assertion_that_is_never_reached_is_seen(monkeypatch):
    assert not run_cells(monkeypatch, "if len(scores) > 6:\n    assert scores.sum() < 5").evaluated
