"""The table of the ledger after a run, row by row."""

import os
import re

import pytest
from notebook_file import write_notebook

from helpers import ledger
from tools import notebooks


@pytest.fixture
def show(project, in_process, monkeypatch, capsys):
    """Write these notebooks, run what changed, and return the status and what is told of the rows."""
    rows = [{**ledger.row(id), "notebook": stage} for id, stage in (
        ("raschka-3.3.1-scores", "01_a"), ("gralinski-scores", "01_a"), ("raschka-3.3.1-softmax", "02_b"),
        ("raschka-3.3.1-context", "03_none"))]  # fmt: skip
    monkeypatch.setattr(ledger, "rows", lambda: rows)

    def shown(**sources: str) -> tuple[int, str]:
        for stage, source in sources.items():
            write_notebook(notebooks.NOTEBOOKS / f"{stage[1:]}.ipynb", source)
        return notebooks.show_ledger(), capsys.readouterr().out

    return shown


def test_the_ledger_runs_what_changed_and_names_what_is_missing(show):
    status, out = show(
        _01_a="print('reproduced: raschka-3.3.1-scores (R, 6 numbers)')", _02_b="1 / 0"
    )
    assert status == 1 and "1 of 4 rows reproduced, 0 skipped, 2 missing or failed" in out
    for line in (
        r"Sebastian Raschka +raschka-3\.3\.1-scores +01_a +reproduced$",
        r"Filip Gralinski +gralinski-scores +01_a +MISSING$",
        r"Sebastian Raschka +raschka-3\.3\.1-softmax +02_b +FAILED: ZeroDivisionError: division by zero$",
        r"Sebastian Raschka +raschka-3\.3\.1-context +03_none +notebook not written yet$",
    ):
        assert re.search(line, out, re.M), line
    both = "print('reproduced: raschka-3.3.1-scores (R)\\nreproduced: gralinski-scores (')"
    status, out = show(_01_a=both, _02_b="print('skipped: raschka-3.3.1-softmax needs x')")
    assert status == 0 and "2 of 4 rows reproduced, 1 skipped, 0 missing" in out
    status, out = show()  # what was skipped is tried again: the corpus may be there now
    assert status == 0 and "running 02_b" in out and "running 01_a" not in out
    notebooks.run_of(notebooks.NOTEBOOKS / "01_a.ipynb").write_text("{")  # cut off
    assert "running 01_a" in show()[1]


def test_what_changed_is_known_by_its_content_and_not_by_its_date(show):
    path = notebooks.NOTEBOOKS / "01_a.ipynb"
    show(_01_a="print('reproduced: gralinski-scores (')")
    os.utime(path, (4e9, 4e9))
    assert "running 01_a" not in show()[1]
    write_notebook(path, "print('reproduced: gralinski-scores (again')")
    os.utime(path, (1, 1))  # as rsync and tar leave it
    assert "running 01_a" in show()[1]


def test_a_row_that_fails_after_it_succeeded_is_no_success(show):
    source = (
        "print('reproduced: gralinski-scores (G)')\nraise AssertionError('gralinski-scores: 1')"
    )
    status, out = show(_01_a=source)
    assert status == 1
    assert re.search(
        r"gralinski-scores +01_a +FAILED: AssertionError: gralinski-scores: 1$", out, re.M
    )
