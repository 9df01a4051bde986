"""python -m helpers.training: its options arrive where they belong."""

import json

import pytest

from helpers.commands import train
from helpers.presets import PRESETS
from helpers.data import BUNDLED_PLAY


def run(*arguments: object) -> int:
    return train.main([str(argument) for argument in arguments])


@pytest.mark.slow
def test_command_line_trains_on_a_file(tmp_path, capsys):
    out = tmp_path / "run"
    assert (
        run("--preset", "smoke", "--corpus", BUNDLED_PLAY, "--out", out, "--max-steps", 5, "--sample-length", 20) == 0
    )
    names = [".lock", "checkpoint.pt", "config.json", "history.json", "sample.txt", "tokenizer.json"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert len((out / "sample.txt").read_text(encoding="utf-8")) == 21
    assert "no band is known for your own text" in capsys.readouterr().out
    assert run("--preset", "smoke", "--corpus", BUNDLED_PLAY, "--out", out, "--max-steps", 7, "--resume") == 0
    assert [r["step"] for r in json.loads((out / "history.json").read_text())] == [0, 5, 7]


@pytest.mark.slow
def test_the_seed_reaches_the_weights(tmp_path):
    firsts = []
    for run_number, seed in enumerate((1, 1, 2)):
        out = tmp_path / str(run_number)
        short = ("--max-steps", 1, "--sample-length", 0)
        run("--preset", "smoke", "--corpus", BUNDLED_PLAY, "--out", out, "--seed", seed, *short)
        firsts.append(json.loads((out / "history.json").read_text())[0]["val_loss"])
    assert firsts[0] == firsts[1] != firsts[2]


def test_command_line_explains_every_option(capsys):
    with pytest.raises(SystemExit, match="0"):
        run("--help")
    text = capsys.readouterr().out
    for option in ("preset", "corpus", "out", "seed", "max-steps", "device", "resume", "prompt", "sample-length"):
        assert f"--{option}" in text
    assert all(name in text for name in PRESETS)
