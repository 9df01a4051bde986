"""The forward pass of a training by the quickest means that the machine has."""

import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from helpers.core.optim import TrainConfig
from helpers.support.products import quick_products


def forward_pass(model: nn.Module, config: TrainConfig) -> Callable[..., Any]:
    """`model` as a function of what it takes, computed by the quickest means.

    On CUDA: compiled, and in bfloat16, where the settings ask for it. On a CPU that multiplies in bfloat16, where they
    ask for that: with weights rounded to it. On any other: with the quicker of two libraries.
    """
    device = torch.device(config.device).type
    if device == "cuda":
        # Compiling for CUDA takes Triton, which PyTorch brings along on Linux only.
        compiled = torch.compile(model) if config.compile and importlib.util.find_spec("triton") else model
        return _inside(lambda: torch.autocast("cuda", torch.bfloat16, enabled=config.bfloat16), compiled)
    if device == "cpu" and config.bfloat16_cpu and has_bfloat16():
        return lambda *args, **more: _rounded(model, args, more)
    return _inside(quick_products, model)


def _inside(context: Callable[[], AbstractContextManager], model: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*args: Any, **more: Any) -> Any:
        with context():
            return model(*args, **more)

    return forward


def _rounded(model: nn.Module, args: tuple, more: dict[str, Any]) -> Any:
    """The forward pass with weights rounded to bfloat16. What learns are the model's own float32 weights, so that no
    small step is lost in rounding."""
    weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    rounded = {name: weight.bfloat16() for name, weight in weights.items() if weight.is_floating_point()}
    return torch.func.functional_call(model, rounded, args, more)


def has_bfloat16() -> bool:
    """Whether the processor multiplies matrices in bfloat16; others only imitate it, and slowly."""
    known = getattr(torch.cpu, "get_capabilities", dict)()  # older versions of PyTorch can't tell
    return any(has for name, has in known.items() if name.endswith("bf16"))
