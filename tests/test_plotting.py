import matplotlib.pyplot as plt
import pytest
import torch

from helpers import plotting


@pytest.fixture(autouse=True)
def displayed(monkeypatch):
    """What would be displayed, instead of displaying it; every figure is closed afterwards."""
    plt.switch_backend("agg")
    outputs = []
    monkeypatch.setattr(plotting, "display", lambda data, **options: outputs.append((data, options)))
    yield outputs
    plt.close("all")


def test_show_gives_the_picture_its_text(displayed):
    plotting.bars(["a", " ", "\n", "$"], [1, 2, 3, 4], ylabel="count")
    plotting.show("four bars")
    data, options = displayed[0]
    assert data["text/plain"] == "four bars" and data["image/png"].startswith(b"\x89PNG")
    assert options["metadata"] == {"image/png": {"alt": "four bars"}}


def test_a_figure_without_a_text_is_refused():
    with pytest.raises(ValueError, match="alternative text"):
        plotting.show("  ")


def test_labels_are_the_tokens():
    ax = plotting.heatmap(torch.eye(3), ["to", " ", "\n"], decimals=1)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["to", "\u00b7", "\u21b5"]
    assert [text.get_text() for text in ax.texts][:4] == ["1.0", "0.0", "0.0", "0.0"]
    with pytest.raises(ValueError, match="2 row and 2 column labels"):
        plotting.heatmap(torch.eye(3), ["a", "b"])


def test_written_numbers_stand_out_from_their_cells():
    ax = plotting.heatmap(torch.tensor([[0.0, 1.0]]), ["q"], ["dark", "bright"])
    assert [text.get_color() for text in ax.texts] == ["white", "black"]


def test_rows_go_down_and_columns_to_the_right():
    ax = plotting.heatmap(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), ["up", "down"], ["l", "m", "r"], decimals=0)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["up", "down"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["l", "m", "r"]
    assert [text.get_text() for text in ax.texts] == list("123456")
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row is on top
    assert ax.images[0].get_array().tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1), (2, 2)])
def test_head_grid(shape):
    figure = plotting.head_grid(torch.rand(*shape, 4, 4), list("verb"))
    assert [ax.get_title() for ax in figure.axes][-1] == f"layer {shape[0]}, head {shape[1]}"


def test_curves_differ_in_marker_as_well_as_in_colour():
    ax = plotting.curves([1, 2], {"one": [1, 2], "two": [2, 1]}, xlabel="x", ylabel="y", milestones={"level": 1.5})
    first, second = ax.lines[:2]
    assert first.get_marker() != second.get_marker() and first.get_color() != second.get_color()


def test_live_replaces_its_figure(monkeypatch):
    updates = []

    class Handle:
        def update(self, data, **options):
            updates.append(data)

    monkeypatch.setattr(plotting, "display", lambda *a, **k: Handle())
    live = plotting.Live(lambda y: plotting.curves([0, 1], {"loss": y}, xlabel="step", ylabel="loss"), "a curve")
    live.update([2, 1])
    live.update([2, 0])
    assert not plt.get_fignums()  # shown is closed
    assert len(updates) == 2 and updates[0]["image/png"] != updates[1]["image/png"]


def test_cells_of_one_group_share_a_colour():
    ax = plotting.cells([["a 1", "a 2"], ["b 1", "b 2"]], torch.tensor([[0, 1], [0, 1]]), ["a", "b"])
    assert [text.get_text() for text in ax.texts] == ["a 1", "a 2", "b 1", "b 2"]
    colors = [patch.get_facecolor() for patch in ax.patches]
    assert colors[0] == colors[2] != colors[1] == colors[3]
