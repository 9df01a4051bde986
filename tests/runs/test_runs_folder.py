"""The folder of a run: nothing good is overwritten, nothing foreign is touched; and which run in it is meant."""

import dataclasses
import os

import filelock
import pytest
import torch
from run_folder import ALPHABET, end_of, stop_at

from helpers.core import training
from helpers.core.data import CharTokenizer
from helpers.runs import checkpoint
from helpers.runs.folder import plan, write_sample
from helpers.runs.state import Identity
from helpers.support import console
from helpers.support.errors import CheckpointError, ConfigError, RunError, StorageError


# ---------------------------------------------------------------- what is in the way
def test_nothing_good_is_overwritten_unasked(go, tmp_path):
    go()
    with pytest.raises(RunError, match="run holds a run already: resume it, overwrite it, or choose another folder"):
        go(settings={"max_steps": 1})
    assert checkpoint.load(tmp_path / "run").step == 12
    with pytest.raises(RunError, match="choose one of the two"):
        go(resume=True, overwrite=True)
    go(settings={"max_steps": 1}, overwrite=True)
    assert checkpoint.load(tmp_path / "run").step == 1


def test_the_old_run_stays_whole_until_the_new_one_has_something(go, tmp_path, monkeypatch):
    go()
    write_sample(tmp_path / "run", "the old sample")
    before = end_of(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(training, "evaluate", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            go(overwrite=True, settings={"seed": 2})
    assert end_of(tmp_path / "run") == before and (tmp_path / "run" / "sample.txt").exists()
    with pytest.raises(console.Stopped):
        go(overwrite=True, settings={"seed": 2}, on_record=stop_at(0))
    assert checkpoint.load(tmp_path / "run").identity.train["seed"] == 2
    assert not (tmp_path / "run" / "sample.txt").exists()  # an unfinished run has none, least of all another's


@pytest.mark.parametrize("name", ["checkpoint.pt", "config.json", "history.json", "tokenizer.json", "sample.txt"])
@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder", "pipe"])
def test_foreign_files_are_never_touched(go, tmp_path, name, kind):
    path, elsewhere = tmp_path / "run" / name, tmp_path / "elsewhere"
    path.parent.mkdir()
    elsewhere.write_text("a letter")
    match kind:
        case "file":
            path.write_text('{"name": "another project"}')
        case "link":
            path.symlink_to(elsewhere)
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
    before = path.lstat()
    for options in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises((RunError, CheckpointError)):
            go(**options)
    assert path.lstat() == before and elsewhere.read_text() == "a letter" and not (tmp_path / "nowhere").exists()
    assert os.listdir(tmp_path / "run") == [name]


def test_unrelated_files_may_lie_beside_a_run(go, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.md").write_text("mine")
    go()
    assert (tmp_path / "run" / "notes.md").read_text() == "mine" and checkpoint.load(tmp_path / "run").finished


@pytest.mark.parametrize("out", ["file", "file/run", "/dev/null/run", "link", "x" * 300, "a\0b"])
def test_places_where_no_run_can_be(go, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "link").symlink_to("gone")
    with pytest.raises((RunError, StorageError)) as error:
        go(out_dir=out)
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "link"] and (tmp_path / "file").read_text() == "in the way"


def test_two_trainings_in_one_folder(go, tmp_path):
    (tmp_path / "run").mkdir()
    said = r"another training is writing into .*run: wait for it, or choose another folder"
    with filelock.FileLock(tmp_path / "run" / ".lock"), pytest.raises(RunError, match=said):
        go()
    assert os.listdir(tmp_path / "run") == [".lock"]
    go()


def test_leftovers_of_a_kill_are_swept_up(go, tmp_path):
    with pytest.raises(console.Stopped):
        go(on_record=stop_at(4))
    (tmp_path / "run" / f".checkpoint.pt.{32 * 'a'}.part").write_text("half")
    go(resume=True)
    assert not [name for name in os.listdir(tmp_path / "run") if name.endswith(".part")]


def test_a_training_is_never_renamed_under_its_feet(go, fresh, tokens, quick, tmp_path):
    folder, other = tmp_path / "run", Identity.of(fresh(), dataclasses.replace(quick, seed=2), *tokens)
    said = []

    def meanwhile(model, record):
        with pytest.raises(RunError, match="another training is writing into"):
            plan(folder, other, reuse=True, overwrite=False, ours=True)
        said.append(record.step)

    go(on_record=meanwhile)
    assert said and checkpoint.load(folder).finished and os.listdir(tmp_path) == ["run"]


def test_what_could_not_be_resumed_is_not_begun(go, fresh, tmp_path):
    for options in ({"optimizer": torch.optim.SGD(fresh().parameters(), lr=1.0)}, {"model": fresh().double()}):
        with pytest.raises(ConfigError, match="a run in a folder keeps AdamW's state and float32 weights"):
            go(**options)
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------- which run is meant
def test_plan_goes_on_loads_or_starts_anew_and_says_which(go, stopped, fresh, tokens, quick, tmp_path):
    folder, asked = tmp_path / "run", Identity.of(fresh(), quick, *tokens, tokenizer=CharTokenizer(ALPHABET))
    other = dataclasses.replace(asked, train=asked.train | {"seed": 2})
    ask = {"reuse": True, "overwrite": False, "ours": True}
    assert plan(folder, asked, **ask) == (False, "a new run, in run")
    stopped()
    assert plan(folder, asked, **ask) == (True, "the run in run has made 5 of 12 steps, and goes on")
    go(resume=True)
    assert plan(folder, asked, **ask)[1].endswith("it is finished, and nothing is left to do")
    assert plan(folder, asked, **ask | {"overwrite": True}) == (False, "a new run, in run")
    with pytest.raises(CheckpointError, match="its seed is 1, not 2"):
        plan(folder, other, **ask | {"ours": False})
    assert plan(folder, other, **ask) == (False, "a new run, in run; what was there is kept in run-1")
    assert not folder.exists() and checkpoint.load(tmp_path / "run-1").finished
    go()
    assert plan(folder, asked, **ask | {"reuse": False})[1] == "a new run, in run; what was there is kept in run-2"
