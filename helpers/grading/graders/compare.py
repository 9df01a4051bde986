"""Is what an answer gave right? However it is written: tensors, arrays, lists, tuples and numbers of every type."""

import dis
import inspect
import re
import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# The instructions of a function whose body is `...`, `pass`, `return None` or a docstring.
NOTHING = {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "MAKE_CELL", "COPY_FREE_VARS"}


def difference(given: Any, right: Any, tolerance: float | None, tell: bool) -> str:
    """What is wrong with what was given, as a sentence's end, or an empty text. `tell` says what is right, too."""
    if given is right or right is ...:  # in a mistake, ... stands for anything
        return ""
    if isinstance(right, str) and not tell:  # "C, A, B" and ["c", "a", "b"] are "cab"
        given, right = (re.sub(r"\W", "", "".join(x)).lower() if _is_text(x) else x for x in (given, right))
    if isinstance(right, str) or right is None:
        shown = " ".join(reprlib.repr(given).split())
        return "" if isinstance(given, str) and given == right else _told(shown, repr(right), tell)
    if isinstance(right, (list, tuple)):
        if isinstance(given, (Tensor, np.ndarray)) and not any(isinstance(x, Tensor) for x in right):
            given = given.tolist()
        if not isinstance(given, (list, tuple)) or len(given) != len(right):
            return f"it should {'return' if tell else 'be'} {len(right)} things in a {type(right).__name__}"
        return next(filter(None, (difference(*pair, tolerance, tell) for pair in zip(given, right, strict=True))), "")
    try:
        a, b = tensor(given), tensor(right)
    except (TypeError, ValueError, RuntimeError):
        return f"it {'returns' if tell else 'is'} {kind(given)}, which is no number and no tensor"
    if b.dim() == 0 and a.numel() == 1:  # one number may stand in brackets
        a = a.reshape(())
    if a.shape != b.shape:
        return f"it has the shape {tuple(a.shape)} and should have {tuple(b.shape)}"
    relative, absolute = (0.0, tolerance) if tolerance else (1e-5, 1e-5)
    near = torch.isclose(a, b, rtol=relative, atol=absolute, equal_nan=True)
    if near.all():
        return ""
    place = tuple((~near).nonzero()[0].tolist())
    logical = isinstance(right, bool) or getattr(right, "dtype", None) == torch.bool
    ours, theirs = _written(a[place].item(), b[place].item(), logical)
    return _told(f"{ours} at {list(place)}" if place else ours, theirs, tell)


def _told(given: str, right: str, tell: bool) -> str:
    return f"it gives {given} where {right} is right" if tell else f"{given} is not right"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, (list, tuple)) and all(isinstance(x, str) for x in value))


def _written(a: float, b: float, logical: bool) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart; 1 and 0 as True and False where that is meant."""
    pairs = ((f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in (5, 9, 17))
    texts = next(pair for pair in pairs if pair[0] != pair[1])
    words = {"1": "True", "0": "False"} if logical else {}
    return words.get(texts[0], texts[0]), words.get(texts[1], texts[1])


def tensor(value: Any) -> Tensor:
    """Numbers of any type, in lists too, in float64; TypeError, ValueError or RuntimeError for anything else."""
    if isinstance(value, Tensor):
        return value.detach().cpu().double()
    if isinstance(value, (list, tuple)) and value:
        return torch.stack([tensor(x) for x in value])
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError("NumPy would take None for NaN, and a text of digits for a number")
    return torch.from_numpy(np.array(value, dtype=np.float64))


def kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


# ---------------------------------------------------------------- inputs, and answers that are none
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
        return f"{name} of shape {tuple(value.shape)}" + (f" with numbers up to {size:.0f}" if size > 99 else "")
    if callable(value):
        return f"{name} ({value.__doc__})" if inspect.isfunction(value) and value.__doc__ else name
    if isinstance(value, list) and value and all(map(callable, value)):
        return f"{len(value)} {name}"
    return f"{name}={reprlib.repr(value)}"


def is_stub(value: Any) -> bool:
    return value is ... or (isinstance(value, (list, tuple)) and any(map(is_stub, value)))


def does_nothing(answer: Callable[..., Any]) -> bool:
    """Is its body nothing but `...`, `pass` or a docstring?"""
    code = getattr(inspect.unwrap(answer), "__code__", None)
    return code is not None and {step.opname for step in dis.get_instructions(code)} <= NOTHING
