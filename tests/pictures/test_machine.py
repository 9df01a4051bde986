"""The drawing of the machine, on matplotlib's own objects: what is written, coloured, framed, and
said.
"""

import itertools

import pytest
import torch
from machine_tables import ALONE, CASES, CAUSAL, PROJECTED, SCORES, WORDS, X, box_of, numbers, texts
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.colors import same_color
from matplotlib.patches import FancyArrowPatch, Rectangle

from helpers.errors import ConfigError
from pictures import machine


def test_what_is_not_given_is_an_outline_with_its_name(draw):
    ax, alt = draw(WORDS, lit=())
    assert {*machine.SHAPES} - {"key"} | {
        "keyᵀ",
        "heads",
        "softmax",
        "mixture",
        "T × C",
        "D × T",
    } <= {*texts(ax)}
    assert not ax.findobj(QuadMesh) and not ax.findobj(PolyCollection)
    assert all(
        same_color(text.get_color(), machine.MISSING.ink)
        for text in ax.texts
        if text.get_text() != ""
    )
    assert "Filled with numbers: nothing yet." in alt
    assert alt.endswith(
        "Outlines only: x, output, query, context, key, value, scores, mask, weights, heads."
    )


def test_every_table_has_its_name_and_its_shape(draw):
    ax, _ = draw(WORDS, **CAUSAL)
    found = texts(ax)
    assert found.count("T × T = 6 × 6") == 3  # scores, mask, weights
    assert (
        found.count("T × D = 6 × 2") == 3 and found.count("D × T = 2 × 6") == 1
    )  # the key stands transposed
    assert (
        found.count("T × C = 6 × 3") == 1 and found.count("T × C") == 1
    )  # x and the missing output
    assert found.count("journey") == 3  # beside x and value, above the key
    assert "row · column ÷ √D" in found and "row · column ÷ √D" not in texts(
        draw(WORDS, **ALONE)[0]
    )


@pytest.mark.slow
def test_the_numbers_stand_in_their_cells(draw):
    ax, _ = draw(WORDS, **ALONE)
    for name in ("x", "scores", "weights", "context"):
        written = [[f"{number:.2f}" for number in row] for row in ALONE[name].tolist()]
        assert numbers(ax, box_of(ALONE | {"query": X, "key": X, "value": X}, name)) == written
    ax, _ = draw(WORDS, **PROJECTED)
    transposed = [
        [f"{number:.1f}".replace("-", "−") for number in row] for row in PROJECTED["key"].T.tolist()
    ]
    found = numbers(ax, box_of(PROJECTED, "key"))
    assert [[n.replace("−0.0", "0.0") for n in row] for row in transposed] == found


def test_a_table_of_many_words_has_colours_only(draw):
    words = list("romeo o")
    ax, _ = draw(words, x=torch.rand(7, 2), scores=torch.rand(7, 7))
    assert not any("." in text for text in texts(ax)) and len(ax.findobj(QuadMesh)) == 4


def test_rows_and_columns_meet_as_in_the_products():
    for tables, words, keys in (
        (CAUSAL, WORDS, None),
        ({"query": torch.rand(3, 4)}, list("abc"), WORDS),
    ):
        box = {name: box_of(tables, name, words, keys) for name in machine.SHAPES}
        rows = [
            box[name][1::2] for name in ("x", "query", "scores", "weights", "context", "output")
        ]
        assert rows == [rows[0]] * 6  # a word's path is one row
        for above, below in (("key", "scores"), ("mask", "weights")):
            assert box[above][::2] == box[below][::2] and box[above][3] < box[below][1]
        assert box["value"][::2] == box["context"][::2] and box["value"][3] < box["context"][1]
        order = [
            box[name][::2] for name in ("x", "query", "scores", "weights", "context", "output")
        ]
        assert (
            all(a[1] < b[0] for a, b in itertools.pairwise(order)) and order[-1][1] <= machine.WIDTH
        )


