"""What lesson 09's pictures say of their data, on matplotlib's own objects."""

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import same_color

from pictures import dice, plotting

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0], [0.0, 0.0, 9.0, 0.0]])
ALPHABET = list("Il\n ")


@pytest.fixture
def shown(monkeypatch):
    """What would be displayed: figures and their alternative texts."""
    pictures = []
    plt.switch_backend("agg")
    monkeypatch.setattr(dice, "show", lambda alt: pictures.append((plt.gcf(), alt)))
    yield pictures
    plt.close("all")


def of_letters(texts):
    return [text for text in texts if text.get_text() in ("I", "l")]


def test_letters_stand_in_a_face_that_tells_capital_i_from_small_l(shown):
    dice.wheels(LOGITS[0], ALPHABET, lambda p: p > 0)
    dice.kept(LOGITS, "Il", ALPHABET, {"unsure": 0, "sure": 1}, {"half": lambda p: p > 0.5, "all": lambda p: p > 0})
    dice.surprises({"one": ("Il", torch.ones(2)), "two": ("lI", torch.ones(2))})
    for figure, _ in shown:
        letters = of_letters(figure.findobj(plt.Text))
        assert letters and {text.get_family()[0] for text in letters} == {"monospace"}


def test_a_wheel_says_how_much_the_likeliest_has_and_how_many_stay(shown):
    dice.wheels(LOGITS[0], ALPHABET, lambda p: p > 0.3)
    assert "at 0.5, I has 86%, and 1 letters are kept; at 1, I has 64%" in shown[0][1]


def test_bars_say_after_what_and_never_write_a_newline_as_code_does(shown):
    dice.kept(LOGITS, "I\n", ALPHABET, {"unsure": 0, "sure": 1}, {"half": lambda p: p > 0.5, "all": lambda p: p > 0})
    figure, alt = shown[0]
    assert alt.endswith(
        "half 1 unsure, after “I”, all 4 unsure, after “I”, half 1 sure, after “I↵”, all 4 sure, after “I↵”."
    )
    assert figure.axes[2].get_title() == "sure, after “I↵”: half keeps 1"


def test_surprises_share_a_scale_and_what_is_above_the_line_stands_out(shown):
    dice.surprises({"human": ("ab ", torch.tensor([1.0, 5.0, 9.4])), "greedy": ("aa\n", torch.tensor([1.0, 0.5, 0.3]))})
    figure, alt = shown[0]
    assert "human: 5.1 on average, 2 above 4, and the most, 9.4, at '·'; greedy: 0.6 on average, 0 above 4" in alt
    assert [ax.get_ylim() for ax in figure.axes] == [(0, 8), (0, 8)]
    colors = [bar.get_facecolor() for bar in figure.axes[0].patches]
    assert [same_color(color[:3], plotting.COLORS[1]) for color in colors] == [False, True, True]
    assert [text.get_text() for text in figure.axes[0].texts] == ["9"]  # what the scale can't hold


def test_a_contest_draws_a_curve_of_means_and_one_for_each_network(shown):
    cooling = {1.0: [(0.5, 100), (0.6, 120)], 0.5: [(0.8, 110), (0.9, 130)]}
    dice.contest({"cooling": cooling}, {"both": [(0.7, 90), (0.9, 110)]}, (0.94, 314), {"cooling": [0.5]})
    figure, alt = shown[0]
    assert "cooling: 55% of 110 at 1, 85% of 120 at 0.5. both: 80% of 100. Shakespeare: 94% of 314." in alt
    (ax,) = figure.axes
    thin = [line.get_xydata().tolist() for line in ax.lines if line.get_linewidth() == 1]
    assert thin == [[[100, 0.5], [110, 0.8]], [[120, 0.6], [130, 0.9]]]
    assert "0.5" in [text.get_text() for text in ax.texts] and "1" not in [text.get_text() for text in ax.texts]
