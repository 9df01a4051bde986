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
    monkeypatch.setattr(
        plotting, "display", lambda data, **options: outputs.append((data, options))
    )
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


def test_labels_are_the_tokens():
    ax = plotting.heatmap(torch.eye(3), ["to", " ", "\n"], decimals=1)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["to", "\u00b7", "\u21b5"]
    assert [text.get_text() for text in ax.texts][:4] == ["1.0", "0.0", "0.0", "0.0"]
    with pytest.raises(ValueError, match="2 row and 2 column labels"):
        plotting.heatmap(torch.eye(3), ["a", "b"])
    with pytest.raises(ValueError, match="1 row and 4 column labels"):
        plotting.heatmap(torch.eye(2), ["a"], list("abcd"))


def test_written_numbers_stand_out_from_their_cells():
    """Black, on white for the smallest number and on a green for the largest that is light enough
    (WCAG 2.2: 4.5).
    """
    ax = plotting.heatmap(torch.tensor([[0.0, 1.0]]), ["q"], ["white", "green"])
    pixels = ax.images[0].to_rgba(ax.images[0].get_array())[0, :, :3]
    assert pixels[0].tolist() == [1, 1, 1] and pixels[1].argmax() == 1
    linear = ((pixels + 0.055) / 1.055) ** 2.4
    assert ((linear @ [0.2126, 0.7152, 0.0722] + 0.05) / 0.05).min() > 4.5
    assert {text.get_color() for text in ax.texts} == {"black"}


def test_rows_go_down_and_columns_to_the_right():
    ax = plotting.heatmap(
        torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        ["up", "down"],
        ["l", "m", "r"],
        decimals=0,
    )
    assert [label.get_text() for label in ax.get_yticklabels()] == ["up", "down"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["l", "m", "r"]
    assert [text.get_text() for text in ax.texts] == list("123456")
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row is on top
    assert ax.images[0].get_array().tolist() == [[1, 2, 3], [4, 5, 6]]


def texts_of(ax):
    """The texts written into a figure by their place: (column, row) -> text."""
    return {text.get_position(): text.get_text() for text in ax.texts}


def test_the_axes_are_called_what_they_are():
    ax = plotting.heatmap(torch.eye(2), ["a", "b"], title="a title")
    assert (ax.get_ylabel(), ax.get_xlabel(), ax.get_title()) == ("query", "key", "a title")
    ax = plotting.heatmap(torch.eye(2), ["a", "b"], row_name="Spanish", column_name="English")
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("Spanish", "English")


def test_limits_make_two_figures_comparable():
    matrix = torch.tensor([[0.2, float("nan"), 0.4]])
    ax = plotting.heatmap(matrix, ["q"], ["a", "b", "c"], limits=(0, 1))
    assert ax.images[0].get_clim() == (0, 1)
    ax = plotting.heatmap(matrix, ["q"], ["a", "b", "c"])
    assert ax.images[0].get_clim() == pytest.approx(
        (0.2, 0.4)
    )  # else the smallest and the largest number


@pytest.mark.slow
def test_the_numbers_stand_in_their_cells_and_what_is_missing_stays_grey():
    ax = plotting.heatmap(
        torch.tensor([[1.0, float("nan")], [3.0, 4.0], [5.0, 6.0]]), list("abc"), list("xy")
    )
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
        plotting.arrows({"$a$": torch.tensor([1.0, 2.0])}),
        plotting.curves(
            [0, 1], {"$a$": [0, 1], "b": [1, 0]}, xlabel="x", ylabel="y", milestones={"$a$": 0.5}
        ),
    ):
        dollars = [text for text in ax.findobj(Text) if "$" in text.get_text()]
        assert dollars and not any(
            text.get_parse_math() or "\\" in text.get_text() for text in dollars
        )


def test_every_head_is_drawn_in_its_place():
    maps = torch.arange(2 * 3 * 4 * 4).view(2, 3, 4, 4) / 96
    figure = plotting.head_grid(maps, list("verb"))
    grid = [(layer, head) for layer in range(2) for head in range(3)]
    assert [ax.get_title() for ax in figure.axes] == [
        f"layer {i + 1}, head {j + 1}" for i, j in grid
    ]
    for ax, (layer, head) in zip(figure.axes, grid, strict=True):
        drawn, past = ax.images[0].get_array(), torch.ones(4, 4).tril().bool()
        assert drawn[past].tolist() == pytest.approx(maps[layer, head][past].tolist())
        assert torch.tensor(drawn.mask).equal(~past)  # the future is grey
        assert ax.images[0].get_clim() == (0, 0.6) and not ax.texts
        assert [label.get_text() for label in ax.get_yticklabels()] == list("verb")
        place = ax.get_subplotspec()
        assert (place.rowspan.start, place.colspan.start) == (layer, head)
    # The names of the axes stand at the edge of the grid only.
    assert [ax.get_ylabel() for ax in figure.axes] == ["query", "", ""] * 2
    assert [ax.get_xlabel() for ax in figure.axes] == [""] * 3 + ["key"] * 3


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1)])
def test_a_grid_of_one_row_or_column_is_a_grid_too(shape):
    figure = plotting.head_grid(torch.rand(*shape, 4, 4), list("verb"))
    assert [ax.get_title() for ax in figure.axes][-1] == f"layer {shape[0]}, head {shape[1]}"


