"""Runs a notebook's cells in this process and looks over the shoulder of its ledger calls and its assertions."""

import ast
import copy
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, permutations

import matplotlib.pyplot as plt
import pytest
import torch
from nbformat import NotebookNode
from notebook_code import cells, is_setting
from torch import Tensor, nn

from helpers.errors import LedgerError
from helpers.pictures import plotting
from helpers.world import ledger


@dataclass
class Run:
    """What came of it. An assertion is known by its cell and its text."""

    reproduced: set[str] = field(default_factory=set)  # ids of rows
    deaf: set[str] = field(default_factory=set)  # ids of rows whose numbers may be others, and the call still passes
    evaluated: set[str] = field(default_factory=set)
    breakable: set[str] = field(default_factory=set)  # assertions that fail when something they rest on is another
    assertions: set[str] = field(default_factory=set)
    needs_corpus: set[str] = field(default_factory=set)  # of the assertions, those about a text that we know


def run(notebook: NotebookNode, parameters: dict, monkeypatch, *, only: tuple[str, ...] = (), spared: str = "") -> Run:
    """Run all cells in order, or `only` those with these ids (which know the parameters from the start), with other
    `parameters`.

    The notebook sees a ledger in which every number is another one, but for the row that is `spared`: who hands the
    ledger its own values hands over wrong ones.
    """
    seen, true = Run(), ledger._ledger()
    scope = {"__name__": "notebook"} | (parameters if only else {})
    others = tampered(true, {row["id"] for row in true["row"]} - {spared}, ("printed", "correct"))
    monkeypatch.setattr(ledger, "check", watched(ledger.check, true, seen))
    monkeypatch.setattr(ledger, "erratum", watched(ledger.erratum, true, seen))
    monkeypatch.setattr(ledger, "_ledger", lambda: others)
    monkeypatch.setattr(plotting, "display", lambda *_, **__: None)
    watcher = Watcher(seen)
    scope[watcher.NAME] = watcher.watch
    for cell in [cell for cell in cells(notebook) if cell.id in only or not only]:
        watcher.cell = cell.id
        tree = ast.fix_missing_locations(watcher.visit(ast.parse(cell.source)))
        exec(compile(tree, cell.id, "exec"), scope)
        if is_setting(cell):
            scope |= parameters
    plt.close("all")
    return seen


# ---------------------------------------------------------------- the ledger, and others
def watched(call, true: dict, seen: Run):
    """`call`, which must pass with the true ledger, and must not when the row's numbers are others."""

    def each_ledger(id: str, *ours: object, **named: object) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ledger, "_ledger", lambda: true)
            call(id, *ours, **named)
            if "corpus" in named and named["corpus"] != ledger.CORPUS:
                return
            seen.reproduced.add(id)
            for name in {"printed", "correct"} & ledger.row(id).keys():
                other = tampered(true, {id}, (name,))
                patch.setattr(ledger, "_ledger", lambda other=other: other)
                try:
                    call(id, *ours, **named)
                    seen.deaf.add(id)
                except LedgerError:
                    pass

    return each_ledger


def tampered(true: dict, ids: set[str], names: tuple[str, ...]) -> dict:
    """A ledger that differs in every number called so in these rows: by three units of its last digit, or five."""
    other = copy.deepcopy(true)
    for row in [row for row in other["row"] if row["id"] in ids]:
        for name in set(names) & row.keys():
            numbers = torch.tensor(row[name], dtype=torch.float64)
            units = 10.0 ** -row.get("decimals", 4)
            if "significant" in row:
                units = 10 ** (numbers.abs().log10().floor() + 1 - row["significant"])
            change = (3 if name == "printed" else 5) * (units + row.get("tolerance", 0.0))
            row[name] = (numbers.nan_to_num(0.0, 0.0, 0.0) + change).tolist()
    return other


