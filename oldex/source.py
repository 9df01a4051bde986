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

from helpers.errors import ConfigError

ALLOWED = {"torch"} | sys.stdlib_module_names  # the file should run wherever PyTorch is


Names = dict[str, Any]


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

    def add(self, name: str, value: Any, around: Names | None = None) -> None:
        """Put `value` and all that it uses into what is found; `around` has the names among which it is used."""
        if name in self.begun:
            return
        self.begun.add(name)
        namespace = _namespace(value, around)
        if namespace is None:
            raise ConfigError(f"`{name}` should be written with `def` or `class`")
        own, source, text = _definition(name, value, namespace)
        if own != name:  # it was made under another name
            self.add(own, value, namespace)
            source = f"{name} = {own}"
        for used in sorted(names_used(source) - {name, own}):
            if used in namespace and not used.startswith("__"):
                self._need(used, namespace[used], namespace, text)
        self.found.parts[name] = source

    def _need(self, name: str, value: Any, namespace: Names, text: str) -> None:
        """Whatever a definition refers to by this name."""
        ours = f"`{name}` is ours: in your file stands what you wrote yourself, so call your own"
        if _is_own(value, namespace):
            self.add(name, value, namespace)
            return
        for package, statement in _bindings(name, value, namespace, text):
            if package == "helpers":
                raise ConfigError(ours)
            if package not in ALLOWED:
                raise ConfigError(f"`{name}` comes from {package}: your file should need nothing but PyTorch")
            self.found.imports.add(statement)
            return
        if _is_constant(value):
            self.found.parts.setdefault(name, f"{name} = {_literal(value)}")
        elif isinstance(value, (type, types.FunctionType)):
            if name not in self.known:
                raise ConfigError(ours)
        elif getattr(builtins, name, None) is not value:
            raise ConfigError(f"`{name}` is a value of this notebook: hand it over as an argument, or make it inside")


def _definition(name: str, value: Any, namespace: Names) -> tuple[str, str, str]:
    """The name under which `value` was made, the statement that made it, and the cell in which it stands."""
    own = getattr(inspect.unwrap(value), "__name__", name)
    names = [own, name, *(other for other, known in namespace.items() if known is value)]
    for candidate in names:
        for text in _texts(value, namespace):
            for node in reversed(_body(text)):
                if defined_in(node) == candidate and (candidate == own or namespace.get(candidate) is value):
                    return candidate, written(node, text), text
    raise ConfigError(f"the source of `{name}` can't be found: write it in a cell of the notebook")


def _functions(value: Any) -> list[types.FunctionType]:
    """The function, or those of a class, that somebody has written: what Python makes itself has no lines."""
    inside = [*vars(value).values()] if isinstance(value, type) else [value]
    found = [inspect.unwrap(each) for each in inside if callable(each)]
    functions = [each for each in found if isinstance(each, types.FunctionType)]
    return [each for each in functions if linecache.getlines(each.__code__.co_filename)]


def _texts(value: Any, namespace: Names) -> list[str]:
    """Where its source may stand: in the cells of its functions, and in all that have run."""
    cells = ["".join(linecache.getlines(each.__code__.co_filename)) for each in _functions(value)]
    return [*cells, *reversed(namespace.get("In", []))]


def _namespace(value: Any, around: Names | None) -> Names | None:
    """The global names that a function, or a class, can see; None for what is neither."""
    if not isinstance(inspect.unwrap(value) if callable(value) else value, (type, types.FunctionType)):
        return None
    functions = _functions(value)
    if isinstance(value, type):  # its functions may be another class's
        functions = [each for each in functions if each.__globals__.get("__name__") == value.__module__]
    if functions:
        return functions[0].__globals__
    return around or vars(sys.modules.get(getattr(value, "__module__", ""), types)) or None


def _is_own(value: Any, namespace: Names) -> bool:
    """Was it written in this notebook?"""
    if isinstance(value, type):
        return value.__module__ == namespace.get("__name__")
    return callable(value) and getattr(inspect.unwrap(value), "__globals__", None) is namespace


def _bindings(name: str, value: Any, namespace: Names, text: str) -> Iterator[tuple[str, str]]:
    """The imports that bind `name`, in its own cell and in those that have run before: package and statement."""
    for cell in [text, *reversed(namespace.get("In", []))]:
        for bound, package, statement in imports_of(ast.Module(_body(cell), [])):
            module = statement.removeprefix("from ").partition(" ")[0]
            if bound == name:
                yield package, statement
            elif bound == "*" and getattr(sys.modules.get(module), name, None) is value:
                yield package, statement.replace("*", name)


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
