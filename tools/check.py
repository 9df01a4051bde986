"""`make test` and `make check`: ruff, types, biome and pytest, all of them whatever the others say.

`test` runs every notebook too and compares its outputs with the stored ones; with names of
notebooks, those and what belongs to them. `check` leaves notebooks and slow tests out. `format` mends
what ruff and biome can mend.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from helpers import ROOT
from helpers.commands import command, say
from tools.lessons import everyone, name_others, named
from tools.surroundings import jobs, share_cores, shut_out_others

# There is a build of it for Linux on x86-64; elsewhere it isn't asked.
BIOME = Path(sys.executable).with_name("biome")
JAVASCRIPT = [
    "--config-path=tools/javascript.json",
    "pictures/front",
    "tools/site/static",
    "tools/lab",
]
# Whole files go to one process, those that take longest first.
SIDE_BY_SIDE = ["--dist", "loadfile", "--no-loadscope-reorder"]
USUAL = ["-m", "not weekly and not lesson"]
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout", "600"]


def runs(*words: object, program: Sequence[object] = (sys.executable, "-m")) -> bool:
    """Run a program of .venv at the root of the project; whether it ended well.

    As a module: where the path has a blank, a shell reads a script's first line, and ` fails there.
    """
    return subprocess.run([*map(str, program), *map(str, words)], cwd=ROOT).returncode == 0


def run_checks(with_notebooks: bool, only: Sequence[str] = ()) -> int:
    results = {"ruff": runs("ruff", "check", ".") & runs("ruff", "format", "--check", ".")}
    results["types"] = runs("ty", "check", "--python", ".venv", "--quiet")
    if BIOME.exists():
        results["JavaScript"] = runs("check", *JAVASCRIPT, program=[BIOME])
    pytest = ["pytest", "-q", "-n", jobs(), *SIDE_BY_SIDE]
    if with_notebooks:
        name_others()
        selection = [*USUAL, *everyone()]
        if only:
            paths = [named(name) for name in only]
            selection = ["-m", "not weekly", *(f"--notebook={path.stem}" for path in paths), *paths]
        results["tests"] = runs(*pytest, *NBVAL, *selection, "tests")
    else:
        results["tests"] = runs(*pytest, "-m", "not slow and not weekly", "--durations=5", "tests")
    say("; ".join(f"{name} {'passed' if passed else 'FAILED'}" for name, passed in results.items()))
    return 0 if all(results.values()) else 1


def mend() -> int:
    results = [runs("ruff", "check", "--fix", "--quiet", "."), runs("ruff", "format", ".")]
    if BIOME.exists():
        results.append(runs("check", "--write", *JAVASCRIPT, program=[BIOME]))
    return 0 if all(results) else 1


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.check", description=__doc__)
    parser.add_argument("what", choices=["test", "check", "format"])
    parser.add_argument("notebooks", nargs="*", help="for test: only these, and what belongs to them")
    options = parser.parse_args(arguments)
    if options.what == "format":
        sys.exit(mend())
    shut_out_others()
    os.environ.pop("OMP_NUM_THREADS", None)  # the tests' numbers are those of few threads
    share_cores(jobs())
    # Notebooks begin anew, and leave your runs alone.
    os.environ["NANOGPT_RUNS"] = str(ROOT / "build" / "test-runs")
    shutil.rmtree(ROOT / "build" / "test-runs", ignore_errors=True)
    sys.exit(run_checks(options.what == "test", options.notebooks))


if __name__ == "__main__":
    sys.exit(command(main))
