"""`train` is core's loop of updates with records, and nothing that it adds changes a weight."""

import dataclasses
import itertools
import json

import pytest
import torch
from run_folder import ALPHABET
from torch import nn

from helpers import checkpoint
from helpers.checkpoint import Facts
from helpers.data import CharTokenizer
from helpers.errors import ConfigError, CorpusError, RunError
from helpers.gpt import GPT
from helpers.modern import ModernConfig, ModernGPT
from helpers.optim import learning_rate, make_optimizer
from helpers.presets import PRESETS
from helpers.training import record_steps, train, updates


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_records_come_early_and_then_at_intervals():
    config = dataclasses.replace(PRESETS["laptop"].training, max_steps=600)
    assert record_steps(config) == [0, 25, 50, 125, 250, 500, 600]
    assert record_steps(dataclasses.replace(config, max_steps=1)) == [0, 1]


@pytest.mark.slow
def test_history_and_run_folder(model, tokens, quick, tmp_path):
    seen = []
    out = tmp_path / "deep" / "run"
    facts = Facts(CharTokenizer(ALPHABET), "none")
    history = train(model, *tokens, quick, out_dir=out, on_record=lambda _, r: seen.append(r), facts=facts)
    assert history.column("step") == [0, 2, 4, 8, 12] and seen == list(history)
    assert history[-1].val_loss < history[0].val_loss
    names = {"checkpoint.pt", "config.json", "history.json", "tokenizer.json"}
    assert {path.name for path in out.iterdir()} == names | {".lock"}
    stored = json.loads((out / "history.json").read_text())
    assert stored == [dataclasses.asdict(record) for record in history]
    assert list(stored[0]) == ["step", "train_loss", "val_loss", "seconds", "tokens_per_second", "learning_rate"]
    assert stored[0]["tokens_per_second"] == 0 < stored[1]["tokens_per_second"]
    settings = json.loads((out / "config.json").read_text())
    assert settings["model"] == dataclasses.asdict(model.config) and settings["preset"] == "none"
    assert settings["finished"] and settings["best"] == {"step": history.best.step, "val_loss": history.best.val_loss}


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
def test_the_model_is_left_with_its_best_weights(model, tokens, quick, tmp_path, monkeypatch):
    """The validation losses are dictated: the record at step 4 is the best of the five."""
    losses, weights = iter([4.0, 3.0, 1.0, 2.0, 3.0]), {}
    monkeypatch.setattr("helpers.scaling.sharing.evaluate", lambda *_: next(losses))

    def keep(model, record):
        weights[record.step] = weights_of(model)

    history = train(model, *tokens, quick, out_dir=tmp_path, on_record=keep, facts=Facts(CharTokenizer(ALPHABET)))
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
    """What `updates` does of it, tests/core sees: here it must arrive, and the records must say the rate."""
    torch.manual_seed(0)
    model = ModernGPT(ModernConfig(65, 16, 2, 4, 32, rotary=True, tied=False, bigrams=100, zero_start=True))
    config = dataclasses.replace(quick, schedule="stable", decay=0.5, optimizer="muon", windows=((0.5, 8),))
    seen = []

    def look(model, inputs):
        if model.training:
            seen.append(inputs[0].shape[1])

    model.register_forward_pre_hook(look)
    history = train(model, *tokens, config)
    assert history.column("learning_rate") == [learning_rate(step, config) for step in history.column("step")]
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
    monkeypatch.setattr("helpers.scaling.sharing.evaluate", lambda *_: 1.0)
    with pytest.raises(RunError, match="the loss is nan at step 5: training diverged"):
        train(Explodes(model, calls=7), *tokens, quick)


def test_a_validation_loss_that_is_no_number_stops_it_too(model, tokens, quick, monkeypatch):
    monkeypatch.setattr("helpers.scaling.sharing.evaluate", lambda *_: float("nan"))
    with pytest.raises(RunError, match="the loss is nan at step 0"):
        train(model, *tokens, quick)


def test_bad_input_leaves_no_folder(model, tokens, quick, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(CorpusError, match="the validation split has 16 tokens: a context of 16 needs at least 17"):
        train(model, tokens[0], tokens[1][:16], quick, out_dir=out)
    with pytest.raises(RunError, match="no checkpoint at"):
        train(model, *tokens, quick, out_dir=out, resume=True)
    with pytest.raises(ConfigError, match="resume and overwrite need one"):
        train(model, *tokens, quick, resume=True)
    assert not out.exists()


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (lambda model, train, val: (model, train.where(train > 0, 65), val), CorpusError, "the training split has a"),
        (lambda model, train, val: (model, train, val - 1), CorpusError, "the validation split has a token outside"),
        (lambda model, train, val: (model.half(), train, val), ConfigError, "weights are trained in float32"),
    ],
)
def test_what_would_go_wrong_late_or_in_silence_is_refused_before_the_first_step(
    model, tokens, quick, change, error, sentence
):
    with pytest.raises(error, match=sentence):
        train(*change(model, *tokens), quick)


def test_a_model_and_a_tokenizer_of_other_sizes_do_not_belong_together(model, tokens, quick):
    with pytest.raises(ConfigError, match="the tokenizer has 3 characters, and the model's vocabulary 65"):
        train(model, *tokens, quick, facts=Facts(CharTokenizer("abc")))
