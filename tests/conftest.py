"""What several test files share: small models and texts, without network or corpus."""

import dataclasses
import gc
import itertools
import os
import signal
from pathlib import Path

import jaxtyping
import pytest
import torch
from run_folder import ALPHABET

from helpers import training
from helpers.data import BUNDLED_PLAY, OWN, CharTokenizer, Corpus, split
from helpers.errors import Stopped
from helpers.gpt import GPT, GPTConfig
from helpers.optim import TrainConfig
from helpers.presets import Preset
from helpers.training import train

# As `make` sets it: on a busy machine several threads wait for each other.
if "OMP_NUM_THREADS" not in os.environ:
    torch.set_num_threads(1)


def pytest_collection_finish():
    """Python's collector need not look through thousands of tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def signals_are_heard():
    """Under nohup or behind a shell's &, signals that some tests send would be ignored."""
    ends = {
        getattr(signal, "SIGHUP", signal.SIGINT): signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
    }
    ignored = [number for number in ends if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, ends[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def play() -> str:
    return BUNDLED_PLAY.read_text(encoding="utf-8")


@pytest.fixture
def small_config() -> GPTConfig:
    return GPTConfig(vocab_size=65, context_length=16, n_layer=2, n_head=2, n_embd=32)


@pytest.fixture
def model(small_config) -> GPT:
    torch.manual_seed(0)
    return GPT(small_config)


@pytest.fixture
def tokens(play):
    """Training and validation tokens of the bundled play."""
    return split(CharTokenizer.from_text(play).encode(play), context_length=16)


@pytest.fixture
def quick() -> TrainConfig:
    return TrainConfig(batch_size=8, max_steps=12, eval_interval=4, warmup_steps=2)


@pytest.fixture(autouse=True)
def annotations(request):
    """Quick tests check every annotation; slow ones, with thousands of calls, check none."""
    jaxtyping.config.update("jaxtyping_disable", request.node.get_closest_marker("slow") is not None)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def unchecked(annotations):
    """The same for a quick test that does so."""
    jaxtyping.config.update("jaxtyping_disable", True)


@pytest.fixture
def fresh(small_config, tokens, quick):
    """Makes equal models, with dropout so that every generator counts; `changes` may vary them."""

    def build(**changes) -> GPT:
        torch.manual_seed(0)
        sizes = {**dataclasses.asdict(small_config), "dropout": 0.1, **changes}
        return Preset("", sizes, quick, {}).build(small_config.vocab_size, tokens[0])

    return build


@pytest.fixture
def corpus() -> Corpus:
    """What a run remembers of its text: here, 65 characters."""
    return Corpus(ALPHABET, OWN, Path("own.txt"), 64 * "0")


@pytest.fixture
def go(fresh, tokens, quick, corpus, tmp_path):
    """Train in tmp_path/run; every argument of `train` and every setting can be changed."""

    def run(*, model=None, on=tokens, settings=None, **options):
        options = {"out_dir": tmp_path / "run", "corpus": corpus} | options
        return train(model or fresh(), *on, dataclasses.replace(quick, **(settings or {})), **options)

    return run


@pytest.fixture
def stopped(go, monkeypatch):
    """Train until a signal comes in the middle of an update.

    `at` counts updates from where the training begins: as a rule the fifth, which lies between two
    records. What `go` takes can be given.
    """

    def run(number=signal.SIGTERM, at=5, **options):
        real, updates = training.get_batch, itertools.count(0)  # 0: the look at the first batch

        def get_batch(*arguments):
            if next(updates) == at - bool(options.get("resume")):
                signal.raise_signal(number)
            return real(*arguments)

        with monkeypatch.context() as patch, pytest.raises(Stopped) as stop:
            patch.setattr(training, "get_batch", get_batch)
            go(**options)
        return stop.value

    return run


@pytest.fixture
def verdict(capsys):
    """What `check` prints, after the label."""
    import exercises  # slow, and only the tests of the exercises need it

    def checked(label, answer) -> str:
        assert exercises.check(label, answer) is None
        line = capsys.readouterr().out
        assert line.startswith(f"{label}: ") and line.count("\n") == 1
        return line.removeprefix(f"{label}: ").rstrip()

    return checked
