"""A stop of `make run`: one sentence, at once, and nothing goes on running that would take a core from its user."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import warm

ROOT = Path(__file__).parents[2]
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(60)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a kernel has a session of its own, which is POSIX's")
def test_who_kills_papermill_kills_its_kernel():
    with subprocess.Popen([sys.executable, "-IS", "-c", PARENT], stdout=subprocess.PIPE) as process:
        kernel = psutil.Process(int(process.stdout.readline()))
        warm.kill(process)
        assert process.wait(5) == -signal.SIGKILL
    kernel.wait(5)
    warm.kill(process)  # it has ended already: nothing to do


def descendants(process: subprocess.Popen) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def kernel_runs(process: subprocess.Popen) -> bool:
    return any("ipykernel_launcher" in child.cmdline() for child in descendants(process))


def python_runs(process: subprocess.Popen) -> bool:
    return any("tools/notebooks.py" in child.cmdline() for child in descendants(process))


@pytest.mark.torture
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("moment", [python_runs, kernel_runs])
@pytest.mark.parametrize("by", ["Ctrl-C", "SIGTERM to make"])
def test_make_run_ends_at_once_by_one_sentence(moment, by):
    words = ["make", "-o", ".venv/ready", f"BIN={Path(sys.executable).parent}", "run", "NB=01"]
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as make:
        deadline = time.monotonic() + 60
        while not moment(make):
            assert time.monotonic() < deadline, "it never came so far"
            time.sleep(0.05)
        time.sleep(1)
        running, start = descendants(make), time.monotonic()
        if by == "Ctrl-C":
            os.killpg(make.pid, signal.SIGINT)  # as a terminal does: to all in the group
        else:
            make.terminate()
        said = make.communicate(timeout=10)[1]
        assert time.monotonic() - start < 4  # one or two, unless the machine is busy
    assert psutil.wait_procs(running, timeout=1)[1] == []  # none is left
    ours = [line for line in said.splitlines() if not line.startswith("make: ")]
    name = "Ctrl-C" if by == "Ctrl-C" else "SIGTERM"
    assert len(ours) == 1 and ours[0].startswith(f"stopped by {name}"), said
