"""The chain of notebook 06: one attention, eight ways, here with other sizes than the notebook's."""

import pytest
import torch
from notebook_file import BY_NAME, cells, tags

from tools.lessons import named


@pytest.fixture
def chain() -> dict:
    """The names that the notebook's cells tagged "chain" define."""
    names: dict = {}
    for cell in cells(BY_NAME[named("06").stem]):
        if "chain" in tags(cell):
            exec(compile(cell.source, cell.id, "exec"), names)
    return names


@pytest.mark.parametrize(
    ("heads", "width", "tokens"), [(2, 6, 6), (1, 5, 4), (4, 4, 3), (3, 12, 7), (2, 8, 1)]
)
def test_eight_ways_one_attention(chain, heads, width, tokens):
    chain.update(H=heads, C=width, D=width // heads, T=tokens)
    assert len(chain["WAYS"]) == 8
    for seed in range(3):
        differences = torch.tensor(chain["compare"](chain["WAYS"], seed))
        assert differences.shape == (8, 2) and (differences < 1e-10).all()
