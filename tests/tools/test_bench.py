"""The benchmark: rivals compute what ours does, ratios are right, the table is written."""

import pytest
import torch
from torch import nn

from helpers.attention import MultiHeadAttention
from helpers.gpt import GPT, GPTConfig
from helpers.optim import TrainConfig, make_optimizer
from helpers.sampling import generate
from helpers.tables import MEASURED, read_table
from helpers.training import cross_entropy, updates
from tools import bench


def seeded(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def model() -> GPT:
    """All weights away from their starts (zeros, ones), or one in a wrong place wouldn't show."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(65, context_length=16, n_layer=2, n_head=2, n_embd=32, bias=True))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(65, (800,), generator=seeded())


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- the rivals
@pytest.mark.parametrize("mix", bench.WAYS.values())
def test_every_way_to_write_attention_computes_ours(mix):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(12, 12, 9, 0.0, 3), torch.randn(2, 9, 12)
    close(bench.in_the_way(mix, layer, x), layer(x))


def test_nanogpts_layer_computes_ours():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(12, 12, 9, 0.0, 3, out_bias=False), torch.randn(2, 9, 12)
    nano = bench.NanoAttention(GPTConfig(65, 9, n_layer=1, n_head=3, n_embd=12))
    nano.load_state_dict(bench.in_nanos_names(layer.state_dict()))
    close(nano(x), layer(x))


def test_nanogpts_model_has_our_logits_and_loss(model):
    x, y = torch.randint(65, (2, 3, 16))
    nano = bench.nano_copy(model)
    logits, loss = nano(x, y)
    close(logits, model(x))
    close(loss, cross_entropy(model(x), y))
    close(nano(x)[0], logits[:, -1:])
    assert sum(p.numel() for p in nano.parameters()) == sum(p.numel() for p in model.parameters())


def test_nanogpts_loop_leads_to_our_weights(model, tokens):
    """The same batches, rates, decay and clipping: they differ by much less than weights move."""
    config = TrainConfig(
        batch_size=4,
        max_steps=8,
        eval_interval=8,
        warmup_steps=2,
        learning_rate=1e-2,
        weight_decay=0.5,
        grad_clip=0.5,
    )
    start, nano = nn.utils.parameters_to_vector(model.parameters()), bench.nano_copy(model)
    torch.manual_seed(5)  # nanoGPT draws its batches from the global generator
    their_losses = list(bench.nano_updates(nano, bench.as_nano_keeps(tokens), config))
    optimizer = make_optimizer(model, config)
    ours = list(updates(model, tokens, config, optimizer, seeded()))
    assert their_losses == pytest.approx(ours, abs=1e-4)
    moved = (nn.utils.parameters_to_vector(model.parameters()) - start).norm()
    expected = bench.in_nanos_names(model.state_dict())
    differs = sum((weight - expected[name]).norm() for name, weight in nano.state_dict().items())
    assert differs < 0.01 * moved


def test_nanogpts_loop_writes_what_ours_writes(model):
    """Until the window is full: then theirs moves by one token, and ours by half a window."""
    prompt, count = torch.tensor([1, 2, 3]), model.config.context_length - 2
    theirs = bench.nano_copy(model).eval().generate(prompt[None], count, seeded())
    assert torch.equal(theirs[0], generate(model, prompt, count, generator=seeded()))


# ---------------------------------------------------------------- the table
def test_ours_and_theirs_take_turns_and_the_first_round_does_not_count():
    now, calls = [0.0], []

    def takes(name, *seconds):
        left = iter(seconds)

        def run():
            calls.append(name)
            now[0] += next(left)

        return run

    ours, theirs = takes("ours", 99.0, 1.0, 3.0, 2.0), takes("theirs", 0.5, 4.0, 5.0, 4.0)
    found = bench.race(ours, theirs, rounds=3, clock=lambda: now[0])
    assert calls == ["ours", "theirs"] * 4
    # Fmt: skip.
    assert found == {
        "ratio": 0.5,
        "low": 0.25,
        "high": 0.6,
        "seconds": 2.0,
        "their_seconds": 4.0,
        "rounds": 3,
    }


def test_the_quick_sizes_run_and_make_a_table(tmp_path):
    stored = (MEASURED / "bench.csv").read_bytes()
    bench.main(["--quick", "--out", str(tmp_path / "bench.csv")])
    comments, lines = read_table(tmp_path / "bench.csv")
    assert comments[0].startswith("made by: python -m tools.bench --quick, at commit")
    assert f"torch {torch.__version__}" in comments[2]
    assert list(dict.fromkeys(line["group"] for line in lines)) == list(bench.GROUPS)
    assert len({(line["group"], line["ours"], line["theirs"]) for line in lines}) == len(lines)
    assert all(0 < line["low"] <= line["ratio"] <= line["high"] for line in lines)
    bench.main(["data", "--quick"])
    assert (MEASURED / "bench.csv").read_bytes() == stored  # only all groups at full size go there


def test_a_whole_run_is_stored_and_a_part_is_not(tmp_path, monkeypatch):
    def nothing() -> None:
        pass

    monkeypatch.setattr(bench, "MEASURED", tmp_path)
    groups = {name: lambda quick: iter([("a", nothing, "b", nothing)]) for name in ("one", "two")}
    monkeypatch.setattr(bench, "GROUPS", groups)
    bench.main(["two"])
    assert not list(tmp_path.iterdir())
    bench.main([])
    assert [line["group"] for line in read_table(tmp_path / "bench.csv")[1]] == ["one", "two"]
