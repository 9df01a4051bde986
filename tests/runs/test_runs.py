"""A run that stops and goes on: nothing is lost, and it is the same run."""

import dataclasses
import signal
from pathlib import Path

import pytest
import torch
from run_folder import end_of, resave, stop_at

from helpers import training, checkpoint, errors
from helpers.data import CharTokenizer
from helpers.checkpoint import is_trained, status, Facts
from helpers.errors import RunError, ConfigError


# ---------------------------------------------------------------- stopping and going on
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_goes_on_to_the_same_end(go, stopped, tmp_path, number):
    go(out_dir=tmp_path / "whole")
    stop = stopped(number)
    assert stop.number == number
    assert str(stop).endswith(f"after 5 of 12 steps, all saved in {tmp_path / 'run'}: resume continues from there")
    state = checkpoint.load(tmp_path / "run")
    assert state.step == 5 and len(state.losses) == 1 and not state.finished
    seen = []
    history = go(resume=True, on_record=lambda _, record: seen.append(record.step))
    assert seen == [8, 12] and history.column("step") == [0, 2, 4, 8, 12]
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")


@pytest.mark.slow
def test_a_crash_loses_no_more_than_since_the_last_record(go, tmp_path):
    go(out_dir=tmp_path / "whole")

    def crash(model, record):
        if record.step == 8:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go(on_record=crash)
    assert checkpoint.load(tmp_path / "run").step == 8
    go(resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")


@pytest.mark.slow
def test_last_and_best_are_two(go, fresh, tmp_path, monkeypatch):
    """The validation losses are dictated: the best record is the one at step 4, and the run goes on from step 8."""
    losses = iter([4.0, 3.0, 1.0, 2.0])
    monkeypatch.setattr("helpers.scaling.sharing.evaluate", lambda *_: next(losses))
    with pytest.raises(StopIteration):
        go()
    state = checkpoint.load(tmp_path / "run")
    assert state.step == 8 and state.history.best.step == 4
    assert not torch.equal(state.best["head.weight"], state.model["head.weight"])
    monkeypatch.setattr("helpers.scaling.sharing.evaluate", lambda *_: 3.0)
    model = fresh()
    history = go(model=model, resume=True)
    assert history.column("step") == [0, 2, 4, 8, 12] and history.best.step == 4
    assert torch.equal(model.head.weight, state.best["head.weight"])
    assert torch.equal(checkpoint.load_model(tmp_path / "run")[0].head.weight, state.best["head.weight"])


@pytest.mark.slow
def test_a_finished_run_that_is_resumed_does_nothing(go, fresh, tmp_path):
    history = go()
    before = (tmp_path / "run" / "checkpoint.pt").read_bytes()
    model, seen = fresh(), []
    assert go(model=model, resume=True, on_record=lambda *_: seen.append(1)) == history and not seen
    assert (tmp_path / "run" / "checkpoint.pt").read_bytes() == before
    assert torch.equal(model.head.weight, checkpoint.load_model(tmp_path / "run")[0].head.weight)
    assert status(tmp_path / "run") == (
        "the run in run has made 12 of 12 steps: it is finished, and nothing is left to do"
    )


@pytest.mark.slow
def test_a_finished_run_can_be_made_longer(go, tmp_path):
    go()
    (tmp_path / "run" / "sample.txt").write_text("what it wrote when it was shorter")
    assert go(resume=True, settings={"max_steps": 15}).column("step") == [0, 2, 4, 8, 12, 15]
    assert not (tmp_path / "run" / "sample.txt").exists()
    with pytest.raises(RunError, match="it is at step 15 already: max_steps must not be below"):
        go(resume=True)


@pytest.mark.slow
def test_views_say_what_the_checkpoint_says_after_a_resume(go, tmp_path):
    go()
    folder = tmp_path / "run"
    for name in ("config.json", "history.json", "tokenizer.json"):
        right = (folder / name).read_text()
        (folder / name).write_text("{}")
        go(resume=True)
        assert (folder / name).read_text() == right


@pytest.mark.slow
def test_the_checkpoint_is_written_before_its_views(go, tmp_path, monkeypatch):
    """Killed in between, a run must not have views of a state that it has lost."""
    written, write = [], files.write
    monkeypatch.setattr(files, "write", lambda path, content: (written.append(Path(path).name), write(path, content)))
    go(out_dir=tmp_path / "run")
    assert written.count(checkpoint.CHECKPOINT) > 1
    each = " ".join(written).split(checkpoint.CHECKPOINT)
    assert not each[0] and all(set(views.split()) >= {"config.json", "history.json"} for views in each[1:])


def test_a_training_that_diverges_keeps_what_was_saved(go, tmp_path, monkeypatch):
    monkeypatch.setattr("helpers.scaling.sharing.evaluate", lambda *_: 1.0)
    real = training.cross_entropy
    calls = iter(range(100))
    monkeypatch.setattr(
        training, "cross_entropy", lambda *a, **k: real(*a, **k) * (1 if next(calls) < 6 else torch.nan)
    )
    with pytest.raises(RunError, match="the loss is nan at step 5"):
        go()
    assert checkpoint.load(tmp_path / "run").step == 4


@pytest.mark.slow
def test_frozen_weights_stay_frozen_after_a_resume(go, stopped, fresh, tmp_path):
    def frozen():
        model = fresh()
        model.position_embedding.weight.requires_grad_(False)
        return model

    go(model=frozen(), out_dir=tmp_path / "whole")
    stopped(model=frozen())
    go(model=frozen(), resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")


@pytest.mark.slow
def test_a_run_that_is_to_end_where_it_stopped_gets_its_last_record(go, stopped, tmp_path):
    stopped()
    history = go(resume=True, settings={"max_steps": 5})
    assert history.column("step") == [0, 2, 4, 5] and checkpoint.load(tmp_path / "run").finished


# ---------------------------------------------------------------- snapshots
@pytest.mark.slow
def test_snapshots_are_the_model_as_it_learned(go, stopped, tmp_path):
    """Records are at 0, 2, 4, 8, 12: each that doubles the steps is kept, and the last state is at the end."""
    seen = {}

    def keep(model, record):
        seen[record.step] = {name: weight.clone() for name, weight in model.state_dict().items()}

    go(on_record=keep)
    found = checkpoint.load_snapshots(tmp_path / "run")
    assert [step for step, _ in found] == [0, 2, 4, 8, 12]
    for step, model in found:
        assert not model.training
        for name, weight in model.state_dict().items():
            rounded = seen[step][name] if step == 12 else seen[step][name].half().float()
            assert torch.equal(weight, rounded), (step, name)
    first, last = found[0][1], found[-1][1]
    assert not torch.equal(first.head.weight, last.head.weight)
    assert all(model.head.weight is model.token_embedding.weight for _, model in found)
    stopped(out_dir=tmp_path / "stopped")
    assert [step for step, _ in checkpoint.load_snapshots(tmp_path / "stopped")] == [0, 2, 4, 5]


@pytest.mark.slow
def test_a_longer_run_keeps_its_snapshots_and_goes_on_doubling(go, tmp_path):
    go(settings={"max_steps": 4})
    early = checkpoint.load(tmp_path / "run").snapshots
    go(resume=True, settings={"max_steps": 40})
    late = checkpoint.load(tmp_path / "run").snapshots
    assert list(early) == [0, 2, 4] and list(late) == [0, 2, 4, 8, 16, 32]
    assert all(torch.equal(late[step][name], w) for step in early for name, w in early[step].items())


@pytest.mark.slow
def test_a_run_from_before_snapshots_goes_on_without_them(go, stopped, tmp_path):
    stopped()
    resave(tmp_path / "run" / "checkpoint.pt", lambda state: state.pop("snapshots") and state)
    go(resume=True)
    assert checkpoint.load(tmp_path / "run").finished and checkpoint.load_model(tmp_path / "run")
    with pytest.raises(RunError, match=r"checkpoint.pt is from before snapshots were kept: train anew"):
        checkpoint.load_snapshots(tmp_path / "run")


def test_weights_beyond_half_precision_leave_a_run_that_loads(go, fresh, tmp_path, monkeypatch):
    monkeypatch.setattr("helpers.scaling.sharing.evaluate", lambda *_: 1.0)
    model = fresh()
    model.norm.weight.data.fill_(1e-6)
    model.position_embedding.weight.data[-1].fill_(-1e5)  # too large for float16, which ends at 65,504
    go(model=model, settings={"max_steps": 1})
    assert checkpoint.load_snapshots(tmp_path / "run")[0][1].position_embedding.weight[-1].eq(-65504).all()


# ---------------------------------------------------------------- identity
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"settings": {"seed": 2}}, "it is of another run: its seed is 1, not 2"),
        ({"settings": {"learning_rate": 0.5}}, "its learning_rate is 0.001, not 0.5"),
        ({"settings": {"batch_size": 9}}, "its batch_size is 8, not 9"),
        ({"facts": None}, "it was trained on another text"),
    ],
)
def test_another_run_is_not_resumed(go, tmp_path, change, sentence):
    go()
    before = (tmp_path / "run" / "checkpoint.pt").read_bytes()
    with pytest.raises(RunError, match=sentence):
        go(resume=True, **change)
    assert (tmp_path / "run" / "checkpoint.pt").read_bytes() == before


