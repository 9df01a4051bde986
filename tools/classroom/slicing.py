"""What an answer needs of its notebook, and nothing else: no training of a lesson runs again, no print, no check.

A notebook is taken apart into statements. Those that an answer is made of are found by the names that they bind and
use; they are put together in their order. What stands behind an answer's check comes second: only what is defined
nowhere before it is taken from there.
"""

import ast
import re
import symtable
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

MAGIC = re.compile(r"^\s*[%!?].*$", re.M)
ORDINARY = {"torch", "math", "numpy", "collections", "itertools", "functools", "typing", "random", "dataclasses"}
COMPREHENSIONS = ("listcomp", "setcomp", "dictcomp", "genexpr")
DOORS = ("exec", "eval", "open", "compile", "globals", "vars", "breakpoint", "input")
BEHIND = re.compile(r"__(?!init__|name__|call__|len__|getitem__|iter__|repr__|post_init__|class__)\w+__")


@dataclass(frozen=True)
class Statement:
    """A statement at the top of a cell: its source, and the names that it binds, changes and reads."""

    text: str
    binds: frozenset[str]
    changes: frozenset[str]  # `MyGPT.forward = f` and `x.append(1)` change what is bound already
    at_once: frozenset[str]  # the names that it needs when it is run
    later: frozenset[str]  # and those that its functions need when they are called


@dataclass(frozen=True)
class Broken:
    """A cell that is no Python, and why."""

    text: str
    why: str


@dataclass(frozen=True)
class Slice:
    """The source of an answer with all that it needs, and what a teacher may want to look at in it."""

    source: str
    unusual: tuple[str, ...] = ()


def statements(cells: Sequence[str]) -> list[Statement]:
    """The statements of these cells in their order; a cell that is no Python has none."""
    return list(chain.from_iterable(map(_of_cell, cells)))


def broken(cells: Sequence[str]) -> list[Broken]:
    """The cells that are no Python."""
    found = []
    for cell in cells:
        try:
            ast.parse(_plain(cell))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
            message = error.msg if isinstance(error, SyntaxError) else str(error)
            found.append(Broken(cell, f"{line}{message}"))
    return found


def _plain(cell: str) -> str:
    """A cell without IPython's magic; one that is magic as a whole is empty."""
    try:
        ast.parse(cell)
        return cell  # a line of it may begin with % and be none
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "" if cell.lstrip().startswith("%%") else MAGIC.sub("", cell)


def _of_cell(cell: str) -> list[Statement]:
    text = _plain(cell)
    try:
        tree = ast.parse(text)
        return [part for node in tree.body for part in _parts(node, text)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _parts(node: ast.stmt, text: str) -> Iterable[Statement]:
    if isinstance(node, ast.Import | ast.ImportFrom):  # one by one: an answer needs few of them
        for alias in node.names:
            one = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], 0)
            name = alias.asname or alias.name.partition(".")[0]
            yield Statement(ast.unparse(one), frozenset({name}), frozenset(), frozenset(), frozenset())
        return
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    source = "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    if text.splitlines()[first - 1][: node.col_offset].strip() or not _alone(source):
        source = ast.unparse(node)  # several in a line
    definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    binds = {node.name} if definition else set(_bound(node))
    at_once, later = _reads(source)
    yield Statement(source, frozenset(binds), frozenset(_changed(node)), frozenset(at_once), frozenset(later))


def _alone(source: str) -> bool:
    try:
        return len(ast.parse(source).body) == 1
    except SyntaxError:
        return False


def _bound(node: ast.stmt) -> Iterable[str]:
    """The names that a statement binds, in its branches too, but not inside of what it defines."""
    waiting: list[ast.AST] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield each.name
            continue
        if isinstance(each, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
        if isinstance(each, ast.alias):
            yield each.asname or each.name.partition(".")[0]
        waiting.extend(ast.iter_child_nodes(each))


def _reads(source: str) -> tuple[set[str], set[str]]:
    """The global names that a statement reads when it is run, and those that its functions read when called."""
    top = symtable.symtable(source, "<part>", "exec")
    at_once = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    later: set[str] = set()
    waiting = [(table, False) for table in top.get_children()]
    while waiting:
        table, called = waiting.pop()
        called = called or (table.get_type() == "function" and table.get_name() not in COMPREHENSIONS)
        found = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
        if called:
            later |= found
        else:
            at_once |= found
        waiting += [(each, called) for each in table.get_children()]
    return at_once, later


def _changed(node: ast.stmt) -> Iterable[str]:
    targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        targets.append(value.func)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    for target in targets:
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
            if isinstance(target, ast.Name):
                yield target.id


# ---------------------------------------------------------------- what one answer needs
def slice_for(name: str, cells: Sequence[str], before: int, ours: Sequence[Statement] = ()) -> Slice | None:
    """The source that defines `name`, as it stands before the cell with the number `before`; None if nothing does.

    `ours` stands in for what other notebooks have asked for: it is used by what needs it, and is no answer.
    """
    numbered = [(place, each) for place, cell in enumerate(cells) for each in _of_cell(cell)]
    own = [each for _, each in numbered]
    end = sum(place < before for place, _ in numbered)
    if not any(name in each.binds for each in own):
        return None
    all_of_them = [*ours, *own]
    chosen: set[int] = set()
    waiting = [(name, len(ours) + end)]
    seen = set()
    while waiting:
        wanted, limit = waiting.pop()
        if (wanted, limit) in seen:
            continue
        seen.add((wanted, limit))
        for place in _definitions(wanted, all_of_them, limit):
            chosen.add(place)
            each = all_of_them[place]
            waiting += [(used, place) for used in each.at_once]
            waiting += [(used, len(ours) + end) for used in each.later]
    source = "\n\n".join(all_of_them[place].text for place in sorted(chosen))
    theirs = [all_of_them[place] for place in sorted(chosen) if place >= len(ours)]
    return Slice(source, unusual(each.text for each in theirs))


def _definitions(name: str, among: Sequence[Statement], limit: int) -> list[int]:
    """The last statement before the limit that binds a name, and those after it that change what it is bound to."""
    binding = [place for place, each in enumerate(among) if name in each.binds and name not in each.changes]
    if not binding:  # a star may stand for any name
        return [place for place, each in enumerate(among) if "*" in each.binds and place < limit]
    earlier = [place for place in binding if place < limit]
    first = earlier[-1] if earlier else binding[-1]
    changes = [place for place in range(first + 1, limit) if name in among[place].changes]
    return [first, *changes]


def unusual(texts: Iterable[str]) -> tuple[str, ...]:
    """What answers seldom need: other packages than PyTorch and its like, and names that lead behind the curtain."""
    found = []
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or "."]
            found += [module for module in modules if module.partition(".")[0] not in ORDINARY]
            name = getattr(node, "attr", getattr(node, "id", ""))
            if isinstance(name, str) and (BEHIND.fullmatch(name) or (isinstance(node, ast.Name) and name in DOORS)):
                found.append(name)
    return tuple(dict.fromkeys(found))
