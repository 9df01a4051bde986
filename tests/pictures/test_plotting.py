import io
import itertools
import math

import matplotlib.pyplot as plt
import pytest
import torch
from IPython.display import DisplayHandle
from matplotlib.text import Text
from PIL import Image

from pictures import plotting


@pytest.fixture(autouse=True)
def displayed(monkeypatch):
    """What would be displayed, instead of displaying it; every figure is closed afterwards."""
    plt.switch_backend("agg")
    outputs = []
    monkeypatch.setattr(plotting, "display", lambda data, **options: outputs.append((data, options)))
    yield outputs
    plt.close("all")


def test_show_gives_the_picture_its_text(displayed):
    plotting.figure(4, 3)[1].bar(range(4), range(4))
    plotting.show("four bars")
    data, options = displayed[0]
    assert data["text/plain"] == "four bars" and data["image/png"].startswith(b"\x89PNG")
    shown = options["metadata"]["image/png"]
    assert shown == {"alt": "four bars", "width": 400}
    assert Image.open(io.BytesIO(data["image/png"])).width == 1.5 * shown["width"]


def test_a_figure_without_a_text_is_refused():
    with pytest.raises(ValueError, match="alternative text"):
        plotting.show("  ")


def test_written_numbers_stand_out_from_their_cells():
    """Black on white for the smallest, on a light enough green for the largest (WCAG 2.2: 4.5)."""
    ax = plotting.heatmap(torch.tensor([[0.0, 1.0]]), ["q"], ["white", "green"])
    pixels = ax.images[0].to_rgba(ax.images[0].get_array())[0, :, :3]
    assert pixels[0].tolist() == [1, 1, 1] and pixels[1].argmax() == 1
    linear = ((pixels + 0.055) / 1.055) ** 2.4
    assert ((linear @ [0.2126, 0.7152, 0.0722] + 0.05) / 0.05).min() > 4.5
    assert {text.get_color() for text in ax.texts} == {"black"}