# ---------------------------------------------------------------- assertions, and what they rest on
class Watcher(ast.NodeTransformer):
    """Puts a look at its names before each assertion."""

    NAME = "__watch__"
    KNOWN_TEXTS = frozenset({"corpus", "known_text", "as_published"})

    def __init__(self, seen: Run):
        self.seen, self.cell, self.guards = seen, "", []
        self.tests: dict[str, types.CodeType] = {}
        self.names: dict[str, list[str]] = {}
        self.texts: dict[str, list[str]] = {}

    def visit_If(self, node: ast.If) -> ast.If:
        self.guards.append(node.test)
        self.generic_visit(node)
        self.guards.pop()
        return node

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        key = f"{self.cell}: assert {ast.unparse(node.test)}"
        names = [n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)]
        about = {n.id for test in self.guards for n in ast.walk(test) if isinstance(n, ast.Name)}
        self.seen.assertions.add(key)
        if self.KNOWN_TEXTS & (about | set(names)):
            self.seen.needs_corpus.add(key)
        self.tests[key] = compile(ast.Expression(node.test), key, "eval")
        self.names[key] = sorted(set(names))
        constants = [n.value for n in ast.walk(node.test) if isinstance(n, ast.Constant)]
        self.texts[key] = [constant for constant in constants if isinstance(constant, str)]
        look = ast.parse(f"{self.NAME}({key!r}, {{**globals(), **locals()}})").body
        return [*look, node]

    def watch(self, key: str, scope: dict) -> None:
        """Note that it is evaluated, and whether it fails when one of the names in it has another value."""
        self.seen.evaluated.add(key)
        if key in self.seen.breakable:
            return
        with torch.random.fork_rng(devices=[]):
            for name, other in self.others(key, scope):
                try:
                    holds = eval(self.tests[key], {**scope, name: other})
                except Exception:  # not a fair trial: it could not be evaluated at all
                    continue
                if not holds:
                    self.seen.breakable.add(key)
                    return

    def others(self, key: str, scope: dict) -> Iterator[tuple[str, object]]:
        """A name of the assertion, and another value for it: a variation, another name's, or one written in it."""
        names = [name for name in self.names[key] if name in scope]
        for name in names:
            yield from ((name, other) for other in islice(variations(scope[name]), 64))
        for one, two in permutations(names, 2):
            if type(scope[one]) is type(scope[two]):
                yield one, scope[two]
        yield from ((name, text) for name in names if isinstance(scope[name], str) for text in self.texts[key])


def variations(value: object) -> Iterator[object]:
    """Other values of the same type and shape."""
    match value:
        case bool():
            yield not value
        case int():
            yield from (value + 1, value - 1, 3 * value + 7, -value)
        case float():
            yield from (value + 1, -value, 3 * value + 7, value / 1000)
        case str():
            yield from (value + "?", value[::-1])
        case nn.Module():
            yield from other_modules(value)
            yield from with_other_attributes(value)
        case Tensor() if value.dtype == torch.bool:
            yield from (~value, torch.zeros_like(value), torch.ones_like(value))
        case Tensor():
            yield from (value + 1, -value, 3 * value + 7, torch.zeros_like(value))
            yield from (value.flip(0),) if value.dim() else ()
            if value.numel() > 1:
                other = value.detach().clone()
                other.view(-1)[0] += 1
                yield other
        case list() | tuple():
            if type(value) in (list, tuple):
                yield from (value[::-1], value[1:], value[:1] * len(value))
            for place in {0, len(value) - 1} if value else ():
                for part in variations(value[place]):
                    make = getattr(value, "_make", type(value))  # a named tuple's
                    yield make([*value[:place], part, *value[place + 1 :]])
        case dict():
            for key in islice(value, 4):
                yield from ({**value, key: part} for part in islice(variations(value[key]), 16))
        case set():
            yield value | {"another"}
        case types.FunctionType():
            for place in range(6):
                yield lambda *given, place=place, **named: list(variations(value(*given, **named)))[place]
        case _ if hasattr(value, "__dict__") and not isinstance(value, type | types.ModuleType):
            yield from with_other_attributes(value)


def with_other_attributes(value: object) -> Iterator[object]:
    for name, part in vars(value).items():
        for other_part in variations(part) if not isinstance(part, dict) else ():
            other = copy.copy(value)
            object.__setattr__(other, "__dict__", {**vars(value), name: other_part})
            yield other


def other_modules(module: nn.Module) -> Iterator[nn.Module]:
    plain = copy.copy(module)
    # A tensor that belongs to a graph can't be copied.
    free = {name: part.detach() if isinstance(part, Tensor) else part for name, part in vars(module).items()}
    object.__setattr__(plain, "__dict__", free)
    other = copy.deepcopy(plain).train(not module.training)
    yield other
    other.register_parameter("another", nn.Parameter(torch.ones(1)))
    yield other.to_empty(device="cpu").train(module.training)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.normal_()
    yield other
