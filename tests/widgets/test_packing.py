"""A trained GPT as bytes for a page. That the page computes the same is tested in tests/browser."""

import gzip
import json

import play
import pytest
import torch
from torch import nn

from helpers.core.data import CharTokenizer
from helpers.core.gpt import GPT, GPTConfig
from helpers.support.errors import ConfigError
from helpers.widgets.packing import pack, unpack

TOKENIZER = CharTokenizer("abc☃\n")


def model(bias: bool = False, vocab_size: int = 5) -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig(vocab_size=vocab_size, context_length=7, n_layer=2, n_head=3, n_embd=9, bias=bias)).eval()


@pytest.mark.parametrize("bias", [False, True])
def test_what_is_packed_is_found_again_rounded_to_float16(bias):
    ours = model(bias)
    again, tokenizer, about = unpack(pack(ours, TOKENIZER, about={"step": 3}))
    assert (again.config, tokenizer.characters, about) == (ours.config, TOKENIZER.characters, {"step": 3})
    for name, weight in ours.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight.half().float(), rtol=0, atol=0)
    assert again.head.weight is again.token_embedding.weight


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


def test_what_the_page_could_not_compute_is_refused():
    strange = model()
    strange.blocks[0].mlp[1] = nn.ReLU()
    with pytest.raises(ConfigError, match="parts that the page doesn't know"):
        pack(strange, TOKENIZER)
    with pytest.raises(ConfigError, match="has 5 characters, the model 6"):
        pack(model(vocab_size=6), TOKENIZER)
    for value in (float("nan"), float("inf"), -70_000.0):
        ours = model()
        ours.norm.weight.data[3] = value
        with pytest.raises(ConfigError, match=r"norm\.weight has weights that are not finite, or above 65,504"):
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
    page, *snapshots = reversed(play.write(tmp_path)[::-1])
    committed = sorted(play.PACKED.glob("step-*.gz"))
    assert page.name == "play.html" and len(snapshots) == len(committed) - 1 >= 3
    model, tokenizer, about = unpack(gzip.decompress(committed[-1].read_bytes()))
    assert len(tokenizer.characters) == model.config.vocab_size
    assert about.keys() >= {"step", "loss", "seconds", "seed", "corpus_sha256", "commit", "torch", "parameters"}
    text = page.read_text(encoding="utf-8")
    assert "{{" not in text and "\nexport " not in text and "\nimport " not in text
    assert all(path.name in text for path in snapshots)
