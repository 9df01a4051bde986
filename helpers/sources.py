"""The ledger: every number that the classic sources print, carried as data, and the check that we print it too."""

import functools
import tomllib
from pathlib import Path

import torch
from torch import Tensor

from helpers.errors import LedgerError

LEDGER = Path(__file__).parent / "assets" / "sources.toml"
CORPUS = "tiny Shakespeare"


@functools.cache
def _ledger() -> dict:
    return tomllib.loads(LEDGER.read_text(encoding="utf-8"))


def rows() -> list[dict]:
    """All rows, in order: id, stage (the notebook), what, kind ("exact" or "erratum"), values, correct, why."""
    return _ledger()["row"]


def row(id: str) -> dict:
    """The row called `id`; LedgerError when there is none."""
    for candidate in rows():
        if candidate["id"] == id:
            return candidate
    raise LedgerError(f"the ledger has no row {id!r}; its rows are {', '.join(r['id'] for r in rows())}")


def inputs(name: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor that a source starts from, such as "journey"; LedgerError for an unknown name."""
    try:
        return torch.tensor(_ledger()["inputs"][name], dtype=dtype)
    except KeyError:
        raise LedgerError(f"the ledger has no inputs {name!r}; it has {', '.join(_ledger()['inputs'])}") from None


def reproduces(id: str, ours: object, *, field: str = "values", corpus: str | None = None) -> None:
    """Assert that `ours` (a tensor, or nested lists) rounds to what the source prints in row `id`; print one line.

    `field="correct"` compares with the right numbers of an erratum instead of the printed ones. A row that needs tiny
    Shakespeare takes the name of the corpus in use, and is skipped, by name, when that is another one. LedgerError for
    an unknown id, a row without such numbers, a wrong shape, or a wrong number (showing the first that differ).
    """
    entry = row(id)
    if field not in entry:
        raise LedgerError(f"{id}: the row has no numbers called {field!r}")
    if entry.get("needs_corpus") and corpus != CORPUS:
        print(f"skipped: {id} needs {CORPUS}, and the corpus here is {corpus}")
        return
    printed = torch.tensor(entry[field], dtype=torch.float64)
    ours = torch.as_tensor(ours).detach().to("cpu", torch.float64)
    if ours.shape != printed.shape:
        raise LedgerError(f"{id}: the shape is {tuple(ours.shape)}, the source prints {tuple(printed.shape)}")
    wrong = ~((ours - printed).abs() <= _tolerance(entry, printed))  # so that NaN is wrong
    if wrong.any():
        first = [f"at {place}: source {printed[place]:g}, ours {ours[place]:g}" for place in _places(wrong)[:3]]
        raise LedgerError(f"{id}: {int(wrong.sum())} of {printed.numel()} numbers differ; {'; '.join(first)}")
    source = _ledger()["sources"][id.split("-")[0]].split(",")[0].split(" (")[0]
    numbers = f"{printed.numel()} number{'s' if printed.numel() > 1 else ''}"
    print(f"reproduced: {id} ({source}, {numbers}{', the right ones' if field == 'correct' else ''})")


def _tolerance(entry: dict, printed: Tensor) -> Tensor:
    """How far off each number may be: `tolerance`, or `units` of its last printed digit (half a one, and noise)."""
    if "tolerance" in entry:
        return torch.full_like(printed, entry["tolerance"])
    unit = torch.full_like(printed, 10.0 ** -entry.get("decimals", 4))
    if "significant" in entry:
        exponent = printed.abs().log10().floor().nan_to_num(neginf=0.0)
        unit = 10 ** (exponent + 1 - entry["significant"])
    return entry.get("units", 0.51) * unit


def _places(wrong: Tensor) -> list[tuple[int, ...]]:
    return [tuple(place) for place in wrong.nonzero().tolist()]
