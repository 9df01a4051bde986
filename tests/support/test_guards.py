import math
from dataclasses import dataclass, replace

import pytest
import torch
import typechecker
from jaxtyping import Float, Integer, TypeCheckError, jaxtyped
from torch import Tensor, nn

from helpers.support.errors import ConfigError
from helpers.support.guards import Count, NotNegative, Positive, Seed, Share, checked
from helpers.support.modes import evaluating


@checked
@dataclass(frozen=True)
class Settings:
    steps: Count = 1
    rate: Positive = 1.0
    decay: NotNegative = 0.0
    dropout: Share = 0.0
    seed: Seed = 0
    betas: tuple[Share, Share] = (0.9, 0.99)
    fast: bool = False
    name: str = ""
    limit: Count | None = None

    def __post_init__(self):
        assert isinstance(self.steps, int)  # only what fits comes this far


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"steps": 0}, "steps must be a whole number from 1 to 1,000,000,000, not 0"),
        ({"steps": 2.0}, "steps must be a whole number from 1 to 1,000,000,000, not 2.0"),
        ({"steps": True}, "steps must be a whole number from 1 to 1,000,000,000, not True"),
        ({"steps": None}, "steps must be a whole number from 1 to 1,000,000,000, not None"),
        ({"steps": 10**10}, "steps must be a whole number from 1 to 1,000,000,000, not 10000000000"),
        ({"rate": 0}, "rate must be a number above 0, not 0"),
        ({"rate": math.nan}, "rate must be a number above 0, not nan"),
        ({"rate": math.inf}, "rate must be a number above 0, not inf"),
        ({"rate": 10**400}, "rate must be a number above 0, not 1000000"),
        ({"rate": False}, "rate must be a number above 0, not False"),
        ({"decay": -1e-9}, "decay must be a number of at least 0, not -1e-09"),
        ({"dropout": 1.0}, "dropout must be a number of at least 0 and below 1, not 1.0"),
        ({"seed": 2**63}, "seed must be a whole number from 0 to 9,223,372,036,854,775,807, not 9223372036854775808"),
        ({"betas": (0.9,)}, "betas must be a pair of a number of at least 0 and below 1, not (0.9,)"),
        ({"betas": [0.9, 0.99]}, "betas must be a pair of a number of at least 0 and below 1, not [0.9, 0.99]"),
        ({"betas": (0.9, 1.0)}, "betas must be a pair of a number of at least 0 and below 1, not (0.9, 1.0)"),
        ({"fast": 1}, "fast must be True or False, not 1"),
        ({"name": 1}, "name must be a text, not 1"),
        ({"limit": 0}, "limit must be a whole number from 1 to 1,000,000,000 or None, not 0"),
        ({"limit": "0" * 1000}, "limit must be a whole number from 1 to 1,000,000,000 or None, not '000000000000"),
    ],
)
def test_what_an_annotation_excludes_gets_one_sentence(settings, sentence):
    with pytest.raises(ConfigError) as error:
        Settings(**settings)
    assert str(error.value).startswith(sentence) and len(str(error.value)) < 140
    with pytest.raises(ConfigError):
        replace(Settings(), **settings)


def test_what_it_allows_passes():
    for settings in ({"rate": 3}, {"dropout": 0.999}, {"seed": 2**63 - 1}, {"limit": 1}, {"betas": (0, 0.5)}):
        assert Settings(**settings) != Settings()


@checked
def mean(x: Float[Tensor, "B T"], ids: Integer[Tensor, "T"] | None = None, *, model: nn.Module | None = None) -> Tensor:
    """The mean."""
    return x.mean()


def test_tensors_are_told_by_number_type_and_dimensions():
    assert mean(torch.ones(2, 3), torch.arange(3)) == 1 and mean.__name__ == "mean" and mean.__doc__ == "The mean."
    for arguments, sentence in [
        ((torch.ones(2),), "x must be a tensor of floats with the dimensions (B T), not float32 of shape (2,)"),
        ((torch.ones(2, 3).long(),), "x must be a tensor of floats with the dimensions (B T), not int64 of shape (2"),
        (([1.0],), "x must be a tensor of floats with the dimensions (B T), not [1.0]"),
        ((torch.ones(1, 1), torch.ones(1)), "ids must be a tensor of whole numbers with the dimensions (T) or None"),
        ((), "mean: missing a required argument: 'x'"),
        ((torch.ones(1, 1), None, None), "mean: too many positional arguments"),
    ]:  # fmt: skip
        with pytest.raises(ConfigError) as error:
            mean(*arguments)
        assert str(error.value).startswith(sentence)
    with pytest.raises(ConfigError, match="model must be a Module or None, not 'gpt'"):
        mean(torch.ones(1, 1), model="gpt")


def test_each_layer_gets_its_own_mode_back():
    model = nn.Sequential(nn.Dropout(), nn.Dropout()).train()
    model[1].eval()  # frozen on purpose
    with pytest.raises(ZeroDivisionError), evaluating(model):
        assert not any(layer.training for layer in model.modules())
        _ = 1 / 0
    assert [layer.training for layer in model.modules()] == [True, True, False]


def test_functions_of_one_name_and_other_annotations_are_checked_by_their_own():
    """tests/typechecker.py lets equal ones share a check."""

    def keeps(shape: str):
        @jaxtyped(typechecker=typechecker.check)
        def keep(x: Float[Tensor, shape]) -> Float[Tensor, shape]:
            return x

        return keep

    assert len(keeps("3")(torch.zeros(3))) == 3 and len(keeps("4")(torch.zeros(4))) == 4
    for shape, other in (("3", 4), ("4", 3), ("3", 4)):
        with pytest.raises(TypeCheckError):
            keeps(shape)(torch.zeros(other))
