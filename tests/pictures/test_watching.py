"""Lesson 08's training through one door: new, resumed, loaded, moved aside."""

import math
from dataclasses import replace

import pytest
import torch

from helpers import data, presets
from helpers.errors import RunError, Stopped
from helpers.models import build_gpt
from pictures import watching


@pytest.fixture
def run_of(tmp_path, monkeypatch):
    """A run of the smallest preset, for a few steps of a short text, in build/runs of a folder of its own."""
    monkeypatch.setattr(presets, "RUNS", tmp_path)
    path = tmp_path / "own.txt"
    path.write_text(200 * "To be, or not to be, that is the question.\n", encoding="utf-8")
    corpus = data.load_corpus(path)

    def make(seed=1, rate=0.003, **settings):
        recipe = presets.choose_preset("smoke", max_steps=6, seed=seed, device="cpu")
        recipe = replace(recipe, training=replace(recipe.training, learning_rate=rate))
        torch.manual_seed(seed)
        model = build_gpt(recipe.model_config(len(corpus.alphabet)))
        return watching.Run(model, recipe, corpus, "smoke", **settings)

    return make


@pytest.mark.slow
def test_a_run_begins_and_the_same_one_is_only_loaded(run_of, capsys):
    first = run_of()
    assert first.what_happens == f"a new run, in {first.folder.name}"
    first.train()
    assert [record.step for record in first.records] == [0, 6] and "step     6" in capsys.readouterr().out
    again = run_of()
    assert "it is finished, and nothing is left to do" in again.what_happens
    again.train()
    assert again.records == first.records and "step     6" not in capsys.readouterr().out
    for mine, theirs in zip(again.model.parameters(), first.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.slow
def test_a_stop_keeps_the_records_and_the_next_run_goes_on_from_there(run_of, monkeypatch):
    whole = run_of(out_dir=presets.RUNS / "whole")
    whole.train()
    stopped = run_of()
    note = stopped.note

    def stop(model, record):
        note(model, record)
        raise Stopped(2)

    monkeypatch.setattr(stopped, "note", stop)
    with pytest.raises(Stopped):
        stopped.train()
    assert [record.step for record in stopped.records] == [0]
    rest = run_of()
    assert rest.what_happens.endswith("has made 0 of 6 steps, and goes on")
    curves = []  # the steps of each that is drawn
    monkeypatch.setattr(rest.live, "update", lambda: curves.append([record.step for record in rest.records]))
    rest.train()
    assert curves[0] == curves[-1] == [0, 6]  # the first one, too, begins where the run began
    assert rest.records[-1].val_loss == whole.records[-1].val_loss


@pytest.mark.slow
def test_another_run_is_kept_under_a_new_name_by_default_and_refused_in_a_folder_of_one_s_own(run_of):
    first = run_of(rate=0.001)
    first.train()
    other = run_of(rate=0.002)
    kept = first.folder.with_name(f"{first.folder.name}-1")
    assert f"kept in {kept.name} (" in other.what_happens and "its learning_rate is 0.001" in other.what_happens
    assert kept.exists() and not first.folder.exists()
    own = presets.RUNS / "own"
    run_of(out_dir=own).train()
    with pytest.raises(RunError, match="its seed is 1, not 2"):
        run_of(seed=2, out_dir=own)
    anew = run_of(seed=2, out_dir=own, overwrite=True)
    anew.train()
    assert anew.records[-1].step == 6


def test_the_guessers_know_ever_more():
    tokens = torch.tensor([0, 1, 2] * 100)
    losses = watching.guessers(tokens, tokens, 3)
    assert losses["uniform"] == pytest.approx(math.log(3)) and losses["unigram"] == pytest.approx(math.log(3), abs=0.01)
    assert losses["bigram"] < 0.1
