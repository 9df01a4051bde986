"""The folder of a run: nothing is lost, nothing lies, nothing foreign is touched."""

import dataclasses
import io
import json
import os
import pickle
import shutil
import signal
import zipfile

import filelock
import pytest
import torch

from helpers import console, runs, training
from helpers.data import CharTokenizer
from helpers.errors import CheckpointError, ConfigError, RunError, StorageError, TrainingError
from helpers.gpt import GPT
from helpers.state import Identity
from helpers.training import TrainConfig, train

ALPHABET = "".join(map(chr, range(65)))


@pytest.fixture
def fresh(small_config):
    """Makes equal models, with dropout, so that every generator counts."""

    def build(**changes) -> GPT:
        torch.manual_seed(0)
        return GPT(dataclasses.replace(small_config, dropout=0.1, **changes))

    return build


@pytest.fixture
def go(fresh, tokens, quick, tmp_path):
    """Train in tmp_path/run; every argument of `train` and every setting can be changed."""

    def run(*, model=None, on=tokens, settings=None, **options):
        options = {"out_dir": tmp_path / "run", "tokenizer": CharTokenizer(ALPHABET)} | options
        return train(model or fresh(), *on, dataclasses.replace(quick, **(settings or {})), **options)

    return run


def end_of(folder):
    """All that must be equal after a stop and a resume: weights, best ones, snapshots, history without the clock."""
    state = runs.load(folder)
    records = [{**dataclasses.asdict(r), "seconds": 0, "tokens_per_second": 0} for r in state.history]
    kept = (state.model, state.best, *state.snapshots.values())
    weights = [torch.cat([w.flatten() for w in part.values()]).tolist() for part in kept]
    return state.step, records, [*state.snapshots], *weights, state.generators["dropout"].tolist()


def stop_at(step, number=signal.SIGTERM):
    """An `on_record` that asks the training to stop."""
    return lambda model, record: signal.raise_signal(number) if record.step == step else None


@pytest.fixture
def stopped(go, monkeypatch):
    """Train until a signal comes in the middle of update 5, between two records; what `go` takes can be given."""

    def run(number=signal.SIGTERM, **options):
        real, calls = training.get_batch, iter(range(100))

        def get_batch(*arguments):
            if next(calls) == 5:  # the first call looks at the first batch
                signal.raise_signal(number)
            return real(*arguments)

        with monkeypatch.context() as patch, pytest.raises(console.Stopped) as stop:
            patch.setattr(training, "get_batch", get_batch)
            go(**options)
        return stop.value

    return run


# ---------------------------------------------------------------- stopping and going on
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_goes_on_to_the_same_end(go, stopped, tmp_path, number):
    go(out_dir=tmp_path / "whole")
    stop = stopped(number)
    assert stop.number == number
    assert str(stop).endswith(f"after 5 of 12 steps, all saved in {tmp_path / 'run'}: resume continues from there")
    state = runs.load(tmp_path / "run")
    assert state.step == 5 and len(state.losses) == 1 and not state.finished
    seen = []
    history = go(resume=True, on_record=lambda _, record: seen.append(record.step))
    assert seen == [8, 12] and history.column("step") == [0, 2, 4, 8, 12]
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")


