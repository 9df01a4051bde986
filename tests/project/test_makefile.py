"""The Makefile: no shell sees what a user gives it, threads are few, and `make help` knows every target."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def make(tmp_path):
    """Run make with a python that only writes down its arguments and its environment; return these, call by call."""
    stub, seen = tmp_path / "python", tmp_path / "seen.json"
    stub.write_text(
        f"#!{sys.executable} -IS\nimport posix, sys\n"  # nothing that takes time to import: it starts 280 times
        f"print([sys.argv[1:], posix.environ], file=open({str(seen)!r}, 'a'))\n",
        encoding="utf-8",
    )
    stub.chmod(0o755)
    (tmp_path / "jupyter").symlink_to(stub)

    def run(*arguments: str, **environment: str) -> list[tuple[list[str], dict[str, str]]]:
        seen.unlink(missing_ok=True)
        ours = (
            "OMP_NUM_THREADS",
            "OMP_WAIT_POLICY",
            "GOMP_SPINCOUNT",
            "MAKEFLAGS",
            "MAKEOVERRIDES",
            "MFLAGS",
            "NB",
            "P",
            "WEIGHTS",
            "NAME",
            "QUICK",
            "OUT",
            "SUBMISSIONS",
        )
        clean = {name: value for name, value in os.environ.items() if name not in ours}
        command = ["make", "-o", ".venv/ready", f"BIN={tmp_path}", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=clean | environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        calls = map(ast.literal_eval, seen.read_text("utf-8").splitlines())
        return [(given, {os.fsdecode(k): os.fsdecode(v) for k, v in bytes_.items()}) for given, bytes_ in calls]

    return run


HOSTILE = [
    *("$(shell touch PWNED)", "$(eval $(shell touch PWNED))", "$(file >PWNED,x)", "${shell touch PWNED}", "$(error x)"),
    *("`touch PWNED`", "$(touch PWNED)", "<(touch PWNED)", "; touch PWNED", "| touch PWNED", "&& touch PWNED"),
    *('"; touch PWNED "', "'; touch PWNED '", "x\ntouch PWNED", "\\\ntouch PWNED", "x # y", "--version"),
    *("$HOME", "'$HOME'", "$$HOME", "$", "$$", "$(", "$(P)", "$@ $<", "%", "*", "\\", "a\\", '"', "'", "é ☃"),
]


@pytest.mark.torture
def test_no_shell_sees_what_make_is_given(make, tmp_path):
    for value in HOSTILE:
        value = value.replace("PWNED", str(tmp_path / "pwned"))
        given_all = {"NB": value, "P": value, "WEIGHTS": value, "NAME": value, "QUICK": value}
        given_all |= {"OUT": value, "SUBMISSIONS": value}
        for given in ({"arguments": [f"{n}={value}" for n in given_all]}, {"environment": given_all}):
            seen = make(
                "run",
                "store",
                "write",
                "gpt2",
                "study",
                "bench",
                "student",
                "grade",
                *given.get("arguments", []),
                **given.get("environment", {}),
            )
            assert len(seen) == 8 and {e[name] for _, e in seen for name in given_all} == {value}
            assert not any(len(value) > 2 and value in argument for arguments, _ in seen for argument in arguments)
    assert not (tmp_path / "pwned").exists()


def test_make_takes_few_threads_unless_told_otherwise(make):
    for target in ("run", "lab"):
        ((arguments, environment),) = make(target)
        threads, cores = int(environment["OMP_NUM_THREADS"]), os.cpu_count()
        jobs = int(arguments[arguments.index("--jobs") + 1]) if "--jobs" in arguments else 1
        assert 1 <= threads <= 4 and threads * jobs <= cores
        assert (environment["OMP_WAIT_POLICY"], environment["GOMP_SPINCOUNT"]) == ("passive", "1000")
        ((_, environment),) = make(target, OMP_NUM_THREADS="7", OMP_WAIT_POLICY="active")
        assert (environment["OMP_NUM_THREADS"], environment["OMP_WAIT_POLICY"]) == ("7", "active")
        assert "GOMP_SPINCOUNT" not in environment


def test_make_write_and_make_gpt2_hand_over_their_options(tmp_path):
    (tmp_path / "helpers" / "commands").mkdir(parents=True)
    for room in ("", "commands"):
        (tmp_path / "helpers" / room / "__init__.py").touch()
    for module in ("sampling", "commands/gpt2"):
        text = f"import sys\nprint({module!r}, sys.argv[1:])"
        (tmp_path / "helpers" / f"{module}.py").write_text(text, encoding="utf-8")

    def run(*target: str, **environment: str) -> subprocess.CompletedProcess:
        command = [sys.executable, ROOT / "tools" / "write.py", *target]
        env = os.environ | {"PYTHONPATH": str(tmp_path), "WEIGHTS": ""} | environment
        return subprocess.run(command, env=env, capture_output=True, text=True)

    given = "--prompt 'O $HOME' --top-k 3"
    assert run(P=given).stdout == "sampling ['--prompt', 'O $HOME', '--top-k', '3']\n"
    assert run(P="", WEIGHTS="unused").stdout == "sampling []\n"
    assert run("gpt2", P=given, WEIGHTS="-x 'y $HOME").stdout == (
        """commands/gpt2 ["--weights=-x 'y $HOME", '--prompt', 'O $HOME', '--top-k', '3']\n"""
    )
    for target, environment, said in (
        ((), {"P": "--prompt 'O"}, "error: P=--prompt 'O: no closing quotation\n"),
        (("gpt2",), {"P": "", "WEIGHTS": ""}, "error: WEIGHTS must name the folder with GPT-2's files\n"),
    ):
        done = run(*target, **environment)
        assert (done.returncode, done.stderr) == (1, said)


def test_make_help_names_every_target():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in re.search(r"^\.PHONY: (.+)$", text, re.M).group(1).split():
        assert re.search(rf"^{target}\s", done.stdout, re.M), target
