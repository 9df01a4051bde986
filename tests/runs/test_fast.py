from dataclasses import replace

import pytest
import torch

from helpers.core.modern import ModernConfig, ModernGPT
from helpers.core.sampling import generate
from helpers.core.training import evaluate
from helpers.grading import checks
from helpers.runs import fast
from helpers.runs.presets import FAST, FastPreset, describe_loss
from helpers.support.errors import CorpusError
from helpers.world import corpus

SMALL = dict(context_length=32, n_layer=1, n_head=2, n_embd=32)
TABLES = ("bigrams", "trigrams", "fourgrams")


def small(name: str, **changes) -> FastPreset:
    """The preset, with the same changes to the model and the same way to train, in sizes for a test, and alone."""
    preset = FAST[name]
    training = replace(preset.training, batch_size=4, max_steps=12, eval_interval=12, device="cpu", **changes)
    model = {**preset.model, **SMALL, **{table: 500 for table in TABLES if table in preset.model}}
    windows = tuple((share, 8) for share, _ in preset.windows)
    return replace(preset, model=model, training=training, windows=windows, members=1)


@pytest.mark.parametrize("name", FAST)
def test_every_fast_preset_learns(tokens, name):
    losses = []
    model = fast.train(small(name), tokens[0], 65, lambda step, loss: losses.append((step, loss)))
    assert [step for step, _ in losses] == list(range(1, 13))
    assert evaluate(model, tokens[1], 32) < 3.4 < 4 < losses[0][1] and not model.training
    assert all(weight.dtype == torch.float32 for weight in model.parameters())


@pytest.mark.parametrize("bfloat16", [False, True])
def test_windows_grow_when_the_preset_says_so(tokens, monkeypatch, bfloat16):
    monkeypatch.setattr(fast, "has_bfloat16", lambda: bfloat16)
    seen, forward = [], ModernGPT.forward

    def watched(model, tokens, cache=None):
        seen.append((tuple(tokens.shape), model.head.weight.dtype))
        return forward(model, tokens, cache)

    monkeypatch.setattr(ModernGPT, "forward", watched)
    preset = replace(small("three-minutes"), windows=((0.25, 8), (0.5, 16)), members=2)
    fast.train(preset, tokens[0], 65)
    shapes, dtype = [(16, 8)] * 3 + [(8, 16)] * 3 + [(4, 32)] * 6, torch.bfloat16 if bfloat16 else torch.float32
    assert seen == [(shape, dtype) for shape in shapes * 2]


def test_the_rate_falls_over_all_parts_and_starts_anew_with_each_member(tokens):
    asked, heard = [], []

    def schedule(step, config):
        asked.append((step, config.max_steps))
        return 1e-3

    preset = replace(small("three-minutes"), schedule=schedule, members=2)
    fast.train(preset, tokens[0], 65, lambda step, loss: heard.append(step))
    assert asked[::3] == [(step, 12) for step in range(12)] * 2  # the optimizer has three groups
    assert heard == list(range(1, 25))


def test_a_processor_without_bfloat16_says_so_and_trains_in_float32(tokens, monkeypatch, capsys):
    monkeypatch.setattr(fast, "has_bfloat16", lambda: False)
    model = fast.train(small("three-minutes"), tokens[0], 65)
    assert "this processor has no bfloat16" in capsys.readouterr().out
    monkeypatch.setattr(fast, "has_bfloat16", lambda: True)
    rounded = fast.train(small("three-minutes"), tokens[0], 65)
    assert capsys.readouterr().out == ""
    losses = [evaluate(each, tokens[1], 32) for each in (model, rounded)]
    assert losses[0] != losses[1] and abs(losses[0] - losses[1]) < 0.05


def test_a_pytorch_that_cannot_tell_trains_in_float32(monkeypatch):
    for known, has in (({"avx512_bf16": True, "avx2": True}, True), ({"avx512_bf16": False, "avx2": True}, False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda known=known: known, raising=False)
        assert fast.has_bfloat16() is has
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert fast.has_bfloat16() is False


def test_a_seed_gives_the_same_weights_again_and_another_gives_others(tokens):
    weights = [
        torch.cat(
            [weight.flatten() for weight in fast.train(small("three-minutes", seed=seed), tokens[0], 65).parameters()]
        )
        for seed in (1, 1, 2)
    ]
    assert weights[0].equal(weights[1]) and not weights[0].equal(weights[2])


def test_the_view_rounds_what_it_computes_with_and_not_what_learns():
    model = ModernGPT(ModernConfig(65, 16, 1, 2, 32, rotary=True, qk_norm=True))
    tokens = torch.randint(65, (2, 8))
    before, exact = model.head.weight.detach().clone(), model(tokens)
    logits = fast.View(model, 8, bfloat16=True)(tokens)
    assert logits.dtype == torch.bfloat16 and model.head.weight.equal(before)
    checks.close(logits.float(), exact, tolerance=0.02)
    logits.float().square().sum().backward()
    assert all(weight.grad.dtype == torch.float32 and weight.grad.any() for weight in model.parameters())


def test_an_ensemble_gives_the_mean_of_the_probabilities():
    models = [ModernGPT(ModernConfig(65, 16, 1, 2, 32)) for _ in range(3)]
    ensemble, tokens = fast.Ensemble(models), torch.randint(65, (2, 8))
    expected = torch.stack([model(tokens).softmax(-1) for model in models]).mean(0)
    checks.close(ensemble(tokens).exp(), expected, tolerance=1e-6)
    assert generate(ensemble, tokens[0], 12).shape == (20,)


def test_too_short_a_text_is_refused_and_a_preset_without_a_band_says_so(tokens):
    with pytest.raises(CorpusError, match="a context of 8 needs 9"):
        fast.train(small("three-minutes"), tokens[0][:8], 65)
    assert FAST["gpu-best"].expected_loss == {}
    assert "no band is known" in describe_loss(1.4, corpus.TINY, FAST["gpu-best"])
