"""Two processes share a batch: whose texts and sums are drawn where."""

import math

import torch
from matplotlib.collections import QuadMesh

from pictures import sharing
from pictures.sharing import MEAN, TALL, TEXTS, TOPS, WEIGHTS

torch.manual_seed(3)
X = torch.randn(4, 6)
W = torch.randn(6, 2)
OWN = [torch.randn(6, 2), torch.randn(6, 2)]


def tables(ax):
    """Each table that is drawn, by its left and upper edge."""
    tables = {}
    for mesh in ax.collections:
        if isinstance(mesh, QuadMesh):
            left, top = mesh.get_coordinates()[0, 0]
            tables[round(left), round(top)] = (
                mesh.get_array().filled(0).reshape(mesh.get_coordinates().shape[0] - 1, -1)
            )
    return tables


def equal(drawn, table):
    return torch.allclose(torch.from_numpy(drawn).double(), table.double())


def test_by_text_each_has_half_of_the_texts_all_weights_and_the_whole_sum(drawn):
    sharing.draw_shared(X, W, OWN)
    ((ax, alt),) = drawn
    found = tables(ax)
    for process in (0, 1):
        top = TOPS[process]
        assert equal(found[TEXTS[0], top + process * TALL // 2], X.chunk(2)[process])
        assert (
            TEXTS[0],
            top + (1 - process) * TALL // 2,
        ) not in found  # the other half is not here
        assert equal(found[WEIGHTS[0], top], W)
        assert equal(found[MEAN[0], top], OWN[0] + OWN[1])
    assert "all 6 × 2 weights" in alt and "all-reduce" in alt


def test_each_budget_has_its_parabola_and_a_star_where_it_is_lowest(drawn):
    losses = {1e10: {1000: [3.0], 10_000: [2.5, 2.6], 100_000: [3.0]}, 2.7e11: {1000: [2.9], 10_000: [2.4]}}
    best = {1e10: (0.1, math.log(8000), 2.5), 2.7e11: (0.05, math.log(20_000), 2.2)}
    sharing.valleys(losses, best)
    ((left, alt),) = drawn
    right = left.figure.axes[1]
    stars = [[line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "*"] for ax in (left, right)]
    assert torch.allclose(torch.tensor(stars[0]), torch.tensor([[8000, 2.5], [20_000, 2.2]]))
    assert torch.allclose(torch.tensor(stars[1]), torch.tensor([[1e10, 8000], [2.7e11, 20_000]]))
    curves = [line.get_xydata() for line in left.lines if line.get_marker() == "None"]
    assert [abs(min(curve[:, 1]) - low) < 0.01 for curve, low in zip(curves, (2.5, 2.2), strict=True)] == [True, False]
    assert "1 · 10¹⁰ operations: 8,000 weights" in alt and "2.7 · 10¹¹" in alt
