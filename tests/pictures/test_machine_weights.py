"""The weights in the drawing of the machine: what is forbidden, what was dropped, and tables side
by side.
"""

import matplotlib.pyplot as plt
import pytest
import torch
from machine_tables import CAUSAL, SCORES, WORDS, box_of, numbers, texts
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.colors import same_color

from helpers.attention import causal_mask
from helpers.errors import ConfigError
from pictures import machine, plotting


@pytest.mark.slow
def test_what_the_mask_forbids_is_hatched_and_no_small_weight_is(draw):
    tables = CAUSAL | {"weights": CAUSAL["weights"].clone()}
    tables["weights"][3, 1], tables["weights"][5, 0] = 1e-6, 0.0  # small; dropped
    ax, alt = draw(WORDS, **tables)
    hatched = [cells for cells in ax.findobj(PolyCollection) if cells.get_hatch()]
    assert len(hatched) == 2  # in the mask and in the weights: scores come before the mask
    forbidden = {(i, j) for i, j in torch.argwhere(~tables["mask"]).tolist()}
    for name, cells in zip(("mask", "weights"), hatched, strict=True):
        left, top, right, bottom = box_of(tables, name)
        middles = [path.vertices[:4].mean(0) for path in cells.get_paths()]
        places = {
            (int((y - top) / (bottom - top) * 6), int((x - left) / (right - left) * 6))
            for x, y in middles
        }
        assert places == forbidden
    weights = ax.findobj(QuadMesh)[-1].get_array()
    assert (
        weights.mask[5, 0] and not weights.mask[3, 1]
    )  # an exact zero is grey, a small weight has its colour
    assert numbers(ax, box_of(tables, "weights"))[3] == [
        "0.00" if j == 1 else f"{tables['weights'][3, j]:.2f}" for j in range(4)
    ]
    assert "The mask forbids 15 of 36 cells" in alt


def test_dropout_is_a_step_whose_cells_are_white_crosses_and_no_zeros(draw):
    kept = torch.ones(6, 6, dtype=torch.bool)
    kept[3, 1], kept[5, 0], kept[0, 4] = False, False, False  # the last one is forbidden anyway
    ax, alt = draw(
        WORDS, **CAUSAL | {"weights": CAUSAL["weights"] * kept}, kept=kept, lit=("dropout",)
    )
    left, top, right, bottom = box_of(CAUSAL, "weights")
    (crosses,) = [line for line in ax.lines if line.get_marker() == "x"]
    spots = {
        (int((y - top) / (bottom - top) * 6), int((x - left) / (right - left) * 6))
        for x, y in crosses.get_xydata()
    }
    assert spots == {(3, 1), (5, 0)}
    (white,) = [cells for cells in ax.findobj(PolyCollection) if not cells.get_hatch()]
    assert len(white.get_paths()) == 2 and same_color(white.cmap(0.5), "white")
    assert [len(row) for row in numbers(ax, box_of(CAUSAL, "weights"))] == [1, 2, 3, 3, 5, 5]
    (step,) = [text for text in ax.texts if text.get_text() == "then\ndropout"]
    assert step.get_weight() == "bold" and right < 700 and step.get_position()[0] < left
    sums = (CAUSAL["weights"] * kept).sum(-1)
    assert (
        f"2 of 21 weights are dropped (×), and rows add up to between {sums.min():.2f} and {sums.max():.2f}."
        in alt
    )
    ax, alt = draw(WORDS, **CAUSAL)
    assert (
        "then\ndropout" not in texts(ax)
        and "dropped" not in alt
        and not any(len(line.get_marker()) == 1 for line in ax.lines)
    )


def test_tables_of_weights_stand_side_by_side_and_say_what_was_dropped(monkeypatch):
    shown = []
    monkeypatch.setattr(plotting, "show", lambda alt, figure: shown.append((figure.axes[0], alt)))
    weights, kept = CAUSAL["weights"], torch.rand(6, 6) > 0.5
    tables = {"weights": weights, "one draw": weights * kept * 2}
    machine.weight_tables(tables, WORDS, mask=causal_mask(6), kept={"one draw": kept})
    (ax, alt), lost = shown.pop(), int((causal_mask(6) & ~kept).sum())
    assert (
        0 < lost < 21
        and sum(len(line.get_xydata()) for line in ax.lines if line.get_marker() == "x") == lost
    )
    assert f"weights: nothing dropped; one draw: {lost} of 21 weights are dropped (×)" in alt
    assert "The mask forbids 15 of 36 cells" in alt
    written = [text.get_text() for text in ax.texts if "." in text.get_text()]
    assert (
        written[:21] == [f"{w:.2f}" for w in weights[causal_mask(6)].tolist()]
        and len(written) == 42 - lost
    )
    assert {"weights", "one draw", *WORDS} <= {*texts(ax)} and texts(ax).count("T × T = 6 × 6") == 2
    assert len([cells for cells in ax.findobj(PolyCollection) if cells.get_hatch()]) == 2
    plt.close("all")


@pytest.mark.parametrize(
    "tables, options, message",
    [
        ({}, {}, r"6 tokens, tables \[\]"),
        (dict.fromkeys("abcde", SCORES), {}, "from 1 to 4 tables"),
        ({"a": SCORES[:5]}, {}, r"weights is of shape \(5, 6\)"),
        ({"a": SCORES}, {"mask": causal_mask(5)}, r"mask is of shape \(5, 5\)"),
        ({"a": SCORES}, {"kept": {"b": SCORES > 0}}, r"kept \['b'\]"),
        ({"a": SCORES}, {"kept": {"a": SCORES}}, r"kept is torch.float32 of shape \(6, 6\)"),
        (
            {"a": SCORES},
            {"kept": {"a": SCORES[:2] > 0}},
            r"of shape \(2, 6\) for weights of shape \(6, 6\)",
        ),
    ],
)
def test_wrong_tables_of_weights_are_named(tables, options, message):
    with pytest.raises(ConfigError, match=message):
        machine.weight_tables(tables, WORDS, **{"mask": causal_mask(6)} | options)
