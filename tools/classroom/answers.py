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
    result = []
    for node in ast.parse(code).body:
        if isinstance(node, ast.Import | ast.ImportFrom):  # one by one: an answer needs few of them
            parts = [copy.copy(node) for _ in node.names]
            for part, alias in zip(parts, node.names, strict=True):
                part.names = [alias]
        else:
            parts = [node]
        result += [_statement(part, code) for part in parts]
    return result


def _statement(node: ast.stmt, code: str) -> Statement:
    package = isinstance(node, ast.Import | ast.ImportFrom)
    whole = not package and not getattr(node, "decorator_list", [])
    source = str(ast.get_source_segment(code, node)) if whole else ast.unparse(node)
    statement = Statement(source, package)
    statement.now, statement.later = names_read(source)
    binds = statement.binds if isinstance(node, CERTAIN) else statement.changes
    for child in _here(node):
        if isinstance(child, DEFINITIONS):
            binds.add(child.name)
        elif isinstance(child, ast.alias):
            binds.add(child.asname or child.name.partition(".")[0])
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            binds.add(child.id)
        elif isinstance(child, ast.Attribute | ast.Subscript) and isinstance(child.ctx, ast.Store):
            statement.changes.add(_root(child))
        elif isinstance(child, ast.Expr) and isinstance(child.value, ast.Call):
            statement.calls.add(_root(child.value.func))
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            _called(child.func.attr, [*child.args, *(word.value for word in child.keywords)], statement)
    return statement


def _called(method: str, arguments: list[ast.expr], statement: Statement) -> None:
    """Note a check, or what stands below a magic: whether that is run, IPython knows."""
    texts = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
    if method == "check" and len(arguments) == 2 and texts:
        statement.checks[str(texts[0])] = ast.unparse(arguments[1])
    elif method in ("run_cell_magic", "run_line_magic") and texts:
        try:
            below = statements(str(texts[-1]))
        except Exception:  # %%bash
            return
        for inner in below:
            statement.changes |= inner.binds | inner.changes | inner.calls
            statement.now, statement.later = statement.now | inner.now, statement.later | inner.later
            statement.checks |= inner.checks


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
        table, deferred = waiting.pop()
        function = table.get_type() == "function" and table.get_name() not in COMPREHENSIONS
        deferred = deferred or function
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (top or symbol.is_global()):
                (later if deferred else now).add(symbol.get_name())
        waiting += [(child, deferred) for child in table.get_children()]
    return now, later


def needed(expression: str, among: Sequence[Statement]) -> tuple[str, set[str]]:
    """The source of what an expression needs where these have run, and the names that none binds.

    Read backwards: what binds or changes a wanted name is needed, and so is what it reads. What
    functions read is wanted at the end, where they are called.
    """
    bound = {name for statement in among for name in statement.binds | statement.changes}
    packages = {name for statement in among if statement.package for name in statement.binds}
    at_the_end = set.union(*names_read(expression))
    while True:
        names, needed_later, sources = set(at_the_end), set(at_the_end), []
        for statement in reversed(among):
            if names & (statement.binds | statement.changes | statement.calls - packages) or "*" in statement.binds:
                sources.append(statement.source)
                names = (names - statement.binds) | statement.now
                needed_later |= statement.later
        if needed_later == at_the_end:
            return "\n\n".join(reversed(sources)), names - bound
        at_the_end = needed_later
