"""The chain of notebook 06: one attention, eight ways, here with other sizes than the notebook's."""

from pathlib import Path

import nbformat
import pytest
import torch

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "06_multi_head.ipynb"


@pytest.fixture
def chain() -> dict:
    """The names that the notebook's cells tagged "chain" define."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    names: dict = {}
    for cell in cells:
        if "chain" in cell.metadata.get("tags", []):
            exec(compile(cell.source, cell.id, "exec"), names)
    return names


@pytest.mark.parametrize(("heads", "width", "tokens"), [(2, 6, 6), (1, 5, 4), (4, 4, 3), (3, 12, 7), (2, 8, 1)])
def test_eight_ways_one_attention(chain, heads, width, tokens):
    chain.update(H=heads, C=width, D=width // heads, T=tokens)
    assert len(chain["WAYS"]) == 8
    for seed in range(3):
        differences = torch.tensor(chain["compare"](chain["WAYS"], seed))
        assert differences.shape == (8, 2) and (differences < 1e-10).all()


@pytest.mark.parametrize(
    ("way", "parts"),
    [
        ("Self-\nAttention", {"SelfAttention": 12}),
        ("Causal-\nAttention", {"CausalAttention": 2}),
        ("Wrapper", {"MultiHeadAttentionWrapper": 1, "CausalAttention": 2}),
        ("Multi-Head-\nAttention", {"MultiHeadAttention": 1}),
        ("in GPT", {"MultiHeadAttention": 1, "GPT": 1}),
    ],
)
def test_each_way_goes_through_what_it_names(chain, way, parts, monkeypatch):
    called: dict[str, int] = {}

    def counting(function, name):
        def count(self, *arguments, **options):
            if type(self).__name__ == name:
                called[name] = called.get(name, 0) + 1
            return function(self, *arguments, **options)

        return count

    names = ("SelfAttention", "CausalAttention", "MultiHeadAttentionWrapper", "MultiHeadAttention")
    for cls in (chain[name] for name in names):
        monkeypatch.setattr(cls, "forward", counting(cls.forward, cls.__name__))
    monkeypatch.setattr(chain["GPT"], "__init__", counting(chain["GPT"].__init__, "GPT"))
    chain["compare"]({way: chain["WAYS"][way]})
    assert called == parts


def test_a_way_that_differs_is_noticed(chain):
    def slightly_off(x, W):
        return chain["by_matmul"](x, W) * (1 + 1e-7)

    def right_output_wrong_gradient(x, W):
        return chain["by_matmul"](x, {name: matrix.detach() for name, matrix in W.items()}) + 0 * sum(
            matrix.sum() for matrix in W.values()
        )

    ways = {"loop": chain["by_loop"], "off": slightly_off, "gradient": right_output_wrong_gradient}
    _, off, gradient = chain["compare"](ways)
    assert min(off) > 1e-10
    assert gradient[0] < 1e-10 < gradient[1]
