"""Small mistakes that once passed every test: each test here fails for one of them."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from helpers.core.optim import learning_rate
from helpers.core.sampling import filter_logits, generate
from helpers.core.training import evaluate
from helpers.support.errors import ConfigError


class Broken(nn.Module):
    """A model that raises at its second call."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config, self.calls = model, model.config, 0

    def forward(self, tokens):
        self.calls += 1
        if self.calls == 2:
            raise RuntimeError("out of memory")
        return self.model(tokens)


def test_the_learning_rate_falls_along_a_cosine_and_not_along_a_line(quick):
    config = dataclasses.replace(quick, warmup_steps=0, max_steps=1000, learning_rate=1.0, min_learning_rate=0.0)
    for step in (1, 250, 333, 900):
        assert learning_rate(step, config) == pytest.approx(math.cos(math.pi * step / 2000) ** 2)
    assert learning_rate(250, config) > 0.85  # a line would have reached 0.75


@pytest.mark.parametrize("training", [True, False])
def test_evaluate_leaves_the_mode_as_it_was_even_when_the_model_raises(model, training):
    model.train(training)
    evaluate(model, torch.randint(65, (200,)), 16)
    assert {module.training for module in model.modules()} == {training}
    broken = Broken(model).train(training)
    with pytest.raises(RuntimeError, match="out of memory"):
        evaluate(broken, torch.randint(65, (20_000,)), 16)
    assert {module.training for module in broken.modules()} == {training}


@pytest.mark.parametrize("training", [True, False])
def test_generate_leaves_the_mode_as_it_was_even_when_the_model_raises(model, training):
    model.train(training)
    generate(model, torch.tensor([0]), 3)
    assert {module.training for module in model.modules()} == {training}
    broken = Broken(model).train(training)
    with pytest.raises(RuntimeError, match="out of memory"):
        generate(broken, torch.tensor([0]), 3)
    assert {module.training for module in broken.modules()} == {training}


@pytest.mark.parametrize("top_p", [0, 0.0, -0.0])
def test_an_empty_nucleus_is_refused_and_not_taken_for_no_nucleus(model, top_p):
    with pytest.raises(ConfigError, match="top_p"):
        filter_logits(torch.zeros(3), top_p=top_p)
    with pytest.raises(ConfigError, match="top_p"):
        generate(model, torch.tensor([0]), 1, top_p=top_p)


def test_one_token_ties_and_a_nucleus_of_everything_lose_nothing():
    assert filter_logits(torch.tensor([1.0, 3.0, 3.0, 2.0]), top_k=1).isfinite().tolist() == [False, True, True, False]
    assert filter_logits(torch.tensor([-1e30, 0.0]), top_p=1.0).isfinite().all()
