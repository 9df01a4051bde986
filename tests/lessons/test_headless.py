"""The commands of docs/use.md that run a notebook without a browser, from a folder of one's own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT

USE = (ROOT / "docs" / "use.md").read_text(encoding="utf-8")
COMMANDS = re.search(r"from any folder.+?```\n(.+?)\n```", USE, re.S)[1].splitlines()


@pytest.mark.weekly
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0:2][-1])
def test_it_runs_from_anywhere(command, tmp_path):
    tool, *words = command.split()
    own = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # The shortest of them all: what is tried is the command.
    words = [str(ROOT / "notebooks/index.ipynb") if "notebooks/" in w else w for w in words]
    process = subprocess.run(
        [tool, *words],
        cwd=tmp_path,
        env=os.environ | {"PATH": own},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stdout + process.stderr
