import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from helpers import ablations, checks, data
from helpers.ablations import VARIANTS, WHOLE
from helpers.data import CharTokenizer
from helpers.errors import CheckError, ConfigError
from helpers.gpt import GPT, GPTConfig, count_parameters
from helpers.sampling import generate
from helpers.state import Record

COMMAND = Path(__file__).parents[1] / "tools" / "ablations.py"
LEAKY = {"no causal mask", "softmax over queries"}
TEXT = "to be, or not to be: that is the question\n" * 40
TOKENS = torch.randint(11, (2, 20), generator=torch.Generator().manual_seed(0))


def build(name, seed=1):
    return ablations.build(name, 11, seed).eval()


def test_the_whole_model_is_the_gpt():
    torch.manual_seed(1)
    theirs = GPT(GPTConfig(vocab_size=11, **ablations.SIZES)).eval()
    checks.close(build(WHOLE)(TOKENS), theirs(TOKENS))


def test_attention_spelled_out_is_attention():
    model = build(WHOLE)
    expected = model(TOKENS)
    ablations.change_attention(model)
    checks.close(model(TOKENS), expected, tolerance=1e-5)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != WHOLE])
def test_every_variant_differs_in_its_outputs_or_in_its_training(name):
    whole, other = build(WHOLE), build(name)
    differs = not torch.allclose(whole(TOKENS), other(TOKENS), atol=1e-4)  # more than another order of the sums
    assert differs or VARIANTS[name].budget or VARIANTS[name].optimizer


@pytest.mark.parametrize("name", VARIANTS)
def test_only_the_two_leaks_see_their_future(name):
    if name in LEAKY:
        with pytest.raises(CheckError, match="not causal"):
            checks.causal(build(name), TOKENS)
    else:
        checks.causal(build(name), TOKENS)


def test_no_scaling_is_the_root_of_the_head_width():
    whole, x = build(WHOLE), torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        whole.blocks[0].attention.W_query.weight *= 4  # heads of width 16
    checks.close(build("no scaling").blocks[0](x), whole.blocks[0](x), tolerance=1e-5)


def test_parts_that_are_taken_out_are_gone():
    C, L = ablations.SIZES["n_embd"], ablations.SIZES["n_layer"]
    parameters = {name: count_parameters(build(name)) for name in VARIANTS}
    whole = parameters[WHOLE]
    assert whole - parameters["no MLP"] == 8 * C * C * L
    assert whole - parameters["no attention"] == 4 * C * C * L
    assert whole - parameters["no LayerNorm"] == (2 * L + 1) * C
    assert parameters["untied head"] - whole == 11 * C
    assert abs(parameters["no MLP, 12 layers"] / whole - 1) < 0.01  # as many as the whole model
    assert parameters["one head"] == parameters["no scaling"] == parameters["no residual"] == whole


def test_no_positions_means_a_bag_of_the_past():
    shuffled = TOKENS.clone()
    shuffled[:, :19] = TOKENS[:, torch.randperm(19, generator=torch.Generator().manual_seed(1))]
    one_layer = build("no positions")
    one_layer.blocks = one_layer.blocks[:1]  # a second layer tells the order a little: each word had another past
    checks.close(one_layer(shuffled)[:, -1], one_layer(TOKENS)[:, -1], tolerance=1e-5)
    assert not torch.allclose(build(WHOLE)(shuffled)[:, -1], build(WHOLE)(TOKENS)[:, -1], atol=1e-3)


def test_positions_that_are_fixed_are_not_learned():
    for name in ("no positions", "sinusoids, not learned"):
        assert not build(name).position_embedding.weight.requires_grad


def test_sinusoids_have_length_and_products_that_depend_on_distance():
    waves = ablations.sinusoids(20, 8)
    assert waves.shape == (20, 8) and torch.equal(waves[0], torch.tensor([0.0, 1.0] * 4))
    checks.close(waves.norm(dim=1), torch.full((20,), 2.0))  # the root of C / 2
    checks.close(waves[3] @ waves[5], waves[11] @ waves[13], tolerance=1e-4)
    checks.close(waves[1, :2], torch.tensor([0.841471, 0.540302]))  # sine and cosine of 1


