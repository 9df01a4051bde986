"""Dropout: on the weights it passes; each other place, and each other scale, is called by its name."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers.attention import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper, causal_mask
from helpers.errors import CheckError
from helpers.grading import checks

pytestmark = pytest.mark.usefixtures("unchecked")  # it asks thousands of wrong answers


class Dropping(nn.Module):
    """Causal attention with `num_heads` heads, with a place for everything that one might drop."""

    def __init__(self, num_heads=1, p=0.2, project=False, share=None, named=True, always=False, **places):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(3, 4) for _ in range(3))
        self.out_proj = nn.Linear(4, 4) if project else nn.Identity()
        self.H, self.always, self.places = num_heads, always, places
        self.share = p if share is None else share
        if named:
            self.num_heads, self.dropout = num_heads, p

    def drop(self, place, x):
        how = self.places.get(place)
        return how(x, self.share) if how and (self.training or self.always) else x

    def forward(self, x):
        x = self.drop("x", x)
        layers = {"query": self.W_query, "key": self.W_key, "value": self.W_value}
        parts = [self.drop(name, W(x)).unflatten(-1, (self.H, -1)).transpose(1, 2) for name, W in layers.items()]
        scores = self.drop("scores", parts[0] @ parts[1].mT / parts[0].shape[-1] ** 0.5)
        scores = self.drop("masked", scores.masked_fill(~causal_mask(x.shape[1]), -torch.inf))
        context = self.drop("weights", scores.softmax(-1)) @ parts[2]
        joined = self.drop("joined", self.drop("context", context).transpose(1, 2).flatten(2))
        return self.drop("output", self.out_proj(joined))


def shaped(*kept):
    """Dropout that draws one number for all entries along the axes that are not kept (True)."""

    def drop(x, p):
        kept_here = kept[-x.dim() :]
        ones = torch.ones([n if keep else 1 for n, keep in zip(x.shape, kept_here, strict=True)])
        return x * F.dropout(ones, p)

    return drop


def noisy(x, p):
    return x + p * torch.randn_like(x)


def gaussian(x, p):
    return x * (1 + (p / (1 - p)) ** 0.5 * torch.randn_like(x))


def masked(divide=lambda p: 1 - p, keep=lambda p: 1 - p):
    return lambda x, p: x * (torch.rand_like(x) < keep(p)) / divide(p)


def unseeded(x, p, generator=torch.Generator().manual_seed(0)):  # noqa: B008
    return x * (torch.rand(x.shape, generator=generator) > p) / (1 - p)


class Changing(Dropping):
    def forward(self, x):
        output = super().forward(x)
        if self.training:
            x += 1
        return output


WRONG_DROPOUTS = {
    "numbers of the values": ("numbers of the values", dict(value=F.dropout)),
    "numbers of the values, heads": ("numbers of the values", dict(value=F.dropout, num_heads=2, project=True)),
    "whole values": ("whole values", dict(value=shaped(1, 1, 0))),
    "the same keys": ("whole values", dict(weights=shaped(1, 1, 0, 1), num_heads=2, project=True)),
    "whole rows": ("whole rows", dict(weights=shaped(1, 1, 1, 0))),
    "whole rows, heads": ("whole rows", dict(weights=shaped(1, 1, 1, 0), num_heads=2, project=True)),
    "whole heads": ("whole heads", dict(weights=shaped(1, 1, 0, 0), num_heads=2, project=True)),
    "the only head": ("whole heads", dict(weights=shaped(1, 1, 0, 0))),
    "whole heads of the context": ("whole heads", dict(context=shaped(1, 1, 0, 0), num_heads=2, project=True)),
    "context": ("numbers of the output", dict(context=F.dropout)),
    "joined": ("numbers of the output", dict(joined=F.dropout, num_heads=2, project=True)),
    "output": ("numbers of the output", dict(output=F.dropout, num_heads=2, project=True)),
    "columns of the output": ("the same numbers of the output", dict(output=shaped(1, 0, 1))),
    "tokens": ("whole rows", dict(output=shaped(1, 1, 0))),
    "x": ("dropout comes before the softmax", dict(x=F.dropout)),
    "query": ("dropout comes before the softmax", dict(query=F.dropout)),
    "key": ("dropout comes before the softmax", dict(key=F.dropout)),
    "scores": ("dropout comes before the softmax", dict(scores=F.dropout)),
    "masked": ("dropout comes before the softmax", dict(masked=F.dropout)),
    "weights and output": ("single numbers, too, are dropped", dict(weights=F.dropout, output=F.dropout)),
    "one mask for the batch": ("every text of a batch loses the same", dict(weights=shaped(0, 1, 1, 1))),
    "noise on the output": ("noise is added", dict(output=noisy)),
    "noise on the weights": ("noise is added", dict(weights=noisy)),
    "noise on the values": ("noise is added", dict(value=noisy)),
    "Gaussian dropout": ("noise is added", dict(weights=gaussian)),
    "Gaussian dropout, heads": ("noise is added", dict(weights=gaussian, num_heads=2, project=True)),
    "noise that is not 0 on average": ("noise is added", dict(output=lambda x, p: x + torch.rand_like(x))),
    "not scaled": ("kept weights must be divided by 1 - p", dict(weights=masked(divide=lambda p: 1))),
    "not scaled, heads": ("kept weights must be divided by 1 - p", dict(
        weights=masked(divide=lambda p: 1), num_heads=2, project=True)),
    "divided by p": ("kept weights must be divided by 1 - p", dict(weights=masked(divide=lambda p: p))),
    "times 1 - p": ("kept weights must be divided by 1 - p", dict(weights=masked(divide=lambda p: 1 / (1 - p)))),
    "p kept, divided by p": ("of the weights 0.8 is dropped, not p = 0.2", dict(
        weights=lambda x, p: F.dropout(x, 1 - p))),
    "p kept": ("kept weights must be divided by 1 - p", dict(
        weights=masked(keep=lambda p: p))),
    "p ignored": ("of the weights 0.5 is dropped, not p = 0.2", dict(weights=F.dropout, share=0.5)),
    "p ignored, heads": ("of the weights 0.1 is dropped, not p = 0.2", dict(
        weights=F.dropout, share=0.1, num_heads=4, project=True)),
    "p nearly right": ("of the weights 0.21 is dropped, not p = 0.2", dict(
        weights=F.dropout, share=0.21)),
    "never": ("never applied", dict()),
    "always": ("left on in evaluation", dict(weights=F.dropout, always=True)),
    "scores and weights": ("dropout comes before the softmax", dict(scores=F.dropout, weights=F.dropout)),
    "hardly any, not scaled": ("kept weights must be divided by 1 - p", dict(
        weights=masked(divide=lambda p: 1), p=0.02)),
    "another generator": ("do not follow torch.manual_seed", dict(weights=unseeded)),
}  # fmt: skip


def checked(module, x, seed):
    """Whatever is found, every layer's mode and the global generator stay as they were."""
    modes = [layer.training for layer in module.modules()]
    torch.manual_seed(seed)
    state = torch.get_rng_state()
    try:
        checks.dropout(module, x)
    finally:
        assert [layer.training for layer in module.modules()] == modes
        assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG_DROPOUTS)
