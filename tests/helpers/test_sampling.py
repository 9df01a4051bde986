"""The next token follows the rules; a text is draw after draw, with and without a cache."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from helpers.gpt import GPT, GPTConfig
from helpers.sampling import filter_logits, generate, stream
from helpers.sources import same

PROBABILITIES = torch.tensor([0.10014858, 0.22968848, 0.17318473, 0.03110688, 0.46587133])


def kept(logits: torch.Tensor) -> list[bool]:
    return logits.isfinite().tolist()


def test_temperature_gives_the_numbers_of_the_source():
    logits = PROBABILITIES.double().log()
    without_first = logits.masked_fill(torch.arange(5) == 0, float("-inf"))
    tables = [filter_logits(logits, 5.0), filter_logits(logits, 0.5), filter_logits(without_first)]
    same(
        "temperature 5, temperature 0.5, without the first",
        """
        0.18356056 0.21670965 0.20481055 0.14528531 0.24963393
        0.03227246 0.16975432 0.09650763 0.00311355 0.69835204
        0.0 0.25525156 0.19245925 0.0345689 0.51772029
        """,
        torch.stack(tables).softmax(-1),
        units=5,  # the probabilities are rounded, and in float32
    )


def test_top_k_and_the_nucleus_by_hand():
    logits = PROBABILITIES.log()  # 0.10, 0.23, 0.17, 0.03, 0.47
    assert kept(filter_logits(logits, top_k=2)) == [False, True, False, False, True]
    assert kept(filter_logits(logits, top_p=0.7)) == [False, True, True, False, True]
    assert kept(filter_logits(logits, top_p=0.4)) == [False, False, False, False, True]
    assert kept(filter_logits(logits, top_k=2, top_p=0.9)) == [False, True, False, False, True]
    assert all(kept(filter_logits(logits, top_k=99, top_p=1.0)))


def test_a_nucleus_that_is_full_exactly_takes_no_more():
    assert kept(filter_logits(torch.tensor([0.25, 0.5, 0.25]).log(), top_p=0.5)) == [
        False,
        True,
        False,
    ]


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 20), st.floats(0.05, 1.0), st.integers(0, 1000))
def test_the_nucleus_is_the_smallest_set(V, p, seed):
    logits = torch.randn(V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    inside = filter_logits(logits, top_p=p).isfinite()
    probabilities = logits.softmax(-1)
    assert probabilities[inside].sum() >= p - 1e-9
    assert probabilities[inside].sum() - probabilities[inside].min() < p + 1e-9
    assert inside.all() or probabilities[~inside].max() <= probabilities[inside].min()


@pytest.fixture
def sharp() -> GPT:
    torch.manual_seed(1)
    model = GPT(GPTConfig(vocab_size=13, context_length=10, n_layer=2, n_head=2, n_embd=16))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)  # far from uniform: every token of the context matters
    return model


@torch.no_grad()
def step_by_step(model, prompt, n, seed, temperature=1.0, top_k=None, top_p=None):
    """Generation by definition, without a cache: each distribution in turn, as Python numbers."""
    generator, tokens, start = torch.Generator().manual_seed(seed), prompt.tolist(), 0
    for _ in range(n):
        if len(tokens) - start > 10:
            start = len(tokens) - 5
        logits = model(torch.tensor([tokens[start:]]))[0, -1] / temperature
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.6},
        {"temperature": 3.0, "top_k": 3},
        {"temperature": 3.0, "top_p": 0.6},
    ],
)
@pytest.mark.parametrize("use_cache", [True, False])
def test_generates_what_the_definitions_say(sharp, options, use_cache):
    sharp.train()  # with dropout, which must be off while it writes
    for block in sharp.blocks:
        block.dropout.p = 0.5
    prompt = torch.tensor([3, 1, 4])
    got = generate(
        sharp,
        prompt,
        40,
        generator=torch.Generator().manual_seed(5),
        use_cache=use_cache,
        **options,
    )
    assert torch.equal(got, step_by_step(sharp.eval(), prompt, 40, 5, **options))
    assert len(set(got.tolist())) > 3  # not the same token over and over


def test_the_cache_saves_work(sharp):
    """With the cache each step feeds one token; without it, all of them."""
    fed = []
    sharp.register_forward_pre_hook(lambda _, inputs: fed.append(inputs[0].shape[1]))
    generate(sharp, torch.tensor([1, 2, 3]), 5)
    assert fed == [3, 1, 1, 1, 1]
    fed.clear()
    generate(sharp, torch.tensor([1, 2, 3]), 5, use_cache=False)
    assert fed == [3, 4, 5, 6, 7]


def test_a_hook_deep_inside_hears_every_token(sharp):
    fed = []
    sharp.blocks[1].attention.W_key.register_forward_pre_hook(lambda _, inputs: fed.append(inputs[0].shape[1]))
    generate(sharp, torch.tensor([1, 2, 3]), 5)
    assert fed == [3, 1, 1, 1, 1]


def test_what_a_model_keeps_while_it_writes_can_be_trained_with():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.scale = None, nn.Parameter(torch.ones(5))

        def forward(self, tokens):
            if self.table is None:
                self.table = PROBABILITIES.log() + 0
            return (self.table * self.scale).expand(*tokens.shape, -1)

    model = Keeps()
    generate(model, torch.tensor([0]), 3)
    model(torch.tensor([[0]])).sum().backward()
    assert torch.equal(model.scale.grad, PROBABILITIES.log())


def test_so_can_a_gpt_with_a_part_of_the_readers_own(small_config):
    class Keeps(nn.Linear):
        def forward(self, x):
            if not hasattr(self, "table"):
                self.table = torch.ones(32) + 0
            return super().forward(x) * self.table

    model = GPT(small_config)
    model.blocks[1].mlp = Keeps(32, 32)
    generate(model, torch.tensor([0]), 3)
    model(torch.tensor([[0]])).sum().backward()
    assert model.blocks[1].mlp.weight.grad.any()


@pytest.mark.parametrize("batch", [(), (1,), (5,)])
def test_tokens_are_drawn_as_torch_draws_them(batch):
    """Of one distribution for all rows and steps; what a seed wrote before, it writes today."""

    class Constant(nn.Module):
        def forward(self, tokens):
            return PROBABILITIES.log().expand(*tokens.shape, -1)

    dice, rows = torch.Generator().manual_seed(2), PROBABILITIES.expand(*batch or (1,), -1)
    expected = torch.cat([torch.multinomial(rows, 1, generator=dice) for _ in range(50)], dim=1).view(*batch, 50)
    prompt = torch.zeros(*batch, 1, dtype=torch.long)
    assert torch.equal(generate(Constant(), prompt, 50, generator=dice.manual_seed(2))[..., 1:], expected)


def test_a_full_context_makes_room_and_is_filled_again(sharp):
    fed = []
    sharp.register_forward_pre_hook(lambda _, inputs: fed.append(inputs[0].shape[1]))
    generate(sharp, torch.arange(8), 10)
    assert fed == [8, 1, 1, 5, 1, 1, 1, 1, 1, 5]


@pytest.mark.parametrize("use_cache", [True, False])
def test_of_a_prompt_longer_than_the_context_the_end_is_read(sharp, use_cache):
    T, V = sharp.config.context_length, sharp.config.vocab_size
    long, greedy = torch.arange(2 * T + 5) % V, {"top_k": 1, "use_cache": use_cache}
    assert torch.equal(generate(sharp, long, 8, **greedy)[2 * T + 5 :], generate(sharp, long[-T:], 8, **greedy)[T:])


@pytest.mark.parametrize("use_cache", [True, False])
def test_a_batch_of_one_is_the_text_alone_and_rows_keep_their_prompts(sharp, use_cache):
    def write(prompt):
        return generate(sharp, prompt, 25, generator=torch.Generator().manual_seed(5), use_cache=use_cache)

    prompt = torch.tensor([3, 1, 4])
    assert torch.equal(write(prompt[None])[0], write(prompt))
    prompts = torch.tensor([[3, 1, 4], [5, 9, 2]])
    assert write(prompts).shape == (2, 28) and torch.equal(write(prompts)[:, :3], prompts)
    # Greedy rows need no dice: each is its own.
    cold = generate(sharp, prompts, 25, top_k=1, use_cache=use_cache)
    assert all(torch.equal(row, generate(sharp, p, 25, top_k=1)) for row, p in zip(cold, prompts, strict=True))
    assert generate(sharp, prompts, 0).shape == (2, 3)


def test_who_stops_listening_gets_the_mode_back(sharp):
    """A stop token is the reader's own `break`."""
    sharp.train()
    for token in stream(sharp, torch.tensor([3]), 1000, generator=torch.Generator().manual_seed(0)):
        assert not sharp.training
        if token == 7:
            break
    del token
    assert sharp.training


