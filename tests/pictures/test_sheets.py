"""The machine with its heads: real attention, and a sum that can be checked by eye."""

import itertools

import matplotlib.pyplot as plt
import pytest
import torch

from helpers.attention import attention
from pictures import multi_head, sheets
from pictures.plotting import numeral


@pytest.fixture
def scene():
    """Words, names of numbers, x, and both heads with their tables."""
    words, numbers, x, matrices = multi_head.letter()
    heads = {}
    for question, (W_query, W_key, W_value, of_W_o) in matrices.items():
        query, key, value = x @ W_query, x @ W_key, x @ W_value
        context, weights = attention(query, key, value)
        tables = {"query": query, "key": key, "value": value, "weights": weights, "context": context, "slice": of_W_o}
        heads[question] = tables
    yield words, numbers, x, heads
    plt.close("all")


def test_one_head_finds_the_letter_and_the_other_what_was_done_to_it(scene):
    words, _, _, heads = scene
    thing, deed = (head["weights"][words.index("it")] for head in heads.values())
    for row, found, rival in ((thing, "letter", "table"), (deed, "opened", "took")):
        assert words[row.argmax()] == found
        assert row.max() == pytest.approx(0.833, abs=0.002) and row[words.index(rival)] < 0.07


def test_the_contributions_add_up_to_the_joined_contexts_times_all_of_W_o(scene):
    words, numbers, x, heads = scene
    tables = sheets.draw(words, numbers, x, heads, follow=9).data["tables"]
    joined = torch.cat([head["context"] for head in heads.values()], dim=-1)
    W_o = torch.cat([head["slice"] for head in heads.values()])
    assert torch.allclose(torch.tensor(tables["output"]), joined @ W_o, atol=1e-4)
    added = torch.tensor(tables["contribution 1"]) + torch.tensor(tables["contribution 2"])
    assert torch.allclose(added, joined @ W_o, atol=2e-4)
    assert (added[9].abs() > 0.5).all() and all(min(map(abs, tables[f"contribution {h}"][9])) > 0.2 for h in (1, 2))


def test_printed_to_two_decimals_every_sum_is_right(scene):
    """Somebody adds them up by hand, for any word."""
    contributions = [(head["context"] @ head["slice"]).double() for head in scene[3].values()]
    output = sum(contributions)
    for one, two, total in zip(*(table.flatten().tolist() for table in (*contributions, output)), strict=True):
        printed = [round(100 * float(numeral(x, 2).replace("−", "-"))) for x in (one, two, total)]
        assert printed[0] + printed[1] == printed[2]
    # And on another processor, too.
    for table in (*contributions, output):
        assert ((100 * table) % 1 - 0.5).abs().min() > 0.02


def test_its_text_says_where_the_heads_look_and_what_they_add_up_to(scene):
    words, numbers, x, heads = scene
    text = sheets.draw(words, numbers, x, heads, follow=9).text
    assert "head 1 (which thing?) gives 0.83 to letter, head 2 (which deed?) gives 0.83 to opened" in text
    assert "thing 0.90 + 0.45 = 1.35; deed −0.45 + 1.80 = 1.35; opens 0.90 + 0.90 = 1.80" in text


@pytest.mark.parametrize("follow", [0, 3, 9])
def test_no_text_of_the_picture_touches_another_or_is_cut(scene, follow):
    words, numbers, x, heads = scene
    figure = sheets.draw(words, numbers, x, heads, follow=follow).figure
    written = [text for text in figure.axes[0].texts if text.get_text()]
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in written]
    for text, box in zip(written, boxes, strict=True):
        assert text.get_fontsize() / 72 * 700 / figure.get_size_inches()[0] >= 8, text
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1, text
    for (a, one), (b, two) in itertools.combinations(zip(written, boxes, strict=True), 2):
        apart = one.x1 < two.x0 + 1 or two.x1 < one.x0 + 1 or one.y1 < two.y0 + 3 or two.y1 < one.y0 + 3
        assert apart, (a, b)