def test_every_wrong_dropout_is_named(fault):
    words, options = WRONG_DROPOUTS[fault]
    torch.manual_seed(1)
    module = Dropping(**options)
    module.W_query.eval()  # a layer of its own mind
    with pytest.raises(CheckError) as error:
        checked(module, torch.randn(6, 3), seed=1)
    assert words in str(error.value)


def test_dropout_leaves_x_as_it_is():
    torch.manual_seed(1)
    with pytest.raises(CheckError, match="it changes its input in place"):
        checks.dropout(Changing(weights=F.dropout), torch.randn(6, 3))


@pytest.mark.slow
def test_a_p_that_the_module_does_not_state_can_be_given():
    torch.manual_seed(1)
    module, x = Dropping(weights=F.dropout, named=False), torch.randn(6, 3)
    checks.dropout(module, x)
    checks.dropout(module, x, p=0.2)
    with pytest.raises(CheckError, match=r"of the weights 0.2 is dropped, not p = 0.3"):
        checks.dropout(module, x, p=0.3)


RIGHT_DROPOUTS = {
    "one head": dict(weights=F.dropout),
    "two heads": dict(weights=F.dropout, num_heads=2),
    "two heads, projected": dict(weights=F.dropout, num_heads=2, project=True),
    "four heads, one number each": dict(weights=F.dropout, num_heads=4),
    "four heads, projected, nameless": dict(weights=F.dropout, num_heads=4, project=True, named=False),
    "two heads, nameless": dict(weights=F.dropout, num_heads=2, project=True, named=False),
    "by hand": dict(weights=masked()),
    "hardly any": dict(weights=F.dropout, p=0.01),
    "most": dict(weights=F.dropout, p=0.9, num_heads=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT_DROPOUTS)
def test_every_right_dropout_passes(name):
    torch.manual_seed(1)
    module = Dropping(**RIGHT_DROPOUTS[name]).eval()
    module.W_query.train()
    checked(module, torch.randn(6, 3), seed=2)
    checked(module, torch.randn(1, 3), seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.1, 0.5])
@pytest.mark.parametrize("build", [CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper])
def test_the_series_own_dropout_passes(build, p):
    torch.manual_seed(1)
    heads = () if build is CausalAttention else (2,)
    checks.dropout(build(3, 4, 6, p, *heads), torch.randn(6, 3))


@pytest.mark.slow
def test_the_verdict_on_dropout_does_not_depend_on_the_global_generator():
    x, draws = torch.randn(6, 3), []

    def drawing(weights, p):
        draws.append(torch.rand(3))
        return F.dropout(weights, p)

    module = Dropping(weights=drawing)
    for seed in (1, 2):
        torch.manual_seed(seed)
        checks.dropout(module, x)
    first, second = torch.stack(draws).chunk(2)
    assert torch.equal(first, second)
