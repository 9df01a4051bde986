"""The loop of updates is the recipe written out; the loss of a split is that of all its tokens."""

import dataclasses
import math

import pytest
import torch

from helpers.data import get_batch
from helpers.errors import ConfigError, CorpusError
from helpers.gpt import GPT
from helpers.modern import ModernConfig, ModernGPT
from helpers.optim import TrainConfig, learning_rate, make_optimizer
from helpers.training import batch_shape, cross_entropy, evaluate, updates, windows_side_by_side


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def trained(model, tokens, config, seed=None, first_step=0) -> list[float]:
    """The losses of a whole training by `updates`."""
    seed = config.seed if seed is None else seed
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    return list(updates(model, tokens, config, make_optimizer(model, config), generator, first_step))


# ---------------------------------------------------------------- the loop
def test_equals_a_loop_written_from_the_recipe(model, tokens, quick, small_config):
    """AdamW (Loshchilov and Hutter 2019, algorithm 2), clipping and schedule written out, on the same batches."""
    other = GPT(small_config)
    other.load_state_dict(model.state_dict())
    config = dataclasses.replace(quick, max_steps=6, eval_interval=100, grad_clip=0.5, learning_rate=1e-2)
    model.eval()  # the loop trains in training mode, whatever was before
    found = trained(model, tokens[0], config)

    generator, losses = torch.Generator().manual_seed(config.seed), []
    state = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in other.parameters()]
    for step, rate in enumerate([1 / 3 * 1e-2, 2 / 3 * 1e-2, *(learning_rate(step, config) for step in range(2, 6))]):
        x, y = get_batch(tokens[0], 8, 16, generator)
        loss = -other(x).log_softmax(-1).gather(-1, y[..., None]).mean()
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, list(other.parameters()))
        norm = torch.sqrt(sum((g**2).sum() for g in gradients))
        assert norm > 0.5  # so that clipping matters
        with torch.no_grad():
            for (p, m, v), g in zip(state, gradients, strict=True):
                g = g * min(1.0, 0.5 / norm)
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.99).add_(0.01 * g**2)
                p.mul_(1 - rate * (0.1 if p.dim() == 2 else 0.0))
                p.sub_(rate * (m / (1 - 0.9 ** (step + 1))) / ((v / (1 - 0.99 ** (step + 1))).sqrt() + 1e-8))
    assert torch.allclose(weights_of(model), weights_of(other), atol=2e-4)
    assert found == pytest.approx(losses, abs=1e-4) and model.training


@pytest.mark.slow
def test_same_seeds_same_weights(fresh, tokens, quick):
    """With dropout, so that both generators count."""
    ends = []
    for seed in (1, 1, 2):
        model = fresh()
        trained(model, tokens[0], quick, seed)
        ends.append(weights_of(model))
    assert torch.equal(ends[0], ends[1]) and not torch.equal(ends[0], ends[2])


def test_a_loop_that_begins_later_makes_the_steps_that_are_left_at_their_own_rates(model, tokens, quick):
    optimizer, rates = make_optimizer(model, quick), []
    for _ in updates(model, tokens[0], quick, optimizer, torch.Generator(), first_step=9):
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [learning_rate(step, quick) for step in (9, 10, 11)]
    assert list(updates(model, tokens[0], quick, optimizer, torch.Generator(), first_step=12)) == []


def test_updates_follow_the_schedule_and_each_groups_scale(tokens, quick):
    config = dataclasses.replace(quick, schedule="stable", decay=0.5, optimizer="muon", muon_scale=3.0)
    model = ModernGPT(ModernConfig(65, 16, 2, 4, 32))
    optimizer, seen = make_optimizer(model, config), []
    for _ in updates(model, tokens[0], config, optimizer, torch.Generator()):
        seen.append([group["lr"] for group in optimizer.param_groups])
    expected = [learning_rate(step, config) for step in range(config.max_steps)]
    assert seen == [[rate * 3.0, rate, rate] for rate in expected] and len(set(expected)) > 5


@pytest.mark.slow
def test_what_a_reader_does_between_two_updates_to_the_mode_does_not_matter(fresh, tokens, quick):
    ends = []
    for meddle in (False, True):
        model = fresh()
        torch.manual_seed(0)
        for _ in updates(model, tokens[0], quick, make_optimizer(model, quick), torch.Generator().manual_seed(0)):
            model.train(not meddle)
        ends.append(weights_of(model))
    assert torch.equal(*ends)


