"""A trained GPT as bytes for a page: what pictures/front/gpt.js reads.

Four bytes (little-endian) with the length of a header, the header in JSON, then the tensors, each
from a multiple of four bytes on. The header holds the config, the alphabet, what `about` says of
the model, and each tensor's dtype, shape and offset behind the header. A matrix that head and token
embedding share is packed once. pictures/front/trainer.js writes the same, in float32.
"""

import json
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from helpers.counted import CountedGPT
from helpers.data import CharTokenizer
from helpers.errors import ConfigError
from helpers.gpt import GPT
from helpers.models import build_gpt, config_of

LARGEST = torch.finfo(torch.float16).max


def pack(
    model: GPT,
    tokenizer: CharTokenizer,
    levels: int | None = None,
    about: dict[str, Any] | None = None,
) -> bytes:
    """`model` and its alphabet as bytes; weights in float16, with a relative error below 0.05%.

    With `levels`, each row of a matrix is rounded to that many steps on either side of zero: one
    byte a weight, and fewer once compressed. `about` (plain values) goes into the header as it is.
    ConfigError for a model that counts a text, or has layers that its config doesn't name, for
    weights that float16 doesn't hold, and for a tokenizer of another vocabulary.
    """
    if isinstance(model, CountedGPT):
        raise ConfigError("the page can't count a text, and this model counts one: make write can use it")
    with torch.device("meta"):  # where weights take no memory
        described = build_gpt(model.config)
    if repr(model) != repr(described):  # every layer with its kind and sizes
        raise ConfigError("the model has layers that its config doesn't name: the page would compute something else")
    if tokenizer.vocab_size != model.config.vocab_size:
        raise ConfigError(
            f"the tokenizer has {tokenizer.vocab_size} characters, the model {model.config.vocab_size}: they must agree"
        )
    body = bytearray()
    tensors = {}
    for name, weight in model.named_parameters():  # shared ones once
        weight = weight.detach().cpu().float()
        if not (weight.abs() <= LARGEST).all():  # NaN is not
            raise ConfigError(
                f"{name} has weights that are not finite, or above {LARGEST:,.0f}: float16 can't hold them"
            )
        entry: dict[str, Any] = {"shape": list(weight.shape), "offset": len(body)}
        if levels is None or weight.dim() == 1:
            tensors[name] = entry | {"dtype": "float16"}
            body += _bytes(weight.half())
        else:
            numbers, scales = _quantized(weight, levels)
            body += _bytes(numbers)
            tensors[name] = entry | {"dtype": "int8", "scales": len(body)}
            body += _bytes(scales)
    facts = {
        "config": asdict(model.config),
        "alphabet": tokenizer.characters,
        "about": about or {},
        "tensors": tensors,
    }
    header = json.dumps(facts).encode()
    header += b" " * (-len(header) % 4)
    return len(header).to_bytes(4, "little") + header + bytes(body)


def unpack(packed: bytes) -> tuple[GPT, CharTokenizer, dict[str, Any]]:
    """The model as the page computes it (rounded, evaluation mode), its tokenizer, and `about`.

    The tests hold the page's numbers against this model's. ConfigError when `packed` is not what
    `pack` writes.
    """
    try:
        start = 4 + int.from_bytes(packed[:4], "little")
        facts = json.loads(packed[4:start])
        model = build_gpt(config_of(facts["config"]))
        tokenizer = CharTokenizer(facts["alphabet"])
        body = bytearray(packed[start:])
        weights = {name: _read(body, **entry) for name, entry in facts["tensors"].items()}
        weights.setdefault("head.weight", weights["token_embedding.weight"])
        model.load_state_dict(weights)
    except (ValueError, TypeError, KeyError, RuntimeError):
        raise ConfigError("these bytes are damaged, or were not written by pictures.packing.pack") from None
    return model.eval(), tokenizer, facts["about"]


def _quantized(weight: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """Whole numbers from -levels to levels, and the float32 that one is worth in each row."""
    scales = weight.abs().amax(dim=1).clamp(min=1e-30) / levels
    return (weight / scales[:, None]).round().to(torch.int8), scales


def _bytes(tensor: Tensor) -> bytes:
    raw = tensor.contiguous().numpy().tobytes()
    return raw + bytes(-len(raw) % 4)


def _read(body: bytearray, dtype: str, shape: list[int], offset: int, scales: int | None = None) -> Tensor:
    count = torch.Size(shape).numel()
    kind = {"float32": torch.float32, "float16": torch.float16, "int8": torch.int8}[dtype]
    values = torch.frombuffer(body, dtype=kind, count=count, offset=offset).view(shape).float()
    if scales is None:
        return values
    return values * torch.frombuffer(body, dtype=torch.float32, count=shape[0], offset=scales)[:, None]
