"""The drawings around attention, on matplotlib's own objects: heads, block, whole GPT."""

import itertools

import numpy as np
import pytest
import torch
from matplotlib.collections import QuadMesh
from matplotlib.colors import same_color
from matplotlib.patches import FancyArrowPatch, Rectangle

from helpers.attention import MultiHeadAttention, attention, causal_mask
from helpers.gpt import GPT, Block, GPTConfig, attention_maps
from helpers.models import build_gpt
from helpers.modern import ModernConfig
from pictures import block, plotting

WORDS = ["Your", "journey", "starts", "with", "one", "step"]
torch.manual_seed(7)
X = torch.randn(6, 12)
HEADS = MultiHeadAttention(12, 12, 6, 0.0, 3)
CONTEXTS, WEIGHTS = attention(
    *(HEADS.split_heads(W(X[None]))[0] for W in (HEADS.W_query, HEADS.W_key, HEADS.W_value)),
    causal_mask(6),
)
BLOCK = Block(GPTConfig(5, 6, 1, 3, 12, dropout=0.5))
MODEL = GPT(GPTConfig(26, 8, 3, 2, 16, dropout=0.5))
LETTERS = list("abcdefghijklmnopqrstuvwxy ")
TOKENS = torch.tensor([17, 14, 12, 25])


def texts(ax):
    return [text.get_text() for text in ax.texts]


def tables(ax):
    """The numbers of every table, in the order in which they were drawn."""
    return [mesh.get_array().filled(0) for mesh in ax.findobj(QuadMesh)]


def test_a_gpt_of_today_is_drawn_with_what_it_adds_to_its_tokens(drawn):
    """Notebook 08 draws whatever preset it has trained."""
    torch.manual_seed(0)
    today = dict(rotary=True, bigrams=30, before=1, tied=False, mlp="swiglu", mlp_width=20)
    model = build_gpt(ModernConfig(26, 8, 3, 2, 16, n_kv_head=1, **today))
    block.draw_gpt(model, TOKENS, LETTERS)
    ((ax, alt),) = drawn
    labels = {*texts(ax)}
    assert labels >= {"token table", "tokens before", "x", "logits", "T × M = 4 × 20"}
    assert not {"position table", "× token tableᵀ"} & labels
    own, x = model.token_embedding.weight[TOKENS], model.embed(TOKENS[None])[0]
    holds(tables(ax), own, x, x - own, model(TOKENS[None])[0])
    assert "(26 × 16) and tokens before give x" in alt


def holds(found, *wanted):
    for table in wanted:
        like = table.detach().numpy()
        assert any(one.shape == like.shape and np.allclose(one, like, atol=1e-5) for one in found), like.shape


def test_the_map_of_a_block_says_and_colours_what_each_part_costs(drawn):
    block.damage_map({"attention": 0.38, "√D": -0.014, "MLP": 0.21})
    ((ax, alt),) = drawn
    found = texts(ax)
    assert {"attention  +0.38", "÷ √D", "−0.01", "+0.21", "residual stream"} <= {*found}
    assert found.count("LayerNorm") == 2 and "attention +0.38, √D −0.01, MLP +0.21" in alt
    fills = {
        text.get_text(): box.get_facecolor()
        for text in ax.texts
        for box in ax.findobj(Rectangle)
        if box.get_zorder() == 3
        and box.get_x() < text.get_position()[0] < box.get_x() + box.get_width()
        and box.get_y() < text.get_position()[1] < box.get_y() + box.get_height()
    }
    assert fills["values"] == (1, 1, 1, 1) != fills["MLP"]  # parts without a number stay white


