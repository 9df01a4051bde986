import dataclasses
import json
import math

import pytest
import torch
from torch import nn

from helpers import data, presets, runs, training
from helpers.data import BUNDLED_PLAY, CharTokenizer
from helpers.errors import CheckpointError, ConfigError, CorpusError, TrainingError
from helpers.gpt import GPT
from helpers.presets import PRESETS, choose_preset
from helpers.training import TrainConfig, evaluate, learning_rate, train, updates

ALPHABET = "".join(map(chr, range(65)))


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# ---------------------------------------------------------------- presets
def test_the_published_recipes():
    laptop, gpu = PRESETS["laptop"], PRESETS["gpu"]
    assert laptop.model == dict(context_length=64, n_layer=4, n_head=4, n_embd=128)
    assert gpu.model == dict(context_length=256, n_layer=6, n_head=6, n_embd=384, dropout=0.2)
    assert (laptop.training.batch_size, laptop.training.max_steps, gpu.training.batch_size, gpu.training.max_steps) == (
        12,
        2000,
        64,
        5000,
    )
    for preset in (laptop, gpu):
        t = preset.training
        assert (t.learning_rate, t.min_learning_rate, t.warmup_steps, t.betas) == (1e-3, 1e-4, 100, (0.9, 0.99))
        assert (t.weight_decay, t.grad_clip) == (0.1, 1.0) and preset.model_config(65).bias is False
    assert gpu.training.bfloat16 and gpu.training.compile
    for preset in PRESETS.values():
        assert all(0 < low < high < math.log(65) for low, high in preset.expected_loss.values())
        assert data.TINY in preset.expected_loss


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "laptp"}, "unknown preset 'laptp': choose one of smoke, laptop, gpu"),
        ({"name": 3}, "unknown preset 3"),
        ({"max_steps": -5}, "max_steps must be a whole number of at least 1, not -5"),
        ({"max_steps": 0}, "max_steps must be"),
        ({"max_steps": "many"}, "max_steps must be a whole number of at least 1, not 'many'"),
        ({"max_steps": 10.5}, "max_steps must be"),
        ({"max_steps": True}, "max_steps must be"),
        ({"seed": "one"}, "seed must be a whole number of at least 0, not 'one'"),
        ({"seed": None}, "seed must be"),
        ({"seed": 2**64}, "seed must be below 2 to the power of 63"),
        ({"device": "gpu"}, "unknown device 'gpu': choose auto, cpu, cuda, cuda:N or mps"),
        ({"device": 7.5}, "unknown device 7.5"),
        ({"device": "meta"}, "unknown device 'meta'"),
    ],
)
def test_bad_settings_get_one_sentence(arguments, message):
    with pytest.raises(ConfigError, match=message):
        choose_preset(**{"name": "smoke", **arguments})


def test_devices_that_are_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for device in ("cuda", "cuda:0"):
        with pytest.raises(ConfigError, match="finds no CUDA GPU"):
            choose_preset("smoke", device=device)
    with pytest.raises(ConfigError, match="finds no Apple GPU"):
        choose_preset("smoke", device="mps")
    assert choose_preset("smoke").training.device == "cpu"


def test_settings_reach_the_recipe():
    preset = choose_preset("laptop", max_steps=50, seed=7, device="cpu")
    assert (preset.training.max_steps, preset.training.warmup_steps, preset.training.seed) == (50, 5, 7)
    assert PRESETS["laptop"].training.max_steps == 2000


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


