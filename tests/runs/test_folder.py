"""The folder of a run: nothing good is overwritten, nothing foreign is touched; and which run in it is meant."""

import dataclasses
import json
import os

import filelock
import pytest
from run_folder import ALPHABET, end_of, stop_at

from helpers.data import CharTokenizer, OWN, TINY, Corpus
from helpers import checkpoint, errors
from helpers.checkpoint import best_run, folder_named, is_run, plan, write_sample, Facts, Identity
from helpers.errors import RunError, ConfigError


# ---------------------------------------------------------------- what is in the way
@pytest.mark.slow
def test_nothing_good_is_overwritten_unasked(go, tmp_path):
    go()
    with pytest.raises(RunError, match="run holds a run already: resume it, overwrite it, or choose another folder"):
        go(settings={"max_steps": 1})
    assert checkpoint.load(tmp_path / "run").step == 12
    with pytest.raises(RunError, match="choose one of the two"):
        go(resume=True, overwrite=True)
    go(settings={"max_steps": 1}, overwrite=True)
    assert checkpoint.load(tmp_path / "run").step == 1


@pytest.mark.slow
def test_the_old_run_stays_whole_until_the_new_one_has_something(go, tmp_path, monkeypatch):
    go()
    write_sample(tmp_path / "run", "the old sample")
    before = end_of(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("helpers.scaling.sharing.evaluate", lambda *_: 1 / 0)
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
        with pytest.raises((RunError, RunError)):
            go(**options)
    assert path.lstat() == before and elsewhere.read_text() == "a letter" and not (tmp_path / "nowhere").exists()
    assert os.listdir(tmp_path / "run") == [name]


@pytest.mark.slow
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
    with pytest.raises((RunError, RunError)) as error:
        go(out_dir=out)
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "link"] and (tmp_path / "file").read_text() == "in the way"


@pytest.mark.slow
def test_two_trainings_in_one_folder(go, tmp_path):
    (tmp_path / "run").mkdir()
    said = r"another program is writing into .*run: wait for it, or choose another folder"
    with filelock.FileLock(tmp_path / "run" / ".lock"), pytest.raises(RunError, match=said):
        go()
    assert os.listdir(tmp_path / "run") == [".lock"]
    go()


@pytest.mark.slow
def test_leftovers_of_a_kill_are_swept_up(go, tmp_path):
    with pytest.raises(console.Stopped):
        go(on_record=stop_at(4))
    (tmp_path / "run" / f".checkpoint.pt.{32 * 'a'}.part").write_text("half")
    go(resume=True)
    assert not [name for name in os.listdir(tmp_path / "run") if name.endswith(".part")]


@pytest.mark.slow
def test_a_training_is_never_renamed_under_its_feet(go, fresh, tokens, quick, tmp_path):
    run, other = tmp_path / "run", Identity.of(fresh(), dataclasses.replace(quick, seed=2), *tokens)
    said = []

    def meanwhile(model, record):
        with pytest.raises(RunError, match="another program is writing into"):
            plan(run, other, reuse=True, overwrite=False, ours=True)
        said.append(record.step)

    go(on_record=meanwhile)
    assert said and checkpoint.load(run).finished and os.listdir(tmp_path) == ["run"]


def test_what_could_not_be_resumed_is_not_begun(go, fresh, tmp_path):
    with pytest.raises(ConfigError, match="weights are trained in float32"):
        go(model=fresh().double())
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------- which run is meant
@pytest.mark.slow
def test_plan_goes_on_loads_or_starts_anew_and_says_which(go, stopped, fresh, tokens, quick, tmp_path):
    run, asked = tmp_path / "run", Identity.of(fresh(), quick, *tokens, Facts(CharTokenizer(ALPHABET)))
    other = dataclasses.replace(asked, train=asked.train | {"seed": 2})
    ask = {"reuse": True, "overwrite": False, "ours": True}
    assert plan(run, asked, **ask) == (False, "a new run, in run")
    stopped()
    assert plan(run, asked, **ask) == (True, "the run in run has made 5 of 12 steps, and goes on")
    go(resume=True)
    assert plan(run, asked, **ask)[1].endswith("it is finished, and nothing is left to do")
    assert plan(run, asked, **ask | {"overwrite": True}) == (False, "a new run, in run")
    with pytest.raises(RunError, match="its seed is 1, not 2"):
        plan(run, other, **ask | {"ours": False})
    assert plan(run, other, **ask) == (False, "a new run, in run; what was there is kept in run-1")
    assert not run.exists() and checkpoint.load(tmp_path / "run-1").finished
    go()
    assert plan(run, asked, **ask | {"reuse": False})[1] == "a new run, in run; what was there is kept in run-2"


# ---------------------------------------------------------------- the best run
@pytest.fixture
def run_of(go, tmp_path, monkeypatch):
    """Makes the run `name`, on a text of this corpus name, with this validation loss."""

    def make(name, loss, corpus=TINY, **options):
        facts = Facts(CharTokenizer(ALPHABET), corpus=Corpus("", corpus, tmp_path, sha256="0"))
        with monkeypatch.context() as patch:
            patch.setattr("helpers.scaling.sharing.evaluate", lambda *_: loss)
            go(**{"out_dir": tmp_path / "runs" / name, "settings": {"max_steps": 1}, "facts": facts} | options)

    return make