def test_a_crash_loses_no_more_than_since_the_last_record(go, tmp_path):
    go(out_dir=tmp_path / "whole")

    def crash(model, record):
        if record.step == 8:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go(on_record=crash)
    assert runs.load(tmp_path / "run").step == 8
    go(resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")


def test_last_and_best_are_two(go, fresh, tmp_path, monkeypatch):
    """The validation losses are dictated: the best record is the one at step 4, and the run goes on from step 8."""
    losses = iter([4.0, 3.0, 1.0, 2.0])
    monkeypatch.setattr(training, "evaluate", lambda *_: next(losses))
    with pytest.raises(StopIteration):
        go()
    state = runs.load(tmp_path / "run")
    assert state.step == 8 and state.history.best.step == 4
    assert not torch.equal(state.best["head.weight"], state.model["head.weight"])
    monkeypatch.setattr(training, "evaluate", lambda *_: 3.0)
    model = fresh()
    history = go(model=model, resume=True)
    assert history.column("step") == [0, 2, 4, 8, 12] and history.best.step == 4
    assert torch.equal(model.head.weight, state.best["head.weight"])
    assert torch.equal(runs.load_model(tmp_path / "run")[0].head.weight, state.best["head.weight"])


def test_a_finished_run_that_is_resumed_does_nothing(go, fresh, tmp_path):
    history = go()
    before = (tmp_path / "run" / "checkpoint.pt").read_bytes()
    model, seen = fresh(), []
    assert go(model=model, resume=True, on_record=lambda *_: seen.append(1)) == history and not seen
    assert (tmp_path / "run" / "checkpoint.pt").read_bytes() == before
    assert torch.equal(model.head.weight, runs.load_model(tmp_path / "run")[0].head.weight)
    assert runs.status(tmp_path / "run") == (
        "the run in run has made 12 of 12 steps: it is finished, and nothing is left to do"
    )


def test_a_finished_run_can_be_made_longer(go, tmp_path):
    go()
    (tmp_path / "run" / "sample.txt").write_text("what it wrote when it was shorter")
    assert go(resume=True, settings={"max_steps": 15}).column("step") == [0, 2, 4, 8, 12, 15]
    assert not (tmp_path / "run" / "sample.txt").exists()
    with pytest.raises(CheckpointError, match="it is at step 15 already: max_steps must not be below"):
        go(resume=True)


def test_views_say_what_the_checkpoint_says_after_a_resume(go, tmp_path):
    go()
    folder = tmp_path / "run"
    for name in ("config.json", "history.json", "tokenizer.json"):
        right = (folder / name).read_text()
        (folder / name).write_text("{}")
        go(resume=True)
        assert (folder / name).read_text() == right


def test_a_training_that_diverges_keeps_what_was_saved(go, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "evaluate", lambda *_: 1.0)
    real = training.cross_entropy
    calls = iter(range(100))
    monkeypatch.setattr(
        training, "cross_entropy", lambda *a, **k: real(*a, **k) * (1 if next(calls) < 6 else torch.nan)
    )
    with pytest.raises(TrainingError, match="the loss is nan at step 5"):
        go()
    assert runs.load(tmp_path / "run").step == 4


# ---------------------------------------------------------------- snapshots
def test_snapshots_are_the_model_as_it_learned(go, stopped, tmp_path):
    """Records are at 0, 2, 4, 8, 12: each that doubles the steps is kept, and the last state is at the end."""
    seen = {}

    def keep(model, record):
        seen[record.step] = {name: weight.clone() for name, weight in model.state_dict().items()}

    go(on_record=keep)
    found = runs.load_snapshots(tmp_path / "run")
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
    assert [step for step, _ in runs.load_snapshots(tmp_path / "stopped")] == [0, 2, 4, 5]


def test_a_longer_run_keeps_its_snapshots_and_goes_on_doubling(go, tmp_path):
    go(settings={"max_steps": 4})
    early = runs.load(tmp_path / "run").snapshots
    go(resume=True, settings={"max_steps": 40})
    late = runs.load(tmp_path / "run").snapshots
    assert list(early) == [0, 2, 4] and list(late) == [0, 2, 4, 8, 16, 32]
    assert all(torch.equal(late[step][name], w) for step in early for name, w in early[step].items())


def test_a_run_from_before_snapshots_goes_on_without_them(go, stopped, tmp_path):
    stopped()
    resave(tmp_path / "run" / "checkpoint.pt", lambda state: state.pop("snapshots") and state)
    go(resume=True)
    assert runs.load(tmp_path / "run").finished and runs.load_model(tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"checkpoint.pt is from before snapshots were kept: train anew"):
        runs.load_snapshots(tmp_path / "run")


def test_weights_beyond_half_precision_leave_a_run_that_loads(go, fresh, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "evaluate", lambda *_: 1.0)
    model = fresh()
    model.norm.weight.data.fill_(1e-6)
    model.position_embedding.weight.data[-1].fill_(-1e5)  # too large for float16, which ends at 65,504
    go(model=model, settings={"max_steps": 1})
    assert runs.load_snapshots(tmp_path / "run")[0][1].position_embedding.weight[-1].eq(-65504).all()


# ---------------------------------------------------------------- identity
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"settings": {"seed": 2}}, "it is of another run: its seed is 1, not 2"),
        ({"settings": {"learning_rate": 0.5}}, "its learning_rate is 0.001, not 0.5"),
        ({"settings": {"batch_size": 9}}, "its batch_size is 8, not 9"),
        ({"tokenizer": None}, "it was trained on another text"),
    ],
)
def test_another_run_is_not_resumed(go, tmp_path, change, sentence):
    go()
    before = (tmp_path / "run" / "checkpoint.pt").read_bytes()
    with pytest.raises(CheckpointError, match=sentence):
        go(resume=True, **change)
    assert (tmp_path / "run" / "checkpoint.pt").read_bytes() == before


