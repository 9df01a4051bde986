"""Attention is its formula; the layer is PyTorch's own, and the same with a cache."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from helpers import checks
from helpers.attention import (
    CausalAttention,
    KVCache,
    MultiHeadAttention,
    SelfAttention,
    attention,
    causal_mask,
)
from helpers.errors import ConfigError

JOURNEY = torch.tensor(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
)
BATCH = torch.stack([JOURNEY, JOURNEY])


def test_by_hand():
    """Keys are the axes, the query is [0, sqrt(2) ln 3]: scores 0 and ln 3, so weights 1/4 and 3/4."""
    query = torch.tensor([[0.0, math.sqrt(2) * math.log(3)]])
    context, weights = attention(query, torch.eye(2), torch.tensor([[4.0, 0.0], [0.0, 4.0]]))
    assert torch.allclose(weights, torch.tensor([[0.25, 0.75]]))
    assert torch.allclose(context, torch.tensor([[1.0, 3.0]]))


def test_causal_mask_is_true_where_allowed():
    assert causal_mask(3).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 7), st.integers(1, 5), st.booleans())
def test_equals_pytorchs_own(B, H, T, D, masked):
    query, key = torch.randn(2, B, H, T, D, dtype=torch.float64)
    # Of another width: the root is that of the key's.
    value = torch.randn(B, H, T, D + 1, dtype=torch.float64)
    mask = causal_mask(T) if masked else None
    context, weights = attention(query, key, value, mask)
    checks.close(context, F.scaled_dot_product_attention(query, key, value, mask), tolerance=1e-12)
    assert weights.sum(dim=-1).float().allclose(torch.ones(()), atol=1e-5)


def test_a_row_that_allows_nothing_is_nan():
    context, _ = attention(*torch.randn(3, 2, 4), mask=torch.tensor([[True, True], [False, False]]))
    assert context[0].isfinite().all() and context[1].isnan().all()


def test_a_mask_hides_what_fills_up_a_short_text():
    x = torch.randn(2, 6, 4)
    alone, _ = attention(x[1, :4], x[1, :4], x[1, :4])
    x[1, 4:] = 99.0
    real = torch.arange(6) < torch.tensor([6, 4])[:, None]  # (B, T)
    context, _ = attention(x, x, x, real[:, None])
    checks.close(context[1, :4], alone)


def test_dropout_rescales_and_drops():
    torch.manual_seed(0)
    query = torch.zeros(1, 1000)
    keys, values = torch.zeros(10_000, 1000), torch.ones(10_000, 1)
    _, weights = attention(query, keys, values, dropout_p=0.25)
    survivors = weights[weights > 0]
    assert torch.allclose(survivors, torch.tensor(1e-4 / 0.75)) and abs(len(survivors) / 10_000 - 0.75) < 0.02


def test_fused_and_written_out_paths_agree():
    torch.manual_seed(0)
    heads = MultiHeadAttention(8, 12, context_length=7, dropout=0.0, num_heads=3).double()
    x = torch.randn(2, 7, 8, dtype=torch.float64)
    written_out, weights = heads(x, return_weights=True)
    checks.close(heads(x), written_out, tolerance=1e-12)
    assert weights.shape == (2, 3, 7, 7)


def test_multi_head_equals_pytorchs_multihead_attention():
    torch.manual_seed(0)
    ours = MultiHeadAttention(8, 8, context_length=5, dropout=0.0, num_heads=4, qkv_bias=True).double()
    theirs = nn.MultiheadAttention(8, 4, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.W_query.weight, ours.W_key.weight, ours.W_value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.W_query.bias, ours.W_key.bias, ours.W_value.bias]))
        theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    expected, _ = theirs(x, x, x, attn_mask=~causal_mask(5))  # there, True means forbidden
    checks.close(ours(x), expected, tolerance=1e-12)


def test_weights_that_are_shown_have_the_dropout_that_is_used():
    heads = MultiHeadAttention(8, 8, 9, 0.5, 2)
    x, past = torch.randn(4, 9, 8), causal_mask(9)
    _, weights = heads(x, return_weights=True)
    assert 0.3 < (weights[:, :, past] == 0).float().mean() < 0.7
    _, weights = heads.eval()(x, return_weights=True)
    assert (weights[:, :, past] > 0).all()


def test_the_mask_is_made_where_it_is_used():
    assert causal_mask(3, "meta").device.type == "meta"


@pytest.mark.parametrize("layer", [MultiHeadAttention, CausalAttention])
def test_a_saved_mask_of_the_books_class_is_passed_over(layer):
    """Also inside another module, and strictly: nothing else may be missing or more."""
    torch.manual_seed(0)
    heads = {"num_heads": 2} if layer is MultiHeadAttention else {}
    one, other = (nn.Sequential(layer(3, 4, context_length=6, dropout=0.0, **heads)) for _ in range(2))
    book = {**one.state_dict(), "0.mask": torch.triu(torch.ones(6, 6), diagonal=1)}
    other.load_state_dict(book)
    assert torch.equal(one(BATCH), other(BATCH)) and "0.mask" in book
    checks.causal(other, BATCH)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict({**book, "0.marks": torch.ones(6)})


def test_who_looks_ahead_is_found_and_a_text_without_differences_tells_nothing():
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    checks.causal(lambda x: x.cumsum(dim=1), tokens)
    for cheat in (lambda x: x.flip(1), lambda x: x + x.roll(-1, 1), lambda x: x + x[:, 4:]):
        with pytest.raises(checks.CheckError, match="not causal"):
            checks.causal(cheat, tokens)
    with pytest.raises(checks.CheckError, match="x needs different tokens"):
        checks.causal(lambda x: x.flip(1), torch.full((1, 5), 3))


def test_cache_gives_the_same_outputs_token_by_token():
    torch.manual_seed(0)
    heads, cache = MultiHeadAttention(8, 8, 6, 0.0, 2).double(), KVCache(6)
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    pieces = [heads(x[:, a:b], cache=cache) for a, b in ((0, 3), (3, 4), (4, 6))]
    checks.close(torch.cat(pieces, dim=1), heads(x), tolerance=1e-12)
    assert len(cache) == 6


def test_a_cache_writes_in_place():
    heads, cache, x = MultiHeadAttention(8, 8, 6, 0.0, 2), KVCache(6), torch.randn(3, 6, 8)
    heads(x[:, :2], cache=cache)
    memory = cache.key.data_ptr()
    heads(x[:, 2:], cache=cache)
    assert cache.key.data_ptr() == memory and len(cache) == 6 and not cache.key.requires_grad


@pytest.mark.parametrize("more", [1, 2])
def test_a_full_cache_takes_no_more(more):
    """One token would fit into a slice of none, and be lost without a word."""
    heads, cache, x = MultiHeadAttention(8, 8, 6, 0.0, 2), KVCache(6), torch.randn(1, 6, 8)
    heads(x, cache=cache)
    before = cache.key.clone()
    with pytest.raises(RuntimeError, match="exceeds dimension size"):
        heads(x[:, :more], cache=cache)
    assert len(cache) == 6 and torch.equal(cache.key, before)


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ConfigError, match="3 heads do not divide the width 8: choose a divisor of 8"):
        MultiHeadAttention(8, 8, 4, 0.0, 3)


@pytest.mark.parametrize("layer", [MultiHeadAttention(6, 6, 9, 0.5, 2), CausalAttention(6, 6, 9, 0.5)])
def test_it_is_causal_and_drops_only_in_training(layer):
    x = torch.randn(2, 9, 6)
    checks.causal(layer.eval(), x)
    assert torch.equal(layer(x), layer(x))
    layer.train()
    assert not torch.equal(layer(x), layer(x))


def biased(layer: nn.Module) -> set[str]:
    return {name.removesuffix(".bias") for name, _ in layer.named_parameters() if name.endswith(".bias")}


def test_biases_are_where_they_were_asked_for():
    projections = {"W_query", "W_key", "W_value"}
    assert biased(MultiHeadAttention(4, 4, 5, 0.0, 2)) == {"out_proj"}
    assert biased(MultiHeadAttention(4, 4, 5, 0.0, 2, True, out_bias=False)) == projections
    assert biased(SelfAttention(4, 4)) == biased(CausalAttention(4, 4, 5, 0.0)) == set()
    assert biased(SelfAttention(4, 4, True)) == biased(CausalAttention(4, 4, 5, 0.0, True)) == projections


# ---------------------------------------------------------------- the book's classes
@pytest.mark.parametrize(
    ("seed", "build", "last_row"),
    [
        (789, lambda: SelfAttention(3, 2)(JOURNEY), [-0.0754, 0.0693]),
        (
            789,
            lambda: CausalAttention(3, 2, 6, 0.0)(JOURNEY, return_weights=True)[1],
            [0.1935, 0.1663, 0.1666, 0.1542, 0.1666, 0.1529],
        ),
        (
            123,
            lambda: MultiHeadAttention(3, 2, 6, 0.0, num_heads=2)(BATCH)[1],
            [0.2575, 0.4028],
        ),
    ],
)
def test_with_the_sources_seeds_our_classes_give_their_numbers(seed, build, last_row):
    """notebooks/sources/raschka.ipynb has all of them."""
    torch.manual_seed(seed)
    checks.close(build()[-1], torch.tensor(last_row), tolerance=5.1e-5)


def test_causal_attention_is_self_attention_on_each_beginning():
    causal, plain = CausalAttention(6, 4, 9, 0.0), SelfAttention(6, 4)
    plain.load_state_dict(causal.state_dict())
    x = torch.randn(2, 9, 6)
    last = [plain(x[:, : t + 1])[:, -1] for t in range(9)]
    checks.close(causal(x), torch.stack(last, dim=1))


def test_the_mask_moves_with_its_layer_and_is_not_saved():
    layer = CausalAttention(6, 4, 9, 0.0).to("meta")
    assert layer.mask.is_meta and "mask" not in layer.state_dict()


def test_more_tokens_than_its_mask_has_are_not_attended_to():
    with pytest.raises(RuntimeError, match="must match"):
        CausalAttention(3, 4, 5, 0.0)(BATCH)
