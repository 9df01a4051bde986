"""How pytest checks annotations at run time: beartype, which here takes an int for a float.

jaxtyping asks for the check of a stub: a function's name and annotations, without its body. One
that is defined inside another comes again at every call, so equal stubs share one check; that of a
stub with other annotations is its own.
"""

from collections.abc import Callable
from types import FunctionType

from beartype import BeartypeConf, beartype

_beartyped = beartype(conf=BeartypeConf(is_pep484_tower=True))
_checked: dict[tuple, Callable] = {}


def check(stub: FunctionType) -> Callable:
    # By identity: equal is not the same, as with 1 and True in a Literal. The check keeps its
    # annotations alive.
    annotations = tuple((name, id(annotation)) for name, annotation in stub.__annotations__.items())
    key = stub.__module__, stub.__qualname__, stub.__code__, annotations
    if key not in _checked:
        _checked[key] = _beartyped(stub)
    return _checked[key]
