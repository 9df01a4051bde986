"""Another processor on this one: what PyTorch computes has other last bits.

Processors sum in different orders, and so do threads: the last bit of a product differs from one
machine to the next, and a training carries that bit into digits that are printed. Here that bit is
flipped on purpose, of about half of all results of LISTED (of bfloat16, whose last bit is large and
seldom differs: of one in 64). Which ones depends on the value and on a number alone: equal
computations stay equal, as on a real machine, and nothing random is drawn. Results that are exact
small fractions stay.

`tools.roundings` runs notebooks and tests so. This file imports nothing of ours: as a plugin of pytest
it comes before the checks of annotations.
"""

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# PyTorch's names, without the _ of what works in place: sums, whose order is the processor's …
SUMS = """mm bmm addmm baddbmm addmv addbmm mv dot matmul convolution convolution_backward
    sum nansum mean cumsum prod var std var_mean std_mean norm linalg_vector_norm logsumexp _foreach_norm
    _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data nll_loss_forward
    native_layer_norm native_layer_norm_backward _fused_rms_norm _fused_rms_norm_backward
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
    embedding_dense_backward index_add _cdist_forward"""
# … functions, each of which a library approximates in its own way …
FUNCTIONS = """exp exp2 expm1 log log2 log10 log1p tanh sigmoid softplus erf sin cos pow sqrt rsqrt div
    reciprocal gelu gelu_backward silu silu_backward"""
# … and an optimizer's updates.
UPDATES = """_fused_adamw _fused_adam _fused_sgd _foreach_addcdiv _foreach_add _foreach_lerp addcdiv
    addcmul lerp"""
LISTED = {*SUMS.split(), *FUNCTIONS.split(), *UPDATES.split()}
BITS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bfloat16: torch.int16}


def round_otherwise(x: Tensor, number: int) -> None:
    """Flip the last bit of some values of `x`, in place; which ones, `number` decides."""
    if x.dtype not in BITS or x.device.type != "cpu" or x.layout != torch.strided:
        return
    bits = np.atleast_1d(x.detach().view(BITS[x.dtype]).numpy())  # in NumPy: a quarter of the time
    is_short = x.dtype == torch.bfloat16
    flip = (bits.astype(np.int32) if is_short else bits) * (2 * number + 0x1E3779B1)
    flip >>= 13
    if is_short:
        bits ^= ((flip & 63 == 0) & (bits & 0x7F != 0)).astype(np.int16)
    else:  # zero and infinity end in zeros, as exact small fractions do
        flip &= bits & 0xFFF != 0
        bits ^= flip


class OtherProcessor(TorchDispatchMode):
    """Within it, what PyTorch computes in LISTED has other last bits; backward passes, too."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.__name__.split(".")[0]
        if name.rstrip("_") not in LISTED:
            return out
        # What works in place has changed its first argument, or each tensor in it.
        result = args[0] if name.endswith("_") else out
        for tensor in result if isinstance(result, list | tuple) else [result]:
            if isinstance(tensor, Tensor):
                round_otherwise(tensor, self.number)
        return out


def install() -> None:
    """For a whole process, if OTHER_ROUNDING has a number."""
    if number := os.environ.get("OTHER_ROUNDING"):
        OtherProcessor(int(number)).__enter__()


def pytest_configure() -> None:
    """With `-p tools.processor` the tests of each worker compute so."""
    install()
