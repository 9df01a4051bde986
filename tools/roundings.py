"""Run notebooks and tests as another processor would: what is stored, and what tests ask, must hold
there too.

    python -m tools.roundings                    all notebooks and tests, one row after the other
    python -m tools.roundings 03 --row round-1   one notebook, in one row
    python -m tools.roundings tests              only the tests

Processors sum in different orders, and so do threads: the last bit of a product differs from one
machine to the next, and a training carries that bit into digits that are printed. The rows "round-N"
flip that bit on purpose, of about half of all results of LISTED (of bfloat16, whose last bit is large
and seldom differs: of one in 64). Which ones depends on the value and on N alone: equal computations
stay equal, as on a real machine, and nothing random is drawn. Results that are exact small fractions
stay. Not reached: NumPy and SciPy, processes that a cell or a test starts, compiled code.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.errors import ConfigError, command, say
from tools.surroundings import ROOT, jobs, share_cores, shut_out_others

# What each row sets. Without anything, OMP_NUM_THREADS is each process's share of the cores.
ROWS = {
    "as-is": {},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
    "plain": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
    },
    **{f"threads-{n}": {"OMP_NUM_THREADS": str(n)} for n in (1, 2, 4)},
    **{f"round-{n}": {"OTHER_ROUNDING": str(n)} for n in range(1, 6)},
}

# ---------------------------------------------------------------- another rounding
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


def rounded(x: Tensor, number: int) -> Tensor:
    """`x` with the last bit of some values flipped; which ones, `number` decides."""
    if x.dtype not in BITS or not x.numel() or x.layout != torch.strided:
        return x
    bits = x.detach().contiguous().view(BITS[x.dtype])
    factor = 2 * number + 0x1E3779B1
    if x.dtype == torch.bfloat16:
        flip = ((bits.int() * factor >> 13) & 63 == 0) & (bits & 0x7F != 0)
    else:  # zero and infinity end in zeros, as exact small fractions do
        flip = (bits & 0xFFF).ne_(0).bitwise_and_((bits * factor).bitwise_right_shift_(13))
    return (bits ^ flip).view(x.dtype).view(x.shape)


class OtherProcessor(TorchDispatchMode):
    """Within it, what PyTorch computes in LISTED has other last bits; backward passes, too."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.__name__.split(".")[0]
        if name.rstrip("_") not in LISTED:
            return out
        if name.endswith("_"):  # it has changed its first argument, or each tensor in it
            changed = args[0] if isinstance(args[0], list | tuple) else [args[0]]
            for tensor in changed:
                tensor.detach().copy_(rounded(tensor, self.number))
            return out
        if isinstance(out, list | tuple):
            return type(out)(
                rounded(each, self.number) if isinstance(each, Tensor) else each for each in out
            )
        return rounded(out, self.number)


def install() -> None:
    """For a whole process, if its row asks for it."""
    if number := os.environ.get("OTHER_ROUNDING"):
        OtherProcessor(int(number)).__enter__()


def pytest_configure() -> None:
    """With `-p tools.roundings` the tests of each worker compute so."""
    install()


# ---------------------------------------------------------------- a row
def run_row(row: str, notebooks: list[Path], with_tests: bool) -> tuple[int, dict[str, str]]:
    """How many cells and tests were compared in this row; of those that differ, names and why."""
    from tools.check import NBVAL

    found, why = 0, {}
    with tempfile.TemporaryDirectory() as scratch:
        startup = Path(scratch, "profile_default", "startup")
        startup.mkdir(parents=True)
        Path(startup, "roundings.py").write_text(
            "from tools import roundings\nroundings.install()\n", encoding="utf-8"
        )
        runs = ROOT / "build" / "test-runs"
        shutil.rmtree(runs, ignore_errors=True)
        environment = {**os.environ, "IPYTHONDIR": scratch, "NANOGPT_RUNS": str(runs)} | ROWS[row]
        report = Path(scratch, "report.xml")
        workers = jobs() if with_tests else min(jobs(), len(notebooks))
        words = ["-q", "-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
        words += [f"--junitxml={report}", "-m", "not weekly and not lesson"]
        words += [*NBVAL, *map(str, notebooks), *(["tests"] if with_tests else [])]
        subprocess.run(
            [sys.executable, "-m", "pytest", "-ptools.roundings", *words],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        if not report.exists():
            raise ConfigError(f"{row}: pytest did not begin; python -m tools.check test says why")
        for case in ElementTree.parse(report).iter("testcase"):
            found += case.find("skipped") is None
            for failure in [*case.iter("failure"), *case.iter("error")]:
                name = f"{case.get('classname')}::{case.get('name')}"
                why[name] = re.sub(r"#x1B\[[0-9;]*m", "", failure.text or "")
    return found, why


def main(arguments: list[str]) -> None:
    from tools import lessons

    parser = argparse.ArgumentParser(prog="python -m tools.roundings", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", nargs="*", help="notebooks, such as 03; tests (all of both)")
    parser.add_argument("--row", action="append", choices=ROWS, help="which rows (all)")
    options = parser.parse_args(arguments)
    notebooks = [lessons.named(name) for name in options.what if name != "tests"]
    if not options.what:
        notebooks = lessons.everyone()
    with_tests = not options.what or "tests" in options.what
    shut_out_others()
    share_cores(jobs())
    rows, differing = [], 0
    for row in options.row or ROWS:
        start = time.perf_counter()
        found, why = run_row(row, notebooks, with_tests)
        for name, text in why.items():
            say(f"---- {row}: {name}\n{text.strip()}\n")
        rows.append(f"{row:10} {found:8,} {len(why):9,} {time.perf_counter() - start:8.0f} s")
        say(rows[-1])
        differing += len(why)
    say("\n".join(["\nrow        compared differing     time", *rows]))
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    sys.exit(command(main))
