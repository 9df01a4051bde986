"""A run is stopped, killed or spoiled: nothing is lost, misread or wrongly overwritten."""

import dataclasses
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from run_folder import COUNTED, MUON, TODAY, end_of, stop_at

from helpers import ROOT, checkpoint, files, training
from helpers.checkpoint import (
    CHECKPOINT,
    best_run,
    is_run,
    is_trained,
    load,
    load_model,
    load_snapshots,
    prepare_folder,
    save,
)
from helpers.counted import CountedConfig
from helpers.data import OWN, SHA256, TINY, Corpus, split
from helpers.errors import ConfigError, RunError, Stopped
from helpers.optim import TrainConfig
from helpers.training import train

SUPPORT = ROOT / "tests" / "support"
ABC = "abcabacbbacabcab"  # a text

# What a run can have, all of which must be saved: dropout (every model here has it), Muon, windows
# that grow, bfloat16.
KINDS = {
    "plain": ({}, {}),
    "today's, by Muon in windows": (TODAY, MUON),
    "in bfloat16, in pieces": (TODAY, MUON | {"bfloat16_cpu": True, "accumulate": 3}),
    "beside counts": (COUNTED, MUON),
}


# ---------------------------------------------------------------- stops and kills
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_stopped_twice_ends_as_the_undisturbed_one(go, stopped, fresh, tmp_path, monkeypatch, kind):
    """Bit for bit; once between two records, and once in the middle of the longer windows."""
    monkeypatch.setattr("helpers.loss.has_bfloat16", lambda: True)
    sizes, settings = KINDS[kind]
    go(model=fresh(**sizes), settings=settings, out_dir=tmp_path / "whole")
    stop = stopped(model=fresh(**sizes), settings=settings)
    message = f"after 5 of 12 steps, all saved in {tmp_path / 'run'}: resume continues from there"
    assert str(stop) == f"stopped by SIGTERM: {message}"
    assert len(load(tmp_path / "run").losses) == 1
    stopped(signal.SIGINT, model=fresh(**sizes), settings=settings, resume=True)
    assert load(tmp_path / "run").step == 10
    go(model=fresh(**sizes), settings=settings, resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")


@pytest.mark.slow
def test_killed_again_and_again_it_ends_as_the_undisturbed_one(tmp_path):
    """kill -9, at random moments: the last save is whole, and nothing depends on memory."""
    env = os.environ | {"PYTHONPATH": f"{SUPPORT}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SUPPORT / "kills.py"), str(tmp_path), "5"]
    process = subprocess.run(command, capture_output=True, text=True, env=env)
    assert process.returncode == 0, process.stderr
    assert end_of(tmp_path / "killed") == end_of(tmp_path / "whole"), f"killed at {process.stdout}"
    names = [CHECKPOINT, "config.json", "history.json", "tokenizer.json"]
    assert sorted(os.listdir(tmp_path / "killed")) == names


@pytest.mark.slow
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_save_that_is_cut_off_leaves_the_one_before(go, tmp_path, monkeypatch, call):
    go(out_dir=tmp_path / "whole")
    with monkeypatch.context() as patch:
        calls = iter(range(100))
        real = getattr(os, call)

        def cut(*arguments):
            if next(calls) == 9:  # three files a save: the checkpoint of step 8
                raise ZeroDivisionError
            return real(*arguments)

        patch.setattr(files.os, call, cut)
        with pytest.raises(ZeroDivisionError):
            go()
    assert load(tmp_path / "run").step in (2, 4)
    go(resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_the_last_save_stays(go, tmp_path):
    go(out_dir=tmp_path / "whole")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill(model, record):
        if record.step == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))

    try:
        with pytest.raises(
            RunError,
            match=r"can't write .*checkpoint.pt: File too large; what was there before is kept",
        ):
            go(on_record=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert load(tmp_path / "run").step == 4
    go(resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")


@pytest.mark.slow
def test_a_finished_run_does_nothing_more_and_can_be_made_longer(go, fresh, tmp_path):
    history = go()
    before = (tmp_path / "run" / CHECKPOINT).read_bytes()
    model, records = fresh(), []
    assert go(model=model, resume=True, on_record=lambda *_: records.append(1)) == history and not records
    assert (tmp_path / "run" / CHECKPOINT).read_bytes() == before
    assert torch.equal(model.head.weight, load_model(tmp_path / "run")[0].head.weight)
    assert go(resume=True, settings={"max_steps": 15}).column("step") == [0, 2, 4, 8, 12, 15]
    with pytest.raises(RunError, match="is at step 15 already: max_steps must not be below"):
        go(resume=True)


# ---------------------------------------------------------------- what is damaged, or another's
@pytest.fixture
def run(go, tmp_path):
    go()
    return tmp_path / "run"


@pytest.mark.slow
def test_a_byte_that_has_changed_is_found(run):
    whole = (run / CHECKPOINT).read_bytes()
    for _ in range(20):
        damaged = bytearray(whole)
        damaged[random.randrange(len(whole))] ^= 1 << random.randrange(8)
        (run / CHECKPOINT).write_bytes(damaged)
        with pytest.raises(RunError, match="is damaged, or is no run: its SHA-256 is wrong"):
            load(run)
    for cut_off in (whole[:-1000], whole[:30], b""):
        (run / CHECKPOINT).write_bytes(cut_off)
        with pytest.raises(RunError, match="is damaged"):
            load_model(run)


def test_nothing_is_unpickled_that_can_run_a_program(tmp_path):
    import hashlib
    import io

    class Program:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made by a program"),)

    packed = io.BytesIO()
    torch.save({"step": Program()}, packed)
    archive = packed.getvalue()
    (tmp_path / CHECKPOINT).write_bytes(archive + hashlib.sha256(archive).hexdigest().encode())
    with pytest.raises(RunError, match="is no run of this project"):
        load(tmp_path)
    assert os.listdir(tmp_path) == [CHECKPOINT]


@pytest.mark.slow
def test_only_the_same_run_goes_on(go, run, tokens, fresh):
    before = (run / CHECKPOINT).read_bytes()
    train_tokens, val_tokens = tokens
    refused = {
        "its seed is 1, not 2": {"settings": {"seed": 2}},
        "its learning_rate is 0.001, not 0.002": {"settings": {"learning_rate": 0.002}},
        "its n_layer is 2, not 1": {"model": fresh(n_layer=1)},
        "its rotary is False, not True": {"model": fresh(rotary=True)},
        "it was trained on another text": {"on": (train_tokens.flip(0), val_tokens)},
        "is at step 12 already": {"settings": {"max_steps": 5}},
    }
    for sentence, options in refused.items():
        with pytest.raises(RunError, match=sentence):
            go(resume=True, **options)
    assert (run / CHECKPOINT).read_bytes() == before


def test_a_changed_gpt_does_not_go_on_as_a_plain_one(go, fresh):
    go(model=fresh(qk_norm=True), settings={"max_steps": 1})
    with pytest.raises(RunError, match="holds another run: its qk_norm is True, not False"):
        go(resume=True, settings={"max_steps": 2})


@pytest.mark.slow
def test_a_run_from_before_a_setting_existed_has_its_default(go, fresh, monkeypatch):
    """What a run lacks counts as the default: the run goes on, or the sentence names both."""
    settings_of = checkpoint.settings_of

    def of_old(*arguments):
        settings = settings_of(*arguments)
        return {name: settings[name] for name in settings if name not in ("grad_clip", "softcap")}

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "settings_of", of_old)
        go(model=fresh(rotary=True), settings={"max_steps": 4})
    with pytest.raises(RunError, match=r"its grad_clip is 1.0, not 0.5"):
        go(model=fresh(rotary=True), settings={"grad_clip": 0.5}, resume=True)
    with pytest.raises(RunError, match=r"its softcap is 0.0, not 15.0"):
        go(model=fresh(rotary=True, softcap=15.0), resume=True)
    assert go(model=fresh(rotary=True), resume=True)[-1].step == 12


@pytest.mark.parametrize("name", ["plain", "counted"])
def test_runs_of_november_2026_are_read_and_go_on(tmp_path, name):
    """Kept as they were saved then: whatever has changed since, old runs stay readable."""
    folder = Path(shutil.copytree(SUPPORT / "runs" / name, tmp_path / name))
    run, (model, tokenizer) = load(folder), load_model(folder)
    train_tokens, val_tokens = split(tokenizer.encode(10 * ABC), context_length=4)
    assert model(train_tokens[None, :4].long()).shape == (1, 4, 3) and run.step == 4
    assert [step for step, _ in load_snapshots(folder)] == [0, 1, 2, 4]
    config = {field.name: run.settings[field.name] for field in dataclasses.fields(TrainConfig)}
    longer = TrainConfig(**config | {"max_steps": 5})
    corpus = Corpus("abc", OWN, Path("own.txt"), 64 * "0")
    history = train(model.train(), train_tokens, val_tokens, longer, out_dir=folder, resume=True, corpus=corpus)
    assert history[-1].step == 5 and history[:-1] == run.history


# ---------------------------------------------------------------- what is in the way
@pytest.mark.slow
def test_nothing_good_is_overwritten_unasked(go, run, monkeypatch):
    with pytest.raises(RunError, match="run holds a run already: resume it, overwrite it, or choose another folder"):
        go(settings={"max_steps": 1})
    with pytest.raises(RunError, match="choose one of the two"):
        go(resume=True, overwrite=True)
    with monkeypatch.context() as patch:  # and not before the new run has something
        patch.setattr(training, "evaluate", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            go(overwrite=True, settings={"seed": 2})
    assert load(run).settings["seed"] == 1
    go(settings={"max_steps": 1}, overwrite=True)
    assert load(run).step == 1


@pytest.mark.parametrize("name", [CHECKPOINT, "config.json", "tokenizer.json", "sample.txt"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_foreign_files_are_never_touched(go, tmp_path, name, overwrite):
    (tmp_path / "run").mkdir()
    foreign = '{"name": "another project", "long enough for a checksum at the end": "%s"}' % (64 * " ")
    (tmp_path / "run" / name).write_text(foreign)
    with pytest.raises(RunError, match=f"holds {name}, which no run wrote: choose another folder"):
        go(overwrite=overwrite)
    assert (tmp_path / "run" / name).read_text() == foreign
    assert os.listdir(tmp_path / "run") == [name]


@pytest.mark.parametrize("out", ["file", "file/run", "/dev/null/run"])
def test_places_where_no_run_can_be(go, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError):
        go(out_dir=out)
    assert os.listdir(tmp_path) == ["file"]


# ---------------------------------------------------------------- what others read of it
@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{}, COUNTED])
def test_snapshots_show_the_model_as_it_learned(go, fresh, tokens, tmp_path, sizes):
    """Untrained, then at records with doubled steps, in float16; the last state unrounded."""
    last = fresh(**sizes)
    go(model=last, on_record=lambda model, record: None)
    snapshots = load_snapshots(tmp_path / "run")
    assert [step for step, _ in snapshots] == [0, 2, 4, 8, 12]
    text = tokens[1][None, :16].long()
    with torch.no_grad():
        torch.testing.assert_close(snapshots[0][1](text), fresh(**sizes).eval()(text), rtol=1e-2, atol=1e-2)
        assert torch.equal(snapshots[-1][1].head.weight, load(tmp_path / "run").model["head.weight"])
    if sizes:
        assert all(torch.equal(model.text.long(), tokens[0].long()) for _, model in snapshots)


@pytest.mark.slow
def test_a_notebook_goes_on_loads_or_starts_anew_and_says_which(go, stopped, fresh, tokens, quick, corpus, tmp_path):
    run = tmp_path / "run"
    settings = checkpoint.settings_of(fresh(), quick, *tokens, corpus.tokenizer)
    ask = {"reuse": True, "overwrite": False, "may_move_aside": True}
    assert prepare_folder(run, settings, **ask) == (False, "a new run, in run")
    stopped()
    assert prepare_folder(run, settings, **ask) == (
        True,
        "the run in run has made 5 of 12 steps, and goes on",
    )
    go(resume=True)
    finished = "the run in run has made 12 of 12 steps: it is finished, and nothing is left to do"
    assert prepare_folder(run, settings, **ask) == (True, finished)
    with pytest.raises(RunError, match="its seed is 1, not 2"):
        prepare_folder(run, settings | {"seed": 2}, reuse=True, overwrite=False, may_move_aside=False)
    aside = "a new run, in run; what was there is kept in run-1 (run holds another run: its seed is 1, not 2)"
    assert prepare_folder(run, settings | {"seed": 2}, **ask) == (False, aside)
    assert load(tmp_path / "run-1").finished and not run.exists()


@pytest.mark.slow
def test_the_best_finished_run_writes(go, stopped, tmp_path):
    with pytest.raises(RunError, match="no finished run in"):
        best_run(tmp_path)
    go(out_dir=tmp_path / "worse", settings={"max_steps": 4})
    go(out_dir=tmp_path / "better")
    stopped(out_dir=tmp_path / "unfinished", settings={"learning_rate": 0.01})
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / CHECKPOINT).write_text("nothing")
    folder, why = best_run(tmp_path)
    assert folder.name == "better" and why.startswith("writing with better, validation loss ")
    assert why.endswith(", the lowest on your own text")


@pytest.mark.slow
def test_a_run_on_tiny_shakespeare_comes_before_one_on_another_text(go, corpus, tmp_path):
    go(out_dir=tmp_path / "own")
    tiny = dataclasses.replace(corpus, name=TINY, sha256=SHA256)
    go(out_dir=tmp_path / "tiny", corpus=tiny, settings={"max_steps": 4})
    assert load(tmp_path / "own").history.best.val_loss < load(tmp_path / "tiny").history.best.val_loss
    folder, why = best_run(tmp_path)
    assert folder.name == "tiny" and why.endswith(", the lowest on tiny Shakespeare")


@pytest.mark.slow
def test_a_trained_run_is_known_by_text_sizes_and_steps(go, small_config, tmp_path):
    go()
    sizes = dataclasses.replace(small_config, dropout=0.1)
    assert is_run(tmp_path / "run") and is_trained(tmp_path / "run", 64 * "0", sizes, 12)
    assert not is_trained(tmp_path / "run", 64 * "0", sizes, 13)
    assert not is_trained(tmp_path / "run", 64 * "1", sizes, 12)
    assert not is_trained(tmp_path / "run", 64 * "0", small_config, 12)
    assert not is_trained(tmp_path / "nowhere", 64 * "0", sizes, 12)


@pytest.mark.slow
def test_a_run_of_another_version_is_not_trained_and_says_so_when_loaded(go, small_config, tmp_path):
    go()
    run = load(tmp_path / "run")
    run.sizes = run.sizes | {"gates": 2}
    save(tmp_path / "run", run)
    assert not is_trained(tmp_path / "run", 64 * "0", small_config, 1)
    with pytest.raises(ConfigError, match="another version"):
        load_model(tmp_path / "run")


@pytest.mark.slow
def test_without_a_text_a_run_can_not_write(go, tmp_path):
    go(corpus=None)
    with pytest.raises(RunError, match="has no tokenizer: it can't write"):
        load_model(tmp_path / "run")


@pytest.mark.slow
def test_who_stops_without_a_folder_reads_that_nothing_is_saved(go):
    with pytest.raises(Stopped, match="none of them saved"):
        go(out_dir=None, on_record=stop_at(4))


def test_a_size_and_a_setting_never_share_a_name():
    """They are kept side by side, by name, and one would win unseen."""
    sizes, settings = ({field.name for field in dataclasses.fields(kind)} for kind in (CountedConfig, TrainConfig))
    assert not sizes & settings and "text" not in sizes | settings
