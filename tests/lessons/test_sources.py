"""The sources' notebooks, and the page that is drawn from them."""

import re

import nbformat
import pytest
from notebook_file import cells, tags

from helpers import sources as source_calls
from helpers.sources import same, slip, unmade
from tools import ledger
from tools.lessons import NOTEBOOKS, sources

FOUND = {path.stem: nbformat.read(path, as_version=4) for path in sources()}


def test_numbers_are_compared_at_the_digits_that_are_printed(capsys):
    same("two", "0.1235 1.56e-07", [0.12351, 1.5552e-07])
    assert capsys.readouterr().out == "two\n  printed  0.1235 1.56e-07\n  here     0.1235 1.56e-07\n"
    for printed, ours in (("0.1235", [0.12358]), ("1.56e-07", [1.5449e-07]), ("117", [118.0])):
        with pytest.raises(AssertionError, match="number 1 is printed as"):
            same("one", printed, ours)
    with pytest.raises(AssertionError, match="2 are printed, here are 1"):
        same("one", "1 2", [1.0])
    same("nothing but what isn't finite", "nan -inf", [float("nan"), float("-inf")])
    with pytest.raises(AssertionError):
        same("not a number", "1.0", [float("nan")])


def test_a_slip_shows_what_is_right_and_must_be_one(capsys):
    slip("sum", "0.5 0.6", produced=[0.5, 0.6], right=[0.5, 0.7])
    assert capsys.readouterr().out == "sum\n  printed  0.5 0.6\n  right    0.5 0.7\n"
    with pytest.raises(AssertionError, match="what is printed is right"):
        slip("sum", "0.5", produced=[0.5], right=[0.5])
    with pytest.raises(AssertionError, match="number 1"):
        slip("sum", "0.5", produced=[0.6], right=[0.7])


def test_tables_stand_side_by_side(capsys):
    same("table", "1.0 -2.0\n30.0 4.0", [[1.0, -2.0], [30.0, 4.0]])
    assert capsys.readouterr().out.splitlines() == [
        "table",
        "  printed      here",
        "   1.0 -2.0     1.0 -2.0",
        "  30.0  4.0    30.0  4.0",
    ]


def test_the_tally_counts_what_was_compared_and_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(source_calls, "COMPARED", {})
    same("a pair", "1.0 2.0", [1.0, 2.0])
    same("a pair", "1.0 2.0", [1.0, 2.0])  # a cell that is run twice counts once
    same("somebody else's", "7", [7.0], by="the book")
    slip("one wrong number", "0.2", right=0.3)
    unmade("three more", "1 2 3", "the seed isn't printed")
    source_calls.tally(printed=6)
    assert capsys.readouterr().out.splitlines()[-1] == (
        "numbers: 6 printed, 2 made here, 4 that nobody can make, 0 missing"
    )
    with pytest.raises(AssertionError):
        source_calls.tally(printed=7)
    assert "1 missing" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="what is printed is right"):
        slip("no slip", "0.2", right=0.2)


def test_the_page_is_what_the_notebooks_say():
    page = (NOTEBOOKS / "ledger.md").read_text(encoding="utf-8")
    assert page == ledger.ledger_page(NOTEBOOKS)


@pytest.mark.parametrize("name", FOUND)
def test_every_slip_and_claim_follows_a_cell_that_asserts(name):
    measured = False
    for cell in FOUND[name].cells:
        if cell.cell_type == "code":
            measured = bool(re.search(r"\bassert |AssertionError|\bsame\(|\bslip\(", cell.source))
        elif {"slip", "claim"} & set(tags(cell)):
            assert measured, cell.source


@pytest.mark.parametrize("name", FOUND)
def test_each_is_stored_as_it_ran(name):
    code = cells(FOUND[name])
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [out for cell in code for out in cell.outputs if out.output_type == "error"]