def test_another_text_of_the_same_alphabet_is_not_resumed(go, tokens):
    go()
    for other in ((tokens[0].flip(0), tokens[1]), (tokens[0], tokens[1].flip(0)), (tokens[1], tokens[0])):
        with pytest.raises(CheckpointError, match="it was trained on another text"):
            go(resume=True, on=other)


def test_the_same_text_in_smaller_integers_is_the_same(go, tokens):
    with pytest.raises(console.Stopped):
        go(on_record=stop_at(4))
    assert len(go(resume=True, on=[part.byte() for part in tokens])) == 5


def test_other_sizes_are_named(go, fresh):
    go()
    with pytest.raises(CheckpointError, match="its n_embd is 32, not 64"):
        go(model=fresh(n_embd=64), resume=True)


def test_a_model_and_its_tokenizer_belong_together(go):
    with pytest.raises(ConfigError, match="the tokenizer has 3 characters, and the model's vocabulary 65"):
        go(tokenizer=CharTokenizer("abc"))


def test_what_a_notebook_may_take_for_its_model(go, fresh, tmp_path):
    """Only a finished run, on this text, of these sizes, of enough steps."""
    config, seen = fresh().config, []

    def trained(sha="", config=config, steps=12):
        return runs.is_trained(tmp_path / "run", sha, config, steps)

    assert not trained()
    go(on_record=lambda *_: seen.append(trained()))
    assert seen == [False, False, False, False, True] and trained()
    assert not trained(sha="another text") and not trained(steps=13)
    assert not trained(config=dataclasses.replace(config, n_head=4))
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"damaged")
    assert not trained()


# ---------------------------------------------------------------- what is in the way
def test_nothing_good_is_overwritten_unasked(go, tmp_path):
    go()
    with pytest.raises(RunError, match="run holds a run already: resume it, overwrite it, or choose another folder"):
        go(settings={"max_steps": 1})
    assert runs.load(tmp_path / "run").step == 12
    with pytest.raises(RunError, match="choose one of the two"):
        go(resume=True, overwrite=True)
    go(settings={"max_steps": 1}, overwrite=True)
    assert runs.load(tmp_path / "run").step == 1


