"""A forward pass in fewer bits computes the same model, and what learns keeps all of its bits."""

import copy

import pytest
import torch
from torch import nn

from helpers import checks
from helpers.core import precision
from helpers.counted import build_gpt
from helpers.gpt import GPT, GPTConfig
from helpers.modern import ModernConfig
from helpers.optim import TrainConfig
from helpers.training import forward_pass, has_bfloat16

PLAIN = GPTConfig(vocab_size=65, context_length=16, n_layer=2, n_head=2, n_embd=32, bias=True)
TODAYS = ModernConfig(65, 16, 2, 2, 32, rotary=True, qk_norm=True, tied=False, bigrams=500)
TOKENS = torch.randint(65, (3, 16), generator=torch.Generator().manual_seed(0))


def make(config: GPTConfig) -> GPT:
    torch.manual_seed(0)
    model = build_gpt(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1)
    return model


@pytest.fixture
def processor(monkeypatch):
    """One that multiplies in bfloat16, or one that doesn't."""
    return lambda has: monkeypatch.setattr(precision, "has_bfloat16", lambda: has)


def on_cpu(model: nn.Module, *, bfloat16_cpu: bool):
    """The options of CUDA are on, and must not matter."""
    return forward_pass(model, TrainConfig(1, 1, 1, compile=True, bfloat16=True, bfloat16_cpu=bfloat16_cpu))


@pytest.mark.parametrize("config", [PLAIN, TODAYS])
def test_rounded_it_is_the_model_with_rounded_weights(config, processor):
    processor(True)
    model = make(config)
    exact = model(TOKENS)
    logits = on_cpu(model, bfloat16_cpu=True)(TOKENS)
    assert logits.equal(copy.deepcopy(model).bfloat16()(TOKENS))
    checks.close(logits.float(), exact, tolerance=0.03 * exact.abs().max().item())


@pytest.mark.parametrize("config", [PLAIN, TODAYS])
def test_what_learns_are_the_float32_weights(config, processor):
    """A step that is too small to be seen in bfloat16 is not lost."""
    processor(True)
    model = make(config)
    before = copy.deepcopy(model)
    on_cpu(model, bfloat16_cpu=True)(TOKENS).float().square().mean().backward()
    torch.optim.Adam(model.parameters(), lr=1e-6).step()
    for weight, old in zip(model.parameters(), before.parameters(), strict=True):
        assert weight.dtype == torch.float32 and weight.grad.any() and not weight.equal(old)
        assert (weight.bfloat16() == old.bfloat16()).float().mean() > 0.9


@pytest.mark.parametrize(("asked", "has"), [(False, True), (True, False)])
def test_unasked_or_on_another_processor_nothing_is_rounded(asked, has, processor):
    processor(has)
    model = make(PLAIN)
    logits = on_cpu(model, bfloat16_cpu=asked)(TOKENS)
    assert logits.dtype == torch.float32
    checks.close(logits, model(TOKENS), tolerance=1e-4)


def test_the_layers_that_change_by_training_do_so_in_every_pass(processor):
    """Dropout is on in training and off in evaluation, rounded or not."""
    for rounded in (True, False):
        processor(rounded)
        model = make(GPTConfig(65, 16, 2, 2, 32, dropout=0.5))
        forward = on_cpu(model, bfloat16_cpu=True)
        assert not forward(TOKENS).equal(forward(TOKENS))
        model.eval()
        assert forward(TOKENS).equal(forward(TOKENS))


def test_a_pytorch_that_cannot_tell_what_the_processor_does_gets_float32(monkeypatch):
    for known, has in (({"avx512_bf16": True, "avx2": True}, True), ({"avx512_bf16": False, "avx2": True}, False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda known=known: known, raising=False)
        assert has_bfloat16() is has
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert has_bfloat16() is False
