"""What a notebook's syntax tree says: does each call of the ledger, and each assertion, rest on something computed?

A notebook is read from top to bottom, cell by cell. For each name we keep where its value comes from: from a
computation, from the ledger's own rows, and which numbers are written out on the way. Nothing is run. Whoever means to
cheat can still hide a number well enough; what this refuses is every short cut that one takes or leaves behind.
"""

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from notebook_values import COMPUTED, Expressions, Value, arguments, either, has_call, ledger_call, mixed, root

PATHS = sorted((Path(__file__).parents[1] / "notebooks").glob("[0-9]*.ipynb"))
BY_NAME = {path.stem: nbformat.read(path, as_version=4) for path in PATHS}
LESSONS = {name: notebook for name, notebook in BY_NAME.items() if name != "15_blank_page"}  # which proves nothing

MAY_BE_USED = {"check", "erratum", "inputs", "row", "rows", "story", "source_of"}
BACK_DOORS = {"eval", "exec", "compile", "globals", "locals", "vars", "setattr", "delattr", "__import__", "get_ipython"}
BACK_DOOR_MODULES = {"builtins", "ctypes", "gc", "helpers", "importlib", "inspect", "sys", "tomllib", "unittest"}
COMPARES = {"allclose", "close", "equal", "isclose"}
OVERWRITES = {"copy_", "fill_", "set_", "zero_"}


def cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_setting(cell: NotebookNode) -> bool:
    return "parameters" in cell.metadata.get("tags", [])


