"""The machine cut in two: whose rows are drawn where."""

import torch
from matplotlib.collections import QuadMesh

from pictures import sharing
from pictures.sharing import MEAN, PALE, TALL, TEXTS, TOPS, WEIGHTS
from pictures.sharing import OWN as OWN_GRADIENT

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


def strengths(ax):
    meshes = [mesh for mesh in ax.collections if isinstance(mesh, QuadMesh)]
    return {tuple(round(edge) for edge in mesh.get_coordinates()[0, 0]): mesh.get_alpha() for mesh in meshes}


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


def test_by_weights_each_keeps_half_of_the_rows_and_borrows_the_others(drawn):
    sharing.draw_shared(X, W, OWN, cut=True)
    ((ax, alt),) = drawn
    found = tables(ax)
    for process in (0, 1):
        top = TOPS[process]
        mine, others = top + process * TALL // 2, top + (1 - process) * TALL // 2
        assert equal(found[WEIGHTS[0], mine], W.chunk(2)[process])
        assert equal(found[WEIGHTS[0], others], W.chunk(2)[1 - process])
        assert equal(found[OWN_GRADIENT[0], mine], OWN[process].chunk(2)[process])
        for column in (WEIGHTS[0], OWN_GRADIENT[0]):  # what does not stay is pale
            assert strengths(ax)[column, others] == PALE < strengths(ax)[column, mine]
        assert equal(found[MEAN[0], mine], (OWN[0] + OWN[1]).chunk(2)[process])
        assert (MEAN[0], others) not in found
    assert "3 of the 6 rows" in alt and "reduce-scatter" in alt