def test_curves_show_their_numbers_by_name():
    lines = {"one": [1, 2], "two": torch.tensor([2.0, 1.0])}
    ax = plotting.curves([10, 20], lines, xlabel="step", ylabel="loss", title="a title")
    assert [(line.get_label(), *map(list, line.get_data())) for line in ax.lines] == [
        ("one", [10, 20], [1, 2]),
        ("two", [10, 20], [2, 1]),
    ]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("step", "loss", "a title")
    assert [(text.get_text(), text.xy) for text in ax.texts] == [("one", (20, 2)), ("two", (20, 1))]
    assert [text.get_color() for text in ax.texts] == [line.get_color() for line in ax.lines]
    first, second = ax.lines  # for those who see no colours, too
    assert first.get_marker() != second.get_marker() and first.get_color() != second.get_color()


def test_names_at_the_ends_of_lines_stay_apart(displayed):
    lines = {"c": [0, 3.0], "b": [0, 1.01], "d": [0, 3.0], "a": [1.0, math.nan]}
    ax = plotting.curves([0, 1], lines, xlabel="x", ylabel="y")
    plotting.show("four lines that end in two places")
    where = {text.get_text(): sum(text.get_window_extent().intervaly) / 2 for text in ax.texts}
    assert sorted(where, key=where.get) == ["a", "b", "c", "d"]
    assert (
        min(b - a for a, b in itertools.pairwise(sorted(where.values()))) > 10 * ax.figure.dpi / 72
    )  # a line's height
    assert max(abs(text.get_position()[1]) for text in ax.texts) < 15  # and near their ends


def test_where_numbers_are_negative_colours_lie_evenly_around_zero():
    signed = plotting.heatmap(torch.tensor([[-1.0, 0.0], [2.0, 0.5]]), list("ab"))
    red, green, blue, _ = (
        signed.images[0].to_rgba(signed.images[0].get_array(), bytes=True)[0, 1].tolist()
    )
    low, high = signed.images[0].get_clim()
    assert low == -high == -3 and min(red, green, blue) > 250
    shares = plotting.heatmap(torch.tensor([[1.0, 0.0], [2.0, 0.5]]), list("ab"))
    assert shares.images[0].get_clim() == (0, 2) and shares.images[0].cmap != signed.images[0].cmap


def test_milestones_lie_at_their_levels():
    levels = {"uniform": 4.17, "bigram": 2.45}
    ax = plotting.curves([0, 9], {"loss": [4, 2]}, xlabel="step", ylabel="loss", milestones=levels)
    for (name, level), line, text in zip(levels.items(), ax.lines[1:], ax.texts, strict=True):
        assert list(line.get_ydata()) == [level, level] and line.get_linestyle() == "--"
        assert text.get_text() == name and text.xy[1] == level


def test_letters_are_read_from_left_to_right_and_pairs_of_lines_share_a_colour():
    ax = plotting.letters({"text": "a b", "next": " bc", "other": "xyz", "last": "yz\n"})
    rows = ["a\u00b7b", "\u00b7bc", "xyz", "yz\u21b5"]
    assert texts_of(ax) == {
        (x, y): letter for y, row in enumerate(rows) for x, letter in enumerate(row)
    }
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first line is on top
    assert [label.get_text() for label in ax.get_yticklabels()] == ["text", "next", "other", "last"]
    boxes = [text.get_bbox_patch().get_facecolor() for text in ax.texts[::3]]
    assert boxes[0][:3] == boxes[1][:3] != boxes[2][:3] == boxes[3][:3]
    assert boxes[0] != boxes[1] and boxes[2] != boxes[3]  # but the second of a pair is stronger


@pytest.mark.slow
def test_live_replaces_its_figure(monkeypatch):
    updates = []

    class Handle(DisplayHandle):
        def update(self, data, **options):
            updates.append(data)
            assert options["raw"] and options["metadata"] == {
                "image/png": {"alt": "a curve", "width": 700}
            }

    monkeypatch.setattr(plotting, "display", lambda *a, **k: Handle())
    live = plotting.Live(
        lambda y: plotting.curves([0, 1], {"loss": y}, xlabel="step", ylabel="loss"), "a curve"
    )
    live.update([2, 1])
    live.update([2, 0])
    assert not plt.get_fignums()  # shown is closed
    assert len(updates) == 2 and updates[0]["image/png"] != updates[1]["image/png"]