class Reader(Expressions):
    """Reads a notebook; `calls` are its sound ledger calls, by id, `objections` what is wrong, in sentences."""

    def __init__(self, notebook: NotebookNode, rows: dict[str, dict]):
        self.rows, self.env, self.imported = rows, {}, set()
        self.calls: dict[str, list[ast.Call]] = {}
        self.assertions: list[ast.Assert] = []
        self.objections: list[str] = []
        self.sound: set[ast.Call] = set()
        self.active: list[ast.AST] = []  # functions that are being read
        self.returned: list[Value] = []
        for cell in cells(notebook):
            if cell.id == "helpers":  # looks for the package; test_publish holds it to its text
                continue
            self.cell = cell.id
            try:
                tree = ast.parse(cell.source)
            except SyntaxError:
                self.object("is not plain Python")
                continue
            self.guard(tree)
            self.block(tree.body, trusted=True)
            if is_setting(cell):
                self.env = {name: replace(value, setting=True) for name, value in self.env.items()}
            for node in ast.walk(tree):
                if ledger_call(node) in ("check", "erratum") and node not in self.sound:
                    self.object(f"line {node.lineno}: {ast.unparse(node)[:60]} is no plain statement that always runs")

    def object(self, sentence: str) -> None:
        self.objections.append(f"{self.cell}: {sentence}")

    # ------------------------------------------------------------ names that lead around the ledger
    def guard(self, tree: ast.Module) -> None:
        """The ledger is imported once, under its name, only called, and nobody changes it or what is imported."""
        plain = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        owners = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=module, names=names):
                    self.imported |= {alias.asname or alias.name for alias in names}
                    path = (module or "").split(".")
                    renamed = any("ledger" in (a.name, a.asname) and a.asname for a in names)
                    around = path == ["helpers"] and any(alias.name == "world" for alias in names)
                    if "ledger" in path or renamed or around or path[0] in BACK_DOOR_MODULES - {"helpers"}:
                        self.object(f"{ast.unparse(node)}: the ledger goes by its own name")
                    if any(alias.name == "*" for alias in names):
                        self.object(f"{ast.unparse(node)}: what does it import?")
                case ast.Import(names=names):
                    self.imported |= {(alias.asname or alias.name).split(".")[0] for alias in names}
                    if any(alias.name.split(".")[0] in BACK_DOOR_MODULES for alias in names):
                        self.object(f"{ast.unparse(node)}: a way around the ledger")
                case ast.Name(id="ledger") if id(node) not in owners or not isinstance(node.ctx, ast.Load):
                    self.object(f"line {node.lineno}: the ledger under another name, or another ledger")
                case ast.arg(arg="ledger") | ast.FunctionDef(name="ledger") | ast.ClassDef(name="ledger"):
                    self.object(f"line {node.lineno}: another ledger")
                case ast.Name(id=name) if name in BACK_DOORS:
                    self.object(f"line {node.lineno}: {name} can do anything")
                case ast.Attribute(value=ast.Name(id="ledger"), attr=attr):
                    if attr not in MAY_BE_USED or id(node) not in plain:
                        self.object(f"line {node.lineno}: ledger.{attr} is not called, or not for notebooks")
                case ast.Attribute(ctx=ast.Store() | ast.Del()) if root(node) in self.imported:
                    self.object(f"line {node.lineno}: {ast.unparse(node)} is changed, and others use it")
                case ast.Constant(value=str(text)) if "ledger.toml" in text:
                    self.object(f"line {node.lineno}: the file of the ledger")

    # ------------------------------------------------------------ statements
    def block(self, body: list[ast.stmt], trusted: bool) -> None:
        """`trusted`: these statements run whenever the notebook does, as far as one can tell without running it."""
        for statement in body:
            self.statement(statement, trusted)
            if isinstance(statement, ast.Break | ast.Continue | ast.Raise | ast.Return):
                trusted = False  # what follows is never reached

    def statement(self, node: ast.stmt, trusted: bool) -> None:
        match node:
            case ast.Expr(value=call) if ledger_call(call) in ("check", "erratum"):
                self.ledger_statement(call, trusted)
            case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):
                if root(method) == "checks" and self.is_weak(node.value):
                    self.object(f"line {node.lineno}: {ast.unparse(node)[:60]} {self.is_weak(node.value)}")
                self.method_statement(method, node.value)
            case ast.Expr(value=value):
                self.value(value)
            case ast.Assert(test=test):
                self.assertions.append(node)
                if reason := self.is_weak(test):
                    self.object(f"line {node.lineno}: assert {ast.unparse(test)[:60]} {reason}")
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.bind(target, value, self.value(value))
            case ast.AnnAssign(target=target, value=ast.AST() as value):
                self.bind(target, value, self.value(value))
            case ast.AugAssign(target=target, value=value):
                self.bind(target, None, mixed([self.value(target), self.value(value)]))
            case ast.FunctionDef() | ast.ClassDef():
                self.define(node)
            case ast.Return(value=value):
                self.returned.append(self.value(value) if value else Value())
            case ast.If(test=test):
                varies = not self.is_fixed(test)
                self.value(test)
                self.branches([node.body, node.orelse], trusted and varies)
            case ast.For(target=target, iter=iterable):
                self.bind(target, None, replace(self.value(iterable), varies=True))
                self.loop(node.body, trusted and not self.is_empty(iterable))
                self.block(node.orelse, False)
            case ast.While(test=test):
                self.value(test)
                self.loop(node.body, False)
            case ast.With(items=items):
                for item in items:
                    if item.optional_vars:
                        self.bind(item.optional_vars, None, self.value(item.context_expr))
                self.block(node.body, False)
            case ast.Try():
                self.branches([[*node.body, *node.orelse], *(h.body for h in node.handlers)], False)
                self.block(node.finalbody, False)
            case ast.Delete(targets=targets):
                for target in targets:
                    self.env.pop(root(target), None)

    def branches(self, bodies: list[list[ast.stmt]], trusted: bool) -> None:
        before, after = self.env, []
        for body in bodies:
            self.env = dict(before)
            self.block(body, trusted)
            after.append(self.env)
        names = set().union(*after)
        self.env = {name: self.merge([env[name] for env in after if name in env]) for name in names}

    def loop(self, body: list[ast.stmt], trusted: bool) -> None:
        before = dict(self.env)
        self.block(body, trusted)
        for name in before.keys() & self.env.keys():
            self.env[name] = self.env[name].touched_by(before[name])

    @staticmethod
    def merge(values: list[Value]) -> Value:
        return values[0] if len(set(values)) == 1 else either(*values)

    def ledger_statement(self, call: ast.Call, trusted: bool) -> None:
        self.sound.add(call)
        where = f"line {call.lineno}: {ast.unparse(call)[:60]}"
        if not trusted:
            return self.object(f"{where} may not run, or may fail unseen")
        if not call.args or not isinstance(call.args[0], ast.Constant) or call.args[0].value not in self.rows:
            return self.object(f"{where} names no row of this notebook")
        id = call.args[0].value
        row = self.rows[id]
        if ledger_call(call) != ("erratum" if row["kind"] == "erratum" else "check"):
            return self.object(f"{where} is not the call for this kind of row")
        if ("corpus" in [k.arg for k in call.keywords]) != ("needs_corpus" in row) or any(
            ast.unparse(k.value) != "corpus.name" for k in call.keywords if k.arg == "corpus"
        ):
            return self.object(f"{where} does not say which corpus is in use, corpus=corpus.name")
        ours = [*call.args[1:], *(k.value for k in call.keywords if k.arg != "corpus")]
        for value in map(self.value, ours):
            if value.own:
                return self.object(f"{where} hands the ledger its own values")
            if not value.computed:
                return self.object(f"{where} hands over what is written out, not computed")
            if copied := [number for number in value.numbers if is_copied(number, row)]:
                return self.object(f"{where}: {copied[0]:g} is written out on the way to it")
        if not ours:
            return self.object(f"{where} hands over nothing")
        self.calls.setdefault(id, []).append(call)
        return None

    def method_statement(self, method: ast.Attribute, call: ast.Call) -> None:
        """x.append(y), x.copy_(y): what comes in is in x from now on."""
        given = [self.value(argument) for argument in (*call.args, *(k.value for k in call.keywords))]
        name, value = root(method.value), self.value(call)
        if name in self.env and name not in self.imported:
            old = self.env[name]
            if method.attr in OVERWRITES and isinstance(method.value, ast.Name):
                self.env[name] = mixed(given).touched_by(old)
            elif method.attr in ("append", "extend", "insert", "add", "update"):
                self.env[name] = replace(mixed([old, *given]), function=old.function)
            else:
                self.env[name] = old.touched_by(*given, value)

    def define(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        """A function or class counts as what its body, without its own names, is made of."""
        before, calls = dict(self.env), (self.returned, self.active)
        self.returned, self.active = [], [*self.active, node]
        if isinstance(node, ast.FunctionDef):
            self.env |= {a.arg: COMPUTED for a in arguments(node)}
        self.block(node.body, False)
        self.env, (self.returned, self.active) = before, calls
        self.env[node.name] = replace(self.ingredients(node), function=node)

    # ------------------------------------------------------------ tests that test nothing
    def is_fixed(self, test: ast.expr) -> bool:
        """Is it true, or false, whatever is computed and whatever the settings are?"""
        if isinstance(test, ast.BoolOp):
            return any(self.is_fixed(part) for part in test.values)
        value = self.value(test)
        return not (value.varies or value.setting)

    @staticmethod
    def is_empty(iterable: ast.expr) -> bool:
        text = ast.unparse(iterable)
        return text in ("[]", "()", "''", "{}") or bool(re.fullmatch(r"range\((0|-\d+|0, 0)\)", text))

    def is_weak(self, test: ast.expr) -> str:
        """Why an assertion can't fail, as far as one sees it without running it, or nothing."""
        if isinstance(test, ast.Tuple | ast.List | ast.Dict | ast.Lambda | ast.JoinedStr):
            return "is always true: a display is no test"
        if self.is_fixed(test):
            return "tests nothing that is computed"
        for node in ast.walk(test):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in COMPARES:
                sides = node.args
            texts = [ast.unparse(side) for side in sides if not has_call(side)]
            if len(set(texts)) < len(texts):
                return "compares something with itself"
        return ""


def is_copied(number: float, row: dict) -> bool:
    """Does a number that is written out show the digits of one of the row's (of three digits and more)?"""
    return any(same_digits(number, printed) for field in ("printed", "correct") for printed in flat(row.get(field, [])))


def flat(numbers: object) -> Iterator[float]:
    if isinstance(numbers, list):
        for part in numbers:
            yield from flat(part)
    else:
        yield float(numbers)


def same_digits(number: float, printed: float) -> bool:
    if not math.isfinite(printed) or not math.isfinite(number) or not number:
        return False
    digits = f"{printed:.10g}".lstrip("-0.").partition("e")[0].replace(".", "").rstrip("0")
    if len(digits) < (5 if printed.is_integer() else 3):  # small whole numbers are everywhere
        return False
    mantissa = f"{abs(number):.15e}".partition("e")[0].replace(".", "")
    return abs(int(mantissa[: len(digits) + 1]) - 10 * int(digits)) <= 5


def proofs(notebook: NotebookNode) -> int:
    """How many assertions, checks and ledger calls it has, exercises left out."""
    nodes = [node for cell in cells(notebook) for node in ast.walk(ast.parse(cell.source))]
    calls = [node.func for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    named = [(ast.unparse(func.value), func.attr) for func in calls]
    checks = sum(owner == "checks" and not attr.startswith("exercise") for owner, attr in named)
    ledger = sum(owner == "ledger" and attr in ("check", "erratum") for owner, attr in named)
    return checks + ledger + sum(isinstance(node, ast.Assert) for node in nodes)


def objections(notebook: NotebookNode, rows: list[dict]) -> list[str]:
    """What is wrong with the ledger calls for these rows, and with the assertions, in sentences."""
    reader = Reader(notebook, {row["id"]: row for row in rows})
    missing = [f"no sound call for {row['id']}" for row in rows if row["id"] not in reader.calls]
    return reader.objections + missing
