"""The ladder of notebook 12: its rungs are what they say, and what stands between two runs is computed right."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from helpers.core.gpt import GPT, count_parameters
from helpers.core.modern import ModernGPT
from helpers.core.optim import learning_rate, make_optimizer, warmup_stable_decay
from helpers.core.training import updates
from helpers.grading import checks
from helpers.runs.presets import FAST, PRESETS
from helpers.studies import experiments, ladder
from helpers.studies.ladder import RUNGS, Climb, Ladder

FIRST, *_, LAST = RUNGS


def settings(config):
    return replace(config, eval_interval=1, seed=1)


def test_it_starts_at_nanogpts_recipe():
    model, config, optimizer, schedule = ladder.build(FIRST, vocab_size=65, steps=2000, seed=1)
    preset = PRESETS["laptop"]
    assert settings(config) == settings(preset.training) and schedule is learning_rate
    plain = GPT(preset.model_config(65))
    plain.load_state_dict(model.state_dict())
    tokens = torch.randint(65, (2, 64))
    checks.close(model(tokens), plain(tokens), tolerance=0)
    of_preset = make_optimizer(plain, preset.training)
    assert [g["weight_decay"] for g in optimizer.param_groups] == [g["weight_decay"] for g in of_preset.param_groups]


def test_it_ends_at_the_speedrun():
    preset = FAST["speedrun"]
    model, config, optimizer, schedule = ladder.build(LAST, 65, preset.training.max_steps, seed=1)
    assert model.config == preset.model_config(65) and settings(config) == settings(preset.training)
    assert [schedule(step, config) for step in range(24)] == [preset.schedule(step, config) for step in range(24)]
    torch.manual_seed(1)
    theirs = ModernGPT(preset.model_config(65))
    tokens = torch.arange(2000) % 65
    ours = list(updates(model, tokens, replace(config, max_steps=2), optimizer, torch.Generator(), schedule=schedule))
    torch.manual_seed(1)
    again = preset.optimizer(theirs, config)
    other = updates(theirs, tokens, replace(config, max_steps=2), again, torch.Generator(), schedule=preset.schedule)
    assert ours == list(other)


def test_a_rung_keeps_what_is_below_it_and_changes_something():
    built = [ladder.build(name, 65, 100, seed=1) for name in RUNGS]
    kinds = [
        (model.config, replace(config, seed=1), type(optimizer), schedule)
        for model, config, optimizer, schedule in built
    ]
    assert all(one != other for one, other in pairwise(kinds))
    configs = dict(zip(RUNGS, (model.config for model, *_ in built), strict=True))
    assert not configs["Muon"].rotary and configs["rotary to softcap"].rotary and configs[LAST].rotary
    assert [configs[name].bigrams > 0 for name in ("rotary to softcap", "pairs in a table", LAST)] == [
        False,
        True,
        True,
    ]
    tied = [count_parameters(ladder.build(name, 65, 100, 1)[0]) for name in ("and fours", "a head of its own")]
    assert tied[1] - tied[0] == 65 * 128
    assert built[1][3] is built[2][3] and built[1][3].func is warmup_stable_decay


def lines(seed=1, less=1.95, more=1.85):
    for name, rung in RUNGS.items():
        for part, loss in zip((0.85, 1.2), (less, more), strict=True):
            steps = round(rung.steps * part)
            yield {"variant": name, "steps": steps, "seed": seed, "parameters": 1, "loss": loss, "seconds": steps / 10}


def test_the_target_is_met_between_the_two_runs():
    middle = ladder.to_target(Ladder(), lines())
    assert list(middle) == list(RUNGS)
    for name, ((steps, seconds),) in middle.items():
        less, more = (round(RUNGS[name].steps * part) for part in (0.85, 1.2))
        assert math.isclose(steps, math.sqrt(less * more)) and math.isclose(seconds, steps / 10)
    nearly = ladder.to_target(Ladder(), lines(less=1.90))[FIRST]
    assert math.isclose(nearly[0][0], 0.85 * 1800)
    table = ladder.report(Ladder(), [*lines(1), *lines(2, less=1.92)])
    assert "nanoGPT's recipe" in table and table.splitlines()[1].split()[-1] == "1.0"


def test_what_is_missing_is_what_is_not_there():
    empty, some = Ladder(), list(lines())
    assert len(ladder.missing(empty, [])) == 2 * 3 * len(RUNGS) == len(ladder.plan(empty, []))
    left = ladder.missing(empty, some)
    assert len(left) == 2 * 2 * len(RUNGS) and {run.seed for run in left} == {2, 3}


def test_a_run_gives_a_line_and_its_seed_decides():
    tokens = torch.randint(9, (900,), generator=torch.Generator().manual_seed(0))
    one, again, other = (ladder.measure(Ladder(), Climb(LAST, 2, seed), tokens, 9) for seed in (1, 1, 2))
    assert one["loss"] == again["loss"] != other["loss"] and one["seconds"] > 0
    assert list(one) == ["variant", "steps", "seed", "parameters", "loss", "seconds"]


@pytest.mark.parametrize("name", RUNGS)
def test_a_name_says_who_it_is(name):
    assert str(Climb(name, 5, 1)) == f"{name}, 5 steps, seed 1"


def test_the_stored_table_is_whole():
    comments, found = experiments.read_table(experiments.MEASURED / "ladder.csv")
    assert comments[0].startswith("made by: make study NAME=ladder, at commit ") and "uncommitted" not in comments[0]
    assert not ladder.missing(Ladder(), found) and len(found) == len(ladder.plan(Ladder(), []))
    for line in found[: 2 * len(RUNGS)]:
        assert line["parameters"] == count_parameters(ladder.build(line["variant"], 65, 10, 1)[0])
