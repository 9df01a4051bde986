"""The check of annotations that the tests run under (tests/typechecker.py)."""

import pytest
import torch
import typechecker
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor

from helpers.attention import attention


def test_annotations_are_checked_at_run_time():
    """Without jaxtyping's import hook, this faulty call would fail elsewhere or not at all."""
    with pytest.raises(TypeCheckError, match="parameter 'key'"):
        attention(torch.randn(2, 4), torch.randn(2, 3), torch.randn(2, 4))


def test_functions_of_one_name_and_other_annotations_are_checked_by_their_own():
    """Equal ones share a check."""

    def keeps(shape: str):
        @jaxtyped(typechecker=typechecker.check)
        def keep(x: Float[Tensor, shape]) -> Float[Tensor, shape]:
            return x

        return keep

    assert len(keeps("3")(torch.zeros(3))) == 3 and len(keeps("4")(torch.zeros(4))) == 4
    for shape, other in (("3", 4), ("4", 3), ("3", 4)):
        with pytest.raises(TypeCheckError):
            keeps(shape)(torch.zeros(other))
