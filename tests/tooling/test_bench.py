"""The benchmark: its rivals compute what ours does, its ratios are right, its table survives. No time is asserted."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import bench
import bench_lines
import bench_rivals as rivals
import pytest
import torch
import torch.nn.functional as F
from bench_lines import Line

from helpers.attention import MultiHeadAttention
from helpers.data import BUNDLED_PLAY, CharTokenizer, get_batch, load_corpus
from helpers.errors import ConfigError, RunError, Stopped
from helpers.gpt import GPT
from helpers.grading import checks
from helpers.optim import make_optimizer
from helpers.presets import PRESETS
from helpers.sampling import generate
from helpers.tables import read_table
from helpers.training import updates

ROOT = Path(__file__).parents[2]


# ---------------------------------------------------------------- the rivals
@pytest.mark.slow
@pytest.mark.parametrize("way", [*rivals.WAYS.values(), lambda ours: rivals.Flex(ours, compiled=False)])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_every_way_to_write_attention_computes_ours(way):
    torch.manual_seed(0)
    ours = MultiHeadAttention(12, 12, 9, 0.0, 3, out_bias=False).double()
    x = torch.randn(2, 9, 12, dtype=torch.float64, requires_grad=True)
    theirs = way(ours)
    if isinstance(theirs, rivals.Flex):
        checks.close(theirs.requires_grad_(False)(x.detach()), ours(x), tolerance=1e-12)
        return
    checks.close(theirs(x), ours(x), tolerance=1e-12)
    gradient = torch.randn(2, 9, 12, dtype=torch.float64)
    expected = torch.autograd.grad(ours(x), [x, *ours.parameters()], gradient)
    found = torch.autograd.grad(theirs(x), [x, theirs.qkv, theirs.out], gradient)
    parts = dict(zip(["x", *(name for name, _ in ours.named_parameters())], expected, strict=True))
    checks.close(found[0], parts["x"], tolerance=1e-12)
    checks.close(
        found[1], torch.cat([parts[f"W_{name}.weight"] for name in ("query", "key", "value")]), tolerance=1e-12
    )
    checks.close(found[2], parts["out_proj.weight"], tolerance=1e-12)


@pytest.mark.parametrize("bias", [False, True])
def test_nanogpts_model_has_our_logits(small_config, bias):
    torch.manual_seed(0)
    ours = GPT(dataclasses.replace(small_config, bias=bias)).double()
    with torch.no_grad():
        for weight in ours.parameters():  # biases and norms too, or a wrong place would not show
            weight.add_(0.1 * torch.randn_like(weight))
    tokens, targets = torch.randint(65, (2, 3, 16))
    theirs = rivals.NanoGPT(ours).double()  # a copy in float32, before it is double
    logits, loss = theirs(tokens, targets)
    checks.close(logits, ours(tokens), tolerance=1e-6)
    checks.close(loss, F.cross_entropy(ours(tokens).flatten(0, 1), targets.flatten()), tolerance=1e-6)
    last, none = theirs(tokens)
    checks.close(last, logits[:, -1:], tolerance=1e-12)
    assert none is None and theirs.head.weight is theirs.tokens.weight
    assert sum(p.numel() for p in theirs.parameters()) == sum(p.numel() for p in ours.parameters())


@pytest.fixture
def binary(tokens, tmp_path):
    """The training tokens as nanoGPT keeps them."""
    path = tmp_path / "train.bin"
    path.write_bytes(tokens[0].numpy().astype("uint16").tobytes())
    return path


def test_nanogpts_batches_are_ours(tokens, small_config, binary):
    torch.manual_seed(3)
    expected = get_batch(tokens[0], 5, 16, torch.Generator().manual_seed(3))
    assert all(map(torch.equal, rivals.windows(binary, small_config, 5), expected))


def test_nanogpts_loop_leads_to_our_weights(model, tokens, quick, binary):
    """The same batches, rates, decay and clipping: after some steps the weights differ by far less than they moved."""
    config = dataclasses.replace(quick, learning_rate=1e-2, grad_clip=0.5, max_steps=8)
    start = {name: weight.clone() for name, weight in rivals.in_nanos_names(model).items()}
    theirs = rivals.NanoGPT(model)
    torch.manual_seed(config.seed)
    their_losses = list(rivals.nano_updates(theirs, binary, config))
    generator = torch.Generator().manual_seed(config.seed)
    our_losses = list(updates(model, tokens[0], config, make_optimizer(model, config), generator))
    assert their_losses == pytest.approx(our_losses, abs=1e-4)
    found = theirs.state_dict()
    for name, weight in rivals.in_nanos_names(model).items():
        moved = (weight - start[name]).norm()
        assert moved > 0 and (found[name] - weight).norm() < 0.01 * moved, name


@pytest.mark.parametrize("new", [10, 40])
def test_nanogpts_generate_writes_what_ours_writes(model, new):
    """Within the window and, when ours slides by one token too, beyond it."""
    prompt, seeded = torch.tensor([1, 2, 3]), lambda: torch.Generator().manual_seed(5)
    theirs = rivals.nano_generate(rivals.NanoGPT(model).eval(), prompt[None], new, seeded())
    assert torch.equal(theirs[0], generate(model, prompt, new, keep=1.0, generator=seeded()))


def test_nanogpts_ids_are_ours():
    text, number = rivals.nano_alphabet(BUNDLED_PLAY)
    corpus = load_corpus(BUNDLED_PLAY)
    ours = CharTokenizer(corpus.alphabet).encode_compactly(corpus.text)
    assert text == corpus.text and "".join(number) == corpus.alphabet
    assert rivals.nano_encode(text, number).tolist() == ours.tolist()


# ---------------------------------------------------------------- ratios
class Watch:
    """A clock that stands still but for what is told to take time."""

    def __init__(self):
        self.wall, self.cpu = 0.0, 0.0

    def __call__(self):
        return self.wall, self.cpu

    def takes(self, name, calls, *times):
        times = iter(times)

        def function():
            calls.append(name)
            took = next(times)
            self.wall, self.cpu = self.wall + took, self.cpu + 2 * took + (name == "theirs")

        return function


def test_ours_and_theirs_take_turns_and_the_first_round_does_not_count():
    watch, calls = Watch(), []
    ours = watch.takes("ours", calls, 99.0, 1.0, 3.0, 2.0)
    theirs = watch.takes("theirs", calls, 0.5, 4.0, 5.0, 4.0)
    row = bench_lines.race(ours, theirs, rounds=3, clock=watch)
    assert calls == ["ours", "theirs"] * 4
    assert (row["seconds"], row["their_seconds"], row["ratio"], row["rounds"]) == (2.0, 4.0, 0.5, 3)
    assert (row["low"], row["high"]) == (0.25, 0.6) and row["cpu_ratio"] == pytest.approx(4 / 9)


def test_an_exponent_is_the_slope_on_a_log_log_scale():
    assert bench_lines.slope([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)
    assert bench_lines.slope([10, 100, 1000], [5, 5, 5]) == pytest.approx(0)


def test_what_is_kept_for_backward_is_counted_in_bytes():
    """Written out, at least the weights, T x T floats; fused, some numbers a token."""
    small, large = (bench_lines.bytes_kept(bench_lines.fused, T) for T in (64, 128))
    assert large == 2 * small and small >= 3 * 64 * 64 * 4
    assert bench_lines.bytes_kept(bench_lines.written_out, 128) > 128 * 128 * 4 + 3 * 128 * 64 * 4
    assert bench_lines.bytes_kept(lambda q, k, v: q * k, 8) == 3 * 8 * 64 * 4  # both lie in one memory, counted once


def test_evaluations_do_not_count_and_a_goal_that_is_missed_is_noted(monkeypatch, tmp_path):
    (tmp_path / "text.txt").write_text("to be, or not to be: that is the question\n" * 60, "utf-8")
    sizes, quick = dict(context_length=8, n_layer=1, n_head=1, n_embd=8), PRESETS["smoke"]
    training = dataclasses.replace(quick.training, max_steps=8, warmup_steps=1)
    small, watch, looks = dataclasses.replace(quick, model=sizes, training=training), Watch(), []

    def look(model, tokens, T):
        watch.wall, watch.cpu = watch.wall + 100, watch.cpu + 200
        looks.append(len(tokens))
        return [3.0, 2.0][len(looks) - 1]

    def step(*arguments, **named):
        for loss in updates(*arguments, **named):
            watch.wall, watch.cpu = watch.wall + 1, watch.cpu + 2
            yield loss

    monkeypatch.setattr(bench_lines, "clocks", watch)
    monkeypatch.setattr(bench_lines, "evaluate", look)
    monkeypatch.setattr(bench_lines, "updates", step)
    found = bench_lines.time_to(3.0, small, 1, 3, tmp_path / "text.txt", 50)
    assert found == ((6.0, 12.0), "") and looks == [50]  # not after 3 steps: they are in the first half
    looks.clear()
    found = bench_lines.time_to(0.5, small, 7, 3, tmp_path / "text.txt", 50)
    assert found == ((8.0, 16.0), "seed 7 ends at 2.000") and looks == [50, 50]  # after 6 steps, and at the end


# ---------------------------------------------------------------- the table
def line(name, ratio=0.5, group="one", **settings):
    return Line(group, name, "theirs", lambda: {"unit": "time", "ratio": ratio, "low": 0.4, "high": 0.6}, **settings)


def breaks(*_):
    raise KeyboardInterrupt


def test_a_kill_loses_the_line_in_work_and_no_more(tmp_path):
    path, comments = tmp_path / "bench.csv", ["made by: us", "this machine"]
    lines = [line("a", 0.123456, aim=0.9), dataclasses.replace(line("b"), measure=breaks), line("c")]
    with pytest.raises(Stopped, match=r"stopped by Ctrl-C: what is measured is kept in .*bench.csv; the same"):
        bench.measure(lines, path, comments, anew=False)
    kept, rows = read_table(path)
    assert kept == comments and [(row["ours"], row["ratio"], row["aim"]) for row in rows] == [("a", 0.1235, 0.9)]
    again = [dataclasses.replace(lines[0], measure=breaks), line("b"), line("c")]  # what is there isn't measured again
    found = bench.measure(again, path, ["made by: somebody else", "this machine"], anew=False)
    assert [row["ours"] for row in found] == ["a", "b", "c"] and len(read_table(path)[1]) == 3
    with pytest.raises(RunError, match="has runs of another state"):
        bench.measure(again, path, ["made by: us", "another machine"], anew=False)
    assert [row["ours"] for row in bench.measure([line("d")], path, ["x", "y"], anew=True)] == ["d"]


def test_the_report_says_whether_an_aim_is_met():
    rows = [line("a", 0.5, aim=0.9).row(), line("b", 0.91, aim=0.9).row(), line("c", 2.0).row()]
    says = [text.rsplit("0.6", 1)[1].strip() for text in bench.report(rows).splitlines()[1:]]
    assert says == ["aim 0.9: met", "aim 0.9: missed", ""]
    missing = Line("one", "d", "theirs", lambda: {"unit": "time", "note": "does not run here: OSError"}, 1.0).row()
    assert bench.report([missing]).endswith("does not run here: OSError")


@pytest.fixture
def command(monkeypatch, tmp_path):
    """The command with two lines that take no time, all files in `tmp_path`, and the names of what it measures."""
    measured = []

    def lines(quick, corpus):
        def measure(name):
            return lambda: measured.append(name) or {"unit": "time", "ratio": 1.0, "low": 1.0, "high": 1.0}

        return [Line(group, name, "theirs", measure(name)) for group, name in (("one", "a"), ("two", "b"))]

    monkeypatch.setattr(bench, "all_lines", lines)
    for name in ("NAME", "QUICK"):
        monkeypatch.delenv(name, raising=False)
    folders = ["--out", str(tmp_path / "out"), "--growing", str(tmp_path / "growing")]
    return lambda *arguments: bench.main([*arguments, "--corpus", str(BUNDLED_PLAY), *folders]), measured


@pytest.mark.slow
def test_the_table_moves_when_it_is_whole(command, tmp_path, monkeypatch, capsys):
    run, measured = command
    run("two")
    assert measured == ["b"] and not (tmp_path / "out" / "bench.csv").exists()
    monkeypatch.setenv("QUICK", "1")
    run()
    assert measured == ["b", "a", "b"] and not list((tmp_path / "out").iterdir())
    monkeypatch.setenv("QUICK", "0")
    monkeypatch.setenv("NAME", "one")
    run()
    assert measured == ["b", "a", "b", "a"] and not (tmp_path / "growing" / "bench.csv").exists()
    comments, rows = read_table(tmp_path / "out" / "bench.csv")
    assert [row["ours"] for row in rows] == ["a", "b"] and "QUICK" not in comments[0]
    starts = [comment.split(":")[0].split()[-1] for comment in comments]
    assert starts[0] == "by" and starts[1] == "machine" and starts[3:] == ["corpus", "code"]
    assert f"torch {torch.__version__}" in comments[2] and f"{torch.get_num_threads()} thread" in comments[2]
    assert str(ROOT) not in "".join(comments)


def test_what_can_not_be_measured_is_refused(command):
    run, measured = command
    with pytest.raises(ConfigError, match="NAME=three is no group of the benchmark: choose one of one, two"):
        run("three")
    with pytest.raises(ConfigError, match="stored table is of tiny Shakespeare: name another folder by --out"):
        bench.main(["--corpus", str(BUNDLED_PLAY)])
    assert not measured


@pytest.mark.parametrize("quick", [True, False])
def test_all_seven_groups_have_lines_of_different_names(quick):
    corpus = load_corpus(BUNDLED_PLAY)
    lines = bench_lines.all_lines(quick, corpus)
    groups = list(dict.fromkeys(each.group for each in lines))
    assert groups == ["attention", "length", "training", "generation", "loss", "data", "corpus"]
    assert len({(each.group, each.ours, each.theirs) for each in lines}) == len(lines)
    aims = {each.theirs: each.aim for each in lines if each.aim is not None}
    assert aims == {
        "bare SDPA, causal flag": 1.05,
        "nanoGPT's loop": 0.9,
        "reading its lines in Python": 3.0,
        "500 MB": 1.0,
        "from memory": 1.1,
    }


def test_make_hands_over_name_and_quick_and_no_shell_sees_them(tmp_path):
    stub = tmp_path / "python"
    stub.write_text(
        f"#!{sys.executable} -IS\nimport json, os, sys\nprint(json.dumps([sys.argv[1:], dict(os.environ)]))\n", "utf-8"
    )
    stub.chmod(0o755)
    value = f"$(shell touch {tmp_path / 'pwned'}); touch {tmp_path / 'pwned'} '\""
    command = ["make", "-o", ".venv/ready", f"BIN={tmp_path}", "bench"]
    for given, environment in (([f"NAME={value}", f"QUICK={value}"], {}), ([], {"NAME": value, "QUICK": value})):
        env = {name: text for name, text in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        done = subprocess.run(command + given, cwd=ROOT, env=env | environment, capture_output=True, text=True)
        arguments, seen = json.loads(done.stdout)
        assert arguments == ["tools/bench.py"] and seen["NAME"] == seen["QUICK"] == value
    assert not (tmp_path / "pwned").exists()
    assert re.search(r"^bench:.*## ", (ROOT / "Makefile").read_text("utf-8"), re.M)