@pytest.mark.slow
def test_without_projections_it_says_so(draw):
    ax, alt = draw(WORDS, x=X, scores=SCORES)
    assert {
        "query = x",
        "keyᵀ = xᵀ",
        "value",
        "=",
        "W_value",
        "no projections yet:\nx = query = key",
    } <= {*texts(ax)}
    assert "W_query" not in texts(ax) and "No projections yet: x = query = key." in alt
    ax, alt = draw(WORDS, **ALONE)
    assert "value = x" in texts(ax) and "x = query = key = value." in alt
    assert texts(ax).count("T × C = 6 × 3") == 4 and "C × T = 3 × 6" in texts(
        ax
    )  # a mixture of x is as wide as x
    ax, alt = draw(WORDS, **PROJECTED)
    assert {"query", "keyᵀ", "value", "W_query", "W_key", "W_value"} <= {*texts(ax)}
    assert not any("no projections" in text.lower() for text in [alt, *texts(ax)])


@pytest.mark.slow
def test_x_plays_no_part_beside_a_projection(draw):
    """A query that was projected is not compared with x: the keys are missing, and so they are
    drawn.
    """
    for name in ("query", "key"):
        ax, alt = draw(WORDS, x=X, scores=SCORES, **{name: X})
        assert not any(" = x" in text for text in texts(ax)) and "No projections" not in alt


@pytest.mark.slow
def test_long_words_are_cut(draw):
    ax, _ = draw(["tokenization", "attention"])
    assert texts(ax).count("tokenizat…") == texts(ax).count("attention") == 3


def test_signs_diverge_around_zero_and_shares_start_there(draw):
    ax, _ = draw(WORDS, **PROJECTED)
    limits = [mesh.get_clim() for mesh in ax.findobj(QuadMesh)]
    assert limits.count((0, 0.6)) == 1 and sum(low == -high for low, high in limits) == 6


@pytest.mark.parametrize("part", ["query", "key", "scores", "weights"])
def test_what_is_lit_stands_out(draw, part):
    ax, alt = draw(WORDS, **PROJECTED, lit=[part])
    lit = [patch for patch in ax.findobj(Rectangle) if patch.get_linewidth() == machine.LIT.width]
    left, top, right, bottom = box_of(PROJECTED, part)
    assert [patch.get_bbox().extents.tolist() for patch in lit] == [
        pytest.approx((left, top, right, bottom))
    ]
    assert same_color(lit[0].get_edgecolor(), machine.LIT.line)
    bold = [text.get_text() for text in ax.texts if text.get_weight() == "bold" and text.get_text()]
    assert ("keyᵀ" if part == "key" else part) in bold and len(bold) <= 2
    strengths = [mesh.get_alpha() for mesh in ax.findobj(QuadMesh)]
    assert sorted(strengths) == [0.5] * 6 + [1]
    assert f"Lit: {part}." in alt


@pytest.mark.parametrize("step", ["softmax", "mixture"])
def test_a_step_can_be_lit_too(draw, step):
    ax, _ = draw(WORDS, **ALONE, lit=[step])
    (arrow,) = [
        arrow for arrow in ax.findobj(FancyArrowPatch) if arrow.get_linewidth() == machine.LIT.width
    ]
    assert same_color(arrow.get_edgecolor(), machine.LIT.line)
    assert [
        text.get_text() for text in ax.texts if text.get_weight() == "bold" and text.get_text()
    ] == [step]


def test_one_word_is_followed_through_the_machine(draw):
    ax, alt = draw(WORDS, **CAUSAL, follow=2)
    framed = [
        patch.get_bbox().extents.tolist()
        for patch in ax.findobj(Rectangle)
        if patch.get_zorder() == 7
    ]
    for name in ("x", "query", "scores", "weights", "context"):
        left, top, right, bottom = box_of(CAUSAL, name)
        high = (bottom - top) / 6
        assert pytest.approx((left, top + 2 * high, right, top + 3 * high)) in framed
    assert len(framed) == 5
    assert "starts" in [text.get_text() for text in ax.texts if text.get_weight() == "bold"]
    most, where = CAUSAL["weights"][2].max(0)
    assert f"Followed: starts; the largest of its weights is {most:.2f}, for {WORDS[where]}." in alt
    _, alt = draw(WORDS, x=X, scores=SCORES, follow=4)
    most, where = SCORES[4].max(0)
    assert f"Followed: one; the largest of its scores is {most:.2f}, for {WORDS[where]}." in alt
    _, alt = draw(WORDS, x=X, scores=SCORES)
    assert "Followed" not in alt


