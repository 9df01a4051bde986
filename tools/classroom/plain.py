"""Values as bytes and back: numbers, texts, lists, tuples, dictionaries and tensors. Nothing in them can run.

Structure goes as JSON, tensors as safetensors, which checks that as many bytes have come as a shape announces.
"""

import json
import struct
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

MOST = 64 * 2**20  # bytes of a message


class NotPlainError(ValueError):
    """It can't be sent as bytes, or no value can be made of these bytes."""


def pack(value: Any) -> bytes:
    """The bytes of a value. NotPlainError for what has no plain form, such as a function."""
    tensors: dict[str, Tensor] = {}
    try:
        text = json.dumps(_noted(value, tensors)).encode()
        packed = safetensors.torch.save(tensors)
    except (TypeError, ValueError, RecursionError, RuntimeError, KeyError) as error:
        raise NotPlainError(str(error)) from None
    return struct.pack("<I", len(text)) + text + packed


def unpack(data: bytes) -> Any:
    """The value of these bytes. NotPlainError if they are none of ours."""
    try:
        (length,) = struct.unpack_from("<I", data)
        noted = json.loads(data[4 : 4 + length])
        return _value(noted, safetensors.torch.load(data[4 + length :]))
    except (struct.error, SafetensorError, TypeError, ValueError, KeyError, RecursionError, RuntimeError) as error:
        raise NotPlainError(f"that is no message: {error}") from None


def _noted(value: Any, tensors: dict[str, Tensor]) -> Any:
    """JSON for a value: [kind, content]. Tensors are put aside under their numbers."""
    if isinstance(value, np.ndarray | np.generic):
        value = torch.from_numpy(np.array(value))
    if isinstance(value, Tensor):
        if value.requires_grad and value.is_leaf:
            raise NotPlainError("a tensor that learns")
        tensors[str(len(tensors))] = value.detach().cpu().clone().contiguous()
        return ["tensor", str(len(tensors) - 1)]
    if value is None or value is ... or isinstance(value, bool | int | float | str):
        return ["...", ""] if value is ... else ["is", value]
    if isinstance(value, list | tuple):
        return [type(value).__name__ if type(value) in (list, tuple) else "tuple", [_noted(x, tensors) for x in value]]
    if type(value) is dict:
        return ["dict", [[_noted(key, tensors), _noted(item, tensors)] for key, item in value.items()]]
    raise NotPlainError(f"{type(value).__name__} has no plain form")


def _value(noted: Any, tensors: dict[str, Tensor]) -> Any:
    kind, content = noted
    if kind == "is" and (content is None or isinstance(content, bool | int | float | str)):
        return content
    if kind == "...":
        return ...
    if kind == "tensor":
        return tensors[content]
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](_value(each, tensors) for each in content)
    if kind == "dict":
        return {_value(key, tensors): _value(item, tensors) for key, item in content}
    raise NotPlainError(f"a value of the kind {kind!r}")
