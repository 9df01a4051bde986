"""Calls that can't go wrong unseen: bad values are refused in one sentence, and a model gets its modes back.

What a value may be stands in its annotation, and nowhere else:

    @checked
    def get_batch(tokens: Integer[Tensor, "N"], batch_size: Count, ...)

Calling it with batch_size=0 raises ConfigError: batch_size must be a whole number from 1 to 1,000,000,000, not 0.
"""

import functools
import inspect
import math
import reprlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from helpers.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`; `without` one of the two where the end itself is not allowed."""

    low: float
    high: float
    without: tuple[float, ...] = ()

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high and number not in self.without

    def __str__(self) -> str:
        low, high = (f"{Decimal(str(end)):,f}" for end in (self.low, self.high))  # 0.000001 and not 1e-06
        if not self.without:
            return f"from {low} to {high}"
        start = f"above {low}" if self.low in self.without else f"of at least {low}"
        if self.high == math.inf:
            return start
        return f"{start} and {'below' if self.high in self.without else 'at most'} {high}"


Count = Annotated[int, Range(1, 1_000_000_000)]  # how many of something there are
Width = Annotated[int, Range(1, 16_384)]  # of a matrix or a context; a square matrix of it takes 1 GB
Steps = Annotated[int, Range(0, 1_000_000_000)]  # a number of steps; 0 is allowed
Length = Annotated[int, Range(0, 100_000_000)]  # like Count, but 0 is allowed, and less because each one takes memory
Seed = Annotated[int, Range(0, 2**63 - 1)]  # what torch.Generator takes
Share = Annotated[float, Range(0, 1, without=(1,))]  # of dropout: all of it would leave nothing
Positive = Annotated[float, Range(0, math.inf, without=(0, math.inf))]
NotNegative = Annotated[float, Range(0, math.inf, without=(math.inf,))]


def checked(target: T) -> T:
    """Decorate a function or a class: ConfigError, in one sentence, for an argument that its annotation excludes.

    It looks at numbers (an int passes for a float, a bool for neither, NaN never), strings, bools, tuples, dicts,
    generators and tensors (their number type and number of dimensions), and at unions of these; other annotations are
    left alone.
    """
    if inspect.isclass(target):
        target.__init__ = checked(target.__init__)
        return target
    function: Any = target
    signature, hints = inspect.signature(function), None

    @functools.wraps(function)
    def guarded(*arguments, **named):
        nonlocal hints
        hints = hints or get_type_hints(function, include_extras=True)
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            raise ConfigError(f"{function.__qualname__.removesuffix('.__init__')}: {error}") from None
        for name, value in bound.arguments.items():
            if name in hints and not _fits(value, hints[name]):
                raise ConfigError(f"{name} must be {_describe(hints[name])}, not {_show(value)}")
        return function(*arguments, **named)

    return cast(T, guarded)


def _fits(value: object, annotation: Any) -> bool:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _fits(value, inner[0]) and value in inner[1]
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in inner)
    if annotation in (int, float):
        number = isinstance(value, (int, annotation)) and not isinstance(value, bool)
        return number and abs(value) <= sys.float_info.max  # NaN is not, nor is 10**400
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(_fits, value, inner))
    if inspect.isclass(origin):  # list[...], Callable[...] and the like: what is inside is not looked at
        return isinstance(value, origin)
    if hasattr(annotation, "array_type"):  # one of jaxtyping's
        return isinstance(value, annotation)
    return not inspect.isclass(annotation) or isinstance(value, annotation)


def _describe(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return f"{_describe(inner[0])} {inner[1]}"
    if origin in (Union, types.UnionType):
        *most, last = map(_describe, inner)
        return f"{', '.join(most)} or {last}"
    if origin is tuple:
        return f"a pair of {_describe(inner[0])}" if len(inner) == 2 else f"{len(inner)} values"
    if hasattr(annotation, "array_type"):
        kinds = "whole numbers" if not any("float" in str(d) for d in annotation.dtypes) else "floats"
        return f"a tensor of {kinds} with the dimensions ({annotation.dim_str})"
    names = {int: "a whole number", float: "a number", str: "a text", bool: "True or False", types.NoneType: "None"}
    return names.get(annotation) or f"a {getattr(annotation, '__name__', annotation)}"


def _show(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    return reprlib.repr(value)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards each layer is in its own mode again, even after an error."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside, for tensors so small that waking the others takes longer than the work; then as before."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
