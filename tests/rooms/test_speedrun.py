"""The speedrun's ladder: its rungs are what they say; values between runs are right."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from helpers import checks
from helpers.gpt import GPT, count_parameters
from helpers.modern import ModernGPT
from helpers.presets import PRESETS
from helpers.rooms import speedrun
from helpers.rooms.speedrun import RUNGS, Ladder
from helpers.tables import MEASURED, read_table

FIRST, *_, LAST = RUNGS


def settings(config):
    return replace(config, eval_interval=1, seed=1)


def test_it_starts_at_nanogpts_recipe():
    model, config = speedrun.build(FIRST, vocab_size=65, steps=2000, seed=1)
    preset = PRESETS["laptop"]
    assert settings(config) == settings(preset.training)
    plain = GPT(preset.model_config(65))
    plain.load_state_dict(model.state_dict())
    tokens = torch.randint(65, (2, 64))
    checks.close(model(tokens), plain(tokens), tolerance=1e-5)


def test_it_ends_at_the_speedrun():
    preset = PRESETS["speedrun"]
    model, config = speedrun.build(LAST, 65, preset.training.max_steps, seed=1)
    assert model.config == preset.model_config(65) and settings(config) == settings(preset.training)
    torch.manual_seed(1)
    theirs = ModernGPT(preset.model_config(65))
    assert all(map(torch.equal, model.state_dict().values(), theirs.state_dict().values()))


@pytest.mark.slow
def test_a_rung_keeps_what_is_below_it_and_changes_something():
    built = {name: speedrun.build(name, 65, 100, seed=1) for name in RUNGS}
    models = {name: model for name, (model, _) in built.items()}
    # Or the first would differ by its code too.
    assert all(isinstance(model, ModernGPT) for model in models.values())
    wholes = [(model.config, config) for model, config in built.values()]
    assert all(one != other for one, other in pairwise(wholes))
    rotary = {name: model.config.rotary for name, model in models.items()}
    assert not rotary["Muon"] and rotary["rotary to softcap"] and rotary[LAST]
    pairs = {name: model.config.bigrams for name, model in models.items()}
    assert not pairs["rotary to softcap"] and pairs["pairs in a table"] == pairs[LAST] > 0
    head = count_parameters(models["a head of its own"]) - count_parameters(models["and fours"])
    assert head == 65 * 128
    assert [config.schedule for _, config in built.values()] == ["cosine"] + ["stable"] * (len(RUNGS) - 1)


def lines(seed=1, less=1.95, more=1.85):
    for name, rung in RUNGS.items():
        for part, loss in zip((0.85, 1.2), (less, more), strict=True):
            steps = round(rung.steps * part)
            yield {
                "variant": name,
                "steps": steps,
                "seed": seed,
                "parameters": 1,
                "loss": loss,
                "seconds": steps / 10,
            }


def test_the_target_is_met_between_the_two_runs():
    middle = speedrun.to_target(Ladder(), lines())
    assert list(middle) == list(RUNGS)
    for name, ((steps, seconds),) in middle.items():
        less, more = (round(RUNGS[name].steps * part) for part in (0.85, 1.2))
        assert math.isclose(steps, math.sqrt(less * more)) and math.isclose(seconds, steps / 10)
    nearly = speedrun.to_target(Ladder(), lines(less=1.90))[FIRST]
    assert math.isclose(nearly[0][0], 0.85 * 1800)
    # Both below the target, or both above.
    for less, more, part in (
        (1.80, 1.70, 0.85),
        (2.1, 2.0, 1.2),
    ):
        ((bound, _),) = speedrun.to_target(Ladder(), lines(less=less, more=more))[FIRST]
        assert math.isclose(bound, part * 1800)  # nothing is extrapolated
    table = Ladder().report([*lines(1), *lines(2, less=1.92)])
    assert "nanoGPT's recipe" in table and table.splitlines()[1].split()[-1] == "1.0"


@pytest.mark.slow
def test_the_stored_table_is_whole():
    comments, found = read_table(MEASURED / "speedrun.csv")
    assert comments[0].startswith("made by: make study NAME=ladder, at commit ") and "uncommitted" not in comments[0]
    assert not Ladder().missing(found) and len(found) == len(Ladder().plan([]))
    for line in found[: 2 * len(RUNGS)]:
        assert line["parameters"] == count_parameters(speedrun.build(line["variant"], 65, 10, 1)[0])
