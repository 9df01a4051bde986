"""The commands as a person meets them, in this process, which has PyTorch already."""

import signal

import pytest
import torch
from run_folder import end_of, in_small

from helpers import checkpoint, presets, sampling, training
from helpers.commands import command
from helpers.data import BUNDLED_PLAY
from helpers.errors import ConfigError
from helpers.presets import PRESETS


@pytest.fixture
def text(tmp_path):
    """A text of a few speeches, so that evaluations are quick."""
    path = tmp_path / "play.txt"
    path.write_text(BUNDLED_PLAY.read_text(encoding="utf-8")[:4000], encoding="utf-8")
    return path


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Where runs go unless told otherwise; nothing is there."""
    for module in (presets, sampling):
        monkeypatch.setattr(module, "RUNS", tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def train(text, runs, monkeypatch, capsys):
    """`python -m helpers.training` with small presets: its status, stdout and stderr."""
    monkeypatch.setattr(training, "SAMPLE", 30)
    for name, preset in list(PRESETS.items()):
        monkeypatch.setitem(PRESETS, name, in_small(preset))

    def run(*options, on=text):
        status = command(training.main, [*map(str, options), "--corpus", str(on)])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def write(runs, capsys):
    """`python -m helpers.sampling`, likewise."""

    def run(*options):
        status = command(sampling.main, [*map(str, options)])
        return status, *capsys.readouterr()

    return run


# ---------------------------------------------------------------- helpers.training
@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_leaves_a_run_that_writes(train, runs, name):
    status, printed, stderr = train("--preset", name)
    assert status == 0 and not stderr
    (folder,) = runs.iterdir()
    run = checkpoint.load(folder)
    assert folder.name.startswith(name) and run.about["preset"] == name
    losses = run.history.column("val_loss")
    assert run.history.column("step") == [0, 2, 4, 8, 12] and losses[-1] < losses[0] - 0.05
    sample = (folder / "sample.txt").read_text()
    assert len(sample) == 31 and sample.startswith("\n") and printed.endswith(sample + "\n")
    assert printed.count("\nstep ") == 5 and "validation loss" in printed


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_and_keeps_its_sample(train, runs, monkeypatch):
    options = ("--preset", "speedrun", "--out")
    train(*options, runs / "whole")
    real, remaining = training.get_batch, iter(range(5, -1000, -1))

    def get_batch(*arguments):
        if next(remaining) == 0:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training, "get_batch", get_batch)
        status, _, stderr = train(*options, runs / "stopped")
    message = f"after 5 of 12 steps, all saved in {runs / 'stopped'}: resume continues from there"
    assert (status, stderr) == (130, f"stopped by Ctrl-C: {message}\n")
    assert not (runs / "stopped" / "sample.txt").exists()
    status, printed, _ = train(*options, runs / "stopped", "--resume")
    assert status == 0 and "the run in stopped has made 5 of 12 steps, and goes on" in printed
    assert end_of(runs / "stopped") == end_of(runs / "whole")
    sample = (runs / "stopped" / "sample.txt").read_text()
    assert sample == (runs / "whole" / "sample.txt").read_text()
    assert "nothing is left to do" in train(*options, runs / "stopped", "--resume")[1]
    assert (runs / "stopped" / "sample.txt").read_text() == sample
    train(*options, runs / "stopped", "--resume", "--max-steps", 40)
    assert (runs / "stopped" / "sample.txt").read_text() != sample  # another model's


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--preset", "\x1b[31m"], "unknown preset"),
        (["--preset", "gpu-best"], "unknown preset 'gpu-best': choose one of smoke, laptop, gpu"),
        (["--max-steps", "0"], "max_steps must be a whole number from 1"),
        (["--accumulate", "0"], "accumulate must be a whole number from 1"),
        (["--accumulate", "5"], "a batch of 4 can't be cut into 5 parts"),
        (
            ["--device", "tpu"],
            "this PyTorch has no device 'tpu': choose auto, cpu, cuda, cuda:N or mps",
        ),
        (["--seed", "-1"], "seed must be a whole number from 0"),
        (["--nonsense", "\x1b[31m"], "unrecognized arguments"),
        (["--resume"], "no checkpoint at"),
    ],
)
def test_a_bad_option_gets_one_sentence_and_leaves_nothing(train, runs, options, sentence):
    status, _, stderr = train("--preset", "smoke", *options)
    assert status == 2 and stderr.startswith("error: ") and sentence in stderr
    assert stderr.count("\n") == 1 and "\x1b" not in stderr
    assert not runs.exists()


@pytest.mark.parametrize("path", ["/no/text", "https://x.org/text", 500 * "n", "\x1b[31mred.txt"])
def test_a_text_that_is_not_there_gets_one_sentence(train, runs, path):
    status, _, stderr = train("--preset", "smoke", on=path)
    assert status == 2 and stderr.startswith("error: ") and stderr.count("\n") == 1 and "\x1b" not in stderr
    assert not runs.exists()


# ---------------------------------------------------------------- helpers.sampling
@pytest.fixture
def trained(train, runs):
    """Two finished runs, and the name of the better one."""
    train("--preset", "smoke", "--out", runs / "worse", "--max-steps", 1)
    train("--preset", "speedrun", "--out", runs / "better")
    return runs


@pytest.mark.slow
def test_the_best_finished_run_writes_and_is_named(trained, write):
    status, printed, stderr = write("--length", 30)
    assert status == 0 and len(printed) == 31
    assert stderr.startswith("writing with better, validation loss ") and stderr.count("\n") == 1
    assert write("--length", 30, "--run", trained / "better") == (0, printed, "")
    assert write("--run", trained / "worse", "--length", 30)[1] != printed


def test_without_a_run_it_says_what_to_do(write, runs):
    sentence = f"error: no finished run in {runs}: train first, or name a folder by --run\n"
    assert write() == (2, "", sentence)


BAD = {
    ("--run", "\x1b[31mred"): "no checkpoint at",
    ("--prompt", ""): "the prompt is empty: it needs at least one token to continue from",
    ("--prompt", "\x1b[31m"): "not in the vocabulary",
    ("--temperature", "0"): "temperature must be a number of at least 0.000001, not 0.0",
    ("--temperature", "1e-40"): "temperature must be a number of at least 0.000001, not 1e-40",
    ("--temperature", "nan"): "temperature must be a number of at least 0.000001, not nan",
    ("--top-p", "0"): "top_p must be a number above 0 and at most 1, not 0.0",
    ("--top-p", "1.5"): "top_p must be a number above 0 and at most 1, not 1.5",
    ("--length", "-1"): "length must be a whole number of at least 0, not -1",
    ("--top-k", "0"): "top_k must be a whole number of at least 1, not 0",
    ("--top-p", "nan"): "top_p must be a number above 0 and at most 1, not nan",
    ("--length", "many"): "--length: invalid int value",
}


@pytest.mark.slow
def test_a_bad_option_of_writing_gets_one_sentence(trained, write):
    for options, sentence in BAD.items():
        status, printed, stderr = write(*options)
        stderr = stderr.splitlines()[-1]
        assert status == 2 and not printed and stderr.startswith("error: ") and sentence in stderr, options
        assert "\x1b" not in stderr


# ---------------------------------------------------------------- tools
def test_only_presets_of_three_minutes_are_studied():
    from tools.studies import presets

    with pytest.raises(ConfigError, match="invalid choice: 'laptop'"):
        presets.main(["laptop"])


def test_what_several_say_is_the_mean_of_their_probabilities():
    from tools.studies import presets

    one, two = (torch.tensor(odds).log() for odds in ([0.7, 0.2, 0.1], [0.1, 0.2, 0.7]))
    models = [torch.nn.Embedding.from_pretrained(logits[None] + shift) for logits, shift in ((one, 3.0), (two, -1.0))]
    probabilities = presets.Mean(models)(torch.tensor([0]))[0].exp()
    assert probabilities.tolist() == pytest.approx([0.4, 0.2, 0.4])


def test_the_longest_copy_is_found_wherever_it_stands():
    from tools.studies import presets

    assert presets.longest_copy("a rose is a rose", "the roses, is a row") == " is a ro"
    assert presets.longest_copy("xyz", "abc") == ""
