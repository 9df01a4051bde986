import math
from pathlib import Path

import pytest
import torch

from helpers import ledger
from helpers.errors import LedgerError

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def test_the_ledger_is_whole():
    ids = [row["id"] for row in ledger.rows()]
    assert len(ids) == len(set(ids)) >= 35
    for row in ledger.rows():
        assert {"id", "notebook", "what", "kind"} <= row.keys() and row["kind"] in (
            "exact",
            "erratum",
        )
        assert row["kind"] == "exact" or "why" in row, row["id"]
        assert "printed" in row or row["kind"] == "erratum", row["id"]
        assert row["kind"] == "exact" or {"correct", "title", "where"} <= row.keys(), row["id"]
        # Else nobody learns what is right.
        assert "printed" in row or "correct_in_words" in row, row["id"]
        assert (NOTEBOOKS / f"{row['notebook']}.ipynb").exists(), row["id"]


def reproduce(id, **changed):
    """Hand the ledger its own numbers of a row, or others in their place."""
    row = ledger.row(id)
    numbers = {field: row[field] for field in ("printed", "correct") if field in row} | changed
    if row["kind"] == "erratum":
        ledger.erratum(id, **numbers)
    else:
        ledger.check(id, numbers["printed"], corpus=ledger.CORPUS)


def test_our_numbers_are_printed_as_the_source_prints_its_own(capsys):
    journey = ledger.inputs("journey")
    ledger.check("raschka-3.3.1-scores", journey @ journey[1] + 0.00002)
    ledger.check("raschka-3.3.2-all-scores", journey @ journey.T)
    ledger.check(
        "gralinski-weights",
        torch.tensor(ledger.row("gralinski-weights")["printed"], dtype=torch.float64),
    )
    ledger.check("raschka-listing-3.3-shape", torch.Size([2, 6, 2]))
    assert [
        line for line in capsys.readouterr().out.splitlines() if not line.startswith("reproduced: ")
    ] == [
        "  ours: 0.9544 1.4950 1.4754 0.8434 0.7070 1.0865",
        "  ours: (6, 6), last row: 0.6310 1.0865 1.0605 0.6565 0.2935 0.9450",
        "  ours: (3, 3), last row: 3.0817e-03 4.4385e-01 5.5307e-01",
        "  ours: 2 6 2",
    ]


def test_the_tolerance_is_half_a_unit():
    printed = torch.tensor(ledger.row("raschka-3.3.1-scores")["printed"], dtype=torch.float64)
    ledger.check("raschka-3.3.1-scores", printed + 0.000045)
    with pytest.raises(LedgerError, match="6 of 6"):
        ledger.check("raschka-3.3.1-scores", printed + 0.000055)


def test_a_row_that_needs_the_corpus_is_skipped_by_name(capsys):
    ledger.check("karpathy-vocabulary", [1, 2, 3, 4], corpus="the bundled play")
    assert capsys.readouterr().out == (
        "skipped: karpathy-vocabulary needs tiny Shakespeare, and the corpus here is the bundled play\n"
    )


@pytest.mark.parametrize("row", ledger.rows(), ids=lambda row: row["id"])
def test_every_row_accepts_its_own_numbers_and_refuses_a_wrong_last_digit(row, capsys):
    reproduce(row["id"])
    out = capsys.readouterr().out
    assert out.startswith(f"reproduced: {row['id']} (")
    if row["kind"] == "erratum":  # what is printed, why, and what is right
        assert "  cause:   " in out and "  right:   " in out
    for field in {"printed", "correct"} & row.keys():
        wrong = torch.tensor(row[field], dtype=torch.float64)
        number, digit = wrong.view(-1)[-1].item(), 10.0 ** -row.get("decimals", 4)
        if "significant" in row:
            digit = 10.0 ** (math.floor(math.log10(abs(number))) + 1 - row["significant"])
        step = max(digit, 2 * row.get("tolerance", 0.0))
        wrong.view(-1)[-1] = number + step if math.isfinite(number) else 0.0
        with pytest.raises(LedgerError, match=f"{row['id']}: 1 of {wrong.numel()} numbers differ"):
            reproduce(row["id"], **{field: wrong})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ledger.check("raschka-9", 1.0), "no row 'raschka-9'; its rows are raschka-3"),
        (
            lambda: ledger.check("raschka-3.3.1-scores", torch.zeros(2, 3)),  # as many, but a table
            r"the shape is \(2, 3\), the source prints \(6,\)",
        ),
        (
            lambda: ledger.check("raschka-3.3.1-scores", torch.zeros(6)),
            r"6 of 6 numbers differ; at \(0,\): source 0\.9544, ours 0",
        ),
        (lambda: ledger.check("raschka-3.4.1-score-22", math.nan), "1 of 1 numbers differ"),
        (lambda: ledger.check("karpathy-top-p", 0), "karpathy-top-p is an erratum: use erratum"),
        (lambda: ledger.erratum("raschka-3.3.1-scores", printed=[0.0]), "is no erratum"),
        (lambda: ledger.inputs("trip"), "no inputs 'trip'; it has journey"),
    ],
)
def test_what_is_wrong_is_named(call, message):
    with pytest.raises(LedgerError, match=message):
        call()
