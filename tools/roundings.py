"""Run notebooks and tests as another processor would: what is stored, and what tests ask, must hold
there too.

    python -m tools.roundings                    all notebooks and tests, one row after the other
    python -m tools.roundings 03 --row round-1   one notebook, in one row
    python -m tools.roundings tests              only the tests

The rows "round-N" flip last bits as tools/processor.py says. Not reached: NumPy and SciPy, processes
that a cell or a test starts, compiled code.
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

from helpers import ROOT
from helpers.commands import command, say
from helpers.errors import HelpersError
from tools.surroundings import jobs, share_cores, shut_out_others

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


# ---------------------------------------------------------------- a row
def run_row(row: str, notebooks: list[Path], with_tests: bool) -> tuple[int, dict[str, str]]:
    """How many cells and tests were compared in this row; of those that differ, names and why."""
    from tools.check import NBVAL, SIDE_BY_SIDE, USUAL

    count, why = 0, {}
    with tempfile.TemporaryDirectory() as scratch:
        startup = Path(scratch, "profile_default", "startup")
        startup.mkdir(parents=True)
        Path(startup, "processor.py").write_text("from tools import processor\nprocessor.install()\n", encoding="utf-8")
        runs = ROOT / "build" / "test-runs"
        shutil.rmtree(runs, ignore_errors=True)
        environment = {**os.environ, "IPYTHONDIR": scratch, "NANOGPT_RUNS": str(runs)} | ROWS[row]
        report = Path(scratch, "report.xml")
        threads = int(ROWS[row].get("OMP_NUM_THREADS", 1))
        side_by_side = max(1, jobs() // threads)  # with more of them, threads would wait for each other
        workers = side_by_side if with_tests else min(side_by_side, len(notebooks))
        words = ["-q", "-n", str(workers), *SIDE_BY_SIDE, *USUAL, f"--junitxml={report}"]
        words += [*NBVAL, *map(str, notebooks), *(["tests"] if with_tests else [])]
        process = subprocess.run(
            [sys.executable, "-m", "pytest", "-ptools.processor", *words],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        if not report.exists():
            raise HelpersError(f"{row}: pytest did not begin; python -m tools.check test says why")
        for case in ElementTree.parse(report).iter("testcase"):
            count += case.find("skipped") is None
            for failure in [*case.iter("failure"), *case.iter("error")]:
                name = f"{case.get('classname')}::{case.get('name')}"
                why[name] = re.sub(r"#x1B\[[0-9;]*m", "", failure.text or "")
    if process.returncode and not why:
        raise HelpersError(f"{row}: pytest ended with {process.returncode}, after {count} tests")
    return count, why


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
        count, why = run_row(row, notebooks, with_tests)
        for name, text in why.items():
            say(f"---- {row}: {name}\n{text.strip()}\n")
        rows.append(f"{row:10} {count:8,} {len(why):9,} {time.perf_counter() - start:8.0f} s")
        say(rows[-1])
        differing += len(why)
    say("\n".join(["\nrow        compared differing     time", *rows]))
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    sys.exit(command(main))
