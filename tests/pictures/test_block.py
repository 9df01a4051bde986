"""The drawings around attention, on matplotlib's own objects: heads side by side, the block, the
whole GPT.
"""

import itertools

import numpy as np
import pytest
import torch
from matplotlib.collections import QuadMesh
from matplotlib.colors import same_color
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import nn

from helpers.attention import MultiHeadAttention, attention, causal_mask
from helpers.counted import build_gpt
from helpers.errors import ConfigError
from helpers.gpt import GPT, Block, GPTConfig, attention_maps
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


TODAY = {
    "rotary": dict(rotary=True),
    "rotary and tables": dict(
        rotary=True, bigrams=30, before=1, tied=False, mlp="swiglu", mlp_width=20, n_kv_head=1
    ),
    "positions and tables": dict(trigrams=30),
}
ADDED = {
    "rotary": "",
    "rotary and tables": "tokens before",
    "positions and tables": "positions, tokens before",
}


@pytest.mark.parametrize("name", TODAY)
def test_a_gpt_of_today_is_drawn_with_what_it_adds_to_its_tokens(drawn, name):
    """Notebook 08 draws whatever preset it has trained."""
    torch.manual_seed(0)
    model = build_gpt(ModernConfig(26, 8, 3, 2, 16, **TODAY[name]))
    block.draw_gpt(model, TOKENS, LETTERS)
    ((ax, alt),) = drawn
    found = {*texts(ax)}
    assert ("position table" in found) == (name == "positions and tables")
    assert found >= {"token table", "x", "logits", *filter(None, [ADDED[name]])}
    assert ("× token tableᵀ" in found) == model.config.tied
    width = model.config.mlp_width
    assert (f"T × M = 4 × {width}" if width else "T × 4C = 4 × 64") in found
    own = model.token_embedding.weight[TOKENS]
    x = model.embed(TOKENS[None])[0]
    holds(tables(ax), own, x, model(TOKENS[None])[0], *([x - own] if ADDED[name] else []))
    assert (
        f"({26} × {16}) " + ("gives x" if not ADDED[name] else f"and {ADDED[name]} give x") in alt
    )


def holds(found, *wanted):
    for table in wanted:
        like = table.detach().numpy()
        assert any(
            one.shape == like.shape and np.allclose(one, like, atol=1e-5) for one in found
        ), like.shape


def test_heads_stand_side_by_side_and_are_joined_to_the_output(drawn):
    block.draw_heads(WORDS, WEIGHTS, CONTEXTS, HEADS.out_proj, causal_mask(6))
    (ax, alt), joined = drawn.pop(), torch.cat([*CONTEXTS], dim=-1)
    holds(tables(ax), *WEIGHTS, *CONTEXTS, joined, HEADS.out_proj.weight.T, HEADS(X[None])[0])
    wanted = {
        "head 1",
        "head 2",
        "head 3",
        "joined: T × H·D = 6 × 12",
        "W_o: H·D × C = 12 × 12",
        "output: T × C = 6 × 12",
    }
    assert (
        wanted <= {*texts(ax)}
        and texts(ax).count("journey") == 3
        and texts(ax).count("T × D = 6 × 4") == 3
    )
    assert f"{WEIGHTS[1, 5, 2]:.2f}" in texts(ax) and "+ b\n=" in texts(ax)
    framed = [patch for patch in ax.findobj(Rectangle) if patch.get_linewidth() == 2.4]
    for h in range(3):  # a head has one colour, from its weights to its share of what is joined
        assert len({patch.get_edgecolor() for patch in framed[3 * h : 3 * h + 3]}) == 1
    assert len({patch.get_edgecolor() for patch in framed}) == 3
    most, where = WEIGHTS[2, 5].max(0)
    assert alt.startswith("3 heads side by side") and f"head 3 {most:.2f} for {WORDS[where]}" in alt
    block.draw_heads(WORDS, WEIGHTS, CONTEXTS, nn.Linear(12, 5, bias=False), causal_mask(6))
    assert {"=", "output: T × C = 6 × 5"} <= {*texts(drawn.pop()[0])}


def test_the_block_is_drawn_with_what_it_computes_without_dropout(drawn):
    BLOCK.train()
    block.draw_block(WORDS, BLOCK, X)
    assert BLOCK.training and BLOCK.mlp.training
    (ax, alt), _ = drawn.pop(), BLOCK.eval()
    read = BLOCK.norm1(X[None])
    talk, weights = BLOCK.attention(read, return_weights=True)
    again = BLOCK.norm2(X + talk)
    stream = X, (X + talk)[0], BLOCK(X[None])[0], talk[0], BLOCK.mlp(again)[0]
    holds(
        tables(ax),
        *stream,
        read[0],
        again[0],
        BLOCK.mlp[1](BLOCK.mlp[0](again))[0],
        torch.cat([*weights[0]], -1),
    )
    limits = [mesh.get_clim() for mesh in ax.findobj(QuadMesh)]
    assert (
        limits.count(max(limits, key=lambda pair: pair[1])) >= 5
    )  # one scale for the stream and what is added to it
    wanted = [
        "x",
        "x + attention",
        "x + both",
        "attention: words talk",
        "MLP: each word thinks",
        "T × 4C = 6 × 48",
    ]
    assert {*wanted, "H × T × T = 3 × 6 × 6"} <= {*texts(ax)}
    assert [texts(ax).count(text) for text in ("norm", "reads", "writes", "to add", "journey")] == [
        2,
        2,
        2,
        2,
        3,
    ]
    assert [line.get_marker() for line in ax.lines].count("+") == 2
    assert (
        f"adds a table {talk.norm() / X.norm():.2f} times as long as x" in alt
        and "6 words of 12 numbers" in alt
    )