@pytest.mark.slow
@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_every_way_to_train_learns(tokens, quick, monkeypatch, optimizer, bfloat16):
    monkeypatch.setattr("helpers.precision.has_bfloat16", lambda: True)
    torch.manual_seed(0)
    model = ModernGPT(ModernConfig(65, 16, 2, 2, 32, rotary=True, qk_norm=True, tied=False, bigrams=500, before=2))
    config = dataclasses.replace(quick, learning_rate=1e-2, optimizer=optimizer, bfloat16_cpu=bfloat16)
    before = evaluate(model, tokens[1], 16)
    losses = trained(model, tokens[0], config)
    assert before == pytest.approx(math.log(65), abs=0.1)
    assert evaluate(model, tokens[1], 16) < before - 0.5 and all(map(math.isfinite, losses))
    assert all(weight.dtype == torch.float32 for weight in model.parameters())


# ---------------------------------------------------------------- windows that grow
def test_the_shape_of_a_batch_by_hand():
    config = TrainConfig(batch_size=4, max_steps=10, eval_interval=10, windows=((0.25, 8), (0.5, 16)))
    shapes = [batch_shape(step, config, 32) for step in range(10)]
    assert shapes == 3 * [(16, 8)] + 2 * [(8, 16)] + 5 * [(4, 32)]  # as many tokens each time
    assert [batch_shape(step, dataclasses.replace(config, windows=()), 32) for step in (0, 9)] == 2 * [(4, 32)]
    uneven = dataclasses.replace(config, windows=((1.0, 12),))
    assert [batch_shape(step, uneven, 32) for step in (0, 9)] == 2 * [(10, 12)]


def test_the_model_sees_windows_of_these_shapes(fresh, tokens, quick):
    model, seen = fresh(), []
    model.register_forward_pre_hook(lambda _, inputs: seen.append(tuple(inputs[0].shape)))
    trained(model, tokens[0], dataclasses.replace(quick, windows=((0.25, 4), (0.5, 8))))
    assert seen == 3 * [(32, 4)] + 3 * [(16, 8)] + 6 * [(8, 16)]


def test_a_window_that_the_context_does_not_hold_is_refused(model, tokens, quick):
    with pytest.raises(ConfigError, match="17 tokens do not fit into a context of 16"):
        trained(model, tokens[0], dataclasses.replace(quick, windows=((0.5, 17),)))


# ---------------------------------------------------------------- the loss
def test_the_loss_is_the_mean_of_what_the_right_tokens_cost():
    logits, targets = torch.randn(2, 5, 7, dtype=torch.float64), torch.randint(7, (2, 5))
    costs = [-logits[b, t].softmax(-1)[targets[b, t]].log().item() for b in range(2) for t in range(5)]
    assert cross_entropy(logits, targets).item() == pytest.approx(sum(costs) / 10, abs=1e-6)
    assert cross_entropy(logits, targets, reduction="sum").item() == pytest.approx(sum(costs), abs=1e-5)
    assert cross_entropy(logits.bfloat16(), targets).dtype == torch.float32  # a sum in bfloat16 would lose most of it


@pytest.mark.parametrize("length", [2, 16, 17, 18, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_evaluate_covers_the_whole_split(model, length, unchecked):
    """Equal to scoring token by token: every token but the first, with what its window has before it."""
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
    tokens = torch.arange(10_003)
    pieces = list(windows_side_by_side(tokens, 16))
    assert [tuple(x.shape) for x, _ in pieces] == [(256, 16), (256, 16), (113, 16), (1, 2)]
    assert torch.cat([y.flatten() for _, y in pieces]).equal(tokens[1:])
    assert all(y.equal(x + 1) for x, y in pieces)


def test_evaluate_is_deterministic_and_keeps_the_mode(small_config):
    model = GPT(dataclasses.replace(small_config, dropout=0.5))
    tokens = torch.randint(65, (200,))
    assert evaluate(model, tokens, 16) == evaluate(model, tokens, 16) and model.training
    with pytest.raises(CorpusError, match="1 tokens leave nothing to predict"):
        evaluate(model, tokens[:1], 16)


def test_a_corpus_in_small_integers_has_the_same_loss(model, tokens):
    assert evaluate(model, tokens[1].byte(), 16) == evaluate(model, tokens[1], 16)


def test_a_window_longer_than_the_context_is_refused(model, tokens):
    with pytest.raises(ConfigError, match="17 tokens do not fit into a context of 16"):
        evaluate(model, tokens[1], 17)


def test_a_diverged_model_has_no_loss(model, tokens):
    """NaN, and not the mean over what is left."""
    with torch.no_grad():
        model.position_embedding.weight[15] = math.nan
    assert math.isnan(evaluate(model, tokens[1], 16))
