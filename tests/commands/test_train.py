"""python -m helpers.training: what it leaves, what it says, and how it ends when somebody stops it."""

import signal
import sys

import pytest
import torch
from run_folder import end_of

from helpers import checkpoint
from helpers import training as core
from helpers.commands import train
from helpers.data import load_corpus
from helpers.errors import ConfigError
from helpers.presets import PRESETS


@pytest.fixture
def stop_in_update(monkeypatch):
    """Send a signal to the training in its n-th update from now on."""

    def arm(number):
        real, left = core.get_batch, iter(range(number - 1, -1000, -1))

        def get_batch(*arguments):
            if next(left) == 0:
                signal.raise_signal(signal.SIGTERM)
            return real(*arguments)

        monkeypatch.setattr(core, "get_batch", get_batch)

    return arm


@pytest.fixture
def stop_in_sample(monkeypatch):
    """Press Ctrl-C while the sample is written."""

    def endless(*arguments, **options):
        yield 1
        signal.raise_signal(signal.SIGINT)

    return lambda: monkeypatch.setattr(train, "stream", endless)


# ---------------------------------------------------------------- runs
@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_leaves_a_run_and_its_sample(training, runs, name):
    status, printed, said = training("--preset", name, "--sample-length", 30)
    assert status == 0 and not said
    folder = next(runs.iterdir())
    assert folder.name.startswith(name) and checkpoint.load(folder).identity.preset == name
    sample = (folder / "sample.txt").read_text()
    assert len(sample) == 31 and sample.startswith("\n") and printed.endswith(sample + "\n")
    assert printed.count("\nstep ") == 5 and "validation loss" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["speedrun", "three-minutes"])
def test_a_run_that_is_stopped_and_resumed_ends_as_the_undisturbed_one(training, runs, stop_in_update, name):
    """Twice: before the window grows, where there is one, and after."""
    options = ("--preset", name, "--sample-length", 30)
    training(*options, "--out", runs / "whole")
    for resume, update in ([], 5), (["--resume"], 5):
        stop_in_update(update)
        status, _, said = training(*options, "--out", runs / "stopped", *resume)
        assert status == 128 + signal.SIGTERM and said.startswith("stopped by SIGTERM: after ")
        assert said.endswith("stopped: resume continues from there\n") and said.count("\n") == 1
    status, printed, _ = training(*options, "--out", runs / "stopped", "--resume")
    assert status == 0 and "the run in stopped has made 10 of 12 steps, and goes on" in printed
    assert end_of(runs / "stopped") == end_of(runs / "whole")
    assert (runs / "stopped" / "sample.txt").read_text() == (runs / "whole" / "sample.txt").read_text()


# ---------------------------------------------------------------- the sample
@pytest.mark.slow
def test_a_long_sample_is_announced_before_it_is_written(training, runs, stop_in_sample):
    stop_in_sample()
    status, _, said = training("--preset", "smoke", "--max-steps", 1, "--sample-length", 1_000_000)
    assert said.splitlines()[0] == "the model is trained; writing 1,000,000 letters into sample.txt"
    assert status == 130


