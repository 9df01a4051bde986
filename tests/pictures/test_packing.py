"""A trained GPT as bytes for a page. That the page computes the same is tested in tests/browser."""

import gzip
import json

import pytest
import torch
from torch import nn

from helpers import checkpoint
from helpers.attention import MultiHeadAttention
from helpers.counted import CountedConfig, build_gpt
from helpers.data import OWN, CharTokenizer, Corpus
from helpers.errors import ConfigError
from helpers.gpt import GPT, GPTConfig
from helpers.modern import ModernConfig
from helpers.optim import TrainConfig
from helpers.training import train
from pictures.packing import pack, unpack
from tools import play

TOKENIZER = CharTokenizer("abc☃\n")


def model(bias: bool = False, vocab_size: int = 5) -> GPT:
    torch.manual_seed(0)
    return GPT(
        GPTConfig(vocab_size=vocab_size, context_length=7, n_layer=2, n_head=3, n_embd=9, bias=bias)
    ).eval()


@pytest.mark.parametrize("bias", [False, True])
def test_what_is_packed_is_found_again_rounded_to_float16(bias):
    ours = model(bias)
    again, tokenizer, about = unpack(pack(ours, TOKENIZER, about={"step": 3}))
    assert (again.config, tokenizer.characters, about) == (
        ours.config,
        TOKENIZER.characters,
        {"step": 3},
    )
    for name, weight in ours.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight.half().float(), rtol=0, atol=0)
    assert again.head.weight is again.token_embedding.weight


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_of_today_is_found_again_too(tied):
    """With a head of its own or a shared one, without a table of positions, with tables of n-grams."""
    changes = dict(
        rotary=True, rms_norm=True, mlp="swiglu", mlp_width=7, n_kv_head=1, window=3, softcap=9.0
    )
    sizes = dict(
        vocab_size=5, context_length=7, n_layer=2, n_head=2, n_embd=8, bigrams=11, before=2
    )
    ours = build_gpt(ModernConfig(**sizes, **changes, tied=tied))
    again, _, _ = unpack(pack(ours, TOKENIZER))
    assert again.config == ours.config
    for name, weight in ours.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight.half().float(), rtol=0, atol=0)
    assert (again.head.weight is again.token_embedding.weight) == tied


@pytest.mark.parametrize("levels", [1, 15, 127])
def test_with_levels_no_weight_is_off_by_more_than_half_a_level(levels):
    ours = model()
    nn.init.zeros_(ours.blocks[0].mlp[0].weight[2:3].detach())
    again = unpack(pack(ours, TOKENIZER, levels))[0].state_dict()
    for name, weight in ours.state_dict().items():
        if weight.dim() == 2:
            level = weight.abs().amax(dim=1, keepdim=True) / levels
            assert ((again[name] - weight).abs() <= 0.5001 * level).all(), name


def test_a_byte_of_the_header_decides_where_the_tensors_lie():
    packed = pack(model(), TOKENIZER, levels=9)
    facts = play.header(packed)
    assert (4 + int.from_bytes(packed[:4], "little")) % 4 == 0
    assert all(entry["offset"] % 4 == 0 for entry in facts["tensors"].values())
    assert "head.weight" not in facts["tensors"] and json.loads(json.dumps(facts)) == facts


class NoAttention(MultiHeadAttention):
    """Attention of the same sizes that does something else."""


STRANGE = {
    "another activation": lambda block: block.mlp.__setitem__(1, nn.ReLU()),
    "a faster GELU": lambda block: block.mlp.__setitem__(1, nn.GELU("tanh")),
    "another norm": lambda block: setattr(block, "norm2", nn.RMSNorm(9)),
    "another attention": lambda block: setattr(
        block, "attention", NoAttention(9, 9, 7, 0.0, 3, out_bias=False)
    ),
    "one layer more": lambda block: block.mlp.append(nn.Linear(9, 9, bias=False)),
}


@pytest.mark.parametrize("exchange", STRANGE.values(), ids=STRANGE)
def test_a_model_that_is_not_what_its_config_says_is_refused(exchange):
    """The page sees the config and the weights: with another layer in between it would compute
    something else.
    """
    strange = model()
    exchange(strange.blocks[1])
    with pytest.raises(ConfigError, match="layers that its config doesn't name"):
        pack(strange, TOKENIZER)


