"""The updates are the recipe; a run is the updates, and its records."""

import dataclasses
import itertools
import json
import math

import pytest
import torch
from run_folder import ALPHABET
from torch import nn

from helpers import checkpoint
from helpers.data import get_batch
from helpers.errors import ConfigError, RunError
from helpers.gpt import GPT
from helpers.loss import cross_entropy, evaluate
from helpers.modern import ModernConfig, ModernGPT
from helpers.optim import TrainConfig, make_optimizer, rate_at
from helpers.presets import PRESETS
from helpers.training import batch_shape, record_steps, train, updates


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def trained(model, tokens, config, seed=None, first_step=0) -> list[float]:
    """The losses of a whole training by `updates`."""
    seed = config.seed if seed is None else seed
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    return list(updates(model, tokens, config, make_optimizer(model, config), generator, first_step))


# ---------------------------------------------------------------- the loop
def test_without_clipping_gradients_keep_their_length(tokens, quick, fresh):
    """nanoGPT's grad_clip = 0 means none, and not gradients of 0."""
    weights = []
    for clip in (0.0, 1e9):
        model = fresh()
        trained(model, tokens[0], dataclasses.replace(quick, max_steps=2, grad_clip=clip))
        weights.append(model.head.weight)
    assert weights[0].equal(weights[1])


def test_equals_a_loop_written_from_the_recipe(model, tokens, quick, small_config):
    """AdamW (Loshchilov and Hutter 2019, algorithm 2), clipping and schedule, on equal batches."""
    other = GPT(small_config)
    other.load_state_dict(model.state_dict())
    config = dataclasses.replace(quick, max_steps=6, eval_interval=100, grad_clip=0.5, learning_rate=1e-2)
    model.eval()  # the loop trains in training mode, whatever was before
    found = trained(model, tokens[0], config)

    generator, losses = torch.Generator().manual_seed(config.seed), []
    state = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in other.parameters()]
    for step, rate in enumerate([1 / 3 * 1e-2, 2 / 3 * 1e-2, *(rate_at(step, config) for step in range(2, 6))]):
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


def test_a_loop_that_begins_later_makes_the_steps_that_are_left_at_their_own_rates(model, tokens, quick):
    optimizer, rates = make_optimizer(model, quick), []
    for _ in updates(model, tokens[0], quick, optimizer, torch.Generator(), first_step=9):
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [rate_at(step, quick) for step in (9, 10, 11)]
    assert list(updates(model, tokens[0], quick, optimizer, torch.Generator(), first_step=12)) == []


def test_updates_follow_the_schedule_and_each_groups_scale(tokens, quick):
    config = dataclasses.replace(quick, schedule="stable", decay=0.5, optimizer="muon", muon_scale=3.0)
    model = ModernGPT(ModernConfig(65, 16, 2, 4, 32))
    optimizer, seen = make_optimizer(model, config), []
    for _ in updates(model, tokens[0], config, optimizer, torch.Generator()):
        seen.append([group["lr"] for group in optimizer.param_groups])
    expected = [rate_at(step, config) for step in range(config.max_steps)]
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
    monkeypatch.setattr("helpers.loss.has_bfloat16", lambda: True)
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


