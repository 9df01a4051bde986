"""Settings are checked where they enter: a config when it is made, the options of a command when it is called.

What a value may be stands in its annotation, and pydantic checks it. The first value that doesn't fit becomes a
ConfigError of one sentence: "steps must be at least 1, not 0". Functions behind these doors check nothing.
"""

import functools
import inspect
import reprlib
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic
from pydantic import ConfigDict, Field, ValidationError

from helpers.support.errors import ConfigError

# Strict: True is no number, and "3" is none either.
STRICT = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]  # how many of something there are
Width = Annotated[int, Field(ge=1, le=16_384)]  # of a matrix or a context; a square matrix of it takes 1 GB
Steps = Annotated[int, Field(ge=0, le=1_000_000_000)]  # a number of steps; 0 is allowed
Length = Annotated[int, Field(ge=0, le=100_000_000)]  # like Count, but 0 is allowed, and less because each takes memory
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]  # what torch.Generator takes
Share = Annotated[float, Field(ge=0, lt=1)]  # of dropout: all of it would leave nothing
Part = Annotated[float, Field(gt=0, le=1)]  # of something, and not nothing
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

# What a value must be, by the name of pydantic's error.
WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "bool_type": "True or False",
    "literal_error": "{expected}",
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "tuple_type": "a tuple",
    "too_long": "a tuple of {max_length}",
    "dict_type": "a dict",
    "is_instance_of": "a {class}",
}

C = TypeVar("C")
F = TypeVar("F", bound=Callable)


@dataclass_transform(frozen_default=True)
def settings(kind: type[C]) -> type[C]:
    """A frozen dataclass whose fields are checked when it is made; ConfigError for the first that doesn't fit."""
    checked: Any = pydantic.dataclasses.dataclass(frozen=True, config=STRICT)(kind)
    checked.__init__ = _in_one_sentence(checked.__init__, names=list(inspect.signature(checked).parameters))
    return checked


def options(function: F) -> F:
    """Check the arguments of a function that a person calls; ConfigError for the first that doesn't fit."""
    checked: Any = pydantic.validate_call(config=STRICT)(function)
    return _in_one_sentence(checked, names=list(inspect.signature(function).parameters))


def _in_one_sentence(function: Any, names: list[str]) -> Any:
    @functools.wraps(function)
    def told(*arguments, **named):
        try:
            return function(*arguments, **named)
        except ValidationError as problem:
            raise ConfigError(_sentence(problem, names)) from None

    return told


def _sentence(problem: ValidationError, names: list[str]) -> str:
    """The first thing that is wrong: which setting, what it must be, and what it is."""
    first = problem.errors()[0]
    kind = first["type"]
    context = first.get("ctx", {})
    if "error" in context:  # raised by a __post_init__, and a sentence already
        return str(context["error"])
    name = _name(first["loc"], names)
    if kind in ("missing", "missing_argument"):
        return f"{name} is missing"
    if kind not in WANTED:  # a setting that there isn't, or one that is given twice
        return f"{name}: {first['msg'].lower()}"
    wanted = WANTED[kind].format(**{word: _plain(value) for word, value in context.items()})
    given = " ".join(reprlib.repr(first["input"]).split())  # of a tensor, several lines
    return f"{name} must be {wanted}, not {given}"


def _name(place: tuple[int | str, ...], names: list[str]) -> str:
    """The setting, and which part of it: betas[1]."""
    setting, *inside = place
    if isinstance(setting, int):  # it was given by its place
        setting = names[setting] if setting < len(names) else f"argument {setting + 1}"
    return setting + "".join(f"[{part}]" for part in inside)


def _plain(value: Any) -> str:
    """A bound as people write it: 1,000,000 and 0.000001."""
    return f"{Decimal(str(value)).normalize():,f}" if isinstance(value, (int, float)) else str(value)
