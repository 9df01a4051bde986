"""Where the value of an expression in a notebook comes from: a computation, the ledger's own rows, or literals."""

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

OWN_VALUES = {"row", "rows", "story", "source_of"}
# What only hands on, or spells out, what it is given.
PLAIN_FUNCTIONS = frozenset(
    {"Tensor", "arange", "array", "as_tensor", "asarray", "bool", "cat", "copy", "deepcopy", "dict", "empty", "eye",
     "float", "full", "inputs", "int", "iter", "linspace", "list", "literal_eval", "loads", "max", "min", "next",
     "ones", "range", "reversed", "round", "set", "sorted", "stack", "str", "tensor", "tuple", "zeros", "zip"}
)  # fmt: skip
PLAIN_METHODS = frozenset(
    {"bool", "clone", "contiguous", "copy", "cpu", "detach", "double", "expand", "flatten", "float", "format", "get",
     "int", "item", "items", "join", "keys", "long", "numpy", "pop", "requires_grad_", "reshape", "round", "split",
     "squeeze", "strip", "t", "to", "tolist", "type", "unsqueeze", "values", "view"}
)  # fmt: skip


@dataclass(frozen=True)
class Value:
    """Where a value comes from."""

    computed: bool = False  # from a computation, not only from literals and the ledger's inputs
    varies: bool = False  # a computation has a say in it, if only by choosing among literals
    own: bool = False  # from the rows of the ledger
    setting: bool = False  # from the cell of parameters, so that it may be another one
    numbers: frozenset[float] = frozenset()  # that are written out on the way
    function: ast.AST | None = None

    def touched_by(self, *others: Self) -> Self:
        """The same, after others have had a say in it."""
        values = [self, *others]
        varies = self.computed or any(value.varies for value in values)
        numbers = frozenset().union(*(value.numbers for value in values))
        return replace(self, varies=varies, own=any(value.own for value in values), numbers=numbers)


def mixed(values: Iterable[Value], computed: bool | None = None) -> Value:
    """A value made of all of them together."""
    values = list(values)
    if computed is None:
        computed = any(value.computed for value in values)
    return Value(computed, setting=any(value.setting for value in values)).touched_by(*values)


def either(*values: Value) -> Value:
    """A value that may be any of them: computed only when all are."""
    return mixed(values, computed=bool(values) and all(value.computed for value in values))


COMPUTED = Value(computed=True, varies=True)


def root(node: ast.AST) -> str | None:
    """The name that x.y[0].z() begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def ledger_call(node: ast.AST) -> str | None:
    """What of the ledger is called here: "check" for ledger.check(...)."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="ledger"), attr=attr)):
            return attr
    return None


def numbers_in(constant: object) -> frozenset[float]:
    if isinstance(constant, str | bytes):
        text = constant if isinstance(constant, str) else constant.decode("latin-1")
        return frozenset(float(number) for number in re.findall(r"\d+\.?\d*(?:e[-+]?\d+)?", text))
    if isinstance(constant, bool) or not isinstance(constant, int | float):
        return frozenset()
    return frozenset([float(constant)])