@pytest.mark.slow
def test_in_a_terminal_a_long_sample_has_a_bar(training, stop_in_sample, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    stop_in_sample()
    _, _, said = training("--preset", "smoke", "--max-steps", 1, "--sample-length", 1_000_000)
    assert "writing sample.txt:   0%" in said and "1000000" in said and "the model is trained" not in said


@pytest.mark.slow
def test_a_sample_that_is_stopped_costs_nothing_but_itself(training, runs, stop_in_sample):
    options = ("--preset", "smoke", "--max-steps", 1, "--sample-length", 20, "--out", runs / "run")
    stop_in_sample()
    status, _, said = training(*options)
    kept = f"stopped by Ctrl-C: {runs / 'run'} keeps the trained model: resume writes the sample\n"
    assert (status, said) == (130, kept)
    assert checkpoint.load(runs / "run").finished and not (runs / "run" / "sample.txt").exists()


@pytest.mark.slow
def test_resume_writes_the_sample_that_is_missing_and_no_other(training, runs):
    options = ("--preset", "smoke", "--max-steps", 1, "--sample-length", 20, "--out", runs / "run")
    training(*options)
    sample = runs / "run" / "sample.txt"
    written = sample.read_text()
    sample.unlink()
    assert training(*options, "--resume")[0] == 0 and sample.read_text() == written
    sample.write_text("mine")
    assert training(*options, "--resume")[1].endswith("mine\n") and sample.read_text() == "mine"


def test_who_stops_the_training_before_the_first_record_reads_that_nothing_is_kept(training, runs, monkeypatch):
    monkeypatch.setattr(train, "count_parameters", lambda model: 1)
    monkeypatch.setattr(train, "train", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    assert training("--preset", "smoke")[2] == "stopped by Ctrl-C: nothing was saved yet\n"


# ---------------------------------------------------------------- what is refused
LONG = 2_000 * "x/"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--out", LONG], "no run may lie so deep"),
        (["--out", ""], "--out must name a folder"),
        (["--out", LONG, "--resume"], "no run may lie so deep"),
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt", "\x1b[31m"], "not in the vocabulary"),
        (["--preset", 10_000 * "n"], "unknown preset"),
        (["--preset", "\x1b[31mred"], "unknown preset"),
        (["--sample-length", "-1"], "sample_length"),
        (["--temperature", "0"], "temperature"),
        (["--seed", 5_000 * "9"], "--seed"),
        (["--nonsense", 5_000 * "x"], "unrecognized arguments"),
        (["\x1b[31mred"], "unrecognized arguments"),
    ],
)
def test_a_bad_option_gets_one_sentence_and_leaves_nothing(training, runs, options, sentence):
    status, _, said = training("--preset", "smoke", *options)
    assert status == 2 and said.startswith("error: ") and sentence in said
    assert said.count("\n") == 1 and "\x1b" not in said and len(said) < 500
    assert not runs.exists()


@pytest.mark.parametrize(
    "path", [5_000 * "n", "/".join(2_000 * "n"), "\x1b[31mred.txt", "https://x.org/" + 5_000 * "n"]
)
def test_a_path_of_a_text_is_never_repeated_whole_or_obeyed(runs, capsys, path):
    assert train.main(["--preset", "smoke", "--corpus", path]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and "\x1b" not in said and len(said) < 500


@pytest.mark.slow
def test_a_folder_that_a_terminal_would_obey_is_never_printed_raw(training, runs, stop_in_update):
    """To a pipe neither: who reads a log reads it in a terminal."""
    options = ("--preset", "smoke", "--sample-length", 5, "--out", runs / "\x1b[31mred")
    stop_in_update(5)
    told = [training(*options), training(*options), training(*options, "--resume")]
    assert [status for status, _, _ in told] == [128 + signal.SIGTERM, 2, 0]
    for _, printed, said in told:
        assert "\x1b" not in printed + said and "\\x1b[31mred" in printed + said


# ---------------------------------------------------------------- make better
@pytest.mark.torture
def test_make_better_keeps_its_runs_and_stores_what_they_write(training, runs, corpus, tmp_path, monkeypatch, capsys):
    """Stopped and begun again, it goes on where it was."""
    import better  # in tools/

    text = load_corpus(corpus)
    monkeypatch.setattr(better, "STORED", tmp_path)
    monkeypatch.setenv("NAME", "three-minutes")
    monkeypatch.setattr(better, "load_corpus", lambda: text)
    monkeypatch.setattr(train, "open_corpus", lambda _: text)
    first = better.run_folder("three-minutes", better.choose_preset("three-minutes"), text)
    training("--preset", "three-minutes", "--out", first)
    kept = (first / "checkpoint.pt").read_bytes()
    better.main([])
    assert (first / "checkpoint.pt").read_bytes() == kept and len([*runs.iterdir()]) == 2
    made_by, made_with, one, two, copied, writes, *written = (tmp_path / "three-minutes.txt").read_text().splitlines()
    assert made_by.startswith("# made by: make better, at commit ") and "your own text, SHA-256" in made_with
    loss = checkpoint.load(first).history.best.val_loss
    assert one.startswith(f"# seed 1: loss {loss:.4f} after ") and two.startswith("# seed 2: loss ")
    assert copied.startswith("# longest copy from the training text: ")
    assert writes == "# the model of seed 1, temperature 0.8, top-p 0.9, writes:" and written


def test_make_better_takes_the_presets_of_three_minutes_only(monkeypatch):
    import better

    monkeypatch.setenv("NAME", "laptop")
    with pytest.raises(ConfigError, match="NAME=laptop is no preset of this command: choose one of three-minutes, "):
        better.main([])


def test_what_several_say_is_the_mean_of_their_probabilities():
    import better

    one, two = (torch.tensor(odds).log() for odds in ([0.7, 0.2, 0.1], [0.1, 0.2, 0.7]))
    models = [torch.nn.Embedding.from_pretrained(logits[None] + shift) for logits, shift in ((one, 3.0), (two, -1.0))]
    said = better.Mean(models)(torch.tensor([0]))[0].exp()
    assert said.tolist() == pytest.approx([0.4, 0.2, 0.4])


def test_the_longest_copy_is_found_wherever_it_stands():
    import better

    assert better.longest_copy("a rose is a rose", "the roses, is a row") == " is a ro"
    assert better.longest_copy("xyz", "abc") == ""