def test_what_the_page_could_not_compute_is_refused():
    with pytest.raises(ConfigError, match="has 5 characters, the model 6"):
        pack(model(vocab_size=6), TOKENIZER)
    for value in (float("nan"), float("inf"), -70_000.0):
        ours = model()
        ours.norm.weight.data[3] = value
        with pytest.raises(
            ConfigError, match=r"norm\.weight has weights that are not finite, or above 65,504"
        ):
            pack(ours, TOKENIZER)
    with pytest.raises(ConfigError, match="levels"):
        pack(model(), TOKENIZER, levels=128)


def test_what_was_not_packed_is_refused():
    packed = pack(model(), TOKENIZER)
    for damaged in (
        b"",
        b"{}",
        packed[:-8],
        packed[:50],
        b"\xff" * 100,
        packed.replace(b'"n_head": 3', b'"n_head": 2'),
    ):
        with pytest.raises(ConfigError, match="damaged"):
            unpack(damaged)


def test_a_bare_clone_builds_the_page_from_what_is_committed(tmp_path):
    page, *snapshots = play.write(tmp_path)
    committed = sorted(play.PACKED.glob("step-*.gz"))
    assert page.name == "play.html" and len(snapshots) == len(committed) - 1 >= 3
    model, tokenizer, about = unpack(gzip.decompress(committed[-1].read_bytes()))
    assert len(tokenizer.characters) == model.config.vocab_size
    assert about.keys() >= {
        "step",
        "loss",
        "seconds",
        "seed",
        "corpus_sha256",
        "commit",
        "torch",
        "parameters",
    }
    text = page.read_text(encoding="utf-8")
    assert "{{" not in text and "\nexport " not in text and "\nimport " not in text
    assert all(path.name in text for path in snapshots)


@pytest.fixture
def run(tmp_path):
    """A finished run of a small model of today, which kept its snapshots."""
    torch.manual_seed(0)
    sizes = dict(vocab_size=5, context_length=4, n_layer=1, n_head=2, n_embd=8)
    ours = build_gpt(ModernConfig(**sizes, rotary=True, tied=False, bigrams=11))
    config = TrainConfig(
        batch_size=2, max_steps=8, eval_interval=1, learning_rate=0.01, warmup_steps=0
    )
    tokens = torch.arange(60) % 5
    train(
        ours,
        tokens,
        tokens,
        config,
        out_dir=tmp_path / "run",
        corpus=Corpus(TOKENIZER.characters, OWN, tmp_path, 64 * "0"),
        preset="tiny",
    )
    return tmp_path / "run"


@pytest.mark.slow
def test_any_run_becomes_a_page_and_what_is_committed_stays(run, tmp_path, monkeypatch):
    before = play.committed()
    monkeypatch.setattr(play, "ROOT", tmp_path)
    play.main(["--run", str(run)])
    page = tmp_path / "build" / "play" / "play.html"
    stops = sorted(page.parent.glob("play-step-*.js"))
    assert [path.name for path in stops] == [
        "play-step-0.js",
        "play-step-2.js",
    ]  # every second of 0, 1, 2, 4 and 8
    assert "index.html" not in page.read_text(encoding="utf-8")  # the page is none of the site
    assert play.committed() == before
    best, tokenizer = checkpoint.load_model(run)
    packed = play.pack_run(run)[-1]
    about = play.header(packed)["about"]
    assert (
        packed == pack(best, tokenizer, about=about)
        and about["preset"] == "tiny"
        and about["step"] == 8
    )


@pytest.mark.slow
def test_a_run_without_snapshots_becomes_a_page_too(run, tmp_path):
    state = checkpoint.load(run)
    state.snapshots.clear()
    checkpoint.save(run, state)
    packed = play.pack_run(run)
    assert len(packed) == 1
    (page,) = play.write(tmp_path, packed)
    assert "mount(place," in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_files_of_another_model_go(run, tmp_path):
    other = tmp_path / "play-step-77.js"
    other.write_text("")
    play.write(tmp_path, play.pack_run(run))
    assert not other.exists()


def test_a_model_that_counts_is_refused():
    sizes = dict(
        vocab_size=5, context_length=7, n_layer=1, n_head=1, n_embd=8, lengths=(1, 2), counted=9
    )
    with pytest.raises(ConfigError, match="the page can't count a text"):
        pack(build_gpt(CountedConfig(**sizes)).eval(), TOKENIZER)