def test_sinusoids_have_the_wavelengths_of_the_paper():
    """Channels 2i and 2i + 1 of position t: sine and cosine of t / 10000^(2i / C)."""
    waves = ablations.sinusoids(50, 6)
    for t in (1, 7, 49):
        for i in range(3):
            angle = t / 10_000 ** (2 * i / 6)
            checks.close(waves[t, 2 * i : 2 * i + 2], torch.tensor([math.sin(angle), math.cos(angle)]), tolerance=1e-5)


def test_every_start_has_the_size_of_a_learned_one():
    """A variant differs in what its name says and in nothing else, so not in how large its weights are."""
    waves, whole, untied = build("sinusoids, not learned"), build(WHOLE), build("untied head")
    table = ablations.sinusoids(*waves.position_embedding.weight.shape)
    checks.close(waves.position_embedding.weight, table * 0.02 * math.sqrt(2))
    for start in (whole.position_embedding, waves.position_embedding, untied.head):
        assert start.weight.square().mean().sqrt().item() == pytest.approx(0.02, rel=0.1)
    head, embedding = untied.head.weight.flatten(), untied.token_embedding.weight.flatten()
    assert abs(torch.corrcoef(torch.stack([head, embedding]))[0, 1]) < 0.15  # drawn anew, not copied


def test_post_norm_has_two_norms_each_after_its_sum():
    model, x = build("post-norm"), torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(2))
    block = model.blocks[0]
    for norm in (block.norm1, block.norm2):
        torch.nn.init.normal_(norm.weight)  # so that one in the other's place is noticed
    after_attention = block.norm1(x + block.attention(x))
    checks.close(block(x), block.norm2(after_attention + block.mlp(after_attention)))
    assert isinstance(model.norm, torch.nn.Identity)  # the last block has just normalised


def test_without_residual_each_branch_keeps_its_own_norm():
    block, x = build("no residual").blocks[0], torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(2))
    for norm in (block.norm1, block.norm2):
        torch.nn.init.normal_(norm.weight)
    checks.close(block(x), block.mlp(block.norm2(block.attention(block.norm1(x)))))


def test_sgd_has_its_rate_and_a_momentum_of_nine_tenths():
    model = build(WHOLE)
    optimizer = VARIANTS["SGD, rate 0.3"].optimizer(model, dataclasses.replace(ablations.BUDGET, learning_rate=0.3))
    places = [model.head.weight[0, 0].item()]
    for _ in range(3):
        model.head.weight.grad = torch.ones_like(model.head.weight)
        optimizer.step()
        places.append(model.head.weight[0, 0].item())
    steps = [before - after for before, after in pairwise(places)]
    assert steps == pytest.approx([0.3, 0.3 * 1.9, 0.3 * 2.71], rel=1e-4)


@pytest.fixture(scope="module")
def tool():
    """tools/ablations.py as a module."""
    spec = importlib.util.spec_from_file_location("ablations_tool", COMMAND)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def trained(tool, monkeypatch):
    """What is handed to `train`, and nothing is trained: (model, tokens, tokens, config, optimizer) a call."""
    calls = []

    def train(model, train_tokens, val_tokens, config, *, optimizer=None, on_record=None):
        calls.append((model, train_tokens, val_tokens, config, optimizer))
        if on_record:
            on_record(model, Record(7, 1.0, 1.0, 0.0, 0.0, 0.0))

    monkeypatch.setattr(ablations, "train", train)
    monkeypatch.setattr(tool, "train", train)
    return calls


def test_each_variant_is_trained_by_its_own_recipe(trained, monkeypatch):
    monkeypatch.setattr(ablations, "generate", lambda model, prompt, *_, **__: prompt)
    tokenizer = CharTokenizer.from_text(TEXT)
    for name in ("no warm-up", "SGD, rate 0.3", WHOLE):
        ablations.run(name, 3, tokenizer.encode(TEXT), tokenizer)
    configs = [call[3] for call in trained]
    assert [config.warmup_steps for config in configs] == [0, 100, 100]
    assert [(c.learning_rate, c.min_learning_rate) for c in configs[1:]] == [(0.3, 0.03), (3e-3, 3e-4)]
    assert {config.seed for config in configs} == {3} and {config.max_steps for config in configs} == {1000}
    assert [type(call[4]).__name__ for call in trained] == ["NoneType", "SGD", "NoneType"]
    ablations.run(WHOLE, 3, tokenizer.encode(TEXT), tokenizer, steps=40)
    cut = trained.pop()[3]
    assert (cut.max_steps, cut.eval_interval, cut.warmup_steps) == (40, 40, 4)  # or it would warm up for ever
    model = ablations.build(WHOLE, tokenizer.vocab_size, 3)
    assert torch.equal(trained[2][0].head.weight, model.head.weight)
    assert not torch.equal(ablations.build(WHOLE, tokenizer.vocab_size, 1).head.weight, model.head.weight)


