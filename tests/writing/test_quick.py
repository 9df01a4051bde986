"""The quick way to write: the text, the dice and the logits are those of core's `generate`."""

import functools

import pytest
import torch
from torch import nn

from helpers.counted import build_gpt
from helpers.gpt import GPT, Block, GPTConfig
from helpers.modern import ModernConfig, ModernGPT
from helpers.sampling import Drawing, generate, stream
from helpers.writing.drafting import Counts
from helpers.writing.quick import FORWARD, QuickGPT, is_plain, quick_reader

SIZES = dict(vocab_size=13, context_length=12, n_layer=2, n_head=2, n_embd=16)
TODAYS = dict(rotary=True, qk_norm=True, zero_start=False, softcap=15.0, tied=False)
CONFIGS = {
    "plain": GPTConfig(**SIZES),
    "with biases": GPTConfig(**SIZES, bias=True),
    "rotary and tables": ModernConfig(**SIZES, **TODAYS, mlp="relu2", bigrams=50, trigrams=70, before=2),
    "shared keys and a window": ModernConfig(**SIZES, rms_norm=True, mlp="swiglu", n_kv_head=1, window=4),
}


def sharp(config: GPTConfig) -> GPT:
    """A model that is far from uniform: every token of the context matters."""
    torch.manual_seed(1)
    model = build_gpt(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


@pytest.fixture(params=CONFIGS, ids=str)
def model(request) -> GPT:
    return sharp(CONFIGS[request.param])


@pytest.fixture
def plain() -> GPT:
    return sharp(CONFIGS["plain"])


def reader_of(model: GPT, generator: torch.Generator | None = None, draft: Counts | None = None, **options) -> QuickGPT:
    rules = Drawing(**{name: value for name, value in options.items() if name != "keep"})
    reader = quick_reader(model, rules, generator, draft)
    assert reader is not None
    return reader


@functools.cache
def draft_for(config: GPTConfig) -> Counts:
    """A draft that often guesses right: it counts what the model itself writes."""
    text = generate(sharp(config), torch.tensor([1]), 400, generator=torch.Generator().manual_seed(99))
    return Counts(text, config.vocab_size)


def counts_of(model: GPT) -> Counts:
    return draft_for(model.config)


def text_and_dice(
    model: GPT, seed: int, draft: Counts | None = None, quick: bool = True, **options
) -> tuple[list[int], list[int]]:
    """What is written after a prompt of its own length for each seed, and what the dice show after that."""
    prompt = torch.arange(1 + seed % 15) % model.config.vocab_size
    dice = torch.Generator().manual_seed(seed)
    reader = reader_of(model, dice, draft, **options) if quick else None
    text = generate(model, prompt, 30, generator=dice, reader=reader, **options)
    return text.tolist(), torch.randint(1000, (3,), generator=dice).tolist()


RARE = [pytest.param(options, marks=pytest.mark.torture) for options in ({"temperature": 0.3}, {"top_k": 1})]
OPTIONS = [{}, {"temperature": 2.0, "top_k": 4}, {"top_p": 0.8}, {"keep": 0.9}, *RARE]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_quick_way_and_a_draft_write_the_same_text_with_the_same_dice(model, options):
    draft = counts_of(model)
    for seed in (0, 5, 13):  # prompts of 1, 6 and 14 tokens, the last longer than the context
        expected = text_and_dice(model, seed, quick=False, **options)
        assert text_and_dice(model, seed, **options) == expected
        assert text_and_dice(model, seed, draft, **options) == expected


def test_the_logits_are_those_of_the_model(model):
    tokens = torch.randint(13, (1, 12), generator=torch.Generator().manual_seed(0))
    quick, drafted = QuickGPT(model), QuickGPT(model, lambda tokens, most: [5, 6][:most])
    with torch.no_grad():
        expected = model(tokens)[0]
    for end in range(1, 13):
        for way in (quick, drafted):
            torch.testing.assert_close(way(tokens[:, :end])[0], expected[end - 1], rtol=1e-4, atol=1e-4)


def test_gpt2s_approximate_gelu_is_not_taken_for_the_exact_one(plain):
    for block in plain.blocks:
        block.mlp[1] = nn.GELU(approximate="tanh")
    tokens = torch.arange(12)[None]
    assert is_plain(plain)
    with torch.no_grad():
        torch.testing.assert_close(QuickGPT(plain)(tokens), plain(tokens)[:, -1], rtol=1e-5, atol=1e-5)


def test_a_window_that_starts_with_what_was_read_long_ago_is_read_again(plain):
    """All tokens are alike, so the window that moved is a beginning of the one before."""
    quick, same = QuickGPT(plain), torch.full((1, 12), 3)
    for end in (10, 11, 12, 6, 7):
        with torch.no_grad():
            expected = plain(same[:, :end])[:, -1]
        torch.testing.assert_close(quick(same[:, :end]), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_a_draft_saves_passes(plain, monkeypatch):
    text = generate(plain, torch.tensor([1]), 200, top_k=1)
    passes, rows = [], QuickGPT.rows
    monkeypatch.setattr(QuickGPT, "rows", lambda *args: passes.append(1) or rows(*args))
    for draft, most in ((None, 60), (Counts(text, 13), 40)):
        reader = reader_of(plain, draft=draft, top_k=1)
        passes.clear()
        generate(plain, torch.tensor([1]), 60, top_k=1, reader=reader)
        assert len(passes) == 60 if draft is None else len(passes) < most


@pytest.mark.slow
def test_who_stops_early_or_throws_in_between_finds_the_dice_as_without_a_draft(plain):
    texts = []
    for draft in (None, counts_of(plain)):
        dice = torch.Generator().manual_seed(4)
        text = []
        reader = reader_of(plain, dice, draft)
        for token in stream(plain, torch.tensor([1]), 30, generator=dice, reader=reader):
            text.append(token)
            text.append(int(torch.randint(1000, (), generator=dice)))
            if len(text) == 20:
                break
        texts.append(text)
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_pytorchs_own_dice_do_as_well(plain):
    texts = []
    for draft in (None, counts_of(plain)):
        torch.manual_seed(8)
        text = generate(plain, torch.tensor([1]), 30, reader=reader_of(plain, None, draft))
        texts.append([*text.tolist(), int(torch.randint(1000, ()))])
    assert texts[0] == texts[1]


def test_weights_that_changed_between_two_texts_are_seen(plain):
    for change in (lambda p: p.mul_(-1), lambda p: p.copy_(p.flip(0))):
        text_and_dice(plain, 3)
        with torch.no_grad():
            for parameter in plain.parameters():
                change(parameter)
        assert text_and_dice(plain, 3) == text_and_dice(plain, 3, quick=False)


@pytest.mark.slow
def test_a_model_that_has_written_can_be_trained(model):
    generate(model, torch.tensor([1]), 20, reader=reader_of(model, None, counts_of(model)))
    model.train()
    model(torch.arange(12)[None]).sum().backward()
    assert all(p.grad is not None and not p.is_inference() for p in model.parameters())


def shouting(self, x):
    return 2 * nn.functional.linear(x, self.weight, self.bias)


class Shouting(nn.Linear):
    forward = shouting


def another_class(model, monkeypatch):
    model.__class__ = type("Mine", (GPT,), {})


def a_hook_deep_inside(model, monkeypatch):
    model.blocks[1].attention.W_key.register_forward_pre_hook(lambda *_: None)


def a_part_of_the_readers_own(model, monkeypatch):
    model.blocks[0].mlp[2] = Shouting(64, 16, bias=False)


def a_forward_of_one_layer(model, monkeypatch):
    layer = model.blocks[0].mlp[2]
    layer.forward = lambda x: shouting(layer, x)


def a_forward_of_all_layers(model, monkeypatch):
    monkeypatch.setattr(nn.Linear, "forward", shouting)


def a_deeper_mlp(model, monkeypatch):
    model.blocks[0].mlp = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16), nn.Linear(16, 16))