# ---------------------------------------------------------------- in pieces, and by a loss of one's own
@pytest.mark.parametrize("pieces", [2, 3, 8])
def test_a_batch_in_pieces_gives_the_same_weights_but_for_rounding(small_config, tokens, quick, pieces):
    """Of 8 windows: three pieces are unequal, eight have one each."""
    ends = []
    for accumulate in (1, pieces):
        torch.manual_seed(0)
        model = GPT(small_config)
        losses = trained(model, tokens[0], dataclasses.replace(quick, max_steps=4, accumulate=accumulate))
        ends.append((weights_of(model), torch.tensor(losses)))
    for one, other in zip(*ends, strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_a_model_that_brings_its_own_loss_learns_by_it(small_config, tokens, quick):
    class Twice(GPT):
        def loss(self, x, y):
            return 2 * cross_entropy(self(x), y)

    firsts = []
    for kind in (GPT, Twice):
        torch.manual_seed(0)
        firsts.append(trained(kind(small_config), tokens[0], quick)[0])
    assert firsts[1] == pytest.approx(2 * firsts[0])


# ---------------------------------------------------------------- a run's records
def test_records_come_early_and_then_at_intervals():
    config = dataclasses.replace(PRESETS["laptop"].training, max_steps=600)
    assert record_steps(config) == [0, 25, 50, 125, 250, 500, 600]
    assert record_steps(dataclasses.replace(config, max_steps=1)) == [0, 1]


@pytest.mark.slow
def test_history_and_run_folder(model, tokens, quick, corpus, tmp_path):
    seen = []
    out = tmp_path / "deep" / "run"
    options = {"on_record": lambda _, r: seen.append(r), "corpus": corpus, "preset": "none"}
    history = train(model, *tokens, quick, out_dir=out, **options)
    assert history.column("step") == [0, 2, 4, 8, 12] and seen == list(history)
    assert history[-1].val_loss < history[0].val_loss
    names = {"checkpoint.pt", "config.json", "history.json", "tokenizer.json"}
    assert {path.name for path in out.iterdir()} == names
    stored = json.loads((out / "history.json").read_text())
    assert stored == [dataclasses.asdict(record) for record in history]
    assert list(stored[0]) == [
        "step",
        "train_loss",
        "val_loss",
        "seconds",
        "tokens_per_second",
        "learning_rate",
    ]
    assert stored[0]["tokens_per_second"] == 0 < stored[1]["tokens_per_second"]
    settings = json.loads((out / "config.json").read_text())
    assert settings["n_embd"] == 32 and settings["batch_size"] == 8 and settings["preset"] == "none"
    assert settings["step"] == 12 and settings["best"] == {
        "step": history.best.step,
        "val_loss": history.best.val_loss,
    }


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_train_is_the_loop_of_updates(small_config, tokens, quick, dropout):
    """What `train` adds, the look at the first batch, records and evaluations, draws nothing."""
    quick = dataclasses.replace(quick, seed=7)  # not the default, which a slip could hide behind
    ends, losses = [], []
    for plain in (True, False):
        torch.manual_seed(0)
        model = GPT(dataclasses.replace(small_config, dropout=dropout))
        if plain:
            torch.manual_seed(quick.seed)
            generator = torch.Generator().manual_seed(quick.seed)
            losses = list(updates(model, tokens[0], quick, make_optimizer(model, quick), generator))
            ends.append(weights_of(model))
        else:
            last = []
            history = train(model, *tokens, quick, on_record=lambda m, _, last=last: last.append(weights_of(m)))
            ends.append(last[-1])
    assert torch.equal(*ends)
    assert history[-1].train_loss == pytest.approx(sum(losses[8:]) / 4)


@pytest.mark.slow
def test_the_first_record_is_in_evaluation_mode(small_config, tokens, quick):
    """A look with dropout would be worse than the model is, and would use up draws."""
    first = []
    for dropout in (0.0, 0.9):
        torch.manual_seed(0)
        first.append(train(GPT(dataclasses.replace(small_config, dropout=dropout)), *tokens, quick)[0].train_loss)
    assert first[0] == first[1]


@pytest.mark.slow
def test_the_model_is_left_with_its_best_weights(model, tokens, quick, corpus, tmp_path, monkeypatch):
    """The validation losses are dictated: the record at step 4 is the best of the five."""
    losses, weights = iter([4.0, 3.0, 1.0, 2.0, 3.0]), {}
    monkeypatch.setattr("helpers.training.evaluate", lambda *_: next(losses))

    def keep(model, record):
        weights[record.step] = weights_of(model)

    history = train(model, *tokens, quick, out_dir=tmp_path, on_record=keep, corpus=corpus)
    assert history.best.step == 4 and not torch.equal(weights[4], weights[12])
    assert torch.equal(weights_of(model), weights[4])
    loaded, tokenizer = checkpoint.load_model(tmp_path)
    assert torch.equal(weights_of(loaded), weights_of(model)) and tokenizer.characters == ALPHABET
    assert not loaded.training


@pytest.mark.slow
def test_same_seed_same_training(small_config, tokens, quick):
    ends = []
    for seed in (1, 1, 2):
        torch.manual_seed(0)
        model = GPT(dataclasses.replace(small_config, dropout=0.1))
        torch.manual_seed(99)  # what was drawn before must not matter
        train(model, *tokens, dataclasses.replace(quick, seed=seed))
        ends.append(weights_of(model))
    assert torch.equal(ends[0], ends[1]) and not torch.equal(ends[0], ends[2])


@pytest.mark.slow
def test_what_on_record_does_to_the_mode_does_not_matter(small_config, tokens, quick):
    ends = []
    for on_record in (None, lambda model, _: model.eval()):
        torch.manual_seed(0)
        model = GPT(dataclasses.replace(small_config, dropout=0.3))
        train(model, *tokens, quick, on_record=on_record)
        ends.append(weights_of(model))
    assert torch.equal(*ends)


@pytest.mark.slow
def test_the_settings_choose_optimizer_schedule_and_windows(tokens, quick):
    """Other tests see what `updates` does; here settings must arrive and records say the rate."""
    torch.manual_seed(0)
    model = ModernGPT(ModernConfig(65, 16, 2, 4, 32, rotary=True, tied=False, bigrams=100, zero_start=True))
    config = dataclasses.replace(quick, schedule="stable", decay=0.5, optimizer="muon", windows=((0.5, 8),))
    seen = []

    def look(model, inputs):
        if model.training:
            seen.append(inputs[0].shape[1])

    model.register_forward_pre_hook(look)
    history = train(model, *tokens, config)
    assert history.column("learning_rate") == [rate_at(step, config) for step in history.column("step")]
    assert history[-1].learning_rate == config.min_learning_rate and history.best.val_loss < history[0].val_loss
    assert seen == 6 * [8] + 6 * [16]


@pytest.mark.slow
def test_the_records_say_the_mean_loss_and_the_speed_since_the_last_one(model, tokens, quick):
    history = train(model, *tokens, quick)
    for before, after in itertools.pairwise(history):
        seconds = after.seconds - before.seconds
        assert after.tokens_per_second == pytest.approx((after.step - before.step) * 8 * 16 / seconds)


class Explodes(nn.Module):
    """A model whose logits turn into NaN after a number of calls."""

    def __init__(self, model, calls):
        super().__init__()
        self.model, self.config, self.calls = model, model.config, calls

    def forward(self, tokens):
        self.calls -= 1
        return self.model(tokens) * (1.0 if self.calls > 0 else float("nan"))


def test_a_loss_that_is_no_number_stops_the_training(model, tokens, quick, monkeypatch):
    monkeypatch.setattr("helpers.training.evaluate", lambda *_: 1.0)
    with pytest.raises(RunError, match="the loss is nan at step 5: try a lower"):
        train(Explodes(model, calls=7), *tokens, quick)


def test_a_validation_loss_that_is_no_number_stops_it_too(model, tokens, quick, monkeypatch):
    monkeypatch.setattr("helpers.training.evaluate", lambda *_: float("nan"))
    with pytest.raises(RunError, match="the loss is nan at step 0"):
        train(model, *tokens, quick)


def test_bad_input_leaves_no_folder(model, tokens, quick, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(ConfigError, match="a batch of 8 can't be cut into 9 parts"):
        train(model, *tokens, dataclasses.replace(quick, accumulate=9), out_dir=out)
    with pytest.raises(RunError, match="no checkpoint at"):
        train(model, *tokens, quick, out_dir=out, resume=True)
    with pytest.raises(ConfigError, match="resume and overwrite need one"):
        train(model, *tokens, quick, resume=True)
    assert not out.exists()
