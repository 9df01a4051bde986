"""Training's matrix products, on a CPU, by the quicker of the two libraries that PyTorch brings along.

PyTorch leaves float32 products to MKL, Intel's library, which takes the wide AVX-512 instructions on Intel's own
processors only. oneDNN takes them wherever they are: on an AMD EPYC it multiplies twice as fast, one thread or two.
PyTorch has no public switch for it, so `quick_products` asks for oneDNN where a model calls `F.linear`.
"""

import functools
import platform
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode


def quick_products() -> AbstractContextManager:
    """Where it helps, `F.linear` inside computes with oneDNN: equal but for rounding. Elsewhere it changes nothing.

    It takes an x86 processor with AVX-512 that isn't Intel's own: there MKL is the quicker one, by a fifth of a
    training step. ATEN_CPU_CAPABILITY=avx2 in the environment switches it off.
    """
    return _OneDNN() if has_wide_instructions() and not is_intels() else nullcontext()


def has_wide_instructions() -> bool:
    """Whether oneDNN can be asked, and has the processor's AVX-512 for it."""
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512" and torch.backends.mkldnn.is_available()
    return wide and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@functools.cache
def is_intels() -> bool:
    """Whether the processor says that it is made by Intel."""
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        told = platform.processor()
    return "GenuineIntel" in told


class _OneDNN(TorchFunctionMode):
    def __torch_function__(self, function: Callable, types: object, args: tuple = (), kwargs: dict | None = None):
        if function is F.linear and not kwargs and 2 <= len(args) <= 3 and _fits(*args):
            y = _Linear.apply(*args[:2])
            return y if len(args) == 2 or args[2] is None else y + args[2]
        return function(*args, **(kwargs or {}))


def _fits(x: object, weight: object, bias: object = None) -> bool:
    """Whether oneDNN can multiply these tensors. PyTorch gets all others, and so reports mistakes as it always does."""
    if not (isinstance(x, Tensor) and isinstance(weight, Tensor) and isinstance(bias, Tensor | None)):
        return False
    tensors = [x, weight] if bias is None else [x, weight, bias]
    plain = all(t.dtype == torch.float32 and t.device.type == "cpu" and t.numel() > 0 for t in tensors)
    fitting = x.dim() >= 2 and weight.dim() == 2 and x.shape[-1] == weight.shape[-1]
    return plain and fitting and (bias is None or bias.shape == weight.shape[:1])


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b.T, for a (..., n) and b (m, n)."""
    return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")


class _Linear(torch.autograd.Function):
    """x @ W.T and its two gradients, each a product of the same kind."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = ctx.needs_input_grad
        return (
            _product(grad, weight.T) if of_x else None,
            _product(grad.flatten(0, -2).T, x.flatten(0, -2).T) if of_weight else None,
        )