@pytest.mark.slow
def test_other_words_can_be_looked_at(draw):
    x, key = torch.rand(2, 4), torch.rand(3, 4)
    scores = x @ key.T
    ax, alt = draw(
        ["el", "gato"], keys=["the", "black", "cat"], x=x, query=x, key=key, scores=scores
    )
    assert {"from other words", "T × T′ = 2 × 3", "D × T′ = 4 × 3", "T′ × D"} <= {*texts(ax)}
    assert "for the words el, gato." in alt and "The words looked at are the, black, cat." in alt
    assert texts(ax).count("gato") == 1 and texts(ax).count("black") == 2
    ax, _ = draw(["el", "gato"], keys=["the", "black", "cat"], x=x, scores=scores)
    assert "query = x" not in texts(ax)  # x can't be the keys of other words


@pytest.mark.parametrize("case", CASES)
def test_it_is_legible_at_700_pixels(draw, case):
    words, tables = CASES[case]
    ax, _ = draw(words, **tables)
    figure = ax.figure
    assert figure.get_facecolor() == (1, 1, 1, 1) and figure.get_size_inches()[0] == 10
    renderer = figure.canvas.get_renderer()
    written = [text for text in ax.texts if text.get_text()]
    boxes = [text.get_window_extent(renderer) for text in written]
    for text, box in zip(written, boxes, strict=True):
        assert text.get_fontsize() / 72 * 700 / figure.get_size_inches()[0] >= 8, text
        assert (
            box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1
        ), text
        assert not text.get_parse_math()
    for (a, one), (b, two) in itertools.combinations(zip(written, boxes, strict=True), 2):
        apart = (
            one.x1 < two.x0 + 1 or two.x1 < one.x0 + 1 or one.y1 < two.y0 + 3 or two.y1 < one.y0 + 3
        )
        assert apart, (a, b)  # a line's box is higher than its letters


@pytest.mark.parametrize(
    "options, message",
    [
        ({"x": X[:5]}, r"x is of shape \(5, 3\): here it must be \(6, any\)"),
        ({"scores": SCORES[:, :5]}, r"scores is of shape \(6, 5\): here it must be \(6, 6\)"),
        (
            {"query": torch.rand(6, 2), "key": torch.rand(6, 3)},
            r"key is of shape \(6, 3\): here it must be \(6, 2\)",
        ),
        ({"value": torch.rand(5, 2)}, r"value is of shape \(5, 2\): here it must be \(6, any\)"),
        (
            {"value": torch.rand(6, 2), "context": X},
            r"context is of shape \(6, 3\): here it must be \(6, 2\)",
        ),
        ({"x": X, "context": X[:, :2]}, r"context is of shape \(6, 2\): here it must be \(6, 3\)"),
        ({"weights": torch.rand(2, 6, 6)}, r"weights is of shape \(2, 6, 6\)"),
        ({"x": X[0]}, r"x is of shape \(3,\)"),
        ({"x": X[:, :0]}, r"x is of shape \(6, 0\)"),
        (
            {"keys": ["a"], "scores": SCORES},
            r"scores is of shape \(6, 6\): here it must be \(6, 1\)",
        ),
        (
            {"mask": torch.ones(6, 6)},
            "mask is of torch.float32: it must be boolean, True where attention is allowed",
        ),
        ({"lit": ["score"]}, r"lit=\['score'\].*the parts are x, output, query"),
        ({"lit": "x"}, "lit='x'"),
        ({"wieghts": SCORES}, "tables wieghts: the parts are"),
        ({"follow": 6}, "6 tokens, 6 keys, follow=6"),
        ({"follow": -1}, "follow=-1"),
        ({"keys": []}, "6 tokens, 0 keys"),
        ({"scores": SCORES, "kept": SCORES > 0}, "kept is torch.bool.*for no weights"),
        ({"weights": SCORES, "kept": SCORES}, "kept is torch.float32"),
    ],
)
def test_a_wrong_table_is_named(draw, options, message):
    with pytest.raises(ConfigError, match=message):
        draw(WORDS, **options)


def test_a_machine_needs_a_word(draw):
    with pytest.raises(ConfigError, match="0 tokens"):
        draw([])


def test_a_tensor_that_is_being_trained_can_be_drawn(draw):
    x = X.double().requires_grad_()
    ax, alt = draw(WORDS, x=x, scores=x @ x.T, value=None, follow=0)
    assert len(ax.findobj(QuadMesh)) == 4 and "scores (6 × 6)" in alt
