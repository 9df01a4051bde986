"""Matrix products by oneDNN: equal to F.linear's but for rounding, gradients too; what doesn't fit is left to it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers.support import products
from helpers.support.products import quick_products

KNOWN_BY_MAKER = products.is_intels  # before it is replaced below

here = pytest.mark.skipif(not products.has_wide_instructions(), reason="this processor has no AVX-512")


@pytest.fixture(autouse=True)
def _somebody_elses_processor(monkeypatch):
    """oneDNN multiplies on any processor with AVX-512; whoever made it, here it is asked."""
    monkeypatch.setattr(products, "is_intels", lambda: False)


@pytest.fixture
def asked(monkeypatch):
    """The shapes that oneDNN was asked to multiply."""
    shapes, product = [], products._product

    def counted(a, b):
        shapes.append((tuple(a.shape), tuple(b.shape)))
        return product(a, b)

    monkeypatch.setattr(products, "_product", counted)
    return shapes


def linear_and_gradients(x, weight, bias):
    """F.linear, and the gradients of something uneven."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (x, weight, bias) if tensor is not None]
    y = F.linear(*leaves) if bias is not None else F.linear(*leaves, None)
    return y, *torch.autograd.grad((y * torch.linspace(-1, 2, y.numel()).view_as(y)).sum(), leaves)


@here
@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (2, 1, 5, 3), (768, 128)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_products_and_gradients_are_those_of_linear(shape, with_bias, asked):
    torch.manual_seed(0)
    x, weight = torch.randn(shape), torch.randn(7, shape[-1])
    bias = torch.randn(7) if with_bias else None
    expected = linear_and_gradients(x, weight, bias)
    assert not asked
    with quick_products():
        found = linear_and_gradients(x, weight, bias)
    assert len(asked) == 3  # the product, and a gradient for either factor
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@here
def test_factors_that_do_not_lie_in_one_piece():
    torch.manual_seed(0)
    x, weight = torch.randn(6, 4, 8).transpose(0, 1)[:, :, ::2], torch.randn(4, 10)[:, ::2].T
    expected = linear_and_gradients(x, weight, None)
    with quick_products():
        found = linear_and_gradients(x, weight, None)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@here
def test_only_the_gradient_that_is_asked_for(asked):
    layer = nn.Linear(3, 2, bias=False)
    with quick_products():
        layer(torch.ones(4, 3)).sum().backward()
    assert len(asked) == 2 and torch.equal(layer.weight.grad, torch.full((2, 3), 4.0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_numbers_and_shapes_are_left_to_linear(dtype, asked):
    with quick_products():
        assert F.linear(torch.ones(2, 3, dtype=dtype), torch.ones(4, 3, dtype=dtype)).dtype == dtype
        assert F.linear(torch.ones(3), torch.ones(4, 3)).tolist() == [3.0] * 4
        assert F.linear(torch.ones(0, 3), torch.ones(4, 3)).shape == (0, 4)
        assert F.linear(torch.ones(2, 3), weight=torch.ones(4, 3)).shape == (2, 4)
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            F.linear(torch.ones(2, 3), torch.ones(4, 2))
        with pytest.raises(RuntimeError, match="expand"):
            F.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(2, 1, 4, 5))
        for arguments in ((torch.ones(2, 3),), (None, torch.ones(4, 3))):
            with pytest.raises(TypeError, match="linear"):
                F.linear(*arguments)
    assert not asked


@here
def test_nothing_stays_switched(asked):
    with quick_products():
        pass
    F.linear(torch.ones(2, 3), torch.ones(4, 3))
    assert not asked


def test_without_wide_instructions_all_is_left_as_it_is(monkeypatch, asked):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    with quick_products():
        F.linear(torch.ones(2, 3), torch.ones(4, 3))
    assert not asked


def test_on_intels_own_processors_all_is_left_as_it_is(monkeypatch, asked):
    monkeypatch.setattr(products, "is_intels", lambda: True)
    with quick_products():
        F.linear(torch.ones(2, 3), torch.ones(4, 3))
    assert not asked


@pytest.mark.parametrize(
    ("told", "is_it"), [("vendor_id\t: GenuineIntel\n", True), ("vendor_id\t: AuthenticAMD\n", False), (None, True)]
)
def test_who_made_it_is_read_where_the_system_says_it(monkeypatch, tmp_path, told, is_it):
    """Linux has a file; elsewhere the platform is asked."""
    there = tmp_path / "cpuinfo"
    if told:
        there.write_text(told)
    monkeypatch.setattr(products, "Path", lambda path: there)
    monkeypatch.setattr(products.platform, "processor", lambda: "Intel64 Family 6 Model 158 Stepping 10, GenuineIntel")
    assert KNOWN_BY_MAKER.__wrapped__() is is_it


@here
def test_a_second_derivative_is_refused_instead_of_wrong():
    x, weight = torch.ones(2, 3, requires_grad=True), torch.ones(4, 3, requires_grad=True)
    with quick_products():
        y = F.linear(x, weight).square().sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
