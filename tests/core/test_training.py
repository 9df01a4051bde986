import dataclasses
import json

import pytest
import torch
from torch import nn

from helpers.core import data, training
from helpers.core.data import CharTokenizer
from helpers.core.gpt import GPT
from helpers.core.optim import learning_rate
from helpers.core.training import evaluate, updates
from helpers.runs import checkpoint
from helpers.runs.presets import PRESETS
from helpers.runs.train import train
from helpers.support.errors import CheckpointError, ConfigError, CorpusError, TrainingError
from helpers.world.corpus import BUNDLED_PLAY

ALPHABET = "".join(map(chr, range(65)))


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# ---------------------------------------------------------------- parts of the loop
def test_learning_rate_by_hand():
    config = dataclasses.replace(PRESETS["laptop"].training, warmup_steps=9, max_steps=109)
    rates = [learning_rate(step, config) for step in range(120)]
    assert rates[0] == pytest.approx(1e-4) and rates[8] == pytest.approx(9e-4)  # a tenth more each step
    assert rates[9] == pytest.approx(1e-3) and rates[59] == pytest.approx(5.5e-4) and rates[109] == pytest.approx(1e-4)
    assert rates[119] == rates[109] and rates[9:110] == sorted(rates[9:110], reverse=True)


def test_records_come_early_and_then_at_intervals():
    config = dataclasses.replace(PRESETS["laptop"].training, max_steps=600)
    assert training.record_steps(config) == [0, 25, 50, 125, 250, 500, 600]
    assert training.record_steps(dataclasses.replace(config, max_steps=1)) == [0, 1]


def test_decay_on_matrices_only(model, quick):
    decayed, spared = training.make_optimizer(model, quick).param_groups
    assert decayed["weight_decay"] == 0.1 and spared["weight_decay"] == 0.0
    assert {p.dim() for p in decayed["params"]} == {2} and {p.dim() for p in spared["params"]} == {1}
    assert len(decayed["params"]) + len(spared["params"]) == len(list(model.parameters()))


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


def test_evaluate_is_deterministic_and_keeps_the_mode(small_config):
    model = GPT(dataclasses.replace(small_config, dropout=0.5))
    tokens = torch.randint(65, (200,))
    assert evaluate(model, tokens, 16) == evaluate(model, tokens, 16) and model.training
    with pytest.raises(CorpusError, match="1 tokens leave nothing to predict"):
        evaluate(model, tokens[:1], 16)


# ---------------------------------------------------------------- training
def test_history_and_run_folder(model, tokens, quick, tmp_path):
    seen = []
    out = tmp_path / "deep" / "run"
    extras = {"tokenizer": CharTokenizer(ALPHABET), "preset": "none"}
    history = train(model, *tokens, quick, out_dir=out, on_record=lambda _, r: seen.append(r), **extras)
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
            losses = list(updates(model, tokens[0], quick, training.make_optimizer(model, quick), generator))
            ends.append(weights_of(model))
        else:
            last = []
            history = train(model, *tokens, quick, on_record=lambda m, _, last=last: last.append(weights_of(m)))
            ends.append(last[-1])
    assert torch.equal(*ends)
    assert history[-1].train_loss == pytest.approx(sum(losses[8:]) / 4)


def test_the_first_record_is_in_evaluation_mode(small_config, tokens, quick):
    """A look with dropout would be worse than the model is, and would use up draws."""
    first = []
    for dropout in (0.0, 0.9):
        torch.manual_seed(0)
        first.append(train(GPT(dataclasses.replace(small_config, dropout=dropout)), *tokens, quick)[0].train_loss)
    assert first[0] == first[1]


def test_the_model_is_left_with_its_best_weights(model, tokens, quick, tmp_path, monkeypatch):
    """The validation losses are dictated: the record at step 4 is the best of the five."""
    losses, weights = iter([4.0, 3.0, 1.0, 2.0, 3.0]), {}
    monkeypatch.setattr(training, "evaluate", lambda *_: next(losses))

    def keep(model, record):
        weights[record.step] = weights_of(model)

    history = train(model, *tokens, quick, out_dir=tmp_path, on_record=keep, tokenizer=CharTokenizer(ALPHABET))
    assert history.best.step == 4 and not torch.equal(weights[4], weights[12])
    assert torch.equal(weights_of(model), weights[4])
    loaded, tokenizer = checkpoint.load_model(tmp_path)
    assert torch.equal(weights_of(loaded), weights_of(model)) and tokenizer.characters == ALPHABET
    assert not loaded.training


def test_same_seed_same_training(small_config, tokens, quick):
    ends = []
    for seed in (1, 1, 2):
        torch.manual_seed(0)
        model = GPT(dataclasses.replace(small_config, dropout=0.1))
        torch.manual_seed(99)  # what was drawn before must not matter
        train(model, *tokens, dataclasses.replace(quick, seed=seed))
        ends.append(weights_of(model))
    assert torch.equal(ends[0], ends[1]) and not torch.equal(ends[0], ends[2])


def test_what_on_record_does_to_the_mode_does_not_matter(small_config, tokens, quick):
    ends = []
    for on_record in (None, lambda model, _: model.eval()):
        torch.manual_seed(0)
        model = GPT(dataclasses.replace(small_config, dropout=0.3))
        train(model, *tokens, quick, on_record=on_record)
        ends.append(weights_of(model))
    assert torch.equal(*ends)


