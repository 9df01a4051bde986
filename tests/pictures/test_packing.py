"""A trained GPT as bytes for a page. That the page computes the same is tested in tests/browser."""

import gzip

import pytest
import torch
from torch import nn

from helpers import checkpoint
from helpers.counted import CountedConfig
from helpers.data import OWN, CharTokenizer, Corpus
from helpers.errors import ConfigError
from helpers.gpt import GPT, GPTConfig
from helpers.models import build_gpt
from helpers.modern import ModernConfig
from helpers.optim import TrainConfig
from helpers.training import train
from pictures.packing import pack, unpack
from tools import play

TOKENIZER = CharTokenizer("abc☃\n")


def model(vocab_size: int = 5) -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig(vocab_size=vocab_size, context_length=7, n_layer=2, n_head=3, n_embd=9)).eval()


@pytest.mark.parametrize("tied", [True, False])
def test_what_is_packed_is_found_again_rounded_to_float16(tied):
    """With a head of its own or a shared one, without a table of positions, with tables of n-grams."""
    changes = dict(rotary=True, rms_norm=True, mlp="swiglu", mlp_width=7, n_kv_head=1, window=3, softcap=9.0)
    sizes = dict(vocab_size=5, context_length=7, n_layer=2, n_head=2, n_embd=8, bigrams=11, before=2)
    ours = build_gpt(ModernConfig(**sizes, **changes, tied=tied))
    again, _, _ = unpack(pack(ours, TOKENIZER))
    assert again.config == ours.config
    for name, weight in ours.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight.half().float(), rtol=0, atol=0)
    assert (again.head.weight is again.token_embedding.weight) == tied


def test_with_levels_no_weight_is_off_by_more_than_half_a_level(levels=15):
    ours = model()
    nn.init.zeros_(ours.blocks[0].mlp[0].weight[2:3].detach())
    again = unpack(pack(ours, TOKENIZER, levels))[0].state_dict()
    for name, weight in ours.state_dict().items():
        if weight.dim() == 2:
            level = weight.abs().amax(dim=1, keepdim=True) / levels
            assert ((again[name] - weight).abs() <= 0.5001 * level).all(), name


def test_what_the_page_could_not_compute_is_refused():
    with pytest.raises(ConfigError, match="has 5 characters, the model 6"):
        pack(model(vocab_size=6), TOKENIZER)
    ours = model()
    ours.norm.weight.data[3] = float("nan")
    with pytest.raises(ConfigError, match=r"norm\.weight has weights that are not finite"):
        pack(ours, TOKENIZER)
    strange = model()
    strange.blocks[1].mlp[1] = nn.ReLU()  # the page sees the config and the weights only
    with pytest.raises(ConfigError, match="layers that its config doesn't name"):
        pack(strange, TOKENIZER)
    sizes = dict(vocab_size=5, context_length=7, n_layer=1, n_head=1, n_embd=8)
    with pytest.raises(ConfigError, match="the page can't count a text"):
        pack(build_gpt(CountedConfig(**sizes, lengths=(1, 2), counted=9)), TOKENIZER)


def test_what_was_not_packed_is_refused():
    packed = pack(model(), TOKENIZER)
    for damaged in (b"", packed[:-8], packed.replace(b'"n_head": 3', b'"n_head": 2')):
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
    assert "{{" not in text and "\nimport " not in text
    assert all(path.name in text for path in snapshots)
    assert "og:" not in text  # as long as it has no address


def test_a_link_to_the_page_has_a_card_once_the_project_has_an_address(tmp_path, monkeypatch):
    monkeypatch.setattr(play, "repository", lambda root: "ada/notes")
    text = play.write(tmp_path)[0].read_text(encoding="utf-8")
    assert '<meta property="og:image" content="https://ada.github.io/notes/play.png">' in text


@pytest.fixture
def run(tmp_path):
    """A finished run of a small model of today, which kept its snapshots."""
    torch.manual_seed(0)
    sizes = dict(vocab_size=5, context_length=4, n_layer=1, n_head=2, n_embd=8)
    ours = build_gpt(ModernConfig(**sizes, rotary=True, tied=False, bigrams=11))
    config = TrainConfig(batch_size=2, max_steps=8, eval_interval=1, learning_rate=0.01, warmup_steps=0)
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
    page = tmp_path / "build" / "play" / "play.html"
    page.parent.mkdir(parents=True)
    page.with_name("play-step-77.js").touch()  # of another model
    play.main(["--run", str(run)])
    stops = sorted(page.parent.glob("play-step-*.js"))
    # Every second of 0, 1, 2, 4 and 8.
    assert [path.name for path in stops] == [
        "play-step-0.js",
        "play-step-2.js",
    ]
    assert "index.html" not in page.read_text(encoding="utf-8")  # the page is none of the site
    assert play.committed() == before
    best, tokenizer = checkpoint.load_model(run)
    packed = play.pack_run(run)[-1]
    about = play.header(packed)["about"]
    assert packed == pack(best, tokenizer, about=about) and about["preset"] == "tiny" and about["step"] == 8
    state = checkpoint.load(run)
    state.snapshots.clear()
    checkpoint.save(run, state)
    (page,) = play.write(tmp_path, play.pack_run(run))  # without snapshots there is one file
    assert "mount(place," in page.read_text(encoding="utf-8")
