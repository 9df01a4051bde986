"""The table of the ledger after a run, row by row, and the pages of what is stored and of errata."""

import re

import nbformat
from notebook_file import write_notebook

from helpers import ledger
from tools import notebooks, tables


def test_the_ledger_runs_what_changed_and_names_what_is_missing(
    project, in_process, monkeypatch, capsys
):
    rows = [{**ledger.row(id), "notebook": stage} for id, stage in (
        ("raschka-3.3.1-scores", "01_a"), ("gralinski-scores", "01_a"), ("raschka-3.3.1-softmax", "02_b"),
        ("raschka-3.3.1-context", "03_none"))]  # fmt: skip
    monkeypatch.setattr(ledger, "rows", lambda: rows)
    write_notebook(
        notebooks.NOTEBOOKS / "01_a.ipynb",
        "print('reproduced: raschka-3.3.1-scores (R, 6 numbers)')",
    )
    write_notebook(notebooks.NOTEBOOKS / "02_b.ipynb", "1 / 0")
    assert notebooks.show_ledger() == 1
    out = capsys.readouterr().out
    assert "running 01_a" in out and "1 of 4 rows reproduced, 0 skipped, 2 missing or failed" in out
    for line in (
        r"Sebastian Raschka +raschka-3\.3\.1-scores +01_a +reproduced$",
        r"Filip Gralinski +gralinski-scores +01_a +MISSING$",
        r"Sebastian Raschka +raschka-3\.3\.1-softmax +02_b +FAILED: ZeroDivisionError: division by zero$",
        r"Sebastian Raschka +raschka-3\.3\.1-context +03_none +notebook not written yet$",
    ):
        assert re.search(line, out, re.M), line

    assert "FAILED: 02_b: ZeroDivisionError" in out

    both = "print('reproduced: raschka-3.3.1-scores (R, 6 numbers)\\nspelling: reproduced: gralinski-scores (')"
    write_notebook(notebooks.NOTEBOOKS / "01_a.ipynb", both)
    write_notebook(
        notebooks.NOTEBOOKS / "02_b.ipynb", "print('reproduced: raschka-3.3.1-softmax (')"
    )
    assert notebooks.show_ledger() == 0
    assert "3 of 4 rows reproduced, 0 skipped, 0 missing" in capsys.readouterr().out
    assert notebooks.show_ledger() == 0
    assert "running" not in capsys.readouterr().out  # nothing has changed

    write_notebook(
        notebooks.NOTEBOOKS / "02_b.ipynb", "print('skipped: raschka-3.3.1-softmax needs x')"
    )
    for _ in range(2):  # what was skipped is tried again: the corpus may be there now
        assert notebooks.show_ledger() == 0
        out = capsys.readouterr().out
        assert "running 02_b" in out and "running 01_a" not in out and "skipped needs x" in out
        assert "2 of 4 rows reproduced, 1 skipped, 0 missing" in out
    half_run = notebooks.BUILD / "notebooks" / "02_b.ipynb"  # the kernel died
    notebook = nbformat.read(half_run, as_version=4)
    notebook.cells[0].outputs[0].text = "reproduced: raschka-3.3.1-softmax ("
    nbformat.write(notebook, half_run)
    assert not notebooks.is_outdated(notebooks.NOTEBOOKS / "02_b.ipynb")
    notebook.cells[0].execution_count = None
    nbformat.write(notebook, half_run)
    assert notebooks.is_outdated(notebooks.NOTEBOOKS / "02_b.ipynb")

    (notebooks.BUILD / "notebooks" / "01_a.ipynb").write_text("{")  # cut off
    assert notebooks.run(["02_b"], "") == 0 and notebooks.show_ledger() == 0
    assert "running 01_a" in capsys.readouterr().out


def test_a_row_that_fails_after_it_succeeded_is_no_success(
    project, in_process, monkeypatch, capsys
):
    rows = [{**ledger.row("gralinski-scores"), "notebook": "01_a"}]
    monkeypatch.setattr(ledger, "rows", lambda: rows)
    again = "print('reproduced: gralinski-scores (G)')\nraise AssertionError('gralinski-scores: 1 of 9 numbers differ')"
    write_notebook(notebooks.NOTEBOOKS / "01_a.ipynb", again)
    assert notebooks.show_ledger() == 1
    assert (
        "FAILED: AssertionError: gralinski-scores: 1 of 9 numbers differ" in capsys.readouterr().out
    )
    write_notebook(
        notebooks.NOTEBOOKS / "01_a.ipynb", "print('not yet reproduced: gralinski-scores (')"
    )
    assert notebooks.show_ledger() == 1


