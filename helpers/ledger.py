"""The ledger: every number that the classic sources print, and the check that we print it too."""

import copy
import functools
import math
import textwrap
import tomllib
from pathlib import Path

import torch
from torch import Tensor

from helpers.errors import LedgerError

LEDGER = Path(__file__).parent / "ledger.toml"
CORPUS = "tiny Shakespeare"


@functools.cache
def _ledger() -> dict:
    return tomllib.loads(LEDGER.read_text(encoding="utf-8"))


def rows() -> list[dict]:
    """Copies of all rows, in order; the first lines of ledger.toml say what they hold."""
    return copy.deepcopy(_ledger()["row"])


def row(id: str) -> dict:
    """A copy of the row called `id`; LedgerError when there is none."""
    by_id = {entry["id"]: entry for entry in rows()}
    if id not in by_id:
        raise LedgerError(f"the ledger has no row {id!r}; its rows are {', '.join(by_id)}")
    return by_id[id]


def inputs(name: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor that a source starts from, such as "journey"; LedgerError for an unknown name."""
    try:
        return torch.tensor(_ledger()["inputs"][name], dtype=dtype)
    except KeyError:
        raise LedgerError(
            f"the ledger has no inputs {name!r}; it has {', '.join(_ledger()['inputs'])}"
        ) from None


def check(id: str, ours: object, *, corpus: str | None = None) -> None:
    """Assert that `ours` (a tensor, or nested lists) rounds to what row `id` prints; print ours.

    A row that needs tiny Shakespeare takes the name of the corpus in use, and is skipped, by name,
    when that is another one. LedgerError for an unknown id, an erratum, a wrong shape, or a wrong
    number (showing the first that differ).
    """
    entry = row(id)
    if entry["kind"] == "erratum":
        raise LedgerError(f"{id} is an erratum: use erratum, which asks for what is right too")
    if entry.get("needs_corpus") and corpus != CORPUS:
        print(f"skipped: {id} needs {CORPUS}, and the corpus here is {corpus}")
        return
    count = _compare(entry, "printed", ours)
    numbers = "1 number" if count == 1 else f"{count} numbers"
    print(f"reproduced: {id} ({source_of(entry)}, {numbers})")
    print(f"  ours: {excerpt(entry, ours)}")


def erratum(id: str, *, printed: object = None, correct: object = None) -> None:
    """Assert that `printed` is what the source prints and `correct` what is right; print both.

    An argument is left out only where the ledger has no such numbers. LedgerError as in `check`.
    """
    entry = row(id)
    if entry["kind"] != "erratum":
        raise LedgerError(f"{id} is no erratum: use check")
    if "printed" not in entry and "correct" not in entry:
        raise LedgerError(
            f"{id}: the ledger has no numbers to assert; give the row `printed` or `correct`"
        )
    for field, ours in (("printed", printed), ("correct", correct)):
        if field in entry and ours is None:
            raise LedgerError(f"{id}: the ledger has numbers called {field!r}")
        if field not in entry and ours is not None:
            raise LedgerError(f"{id}: the ledger has no numbers called {field!r}")
        if ours is not None:
            _compare(entry, field, ours)
    print(f"reproduced: {id} ({source_of(entry)}, an erratum)\n{story(entry)}")


def source_of(entry: dict, *, whole: bool = False) -> str:
    """The short name of a row's source, or all that the ledger says of it."""
    source = _ledger()["sources"][entry["id"].split("-")[0]]
    return source if whole else source.split(",")[0].split(" (")[0]


def story(entry: dict) -> str:
    """An erratum in lines: what the source says and prints, the cause, what is right."""
    printed, correct = where_they_differ(entry)
    gives = "gives" if entry.get("derived") else "printed"
    lines = {"says": entry["what"], gives: printed, "cause": entry["why"], "right": correct}
    lines["that is" if correct else "right"] = entry.get("correct_in_words")
    wrapper = textwrap.TextWrapper(96, initial_indent="  ", subsequent_indent=" " * 11)
    paragraphs = [f"{name + ':':9}{text}" for name, text in lines.items() if text]
    return "\n".join(map(wrapper.fill, paragraphs))


def numerals(entry: dict, numbers: object) -> list[list[str]]:
    """Numbers as rows of texts, rounded as the source prints them; what is no table is one row."""
    table = torch.as_tensor(numbers, dtype=torch.float64, device="cpu").detach()
    if table.dim() < 2:
        table = table.flatten()[None]
    digits = f".{entry.get('decimals', 4)}f"
    if "significant" in entry:
        digits = f".{entry['significant'] - 1}e"
    return [[f"{number:z{digits}}" for number in row] for row in table.flatten(end_dim=-2).tolist()]


def excerpt(entry: dict, numbers: object) -> str:
    """The numbers in one line; of a table its shape and last row (a causal one begins 1, 0, 0)."""
    shape = tuple(torch.as_tensor(numbers).shape)
    row = numerals(entry, numbers)[-1][-8:]
    if math.prod(shape) == len(row):
        return " ".join(row)
    place = "last row" if len(shape) > 1 else "last 8"
    return f"{shape}, {place}: {' '.join(row)}"


def where_they_differ(entry: dict) -> tuple[str, ...]:
    """The printed and the right numbers as text: of a table, the first row in which they differ."""
    printed = torch.tensor(entry.get("printed", []), dtype=torch.float64)
    correct = torch.tensor(entry.get("correct", []), dtype=torch.float64)
    place = ""
    if printed.dim() > 1 and printed.shape == correct.shape:
        printed, correct = printed.flatten(end_dim=-2), correct.flatten(end_dim=-2)
        wrong = ~torch.isclose(printed, correct, rtol=0, atol=1e-9).all(dim=1)
        first = int(wrong.nonzero()[0])
        place = f"row {first + 1}: " if len(printed) > 1 else ""
        printed, correct = printed[first], correct[first]
    if "correct_in_words" in entry and printed.shape != correct.shape:
        correct = torch.empty(0)  # other numbers than the printed ones: the words say which
    texts = []
    for numbers in (printed, correct):
        text = " ".join(number for row in numerals(entry, numbers) for number in row)
        texts.append(place + text if text else "")
    return tuple(texts)


def _compare(entry: dict, field: str, ours: object) -> int:
    """How many numbers `ours` are; LedgerError unless they round to the row's."""
    id = entry["id"]
    printed = torch.tensor(entry[field], dtype=torch.float64)
    ours = torch.as_tensor(ours, dtype=torch.float64, device="cpu").detach()
    if ours.shape != printed.shape:
        raise LedgerError(
            f"{id}: the shape is {tuple(ours.shape)}, the source prints {tuple(printed.shape)}"
        )
    close = (ours - printed).abs() <= _tolerance(entry, printed)  # NaN is never close
    both_nan = ours.isnan() & printed.isnan()  # but equal where the source prints NaN
    wrong = ~(close | (ours == printed) | both_nan)
    if wrong.any():
        places = map(tuple, wrong.nonzero()[:3].tolist())
        first = [f"at {place}: source {printed[place]:g}, ours {ours[place]:g}" for place in places]
        raise LedgerError(
            f"{id}: {int(wrong.sum())} of {printed.numel()} numbers differ; {'; '.join(first)}"
        )
    return printed.numel()


def _tolerance(entry: dict, printed: Tensor) -> Tensor:
    """How far off each number may be: `tolerance`, or `units` of its last printed digit."""
    if "tolerance" in entry:
        return torch.full_like(printed, entry["tolerance"])
    unit = torch.full_like(printed, 10.0 ** -entry.get("decimals", 4))
    if "significant" in entry:
        exponent = printed.abs().log10().floor().nan_to_num(neginf=0.0)
        unit = 10 ** (exponent + 1 - entry["significant"])
    return torch.tensor(entry.get("units", 0.501), dtype=torch.float64) * unit
