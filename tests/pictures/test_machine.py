"""The machine's drawing, on matplotlib's objects: what is written, coloured, framed, said."""

import itertools

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.colors import same_color
from matplotlib.patches import Rectangle

from helpers.attention import attention, causal_mask
from pictures import machine, marks

WORDS = ["Your", "journey", "starts", "with", "one", "step"]
torch.manual_seed(5)
X = torch.rand(6, 3)
SCORES = X @ X.T
ALONE = {"x": X, "scores": SCORES, "weights": SCORES.softmax(-1), "context": SCORES.softmax(-1) @ X}
PROJECTED = dict(zip(("query", "key", "value"), (X @ torch.randn(3, 3, 2)).unbind(), strict=True)) | {"x": X}
PROJECTED["scores"] = PROJECTED["query"] @ PROJECTED["key"].T / 2**0.5
PROJECTED["context"], PROJECTED["weights"] = attention(PROJECTED["query"], PROJECTED["key"], PROJECTED["value"])
CAUSAL = PROJECTED | {"mask": causal_mask(6)}
CAUSAL["context"], CAUSAL["weights"] = attention(
    PROJECTED["query"], PROJECTED["key"], PROJECTED["value"], CAUSAL["mask"]
)


CASES = {
    "03": (WORDS, PROJECTED | {"lit": ("query", "key", "value"), "follow": 1}),
    "05": (
        WORDS,
        CAUSAL | {"kept": torch.rand(6, 6) > 0.5, "lit": ("dropout", "weights"), "follow": 5},
    ),
    "one": (["a"], {"x": X[:1], "scores": SCORES[:1, :1]}),
    "letters": (
        list("O Romeo, Romeo! wherefor"),
        {"x": torch.rand(24, 64), "weights": torch.rand(24, 24), "follow": 7},
    ),
    "long": (
        ["tokenization", "$5$"],
        {"x": X[:2], "scores": SCORES[:2, :2], "lit": ("query", "key")},
    ),
}


def texts(ax):
    return [text.get_text() for text in ax.texts]


def box_of(tables, name, words=WORDS, keys=None):
    """Left, top, right and bottom of a table."""
    room = 14 + 5.7 * max(map(len, [*words, *(keys or [])]))
    left, top, width, height = machine.layout(tables, len(words), len(keys or words), room)[name]
    return left, top, left + width, top + height


def numbers(ax, box):
    """The numbers in a box by their rows."""
    cells = [text for text in ax.texts if box[0] < text.get_position()[0] < box[2]]
    cells = [text for text in cells if box[1] < text.get_position()[1] < box[3]]
    rows = itertools.groupby(sorted(cells, key=lambda t: t.get_position()[::-1]), key=lambda t: t.get_position()[1])
    return [[text.get_text() for text in row] for _, row in rows]


@pytest.fixture
def draw():
    """Draws the machine, and returns its axes and the alternative text."""
    plt.switch_backend("agg")

    def drawn(*args, **options):
        drawing = machine.draw(*args, **options)
        return drawing.figure.axes[0], drawing.text

    yield drawn
    plt.close("all")


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
    assert all(same_color(text.get_color(), machine.MISSING.ink) for text in ax.texts if text.get_text() != "")
    assert "Filled with numbers: nothing yet." in alt
    assert alt.endswith("Outlines only: x, output, query, context, key, value, scores, mask, weights, heads.")


def test_every_table_has_its_name_and_its_shape(draw):
    ax, _ = draw(WORDS, **CAUSAL)
    found = texts(ax)
    assert found.count("T × T = 6 × 6") == 3  # scores, mask, weights
    # The key stands transposed.
    assert found.count("T × D = 6 × 2") == 3 and found.count("D × T = 2 × 6") == 1
    # X and the missing output.
    assert found.count("T × C = 6 × 3") == 1 and found.count("T × C") == 1
    assert found.count("journey") == 3  # beside x and value, above the key


def test_the_numbers_stand_in_their_cells(draw):
    ax, _ = draw(WORDS, **ALONE)
    for name in ("x", "scores", "weights", "context"):
        written = [[f"{number:.2f}" for number in row] for row in ALONE[name].tolist()]
        assert numbers(ax, box_of(ALONE | {"query": X, "key": X, "value": X}, name)) == written
    ax, _ = draw(WORDS, **PROJECTED)
    transposed = [[f"{number:.1f}".replace("-", "−") for number in row] for row in PROJECTED["key"].T.tolist()]
    found = numbers(ax, box_of(PROJECTED, "key"))
    assert [[n.replace("−0.0", "0.0") for n in row] for row in transposed] == found


