"""Reading beyond what was trained: distances are held where they should be, and nothing else moves."""

from functools import partial

import pytest
import torch

from helpers.modern import ModernConfig, ModernGPT
from helpers.rooms import extrapolation


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = ModernConfig(30, context_length=extrapolation.READ, n_layer=2, n_head=4, n_embd=32, rotary=True)
    model = ModernGPT(config).eval()
    for block in model.blocks:  # so that attention has something to say
        for matrix in (block.attention.W_query, block.attention.W_key):
            torch.nn.init.normal_(matrix.weight, std=0.5)
    return model


def held(model, reach):
    for block in model.blocks:
        block.attention.forward = partial(extrapolation.clamped, block.attention, reach=reach)
    return model


def test_a_reach_that_nobody_exceeds_changes_nothing(model):
    tokens = torch.randint(30, (2, 40))
    expected = model(tokens)
    assert torch.allclose(held(model, 39)(tokens), expected, atol=1e-4)
    assert not torch.allclose(held(model, 5)(tokens), expected, atol=1e-3)
    # The first letters have nobody so far away.
    assert torch.allclose(held(model, 5)(tokens)[:, :6], expected[:, :6], atol=1e-4)


def test_beyond_the_reach_all_distances_are_one(model):
    """A word further away scores what it would score at the reach itself."""
    layer, x = model.blocks[0].attention, torch.randn(1, 12, 32)
    x[:, 1:4] = x[:, :1]  # the same word in the first four places
    context = extrapolation.clamped(layer, x, reach=6)
    swapped = x.clone()
    swapped[:, [0, 3]] = swapped[:, [3, 0]]
    assert torch.allclose(extrapolation.clamped(layer, swapped, reach=6)[:, -1], context[:, -1], atol=1e-5)


def test_four_windows_of_eight_reach_28_places():
    model = extrapolation.trained(torch.randint(30, (500,)), 30, seed=1, steps=0, n_layer=4, window=8)
    felt = extrapolation.felt(model, torch.randint(30, (32,)))
    assert int((felt > 0).nonzero().max()) == 28


def test_places_are_means_over_sixteen():
    model = extrapolation.trained(torch.randint(30, (500,)), 30, seed=1, steps=2)
    losses = extrapolation.losses_by_place(model, torch.randint(30, (3000,)), texts=10)
    assert losses.shape == (8,) and losses.isfinite().all()