def test_a_line_of_the_table_belongs_to_the_validation_split(trained):
    tokenizer = CharTokenizer.from_text(TEXT)
    tokens = tokenizer.encode(TEXT)
    line = ablations.run(WHOLE, 1, tokens, tokenizer)
    val_tokens, model = data.split(tokens, 64)[1], ablations.build(WHOLE, tokenizer.vocab_size, 1)
    assert line["writing_loss"] == round(ablations.writing_loss(model, val_tokens), 4)
    assert line["parallel_loss"] == round(ablations.evaluate(model, val_tokens, 64), 4)
    drawn = torch.Generator().manual_seed(1)
    text = generate(model, tokenizer.encode("\n"), 200, temperature=0.8, generator=drawn, use_cache=False, keep=1.0)
    assert json.loads(line["text"]) == tokenizer.decode(text)[1:]  # without the line break that it starts from


def test_the_writing_loss_is_that_of_the_last_place_of_every_window():
    model, tokens = build(WHOLE), torch.randint(11, (64 + 32 * 300,), generator=torch.Generator().manual_seed(0))
    model.train()
    model.dropout.p = 0.5  # off while one measures
    starts = range(0, len(tokens) - 64, 32)
    windows = torch.stack([tokens[start : start + 65] for start in starts])
    loss = ablations.writing_loss(model, tokens)
    assert model.training
    with torch.no_grad():
        logits = model.eval()(windows[:, :-1])[:, -1]
    checks.close(torch.tensor(loss), torch.nn.functional.cross_entropy(logits, windows[:, -1]), tolerance=1e-5)


def test_the_long_run_sees_few_characters_and_measures_both_splits(tool, trained, monkeypatch):
    monkeypatch.setattr(tool, "evaluate", lambda model, tokens, T: 100.0 * T + len(tokens))
    tokens = torch.randint(11, (60_000,), generator=torch.Generator().manual_seed(0))
    tokenizer = CharTokenizer("abcdefghijk")
    lines = tool.run_long(0.2, 2, tokens, tokenizer)
    (model, train_tokens, val_tokens, config, _), sizes = trained[0], tool.LONG_SIZES
    assert torch.equal(train_tokens, data.split(tokens, 64)[0][:50_000]) and len(train_tokens) == 50_000
    assert (config.seed, config.max_steps, model.config.dropout) == (2, 2000, 0.2)
    assert (model.config.n_layer, model.config.n_embd) == (4, 128)  # large enough to learn so few by heart
    assert config.batch_size * sizes["context_length"] * config.max_steps > 40 * 50_000  # forty times over
    losses = {"train_loss": 6400.0 + 50_000, "val_loss": 6400.0 + len(val_tokens)}
    assert lines == [{"dropout": 0.2, "seed": 2, "step": 7, **losses}]


def test_the_writing_loss_cannot_be_cheated():
    """A model that knows the next token wherever it stands in the window is helpless at the last place."""

    class Cheat(torch.nn.Module):
        config = GPTConfig(vocab_size=11, context_length=8, n_layer=1, n_head=1, n_embd=4)

        def forward(self, tokens):
            peeked = torch.nn.functional.one_hot(tokens.roll(-1, dims=1), 11) * 50.0
            peeked[:, -1] = 0
            return peeked

    tokens = torch.randint(11, (4000,), generator=torch.Generator().manual_seed(0))
    assert ablations.evaluate(Cheat(), tokens, 8) < 0.5
    assert abs(ablations.writing_loss(Cheat(), tokens) - torch.tensor(11.0).log()) < 1e-4


