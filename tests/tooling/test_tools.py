"""The program that runs the notebooks, and what a user meets through it."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tables
import warm
import website
from notebook_file import write_notebook

import notebooks
from helpers.errors import HelpersError, command

ROOT = Path(__file__).parents[2]
PARAMETRIZED = {0: "parameters", 1: "result"}


# ---------------------------------------------------------------- papermill, in processes of its own
@pytest.mark.slow
@pytest.mark.torture
def test_notebooks_that_fail_or_die_stop_nobody(project, monkeypatch, capsys):
    built = []
    monkeypatch.setattr(website, "build", lambda root, out, runs: built.append(runs) or "")
    write_notebook(notebooks.NOTEBOOKS / "01_bad.ipynb", "1 / 0")
    write_notebook(notebooks.NOTEBOOKS / "02_dead.ipynb", "import os", "os._exit(0)", "print('never')")
    write_notebook(
        notebooks.NOTEBOOKS / "03_good.ipynb",
        "print('step     4  train 2.0\\nstep by step\\nall well')",
        tags={0: "result"},
    )
    assert notebooks.run(None, "") == 1
    out = capsys.readouterr().out
    assert "FAILED: ZeroDivisionError: division by zero" in out and "1 passed, 2 failed: 01_bad, 02_dead" in out
    assert "03_good: step     4  train 2.0\n03_good: ok, " in out and "step by step\nall well\n" in out
    first, second = out.splitlines()[-2:]  # and once more at the end
    assert first == "01_bad FAILED: ZeroDivisionError: division by zero" and second.startswith("02_dead FAILED: ")
    assert out.count("FAILED: ") == 4 and "cells were not run" in tables.why_incomplete(notebooks.read_run("02_dead"))
    (runs,) = built  # test_site shows what becomes of them
    assert "ZeroDivisionError" in runs["01_bad"].status and "step by step" in runs["03_good"].result
    assert (notebooks.BUILD / "notebooks" / "03_good.ipynb").exists()


@pytest.mark.parametrize(
    ("refusals", "tries"),
    [
        (["Kernel died before replying to kernel_info"], 2),
        (["Kernel didn't respond in 60 seconds"] * 2, 3),
        (["Kernel didn't respond in 60 seconds"] * 3, 3),
        (["Kernel died"], 1),  # in the middle: what it has done must not be done twice
    ],
)
def test_a_kernel_whose_port_was_taken_is_started_again(refusals, tries, monkeypatch):
    made, left = [], list(refusals)

    def execute_notebook(source, target, values, **options):
        made.append((source, target, values))
        if left:
            raise RuntimeError(left.pop(0))

    monkeypatch.setitem(sys.modules, "papermill", SimpleNamespace(execute_notebook=execute_notebook))
    monkeypatch.setitem(sys.modules, "rfc3987_syntax", None)
    monkeypatch.setattr(sys, "argv", ["-c", str(ROOT / "tools"), "in.ipynb", "out.ipynb"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(warm, "use", lambda: None)
    monkeypatch.setattr(sys, "stdin", io.StringIO("{}"))
    ends = contextlib.nullcontext() if tries > len(refusals) else pytest.raises(RuntimeError, match=refusals[-1])
    with ends:
        exec(notebooks.PAPERMILL, {})
    assert made == [("in.ipynb", "out.ipynb", {})] * tries


@pytest.mark.slow
@pytest.mark.torture
def test_notebooks_run_side_by_side_and_a_stop_keeps_what_was_there(project, monkeypatch):
    """08 and 01 wait for each other, which only ends well when they run at the same time; 09 takes what 08 leaves."""
    wait = f"""
import pathlib, time
here = pathlib.Path({str(project)!r})
def wait_for(name):
    for _ in range(1200):
        if (here / name).exists():
            return
        time.sleep(0.05)
    raise TimeoutError(name)