def test_parts_of_the_block_can_be_called_otherwise(drawn):
    block.draw_block(WORDS, BLOCK, X, {"norm": "LayerNorm?", "writes": "the residual path?"})
    found = texts(drawn.pop()[0])
    assert found.count("LayerNorm?") == found.count("the residual path?") == 2 and not {
        "norm",
        "writes",
    } & set(found)
    assert "MLP: each word thinks" in found


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
    assert (
        bold == ["block × 3", best]
        and f"The likeliest next token is {best}, with {chances.max():.3f}." in alt
    )
    assert texts(ax).count("·") == 5 and alt.startswith("A GPT reads r, o, m, ·.")


def test_of_many_tokens_only_the_likeliest_is_named(drawn):
    model = GPT(GPTConfig(300, 4, 1, 1, 8))
    block.draw_gpt(model, torch.tensor([1, 2]), [f"w{i}" for i in range(300)])
    ax, _ = drawn.pop()
    assert (
        len([text for text in texts(ax) if text.startswith("w") and text not in ("w1", "w2")]) <= 1
    )


CASES = {
    "heads": lambda: block.draw_heads(WORDS, WEIGHTS, CONTEXTS, HEADS.out_proj, causal_mask(6)),
    "one head": lambda: block.draw_heads(
        WORDS, WEIGHTS[:1], CONTEXTS[:1], nn.Linear(4, 4), causal_mask(6)
    ),
    "eight heads": lambda: block.draw_heads(
        ["tokenization"] * 4,
        torch.rand(8, 4, 4),
        torch.rand(8, 4, 2),
        nn.Linear(16, 16),
        causal_mask(4),
    ),
    "block": lambda: block.draw_block(WORDS, BLOCK, X),
    "one word": lambda: block.draw_block(["tokenization"], BLOCK, X[:1]),
    "gpt": lambda: block.draw_gpt(MODEL, TOKENS, LETTERS),
    "full": lambda: block.draw_gpt(MODEL, torch.arange(8), LETTERS),
    "one letter": lambda: block.draw_gpt(MODEL, TOKENS[:1], LETTERS),
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
        assert (
            box.x0 >= 0
            and box.x1 <= ax.figure.bbox.x1
            and box.y0 >= 0
            and box.y1 <= ax.figure.bbox.y1
        ), text
        assert not box.padded(-2).count_overlaps(lines), text
    for (a, one), (b, two) in itertools.combinations(zip(written, boxes, strict=True), 2):
        apart = (
            one.x1 < two.x0 + 1 or two.x1 < one.x0 + 1 or one.y1 < two.y0 + 3 or two.y1 < one.y0 + 3
        )
        assert apart, (a, b)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: block.draw_heads(WORDS[:5], WEIGHTS, CONTEXTS, HEADS.out_proj, causal_mask(6)),
            "5 tokens; weights",
        ),
        (
            lambda: block.draw_heads(WORDS, WEIGHTS[:2], CONTEXTS, HEADS.out_proj, causal_mask(6)),
            r"contexts \(3, 6, 4\)",
        ),
        (
            lambda: block.draw_heads(WORDS, WEIGHTS, CONTEXTS, nn.Linear(4, 4), causal_mask(6)),
            "W_o for 4 numbers",
        ),
        (
            lambda: block.draw_heads(WORDS, WEIGHTS, CONTEXTS, HEADS.out_proj, causal_mask(5)),
            r"mask \(5, 5\)",
        ),
        (lambda: block.draw_block(WORDS[:5], BLOCK, X), r"5 tokens, a stream of shape \(6, 12\)"),
        (
            lambda: block.draw_block(WORDS, BLOCK, X[None]),
            r"shape \(1, 6, 12\).*a row of 12 numbers",
        ),
        (lambda: block.draw_block(WORDS, BLOCK, X[:, :5]), r"shape \(6, 5\)"),
        (lambda: block.draw_block([], BLOCK, X[:0]), "0 tokens"),
        (lambda: block.draw_gpt(MODEL, TOKENS[None], LETTERS), r"tokens of shape \(1, 4\)"),
        (lambda: block.draw_gpt(MODEL, torch.arange(9), LETTERS), "it takes 1 to 8 ids below 26"),
        (
            lambda: block.draw_gpt(MODEL, torch.tensor([26]), LETTERS),
            "it takes 1 to 8 ids below 26",
        ),
        (lambda: block.draw_gpt(MODEL, TOKENS, LETTERS[:5]), "5 names"),
    ],
)
def test_what_does_not_fit_is_named(drawn, call, message):
    with pytest.raises(ConfigError, match=message):
        call()
