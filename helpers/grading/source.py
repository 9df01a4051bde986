"""The source of an answer, with all that it needs to run alone: what the reader wrote around it, and its imports."""

import ast
import builtins
import inspect
import linecache
import math
import symtable
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from helpers.support.errors import ConfigError

ALLOWED = {"torch"} | sys.stdlib_module_names  # the file should run wherever PyTorch is


@dataclass
class Source:
    """Definitions by their names, what is needed before what needs it, and the imports of all of them."""

    parts: dict[str, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)


def source_of(name: str, answer: Any, known: frozenset[str] = frozenset()) -> Source:
    """The source of a function or class, under this name, with all that it uses.

    `known` are names that are there already: they may come from another file. ConfigError for what can't be kept: a
    value of the notebook, something of this package, a library that isn't PyTorch, and an answer without a source.
    """
    found = Source()
    _Collector(found, known).add(name, answer)
    return found


def names_used(source: str) -> set[str]:
    """The global names that a piece of source refers to."""
    top = symtable.symtable(source, "<part>", "exec")
    used = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    return used | {name for table in top.get_children() for name in _globals_of(table)}


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_global() and symbol.is_referenced():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals_of(inner)


def imports_of(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """The imports of a module: the name that each binds, the package, and the statement."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                yield bound, alias.name.partition(".")[0], ast.unparse(ast.Import([alias]))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                statement = ast.unparse(ast.ImportFrom(node.module, [alias], 0))
                yield alias.asname or alias.name, node.module.partition(".")[0], statement


def defined_in(node: ast.stmt) -> str | None:
    """The name that a statement defines: a function, a class, or a variable."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def written(node: ast.stmt, text: str) -> str:
    """The lines of a statement, with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


class _Collector:
    def __init__(self, found: Source, known: frozenset[str]):
        self.found = found
        self.known = known
        self.begun: set[str] = set()  # two functions may call each other

    def add(self, name: str, value: Any) -> None:
        """Put `value` and all that it uses into what is found."""
        if name in self.begun:
            return
        self.begun.add(name)
        code = _code(value)
        if code is None:
            raise ConfigError(f"`{name}` should be written with `def` or `class`")
        text = "".join(linecache.getlines(code.co_filename))
        namespace = _namespace(value)
        own, source = _definition(name, value, namespace, text)
        if own != name:  # it was made under another name
            self.add(own, value)
            source = f"{name} = {own}"
        for used in sorted(names_used(source) - {name, own}):
            if used in namespace:
                self._need(used, namespace[used], namespace, text)
        self.found.parts[name] = source

    def _need(self, name: str, value: Any, namespace: dict[str, Any], text: str) -> None:
        """Whatever a definition refers to by this name."""
        ours = f"`{name}` is ours: in your file stands what you wrote yourself, so call your own"
        for _, package, statement in _bindings(name, namespace, text):
            if package == "helpers":
                raise ConfigError(ours)
            if package not in ALLOWED:
                raise ConfigError(f"`{name}` comes from {package}: your file should need nothing but PyTorch")
            self.found.imports.add(statement)
            return
        if _code(value) is not None and not isinstance(value, types.ModuleType):
            if _namespace(value) is namespace:
                self.add(name, value)
            elif name not in self.known:
                raise ConfigError(ours)
        elif _is_constant(value):
            self.found.parts.setdefault(name, f"{name} = {_literal(value)}")
        elif getattr(builtins, name, None) is not value:
            raise ConfigError(f"`{name}` is a value of this notebook: hand it over as an argument, or make it inside")


def _definition(name: str, value: Any, namespace: dict[str, Any], text: str) -> tuple[str, str]:
    """The statement that made `value`, and the name that it has there."""
    own = inspect.unwrap(value).__name__
    names = [own, name, *(other for other, known in namespace.items() if known is value)]
    for candidate in names:
        for node in reversed(_body(text)):
            if defined_in(node) == candidate and (candidate == own or namespace.get(candidate) is value):
                return candidate, written(node, text)
    raise ConfigError(f"the source of `{name}` can't be found: write it in a cell of the notebook")


def _code(value: Any) -> types.CodeType | None:
    """The code of a function, or that of a method of a class."""
    if isinstance(value, type):
        inside = [vars(value).get("__init__"), vars(value).get("forward"), *vars(value).values()]
        for method in inside:
            if isinstance(method, types.FunctionType):
                return inspect.unwrap(method).__code__
        return None
    return getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None


def _namespace(value: Any) -> dict[str, Any]:
    """The global names that a function, or the methods of a class, can see."""
    if isinstance(value, type):
        methods = [method for method in vars(value).values() if isinstance(method, types.FunctionType)]
        return inspect.unwrap(methods[0]).__globals__
    return inspect.unwrap(value).__globals__


def _bindings(name: str, namespace: dict[str, Any], text: str) -> Iterator[tuple[str, str, str]]:
    """The imports that bind `name`: in its own cell, and in those that have run before."""
    for cell in [text, *reversed(namespace.get("In", []))]:
        for found in imports_of(ast.Module(_body(cell), [])):
            if found[0] == name:
                yield found


def _body(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError:  # a cell that never ran
        return []


def _literal(value: Any) -> str:
    """A constant as Python writes it: infinity and NaN have no literal."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' * (len(value) == 1)})"
    return f'float("{value}")' if isinstance(value, float) and not math.isfinite(value) else repr(value)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return value is None or isinstance(value, (bool, int, float, str))
