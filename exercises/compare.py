"""Is what an answer gives right, and how is it shown?

Numbers may come as tensors, arrays, lists or plain numbers.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MOST = 10_000  # things that an iterator gives: it may never end
TOLERANCE = 1e-4  # as a part of the largest number that is right, or of 0.1 where that is smaller


# ---------------------------------------------------------------- the same?
def as_word(value: Any) -> Any:
    """A predicted word in small letters: "C, A, B" and ["c", "a", "b"] are "cab"."""
    texts = value if isinstance(value, (list, tuple)) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        return value
    return re.sub(r"\W", "", "".join(texts)).lower()


def numbers(value: Any) -> Any:
    """A tensor in double precision, or None for what is no table of numbers."""
    if isinstance(value, Tensor):
        return (value.to_dense() if value.is_sparse else value).detach().cpu().double()
    try:
        if isinstance(value, (list, tuple)) and any(
            part is None or isinstance(part, (Tensor, list, tuple, str)) for part in value
        ):
            return torch.stack([numbers(part) for part in value])
        if value is None or isinstance(value, (str, bytes)):
            return None
        return torch.from_numpy(np.array(value, dtype=np.float64))
    except (TypeError, ValueError, RuntimeError):
        return None


def parts_of(value: Any) -> Any:
    """The things of a tuple, in whatever they are handed over."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim:
        return list(value)
    return None


def same(result: Any, right: Any, tolerance: float = TOLERANCE) -> bool:
    if isinstance(right, (list, tuple)):
        parts = parts_of(result)
        if parts is None or len(parts) != len(right):
            return False
        return all(same(a, b, tolerance) for a, b in zip(parts, right, strict=True))
    if right is None or isinstance(right, (str, dict)):
        return isinstance(result, type(right)) and result == right
    a, b = numbers(result), numbers(right)
    if a is None or b is None:
        return False
    if b.dim() == 0 and a.numel() == 1:  # one number may stand in brackets
        a = a.reshape(())
    return a.shape == b.shape and bool(close(a, b, tolerance).all())


def close(a: Tensor, b: Tensor, tolerance: float = TOLERANCE) -> Tensor:
    """For each number: is it near enough? NaN is equal to NaN."""
    finite = b[b.isfinite()].abs()
    largest = max(finite.max().item(), 0.1) if finite.numel() else 0.1
    return torch.isclose(a, b, rtol=0, atol=tolerance * largest, equal_nan=True)


def unchanged(before: Any, after: Any) -> bool:
    """Is an input as it was?"""
    if type(before) is not type(after):
        return False
    if isinstance(before, Tensor):
        if before.shape != after.shape:
            return False
        return bool(((before == after) | (before.isnan() & after.isnan())).all())
    if isinstance(before, nn.Module):
        return unchanged(dict(before.state_dict()), dict(after.state_dict()))
    if isinstance(before, dict):
        return list(before) == list(after) and all(unchanged(before[k], after[k]) for k in before)
    if isinstance(before, (list, tuple)):
        return len(before) == len(after) and all(map(unchanged, before, after))
    return bool(before == after)


def kept(value: Any) -> Any:
    """A copy, for an answer may write its next one over it; and all that an iterator gives."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if type(value) in (list, tuple):
        return type(value)(map(kept, value))
    return list(islice(value, MOST)) if isinstance(value, Iterator) else value


def is_boolean(value: Any) -> bool:
    """Is it True or False, or a table of these?"""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, bool) or "bool" in str(getattr(value, "dtype", ""))


# ---------------------------------------------------------------- how it is shown
def kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def number(x: float, digits: int = 4) -> str:
    return "0" if abs(x) < 1e-6 else f"{x:.{digits}g}"


def shown(value: Any, digits: int = 4) -> str:
    """A value in few words: small tables in full, large ones by their shape."""
    if isinstance(value, float):
        return number(value, max(digits, 4))
    if isinstance(value, tuple):
        return f"({', '.join(shown(part, digits) for part in value)})"
    if callable(value):
        return (getattr(value, "__doc__", "") or kind(value)).splitlines()[0]
    table = numbers(value) if isinstance(value, (Tensor, list, np.ndarray)) else None
    if table is None:
        return " ".join(repr(value).split())[:80]
    if table.numel() > 9:
        largest = table.abs().max().item()
        size = f" up to {largest:.3g}" if largest > 99 else ""
        return f"a table of shape {tuple(table.shape)}{size}"
    if isinstance(value, Tensor) and value.dtype == torch.bool:
        return str(value.tolist())
    return _nested(table.tolist(), digits)


def _nested(value: Any, digits: int) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_nested(part, digits) for part in value)}]"
    return number(value, digits)


def difference(result: Any, right: Any, names: tuple[str, ...], tolerance: float) -> str:
    """The end of a sentence: what is given, and what is right."""
    if isinstance(right, tuple):
        return _difference_of_parts(result, right, names, tolerance)
    if result is None:
        return "it returns nothing: is a `return` missing?"
    if isinstance(result, tuple):
        return f"it returns {len(result)} things in a tuple: one is asked for"
    a, b = numbers(result), numbers(right)
    if a is None or b is None:
        return f"it gives {shown(result)} where {shown(right)} is right"
    small = a.numel() + b.numel() <= 18
    if a.shape != b.shape and not small:
        return f"it has the shape {tuple(a.shape)} and should have {tuple(b.shape)}"
    if small:
        digits = next((n for n in (4, 8) if shown(a, n) != shown(b, n)), 16)
        actual, expected = (
            str(table.bool().tolist()) if is_boolean(value) else shown(table, digits)
            for value, table in ((result, a), (right, b))
        )
        return f"it gives {actual} where {expected} is right"
    place = tuple((~close(a, b, tolerance)).nonzero()[0].tolist())
    actual, expected = number(a[place].item()), number(b[place].item())
    return f"it gives {actual} at {list(place)} where {expected} is right"


def first_wrong(parts: Sequence[Any], right: Sequence[Any], tolerance: float) -> int:
    """Which of several parts is the first that is wrong."""
    return [same(a, b, tolerance) for a, b in zip(parts, right, strict=True)].index(False)


def _difference_of_parts(result: Any, right: Any, names: tuple[str, ...], tolerance: float) -> str:
    parts = parts_of(result)
    if parts is None or len(parts) != len(right):
        return f"it should return {len(right)} things in a tuple"
    place = first_wrong(parts, right, tolerance)
    which = names[place] if names else f"number {place + 1}"
    return f"{difference(parts[place], right[place], (), tolerance)}, as its {which}"