@pytest.mark.slow
def test_a_run_and_a_table(tool, tmp_path):
    tokenizer = CharTokenizer.from_text(TEXT)
    tokens = tokenizer.encode(TEXT)
    lines = [ablations.run(name, 1, tokens, tokenizer, steps=12) for name in (WHOLE, "no attention")]
    assert all(line["steps"] == 12 and 0 < line["writing_loss"] < 4 for line in lines)
    assert ablations.run(WHOLE, 1, tokens, tokenizer, steps=12)["writing_loss"] == lines[0]["writing_loss"]
    (tmp_path / "table.csv").write_text(tool.table(lines, ["# made by a test"]), "utf-8", newline="")
    comments, again = ablations.read_table(tmp_path / "table.csv")
    assert comments == ["made by a test"]
    assert again == [{**line, "text": json.loads(line["text"])} for line in lines]


def test_an_unknown_variant_is_named():
    with pytest.raises(ConfigError, match="unknown variant 'no luck': choose one of the whole model, no causal mask"):
        ablations.build("no luck", 11, 1)


def test_the_stored_tables_are_whole():
    comments, lines = ablations.read_table(ablations.MEASURED / "ablations.csv")
    assert any(line.startswith("made by: make ablations, at commit ") for line in comments) and len(comments) == 3
    assert [line["variant"] for line in lines] == [name for name in VARIANTS for _ in range(3)]
    assert {line["steps"] for line in lines} == {ablations.BUDGET.max_steps} and {line["seed"] for line in lines} == {
        1,
        2,
        3,
    }
    for line in lines:
        assert line["parameters"] == count_parameters(ablations.build(line["variant"], 65, 1))
    _, long = ablations.read_table(ablations.MEASURED / "overfitting.csv")
    assert {(line["dropout"], line["seed"]) for line in long} == {(p, s) for p in (0.0, 0.2) for s in (1, 2, 3)}


# ---------------------------------------------------------------- make ablations
LINE = {"dropout": 0.0, "seed": 1, "step": 5, "train_loss": 2.25, "val_loss": 2.5}  # of a run that takes no time
# The command with runs that wait while a file of their name lies in the working folder, take no time, or fail.
SCRIPT = f"""
import os, signal, sys, time
sys.path.insert(0, {str(COMMAND.parent)!r})
import ablations

def waiting(name, train):
    def run(seed, *arguments):
        end = time.monotonic() + 60  # or a test that is red would never end
        while os.path.exists(f"{{name}} {{seed}}") and time.monotonic() < end:
            time.sleep(0.01)
        return train(seed, *arguments)
    return run

def fail(seed, *_):
    if seed == 1:
        raise ablations.TrainingError("the loss is nan")
    if seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return {{"writing_loss": 1.5}}

ablations.RUNS["dropout 0.0"] = lambda *_: [{LINE}]
ablations.RUNS["no attention"] = fail
ablations.RUNS |= {{name: waiting(name, train) for name, train in ablations.RUNS.items()}}
if __name__ == "__main__":
    sys.exit(ablations.command(ablations.main))
"""


@pytest.fixture
def start(tmp_path):
    """Starts the script, or the command itself, on runs of five steps, and ends it if a test did not."""
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    folders = ["--out", tmp_path / "out", "--journal", tmp_path / "journal", "--corpus", tmp_path / "text.txt"]
    started = []

    def start(*names, script="script.py", seeds=1):
        only = [part for name in names for part in ("--only", name)]
        command = [sys.executable, script, "--jobs", "2", "--seeds", str(seeds), "--steps", "5"]
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        started.append(subprocess.Popen([*command, *only, *folders], env=environment, cwd=tmp_path, **pipes))
        return started[-1]

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # orphans too
        process.communicate()


def read_until(process, pattern):
    for line in process.stdout:
        if re.search(pattern, line):
            return
    raise AssertionError(process.stderr.read())


