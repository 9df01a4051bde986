"""The source of an answer: its definition and what that uses, so that no lesson trains again."""

import ast
import copy
import functools
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from IPython.core.inputtransformer2 import TransformerManager

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
SCOPES = (*DEFINITIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
CERTAIN = (*DEFINITIONS, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)  # they surely bind
COMPREHENSIONS = ("listcomp", "setcomp", "dictcomp", "genexpr")


@dataclass
class Statement:
    """A statement at the top of a cell: its source, and the names that it deals with."""

    source: str
    package: bool = False  # it is an import
    binds: set[str] = field(default_factory=set)  # for sure
    changes: set[str] = field(default_factory=set)  # what is bound already, or is bound perhaps
    calls: set[str] = field(default_factory=set)  # whose methods it calls: `names.append(x)`
    now: set[str] = field(default_factory=set)  # read when it runs
    later: set[str] = field(default_factory=set)  # read when its functions are called
    checks: dict[str, str] = field(default_factory=dict)  # `exercises.check(label, expression)`


@functools.lru_cache(maxsize=10_000)  # most cells of most notebooks are the lesson's own
def statements(cell: str) -> list[Statement]:
    """What IPython makes of a cell. SyntaxError or another error if it makes nothing."""
    code = TransformerManager().transform_cell(cell)
    found = []
    for node in ast.parse(code).body:
        if isinstance(node, ast.Import | ast.ImportFrom):  # one by one: an answer needs few of them
            parts = [copy.copy(node) for _ in node.names]
            for part, alias in zip(parts, node.names, strict=True):
                part.names = [alias]
        else:
            parts = [node]
        found += [_statement(part, code) for part in parts]
    return found


def _statement(node: ast.stmt, code: str) -> Statement:
    package = isinstance(node, ast.Import | ast.ImportFrom)
    whole = not package and not getattr(node, "decorator_list", [])
    source = str(ast.get_source_segment(code, node)) if whole else ast.unparse(node)
    made = Statement(source, package)
    made.now, made.later = names_read(source)
    binds = made.binds if isinstance(node, CERTAIN) else made.changes
    for each in _here(node):
        if isinstance(each, DEFINITIONS):
            binds.add(each.name)
        elif isinstance(each, ast.alias):
            binds.add(each.asname or each.name.partition(".")[0])
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            binds.add(each.id)
        elif isinstance(each, ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Store):
            made.changes.add(_root(each))
        elif isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
            made.calls.add(_root(each.value.func))
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            _called(each.func.attr, [*each.args, *(word.value for word in each.keywords)], made)
    return made


def _called(method: str, given: list[ast.expr], made: Statement) -> None:
    """Note a check, or what stands below a magic: whether that is run, IPython knows."""
    texts = [each.value for each in given if isinstance(each, ast.Constant)]
    if method == "check" and len(given) == 2 and texts:
        made.checks[str(texts[0])] = ast.unparse(given[1])
    elif method in ("run_cell_magic", "run_line_magic") and texts:
        try:
            below = statements(str(texts[-1]))
        except Exception:  # %%bash
            return
        for each in below:
            made.changes |= each.binds | each.changes | each.calls
            made.now, made.later = made.now | each.now, made.later | each.later
            made.checks |= each.checks


def _here(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all in it, but not inside of what it defines."""
    yield node
    if not isinstance(node, SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _here(child)


def _root(node: ast.AST) -> str:
    """The name that `a.b[c].d` begins with, if it does."""
    whole = node
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) and node is not whole else ""


def names_read(source: str) -> tuple[set[str], set[str]]:
    """The global names that are read when this code runs, and those when its functions do."""
    now, later = set(), set()
    waiting = [(symtable.symtable(source, "<cell>", "exec"), False)]
    while waiting:
        table, called = waiting.pop()
        function = table.get_type() == "function" and table.get_name() not in COMPREHENSIONS
        called = called or function
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (top or symbol.is_global()):
                (later if called else now).add(symbol.get_name())
        waiting += [(child, called) for child in table.get_children()]
    return now, later


def needed(expression: str, among: Sequence[Statement]) -> tuple[str, set[str]]:
    """The source of what an expression needs where these have run, and the names that none binds.

    Read backwards: what binds or changes a wanted name is needed, and so is what it reads. What
    functions read is wanted at the end, where they are called.
    """
    bound = {name for each in among for name in each.binds | each.changes}
    packages = {name for each in among if each.package for name in each.binds}
    at_the_end = set.union(*names_read(expression))
    while True:
        wanted, needed_later, chosen = set(at_the_end), set(at_the_end), []
        for each in reversed(among):
            if wanted & (each.binds | each.changes | each.calls - packages) or "*" in each.binds:
                chosen.append(each.source)
                wanted = (wanted - each.binds) | each.now
                needed_later |= each.later
        if needed_later == at_the_end:
            return "\n\n".join(reversed(chosen)), wanted - bound
        at_the_end = needed_later
