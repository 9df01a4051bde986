"""The loss of a batch, in fewer bits where that was asked for, and that of a whole text."""

import copy
import dataclasses
import math

import pytest
import torch

from helpers.data import get_batch
from helpers.gpt import GPT
from helpers.loss import Loss, Rounded, cross_entropy, evaluate, has_bfloat16, loss_module
from helpers.modern import ModernConfig, ModernGPT


def test_the_loss_is_the_mean_of_what_the_right_tokens_cost():
    logits, targets = torch.randn(2, 5, 7, dtype=torch.float64), torch.randint(7, (2, 5))
    costs = [-logits[b, t].softmax(-1)[targets[b, t]].log().item() for b in range(2) for t in range(5)]
    assert cross_entropy(logits, targets).item() == pytest.approx(sum(costs) / 10, abs=1e-6)
    assert cross_entropy(logits, targets, reduction="sum").item() == pytest.approx(sum(costs), abs=1e-5)
    # A sum in bfloat16 would lose most of it.
    assert cross_entropy(logits.bfloat16(), targets).dtype == torch.float32


@pytest.mark.parametrize("length", [2, 16, 17, 18, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_evaluate_covers_the_whole_split(model, length, unchecked):
    """Equal to scoring each token but the first, with what its window has before it."""
    model.double().eval()
    tokens = torch.randint(65, (length,), generator=torch.Generator().manual_seed(length))
    expected = 0.0
    with torch.no_grad():
        for i in range(length - 1):
            window = tokens[i // 16 * 16 : i + 1]
            expected -= model(window[None])[0, -1].log_softmax(-1)[tokens[i + 1]].item()
    assert evaluate(model, tokens, 16) == pytest.approx(expected / (length - 1), abs=1e-5)


def test_a_split_of_many_windows_is_scored_in_several_pieces(unchecked):
    """Each target once, and each with the token before it."""
    seen = []

    class Listens(torch.nn.Module):
        def forward(self, x):
            seen.append(x)
            return torch.zeros(*x.shape, 65)

    assert evaluate(Listens(), torch.arange(10_003) % 65, 16) == pytest.approx(math.log(65))
    assert [tuple(x.shape) for x in seen] == [(256, 16), (256, 16), (113, 16), (1, 2)]
    assert torch.cat([x.flatten() for x in seen]).equal(torch.arange(10_002) % 65)


def test_evaluate_is_deterministic_and_keeps_the_mode(small_config):
    model = GPT(dataclasses.replace(small_config, dropout=0.5))
    tokens = torch.randint(65, (200,))
    assert evaluate(model, tokens, 16) == evaluate(model, tokens, 16) and model.training


def test_a_corpus_in_small_integers_has_the_same_loss(model, tokens):
    assert evaluate(model, tokens[1].byte(), 16) == evaluate(model, tokens[1], 16)


def test_a_diverged_model_has_no_loss(model, tokens):
    """NaN, and not the mean over what is left."""
    with torch.no_grad():
        model.position_embedding.weight[15] = math.nan
    assert math.isnan(evaluate(model, tokens[1], 16))


# ---------------------------------------------------------------- in fewer bits
@pytest.mark.parametrize("todays", [dict(), dict(rotary=True, qk_norm=True, tied=False, bigrams=500)])
def test_rounded_it_is_the_loss_by_rounded_weights_and_float32_ones_learn(small_config, tokens, todays):
    """A step that is too small to be seen in bfloat16 is not lost."""
    torch.manual_seed(0)
    model = ModernGPT(ModernConfig(**dataclasses.asdict(small_config), **todays))
    x, y = get_batch(tokens[0], 3, 16, torch.Generator().manual_seed(0))
    before = copy.deepcopy(model)
    loss = Rounded(Loss(model))(x, y)
    assert loss.equal(Loss(copy.deepcopy(model).bfloat16())(x, y)) and not loss.equal(Loss(model)(x, y))
    loss.backward()
    torch.optim.Adam(model.parameters(), lr=1e-6).step()
    for weight, old in zip(model.parameters(), before.parameters(), strict=True):
        assert weight.dtype == torch.float32 and not weight.equal(old)


@pytest.mark.parametrize(("asked", "has", "rounds"), [(True, True, True), (False, True, False), (True, False, False)])
def test_it_is_rounded_where_it_was_asked_for_and_the_processor_can(
    model, tokens, quick, monkeypatch, asked, has, rounds
):
    """The options of CUDA are on, and must not matter."""
    monkeypatch.setattr("helpers.loss.has_bfloat16", lambda: has)
    seen = []
    model.register_forward_hook(lambda _, inputs, logits: seen.append(logits.dtype))
    config = dataclasses.replace(quick, bfloat16=True, compile=True, bfloat16_cpu=asked)
    compute_loss, precision = loss_module(model, config)
    with precision:
        compute_loss(*get_batch(tokens[0], 3, 16))
    assert seen == [torch.bfloat16 if rounds else torch.float32]


def test_which_processors_have_bfloat16(monkeypatch):
    for known, has in (
        ({"avx512_bf16": True, "avx2": True}, True),
        ({"avx512_bf16": False, "avx2": True}, False),
    ):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda known=known: known)
        assert has_bfloat16() is has