def test_equals_a_loop_written_from_the_recipe(model, tokens, quick, small_config):
    """AdamW (Loshchilov and Hutter 2019, algorithm 2), clipping and schedule written out, on the same batches."""
    other = GPT(small_config)
    other.load_state_dict(model.state_dict())
    config = dataclasses.replace(quick, max_steps=6, eval_interval=100, grad_clip=0.5, learning_rate=1e-2)
    history = train(model, *tokens, config, on_record=lambda model, _: model.eval())

    generator, losses = torch.Generator().manual_seed(config.seed), []
    state = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in other.parameters()]
    for step, rate in enumerate([1 / 3 * 1e-2, 2 / 3 * 1e-2, *(learning_rate(step, config) for step in range(2, 6))]):
        x, y = data.get_batch(tokens[0], 8, 16, generator)
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
    assert history[-1].train_loss == pytest.approx(sum(losses) / 6, abs=1e-4)
    seconds = history[-1].seconds
    assert history[-1].tokens_per_second == pytest.approx(6 * 8 * 16 / seconds)


class Explodes(nn.Module):
    """A model whose logits turn into NaN after a number of calls."""

    def __init__(self, model, calls):
        super().__init__()
        self.model, self.config, self.calls = model, model.config, calls

    def forward(self, tokens):
        self.calls -= 1
        return self.model(tokens) * (1.0 if self.calls > 0 else float("nan"))


def test_a_loss_that_is_no_number_stops_the_training(model, tokens, quick, monkeypatch):
    monkeypatch.setattr(training, "evaluate", lambda *_: 1.0)
    with pytest.raises(TrainingError, match="the loss is nan at step 5: training diverged"):
        train(Explodes(model, calls=7), *tokens, quick)


def test_a_validation_loss_that_is_no_number_stops_it_too(model, tokens, quick, monkeypatch):
    monkeypatch.setattr(training, "evaluate", lambda *_: float("nan"))
    with pytest.raises(TrainingError, match="the loss is nan at step 0"):
        train(model, *tokens, quick)


# ---------------------------------------------------------------- nothing half-written
def test_bad_input_leaves_no_folder(model, tokens, quick, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(CorpusError, match="the validation split has 16 tokens: a context of 16 needs at least 17"):
        train(model, tokens[0], tokens[1][:16], quick, out_dir=out)
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        train(model, *tokens, quick, out_dir=out, resume=True)
    with pytest.raises(ConfigError, match="resume and overwrite need one"):
        train(model, *tokens, quick, resume=True)
    assert not out.exists()


# ---------------------------------------------------------------- the command line
def run(*arguments):
    return training.main([str(argument) for argument in arguments])


def test_command_line_trains_on_a_file(tmp_path, capsys):
    out = tmp_path / "run"
    assert (
        run("--preset", "smoke", "--corpus", BUNDLED_PLAY, "--out", out, "--max-steps", 5, "--sample-length", 20) == 0
    )
    names = [".lock", "checkpoint.pt", "config.json", "history.json", "sample.txt", "tokenizer.json"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert len((out / "sample.txt").read_text(encoding="utf-8")) == 21
    assert "no band is known for your own text" in capsys.readouterr().out
    assert run("--preset", "smoke", "--corpus", BUNDLED_PLAY, "--out", out, "--max-steps", 7, "--resume") == 0
    assert [r["step"] for r in json.loads((out / "history.json").read_text())] == [0, 5, 7]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "huge"], "unknown preset 'huge'"),
        (["--corpus", "no-such-file.txt"], "can't read the corpus no-such-file.txt"),
        (["--max-steps", "-1"], "max_steps must be a whole number from 1 to 1,000,000,000, not -1"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt", "\u00e9"], "not in the vocabulary: '\u00e9'"),
        (["--sample-length", "-3"], "max_new_tokens must be a whole number from 0 to 100,000,000, not -3"),
        (["--out", "/dev/null/run"], "can't write into the output folder"),
        (["--resume"], "no checkpoint at"),
        (["--temperature", "0"], "temperature must be a number of at least 0.000001, not 0.0"),
    ],
)
def test_command_line_says_what_is_wrong(tmp_path, capsys, arguments, message):
    out = tmp_path / "run"
    status = run("--preset", "smoke", "--corpus", BUNDLED_PLAY, "--out", out, "--max-steps", 1, *arguments)
    error = capsys.readouterr().err
    assert status == 2 and error.startswith("error: ") and message in error and error.count("\n") == 1
    assert not out.exists()


def test_the_seed_reaches_the_weights(tmp_path):
    firsts = []
    for run_number, seed in enumerate((1, 1, 2)):
        out = tmp_path / str(run_number)
        short = ("--max-steps", 1, "--sample-length", 0)
        run("--preset", "smoke", "--corpus", BUNDLED_PLAY, "--out", out, "--seed", seed, *short)
        firsts.append(json.loads((out / "history.json").read_text())[0]["val_loss"])
    assert firsts[0] == firsts[1] != firsts[2]


def test_command_line_explains_every_option(capsys):
    with pytest.raises(SystemExit, match="0"):
        run("--help")
    text = capsys.readouterr().out
    for option in ("preset", "corpus", "out", "seed", "max-steps", "device", "resume", "prompt", "sample-length"):
        assert f"--{option}" in text
    assert all(name in text for name in PRESETS)


def test_another_optimizer_is_used_and_follows_the_schedule(small_config, tokens, quick):
    ends = []
    for optimizer in (None, "sgd"):
        torch.manual_seed(0)
        model = GPT(small_config)
        chosen = torch.optim.SGD(model.parameters(), lr=123.0) if optimizer else None
        rates = []
        train(
            model,
            *tokens,
            quick,
            optimizer=chosen,
            on_record=lambda *_, c=chosen, r=rates: c and r.append(c.param_groups[0]["lr"]),
        )
        ends.append(weights_of(model))
    assert not torch.equal(*ends) and rates[-1] == learning_rate(quick.max_steps - 1, quick)