class Expressions:
    """Where an expression's value comes from; the Reader, in notebook_code, has the names and reads the statements."""

    def bind(self, target: ast.expr, source: ast.expr | None, value: Value) -> None:
        match target:
            case ast.Name(id=name):
                self.env[name] = value
            case ast.Starred(value=inner):
                self.bind(inner, None, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                parts = getattr(source, "elts", [])
                for place, inner in enumerate(targets):
                    one_each = len(parts) == len(targets)
                    self.bind(inner, *((parts[place], self.value(parts[place])) if one_each else (None, value)))
            case ast.Subscript() | ast.Attribute() if (name := root(target)) in self.env:
                whole = isinstance(target, ast.Attribute) and target.attr == "data"
                whole |= isinstance(target, ast.Subscript) and ast.unparse(target.slice) in (":", "...")
                old = self.env[name]
                filled = replace(old, computed=old.computed or value.computed)
                self.env[name] = value.touched_by(old) if whole else filled.touched_by(value)

    def ingredients(self, node: ast.AST) -> Value:
        local = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        local |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
        parts = [Value(numbers=numbers_in(n.value)) for n in ast.walk(node) if isinstance(n, ast.Constant)]
        parts += [Value(own=True) for n in ast.walk(node) if ledger_call(n) in OWN_VALUES]
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - local
        parts += [replace(self.env[name], function=None) for name in sorted(names & self.env.keys())]
        return mixed(parts, computed=False)

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=constant):
                return Value(numbers=numbers_in(constant))
            case ast.Name(id=name):
                return self.env.get(name, Value())
            case ast.Lambda():
                return replace(self.ingredients(node), function=node)
            case ast.Call():
                return self.call(node)
            case ast.Attribute(value=inner) | ast.Starred(value=inner) | ast.UnaryOp(operand=inner):
                return replace(self.value(inner), function=None)
            case ast.FormattedValue(value=inner) | ast.Await(value=inner):
                return self.value(inner)
            case ast.Subscript(value=inner, slice=index):
                return replace(self.value(inner), function=None).touched_by(self.value(index))
            case ast.NamedExpr(target=target, value=inner):
                self.bind(target, inner, self.value(inner))
                return self.value(inner)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return either(*map(self.value, parts))
            case ast.Dict(keys=keys, values=values):
                return either(*map(self.value, values)).touched_by(*(self.value(key) for key in keys if key))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return either(self.value(body), self.value(orelse)).touched_by(self.value(test))
            case ast.BoolOp(values=values):
                return either(*map(self.value, values))
            case ast.BinOp(left=left, op=op, right=right):
                both = mixed([self.value(left), self.value(right)])
                return replace(both, computed=True) if isinstance(op, ast.MatMult) else both
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                before = dict(self.env)
                for generator in node.generators:
                    self.bind(generator.target, None, self.value(generator.iter))
                made = self.value(node.value if isinstance(node, ast.DictComp) else node.elt)
                self.env = before
                return replace(made, varies=True, function=None)
        parts = [self.value(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return mixed(parts)

    def call(self, node: ast.Call) -> Value:
        given = [self.value(argument) for argument in (*node.args, *(k.value for k in node.keywords))]
        if ledger_call(node) in OWN_VALUES:
            return replace(COMPUTED, own=True)
        function = self.value(node.func)
        called = function.function
        if isinstance(called, ast.FunctionDef | ast.Lambda):
            return self.result(called, node, given).touched_by(function, *given)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if isinstance(node.func, ast.Attribute) and (has_call(node.func) or root(node.func) not in self.imported):
            receiver = self.value(node.func.value)
            computed = receiver.computed if name in PLAIN_METHODS else True
            return replace(mixed([receiver, *given], computed), varies=True)
        if name in PLAIN_FUNCTIONS:
            return mixed(given)
        return mixed([function, *given], computed=True)

    def result(self, function: ast.FunctionDef | ast.Lambda, call: ast.Call, given: list[Value]) -> Value:
        """What a function of the notebook returns for these arguments."""
        if function in self.active:
            return COMPUTED
        with self.inside(function):
            names = [a.arg for a in arguments(function)]
            self.env |= dict.fromkeys(names, mixed(given))
            if not any(isinstance(a, ast.Starred) for a in call.args):
                self.env |= dict(zip(names, given[: len(call.args)], strict=False))
            self.env |= {k.arg: self.value(k.value) for k in call.keywords if k.arg}
            if isinstance(function, ast.Lambda):
                return self.value(function.body)
            self.block(function.body, False)
            return either(*self.returned) if self.returned else COMPUTED

    @contextmanager
    def inside(self, function: ast.AST) -> Iterator[None]:
        before = self.env, self.returned, self.active, self.objections, self.assertions
        self.env, self.returned, self.active = dict(self.env), [], [*self.active, function]
        self.objections, self.assertions = [], []  # they were noted where it is defined
        try:
            yield
        finally:
            self.env, self.returned, self.active, self.objections, self.assertions = before


def has_call(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


def arguments(function: ast.FunctionDef | ast.Lambda) -> list[ast.arg]:
    a = function.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