@pytest.mark.parametrize("length", [2, 16, 17, 18, 100, 1000])
def test_evaluate_covers_the_whole_split(model, length):
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
    extras = {"tokenizer": CharTokenizer(ALPHABET), "notes": {"preset": "none"}}
    history = train(model, *tokens, quick, out_dir=out, on_record=lambda _, r: seen.append(r), **extras)
    assert history.column("step") == [0, 2, 4, 8, 12] and seen == list(history)
    assert history[-1].val_loss < history[0].val_loss
    assert sorted(path.name for path in out.iterdir()) == [
        "checkpoint.pt",
        "config.json",
        "history.json",
        "tokenizer.json",
    ]
    stored = json.loads((out / "history.json").read_text())
    assert stored == [dataclasses.asdict(record) for record in history]
    assert list(stored[0]) == ["step", "train_loss", "val_loss", "seconds", "tokens_per_second", "learning_rate"]
    assert stored[0]["tokens_per_second"] == 0 < stored[1]["tokens_per_second"]
    settings = json.loads((out / "config.json").read_text())
    assert settings["model"] == dataclasses.asdict(model.config) and settings["preset"] == "none"


def test_a_run_is_finished_when_all_steps_of_its_preset_are_made(model, tokens, quick, tmp_path, monkeypatch):
    monkeypatch.setitem(PRESETS, "laptop", dataclasses.replace(PRESETS["laptop"], train=quick))
    notes, seen = {"preset": "laptop", "corpus": data.TINY}, []
    folder = tmp_path / "run"

    def look(*_):
        seen.append(training.is_finished(folder, data.TINY))

    train(model, *tokens, quick, out_dir=folder, notes=notes, on_record=look)
    assert len(seen) > 2 and seen == [False] * (len(seen) - 1) + [True]
    assert not training.is_finished(folder, data.BUNDLED) and not training.is_finished(tmp_path, data.TINY)
    train(model, *tokens, dataclasses.replace(quick, max_steps=quick.max_steps - 1), out_dir=folder, notes=notes)
    assert not training.is_finished(folder, data.TINY)  # cut short on purpose
    (folder / "history.json").write_text("[")
    assert not training.is_finished(folder, data.TINY)


def test_the_model_is_left_with_its_best_weights(model, tokens, quick, tmp_path, monkeypatch):
    """The validation losses are dictated: the record at step 4 is the best of the five."""
    losses, weights = iter([4.0, 3.0, 1.0, 2.0, 3.0]), {}
    monkeypatch.setattr(training, "evaluate", lambda *_: next(losses))

    def keep(model, record):
        weights[record.step] = weights_of(model)

    history = train(model, *tokens, quick, out_dir=tmp_path, on_record=keep, tokenizer=CharTokenizer(ALPHABET))
    assert history.best.step == 4 and not torch.equal(weights[4], weights[12])
    assert torch.equal(weights_of(model), weights[4])
    loaded, tokenizer = training.load_model(tmp_path)
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


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    training.write_text(tmp_path / "a.txt", "old")
    with pytest.raises(UnicodeEncodeError):
        training.write_text(tmp_path / "a.txt", "new, and then something that can't be written: \ud800")
    assert (tmp_path / "a.txt").read_text() == "old"


def test_resume_ends_where_the_uninterrupted_run_ends(small_config, tokens, quick, tmp_path):
    config = dataclasses.replace(small_config, dropout=0.1)
    torch.manual_seed(0)
    whole, begun, other = (GPT(config) for _ in range(3))
    begun.load_state_dict(whole.state_dict())

    class Interrupted(Exception):
        pass

    def stop(model, record):
        if record.step == 8:
            raise Interrupted

    expected = train(whole, *tokens, quick)
    with pytest.raises(Interrupted):
        train(begun, *tokens, quick, out_dir=tmp_path, on_record=stop)
    history = train(other, *tokens, quick, out_dir=tmp_path, resume=True)
    assert torch.equal(weights_of(other), weights_of(whole))
    assert history.column("val_loss") == expected.column("val_loss") and history.column("step") == [0, 2, 4, 8, 12]


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
    assert not out.exists()


def test_a_folder_that_cannot_be_written(model, tokens, quick, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"can't write into the output folder .*file"):
        train(model, *tokens, quick, out_dir=tmp_path / "file" / "run")


