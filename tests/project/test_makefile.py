"""What make hands over, in any folder and environment, and a set-up that knows its state."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from unittest import mock

import pytest

from helpers import ROOT
from helpers.errors import ConfigError
from tools import check, setup, surroundings

FOLDERS = ["My Documents (1)", "R&D; touch pwned's $HOME"]
OTHERS = {
    "NB": "theirs",
    "P": "theirs",
    "PYTHON": "theirs",
    "PYTHONPATH": "theirs",
    "PYTHONOPTIMIZE": "1",
    "PYTHONHASHSEED": "theirs",
}
STUB = """#!{} -IS
import posix, sys
ours = {{name.decode(): value.decode() for name, value in posix.environ.items()}}
print(repr((sys.argv[1:], ours)), file=open({!r}, "a"))
"""


@pytest.fixture
def make(tmp_path):
    """Run make where each Python only notes its arguments and environment; return these."""

    def run(folder: str, *arguments: str, **environment: str) -> list[tuple[list[str], dict[str, str]]]:
        clone, seen = tmp_path / folder, tmp_path / "seen"
        (clone / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
        for stub in (clone / ".venv" / "bin" / "python", tmp_path / "python3"):
            stub.write_text(STUB.format(sys.executable, str(seen)), encoding="utf-8")
            stub.chmod(0o755)
        shutil.copy(ROOT / "Makefile", clone)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        clean |= {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"} | environment
        seen.write_text("")
        subprocess.run(["make", *arguments], cwd=clone, env=clean, check=True, capture_output=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder, "python3", "seen"])
        return [eval(line) for line in seen.read_text("utf-8").splitlines()]

    return run


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_target_works_in_any_folder_and_makes_nothing_outside(make, folder):
    targets = ["setup", "lab", "run", "test", "check", "write", "site", "store"]
    calls = [arguments for arguments, _ in make(folder, *targets, "NB=08", 'P=-p out_dir "my run"')]
    assert [" ".join(call) for call in calls] == [
        "tools/setup.py",
        "-m tools.lab -p out_dir my run",
        "-m tools.notebooks run 08 -p out_dir my run",
        "tools/setup.py dev",
        "-m tools.check test 08",
        "-m tools.check check",
        "-m helpers.sampling -p out_dir my run",
        "-m tools.site",
        "-m tools.notebooks store 08",
    ]
    assert calls[2][-1] == "my run"  # one word


def test_the_environment_says_neither_what_to_run_nor_how_python_works(make):
    given = {
        "JOBS": "2",
        "OMP_NUM_THREADS": "4,2",
        "TORCH_INDEX": "https://here",
        "PIP_INDEX_URL": "https://there",
    }
    for arguments, seen in make("clone", "run", "write", **OTHERS, **given):
        assert "theirs" not in arguments
        assert not {name for name in OTHERS if seen.get(name)} and given.items() <= seen.items()


def test_a_python_that_is_asked_for_is_told_from_the_usual_one(make, tmp_path):
    ((usual, _),) = make("clone", "setup")
    ((asked, _),) = make("clone", "setup-dev", f"PYTHON={tmp_path / 'python3'}")
    assert (usual, asked) == (["tools/setup.py"], ["tools/setup.py", "asked", "dev"])


def test_no_script_is_started_by_its_first_line(monkeypatch):
    """A shell reads that line where the folder has a blank in its name, and fails at a backquote."""
    started = []
    monkeypatch.setattr(subprocess, "run", lambda words, **_: started.append(words) or mock.Mock(returncode=0))
    assert check.run_checks(with_notebooks=False) == 0 and check.mend() == 0
    for program, *words in started:
        assert program == str(check.BIOME) or (program, words[0]) == (sys.executable, "-m")


def test_clean_leaves_what_only_the_reader_has(make, tmp_path):
    clone = tmp_path / "clone"
    theirs = [
        clone / name
        for name in (
            "mine/my_gpt.py",
            "build/my_gpt.py",
            "build/kept/a",
            "build/runs/a",
            "build/studies/a",
        )
    ]
    ours = [clone / name for name in (".venv/a", "build/notebooks/a", "build/site/a", "build/test-runs/a")]
    for path in (*theirs, *ours):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    make("clone", "clean")
    assert all(path.exists() for path in theirs) and not any(path.exists() for path in ours)


def test_make_help_names_every_target():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    process = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in re.search(r"^\.PHONY: (.+)$", text, re.M).group(1).replace("setup-dev ", "").split():
        assert re.search(rf"^{target}\s", process.stdout, re.M), target


# ---------------------------------------------------------------- surroundings
def test_settings_of_others_end_here_whatever_their_names(monkeypatch):
    theirs = (
        "JUPYTER_PATH",
        "JUPYTER_CONFIG_PATH",
        "PYTHONPATH",
        "PYTHONINSPECT",
        "MPLBACKEND",
        "PYTEST_ADDOPTS",
        "RUFF_OUTPUT_FILE",
        "GIT_DIR",
    )
    monkeypatch.setattr(os, "environ", {**dict.fromkeys(theirs, "theirs"), "MY_GPT": "mine", "PIP_PROXY": "mine"})
    surroundings.shut_out_others()
    assert "theirs" not in os.environ.values() and [*os.environ.values()].count("mine") == 2
    assert os.environ["JUPYTER_DATA_DIR"].startswith(str(ROOT))


@pytest.mark.parametrize(
    ("given", "jobs", "threads"),
    [("", 3, "2"), ("4,2", 3, "4")],
)
def test_processes_share_the_cores_unless_told_otherwise(monkeypatch, given, jobs, threads):
    monkeypatch.setattr(os, "environ", {"OMP_NUM_THREADS": given})
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert surroundings.jobs() == 4
    surroundings.share_cores(jobs)
    assert os.environ["OMP_NUM_THREADS"] == threads


@pytest.mark.parametrize(("name", "value"), [("JOBS", "0"), ("OMP_NUM_THREADS", "4;2")])
def test_nonsense_is_one_sentence(monkeypatch, name, value):
    monkeypatch.setattr(os, "environ", {name: value})
    with pytest.raises(ConfigError, match=f"{name}='{value}' is not a whole number from 1"):
        surroundings.share_cores(surroundings.jobs())


# ---------------------------------------------------------------- set-up
@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose set-up only notes what it was asked for; `setup.main` with arguments."""
    asked = []

    def at(root: Path):
        monkeypatch.setattr(setup, "ROOT", str(root))
        monkeypatch.setattr(setup, "VENV", str(root / ".venv"))
        monkeypatch.setattr(setup, "STAMP", str(root / ".venv" / "ready"))
        monkeypatch.setattr(setup, "PYTHON", str(root / ".venv" / "python"))
        return root

    def install(kind, anew=False):
        (Path(setup.VENV)).mkdir(exist_ok=True)
        Path(setup.PYTHON).touch()
        asked.append(kind)

    def run(*arguments: str) -> list[str]:
        asked.clear()
        monkeypatch.setattr(sys, "argv", ["setup.py", *arguments])
        setup.main()
        return list(asked)

    monkeypatch.setattr(setup, "install", install)
    monkeypatch.setattr(os, "environ", {})
    root = at(tmp_path / "clone")
    for name in [name for names in setup.LISTS.values() for name in names]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root, run, at