@pytest.mark.slow
def test_another_text_of_the_same_alphabet_is_not_resumed(go, tokens):
    go()
    for other in ((tokens[0].flip(0), tokens[1]), (tokens[0], tokens[1].flip(0)), (tokens[1], tokens[0])):
        with pytest.raises(RunError, match="it was trained on another text"):
            go(resume=True, on=other)


@pytest.mark.slow
def test_the_same_text_in_smaller_integers_is_the_same(go, tokens):
    with pytest.raises(console.Stopped):
        go(on_record=stop_at(4))
    assert len(go(resume=True, on=[part.byte() for part in tokens])) == 5


@pytest.mark.slow
def test_other_sizes_are_named(go, fresh):
    go()
    with pytest.raises(RunError, match="its n_embd is 32, not 64"):
        go(model=fresh(n_embd=64), resume=True)


def test_a_model_and_its_tokenizer_belong_together(go):
    with pytest.raises(ConfigError, match="the tokenizer has 3 characters, and the model's vocabulary 65"):
        go(facts=Facts(CharTokenizer("abc")))


@pytest.mark.slow
def test_what_a_notebook_may_take_for_its_model(go, fresh, tmp_path):
    """Only a finished run, on this text, of these sizes, of enough steps."""
    config, seen = fresh().config, []

    def trained(sha="", config=config, steps=12):
        return is_trained(tmp_path / "run", sha, config, steps)

    assert not trained()
    go(on_record=lambda *_: seen.append(trained()))
    assert seen == [False, False, False, False, True] and trained()
    assert not trained(sha="another text") and not trained(steps=13)
    assert not trained(config=dataclasses.replace(config, n_head=4))
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"damaged")
    assert not trained()
