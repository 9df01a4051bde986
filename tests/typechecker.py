"""How pytest checks every annotation of helpers/ at run time: beartype, which here takes an int for a float.

jaxtyping asks for the check of a stub: a function's name and annotations, without its body. One that is defined inside
another comes again at every call, so equal stubs share one check; that of a stub with other annotations is its own.

What jaxtyping adds, that T is one number in all annotations of a call, costs far more than the check itself: binding
every argument to its name. Functions without a shape are beartype's alone, and those without any annotation nobody's.
"""

import functools
import inspect
from collections.abc import Callable
from types import FunctionType

import jaxtyping
from beartype import BeartypeConf, beartype

_beartyped = beartype(conf=BeartypeConf(is_pep484_tower=True))
_checked: dict[tuple, Callable] = {}
_with_shapes = jaxtyping.jaxtyped


def check(stub: FunctionType) -> Callable:
    # By identity: equal is not the same, as with 1 and True in a Literal. The check keeps its annotations alive.
    annotations = tuple((name, id(annotation)) for name, annotation in stub.__annotations__.items())
    key = stub.__module__, stub.__qualname__, stub.__code__, annotations
    if key not in _checked:
        _checked[key] = _beartyped(stub)
    return _checked[key]


def _needs_jaxtyping(function: FunctionType) -> bool:
    shapes = any("jaxtyping" in repr(annotation) for annotation in function.__annotations__.values())
    asks = function.__module__ == "helpers.guards"  # by isinstance, for the shapes of another call
    made_often = "<locals>" in function.__qualname__  # `check` knows it already
    return shapes or asks or made_often or inspect.isgeneratorfunction(function)  # whose call is not its run


def jaxtyped(*, typechecker: Callable) -> Callable:
    """What jaxtyping's import hook decorates everything with."""

    def decorate(target):
        if inspect.isclass(target) and hasattr(target.__init__, "__wrapped__"):
            return target  # guards.checked looks at its arguments
        if inspect.isfunction(target) and not target.__annotations__:
            return target
        if not inspect.isfunction(target) or _needs_jaxtyping(target):  # a dataclass, a property, ...
            return _with_shapes(target, typechecker=typechecker)
        checked = _beartyped(target)

        @functools.wraps(target)
        def call(*arguments, **named):
            return (target if jaxtyping.config.jaxtyping_disable else checked)(*arguments, **named)

        return call

    return decorate


jaxtyping.jaxtyped = jaxtyped
