"""Settings are checked where they enter: a config when it is made, the options of a command when it is called.

What a value may be stands in its annotation, and pydantic checks it. All that goes wrong is one ConfigError, in one
sentence. Functions behind these doors check nothing.
"""

import functools
import reprlib
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic
from pydantic import ConfigDict, Field, ValidationError

from helpers.support.errors import ConfigError

STRICT = ConfigDict(
    strict=True, extra="forbid", arbitrary_types_allowed=True
)  # True is no number, and "3" is none either

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]  # how many of something there are
Width = Annotated[int, Field(ge=1, le=16_384)]  # of a matrix or a context; a square matrix of it takes 1 GB
Steps = Annotated[int, Field(ge=0, le=1_000_000_000)]  # a number of steps; 0 is allowed
Length = Annotated[int, Field(ge=0, le=100_000_000)]  # like Count, but 0 is allowed, and less because each takes memory
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]  # what torch.Generator takes
Share = Annotated[float, Field(ge=0, lt=1)]  # of dropout: all of it would leave nothing
Part = Annotated[float, Field(gt=0, le=1)]  # of something, and not nothing
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

C = TypeVar("C")
F = TypeVar("F", bound=Callable)


@dataclass_transform(frozen_default=True)
def settings(kind: type[C]) -> type[C]:
    """A frozen dataclass whose fields are checked when it is made; ConfigError for the first that doesn't fit."""
    checked: Any = pydantic.dataclasses.dataclass(frozen=True, config=STRICT)(kind)
    checked.__init__ = _in_one_sentence(checked.__init__)
    return checked


def options(function: F) -> F:
    """Check the arguments of a function that a person calls; ConfigError for the first that doesn't fit."""
    return _in_one_sentence(pydantic.validate_call(config=STRICT)(function))


def _in_one_sentence(function: Any) -> Any:
    @functools.wraps(function)
    def told(*arguments, **named):
        try:
            return function(*arguments, **named)
        except ValidationError as problem:
            raise ConfigError(_sentence(problem)) from None

    return told


def _sentence(problem: ValidationError) -> str:
    """The first thing that is wrong: which setting, what it may be, and what it is."""
    first = problem.errors()[0]
    if "error" in first.get("ctx", {}):  # raised by a __post_init__, and a sentence already
        return str(first["ctx"]["error"])
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"{name} is missing"
    return f"{name}: {first['msg'].lower()}, not {reprlib.repr(first['input'])}"