@pytest.mark.parametrize("part", ["key", "weights"])
def test_what_is_lit_stands_out(draw, part):
    ax, alt = draw(WORDS, **PROJECTED, lit=[part])
    lit = [patch for patch in ax.findobj(Rectangle) if patch.get_linewidth() == marks.LIT.width]
    left, top, right, bottom = box_of(PROJECTED, part)
    assert [patch.get_bbox().extents.tolist() for patch in lit] == [pytest.approx((left, top, right, bottom))]
    assert same_color(lit[0].get_edgecolor(), marks.LIT.line)
    bold = [text.get_text() for text in ax.texts if text.get_weight() == "bold" and text.get_text()]
    assert ("keyᵀ" if part == "key" else part) in bold and len(bold) <= 2
    strengths = [mesh.get_alpha() for mesh in ax.findobj(QuadMesh)]
    assert sorted(strengths) == [0.5] * 6 + [1]
    assert f"Lit: {part}." in alt


def test_one_word_is_followed_through_the_machine(draw):
    ax, alt = draw(WORDS, **CAUSAL, follow=2)
    framed = [patch.get_bbox().extents.tolist() for patch in ax.findobj(Rectangle) if patch.get_zorder() == 7]
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


def test_other_words_can_be_looked_at(draw):
    x, key = torch.rand(2, 4), torch.rand(3, 4)
    scores = x @ key.T
    ax, alt = draw(["el", "gato"], keys=["the", "black", "cat"], x=x, query=x, key=key, scores=scores)
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
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1, text
        assert not text.get_parse_math()
    for (a, one), (b, two) in itertools.combinations(zip(written, boxes, strict=True), 2):
        apart = one.x1 < two.x0 + 1 or two.x1 < one.x0 + 1 or one.y1 < two.y0 + 3 or two.y1 < one.y0 + 3
        assert apart, (a, b)  # a line's box is higher than its letters


def test_a_tensor_that_is_being_trained_can_be_drawn(draw):
    x = X.double().requires_grad_()
    ax, alt = draw(WORDS, x=x, scores=x @ x.T, value=None, follow=0)
    assert len(ax.findobj(QuadMesh)) == 4 and "scores (6 × 6)" in alt


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
        places = {(int((y - top) / (bottom - top) * 6), int((x - left) / (right - left) * 6)) for x, y in middles}
        assert places == forbidden
    weights = ax.findobj(QuadMesh)[-1].get_array()
    # An exact zero is grey, a small weight has its colour.
    assert weights.mask[5, 0] and not weights.mask[3, 1]
    assert numbers(ax, box_of(tables, "weights"))[3] == [
        "0.00" if j == 1 else f"{tables['weights'][3, j]:.2f}" for j in range(4)
    ]
    assert "The mask forbids 15 of 36 cells" in alt


def test_dropout_is_a_step_whose_cells_are_white_crosses_and_no_zeros(draw):
    kept = torch.ones(6, 6, dtype=torch.bool)
    kept[3, 1], kept[5, 0], kept[0, 4] = False, False, False  # the last one is forbidden anyway
    ax, alt = draw(WORDS, **CAUSAL | {"weights": CAUSAL["weights"] * kept}, kept=kept, lit=("dropout",))
    left, top, right, bottom = box_of(CAUSAL, "weights")
    (crosses,) = [line for line in ax.lines if line.get_marker() == "x"]
    spots = {
        (int((y - top) / (bottom - top) * 6), int((x - left) / (right - left) * 6)) for x, y in crosses.get_xydata()
    }
    assert spots == {(3, 1), (5, 0)}
    (white,) = [cells for cells in ax.findobj(PolyCollection) if not cells.get_hatch()]
    assert len(white.get_paths()) == 2 and same_color(white.cmap(0.5), "white")
    assert [len(row) for row in numbers(ax, box_of(CAUSAL, "weights"))] == [1, 2, 3, 3, 5, 5]
    (step,) = [text for text in ax.texts if text.get_text() == "then\ndropout"]
    assert step.get_weight() == "bold" and right < 700 and step.get_position()[0] < left
    sums = (CAUSAL["weights"] * kept).sum(-1)
    assert f"2 of 21 weights are dropped (×), and rows add up to between {sums.min():.2f} and {sums.max():.2f}." in alt
    ax, alt = draw(WORDS, **CAUSAL)
    assert (
        "then\ndropout" not in texts(ax)
        and "dropped" not in alt
        and not any(len(line.get_marker()) == 1 for line in ax.lines)
    )
