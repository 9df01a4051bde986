"""GPT-2's weights in our GPT: the numbers are those of its formulas; nothing else gets in."""

import math

import pytest
import torch
from gpt2_formulas import CONFIGS, close, config_of, formulas, some_tokens, weights_of

from helpers import gpt2
from helpers.errors import RunError
from helpers.gpt import GPT, GPTConfig


# ---------------------------------------------------------------- the numbers
@pytest.mark.parametrize("i", range(len(CONFIGS)))
@torch.no_grad()
def test_it_computes_what_the_formulas_of_gpt2_say(i):
    config = config_of(i)
    weights, tokens = weights_of(config), some_tokens(config)
    model = gpt2.from_hugging_face(weights, config)
    assert close(model(tokens), formulas(weights, config, tokens)) and not model.training
    cache, pieces = model.new_cache(), tokens.split(4, dim=1)
    assert close(
        torch.cat([model(piece, cache) for piece in pieces], dim=1),
        formulas(weights, config, tokens),
    )


@torch.no_grad()
def test_every_way_in_which_the_names_come_is_the_same_model():
    config = config_of()
    weights, tokens = weights_of(config), some_tokens(config)
    masks = {f"h.{i}.attn.bias": torch.ones(1, 1, 16, 16).tril() for i in range(2)}
    masks |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    head = {"lm_head.weight": weights["wte.weight"]}
    for buffers in ({}, masks):
        for prefix in ("", "transformer."):
            prefixed = {prefix + name: tensor for name, tensor in (weights | buffers).items()}
            for whole in (prefixed, prefixed | head):
                model = gpt2.from_hugging_face(whole, config | {"n_inner": None, "tie_word_embeddings": True})
                assert close(model(tokens), formulas(weights, config, tokens))
                assert model.head.weight is model.token_embedding.weight
    copies = {name: tensor.clone() for name, tensor in weights.items()}
    torch.nn.init.zeros_(gpt2.from_hugging_face(weights, config).token_embedding.weight)
    # The caller's tensors are not ours.
    assert all(copies[name].equal(weights[name]) for name in weights)


@torch.no_grad()
def test_half_precision_is_widened():
    config = config_of()
    for kind in (torch.float16, torch.bfloat16):
        weights, tokens = (
            {name: tensor.to(kind) for name, tensor in weights_of(config).items()},
            some_tokens(config),
        )
        model = gpt2.from_hugging_face(weights, config)
        assert model.norm.weight.dtype == torch.float32 and close(model(tokens), formulas(weights, config, tokens))


def test_the_names_cover_our_model():
    names = GPT(GPTConfig(7, 5, n_layer=3, n_head=2, n_embd=4, bias=True)).state_dict().keys()
    mapped = [name for group in gpt2.names(3).values() for name in group]
    assert sorted(mapped) == sorted(names - {"head.weight"})


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"model_type": "gpt_neo"}, "model_type must be 'gpt2' as in GPT-2, not 'gpt_neo'"),
        ({"model_type": None}, "model_type must be 'gpt2'"),
        (
            {"activation_function": "gelu"},
            "activation_function must be 'gelu_new' as in GPT-2, not 'gelu'",
        ),
        ({"activation_function": None}, "activation_function must be 'gelu_new'"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon must be 1e-05 as in GPT-2, not 1e-06"),
        ({"scale_attn_weights": False}, "scale_attn_weights must be True"),
        (
            {"scale_attn_by_inverse_layer_idx": True},
            "scale_attn_by_inverse_layer_idx must be False",
        ),
        ({"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn must be False"),
        ({"add_cross_attention": True}, "add_cross_attention must be False"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings must be True"),
        ({"n_inner": 64}, "n_inner must be 128 as in GPT-2, not 64"),
        ({"n_layer": "2"}, "config.json: n_layer must be a whole number from 1 to 16,384, not '2'"),
        ({"n_layer": 3}, "the weights lack h.2.attn.c_attn.bias: a GPT-2 with n_layer=3 doesn't"),
        ({"n_layer": 1}, "the weights hold h.1.attn.c_attn.bias: a GPT-2 with n_layer=1 doesn't"),
        ({"n_head": 5}, "config.json: n_head=5 does not divide n_embd=32"),
        ({"n_head": 0}, "n_head must be a whole number from 1 to 16,384, not 0"),
        ({"n_embd": 64}, "the weights have other shapes than config.json says"),
        ({"n_embd": math.nan}, "n_embd must be a whole number"),
        ({"n_positions": 17}, "the weights have other shapes"),
        (
            {"n_positions": 10**9},
            "n_positions must be a whole number from 1 to 16,384, not 1000000000",
        ),
        ({"vocab_size": 50257}, "the weights have other shapes"),
        ({"vocab_size": 10**30}, "vocab_size must be a whole number from 1 to 1,114,112, not 1000"),
        ({"vocab_size": None}, "vocab_size must be a whole number"),
        ({"n_layer": 1000, "n_embd": 16384}, "the weights lack h.10.attn.c_attn.bias"),
    ],
)
def test_a_config_of_another_model_is_refused_by_its_entry(other, message, unchecked):
    with pytest.raises(RunError, match=message):
        gpt2.from_hugging_face(weights_of(config_of()), config_of(**other))


def test_every_size_and_the_type_must_be_said(unchecked):
    for name in ("model_type", *CONFIGS[0]):
        config = config_of()
        del config[name]
        with pytest.raises(RunError, match=f"config.json: {name} must be .* not None"):
            gpt2.from_hugging_face(weights_of(config_of()), config)


@pytest.mark.parametrize("name", weights_of(config_of()))
def test_every_weight_is_needed_whole(name):
    config, weights = config_of(), weights_of(config_of())
    others = {other: tensor for other, tensor in weights.items() if other != name}
    with pytest.raises(RunError, match=f"the weights lack {name}"):
        gpt2.from_hugging_face(others, config)
    with pytest.raises(RunError, match="the weights have other shapes"):
        gpt2.from_hugging_face(weights | {name: weights[name][:-1]}, config)


@pytest.mark.parametrize("name", ["h.0.mlp.c_fc.weight", "h.1.attn.c_attn.weight"])
def test_a_matrix_that_is_turned_already_is_refused(name):
    weights = weights_of(config_of())
    with pytest.raises(RunError, match="the weights have other shapes"):
        gpt2.from_hugging_face(weights | {name: weights[name].T}, config_of())


@pytest.mark.parametrize(
    "name", ["h.0.crossattention.c_attn.weight", "h.0.attn.bias2", "h.2.ln_1.bias", "score.weight"]
)
def test_a_weight_too_many_is_refused(name):
    with pytest.raises(RunError, match=f"the weights hold {name}: a GPT-2 with n_layer=2 doesn't"):
        gpt2.from_hugging_face(weights_of(config_of()) | {name: torch.zeros(32)}, config_of())
