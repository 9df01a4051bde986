"""The commands as a person meets them, but in this process: PyTorch takes seconds to arrive in a new one."""

import pytest
from run_folder import in_small

from helpers import presets
from helpers.commands import train, write
from helpers.data import BUNDLED_PLAY


@pytest.fixture
def corpus(tmp_path):
    """A text of a few speeches, so that evaluations are quick."""
    path = tmp_path / "play.txt"
    path.write_text(BUNDLED_PLAY.read_text(encoding="utf-8")[:4000], encoding="utf-8")
    return path


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Where runs go unless told otherwise; nothing is there."""
    folder = tmp_path / "runs"
    monkeypatch.setattr(presets, "RUNS", folder)
    monkeypatch.setattr(write, "RUNS", folder)
    return folder


@pytest.fixture
def training(corpus, runs, monkeypatch, capsys):
    """`python -m helpers.training` with small presets: its status, what it prints, and what it says beside that."""
    for name, preset in list(presets.PRESETS.items()):
        monkeypatch.setitem(presets.PRESETS, name, in_small(preset))

    def command(*options, on=corpus):
        status = train.main([*map(str, options), "--corpus", str(on)])
        return status, *capsys.readouterr()

    return command


@pytest.fixture
def sampling(runs, capsys):
    """`python -m helpers.sampling`, likewise."""

    def command(*options):
        status = write.main([*map(str, options)])
        return status, *capsys.readouterr()

    return command