def test_checkpoints_that_do_not_fit(model, small_config, tokens, quick, tmp_path):
    train(model, *tokens, quick, out_dir=tmp_path)
    path = tmp_path / "checkpoint.pt"
    with pytest.raises(CheckpointError, match="another configuration: n_layer is 2 there, 3 here"):
        load_checkpoint(path, dataclasses.replace(small_config, n_layer=3))
    wider = GPT(dataclasses.replace(small_config, n_embd=64))
    with pytest.raises(CheckpointError, match="n_embd is 32 there, 64 here"):
        train(wider, *tokens, quick, out_dir=tmp_path, resume=True)

    state = torch.load(path, weights_only=True)
    for broken in (
        {"config": []},
        {"model": {}},
        {"optimizer": {}},
        {"history": []},
        {"history": [{"step": 1}]},
        {"generator": 3},
        {"rng": None},
        {"alphabet": "abc"},
    ):
        torch.save({**state, **broken}, path)
        (tmp_path / "config.json").unlink(missing_ok=True)
        with pytest.raises(CheckpointError):
            train(GPT(small_config), *tokens, quick, out_dir=tmp_path, resume=True)
        assert not (tmp_path / "config.json").exists()
    torch.save({**state, "model": {}}, path)
    with pytest.raises(CheckpointError, match="is incomplete"):
        training.load_model(tmp_path)
    torch.save(state, path)
    with pytest.raises(ConfigError, match="already at step 12: max_steps must not be below"):
        train(GPT(small_config), *tokens, dataclasses.replace(quick, max_steps=5), out_dir=tmp_path, resume=True)
    with pytest.raises(ConfigError, match="resume needs out_dir"):
        train(GPT(small_config), *tokens, quick, resume=True)

    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        load_checkpoint(path)
    torch.save({"model": {}}, path)
    with pytest.raises(CheckpointError, match="was not written by this project"):
        load_checkpoint(path)
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        training.load_model(tmp_path / "nowhere")


# ---------------------------------------------------------------- the command line
def run(*arguments):
    return training.main([str(argument) for argument in arguments])


def test_command_line_trains_on_a_file(tmp_path, capsys):
    out = tmp_path / "run"
    assert (
        run("--preset", "smoke", "--corpus", BUNDLED_PLAY, "--out", out, "--max-steps", 5, "--sample-length", 20) == 0
    )
    names = ["checkpoint.pt", "config.json", "history.json", "sample.txt", "tokenizer.json"]
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
        (["--max-steps", "-1"], "max_steps must be a whole number of at least 1, not -1"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt", "\u00e9"], "not in the vocabulary: '\u00e9'"),
        (["--sample-length", "-3"], "max_new_tokens must be at least 0"),
        (["--out", "/dev/null/run"], "can't write into the output folder"),
        (["--resume"], "no checkpoint at"),
        (["--temperature", "0"], "temperature must be a number above 0"),
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
        run("--preset", "smoke", "--corpus", BUNDLED_PLAY, "--out", out, "--max-steps", 1, "--seed", seed)
        firsts.append(json.loads((out / "history.json").read_text())[0]["val_loss"])
    assert firsts[0] == firsts[1] != firsts[2]


def test_command_line_explains_every_option(capsys):
    with pytest.raises(SystemExit, match="0"):
        run("--help")
    text = capsys.readouterr().out
    for option in ("preset", "corpus", "out", "seed", "max-steps", "device", "resume", "prompt", "sample-length"):
        assert f"--{option}" in text
    assert all(name in text for name in PRESETS)


def test_bands(capsys):
    preset = PRESETS["laptop"]
    assert "inside the expected band" in presets.describe_loss(1.9, data.TINY, preset)
    assert "ABOVE" in presets.describe_loss(2.5, data.TINY, preset) and "BELOW" in training.in_band(
        0.1, data.TINY, preset
    )
    assert "no band" in presets.describe_loss(1.9, data.OWN, preset)


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