def another_precision(model, monkeypatch):
    model.double()


@pytest.mark.parametrize(
    "change",
    [
        *(another_class, a_hook_deep_inside, a_part_of_the_readers_own, a_forward_of_one_layer),
        *(a_forward_of_all_layers, a_deeper_mlp, another_precision),
    ],
)
def test_a_model_with_something_of_its_own_is_called_as_it_is(plain, monkeypatch, change):
    assert is_plain(plain)
    change(plain, monkeypatch)
    assert quick_reader(plain) is None


def test_whoever_changes_the_models_own_code_is_asked_himself(plain, monkeypatch):
    """quick.py repeats what gpt.py says. A reader who changes gpt.py must get what the changed model writes."""
    monkeypatch.setattr(Block, "forward", lambda block, x, cache=None: x + block.mlp(block.norm2(x)))
    monkeypatch.setitem(FORWARD, Block, Block.forward)  # as if the file had said so from the start
    assert is_plain(plain) and quick_reader(plain) is None


def test_a_token_outside_the_vocabulary_is_not_read_from_the_tables_end(model):
    for bad in (-1, 13):
        with pytest.raises(IndexError):
            generate(model, torch.tensor([bad]), 1, reader=reader_of(model))


def test_counts_by_hand():
    """In 0 1 0 1 0 2 the token 0 is followed twice by 1 and once by 2; what is not seen falls back on shorter."""
    counts = Counts(torch.tensor([0, 1, 0, 1, 0, 2]), vocab_size=3, order=1)
    prior = counts.PRIOR
    alone = torch.tensor([3.0, 2.0, 1.0]).add(prior / 3) / (6 + prior)
    after_0 = (torch.tensor([0.0, 2.0, 1.0]) + prior * alone) / (3 + prior)
    torch.testing.assert_close(counts.logits([0]).exp()[0], after_0)
    torch.testing.assert_close(counts.logits([1, 2]).exp()[0], alone)  # after 2, nothing was seen
    torch.testing.assert_close(counts.logits([]).exp()[0], alone)


@pytest.mark.parametrize(("length", "vocab_size"), [(1, 2), (3, 65), (50, 100_000)])
def test_counts_of_short_texts_and_large_vocabularies_are_probabilities(length, vocab_size):
    counts = Counts(torch.arange(length), vocab_size)
    for context in ([], [0], [0, 1, 2], [vocab_size - 1] * 9):
        assert float(counts.logits(context).exp().sum()) == pytest.approx(1, abs=1e-3)


def test_todays_model_is_plain_too():
    assert all(is_plain(sharp(config)) for config in CONFIGS.values())
    assert type(sharp(CONFIGS["rotary and tables"])) is ModernGPT
