"""What the numbers of a table depend on, for the comment lines at its top.

The code is named by a digest of the functions and classes that compute, wherever they stand. So a file may move, and a
docstring or a message may be reworded: the digest stays. A formula that changes, changes it.
"""

import ast
import functools
import hashlib
import inspect
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from helpers.errors import ConfigError, RunError
from helpers.tables import Line, read_table

ROOT = Path(__file__).resolve().parents[1]


# ---------------------------------------------------------------- comment lines
def made_by(command: str) -> str:
    """The first comment line: the command, and the commit."""
    changed = " with uncommitted changes" if _git("status", "--porcelain", "helpers", "tools") else ""
    return f"made by: {command}, at commit {_git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}"


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    except OSError:  # there is no git
        return ""


def read_growing(path: Path, comments: list[str]) -> list[Line]:
    """The lines of the table that grows at `path`; RunError when it was made under other `comments`.

    The first comment may differ: it names the commit.
    """
    if not path.exists():
        return []
    found, lines = read_table(path)
    if differing := [comment for comment in found[1:] if comment not in comments]:
        raise RunError(f"{path} has runs of another state ({'; '.join(differing)}): go back to it, or move them away")
    return lines


# ---------------------------------------------------------------- settings
def digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()


def written(value: object) -> str:
    """A setting as text: the same text for equal settings, in every process."""
    if isinstance(value, functools.partial):
        return f"{written(value.func)} with {written(value.args)} {written(value.keywords)}"
    if isinstance(value, FunctionType | type):
        return value.__qualname__
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{written(key)}: {written(part)}" for key, part in value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(written(part) for part in value) + "]"
    if is_dataclass(value):
        return f"{type(value).__name__} {written({f.name: getattr(value, f.name) for f in fields(value)})}"
    return repr(value)


# ---------------------------------------------------------------- code
def sources(*start: object, packages: Iterable[str] = ("helpers",)) -> list[str]:
    """The source of all functions and classes that `start` leads to, and the constants that they read.

    From each of them the way goes on to every name in its source that stands for something of the `packages`.
    """
    found: dict[object, str] = {}
    constants: set[str] = set()
    waiting = [code for value in start for code in _code_in(value)]
    while waiting:
        code = waiting.pop()
        if code in found:
            continue
        tree = _without_words(_definition(code))
        found[code] = ast.unparse(tree)
        for name, value in _names(tree, code, packages):
            waiting += [other for other in _code_in(value) if _package(other) in packages]
            if isinstance(value, int | float | str | tuple | dict):
                constants.add(f"{name} = {written(value)}")
    return [*found.values(), *constants]


def _package(thing: Any) -> str:
    name = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    return str(name).split(".")[0]


def _code_in(value: object) -> Iterator[Any]:
    """The functions and classes that a value is, or is made of."""
    if isinstance(value, FunctionType | type):
        yield inspect.unwrap(value)
        return
    parts: Iterable[object] = ()
    if isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
    elif isinstance(value, property):
        parts = (value.fget,)
    elif isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    elif is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    for part in parts:
        yield from _code_in(part)


def _definition(code: Any) -> ast.AST:
    """The syntax tree of a function or class, found by its name in the file where it stands."""
    node: Any = _parsed(Path(inspect.getfile(code)).read_text("utf-8"))
    for name in code.__qualname__.split("."):
        node = next((child for child in node.body if getattr(child, "name", None) == name), None)
        if node is None:
            raise ConfigError(f"{code.__qualname__} has no name of its own in its file: write a function, not a lambda")
    return node


@functools.cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _without_words(node: ast.AST) -> ast.AST:
    """A copy without comments, docstrings and the messages of errors: they compute nothing."""
    return _WithoutWords().visit(ast.parse(ast.unparse(node)))


class _WithoutWords(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_docstring = isinstance(node.value, ast.Constant)
        return None if is_docstring else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise()


def _names(tree: ast.AST, code: Any, packages: Iterable[str]) -> Iterator[tuple[str, object]]:
    """What the names in the source of `code` stand for: in its module, in modules of ours, and in `self`'s class."""
    module = sys.modules[code.__module__]
    owner, _, method = code.__qualname__.partition(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and hasattr(module, node.id):
            yield node.id, getattr(module, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = owner if method and node.value.id == "self" else node.value.id
            place = getattr(module, name, None)
            ours = isinstance(place, ModuleType | type) and _package(place) in {*packages, _package(code)}
            if ours and hasattr(place, node.attr):
                yield node.attr, getattr(place, node.attr)