"""
    eight = "(here / 'eight').touch()\nwait_for('one')\ntime.sleep(1)\n(here / 'model').touch()"
    one = "(here / 'one').touch()\nwait_for('eight')\nprint('step     0  train 2.0', flush=True)\nwait_for('go on')"
    write_notebook(notebooks.NOTEBOOKS / "08_x.ipynb", wait + eight)
    write_notebook(notebooks.NOTEBOOKS / "09_y.ipynb", wait + "assert (here / 'model').exists()")
    write_notebook(notebooks.NOTEBOOKS / "01_z.ipynb", wait + one)
    (project / "go on").touch()
    assert notebooks.run(None, "", jobs=2) == 0

    def results():
        return {path.name: path.read_bytes() for path in (notebooks.BUILD / "notebooks").iterdir()}

    before, say = results(), notebooks.say
    assert len(before) == 6  # a notebook and a log of each

    def stop(line, **how):
        if "train 2.0" in line:
            raise KeyboardInterrupt
        say(line, **how)

    monkeypatch.setattr(notebooks, "say", stop)
    (project / "go on").unlink()
    with pytest.raises(KeyboardInterrupt):
        notebooks.run(None, "", jobs=2)
    assert results() == before and all(process.poll() is not None for process in notebooks.RUNNING)


@pytest.mark.slow
def test_values_reach_the_notebook_whatever_is_in_them(project, monkeypatch, capsys):
    monkeypatch.setattr(notebooks, "NOTEBOOKS", project / "{seed}")  # papermill takes braces in a path for a template
    notebooks.NOTEBOOKS.mkdir()
    odd = "$HOME; `x` {y} 'q' \"d\" \\ \n--z \U0001f600"
    write_notebook(notebooks.NOTEBOOKS / "01_n.ipynb", "a = 'x'\nn = 1", "print(ascii((a, n)))", tags=PARAMETRIZED)
    assert notebooks.run("01_n.ipynb", f"-p n 2 -p a {shlex.quote(odd)}") == 0
    assert capsys.readouterr().out.endswith(f"{(odd, 2)!a}\n")


# ---------------------------------------------------------------- files
@pytest.fixture
def full_disk(monkeypatch):
    """No file that the tools write may grow beyond 2,000 bytes."""
    resource = pytest.importorskip("resource", reason="needs a limit on file sizes")
    write, before = notebooks.write, resource.getrlimit(resource.RLIMIT_FSIZE)

    def write_on_a_full_disk(path, content):  # Python ignores SIGXFSZ: the write fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        try:
            write(path, content)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    monkeypatch.setattr(notebooks, "write", write_on_a_full_disk)
    for name in ("NB", "P"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.slow
@pytest.mark.parametrize("action", ["store", "run"])
def test_a_full_disk_leaves_what_was_there(project, in_process, full_disk, action, capsys):
    path, source = notebooks.NOTEBOOKS / "01_n.ipynb", "print('x' * 5000)"
    write_notebook(path, source)
    last = notebooks.make_folder("notebooks") / "01_n.ipynb"
    last.write_bytes(path.read_bytes())
    before = path.read_bytes()
    try:
        status = command(notebooks.main, [action])
    except SystemExit as end:
        status = end.code
    assert "can't write" in "".join(capsys.readouterr())
    assert status in (1, 2) and path.read_bytes() == last.read_bytes() == before
    left = sorted(file.name for file in project.rglob("*") if file.is_file())
    assert set(left) <= {"01_n.ipynb", "claims.md"}  # no temporary file


@pytest.mark.slow
def test_a_notebook_that_fails_is_not_stored(project):
    path = notebooks.NOTEBOOKS / "01_n.ipynb"
    write_notebook(path, "1 / 0")
    before = path.read_bytes()
    with pytest.raises(HelpersError, match="01_n is not stored: ZeroDivisionError: division by zero"):
        notebooks.store(None)
    assert path.read_bytes() == before


@pytest.mark.slow
def test_the_tools_need_no_matplotlib():
    blocked = "import sys; sys.modules['matplotlib'] = None; sys.path.insert(0, 'tools'); import notebooks"
    assert subprocess.run([sys.executable, "-c", blocked], cwd=ROOT).returncode == 0


# ---------------------------------------------------------------- fresh
def commit(project: Path, *names: str) -> None:
    for name in names:
        write_notebook(notebooks.NOTEBOOKS / f"{name}.ipynb", "1")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=project, check=True)


def test_fresh_brings_notebooks_back_and_keeps_the_readers_copies(project, capsys):
    commit(project, "01_a", "02_b", "03_c")
    committed = (notebooks.NOTEBOOKS / "01_a.ipynb").read_bytes()
    notebooks.fresh()
    assert "nothing to do" in capsys.readouterr().out and not notebooks.BUILD.exists()
    for text in ("mine", "mine again"):
        (notebooks.NOTEBOOKS / "01_a.ipynb").write_text(text, encoding="utf-8")
        (notebooks.NOTEBOOKS / "02_b.ipynb").unlink(missing_ok=True)
        (notebooks.NOTEBOOKS / "99_own.ipynb").write_text("the reader's", encoding="utf-8")
        notebooks.fresh()
        out = capsys.readouterr().out
        assert re.search(r"^01_a: as committed, yours is in build/kept/[-\d]+/01_a.ipynb$", out, re.M)
        assert re.search(r"^02_b: as committed$", out, re.M) and "03_c" not in out
        assert (notebooks.NOTEBOOKS / "01_a.ipynb").read_bytes() == committed
        assert (notebooks.NOTEBOOKS / "02_b.ipynb").exists() and (notebooks.NOTEBOOKS / "99_own.ipynb").exists()
    kept = {path.read_text(encoding="utf-8") for path in notebooks.BUILD.glob("kept/*/01_a.ipynb")}
    assert kept == {"mine", "mine again"}


def test_fresh_outside_a_clone_changes_nothing(project, tmp_path_factory, monkeypatch):
    write_notebook(notebooks.NOTEBOOKS / "01_a.ipynb", "1")
    with pytest.raises(HelpersError, match="no clone of a git repository"):
        notebooks.fresh()
    commit(project, "02_b")
    monkeypatch.setattr(notebooks, "ROOT", project / "notebooks")  # a copy of the project within somebody's repository
    with pytest.raises(HelpersError, match="it only lies in one"):
        notebooks.fresh()


# ---------------------------------------------------------------- pages
def test_a_run_ends_with_pages_that_know_how_each_notebook_fared(project, in_process, monkeypatch, capsys):
    built = []
    monkeypatch.setattr(website, "build", lambda root, out, runs: built.append((root, out, runs)) or "")
    write_notebook(notebooks.NOTEBOOKS / "01_a.ipynb", "1")
    write_notebook(notebooks.NOTEBOOKS / "02_b.ipynb", "print('so it is')", "1 / 0", tags={0: "result"})
    assert notebooks.run("02_b", "") == 1
    ((root, out, runs),) = built  # once, after all
    assert (root, out) == (project, project / "build" / "html")
    assert runs["01_a"].notebook is None and runs["01_a"].status == "not run yet"
    assert runs["02_b"].status == "ZeroDivisionError: division by zero" and runs["02_b"].result == "so it is\n"
    assert "to read them: build/html/index.html" in capsys.readouterr().out


def test_pages_that_cannot_be_built_are_told_in_one_sentence(project, in_process, monkeypatch, capsys):
    def fails(*_):
        raise HelpersError("the pages could not be built: no reason given")

    monkeypatch.setattr(website, "build", fails)
    write_notebook(notebooks.NOTEBOOKS / "01_a.ipynb", "print('well')", tags={0: "result"})
    assert notebooks.run(None, "") == 1
    out = capsys.readouterr().out
    assert "1 passed, 0 failed\nthe pages could not be built: no reason given\n" in out and out.endswith("\nwell\n")
    assert "to read them" not in out
