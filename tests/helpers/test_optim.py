"""The rate of each step, and how far the weights go in it."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from helpers.errors import ConfigError
from helpers.modern import ModernConfig, ModernGPT
from helpers.optim import (
    SCHEDULES,
    Muon,
    TrainConfig,
    adamw,
    cosine,
    make_optimizer,
    muon_and_adamw,
    orthogonal,
    rate_at,
    warmup_stable_decay,
)

RECIPE = TrainConfig(batch_size=12, max_steps=109, eval_interval=250, warmup_steps=9)
SIZES = dict(vocab_size=65, context_length=16, n_layer=2, n_head=4, n_embd=32)
EVERYTHING = ModernConfig(
    **SIZES,
    rotary=True,
    mlp="swiglu",
    n_kv_head=2,
    tied=False,
    bias=True,
    bigrams=100,
    before=2,
    zero_start=True,
)


# ---------------------------------------------------------------- settings
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"max_steps": 0}, "max_steps must be a whole number from 1 to 1,000,000,000, not 0"),
        ({"batch_size": 2.0}, "batch_size must be a whole number from 1 to 1,000,000,000, not 2.0"),
        ({"seed": -1}, "seed must be a whole number from 0 to 2^63 - 1, not -1"),
        (
            {"betas": 0.9},
            "betas must be two numbers of at least 0 and below 1, not 0.9",
        ),  # one number where two are asked for
        ({"windows": (0.7, 64)}, "windows must be pairs of a share of the steps and a length, not (0.7, 64)"),
        *(
            (
                {"device": name},
                f"this PyTorch has no device {name!r}: choose auto, cpu, cuda, cuda:N or mps",
            )
            for name in ("tpu", "meta", "", "cuda:99")
        ),
        (
            {"windows": ((0.7, 4), (0.2, 8))},
            "windows must be in the order of their shares, not ((0.7, 4), (0.2, 8))",
        ),
        *(
            (
                {"windows": wrong},
                f"windows must be pairs of a share of the steps and a length, not {wrong}",
            )
            for wrong in (((0.5, 0),), ((0.0, 4),), ((0.5, 4), (1.5, 8)))
        ),
        ({"learning_rate": -1}, "learning_rate must be a number above 0, not -1"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0, not 0"),
        ({"learning_rate": "fast"}, "learning_rate must be a number above 0, not 'fast'"),
        ({"learning_rate": math.nan}, "learning_rate must be a number above 0, not nan"),
        (
            {"min_learning_rate": -1e-4},
            "min_learning_rate must be a number of at least 0, not -0.0001",
        ),
        (
            {"betas": (0.9, 1.0)},
            "betas must be two numbers of at least 0 and below 1, not (0.9, 1.0)",
        ),
        ({"weight_decay": -0.1}, "weight_decay must be a number of at least 0, not -0.1"),
        ({"grad_clip": -1.0}, "grad_clip must be a number of at least 0, not -1.0"),
        ({"muon_scale": -1}, "muon_scale must be a number of at least 0, not -1"),
        ({"muon_momentum": 1}, "muon_momentum must be a number of at least 0 and below 1, not 1"),
        ({"schedule": "wsd"}, "schedule must be one of cosine, stable, not 'wsd'"),
        ({"optimizer": "sgd"}, "optimizer must be one of adamw, muon, not 'sgd'"),
        ({"decay": 0}, "decay must be a number above 0 and at most 1, not 0"),
        ({"accumulate": 0}, "accumulate must be a whole number from 1 to 1,000,000,000, not 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused_when_they_are_made(wrong, sentence, unchecked):
    with pytest.raises(ConfigError) as error:
        dataclasses.replace(RECIPE, **wrong)
    assert str(error.value) == sentence


def test_a_device_is_chosen_when_the_settings_are_made(monkeypatch):
    for there, device in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert dataclasses.replace(RECIPE, device="auto").device == device


# ---------------------------------------------------------------- schedules
def test_the_cosine_by_hand():
    rates = [rate_at(step, RECIPE) for step in range(120)]
    # A tenth more each step.
    assert rates[0] == pytest.approx(1e-4) and rates[8] == pytest.approx(9e-4)
    assert rates[9] == pytest.approx(1e-3) and rates[59] == pytest.approx(5.5e-4) and rates[109] == pytest.approx(1e-4)
    assert rates[34] == pytest.approx(8.682e-4, rel=1e-4)  # a line would be at 7.75e-4
    assert rates[119] == rates[109] and rates[9:110] == sorted(rates[9:110], reverse=True)
    assert rate_at(30, RECIPE) == cosine(30, RECIPE)


def test_the_plateau_and_its_end_by_hand():
    config = TrainConfig(
        batch_size=1,
        max_steps=10,
        eval_interval=10,
        learning_rate=1.0,
        min_learning_rate=0.2,
        warmup_steps=3,
        schedule="stable",
        decay=0.4,
    )
    rates = [round(rate_at(step, config), 6) for step in range(12)]
    assert rates == [0.25, 0.5, 0.75, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.2]
    assert rate_at(8, config) == warmup_stable_decay(8, config)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup_steps", [0, 5, 500])
def test_a_rate_is_never_below_zero_or_above_the_highest(schedule, warmup_steps):
    config = dataclasses.replace(RECIPE, schedule=schedule, warmup_steps=warmup_steps)
    assert all(0 < rate_at(step, config) <= config.learning_rate for step in range(config.max_steps + 1))


# ---------------------------------------------------------------- optimizers
def test_decay_on_matrices_only(model, quick):
    decayed, spared = make_optimizer(model, quick).param_groups
    assert decayed["weight_decay"] == 0.1 and spared["weight_decay"] == 0.0
    assert {p.dim() for p in decayed["params"]} == {2} and {p.dim() for p in spared["params"]} == {1}
    assert len(decayed["params"]) + len(spared["params"]) == len(list(model.parameters()))


def test_the_settings_name_the_optimizer(model, quick):
    assert type(make_optimizer(model, quick)) is type(adamw(model, quick)) is torch.optim.AdamW
    muon, others = make_optimizer(model, dataclasses.replace(quick, optimizer="muon")).optimizers
    assert type(muon) is Muon and type(others) is torch.optim.AdamW


def test_muon_takes_the_matrices_of_the_blocks_and_adamw_the_rest(quick):
    model = ModernGPT(EVERYTHING)
    config = dataclasses.replace(quick, muon_scale=3.0, muon_momentum=0.8, weight_decay=0.3)
    muon, others = muon_and_adamw(model, config).optimizers
    names = {parameter: name for name, parameter in model.named_parameters()}
    muon_names = [names[p] for group in muon.param_groups for p in group["params"]]
    adamw_names = [names[p] for group in others.param_groups for p in group["params"]]
    assert sorted(muon_names + adamw_names) == sorted(names.values())
    assert all(name.startswith("blocks.") and name.endswith("weight") and "norm" not in name for name in muon_names)
    assert len(muon_names) == 2 * 6
    assert [group["weight_decay"] for group in others.param_groups] == [0.3, 0.0]
    assert [(group["weight_decay"], group["momentum"]) for group in muon.param_groups] == [(0.3, 0.8)]


@pytest.mark.parametrize("has", [True, False])
def test_muon_takes_the_steps_of_pytorchs(monkeypatch, has):
    """Equal within bfloat16's rounding for some steps: wide, square, tall; several of a shape; and without bfloat16."""
    monkeypatch.setattr("helpers.optim.has_bfloat16", lambda: has)
    torch.manual_seed(0)
    shapes = [(24, 24), (24, 24), (48, 24), (24, 48), (24, 48)]
    ours = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs, start = ([nn.Parameter(p.detach().clone()) for p in ours] for _ in range(2))
    settings = dict(weight_decay=0.3, momentum=0.8)
    pair = Muon(ours, **settings), torch.optim.Muon(theirs, **settings)
    for rate in (0.1, 0.2, 0.05, 0.1):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = q.grad = torch.randn(p.shape)
        for optimizer in pair:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
    for mine, other, old in zip(ours, theirs, start, strict=True):
        assert (mine - other).norm() < 0.01 * (other - old).norm()


def test_a_processor_that_only_imitates_bfloat16_is_spared_it(monkeypatch):
    for has, expected in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr("helpers.optim.has_bfloat16", lambda has=has: has)
        assert orthogonal(torch.randn(2, 6, 4)).dtype == expected


def test_what_muon_can_not_move_is_not_passed_over_in_silence(model, quick):
    """A matrix without a gradient is an error: AdamW would leave it as it is."""
    optimizer = make_optimizer(model, dataclasses.replace(quick, optimizer="muon"))
    with pytest.raises(TypeError):
        optimizer.step()


def test_several_optimizers_are_one(model, quick):
    """All weights move in a step, and no gradient is left after zero_grad."""
    optimizer = make_optimizer(model, dataclasses.replace(quick, optimizer="muon"))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    model(torch.arange(16)[None]).square().sum().backward()
    optimizer.step()
    assert not any(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())
