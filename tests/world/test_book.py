"""The book's classes print what the book prints, or should, and lead to our MultiHeadAttention."""

import pytest
import torch
from torch import nn

from helpers import checks, ledger
from helpers.attention import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper, SelfAttention
from helpers.gpt import GPT, GPTConfig

JOURNEY = ledger.inputs("journey")
BATCH = torch.stack([JOURNEY, JOURNEY])


@pytest.mark.parametrize(
    ("seed", "build", "row"),
    [
        (789, lambda: SelfAttention(3, 2)(JOURNEY), "raschka-3.4.2-self-attention-v2"),
        (789, lambda: SelfAttention(3, 2)(JOURNEY, return_weights=True)[1], "raschka-3.5.1-weights"),
        (789, lambda: CausalAttention(3, 2, 6, 0.0)(JOURNEY, return_weights=True)[1], "raschka-3.5.1-causal-weights"),
        (123, lambda: MultiHeadAttentionWrapper(3, 2, 6, 0.0, 2)(BATCH)[1], "raschka-listing-3.4"),
    ],
)
def test_the_classes_print_what_the_sources_print_or_should(seed, build, row):
    torch.manual_seed(seed)
    entry = ledger.row(row)
    checks.close(build(), torch.tensor(entry.get("correct", entry["printed"])), tolerance=5.1e-5)


def test_multi_head_equals_the_wrapper_with_the_same_weights():
    torch.manual_seed(0)
    wrapper = MultiHeadAttentionWrapper(6, 4, context_length=5, dropout=0.0, num_heads=3).double()
    ours = MultiHeadAttention(6, 12, context_length=5, dropout=0.0, num_heads=3).double()
    with torch.no_grad():
        for name in ("W_query", "W_key", "W_value"):
            getattr(ours, name).weight.copy_(torch.cat([getattr(head, name).weight for head in wrapper.heads]))
    ours.out_proj = nn.Identity()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    checks.close(ours(x), wrapper(x), tolerance=1e-12)


@pytest.mark.parametrize("layer", [CausalAttention(6, 6, 9, 0.5), MultiHeadAttentionWrapper(6, 3, 9, 0.5, 2)])
def test_causal_and_dropout_only_in_training(layer):
    x = torch.randn(2, 9, 6)
    checks.causal(layer.eval(), x)
    assert torch.equal(layer(x), layer(x))
    layer.train()
    assert not torch.equal(layer(x), layer(x))


def test_biases_are_where_they_were_asked_for():
    def biased(layer: nn.Module) -> set[str]:
        return {name.removesuffix(".bias") for name, _ in layer.named_parameters() if name.endswith(".bias")}

    projections = {"W_query", "W_key", "W_value"}
    assert biased(SelfAttention(4, 4)) == biased(CausalAttention(4, 4, 5, 0.0)) == set()
    assert biased(SelfAttention(4, 4, True)) == biased(CausalAttention(4, 4, 5, 0.0, True)) == projections
    wrapper = MultiHeadAttentionWrapper(4, 4, 5, 0.0, 2, qkv_bias=True)
    assert biased(wrapper) == {f"heads.{i}.{name}" for i in range(2) for name in projections}


def test_more_tokens_than_its_mask_has_are_not_attended_to():
    with pytest.raises(RuntimeError, match="must match"):
        CausalAttention(3, 4, 5, 0.0)(BATCH)


@pytest.mark.parametrize(
    ("build", "masks", "x"),
    [
        (lambda: MultiHeadAttentionWrapper(3, 2, 6, 0.0, 2), ["heads.0.mask", "heads.1.mask"], BATCH),
        (
            lambda: GPT(GPTConfig(vocab_size=9, context_length=6, n_layer=2, n_head=2, n_embd=8)),
            ["blocks.0.attention.mask", "blocks.1.attention.mask"],
            torch.arange(12).view(2, 6) % 5,
        ),
    ],
)
def test_a_saved_mask_is_passed_over_however_deep_it_lies(build, masks, x):
    torch.manual_seed(0)
    one, other = build(), build()
    inverted = torch.triu(torch.ones(6, 6), diagonal=1)
    other.load_state_dict({**one.state_dict(), **dict.fromkeys(masks, inverted)})
    assert torch.equal(one(x), other(x))
    checks.causal(other, x)
