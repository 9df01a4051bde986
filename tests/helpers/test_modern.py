"""Today's GPT: without changes the plain one, and each change by its definition."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from helpers import checks
from helpers.attention import KVCache, attention
from helpers.errors import ConfigError
from helpers.gpt import GPT, GPTConfig, count_parameters
from helpers.models import build_gpt, config_of
from helpers.modern import (
    ModernAttention,
    ModernConfig,
    ModernGPT,
    SquaredReLU,
    SwiGLU,
    ngram_rows,
    rotate,
    rotations,
)
from helpers.sampling import generate

SIZES = dict(vocab_size=65, context_length=16, n_layer=2, n_head=4, n_embd=32)
PLAIN = ModernConfig(**SIZES)
CHANGES = {
    "rotary": dict(rotary=True),
    "RMSNorm": dict(rms_norm=True),
    "squared ReLU": dict(mlp="relu2", mlp_width=48),
    "SwiGLU": dict(mlp="swiglu", mlp_width=48),
    "QK-norm": dict(qk_norm=True),
    "grouped queries": dict(n_kv_head=2),
    "window": dict(window=3),
    "untied": dict(tied=False),
    "softcap": dict(softcap=2.0),
    "zero start": dict(zero_start=True),
    "n-grams": dict(bigrams=66**2, trigrams=50, fourgrams=70),
    "tokens before": dict(before=3),
}
EVERYTHING = {k: v for change in CHANGES.values() for k, v in change.items()}


def build(**changes) -> ModernGPT:
    """Far from its initial values, where zero and tiny parts would hide what the others do."""
    torch.manual_seed(0)
    model = ModernGPT(replace(PLAIN, **changes)).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


# ---------------------------------------------------------------- all changes
def test_without_any_change_it_is_the_plain_gpt():
    plain, modern, tokens = GPT(PLAIN), ModernGPT(PLAIN), torch.randint(65, (3, 16))
    modern.load_state_dict(plain.state_dict())
    checks.close(modern(tokens), plain(tokens), tolerance=1e-5)
    assert modern.head.weight is modern.token_embedding.weight


@pytest.mark.parametrize("changes", [*CHANGES.values(), EVERYTHING], ids=[*CHANGES, "everything"])
def test_each_change_is_causal_trains_and_gives_the_same_with_a_cache(changes):
    model, tokens = (
        build(**changes),
        torch.randint(65, (2, 16), generator=torch.Generator().manual_seed(1)),
    )
    logits, cache = model(tokens), model.new_cache()
    checks.causal(model, tokens)
    pieces = [model(tokens[:, start:end], cache=cache) for start, end in ((0, 5), (5, 6), (6, 7), (7, 16))]
    checks.close(torch.cat(pieces, dim=1), logits, tolerance=1e-10)
    logits.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize("changes", [dict(window=3), dict(trigrams=50), EVERYTHING])
def test_writes_the_same_with_and_without_a_cache(changes):
    model, prompt = build(**changes).float(), torch.tensor([[5, 1, 2], [3, 3, 3]])
    texts = [
        generate(model, prompt, 30, generator=torch.Generator().manual_seed(5), use_cache=use_cache)
        for use_cache in (True, False)
    ]
    assert texts[0].tolist() == texts[1].tolist()
    cache = model.new_cache()
    model(torch.zeros(1, 4, dtype=torch.long), cache=cache)
    with pytest.raises(RuntimeError, match="must match"):
        model(prompt, cache=cache)  # of two rows, and the cache holds one


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"mlp": "relu"}, "mlp must be one of gelu, relu2, swiglu, not 'relu'"),
        ({"n_embd": 30}, "n_head=4 does not divide n_embd=30: choose a divisor of it"),
        ({"n_kv_head": 3}, "n_kv_head=3 does not divide n_head=4: choose a divisor of it"),
        ({"rotary": True, "n_embd": 12}, "rotary turns pairs of channels: heads can't be 3 wide"),
        ({"window": -1}, "window must be a whole number of at least 1, not -1"),
        ({"dropout": 2}, "dropout must be a share from 0 to 1, not 2"),
        ({"bigrams": -1}, "bigrams must be a whole number of at least 0, not -1"),
        ({"softcap": -1.0}, "softcap must be a number of at least 0, not -1.0"),
    ],
)
def test_sizes_that_make_no_sense_are_refused_when_they_are_set(wrong, sentence, unchecked):
    with pytest.raises(ConfigError) as error:
        replace(PLAIN, **wrong)
    assert str(error.value) == sentence


@pytest.mark.parametrize("changes", [{}, {"rotary": True}, {"trigrams": 9}, {"before": 2}])
def test_more_tokens_than_the_context_are_refused_at_once_or_one_by_one(changes):
    model = ModernGPT(replace(PLAIN, **changes))
    with pytest.raises(ConfigError, match="17 tokens do not fit into a context of 16"):
        model(torch.zeros(1, 17, dtype=torch.long))
    cache = model.new_cache()
    model(torch.zeros(1, 16, dtype=torch.long), cache=cache)
    with pytest.raises(ConfigError, match="17 tokens do not fit into a context of 16"):
        model(torch.zeros(1, 1, dtype=torch.long), cache=cache)


def test_a_config_is_todays_as_soon_as_it_names_a_change():
    assert type(config_of(SIZES)) is GPTConfig and type(build_gpt(config_of(SIZES))) is GPT
    todays = config_of({**SIZES, "rotary": True})
    assert todays == ModernConfig(**SIZES, rotary=True) and type(build_gpt(todays)) is ModernGPT
    with pytest.raises(ConfigError, match="no GPT here has a setting rotery"):
        config_of({**SIZES, "rotery": True})


# ---------------------------------------------------------------- each by its definition
def test_rotary_scores_depend_on_the_distance_only_and_lengths_stay():
    query, key = torch.randn(2, 1, 8, dtype=torch.float64)
    cos, sin = (table.double() for table in rotations(40, 8))
    queries, keys = rotate(query.expand(40, 8), cos, sin), rotate(key.expand(40, 8), cos, sin)
    scores = queries @ keys.T  # (40, 40): row = position of the query
    for distance in range(-39, 40):
        diagonal = scores.diagonal(distance)
        checks.close(diagonal, diagonal[:1].expand_as(diagonal), tolerance=1e-5)
    assert scores[:, 0].std() > 0.1  # and on the distance they do depend
    checks.close(queries.norm(dim=1), query.norm().expand(40), tolerance=1e-5)


def test_rotary_turns_each_pair_by_its_angle():
    """As complex numbers: the pair (a, b) at position t is (a + ib) e^(i t / 10000^(2i/D))."""
    x, (cos, sin) = torch.randn(7, 6), rotations(7, 6)
    frequency = torch.tensor([1.0, 10_000 ** (-1 / 3), 10_000 ** (-2 / 3)])
    turned = torch.complex(x[:, :3], x[:, 3:]) * torch.exp(1j * torch.arange(7)[:, None] * frequency)
    checks.close(rotate(x, cos, sin), torch.cat([turned.real, turned.imag], dim=1), tolerance=1e-5)


def test_attention_with_all_its_changes_equals_the_formula():
    config = replace(PLAIN, rotary=True, qk_norm=True, n_kv_head=2, window=3, bias=True)
    layer, x = ModernAttention(config).double(), torch.randn(1, 9, 32, dtype=torch.float64)
    context = []
    for head in range(4):
        own, shared = slice(8 * head, 8 * head + 8), slice(8 * (head // 2), 8 * (head // 2) + 8)
        query = layer.W_query(x[0])[:, own]
        key, value = layer.W_key(x[0])[:, shared], layer.W_value(x[0])[:, shared]
        query, key = (v / (v * v).mean(dim=1, keepdim=True).sqrt() for v in (query, key))
        query, key = (rotate(v, *(table.double() for table in rotations(9, 8))) for v in (query, key))
        row, column = torch.arange(9)[:, None], torch.arange(9)
        context.append(attention(query, key, value, (column <= row) & (column > row - 3))[0])
    expected = layer.out_proj(torch.cat(context, dim=1))[None]
    checks.close(layer(x), expected, tolerance=1e-6)
    output, weights = layer(x, return_weights=True)
    checks.close(output, expected, tolerance=1e-6)
    assert weights.shape == (1, 4, 9, 9) and weights[0, 0, 8, :6].eq(0).all() and weights[0, 0, 8, 6:].gt(0).all()


def test_fewer_heads_of_keys_make_a_smaller_cache():
    model = ModernGPT(replace(PLAIN, n_kv_head=1))
    cache = model.new_cache()
    model(torch.zeros(1, 1, dtype=torch.long), cache=cache)
    assert all(isinstance(layer, KVCache) and layer.key.shape == (1, 1, 16, 8) for layer in cache)


def test_the_parts_of_a_block_by_their_formulas():
    x = torch.randn(5, 32)
    gated = SwiGLU(32, 48, bias=True)
    W, V = gated.weight.chunk(2)
    b, c = gated.bias.chunk(2)
    checks.close(gated(x), (x @ W.T + b) * torch.sigmoid(x @ W.T + b) * (x @ V.T + c), tolerance=1e-5)
    assert SquaredReLU()(torch.tensor([-3.0, 0.5, 2.0])).tolist() == [0.0, 0.25, 4.0]
    norm = build(rms_norm=True).norm
    y = torch.randn(5, 32, dtype=torch.float64)
    checks.close(
        norm(y),
        y / (y.square().mean(dim=1, keepdim=True) + 1e-5).sqrt() * norm.weight,
        tolerance=1e-9,
    )


def test_capped_logits_stay_below_the_cap_and_small_ones_as_they_are():
    free, capped, tokens = build(), build(softcap=3.0), torch.randint(65, (1, 16))
    assert free(tokens).abs().max() > 3 > capped(tokens).abs().max()
    checks.close(capped(tokens), 3 * torch.tanh(free(tokens) / 3), tolerance=1e-9)


def test_an_untied_head_has_a_matrix_of_its_own():
    model = ModernGPT(replace(PLAIN, tied=False))
    assert model.head.weight is not model.token_embedding.weight
    assert count_parameters(model) == count_parameters(ModernGPT(PLAIN)) + 65 * 32


def test_zero_started_blocks_pass_on_what_they_get():
    model, x = ModernGPT(replace(PLAIN, zero_start=True)), torch.randn(1, 16, 32)
    assert all(block(x).equal(x) for block in model.blocks)
    assert not any(block(x).equal(x) for block in ModernGPT(PLAIN).blocks)


def test_an_ngram_has_its_own_row_where_there_are_enough():
    tokens = torch.cartesian_prod(*[torch.arange(4)] * 3)  # all trigrams of four letters
    assert len(ngram_rows(tokens, 3, 4, 5**3)[:, -1].unique()) == 4**3
    assert ngram_rows(tokens, 3, 4, 7).max() == 6
    # 4: nothing is there.
    by_hand = [[3 + 4 * 5 + 4 * 25, 1 + 3 * 5 + 4 * 25, 2 + 1 * 5 + 3 * 25, 0 + 2 * 5 + 1 * 25]]
    assert ngram_rows(torch.tensor([[3, 1, 2, 0]]), 3, 4, 1000).tolist() == by_hand
    assert ngram_rows(torch.full((1, 9), 10**6), 4, 10**6, 999_983).min() >= 0  # nothing overflows


def test_the_tables_look_at_so_many_tokens_and_no_more():
    model = build(trigrams=50)
    one, other = torch.tensor([[1, 2, 3, 4, 5, 6]]), torch.tensor([[9, 2, 3, 4, 5, 6]])
    differs = (model.embed(one) != model.embed(other)).any(dim=-1)[0]
    assert differs.tolist() == [True, True, True, False, False, False]


def test_the_tokens_before_add_to_an_embedding_by_their_place():
    model = build(before=2)
    first, second = (table.weight for table in model.before)
    token, place = model.token_embedding.weight, model.position_embedding.weight
    embedded = model.embed(torch.tensor([[3, 1, 2]]))[0]
    checks.close(embedded[0], token[3] + first[65] + second[65] + place[0])  # 65: nothing is there
    checks.close(embedded[1], token[1] + first[3] + second[65] + place[1])
    checks.close(embedded[2], token[2] + first[1] + second[3] + place[2])


def test_in_bfloat16_attention_is_the_formula():
    layer = ModernAttention(replace(PLAIN, n_kv_head=2, window=3, dropout=0.5)).bfloat16().eval()
    x = torch.randn(2, 9, 32, dtype=torch.bfloat16)
    checks.close(layer(x), layer(x, return_weights=True)[0], tolerance=0.02)
    checks.close(layer(x).float(), layer.float()(x.float()), tolerance=0.02)