def test_few_tokens_take_one_thread_and_who_listens_has_his_own(sharp):
    seen, before = [], torch.get_num_threads()

    def listen(_, inputs):
        seen.append((inputs[0].numel(), torch.get_num_threads()))
        assert len(seen) < 5, "enough"

    hook = sharp.token_embedding.register_forward_pre_hook(listen)
    torch.set_num_threads(3)
    try:
        for rows in (1, 40):
            for _ in stream(sharp, torch.zeros(rows, 1, dtype=torch.long), 2, use_cache=False):
                assert torch.get_num_threads() == 3
        assert seen == [(1, 1), (2, 1), (40, 3), (80, 3)]
        with pytest.raises(AssertionError, match="enough"):
            generate(sharp, torch.zeros(1, dtype=torch.long), 1)
        assert torch.get_num_threads() == 3
    finally:
        hook.remove()
        torch.set_num_threads(before)


def test_at_an_endless_temperature_all_are_alike():
    shares = filter_logits(torch.tensor([5.0, 0.0]), temperature=1e30).softmax(-1)
    assert shares.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("bad", [torch.tensor([13]), torch.tensor([[0], [-1]])])
def test_a_prompt_outside_the_vocabulary_is_not_continued(sharp, bad):
    with pytest.raises(IndexError):
        generate(sharp, bad, 1)
    assert sharp.training


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_diverged_model_writes_nothing(sharp, value, rows):
    with torch.no_grad():
        sharp.norm.weight.fill_(value)
    with pytest.raises(RuntimeError, match="probability tensor contains either `inf`, `nan`"):
        generate(sharp, torch.zeros(rows, 1, dtype=torch.long), 1)
    assert sharp.training


def test_tokens_that_a_model_excludes_are_never_drawn():
    class Excludes(nn.Module):
        def forward(self, tokens):
            return torch.tensor([0.0, -math.inf, 0.0]).expand(*tokens.shape, -1)

    tokens = generate(Excludes(), torch.tensor([0]), 100, generator=torch.Generator().manual_seed(0))
    assert set(tokens.tolist()) == {0, 2}


def test_one_token_ties_and_a_nucleus_of_everything_lose_nothing():
    assert filter_logits(torch.tensor([1.0, 3.0, 3.0, 2.0]), top_k=1).isfinite().tolist() == [
        False,
        True,
        True,
        False,
    ]
    assert filter_logits(torch.tensor([-1e30, 0.0]), top_p=1.0).isfinite().all()