def test_the_old_run_stays_whole_until_the_new_one_has_something(go, tmp_path, monkeypatch):
    go()
    runs.write_sample(tmp_path / "run", "the old sample")
    before = end_of(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(training, "evaluate", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            go(overwrite=True, settings={"seed": 2})
    assert end_of(tmp_path / "run") == before and (tmp_path / "run" / "sample.txt").exists()
    with pytest.raises(console.Stopped):
        go(overwrite=True, settings={"seed": 2}, on_record=stop_at(0))
    assert runs.load(tmp_path / "run").identity.train["seed"] == 2
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
    assert (tmp_path / "run" / "notes.md").read_text() == "mine" and runs.load(tmp_path / "run").finished


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
            runs.plan(folder, other, reuse=True, overwrite=False, ours=True)
        said.append(record.step)

    go(on_record=meanwhile)
    assert said and runs.load(folder).finished and os.listdir(tmp_path) == ["run"]


def test_what_could_not_be_resumed_is_not_begun(go, fresh, tmp_path):
    for options in ({"optimizer": torch.optim.SGD(fresh().parameters(), lr=1.0)}, {"model": fresh().double()}):
        with pytest.raises(ConfigError, match="a run in a folder keeps AdamW's state and float32 weights"):
            go(**options)
    assert not (tmp_path / "run").exists()


def test_frozen_weights_stay_frozen_after_a_resume(go, stopped, fresh, tmp_path):
    def frozen():
        model = fresh()
        model.position_embedding.weight.requires_grad_(False)
        return model

    go(model=frozen(), out_dir=tmp_path / "whole")
    stopped(model=frozen())
    go(model=frozen(), resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")


def test_a_run_that_is_to_end_where_it_stopped_gets_its_last_record(go, stopped, tmp_path):
    stopped()
    history = go(resume=True, settings={"max_steps": 5})
    assert history.column("step") == [0, 2, 4, 5] and runs.load(tmp_path / "run").finished


# ---------------------------------------------------------------- which run is meant
def test_plan_goes_on_loads_or_starts_anew_and_says_which(go, stopped, fresh, tokens, quick, tmp_path):
    folder, asked = tmp_path / "run", Identity.of(fresh(), quick, *tokens, tokenizer=CharTokenizer(ALPHABET))
    other = dataclasses.replace(asked, train=asked.train | {"seed": 2})
    ask = {"reuse": True, "overwrite": False, "ours": True}
    assert runs.plan(folder, asked, **ask) == (False, "a new run, in run")
    stopped()
    assert runs.plan(folder, asked, **ask) == (True, "the run in run has made 5 of 12 steps, and goes on")
    go(resume=True)
    assert runs.plan(folder, asked, **ask)[1].endswith("it is finished, and nothing is left to do")
    assert runs.plan(folder, asked, **ask | {"overwrite": True}) == (False, "a new run, in run")
    with pytest.raises(CheckpointError, match="its seed is 1, not 2"):
        runs.plan(folder, other, **ask | {"ours": False})
    assert runs.plan(folder, other, **ask) == (False, "a new run, in run; what was there is kept in run-1")
    assert not folder.exists() and runs.load(tmp_path / "run-1").finished
    go()
    assert runs.plan(folder, asked, **ask | {"reuse": False})[1] == "a new run, in run; what was there is kept in run-2"


# ---------------------------------------------------------------- checkpoints
@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory):
    return tmp_path_factory.mktemp("stopped") / "run"


@pytest.fixture
def checkpoint(stopped, stopped_once, tmp_path):
    if not stopped_once.exists():
        stopped(out_dir=stopped_once)
    shutil.copytree(stopped_once, tmp_path / "run")
    return tmp_path / "run" / "checkpoint.pt"


def resave(path, change):
    """Write the state back after `change` did something to it, with a right checksum."""
    state = torch.load(path, weights_only=True)
    packed = io.BytesIO()
    torch.save(change(state) or state, packed)
    path.write_bytes(runs.sign(packed.getvalue()))


def test_a_checkpoint_stays_a_file_of_torch(checkpoint):
    assert torch.load(checkpoint, weights_only=True)["step"] == 5
    resave(checkpoint, lambda state: None)
    assert runs.load(checkpoint.parent).step == 5  # what `resave` breaks below is broken by its change alone


def test_no_flipped_byte_and_no_cut_passes(checkpoint):
    whole = checkpoint.read_bytes()
    draw = torch.Generator().manual_seed(0)
    for place in torch.randint(len(whole), (60,), generator=draw).tolist():
        checkpoint.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match=r"checksum"):
            runs.load(checkpoint.parent)
    for place in [0, 1, 70, 71, 72, len(whole) - 1, *torch.randint(len(whole), (20,), generator=draw).tolist()]:
        checkpoint.write_bytes(whole[:place])
        with pytest.raises(CheckpointError, match=r"has no checksum: it is cut off"):
            runs.load(checkpoint.parent)


def first(state, part):
    return next(iter(state[part].values()))


HOSTILE = {
    "no dictionary": lambda s: [s],
    "a part is missing": lambda s: s.pop("history"),
    "a part too many": lambda s: s.update(more=1),
    "layers without end": lambda s: s["identity"]["model"].update(n_layer=10**7),
    "a thousand layers that aren't there": lambda s: s["identity"]["model"].update(n_layer=1000),
    "another size": lambda s: s["identity"]["model"].update(n_embd=64),
    "an alphabet too short": lambda s: s["identity"].update(alphabet="abc"),
    "a character twice": lambda s: s["identity"].update(alphabet="a" * 65),
    "no settings": lambda s: s["identity"].update(train={}),
    "a rate in words": lambda s: s["identity"]["train"].update(learning_rate="high"),
    "a setting too many": lambda s: s["identity"]["train"].update(lr=1e-3),
    "steps beyond counting": lambda s: s["identity"]["train"].update(max_steps=10**400),
    "a head unlike its table": lambda s: s["model"].update({"head.weight": s["model"]["head.weight"].clone() + 1}),
    "endless steps": lambda s: s["identity"]["train"].update(max_steps=float("inf")),
    "no weight": lambda s: s["model"].popitem(),
    "a weight too many": lambda s: s["model"].update(more=torch.zeros(1)),
    "a weight of another shape": lambda s: s["model"].update({"norm.weight": torch.ones(31)}),
    "a weight of another type": lambda s: s["model"].update({"norm.weight": torch.ones(32).double()}),
    "a weight that is no tensor": lambda s: s["best"].update({"norm.weight": [1.0] * 32}),
    "a weight that is no number": lambda s: first(s, "model").fill_(torch.nan),
    "a best weight that is infinite": lambda s: first(s, "best").fill_(torch.inf),
    "a snapshot that is no number": lambda s: s["snapshots"][2]["norm.weight"].fill_(torch.nan),
    "a snapshot that is infinite": lambda s: s["snapshots"][0]["norm.weight"].fill_(torch.inf),
    "a snapshot of another type": lambda s: s["snapshots"][2].update({"norm.weight": torch.ones(32)}),
    "a snapshot of another shape": lambda s: s["snapshots"][2].update({"norm.weight": torch.ones(31).half()}),
    "a snapshot without a weight": lambda s: s["snapshots"][4].popitem(),
    "a snapshot with a weight too many": lambda s: s["snapshots"][4].update(more=torch.ones(1).half()),
    "a snapshot that is none": lambda s: s["snapshots"].update({4: None}),
    "a snapshot that is missing": lambda s: s["snapshots"].pop(2),
    "a snapshot from the future": lambda s: s["snapshots"].update({8: s["snapshots"][4]}),
    "snapshots out of order": lambda s: s.update(snapshots=dict(reversed(s["snapshots"].items()))),
    "snapshots by name": lambda s: s.update(snapshots={str(step): w for step, w in s["snapshots"].items()}),
    "snapshots in a list": lambda s: s.update(snapshots=[*s["snapshots"].values()]),
    "moments of another shape": lambda s: first(s, "optimizer").update(exp_avg=torch.zeros(3)),
    "moments that are missing": lambda s: first(s, "optimizer").pop("exp_avg_sq"),
    "moments of nobody": lambda s: s["optimizer"].update(nobody=first(s, "optimizer")),
    "no moments": lambda s: s["optimizer"].clear(),
    "negative squares": lambda s: first(s, "optimizer")["exp_avg_sq"].fill_(-1.0),
    "moments that are no numbers": lambda s: first(s, "optimizer")["exp_avg"].fill_(torch.nan),
    "moments of another step": lambda s: first(s, "optimizer")["step"].fill_(7.0),
    "half the moments": lambda s: s["optimizer"].popitem(),
    "no history": lambda s: s["history"].clear(),
    "history out of order": lambda s: s["history"].reverse(),
    "a record from the future": lambda s: s["history"][-1].update(step=6),
    "a record without a loss": lambda s: s["history"][0].pop("val_loss"),
    "a loss that is no number": lambda s: s["history"][0].update(val_loss=float("nan")),
    "a loss in words": lambda s: s["history"][0].update(val_loss="low"),
    "a negative step": lambda s: s.update(step=-1),
    "a step that is no number": lambda s: s.update(step=5.0),
    "losses that don't fit": lambda s: s.update(losses=[1.0] * 9),
    "losses in words": lambda s: s.update(losses=["low"]),
    "a generator that is none": lambda s: s["generators"].update(batches=torch.zeros(10, dtype=torch.uint8)),
    "a generator of floats": lambda s: s["generators"].update(dropout=torch.zeros(5056)),
    "a weight of which one number is there": lambda s: s["model"].update({"norm.weight": torch.ones(1).expand(32)}),
    "moments of which one number is there": lambda s: view_of_one(first(s, "optimizer"), "exp_avg"),
    "squares of which one number is there": lambda s: view_of_one(first(s, "optimizer"), "exp_avg_sq"),
    "moments with rows and columns exchanged": lambda s: exchanged(s["optimizer"]["token_embedding.weight"]),
    "two moments in one place": lambda s: first(s, "optimizer").update(exp_avg=first(s, "optimizer")["exp_avg_sq"]),
    "a huge view of one number": lambda s: s["model"].update({"norm.weight": torch.ones(1).expand(10**12)}),
}


def view_of_one(moments, kind):
    """A fused optimizer would write as many numbers as the shape says: past the end of the one that there is."""
    moments[kind] = torch.full((1,), 1e-4).expand(moments[kind].shape)


def exchanged(moments):
    moments["exp_avg"] = moments["exp_avg"].mT.contiguous().mT


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_states_are_refused_in_a_sentence(checkpoint, go, name):
    def change(state):
        changed = HOSTILE[name](state)
        return changed if isinstance(changed, list) else None

    resave(checkpoint, change)
    loads = [lambda: go(resume=True)]
    if name != "half the moments":  # which are of no use to who only writes
        loads.append(lambda: runs.load(checkpoint.parent))
    for load in loads:
        with pytest.raises(CheckpointError) as error:
            load()
        assert "can't be used: " in str(error.value) and "\n" not in str(error.value)


def test_an_archive_that_unfolds_is_refused(checkpoint):
    packed = io.BytesIO()
    with zipfile.ZipFile(checkpoint) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            new.writestr(part, old.read(part))
    checkpoint.write_bytes(runs.sign(packed.getvalue()))
    with pytest.raises(CheckpointError, match="it is compressed"):
        runs.load(checkpoint.parent)


class Payload:
    """Unpickled, it makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_malicious_pickle_is_refused_and_does_not_run(checkpoint, tmp_path):
    resave(checkpoint, lambda state: state | {"losses": Payload(tmp_path / "pwned")})
    with pytest.raises(CheckpointError, match="its content makes no sense"):
        runs.load(checkpoint.parent)
    assert not (tmp_path / "pwned").exists()
    torch.load(checkpoint, weights_only=False)  # plain unpickling would have run it
    assert (tmp_path / "pwned").exists()
    with pytest.raises(CheckpointError, match="has no checksum"):
        checkpoint.write_bytes(pickle.dumps(Payload(tmp_path / "pwned again")))
        runs.load(checkpoint.parent)
    assert not (tmp_path / "pwned again").exists()


def test_checkpoints_that_are_not_there(tmp_path):
    os.mkfifo(tmp_path / "checkpoint.pt")
    with pytest.raises(CheckpointError, match="is not a regular file"):
        runs.load(tmp_path)
    for folder in (tmp_path / "gone", "a\0b"):
        with pytest.raises(CheckpointError, match="no checkpoint at"):
            runs.load(folder)


def test_a_run_without_a_tokenizer_can_go_on_but_not_write(go, tmp_path):
    with pytest.raises(console.Stopped):
        go(tokenizer=None, on_record=stop_at(4))
    go(tokenizer=None, resume=True)
    with pytest.raises(CheckpointError, match="was trained without a tokenizer"):
        runs.load_model(tmp_path / "run")


def test_the_identity_stands_in_the_folder_for_people_too(go, tmp_path):
    go(preset="none")
    facts = json.loads((tmp_path / "run" / "config.json").read_text())
    assert facts["train"]["seed"] == 1 and facts["preset"] == "none" and facts["torch"] == torch.__version__
    assert len(facts["tokens_sha256"]) == 64 and facts["finished"] is True and facts["step"] == 12
    assert TrainConfig(**facts["train"] | {"betas": tuple(facts["train"]["betas"])})