def test_rows_go_down_and_columns_to_the_right():
    table = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    ax = plotting.heatmap(table, ["up", "down"], ["to", " ", "\n"], decimals=0)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["up", "down"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["to", "\u00b7", "\u21b5"]
    assert [text.get_text() for text in ax.texts] == list("123456")
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row is on top
    assert ax.images[0].get_array().tolist() == [[1, 2, 3], [4, 5, 6]]


def texts_of(ax):
    """The texts written into a figure by their place: (column, row) -> text."""
    return {text.get_position(): text.get_text() for text in ax.texts}


def test_the_numbers_stand_in_their_cells_and_what_is_missing_stays_grey():
    ax = plotting.heatmap(torch.tensor([[1.0, float("nan")], [3.0, 4.0], [5.0, 6.0]]), list("abc"), list("xy"))
    assert texts_of(ax) == {
        (0, 0): "1.00",
        (0, 1): "3.00",
        (1, 1): "4.00",
        (0, 2): "5.00",
        (1, 2): "6.00",
    }
    pixels = ax.images[0].to_rgba(ax.images[0].get_array(), bytes=True)
    red, green, blue, _ = pixels[0, 1].tolist()
    assert red == green == blue and 100 < red < 220
    assert not plotting.heatmap(torch.eye(2), list("ab"), decimals=None).texts


def test_a_dollar_is_a_dollar_and_not_mathematics():
    """Matplotlib would draw "$x$" as an italic x without its dollars, and stop at "$\\$"."""
    for ax in (
        plotting.heatmap(torch.eye(2), ["$a$", "b"], title="$"),
        plotting.letters({"$a line$": "$a$"}),
        plotting.cells([["$a$"]], torch.zeros(1, 1, dtype=torch.int64), ["$a$"]),
        plotting.curves([0, 1], {"$a$": [0, 1], "b": [1, 0]}, xlabel="x", ylabel="y", milestones={"$a$": 0.5}),
    ):
        dollars = [text for text in ax.findobj(Text) if "$" in text.get_text()]
        assert dollars and not any(text.get_parse_math() or "\\" in text.get_text() for text in dollars)


def test_names_at_the_ends_of_lines_stay_apart(displayed):
    lines = {"c": [0, 3.0], "b": [0, 1.01], "d": [0, 3.0], "a": [1.0, math.nan]}
    ax = plotting.curves([0, 1], lines, xlabel="x", ylabel="y")
    plotting.show("four lines that end in two places")
    heights = {text.get_text(): sum(text.get_window_extent().intervaly) / 2 for text in ax.texts}
    assert sorted(heights, key=heights.get) == ["a", "b", "c", "d"]
    # A line's height.
    assert min(b - a for a, b in itertools.pairwise(sorted(heights.values()))) > 10 * ax.figure.dpi / 72
    assert max(abs(text.get_position()[1]) for text in ax.texts) < 15  # and near their ends


def test_where_numbers_are_negative_colours_lie_evenly_around_zero():
    signed = plotting.heatmap(torch.tensor([[-1.0, 0.0], [2.0, 0.5]]), list("ab"))
    red, green, blue, _ = signed.images[0].to_rgba(signed.images[0].get_array(), bytes=True)[0, 1].tolist()
    low, high = signed.images[0].get_clim()
    assert low == -high == -3 and min(red, green, blue) > 250
    shares = plotting.heatmap(torch.tensor([[1.0, 0.0], [2.0, 0.5]]), list("ab"))
    assert shares.images[0].get_clim() == (0, 2) and shares.images[0].cmap != signed.images[0].cmap


def test_letters_are_read_from_left_to_right_and_pairs_of_lines_share_a_colour():
    ax = plotting.letters({"text": "a b", "next": " bc", "other": "xyz", "last": "yz\n"})
    rows = ["a\u00b7b", "\u00b7bc", "xyz", "yz\u21b5"]
    assert texts_of(ax) == {(x, y): letter for y, row in enumerate(rows) for x, letter in enumerate(row)}
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first line is on top
    assert [label.get_text() for label in ax.get_yticklabels()] == ["text", "next", "other", "last"]
    boxes = [text.get_bbox_patch().get_facecolor() for text in ax.texts[::3]]
    assert boxes[0][:3] == boxes[1][:3] != boxes[2][:3] == boxes[3][:3]
    assert boxes[0] != boxes[1] and boxes[2] != boxes[3]  # but the second of a pair is stronger


def test_live_replaces_its_figure(monkeypatch):
    updates = []

    class Handle(DisplayHandle):
        def update(self, data, **options):
            updates.append(data)
            assert options["raw"] and options["metadata"] == {"image/png": {"alt": "a curve", "width": 700}}

    monkeypatch.setattr(plotting, "display", lambda *a, **k: Handle())
    live = plotting.Live(lambda y: plotting.curves([0, 1], {"loss": y}, xlabel="step", ylabel="loss"), "a curve")
    live.update([2, 1])
    live.update([2, 0])
    assert not plt.get_fignums()  # shown is closed
    assert len(updates) == 2 and updates[0]["image/png"] != updates[1]["image/png"]


def test_the_same_figure_is_the_same_picture_and_a_shown_one_is_closed(displayed):
    for _ in range(2):
        other, _ = plotting.figure()
        shown, ax = plotting.figure()
        ax.plot([0, 1])
        plotting.figure()  # the current one: not what is shown
        plotting.show("a line", shown)
        assert not plt.fignum_exists(shown.number) and plt.fignum_exists(other.number)
    (first, _), (second, _) = displayed
    assert first["image/png"] == second["image/png"] and b"Software" not in first["image/png"]
    plotting.show("nothing", other)
    assert displayed[2][0]["image/png"] != first["image/png"]


def test_logarithmic_axes_show_plain_numbers(monkeypatch):
    """matplotlib writes powers of ten as formulas, which are off for the corpus's dollars."""
    monkeypatch.setattr(plotting, "display", lambda *_, **__: None)
    ax = plotting.curves([1, 10, 100], {"loss": [1, 2, 3]}, xlabel="step", ylabel="loss")
    ax.set_xscale("log")
    plotting.show("a line that rises")
    texts = [label.get_text() for label in ax.get_xticklabels()]
    assert {"1", "10", "100"} <= set(texts) and not any("$" in text for text in texts)


def test_a_table_is_coloured_around_zero_and_greys_its_zeros():
    _, ax = plotting.figure()
    ax.set(xlim=(0, 100), ylim=(100, 0))
    plotting.table(ax, torch.tensor([[1.0, -2.0], [0.0, -torch.inf]]), (10, 20, 60, 40))
    mesh, hatched = ax.collections
    assert mesh.get_clim() == (-3, 3) and mesh.get_array().mask.tolist() == [
        [False, False],
        [True, True],
    ]
    assert hatched.get_hatch() and len(hatched.get_paths()) == 1  # what is not finite
    # Whole numbers stay whole.
    assert texts_of(ax) == {
        (25, 30): "1",
        (55, 30): "−2",
        (25, 50): "0",
    }


def test_arcs_are_as_thick_as_the_weights_and_join_the_right_words():
    ax = plotting.arcs(["a", "b"], ["x", "y"], torch.tensor([[0.0, 1.0], [0.25, 0.75]]))
    # (of read, of written) -> width.
    drawn = {tuple(line.get_xdata()): line.get_linewidth() for line in ax.lines}
    assert drawn == {(1, 0): 6, (0, 1): 1.5, (1, 1): 4.5}
    assert [text.get_text() for text in ax.texts] == ["a", "b", "x", "y"]


def test_the_last_bit_of_a_half_decides_no_digit():
    assert plotting.numeral(1.4949999, 2) == plotting.numeral(1.4950001, 2) == "1.50"
    assert plotting.numeral(-0.0004, 2) == "0.00" and plotting.numeral(-2.5, 1) == "−2.5"


def test_what_comes_after_the_last_colour_is_drawn_too():
    things, colors = zip(*plotting.colored(range(9)), strict=True)
    assert things == (*range(9),) and len(set(colors[:7])) == 7 and colors[7:] == colors[:2]