def test_cells_of_one_group_share_a_colour():
    groups = torch.tensor([[0, 1, 1], [1, 0, 2]])
    ax = plotting.cells([["a", "b", "c"], ["d", "e", "f"]], groups, ["up", " "], title="a title")
    assert texts_of(ax) == {
        (0, 0): "a",
        (1, 0): "b",
        (2, 0): "c",
        (0, 1): "d",
        (1, 1): "e",
        (2, 1): "f",
    }
    assert ax.get_ylim()[0] > ax.get_ylim()[1] and ax.get_title() == "a title"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["up", "\u00b7"]
    colors = {}
    for patch in ax.patches:
        (x, y), width, height = patch.get_xy(), patch.get_width(), patch.get_height()
        column, row = round(x + width / 2), round(y + height / 2)
        colors.setdefault(int(groups[row, column]), set()).add(patch.get_facecolor())
    assert len(ax.patches) == 6 and all(len(shades) == 1 for shades in colors.values())
    assert len(set.union(*colors.values())) == 3


def test_arrows_lead_from_the_origin_to_their_vectors():
    vectors = {"query": torch.tensor([1.0, 2.0]), "key": torch.tensor([-3.0, -1.0])}
    ax = plotting.arrows(vectors, title="a title")
    arrows = [text for text in ax.texts if getattr(text, "arrow_patch", None)]
    assert [(arrow.xy, arrow.xyann) for arrow in arrows] == [((1, 2), (0, 0)), ((-3, -1), (0, 0))]
    for name, vector in vectors.items():
        text = next(text for text in ax.texts if text.get_text() == name)
        x, y = text.get_position()
        assert abs(x - vector[0]) < 1 and abs(y - vector[1]) < 1  # at the tip
        low, high = ax.get_xlim()
        assert low < x < high and ax.get_ylim() == (low, high)  # inside the picture
    assert ax.get_aspect() == 1 and ax.get_title() == "a title"  # or lengths and angles would lie


def test_figures_stand_side_by_side_in_the_style_of_the_series():
    fig, axes = plotting.figure(8, 3, columns=3, rows=2, widths=[2, 1, 1])
    assert axes.shape == (2, 3) and tuple(fig.get_size_inches()) == (8, 3)
    assert axes[0, 0].get_subplotspec().get_gridspec().get_width_ratios() == [2, 1, 1]
    assert fig.get_facecolor() == (1, 1, 1, 1)  # white, on a dark page too
    assert axes[0, 0].plot([0, 1])[0].get_color() == plotting.COLORS[0]


@pytest.mark.slow
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
    """Formulas are switched off, for the sake of the corpus's dollars, and matplotlib writes powers
    of ten as such.
    """
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
    assert texts_of(ax) == {
        (25, 30): "1",
        (55, 30): "−2",
        (25, 50): "0",
    }  # whole numbers stay whole


@pytest.mark.parametrize(("width", "text"), [(60, "−0.26"), (7, "−0.3"), (4, None)])
def test_a_table_writes_as_many_decimals_as_fit(width, text):
    _, ax = plotting.figure()
    ax.set(xlim=(0, 100), ylim=(100, 0))
    plotting.table(ax, torch.tensor([[-0.256, -0.001]]).T, (0, 0, width, 50))
    found = [written.get_text() for written in ax.texts]
    assert found == ([] if text is None else [text, "0.00" if width == 60 else "0.0"])


@pytest.mark.slow
def test_arcs_are_as_thick_as_the_weights_and_join_the_right_words():
    ax = plotting.arcs(["a", "b"], ["x", "y"], torch.tensor([[0.0, 1.0], [0.25, 0.75]]))
    drawn = {
        tuple(line.get_xdata()): line.get_linewidth() for line in ax.lines
    }  # (of read, of written) -> width
    assert drawn == {(1, 0): 6, (0, 1): 1.5, (1, 1): 4.5}
    assert [text.get_text() for text in ax.texts] == ["a", "b", "x", "y"]
    with pytest.raises(ValueError, match=r"2 words written, 1 read: weights are of shape \(2, 2\)"):
        plotting.arcs(["a"], ["x", "y"], torch.ones(2, 2))


def test_the_bottleneck_has_one_vector_or_a_line_from_each_state():
    _, (left, right) = plotting.figure(columns=2)
    plotting.bottleneck("abc", "cba", ax=left)
    plotting.bottleneck("abc", "cba", row=1, ax=right)
    assert "one vector" in [text.get_text() for text in left.texts]
    assert "one vector" not in [text.get_text() for text in right.texts]
    assert [line.get_xdata()[1] for line in left.lines] == [1, 1, 1]  # all through the middle
    assert [tuple(line.get_xdata()) for line in right.lines] == [(0, 1), (1, 1), (2, 1)]
