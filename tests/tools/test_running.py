"""The program that runs the notebooks, and what a user meets through it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import nbformat
import pytest
from ipykernel.ipkernel import IPythonKernel
from notebook_file import write_notebook

from helpers import ROOT
from helpers.commands import command
from helpers.errors import ConfigError, HelpersError
from tools import ledger, notebooks, site

SETTINGS = """\
preset = "laptop"  # text
corpus_path = None
seed = 1
rate = 0.1
reuse = False
seeds = [1, 2]
"""


@pytest.fixture(autouse=True)
def environment_comes_back():
    with mock.patch.dict(os.environ):
        yield


# ---------------------------------------------------------------- which
@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("8", "08_x"),
        ("x", "08_x"),
        ("08_x.ipynb", "08_x"),
        ("./notebooks/08_x.ipynb", "08_x"),
        ("far", "far"),
        ("beyond/far", "far"),
    ],
)
def test_a_notebook_is_found_by_any_of_its_names(project, name, stem):
    (project / "notebooks" / "beyond").mkdir()
    for file in ("08_x", "08_a_copy", "08_x-Copy1", "18_y", "beyond/far", "beyond/Untitled"):
        write_notebook(notebooks.NOTEBOOKS / f"{file}.ipynb", "1")
    (path,) = notebooks.chosen([name])
    assert path.stem == stem and notebooks.chosen([str(path), name]) == [path]
    with pytest.raises(ConfigError, match="no notebook '1': choose one of 08_x, 18_y, far"):
        notebooks.chosen(["1"])


def test_a_notebook_of_the_readers_is_none_of_the_lessons_and_is_named(project, capsys):
    (project / "notebooks" / "beyond").mkdir()
    for file in ("08_x", "08_copy", "01_a-Copy1", "beyond/far", "beyond/Untitled"):
        write_notebook(notebooks.NOTEBOOKS / f"{file}.ipynb", "1")
    assert [path.stem for path in notebooks.chosen([])] == ["08_x", "far"]
    stderr = capsys.readouterr().err.splitlines()
    assert [line.partition(" is none of the lessons")[0] for line in stderr] == [
        "notebooks/01_a-Copy1.ipynb",
        "notebooks/08_copy.ipynb",
        "notebooks/beyond/Untitled.ipynb",
    ]


# ---------------------------------------------------------------- settings
@pytest.fixture
def settings(project):
    path = notebooks.NOTEBOOKS / "08_x.ipynb"
    write_notebook(path, SETTINGS, tags={0: "parameters"})
    return lambda *pairs: notebooks.settings(path, [list(pair) for pair in pairs])


def test_values_arrive_as_they_were_meant(settings):
    values = settings(("seed", "-3"), ("rate", "3"), ("reuse", "True"), ("seeds", "[3]"), ("corpus_path", "None"))
    assert values == {"seed": -3, "rate": 3.0, "reuse": True, "seeds": [3], "corpus_path": None}
    for odd in ("5", "None", "$HOME; `x` {y} 'q' \"d\" \\ \n--z \U0001f600", ""):
        assert settings(("preset", "x"), ("preset", odd)) == {"preset": odd}
    assert settings(("corpus_path", "my text.txt")) == {"corpus_path": "my text.txt"}


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("gone", "1", "08_x has no parameter 'gone': it has preset, corpus_path, seed"),
        ("seed", "1.5", "seed takes a value such as 1, not '1.5'"),
        ("reuse", "1", "reuse takes a value such as False, not '1'"),
    ],
)
def test_other_settings_are_refused_in_one_sentence(settings, name, value, sentence):
    with pytest.raises(ConfigError, match=sentence):
        settings((name, value))


# ---------------------------------------------------------------- papermill
@pytest.mark.slow
def test_notebooks_run_side_by_side_and_those_that_fail_or_die_stop_nobody(project, monkeypatch, capfd):
    """The folder is named like papermill's templates; Jupyter's paths hold another python3."""
    other = project / "kernels" / "python3"
    folder = (project / "notebooks").rename(project / "{seed}")
    for name, value in (("NOTEBOOKS", folder), ("BUILD", project / "build")):
        monkeypatch.setattr(notebooks, name, value)
    other.mkdir(parents=True)
    (other / "kernel.json").write_text('{"argv": ["false"], "display_name": "not ours", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(project))
    built = []
    monkeypatch.setattr(site, "build", lambda root, out, runs: built.append(runs) or "")
    write_notebook(folder / "01_bad.ipynb", "1 / 0")
    write_notebook(folder / "02_dead.ipynb", "import os", "os._exit(0)", "print('never')")
    write_notebook(folder / "03_good.ipynb", "print('step     4  train 2.0\\nall well')", tags={0: "result"})
    with pytest.raises(SystemExit, match="1"):
        notebooks.main(["run"])
    out = capfd.readouterr().out
    assert "FAILED: ZeroDivisionError: division by zero" in out and "1 passed, 2 failed: 01_bad, 02_dead" in out
    assert "03_good: step     4  train 2.0\n" in out and "03_good: ok, " in out and "\nall well\n" in out
    first, second = out.splitlines()[-2:]  # and once more at the end
    assert first == "01_bad FAILED: ZeroDivisionError: division by zero" and second.startswith("02_dead FAILED: ")
    assert "cells were not run" in ledger.why_incomplete(notebooks.read_run(notebooks.run_of(folder / "02_dead.ipynb")))
    (runs,) = built
    assert "ZeroDivisionError" in runs["01_bad"].status and "all well" in runs["03_good"].result


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_a_stop_ends_all_at_once_and_keeps_the_last_run(tmp_path):
    clone = tmp_path / "a clone"
    for name in ("tools", "helpers"):
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).symlink_to(ROOT / name)
    (clone / "notebooks").mkdir()
    write_notebook(
        clone / "notebooks" / "01_dot_product_scores.ipynb",
        "print('step  0  train 1')\nimport time\ntime.sleep(600)",
    )
    program = (
        "from pathlib import Path; from tools import notebooks as n; from helpers.commands import command;"
        f"n.ROOT = Path({str(clone)!r}); n.NOTEBOOKS, n.BUILD = n.ROOT / 'notebooks', n.ROOT / 'build';"
        "command(n.main, ['run'])"
    )
    last = clone / "build" / "notebooks" / "01_dot_product_scores.ipynb"
    last.parent.mkdir(parents=True)
    last.write_text("the last run")
    main = ["if __name__ == '__main__':", *(f"    {line.strip()}" for line in program.split(";"))]
    (tmp_path / "main.py").write_text("\n".join(main))
    words = [sys.executable, str(tmp_path / "main.py")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        words, cwd=ROOT, env=environment, stdout=-1, stderr=-1, text=True, start_new_session=True
    ) as run:
        assert any("step  0" in line for line in run.stdout)  # the kernel is at work
        start = time.monotonic()
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does at Ctrl-C: to all in the group
        stderr = run.communicate(timeout=20)[1]
    assert time.monotonic() - start < 8 and stderr.startswith("stopped by Ctrl-C") and stderr.count("\n") == 1
    assert last.read_text() == "the last run"


# ---------------------------------------------------------------- files
def test_a_full_disk_leaves_what_was_there(project, in_process, monkeypatch, capsys):
    path = notebooks.NOTEBOOKS / "01_a.ipynb"
    write_notebook(path, "1")
    last = notebooks.run_of(path)
    last.parent.mkdir(parents=True)
    last.write_bytes(path.read_bytes())
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(notebooks, "run_papermill", full)
    assert command(notebooks.main, ["store"]) == 2
    assert "No space left on device" in "".join(capsys.readouterr())
    assert path.read_bytes() == last.read_bytes() == before
    names = sorted(file.name for file in project.rglob("*") if file.is_file())
    assert set(names) <= {"01_a.ipynb", "course.toml"}  # no temporary file


def test_a_notebook_that_fails_is_not_stored(project, in_process):
    path = notebooks.NOTEBOOKS / "01_a.ipynb"
    write_notebook(path, "1 / 0")
    before = path.read_bytes()
    with pytest.raises(HelpersError, match="01_a is not stored: ZeroDivisionError: division by zero"):
        notebooks.store([])
    assert path.read_bytes() == before


@pytest.mark.slow
def test_storing_twice_changes_nothing(project):
    """On a kernel: what is stored is what JupyterLab would write, whatever came when."""
    path = notebooks.NOTEBOOKS / "02_b.ipynb"
    prints = "import time\nprint('one', flush=True)\ntime.sleep(0.6)\nprint('two')"
    write_notebook(path, "assert True", "1 + 1", "assert 1 < 2", prints)
    notebooks.store([])
    first = path.read_bytes()
    notebooks.store([])
    assert path.read_bytes() == first and b'"text/plain": [\n       "2"' in first
    notebook = nbformat.read(path, as_version=4)
    language = IPythonKernel.language_info
    assert notebook.metadata == {"kernelspec": notebooks.KERNEL, "language_info": language}
    (output,) = notebook.cells[3].outputs
    assert output.text == "one\ntwo\n"
    assert "## What they claim" in (notebooks.NOTEBOOKS / "ledger.md").read_text("utf-8")


# ---------------------------------------------------------------- fresh
def commit(project: Path, *names: str) -> None:
    for name in names:
        write_notebook(notebooks.NOTEBOOKS / f"{name}.ipynb", "1")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=project, check=True)


def test_fresh_brings_notebooks_back_and_keeps_the_readers_copies(project, capsys):
    (notebooks.NOTEBOOKS / "beyond").mkdir()
    commit(project, "01_a", "02_b", "03_c", "beyond/far")
    write_notebook(notebooks.NOTEBOOKS / "98_added.ipynb", "the reader's")
    subprocess.run(["git", "add", "notebooks/98_added.ipynb"], cwd=project, check=True)
    committed = (notebooks.NOTEBOOKS / "01_a.ipynb").read_bytes()
    notebooks.fresh()
    assert "nothing to do" in capsys.readouterr().out and not notebooks.MINE.exists()
    for text in ("mine", "mine again"):
        (notebooks.NOTEBOOKS / "01_a.ipynb").write_text(text, encoding="utf-8")
        (notebooks.NOTEBOOKS / "beyond" / "far.ipynb").write_text(text, encoding="utf-8")
        (notebooks.NOTEBOOKS / "02_b.ipynb").unlink(missing_ok=True)
        (notebooks.NOTEBOOKS / "99_own.ipynb").write_text("the reader's", encoding="utf-8")
        notebooks.fresh()
        out = capsys.readouterr().out
        assert re.search(r"^01_a: as committed, yours is in mine/kept/[-\d]+/01_a.ipynb$", out, re.M)
        assert re.search(r"^far: as committed, yours is in mine/kept/[-\d]+/beyond/far.ipynb$", out, re.M)
        assert re.search(r"^02_b: as committed$", out, re.M) and "03_c" not in out
        assert (notebooks.NOTEBOOKS / "01_a.ipynb").read_bytes() == committed
        assert (notebooks.NOTEBOOKS / "02_b.ipynb").exists() and (notebooks.NOTEBOOKS / "99_own.ipynb").exists()
        assert "added" not in out and (notebooks.NOTEBOOKS / "98_added.ipynb").exists()
    copies = {path.read_text(encoding="utf-8") for path in notebooks.MINE.glob("kept/*/01_a.ipynb")}
    assert copies == {"mine", "mine again"}


def test_fresh_outside_a_clone_changes_nothing(project, monkeypatch):
    write_notebook(notebooks.NOTEBOOKS / "01_a.ipynb", "1")
    with pytest.raises(HelpersError, match="no clone of a git repository"):
        notebooks.fresh()
    commit(project, "02_b")
    # A copy of the project within somebody's repository.
    monkeypatch.setattr(notebooks, "ROOT", project / "notebooks")
    with pytest.raises(HelpersError, match="it only lies in one"):
        notebooks.fresh()


# ---------------------------------------------------------------- pages
def test_a_run_ends_with_pages_that_know_how_each_notebook_fared(project, in_process, monkeypatch, capsys):
    built = []
    monkeypatch.setattr(site, "build", lambda root, out, runs: built.append((root, out, runs)) or "")
    write_notebook(notebooks.NOTEBOOKS / "01_a.ipynb", "1")
    write_notebook(notebooks.NOTEBOOKS / "02_b.ipynb", "print('so it is')", "1 / 0", tags={0: "result"})
    assert notebooks.run(["02_b"]) == 1
    ((root, out, runs),) = built  # once, after all
    assert (root, out) == (project, project / "build" / "html")
    assert runs["01_a"].notebook is None and runs["01_a"].status == "not run yet"
    assert runs["02_b"].status == "ZeroDivisionError: division by zero" and runs["02_b"].result == "so it is\n"
    assert "to read them: build/html/index.html" in capsys.readouterr().out
