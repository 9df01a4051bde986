"""A small version of `make torture`. What a user would lose: a training, a file of his own, trust in a number."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GROUPS = (
    "kills", "full disks", "signals", "signals to writing", "fresh processes", "pairs of writers", "odd paths",
    "odd contents", "flipped bytes", "truncations", "malicious pickles", "hostile states", "corpora", "command lines",
    "API calls",
)  # fmt: skip


pytestmark = pytest.mark.torture


@pytest.fixture(scope="module")
def torture() -> str:
    """The table and the bad cases, from a process in which pytest checks no annotations: a user has none either."""
    command = [sys.executable, "-m", "tools.torture", "--quick", "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ})
    assert "tried" in done.stdout, done.stderr
    return done.stdout


@pytest.mark.skipif(os.name != "posix", reason="signals, limits of file sizes and forks are POSIX's")
@pytest.mark.parametrize("group", GROUPS)
def test_nothing_breaks_under_attack(torture, group):
    """Each case either works as it should or is refused by one sentence, and loses or touches nothing."""
    tried, right, refused, bad = map(int, re.search(rf"^{group} +(\d+) +(\d+) +(\d+) +(\d+)$", torture, re.M).groups())
    cases = "\n".join(line for line in torture.splitlines() if line.startswith(("--only " + group, f"--only '{group}")))
    assert tried == right + refused > 0 and bad == 0, cases


def test_every_group_is_tried(torture):
    assert re.findall(r"^(\S.*?)  +\d", torture, re.M) == list(GROUPS)
