"""The microscope on today's models: what it shows is what the model computes, with each change
alone and with all.
"""

import pytest
import torch

from helpers import microscope, training
from helpers.counted import build_gpt
from helpers.gpt import GPT, attention_maps
from helpers.modern import ModernConfig

V, T, L, H, C = 11, 8, 2, 4, 16
CHANGES = (
    dict(rotary=True),
    dict(qk_norm=True),
    dict(n_kv_head=2),
    dict(softcap=2.0),
    dict(window=3),
    dict(mlp="swiglu", mlp_width=9),
    dict(rms_norm=True, tied=False),
    dict(bigrams=31, before=2),
)
ALL = {name: value for changes in CHANGES for name, value in changes.items()} | {"bias": True}


def named(changes: dict) -> str:
    return " ".join(changes) if changes != ALL else "all"


@pytest.fixture(params=[*CHANGES, ALL], ids=named)
def model(request) -> GPT:
    """Weights large enough that every part of it shows, and dropout, which no instrument may see."""
    torch.manual_seed(3)
    sizes = dict(vocab_size=V, context_length=T, n_layer=L, n_head=H, n_embd=C, dropout=0.4)
    model = build_gpt(ModernConfig(**sizes, **request.param))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.train()


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(V, (T,), generator=torch.Generator().manual_seed(4))


@torch.no_grad()
def logits_of(model: GPT, tokens: torch.Tensor) -> torch.Tensor:
    model.eval()
    logits = model(tokens[None])[0]
    model.train()
    return logits


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_every_tensor_ends_in_the_models_own_logits(model, tokens):
    trace = microscope.every_tensor(model, tokens)
    close(trace.logits, logits_of(model, tokens))
    assert (
        trace.query.shape == trace.key.shape == trace.value.shape == (L, H, T, C // H)
    )  # shared ones for each head
    close(trace.weights @ trace.value, trace.context)
    close(trace.weights, attention_maps(model, tokens[None])[:, 0])


def test_the_attention_maps_are_the_softmax_of_query_and_key_where_a_token_may_look(model, tokens):
    trace = microscope.every_tensor(model, tokens)
    back = torch.arange(T)[:, None] - torch.arange(T)  # how far the key lies behind the query
    allowed = (back >= 0) & (back < (model.config.window or T))
    scores = torch.einsum("lhqd,lhkd->lhqk", trace.query, trace.key) / (C // H) ** 0.5
    close(trace.weights, scores.masked_fill(~allowed, -torch.inf).softmax(-1))


def test_the_logit_lens_ends_in_the_models_own_logits_and_begins_at_its_embedding(model, tokens):
    lens = microscope.logit_lens(model, tokens)
    close(lens[-1], logits_of(model, tokens))
    model.blocks = torch.nn.ModuleList()  # no layer is left between embedding and head
    close(lens[0], logits_of(model, tokens))


@pytest.mark.parametrize("head", [0, 3])
def test_a_head_switched_off_is_one_whose_columns_of_the_projection_are_zero(model, tokens, head):
    with microscope.switch_off(model, 1, head):
        silent = logits_of(model, tokens)
        close(microscope.every_tensor(model, tokens).logits, silent)
    assert not torch.allclose(silent, logits_of(model, tokens), atol=1e-3)
    D = C // H
    with torch.no_grad():
        model.blocks[1].attention.out_proj.weight[:, head * D : (head + 1) * D] = 0
    close(silent, logits_of(model, tokens))


def test_surprise_is_the_loss(model, tokens):
    close(
        microscope.surprise(model, tokens).mean(), torch.tensor(training.evaluate(model, tokens, T))
    )