def test_a_run_with_other_settings_does_not_count(project, in_process, monkeypatch, capsys):
    rows = [{**ledger.row("gralinski-scores"), "notebook": "01_a"}]
    monkeypatch.setattr(ledger, "rows", lambda: rows)
    cell = "print('reproduced: gralinski-scores (G)' if seed == 1 else 'nothing')"
    write_notebook(notebooks.NOTEBOOKS / "01_a.ipynb", "seed = 1", cell, tags={0: "parameters"})
    assert notebooks.run(["01_a"], [["seed", "2"]]) == 0 and notebooks.show_ledger() == 0
    assert "running 01_a" in capsys.readouterr().out


def test_the_page_shows_what_is_stored(project, monkeypatch):
    rows = [{**ledger.row("raschka-3.3.1-softmax"), "notebook": "02_b"}]
    monkeypatch.setattr(ledger, "rows", lambda: rows)
    write_notebook(notebooks.NOTEBOOKS / "02_b.ipynb", "1")
    page = tables.ledger_page(notebooks.NOTEBOOKS)
    printed = "0.1385 0.2379 0.2333 0.1240 0.1082 0.1581".replace(" ", "\N{NO-BREAK SPACE}")
    assert f"| `{printed}` | [02](02_b.ipynb)<br>MISSING |" in page  # not stored yet

    lines = "one way: reproduced: raschka-3.3.1-softmax (R, 6 numbers)\n  ours: 0.13 0.24\nmore\n"
    cell = nbformat.v4.new_code_cell(
        "1", id="cell-07", outputs=[nbformat.v4.new_output("stream", text=lines)]
    )
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), notebooks.NOTEBOOKS / "02_b.ipynb")
    page = tables.ledger_page(notebooks.NOTEBOOKS)
    ours = "0.13\N{NO-BREAK SPACE}0.24"  # what the notebook printed, and no number of the ledger
    assert (
        f"| `{printed}`<br>`{ours}` | [02/07](02_b.ipynb#cell-id=cell-07)<br>reproduced |" in page
    )
    assert "1 of 1 rows" in page and "## Sebastian Raschka, Build a Large Language Model" in page


def test_the_page_of_errata_shows_wrong_and_right_numbers_and_the_cell(project, monkeypatch):
    rows = [{**ledger.row(id), "notebook": "04_c"} for id in (
        "hacktricks-nan-mask", "karpathy-softmax-lower", "hacktricks-8-dims-3-heads", "gralinski-scores")]  # fmt: skip
    monkeypatch.setattr(ledger, "rows", lambda: rows)
    told = nbformat.v4.new_output(
        "stream", text="reproduced: hacktricks-nan-mask (HackTricks, an erratum)\n  says: x\n"
    )
    cells = [
        nbformat.v4.new_code_cell("0", id="cell-03"),
        nbformat.v4.new_code_cell("1", id="cell-05", outputs=[told]),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), notebooks.NOTEBOOKS / "04_c.ipynb")
    page = tables.errata_page(notebooks.NOTEBOOKS)
    intro, nan_mask, lower, heads = re.split(r"^## ", page, flags=re.M)
    assert "| 1 | HackTricks | section " in intro and "gralinski" not in page
    assert nan_mask.startswith("1. A mask made of NaN\n\nHackTricks, section ")
    assert (
        "; computed in notebook [04/05](04_c.ipynb#cell-id=cell-05) (`hacktricks-nan-mask`)"
        in nan_mask
    )
    table = nan_mask.split("```")[1].strip("\n").splitlines()
    assert table[0].split() == ["it", "gives", "right"]
    assert table[1].split() == ["nan", "-inf", "-inf", "0.0000", "-inf", "-inf"]
    assert len(table) == 4 and len({len(line) for line in table[1:]}) == 1
    assert (
        "it gives   0.4754 0.1749 0.1749 0.1749\nright      1.0000 0.0000 0.0000 0.0000\n" in lower
    )
    assert "not reproduced yet in notebook [04](04_c.ipynb)" in lower
    assert (
        "```" not in heads and "8 dimensions can be 2 heads" in heads
    )  # no numbers are printed there
    assert (
        r"0 \* -inf is NaN" in nan_mask
    )  # or Markdown would take the stars of a product for italics
