"""What a setting may be: a value that doesn't fit becomes a sentence, and nothing else happens."""

import math
from dataclasses import FrozenInstanceError, asdict, replace
from typing import Annotated, Any, Literal

import pytest
import torch
from pydantic import Field

from helpers.errors import ConfigError
from helpers.support.guards import Count, Length, NotNegative, Part, Positive, Seed, Share, Width, options, settings


@settings
class Settings:
    batch: Count
    steps: Count = 1
    rate: Positive = 1.0
    decay: NotNegative = 0.0
    dropout: Share = 0.0
    part: Part = 1.0
    seed: Seed = 0
    betas: tuple[Share, Share] = (0.9, 0.99)
    windows: tuple[tuple[Part, Width], ...] = ()
    fast: bool = False
    name: str = ""
    device: Annotated[str, Field(min_length=1)] = "cpu"
    kind: Literal["round", "square"] = "round"
    temperature: Annotated[float, Field(ge=1e-6, allow_inf_nan=False)] = 1.0
    limit: Count | None = None

    def __post_init__(self):
        assert isinstance(self.steps, int)  # only what fits comes this far
        if self.steps % self.batch:
            raise ConfigError(f"batch={self.batch} does not divide steps={self.steps}")


TABLE = [
    ({"steps": 0}, "steps must be at least 1, not 0"),
    ({"steps": -1}, "steps must be at least 1, not -1"),
    ({"steps": 10**10}, "steps must be at most 1,000,000,000, not 10000000000"),
    ({"steps": 2.0}, "steps must be a whole number, not 2.0"),
    ({"steps": True}, "steps must be a whole number, not True"),
    ({"steps": None}, "steps must be a whole number, not None"),
    ({"steps": "3"}, "steps must be a whole number, not '3'"),
    ({"steps": math.nan}, "steps must be a whole number, not nan"),
    ({"steps": math.inf}, "steps must be a whole number, not inf"),
    ({"steps": 1j}, "steps must be a whole number, not 1j"),
    ({"steps": torch.tensor(3)}, "steps must be a whole number, not tensor(3)"),
    ({"rate": 0}, "rate must be above 0, not 0"),
    ({"rate": math.nan}, "rate must be a finite number, not nan"),
    ({"rate": math.inf}, "rate must be a finite number, not inf"),
    ({"rate": 10**400}, "rate must be a number, not 100000000000000000...0000000000000000000"),
    ({"rate": False}, "rate must be a number, not False"),
    ({"rate": "3"}, "rate must be a number, not '3'"),
    ({"rate": [3]}, "rate must be a number, not [3]"),
    ({"decay": -1e-9}, "decay must be at least 0, not -1e-09"),
    ({"dropout": 1.0}, "dropout must be below 1, not 1.0"),
    ({"dropout": math.nan}, "dropout must be below 1, not nan"),
    ({"part": 0.0}, "part must be above 0, not 0.0"),
    ({"part": 1.5}, "part must be at most 1, not 1.5"),
    ({"part": math.nan}, "part must be at most 1, not nan"),
    ({"seed": 2**63}, "seed must be at most 9,223,372,036,854,775,807, not 9223372036854775808"),
    ({"betas": 0.9}, "betas must be a tuple, not 0.9"),
    ({"betas": [0.9, 0.99]}, "betas must be a tuple, not [0.9, 0.99]"),
    ({"betas": (0.9,)}, "betas[1] is missing"),
    ({"betas": (0.9, 0.9, 0.9)}, "betas must be a tuple of 2, not (0.9, 0.9, 0.9)"),
    ({"betas": (0.9, 1.0)}, "betas[1] must be below 1, not 1.0"),
    ({"windows": (3,)}, "windows[0] must be a tuple, not 3"),
    ({"windows": ((0.7, 64), (0.8, 0))}, "windows[1][1] must be at least 1, not 0"),
    ({"fast": 1}, "fast must be True or False, not 1"),
    ({"fast": None}, "fast must be True or False, not None"),
    ({"name": 1}, "name must be a text, not 1"),
    ({"name": b"a"}, "name must be a text, not b'a'"),
    ({"device": ""}, "device must be a text that is not empty, not ''"),
    ({"kind": "flat"}, "kind must be 'round' or 'square', not 'flat'"),
    ({"temperature": 0.0}, "temperature must be at least 0.000001, not 0.0"),
    ({"limit": 0}, "limit must be at least 1, not 0"),
    ({"limit": "0" * 1000}, "limit must be a whole number, not '000000000000...0000000000000'"),
    ({"limit": "\x1b[31m\nred"}, r"limit must be a whole number, not '\x1b[31m\nred'"),
    ({"limit": torch.ones(2, 2)}, "limit must be a whole number, not tensor([[1., ... [1., 1.]])"),
    ({"stepz": 3}, "stepz: unexpected keyword argument"),
    ({"steps": 3, "batch": 2}, "batch=2 does not divide steps=3"),
]


def refusal(call, *arguments: Any, **named: Any) -> str:
    with pytest.raises(ConfigError) as error:
        call(*arguments, **named)
    assert error.value.__suppress_context__  # pydantic's own report, of five lines, is not shown
    return str(error.value)


@pytest.mark.parametrize(("wrong", "sentence"), TABLE, ids=[sentence for _, sentence in TABLE])
def test_what_an_annotation_excludes_gets_one_sentence(wrong, sentence):
    assert refusal(Settings, **{"batch": 1, **wrong}) == sentence
    if "stepz" not in wrong:  # dataclasses.replace looks at names itself
        assert refusal(replace, Settings(1), **wrong) == sentence


def test_what_is_missing_or_given_by_its_place_is_named():
    assert refusal(Settings) == "batch is missing"
    assert refusal(Settings, 1, 2, -3.0) == "rate must be above 0, not -3.0"
    assert refusal(Settings, 1, batch=1) == "batch: got multiple values for argument"


def test_what_it_allows_passes_and_stays_as_it_was_made():
    for right in ({"rate": 3}, {"dropout": 0.999}, {"seed": 2**63 - 1}, {"limit": 1}, {"betas": (0, 0.5)}):
        made = Settings(1, **right)
        assert made != Settings(1) and asdict(made).items() >= right.items()
        with pytest.raises(FrozenInstanceError):
            made.steps = 5


@options
def write(length: Length, *, seed: Seed = 1, generator: torch.Generator | None = None) -> tuple[int, int]:
    """Writes."""
    if seed == 13:
        raise ConfigError("a sentence of its own")
    return length, Settings(seed, seed).batch


def test_the_options_of_a_command_are_checked_like_settings():
    assert write(3, seed=2, generator=torch.Generator()) == (3, 2) and write.__doc__ == "Writes."
    assert refusal(write, -1) == "length must be at least 0, not -1"
    assert refusal(write, length=2.5) == "length must be a whole number, not 2.5"
    assert refusal(write, 1, seed=-1) == "seed must be at least 0, not -1"
    assert refusal(write, 1, generator=3) == "generator must be a Generator, not 3"
    assert refusal(write) == "length is missing"
    assert refusal(write, 1, sead=3) == "sead: unexpected keyword argument"
    with pytest.raises(ConfigError, match=r"^a sentence of its own$"):
        write(1, seed=13)
    with pytest.raises(ConfigError, match=r"^batch must be at least 1, not 0$"):
        write(1, seed=0)  # what it calls speaks for itself