def test_the_gpt_is_drawn_from_its_tables_to_the_next_token(drawn):
    block.draw_gpt(MODEL.train(), TOKENS, LETTERS)
    assert MODEL.training
    (ax, alt), _ = drawn.pop(), MODEL.eval()
    table, places, logits = (
        MODEL.token_embedding.weight,
        MODEL.position_embedding.weight,
        MODEL(TOKENS[None])[0],
    )
    stream = [table[TOKENS] + places[:4]]
    for layer in MODEL.blocks:
        stream.append(layer(stream[-1][None])[0])
    maps = attention_maps(MODEL, TOKENS[None])
    holds(
        tables(ax),
        table,
        places,
        table[TOKENS],
        places[:4],
        stream[0],
        stream[-1],
        logits,
        torch.cat([*maps[0, 0]], -1),
    )
    wanted = {
        "V × C = 26 × 16",
        "max T × C = 8 × 16",
        "T × V = 4 × 26",
        "block × 3",
        "after 3 blocks",
        "norm",
        "logits",
    }
    assert wanted <= {*texts(ax)} and [line.get_marker() for line in ax.lines].count("+") == 3
    bars = [patch for patch in ax.findobj(Rectangle) if patch.get_zorder() == 3]
    heights, chances = torch.tensor([bar.get_height() for bar in bars]), logits[-1].softmax(-1)
    assert torch.allclose(heights, 60 * chances / chances.max(), atol=1e-3)
    bold = [text.get_text() for text in ax.texts if text.get_weight() == "bold"]
    best = plotting.labels(LETTERS)[chances.argmax()]
    assert bold == ["block × 3", best] and f"The likeliest next token is {best}, with {chances.max():.3f}." in alt
    assert texts(ax).count("·") == 5 and alt.startswith("A GPT reads r, o, m, ·.")


CASES = {
    "map": lambda: block.damage_map({"attention": 0.38, "residual": 1.2}),
    "gpt": lambda: block.draw_gpt(MODEL, torch.arange(8), LETTERS),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_is_legible_at_700_pixels_and_no_arrow_crosses_a_text(drawn, case):
    CASES[case]()
    ax, _ = drawn.pop()
    renderer = ax.figure.canvas.get_renderer()
    assert ax.figure.get_facecolor() == (1, 1, 1, 1) and ax.figure.get_size_inches()[0] == 10
    written = [text for text in ax.texts if text.get_text()]
    boxes = [text.get_window_extent(renderer) for text in written]
    lines = [
        *ax.findobj(FancyArrowPatch),
        *(p for p in ax.findobj(Rectangle) if same_color(p.get_fc(), "#CFCFCF")),
    ]
    lines = [line.get_window_extent(renderer) for line in lines]
    for text, box in zip(written, boxes, strict=True):
        assert text.get_fontsize() >= 8 and not text.get_parse_math(), text
        assert box.x0 >= 0 and box.x1 <= ax.figure.bbox.x1 and box.y0 >= 0 and box.y1 <= ax.figure.bbox.y1, text
        assert not box.padded(-2).count_overlaps(lines), text
    for (a, one), (b, two) in itertools.combinations(zip(written, boxes, strict=True), 2):
        apart = one.x1 < two.x0 + 1 or two.x1 < one.x0 + 1 or one.y1 < two.y0 + 3 or two.y1 < one.y0 + 3
        assert apart, (a, b)


# ---------------------------------------------------------------- norm, and the stream read aloud
def test_bars_show_a_loud_and_a_faint_word_before_and_after_the_norm(drawn):
    words = {"loud": torch.tensor([8.0, -2, 5, -6]), "faint": torch.tensor([0.9, 0.3, 0.6, 0.1])}
    block.norm_bars(words)
    ((ax, alt),) = drawn
    before, after = ([bar.get_height() for bar in panel.patches] for panel in ax.figure.axes)
    assert np.allclose(before, torch.cat([*words.values()]))
    normed = torch.tensor(after).view(2, 4)
    assert normed.mean(dim=1).abs().max() < 1e-4 and (normed.std(dim=1, correction=0) - 1).abs().max() < 1e-3
    assert "after LayerNorm, the faint word's numbers have mean 0.0 and standard deviation 1.0" in alt


def test_the_stream_is_read_aloud_row_by_row(drawn):
    tokens, coming = torch.tensor([17, 14, 12]), torch.tensor([14, 12, 25])
    sure = torch.eye(26)[tokens], torch.eye(26)[coming]
    block.read_aloud({"before": sure[0], "after": (sure[0] + 2 * sure[1]) / 3}, tokens, coming, LETTERS)
    ((ax, alt),) = drawn
    assert texts(ax) == [*"rom", *"om·", *"om·"]
    assert [text.get_weight() == "bold" for text in ax.texts] == [False] * 3 + [True] * 6
    assert np.allclose(ax.images[0].get_array(), [[1] * 3, [2 / 3] * 3])
    assert "before: r o m (0 of 3 come next); after: o m · (3 of 3 come next)" in alt


def test_a_bend_is_drawn_beside_a_corner(drawn):
    block.bends()
    ((ax, alt),) = drawn
    relu, gelu = (line.get_ydata() for line in ax.lines[1:])
    assert (np.asarray(relu)[:160] == 0).all() and np.asarray(gelu).min() < -0.16
    assert "its lowest, −0.17 at −0.75" in alt
