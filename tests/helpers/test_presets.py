"""Presets: published recipes, bands, and the settings that they take."""

import math

import pytest

from helpers import data, presets
from helpers.data import Corpus
from helpers.errors import ConfigError
from helpers.presets import PRESETS, RUNS, choose_preset


def test_the_published_recipes():
    laptop, gpu = PRESETS["laptop"], PRESETS["gpu"]
    assert laptop.model == dict(context_length=64, n_layer=4, n_head=4, n_embd=128)
    assert gpu.model == dict(context_length=256, n_layer=6, n_head=6, n_embd=384, dropout=0.2)
    assert (
        laptop.training.batch_size,
        laptop.training.max_steps,
        gpu.training.batch_size,
        gpu.training.max_steps,
    ) == (
        12,
        2000,
        64,
        5000,
    )
    for preset in (laptop, gpu):
        t = preset.training
        assert (t.learning_rate, t.min_learning_rate, t.warmup_steps, t.betas) == (
            1e-3,
            1e-4,
            100,
            (0.9, 0.99),
        )
        assert (t.weight_decay, t.grad_clip) == (0.1, 1.0) and preset.model_config(65).bias is False
    assert gpu.training.bfloat16 and gpu.training.compile
    for preset in PRESETS.values():
        assert all(0 < low < high < math.log(65) for low, high in preset.expected_loss.values())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_steps", -5),
        ("max_steps", 0),
        ("max_steps", "many"),
        ("max_steps", 10**10),
        ("max_steps", 10.5),
        ("max_steps", True),
        ("seed", "one"),
        ("seed", None),
        ("seed", 2**64),
    ],
)
def test_a_bad_setting_is_named_with_its_value(setting, value, unchecked):
    with pytest.raises(ConfigError, match=f"^{setting}\\b.*, not {value!r}$"):
        choose_preset("smoke", **{setting: value})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "laptp"}, "unknown preset 'laptp': choose one of smoke, laptop, gpu"),
        ({"name": 3}, "unknown preset 3"),
        (
            {"device": "gpu"},
            "this PyTorch has no device 'gpu': choose auto, cpu, cuda, cuda:N or mps",
        ),
    ],
)
def test_a_name_that_is_unknown_gets_one_sentence(arguments, message):
    with pytest.raises(ConfigError, match=message):
        choose_preset(**{"name": "smoke", **arguments})


def test_settings_reach_the_recipe():
    preset = choose_preset("laptop", max_steps=50, seed=7, device="cpu")
    assert (preset.training.max_steps, preset.training.warmup_steps, preset.training.seed) == (
        50,
        5,
        7,
    )
    assert PRESETS["laptop"].training.max_steps == 2000


def test_bands():
    preset = PRESETS["laptop"]
    assert "inside the expected band" in presets.describe_loss(1.9, data.TINY, preset)
    assert "ABOVE" in presets.describe_loss(2.5, data.TINY, preset) and "BELOW" in presets.describe_loss(
        0.1, data.TINY, preset
    )
    assert "no band" in presets.describe_loss(1.9, data.OWN, preset)
    shorter = choose_preset("laptop", max_steps=10)
    assert presets.describe_loss(3.2, data.TINY, shorter).endswith("for 10 steps on tiny Shakespeare")


def test_runs_that_differ_go_to_folders_that_differ(tmp_path):
    def folder(corpus=data.TINY, **settings):
        text = Corpus("ab", corpus, tmp_path, sha256="0123456789abcdef")
        return presets.run_folder("smoke", choose_preset("smoke", **settings), text).relative_to(RUNS).as_posix()

    assert folder() == "smoke" and folder(max_steps=300) == "smoke"
    assert folder(max_steps=3) == "smoke-3-steps" and folder(seed=2) == "smoke-seed-2"
    assert folder(data.BUNDLED) == "smoke-bundled" and folder(data.OWN) == "smoke-01234567"
    assert folder(data.OWN, max_steps=3, seed=2) == "smoke-3-steps-seed-2-01234567"
