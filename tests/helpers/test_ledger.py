import copy
import math
from pathlib import Path

import pytest
import torch

from helpers import ledger
from helpers.errors import LedgerError

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NUMBERED = [
    (row["id"], field) for row in ledger.rows() for field in ("printed", "correct") if field in row
]


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
        assert "printed" in row or "correct_in_words" in row, row[
            "id"
        ]  # else nobody learns what is right
        assert (NOTEBOOKS / f"{row['notebook']}.ipynb").exists(), row["id"]


def reproduce(id, **changed):
    """Hand the ledger its own numbers of a row, or others in their place."""
    row = ledger.row(id)
    numbers = {field: row[field] for field in ("printed", "correct") if field in row} | changed
    if row["kind"] == "erratum":
        ledger.erratum(id, **numbers)
    else:
        ledger.check(id, numbers["printed"], corpus=ledger.CORPUS)


@pytest.mark.parametrize("id", [row["id"] for row in ledger.rows()])
def test_every_row_accepts_its_own_numbers(id, capsys):
    reproduce(id)
    assert capsys.readouterr().out.startswith(f"reproduced: {id} (")


@pytest.mark.parametrize(("id", "field"), NUMBERED)
def test_every_row_refuses_one_wrong_digit_at_every_place(id, field):
    row = ledger.row(id)
    numbers = torch.tensor(row[field], dtype=torch.float64)
    for place in range(numbers.numel()):
        number = numbers.flatten()[place].item()
        digit = 10.0 ** -row.get("decimals", 4)
        if "significant" in row:
            digit = 10.0 ** (math.floor(math.log10(abs(number))) + 1 - row["significant"])
        step = max(digit, 2 * row.get("tolerance", 0.0))
        for wrong in (number - step, number + step) if math.isfinite(number) else (0.0, 1.0):
            changed = numbers.clone()
            changed.view(-1)[place] = wrong
            with pytest.raises(LedgerError, match=f"{id}: 1 of {numbers.numel()} numbers differ"):
                reproduce(id, **{field: changed})


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
    row = ledger.row("karpathy-residual")
    assert (
        ledger.excerpt(row, -0.0001) == "0.000"
        and ledger.excerpt(row, torch.tensor([math.nan, -math.inf])) == "nan -inf"
    )
    assert (
        ledger.excerpt(row, range(21))
        == "(21,), last 8: 13.000 14.000 15.000 16.000 17.000 18.000 19.000 20.000"
    )


def test_a_returned_row_is_a_copy():
    before = ledger.row("raschka-3.3.1-scores")
    ledger.row("raschka-3.3.1-scores")["printed"][0] = 0.0
    for row in ledger.rows():
        row["printed"] = [0.0] * 6
    ledger.rows().clear()
    ledger.inputs("journey").zero_()
    assert ledger.row("raschka-3.3.1-scores") == before and len(ledger.rows()) >= 35
    ledger.check("raschka-3.3.1-scores", ledger.inputs("journey") @ ledger.inputs("journey")[1])


def test_the_draw_that_05_starts_from_is_the_one_that_the_source_prints():
    assert (
        ledger.inputs("dropout_draw").tolist()
        == ledger.row("raschka-3.5.2-dropout-ones")["printed"]
    )


def test_a_changed_digit_in_the_ledger_itself_is_noticed(monkeypatch):
    changed = copy.deepcopy(ledger._ledger())
    row = next(row for row in changed["row"] if row["id"] == "raschka-3.3.1-scores")
    row["printed"][3] += 0.0001
    monkeypatch.setattr(ledger, "_ledger", lambda: changed)
    journey = ledger.inputs("journey")
    with pytest.raises(
        LedgerError, match=r"raschka-3\.3\.1-scores: 1 of 6 numbers differ; at \(3,\)"
    ):
        ledger.check("raschka-3.3.1-scores", journey @ journey[1])