def test_set_up_happens_once_and_again_when_it_is_no_longer_true(project):
    root, run, at = project
    assert run() == ["reading"] and run() == []
    os.utime(root / "requirements.txt", (4e9, 4e9))  # a date in the future is no change
    assert run() == []
    (root / "requirements.txt").write_text("other versions")
    assert run() == ["reading"] and run() == []
    assert run("dev") == ["developing"] and run("dev") == run() == []
    (root / "tools" / "requirements-dev.lock").write_text("other versions")
    assert run() == ["developing"]
    (root / ".venv" / "python").unlink()
    assert run() == ["reading"]
    (root.parent / "another python").touch()
    (root / ".venv" / "python").unlink()
    (root / ".venv" / "python").symlink_to(root.parent / "another python")
    assert run() == ["reading"] and run() == []
    for version, again in (("3.1.1", ["reading"]), (sys.version.split()[0], [])):
        (root / ".venv" / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
        assert run("asked") == again and run() == []
    root.rename(root.with_name("renamed"))
    at(root.with_name("renamed"))
    assert run() == ["reading"] and run() == []
    (root.with_name("renamed") / ".venv" / "ready").write_text("")  # as the first edition left it
    assert run() == ["reading"]


def test_set_up_leaves_alone_what_a_link_leads_to_and_refuses_a_folder_with_a_colon(tmp_path, monkeypatch):
    """As in a worktree that shares its .venv: to make that anew would empty the other clone's."""
    theirs, ours = tmp_path / "theirs" / ".venv", tmp_path / "ours" / ".venv"
    for folder in (theirs, ours.parent):
        folder.mkdir(parents=True)
    (theirs / "ready").write_text('{"folder": "/theirs"}')
    ours.symlink_to(theirs)
    for name, value in (("VENV", ours), ("STAMP", ours / "ready"), ("PYTHON", ours / "python")):
        monkeypatch.setattr(setup, name, str(value))
    with pytest.raises(SystemExit, match="a link to what /theirs was set up with"):
        setup.install("reading")
    monkeypatch.setattr(setup, "ROOT", os.pathsep.join(["Work", " AI"]))
    with pytest.raises(SystemExit, match="rename Work"):
        setup.install("reading")
    ours.unlink()
    monkeypatch.setattr(setup, "ROOT", "/Zo\udceb")
    with pytest.raises(SystemExit, match="whose path is no UTF-8: rename"):
        setup.install("reading")
    assert (theirs / "ready").exists()


@pytest.mark.slow
def test_whatever_pip_is_told_elsewhere_it_installs_into_venv(tmp_path, monkeypatch):
    wheel, prefix = tmp_path / "small-1-py3-none-any.whl", tmp_path / "venv"
    with zipfile.ZipFile(wheel, "w") as archive:
        facts = "Metadata-Version: 2.1\nName: small\nVersion: 1\n"
        kind = "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        files = {"small.py": "", "small-1.dist-info/METADATA": facts}
        files |= {"small-1.dist-info/WHEEL": kind, "small-1.dist-info/RECORD": ""}
        for name, content in files.items():
            archive.writestr(name, content)
    theirs = {name: tmp_path / name for name in ("target", "root", "python")}
    settings = [f"{name} = {value}" for name, value in theirs.items()]
    (tmp_path / "pip.conf").write_text("\n".join(["[global]", "dry-run = true", *settings]))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    for name in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_DRY_RUN", "1")
    monkeypatch.setattr(setup, "PYTHON", sys.executable)
    monkeypatch.setattr(setup, "ROOT", str(tmp_path))
    monkeypatch.setattr(setup, "PIP", [word.replace(setup.VENV, str(prefix)) for word in setup.PIP])
    setup.pip("--no-index", str(wheel))
    assert [*prefix.rglob("small.py")]
    assert {path.name for path in tmp_path.iterdir()} == {"pip.conf", "venv", wheel.name}


def test_what_the_first_edition_kept_in_build_moves_to_mine(project, capsys):
    root, run, _ = project
    for name in ("build/my_gpt.py", "build/kept/2026/01.ipynb", "build/runs/a"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    run()
    assert (root / "mine" / "my_gpt.py").read_text() == "build/my_gpt.py"
    assert (root / "mine" / "kept" / "2026" / "01.ipynb").exists() and (root / "build" / "runs" / "a").exists()
    assert capsys.readouterr().out.count("is now mine/") == 2
    (root / "build" / "my_gpt.py").write_text("an old one that came back")
    run()
    assert (root / "mine" / "my_gpt.py").read_text() == "build/my_gpt.py" and (root / "build" / "my_gpt.py").exists()


def test_the_kernel_is_called_as_stored_notebooks_call_it():
    notebook = json.loads((ROOT / "notebooks" / "00_why_attention.ipynb").read_text("utf-8"))
    assert f'"{notebook["metadata"]["kernelspec"]["display_name"]}"' in setup.FINISH


def test_before_gigabytes_are_loaded_one_line_says_how_to_do_without(tmp_path, monkeypatch, capsys):
    def enough(*_, **__):
        raise SystemExit("enough")

    monkeypatch.setattr(venv, "create", enough)
    monkeypatch.setattr(setup, "ROOT", str(tmp_path))
    monkeypatch.setattr(setup, "VENV", str(tmp_path / ".venv"))
    for system, index, is_said in (("linux", "", 1), ("linux", "there", 0), ("darwin", "", 0)):
        monkeypatch.setattr(sys, "platform", system)
        monkeypatch.setenv("TORCH_INDEX", index)
        with pytest.raises(SystemExit, match="enough"):
            setup.install("reading")
        assert capsys.readouterr().out.count("For the small build: Ctrl-C, then") == is_said
