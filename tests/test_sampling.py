import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from helpers import ledger
from helpers.errors import ConfigError
from helpers.gpt import GPT, GPTConfig
from helpers.sampling import filter_logits, generate

PROBABILITIES = ledger.inputs("next_token")


def kept(logits: torch.Tensor) -> list[bool]:
    return logits.isfinite().tolist()


def test_temperature_gives_the_numbers_of_the_source():
    logits = ledger.inputs("next_token", torch.float64).log()
    without_first = logits.masked_fill(torch.arange(5) == 0, float("-inf"))
    tables = [filter_logits(logits, 5.0), filter_logits(logits, 0.5), filter_logits(without_first)]
    ledger.check("karpathy-temperature", torch.stack(tables).softmax(-1))


def test_top_k_and_the_nucleus_by_hand():
    logits = PROBABILITIES.log()  # 0.10, 0.23, 0.17, 0.03, 0.47
    assert kept(filter_logits(logits, top_k=2)) == [False, True, False, False, True]
    assert kept(filter_logits(logits, top_p=0.7)) == [False, True, True, False, True]
    assert kept(filter_logits(logits, top_p=0.4)) == [False, False, False, False, True]
    assert kept(filter_logits(logits, top_k=2, top_p=0.9)) == [False, True, False, False, True]
    assert all(kept(filter_logits(logits, top_k=99, top_p=1.0)))


def test_a_nucleus_that_is_full_exactly_takes_no_more():
    assert kept(filter_logits(torch.tensor([0.25, 0.5, 0.25]).log(), top_p=0.5)) == [False, True, False]


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 20), st.floats(0.05, 1.0), st.integers(0, 1000))
def test_the_nucleus_is_the_smallest_set(V, p, seed):
    logits = torch.randn(V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    inside = filter_logits(logits, top_p=p).isfinite()
    probabilities = logits.softmax(-1)
    assert probabilities[inside].sum() >= p - 1e-9
    assert probabilities[inside].sum() - probabilities[inside].min() < p + 1e-9
    assert inside.all() or probabilities[~inside].max() <= probabilities[inside].min()


@pytest.mark.slow
def test_draws_follow_the_probabilities(unchecked):
    """Chi-square of 20,000 draws against the probabilities: below 18.47, the 0.1% point for 4 degrees of freedom."""

    class Constant(nn.Module):
        def forward(self, tokens):
            return PROBABILITIES.log().expand(*tokens.shape, -1)

    drawn = generate(Constant(), torch.tensor([0]), 20_000, generator=torch.Generator().manual_seed(0))[1:]
    expected = 20_000 * PROBABILITIES
    assert ((drawn.bincount(minlength=5) - expected) ** 2 / expected).sum() < 18.47


@pytest.fixture
def sharp() -> GPT:
    torch.manual_seed(1)
    model = GPT(GPTConfig(vocab_size=13, context_length=10, n_layer=2, n_head=2, n_embd=16))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)  # far from uniform: every token of the context matters
    return model


@torch.no_grad()
def step_by_step(model, prompt, n, seed, temperature=1.0, top_k=None, top_p=None):
    """Generation from the definitions, without a cache: one distribution after the other, as Python numbers."""
    generator, tokens = torch.Generator().manual_seed(seed), prompt.tolist()
    for _ in range(n):
        logits = model(torch.tensor([tokens[-10:]]))[0, -1] / temperature
        ranked = sorted(enumerate(logits.softmax(-1).tolist()), key=lambda pair: -pair[1])[: top_k or 13]
        if top_p:
            total, nucleus = sum(p for _, p in ranked), []
            while sum(p for _, p in nucleus) < top_p * total:
                nucleus.append(ranked[len(nucleus)])
            ranked = nucleus
        weights = torch.zeros(13)
        for token, p in ranked:
            weights[token] = p
        tokens.append(torch.multinomial(weights / weights.sum(), 1, generator=generator).item())
    return torch.tensor(tokens)


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.6}, {"temperature": 3.0, "top_k": 3}, {"temperature": 3.0, "top_p": 0.6}]
)
@pytest.mark.parametrize("use_cache", [True, False])
def test_generates_what_the_definitions_say(sharp, options, use_cache):
    sharp.train()  # with dropout, which must be off while it writes
    for block in sharp.blocks:
        block.dropout.p = 0.5
    prompt = torch.tensor([3, 1, 4])
    got = generate(sharp, prompt, 40, generator=torch.Generator().manual_seed(5), use_cache=use_cache, **options)
    assert torch.equal(got, step_by_step(sharp.eval(), prompt, 40, 5, **options))
    assert len(set(got.tolist())) > 3  # not the same token over and over


@pytest.mark.parametrize("options", [{}, {"temperature": 0.7}, {"top_k": 3}, {"top_p": 0.8}])
@pytest.mark.parametrize("length", [1, 4, 10, 14])
def test_cached_and_uncached_agree_token_for_token(sharp, options, length):
    prompt = torch.randint(13, (length,), generator=torch.Generator().manual_seed(3))
    texts = [
        generate(sharp, prompt, 25, generator=torch.Generator().manual_seed(5), use_cache=use_cache, **options)
        for use_cache in (True, False)
    ]
    assert torch.equal(*texts) and len(texts[0]) == length + 25
    assert torch.equal(texts[0][:length], prompt)


def test_the_cache_saves_work(sharp):
    """With the cache each step feeds one token; without it, all of them."""
    fed = []
    sharp.register_forward_pre_hook(lambda _, inputs: fed.append(inputs[0].shape[1]))
    generate(sharp, torch.tensor([1, 2, 3]), 5)
    assert fed == [3, 1, 1, 1, 1]
    fed.clear()
    generate(sharp, torch.tensor([1, 2, 3]), 5, use_cache=False)
    assert fed == [3, 4, 5, 6, 7]


def test_same_seed_same_text_and_the_mode_is_kept(sharp):
    sharp.train()
    one, two, other = (
        generate(sharp, torch.tensor([0]), 30, temperature=2.0, generator=torch.Generator().manual_seed(s))
        for s in (1, 1, 2)
    )
    assert torch.equal(one, two) and not torch.equal(one, other) and sharp.training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature must be a number of at least 0.000001"),
        ({"temperature": -1.0}, "temperature must be a number of at least 0.000001"),
        ({"temperature": float("nan")}, "temperature must be a number of at least 0.000001"),
        ({"top_p": 0.0}, "top_p must be a number above 0 and at most 1 or None"),
        ({"top_p": 1.5}, "top_p must be a number above 0 and at most 1 or None"),
        ({"top_k": 0}, "top_k must be a whole number from 1 to 1,000,000,000 or None"),
        ({"temperature": 1e-40}, "temperature must be a number of at least 0.000001"),
    ],
)
def test_settings_out_of_range(sharp, options, message):
    with pytest.raises(ConfigError, match=message):
        generate(sharp, torch.tensor([0]), 1, **options)
    with pytest.raises(ConfigError, match=message):
        filter_logits(torch.zeros(3), **options)


def test_bad_prompts(sharp):
    with pytest.raises(ConfigError, match="the prompt is empty"):
        generate(sharp, torch.tensor([], dtype=torch.long), 1)
    with pytest.raises(ConfigError, match="outside the vocabulary"):
        generate(sharp, torch.tensor([13]), 1)
    with pytest.raises(ConfigError, match="max_new_tokens"):
        generate(sharp, torch.tensor([0]), -1)
