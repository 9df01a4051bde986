"""Runs in processes of their own: a kill and Ctrl-C lose those in progress and no more; one that fails stops no other.

The runs here train nothing, so that no process imports PyTorch.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.tables import read_table

ROOT = Path(__file__).parents[2]

# Makes the runs of the variants that it is called with, three or two seeds each. A run waits while a file of its
# variant's name lies in the working folder. Of "broken", the first seed fails, and a signal ends the second.
SCRIPT = f"""
import os, signal, sys, time
from collections import namedtuple
from pathlib import Path
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tools")!r}]
import side_by_side
from helpers.errors import command, RunError

side_by_side.PROCESSES.set_forkserver_preload([])
Run = namedtuple("Run", "variant seed")

class Study:
    def plan(self, lines):
        return [Run(name, seed) for name in sys.argv[1:] for seed in (1, 2)]

    def missing(self, lines):
        return [run for run in self.plan(lines) if run not in [(line["variant"], line["seed"]) for line in lines]]

def measure(run):
    end = time.monotonic() + 60  # or a test that is red would never end
    while os.path.exists(run.variant) and time.monotonic() < end:
        time.sleep(0.01)
    if run == ("broken", 1):
        raise RunError("the loss is nan")
    if run == ("broken", 2):
        os.kill(os.getpid(), signal.SIGKILL)
    return run._asdict() | {{"loss": run.seed / 8}}

def main(_):
    path = Path("table.csv")
    lines = read_table(path)[1] if path.exists() else []
    side_by_side.grow(Study(), lines, path, ["made by a test"], measure, jobs=2)

if __name__ == "__main__":
    sys.exit(command(main))
"""


@pytest.fixture
def start(tmp_path):
    """Starts the script in `tmp_path`, and ends it if a test did not."""
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    started = []

    def start(*names):
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        started.append(subprocess.Popen([sys.executable, "script.py", *names], cwd=tmp_path, **pipes))
        return started[-1]

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # orphans too
        process.communicate()


def read_until(process, pattern):
    for line in process.stdout:
        if re.search(pattern, line):
            return
    raise AssertionError(process.stderr.read())


def kept(folder):
    comments, lines = read_table(folder / "table.csv")
    assert comments == ["made by a test"] and all(line["loss"] == line["seed"] / 8 for line in lines)
    return sorted((line["variant"], line["seed"]) for line in lines)


@pytest.mark.torture
@pytest.mark.slow
def test_a_kill_and_ctrl_c_lose_the_runs_in_progress_and_no_more(start, tmp_path):
    """Every process ends with the one that is stopped, or `communicate` would wait for its end of the pipe."""
    for name in ("b", "c"):
        (tmp_path / name).touch()  # these wait
    process = start("a", "b", "c")
    read_until(process, "2 of 6  Run.variant='a'")
    process.kill()
    process.communicate(timeout=60)
    assert kept(tmp_path) == [("a", 1), ("a", 2)]

    (tmp_path / "b").unlink()
    process = start("a", "b", "c")
    read_until(process, "2 of 6 runs are done already, 4 to go")
    read_until(process, "4 of 6  Run.variant='b'")
    process.send_signal(signal.SIGSTOP)  # so that a child that heard Ctrl-C would have the time to say so
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group gets it
    time.sleep(0.5)
    process.send_signal(signal.SIGCONT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and len(kept(tmp_path)) == 4
    assert error == "stopped by Ctrl-C: 4 runs are kept in table.csv; the same command goes on from there\n"

    (tmp_path / "c").unlink()
    said, error = start("a", "b", "c").communicate(timeout=60)
    assert "4 of 6 runs are done already, 2 to go" in said and not error
    assert re.findall(r"^ +\d of 6  Run.variant='(.)'", said, re.M) == ["c", "c"]
    assert kept(tmp_path) == [(name, seed) for name in "abc" for seed in (1, 2)]


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_go_on(start, tmp_path):
    process = start("broken", "a")
    _, error = process.communicate(timeout=60)
    first, second = (f"Run(variant='broken', seed={seed})" for seed in (1, 2))
    assert f"error: {first}: the loss is nan\n" in error and f"error: {second}: ended by SIGKILL\n" in error
    last = error.splitlines()[-1]
    assert last.startswith("error: 2 runs failed (Run(variant='broken'") and "the table is not whole" in last
    assert process.returncode == 2 and kept(tmp_path) == [("a", 1), ("a", 2)]
