"""Two processes share a batch: whose texts and sums are drawn where."""

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
