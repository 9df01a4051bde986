"""A GPT beside counts: what it knows and mustn't know, and that it is a model like others."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from helpers import checks
from helpers.counted import CountedConfig, CountedGPT
from helpers.counting import KneserNey
from helpers.data import get_batch
from helpers.errors import ConfigError
from helpers.loss import cross_entropy, evaluate
from helpers.models import build_gpt, config_of
from helpers.modern import ModernConfig
from helpers.optim import TrainConfig, make_optimizer
from helpers.presets import choose_preset
from helpers.sampling import generate
from helpers.training import updates

SIZES = dict(vocab_size=65, context_length=16, n_layer=2, n_head=2, n_embd=32, lengths=(1, 2, 4))


def counted_gpt(train_tokens, **changes):
    torch.manual_seed(0)
    model = build_gpt(CountedConfig(**{**SIZES, "counted": len(train_tokens), **changes}))
    model.count(train_tokens)
    return model


@pytest.fixture
def pair(tokens):
    return counted_gpt(tokens[0]), tokens


def learned(model, train_tokens, steps, **settings):
    config = TrainConfig(batch_size=8, max_steps=steps, eval_interval=steps, learning_rate=1e-2, **settings)
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    return list(updates(model, train_tokens, config, make_optimizer(model, config), generator))


# ---------------------------------------------------------------- a model like the others
def test_it_sees_nothing_that_comes_later_and_its_cache_changes_nothing(pair):
    model, (_, val) = pair
    model.eval()
    nn.init.constant_(model.gates.bias, 0.3)  # all are heard
    text = val[None, :16].long()
    checks.causal(model, text)
    cache = model.new_cache()
    with torch.no_grad():
        pieces = [model(text[:, a:b], cache=cache) for a, b in ((0, 1), (1, 7), (7, 8), (8, 16))]
        checks.close(torch.cat(pieces, dim=1), model(text), tolerance=1e-4)
    texts = [
        generate(model, text[0, :5], 30, generator=torch.Generator().manual_seed(1), use_cache=use_cache)
        for use_cache in (True, False)
    ]
    assert torch.equal(*texts)


def test_it_is_the_product_of_network_and_counts_each_to_the_power_of_its_gate(tokens):
    train_tokens, val = tokens
    model = counted_gpt(train_tokens, temperature=1.25).eval()
    text = val[None, :12].long()
    with torch.no_grad():
        model.gates.bias.copy_(torch.tensor([0.5, 0.1, 0.2, 0.3]))
        alone = super(CountedGPT, model).forward(text).log_softmax(-1)
        p, _ = model.counts.probabilities(text, (1, 2, 4))
        product = alone.exp() ** 0.5 * p[:, :, 0] ** 0.1 * p[:, :, 1] ** 0.2 * p[:, :, 2] ** 0.3
        softer = product ** (1 / 1.25)
        checks.close(model(text).softmax(-1), softer / softer.sum(-1, keepdim=True), tolerance=1e-5)


def test_while_it_learns_its_temperature_is_one(tokens):
    x, y = get_batch(tokens[0], 2, 8, torch.Generator().manual_seed(1))
    warm, cool = (counted_gpt(tokens[0], temperature=temperature) for temperature in (1.25, 1.0))
    assert torch.equal(warm.loss(x, y), cool.loss(x, y)) and not torch.equal(warm(x), cool(x))


@pytest.mark.slow
def test_beside_the_counts_it_learns_more_than_alone(tokens):
    train_tokens, val = tokens
    losses = []
    for counted in (True, False):
        torch.manual_seed(0)
        sizes = {name: value for name, value in SIZES.items() if name != "lengths"}
        model = counted_gpt(train_tokens) if counted else build_gpt(ModernConfig(**sizes))
        learned(model, train_tokens, 40)
        losses.append(evaluate(model, val, 16))
    assert losses[0] < losses[1] - 0.3


def test_the_text_goes_with_the_weights_and_is_counted_anew(pair):
    model, (train_tokens, val) = pair
    other = counted_gpt(train_tokens.flip(0))
    before = other.eval()(val[None, :16].long())
    other.load_state_dict(model.state_dict())
    after = other(val[None, :16].long())
    assert not torch.equal(before, after) and torch.equal(after, model.eval()(val[None, :16].long()))
    assert torch.equal(copy.deepcopy(model)(val[None, :16].long()), after)
    # As when a model is moved to another device.
    before, other.text = (
        other.counts,
        other.text.clone(),
    )
    other.count(train_tokens.flip(0))
    assert other.counts is not before and not torch.equal(other(val[None, :16].long()), after)


# ---------------------------------------------------------------- what it must not know
@pytest.mark.slow
def test_where_there_is_nothing_to_learn_it_learns_nothing(monkeypatch):
    """Letters are random: a loss below that of guessing gives away who saw the answer."""
    text = torch.randint(8, (3000,), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)

    def last_losses():
        return sum(learned(counted_gpt(text, vocab_size=8, n_layer=1), text, 60)[-20:]) / 20

    assert last_losses() > math.log(8) - 0.03
    knowing = KneserNey.probabilities
    monkeypatch.setattr(
        KneserNey,
        "probabilities",
        lambda counts, tokens, lengths, _: knowing(counts, tokens, lengths),
    )
    assert last_losses() < math.log(8) - 0.3  # as it would be if nothing were forgotten


def test_nothing_of_the_validation_text_was_counted(tokens):
    train_tokens, val = tokens
    planted = torch.tensor([7, 7, 7, 7, 7, 7], dtype=val.dtype)
    val = torch.cat([val[:100], planted, val[100:]])
    model = counted_gpt(train_tokens)
    learned(model, train_tokens, 2)
    evaluate(model, val, 16)
    assert torch.equal(model.text, train_tokens.to(model.text.dtype))
    assert (model.counts.contexts(planted[None].long())[4] < 0).all()
    with_it = counted_gpt(torch.cat([train_tokens, planted]))
    assert (with_it.counts.contexts(planted[None].long())[4][0, 4:] >= 0).all()  # where it was, it leaves a trace


def test_the_loss_that_counts_is_the_one_of_both_together_and_both_learn(pair):
    model, (train_tokens, _) = pair
    x, y = get_batch(train_tokens, 4, 16, torch.Generator().manual_seed(1))
    together, alone = model.logits_together_and_alone(x, x[:, :0], targets=y)
    loss = model.loss(x, y)
    assert loss.item() == pytest.approx(cross_entropy(together, y).item())
    (gradient,) = torch.autograd.grad(loss, model.head.weight, retain_graph=True)
    sum_of_both = cross_entropy(together, y) + cross_entropy(alone, y)
    (right,) = torch.autograd.grad(sum_of_both, model.head.weight)
    checks.close(gradient, right, tolerance=1e-6)


# ---------------------------------------------------------------- what is refused
def test_a_text_of_another_length_is_refused(tokens):
    with pytest.raises(ConfigError, match="counted=10, but the text has"):
        build_gpt(CountedConfig(**SIZES, counted=10)).count(tokens[0])
    with pytest.raises(ConfigError, match="there is no text to count"):
        build_gpt(CountedConfig(**SIZES))(torch.zeros(1, 4, dtype=torch.long))
    with pytest.raises(ConfigError, match="counted"):
        CountedConfig(**SIZES, counted=10**9)


@pytest.mark.parametrize("wrong", [{"lengths": (2, 2)}, {"lengths": ()}, {"temperature": 0.0}])
def test_counts_that_make_no_sense_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=f"{name} must be "):
        CountedConfig(**SIZES | wrong)


def test_a_config_is_of_the_first_kind_that_has_all_its_fields():
    assert type(config_of(SIZES)) is CountedConfig
    assert type(build_gpt(config_of(SIZES))) is CountedGPT


@pytest.mark.slow
def test_the_preset_for_a_gpu_takes_steps_on_a_cpu_too(tokens):
    text = tokens[0][:3000]
    preset = choose_preset("gpu-counted", max_steps=3, device="cpu")
    config = replace(preset.training, batch_size=2, eval_interval=3)
    torch.manual_seed(1)
    model = preset.build(65, text)
    losses = list(updates(model, text, config, make_optimizer(model, config), torch.Generator()))
    assert len(losses) == 3 and all(map(math.isfinite, losses))
    assert model.text.tolist() == text.tolist()  # or it would have counted nothing but zeros


def test_gates_and_mixture_keep_their_digits_in_autocast(pair):
    model, (text, *_) = pair
    x = text[None, :16].long()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        opinions, _ = model._by_counting(x, x[:, :0], None)
        together, alone = model.logits_together_and_alone(x, x[:, :0])
    assert together.dtype == torch.float32
    g = model.gates.bias
    expected = g[0] * alone + (g[1:, None] * opinions).sum(-2)  # fresh gates are their biases
    assert torch.allclose(together, expected, atol=1e-5)