@pytest.mark.slow
def test_a_kill_and_ctrl_c_lose_the_runs_in_progress_and_no_more(tool, start, tmp_path):
    """Every process ends with the one that is stopped, or `communicate` would wait for its end of the pipe."""
    names, kept = ("dropout 0.0", "dropout 0.2", "no MLP"), "journal/*/[!.]*.json"
    for name in ("dropout 0.0", "no MLP"):
        (tmp_path / f"{name} 1").touch()  # these wait
    process = start(*names)
    read_until(process, "1 of 3  dropout 0.2, seed 1: ")
    process.kill()
    process.communicate(timeout=60)
    assert [path.name for path in tmp_path.glob(kept)] == ["dropout 0.2, seed 1.json"]

    (tmp_path / "dropout 0.0 1").unlink()
    process = start(*names)
    read_until(process, "1 of 3 runs are done already, 2 to go")
    read_until(process, "2 of 3  dropout 0.0, seed 1: 2.5")
    process.send_signal(signal.SIGSTOP)  # so that a child that heard Ctrl-C would have the time to say so
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group gets it
    time.sleep(0.5)
    process.send_signal(signal.SIGCONT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and len(list(tmp_path.glob(kept))) == 2 and not list(tmp_path.glob("out/*"))
    assert re.fullmatch(r"stopped by Ctrl-C: 2 of 3 runs are kept in .+; the same command goes on.*\n", error)

    (tmp_path / "no MLP 1").unlink()
    out, error = start(*names, script=COMMAND).communicate(timeout=120)
    assert "2 of 3 runs are done already, 1 to go" in out and not error
    assert re.findall(r"^ +\d of 3  (.+), seed 1", out, re.M) == ["no MLP"] and not list(tmp_path.glob("journal/*"))

    tokenizer, threads = CharTokenizer.from_text(TEXT), torch.get_num_threads()
    torch.set_num_threads(1)
    long, short = (tool.RUNS[name](1, tokenizer.encode(TEXT), tokenizer, 5) for name in names[1:])
    torch.set_num_threads(threads)
    (tmp_path / "expected.csv").write_text(tool.table([short], []), "utf-8", newline="")
    tables = [ablations.read_table(tmp_path / name)[1] for name in ("out/ablations.csv", "expected.csv")]
    for (line,) in tables:
        line.pop("seconds")
    assert tables[0] == tables[1]
    assert ablations.read_table(tmp_path / "out" / "overfitting.csv")[1] == [LINE, *long]


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_go_on(start, tmp_path):
    process = start("no attention", seeds=3)
    out, error = process.communicate(timeout=120)
    first, second, last = sorted(error.splitlines(), key=len)
    assert first == "error: no attention, seed 1: the loss is nan"
    assert second == "error: no attention, seed 2: ended by SIGKILL"
    assert last.startswith("error: 2 of 3 runs failed (no attention, seed ") and process.returncode == 2
    assert "1 of 3  no attention, seed 3: 1.5" in out and not list(tmp_path.glob("out/*"))
    assert [path.name for path in tmp_path.glob("journal/*/[!.]*.json")] == ["no attention, seed 3.json"]


def test_a_run_is_taken_from_the_journal_only_if_it_is_the_same(tool, tmp_path):
    def journal(text=TEXT, steps=5):
        return tool.Journal(tmp_path, data.Corpus(text, data.OWN, tmp_path / "text.txt", str(hash(text))), steps)

    journal().write("no MLP", 1, [{"seed": 1}])
    assert journal().read("no MLP", 1) == [{"seed": 1}] and journal().read("no MLP", 2) is None
    assert journal(text=TEXT + "!").read("no MLP", 1) is None and journal(steps=6).read("no MLP", 1) is None
    file = next(tmp_path.glob("*/no MLP, seed 1.json"))
    whole = file.read_text("utf-8")
    file.with_name("no MLP, seed 2.json").write_text(whole, "utf-8")  # of another seed
    assert journal().read("no MLP", 2) is None
    for torn in (whole[:-10], "", "[]", whole.replace(torch.__version__, "another")):
        file.write_text(torn, "utf-8")
        assert journal().read("no MLP", 1) is None


@pytest.mark.parametrize("part", [["--steps", "5"], ["--only", "no MLP"], ["--seeds", "2"], ["--corpus", __file__]])
def test_a_part_of_the_experiment_does_not_replace_the_stored_tables(tool, part):
    with pytest.raises(ConfigError, match="notebook 10 needs the whole experiment"):
        tool.main(part)


@pytest.mark.parametrize("number", ["0", "-1", "two", "99999999999"])
def test_numbers_that_make_no_sense_are_refused(tool, capsys, number):
    with pytest.raises(SystemExit, match="2"):
        tool.main(["--jobs", number])
    assert "is not a whole number from 1 to 10,000" in capsys.readouterr().err
