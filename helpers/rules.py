"""What a setting may be, as a test and in the words of the error that says so."""

import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from helpers.errors import ConfigError


class Rule(NamedTuple):
    """What a setting may be, as a test and in words."""

    allows: Callable[[Any], bool]
    words: str


def require(settings: Any, names: str, rule: Rule) -> None:
    """ConfigError if one of the named settings breaks the rule.

    require(config, "n_layer n_head", whole(1, 8)): "n_layer must be a whole number from 1 to 8, not 0"
    """
    for name in names.split():
        value = getattr(settings, name)
        try:
            allowed = rule.allows(value)
        except (TypeError, ValueError):  # a number where several are asked for, say
            allowed = False
        if not allowed:
            text = " ".join(repr(value).split())[:100]
            raise ConfigError(f"{name} must be {rule.words}, not {text}")


def whole(least: int, most: float = math.inf) -> Rule:
    """Whole numbers from `least` to `most`. (True is no number here.)"""
    words = f"of at least {least}" if most == math.inf else f"from {least} to {most:,}"
    return Rule(lambda x: type(x) is int and least <= x <= most, f"a whole number {words}")


def at_least(least: float, below: float = math.inf) -> Rule:
    """Numbers from `least` on; those from `below` on are too large."""
    words = f"a number of at least {least}" + (f" and below {below}" if below < math.inf else "")
    return Rule(lambda x: isinstance(x, int | float) and least <= x < below, words)


SHARE = Rule(lambda p: 0 < p <= 1, "a number above 0 and at most 1")
SEED = Rule(whole(0, 2**63 - 1).allows, "a whole number from 0 to 2^63 - 1")


def one_of(names: Collection[str]) -> Rule:
    return Rule(lambda name: name in list(names), f"one of {', '.join(names)}")


def optional(rule: Rule) -> Rule:
    """The rule, or None."""
    return Rule(lambda x: x is None or rule.allows(x), rule.words)