def test_clear_errors():
    with pytest.raises(LedgerError, match="no row 'raschka-9'; its rows are raschka-3"):
        ledger.check("raschka-9", 1.0)
    with pytest.raises(LedgerError, match=r"the shape is \(5,\), the source prints \(6,\)"):
        ledger.check("raschka-3.3.1-scores", torch.zeros(5))
    with pytest.raises(
        LedgerError, match=r"the shape is \(2, 3\), the source prints \(6,\)"
    ):  # as many, but a table
        ledger.check(
            "raschka-3.3.1-scores",
            (ledger.inputs("journey") @ ledger.inputs("journey")[1]).view(2, 3),
        )
    with pytest.raises(LedgerError, match="1 of 1 numbers differ"):
        ledger.check("raschka-3.4.1-score-22", float("nan"))
    with pytest.raises(LedgerError, match="karpathy-top-p is an erratum: use erratum"):
        ledger.check("karpathy-top-p", 0)
    with pytest.raises(LedgerError, match="no inputs 'trip'; it has journey"):
        ledger.inputs("trip")
    with pytest.raises(
        AssertionError
    ):  # a wrong number is a failed assertion, for whoever catches those
        ledger.check("raschka-3.3.1-scores", torch.zeros(6))


def test_the_first_three_differing_entries_are_shown():
    with pytest.raises(LedgerError) as error:
        ledger.check("raschka-3.3.1-scores", torch.zeros(6))
    assert str(error.value).count("ours 0") == 3 and "at (0,): source 0.9544, ours 0" in str(
        error.value
    )


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


ERRATA = [row for row in ledger.rows() if row["kind"] == "erratum" and "correct" in row]


@pytest.mark.parametrize("row", ERRATA, ids=lambda row: row["id"])
def test_an_erratum_shows_what_is_printed_why_and_what_is_right(row, capsys):
    numbers = {
        name: row[field]
        for name, field in (("printed", "printed"), ("correct", "correct"))
        if field in row
    }
    ledger.erratum(row["id"], **numbers)
    out = capsys.readouterr().out
    assert (
        out.startswith(f"reproduced: {row['id']} (")
        and "  cause:   " in out
        and "  right:   " in out
    )
    assert ("  printed: " in out) == ("printed" in row and "derived" not in row)
    assert ("  gives:   " in out) == ("derived" in row)
    for name in numbers:
        with pytest.raises(LedgerError, match="the ledger has numbers called"):
            ledger.erratum(row["id"], **{**numbers, name: None})
        wrong = torch.tensor(numbers[name], dtype=torch.float64) + 1.5
        with pytest.raises(LedgerError, match=f"{row['id']}: "):
            ledger.erratum(
                row["id"], **{**numbers, name: torch.where(wrong.isfinite(), wrong, 0.0)}
            )


def test_an_erratum_needs_to_be_one():
    with pytest.raises(LedgerError, match="is no erratum"):
        ledger.erratum("raschka-3.3.1-scores", printed=torch.zeros(6))
    with pytest.raises(LedgerError, match="has no numbers called 'printed'"):
        ledger.erratum("hacktricks-8-dims-3-heads", printed=[8], correct=[2, 4])


def test_of_a_table_the_first_differing_row_is_shown():
    story = ledger.story(ledger.row("raschka-3.5.2-dropout-weights"))
    assert (
        "row 3: 0.5132 0.7482 0.7386 0.0000" in story
        and "row 3: 0.7599 0.6194 0.6206 0.0000" in story
    )


def test_an_erratum_without_numbers_is_not_reproduced(monkeypatch):
    changed = copy.deepcopy(ledger._ledger())
    row = next(row for row in changed["row"] if row["id"] == "karpathy-residual")
    del row["printed"], row["correct"]
    monkeypatch.setattr(ledger, "_ledger", lambda: changed)
    with pytest.raises(LedgerError, match="has no numbers to assert"):
        ledger.erratum("karpathy-residual")
