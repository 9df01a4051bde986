"""Is what an answer gave right? However it is written: tensors, arrays, lists, tuples and numbers of every type."""

import dis
import inspect
import re
import reprlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

# The instructions of a function whose body is `...`, `pass`, `return None` or a docstring.
NOTHING = {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "MAKE_CELL", "COPY_FREE_VARS"}


class Near(NamedTuple):
    """How near a number must come: it may be off by this part of itself, and by this much."""

    relative: float
    absolute: float


ROUNDING = Near(1e-5, 1e-5)  # of single precision


def near(tolerance: float | Near | None) -> Near:
    """What a grader means by the tolerance that it yields: a number is absolute."""
    if tolerance is None:
        return ROUNDING
    return tolerance if isinstance(tolerance, Near) else Near(0.0, tolerance)


# ---------------------------------------------------------------- numbers
def tensor(value: Any) -> Tensor:
    """Numbers of any type, in lists too, in float64; TypeError, ValueError or RuntimeError for anything else."""
    if isinstance(value, Tensor):
        return value.detach().cpu().double()
    if isinstance(value, (list, tuple)) and value:
        return torch.stack([tensor(x) for x in value])
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError("NumPy would take None for NaN, and a text of digits for a number")
    return torch.from_numpy(np.array(value, dtype=np.float64))


def places_apart(a: Tensor, b: Tensor, near: Near, equal_nan: bool = False) -> Tensor:
    """The indices of the entries that differ, one row each. Infinity is equal to itself, NaN only if it may be."""
    return (~torch.isclose(a, b, near.relative, near.absolute, equal_nan)).nonzero()


# ---------------------------------------------------------------- what an answer gave, and what is right
def difference(given: Any, right: Any, near: Near, tell: bool) -> str:
    """What is wrong with what was given, as a sentence's end, or an empty text. `tell` says what is right, too."""
    if given is right or right is ...:  # in a mistake, ... stands for anything
        return ""
    if isinstance(right, str) or right is None:
        return _difference_of_texts(given, right, tell)
    if isinstance(right, (list, tuple)):
        return _difference_of_lists(given, right, near, tell)
    try:
        a = tensor(given)
        b = tensor(right)
    except (TypeError, ValueError, RuntimeError):
        return f"it {'returns' if tell else 'is'} {kind(given)}, which is no number and no tensor"
    if b.dim() == 0 and a.numel() == 1:  # one number may stand in brackets
        a = a.reshape(())
    if a.shape != b.shape:
        return f"it has the shape {tuple(a.shape)} and should have {tuple(b.shape)}"
    places = places_apart(a, b, near, equal_nan=True)
    if not len(places):
        return ""
    first = tuple(places[0].tolist())
    logical = isinstance(right, bool) or getattr(right, "dtype", None) == torch.bool
    ours, theirs = _written(a[first].item(), b[first].item(), logical)
    return _told(f"{ours} at {list(first)}" if first else ours, theirs, tell)


def _difference_of_texts(given: Any, right: str | None, tell: bool) -> str:
    if not tell:  # a prediction: "C, A, B" and ["c", "a", "b"] are "cab"
        given = _letters(given)
        right = _letters(right)
    if isinstance(given, str) and given == right:
        return ""
    shown = " ".join(reprlib.repr(given).split())
    return _told(shown, repr(right), tell)


def _letters(value: Any) -> Any:
    """The letters of a text, or of a list of texts, in small; anything else as it is."""
    texts = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(text, str) for text in texts):
        return value
    return re.sub(r"\W", "", "".join(texts)).lower()


def _difference_of_lists(given: Any, right: Sequence, near: Near, tell: bool) -> str:
    if isinstance(given, (Tensor, np.ndarray)) and not any(isinstance(x, Tensor) for x in right):
        given = given.tolist()
    if not isinstance(given, (list, tuple)) or len(given) != len(right):
        return f"it should {'return' if tell else 'be'} {len(right)} things in a {type(right).__name__}"
    differences = (difference(a, b, near, tell) for a, b in zip(given, right, strict=True))
    return next(filter(None, differences), "")


def _told(given: str, right: str, tell: bool) -> str:
    return f"it gives {given} where {right} is right" if tell else f"{given} is not right"


def _written(a: float, b: float, logical: bool) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart; 1 and 0 as True and False where that is meant."""
    pairs = ((f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in (5, 9, 17))
    ours, theirs = next(pair for pair in pairs if pair[0] != pair[1])
    words = {"1": "True", "0": "False"} if logical else {}
    return words.get(ours, ours), words.get(theirs, theirs)


# ---------------------------------------------------------------- inputs
def same(a: Any, b: Any) -> bool:
    """Is an input as it was?"""
    if type(a) is not type(b):
        return False
    if isinstance(a, nn.Module):
        return same(dict(a.state_dict()), dict(b.state_dict()))
    if isinstance(a, Tensor):
        return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())  # NaN may stay NaN
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def names(answer: Callable[..., Any], count: int) -> list[str]:
    """What the answer calls its inputs."""
    try:
        parameters = list(inspect.signature(answer).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    single = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return single if len(single) == len(parameters) == count else [f"input {i}" for i in range(1, count + 1)]


def in_short(name: str, value: Any) -> str:
    if isinstance(value, Tensor):
        if value.dim() < 2 and value.numel() <= 4:
            return f"{name}=[{', '.join(f'{x:.4g}' for x in value.flatten().tolist())}]"
        size = value.double().abs().max().item()
        return f"{name} of shape {tuple(value.shape)}" + (f" with numbers up to {size:.4g}" if size > 99 else "")
    if callable(value):
        return f"{name} ({value.__doc__})" if inspect.isfunction(value) and value.__doc__ else name
    if isinstance(value, list) and value and all(map(callable, value)):
        return f"{len(value)} {name}"
    return f"{name}={reprlib.repr(value)}"


# ---------------------------------------------------------------- what an answer gives
def kept(value: Any) -> Any:
    """A copy of the tensors, for the answer may write its next ones over them; and all that an iterator gives."""
    if isinstance(value, Tensor):
        return value.clone()
    if type(value) in (list, tuple):
        return type(value)(map(kept, value))
    return list(value) if isinstance(value, Iterator) else value


def kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def is_stub(value: Any) -> bool:
    return value is ... or (isinstance(value, (list, tuple)) and any(map(is_stub, value)))


def does_nothing(answer: Callable[..., Any]) -> bool:
    """Is its body, or that of a layer's `forward`, nothing but `...`, `pass` or a docstring?"""
    if isinstance(answer, type):
        own = [value for name, value in vars(answer).items() if not name.startswith("__")]
        if own and all(value is ... for value in own):
            return True
        forward = getattr(answer, "forward", nn.Module.forward)
        return forward is nn.Module.forward or does_nothing(forward)
    code = getattr(inspect.unwrap(answer), "__code__", None)
    return code is not None and {step.opname for step in dis.get_instructions(code)} <= NOTHING