@pytest.mark.slow
def test_the_best_of_the_finished_runs_is_taken_and_said(run_of, tmp_path):
    runs = tmp_path / "runs"
    run_of("laptop", 1.9)
    assert best_run(runs)[1] == "writing with laptop, validation loss 1.900: the only finished run on tiny Shakespeare"
    run_of("speedrun", 1.86)
    run_of("smoke", 2.4)
    with pytest.raises(console.Stopped):
        run_of("three-minutes", 1.47, settings={"max_steps": 2}, on_record=stop_at(0))
    assert best_run(runs) == (
        runs / "speedrun",
        "writing with speedrun, validation loss 1.860: the best of 3 finished runs on tiny Shakespeare",
    )


@pytest.mark.slow
def test_a_loss_on_another_text_wins_nothing(run_of, tokens, tmp_path):
    runs, other = tmp_path / "runs", [part.flip(0) for part in tokens]
    run_of("mine", 0.5, corpus=OWN)
    run_of("mine too", 0.4, corpus=OWN)
    os.utime(runs / "mine" / "config.json", (1, 1))
    run_of("other", 0.9, corpus=OWN, on=other)
    os.utime(runs / "other" / "config.json", (2, 2))
    assert best_run(runs)[0].name == "mine too"  # the newest run's text is that of two
    os.utime(runs / "other" / "config.json")
    os.utime(runs / "mine too" / "config.json", (1, 1))
    assert best_run(runs)[1].endswith("other, validation loss 0.900: the only finished run on your own text")
    run_of("laptop", 1.9, on=[part.roll(1) for part in tokens])
    os.utime(runs / "laptop" / "config.json", (1, 1))
    assert best_run(runs)[0].name == "laptop"


def test_a_damaged_winner_makes_room_for_the_next(run_of, tmp_path):
    runs = tmp_path / "runs"
    for name, loss in (("a", 1.5), ("b", 1.6), ("c", 1.7)):
        run_of(name, loss)
    (runs / "a" / "checkpoint.pt").write_bytes(b"damaged")
    (runs / "b" / "checkpoint.pt").unlink()
    best, why = best_run(runs)
    assert best == runs / "c" and why.endswith(
        "finished runs on tiny Shakespeare; passed over, for they can't be used: a, b"
    )
    (runs / "c" / "checkpoint.pt").unlink()
    with pytest.raises(RunError, match="no finished run in"):
        best_run(runs)


def test_only_the_winner_is_opened(run_of, tmp_path, monkeypatch):
    """A checkpoint can have a hundred megabytes, and there may be many of them."""
    for name, loss in (("a", 1.5), ("b", 1.4), ("c", 1.7)):
        run_of(name, loss)
    opened = []
    monkeypatch.setattr(folder, "load", lambda path: (opened.append(path.name), checkpoint.load(path))[1])
    best_run(tmp_path / "runs")
    assert opened == ["b"]


VIEWS = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "another project's": '{"model_type": "gpt2"}',
    "a loss that is none": '{"best": {"val_loss": NaN}}',
    "a loss in words": '{"best": {"val_loss": "low"}}',
    "a loss beyond counting": f'{{"best": {{"val_loss": 1{400 * "0"}}}}}',
    "a best record in words": '{"best": "none"}',
    "no finish": '{"finished": "yes"}',
    "no text": '{"tokens_sha256": []}',
    "lists without end": 100_000 * "[",
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_lies_among_the_runs_and_is_none_is_passed_by(run_of, tmp_path, name):
    runs = tmp_path / "runs"
    for place in (runs, runs / "empty"):
        place.mkdir()
        with pytest.raises(RunError, match=r"no finished run in .*: train first, or name a folder by --run"):
            best_run(runs)
    with pytest.raises(RunError, match="no finished run"):
        best_run(tmp_path / "gone")
    (runs / "a file").write_text("mine")
    os.mkfifo(runs / "empty" / "config.json")
    os.mkfifo(runs / "empty" / "checkpoint.pt")
    assert not is_run(runs / "empty")  # and nobody waits for ever
    for run in ("good", "odd"):
        run_of(run, 2.0 if run == "good" else 1.0)
    view = runs / "odd" / "config.json"
    change = VIEWS[name]
    whole = change.startswith('{"') and "model_type" not in change
    view.write_text(json.dumps(json.loads(view.read_text()) | json.loads(change)) if whole else change)
    assert best_run(runs)[0].name == "good"


# ---------------------------------------------------------------- names
def test_a_folder_that_no_run_may_have(tmp_path):
    for name in ("", 2_000 * "x/", "~nobody-of-that-name/run"):
        with pytest.raises(ConfigError, match=r"^--out") as error:
            folder_named(name, "--out")
        assert len(str(error.value)) < 300
    assert folder_named("latin\udce9", "--out").name == "latin\udce9"


def test_no_message_prints_a_name_that_a_terminal_would_obey(go, tmp_path, quick, fresh, tokens):
    run = tmp_path / "\x1b[31mred"
    with pytest.raises(console.Stopped) as stop:
        go(out_dir=run, on_record=stop_at(4))
    with pytest.raises(RunError) as there:
        go(out_dir=run)
    asked = Identity.of(fresh(), quick, *tokens, Facts(CharTokenizer(ALPHABET)))
    other = dataclasses.replace(asked, train=asked.train | {"seed": 2})
    said = [str(stop.value), str(there.value), folder.status(run)]
    said += [plan(run, each, reuse=True, overwrite=False, ours=True)[1] for each in (asked, other)]
    assert all("\\x1b[31mred" in sentence and "\x1b" not in sentence for sentence in said)
