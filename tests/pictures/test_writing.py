"""Lesson 08's pictures: none is wider than a page, and what is said of them is what their numbers say."""

import matplotlib.pyplot as plt
import pytest
import torch

from helpers.gpt import GPT, GPTConfig
from helpers.modern import ModernConfig, ModernGPT
from pictures import heads, plotting, writing


@pytest.fixture
def said(monkeypatch):
    """The alternative texts of what would be shown, once its width is known to fit."""
    texts = []
    plt.switch_backend("agg")

    def note(alt):
        _, metadata = plotting.output(alt)
        assert metadata["image/png"]["width"] <= 750
        texts.append(alt)

    monkeypatch.setattr(heads, "show", note)
    monkeypatch.setattr(writing, "show", note)
    yield texts
    plt.close("all")


def test_the_head_that_looks_at_the_letter_before_is_framed(said):
    weights = torch.full((2, 2, 5, 5), 0.2).tril()
    weights[1, 0] = torch.eye(5).roll(-1, 1).tril()
    weights[1, 0].diagonal(-1).fill_(0.9)
    heads.maps(weights, "a b\nc")
    assert "head 2.1" in said[0] and "90% of its attention" in said[0] and "more than 20% there" in said[0]


def head_lines():
    return [
        {"seed": seed, "layer": layer, "head": head, "one_back": 0.9 if (layer, head) == (1, seed) else 0.1}
        | {"two_back": 0.2, "three_back": 0.1, "cost": 0.8 if (layer, head) == (1, seed) else 0.01 * layer}
        for seed in (1, 2)
        for layer in (1, 2)
        for head in (1, 2)
    ]


def test_costs_name_the_place_of_the_head_that_looks_back(said):
    heads.costs(head_lines())
    assert said[0].count("90%, in layer 1, costs 0.80, number 1 of 4; of the others the costliest 0.02") == 2
    assert heads.keenest(head_lines()[4:])["head"] == 2


def test_growth_says_when_a_head_looks_back_for_the_most_part(said):
    grown = zip((0, 25, 100, 500), (0.1, 0.1, 0.6, 0.9), (4.2, 2.7, 2.3, 1.9), strict=True)
    lines = [
        {"seed": 1, "step": step, "loss": loss, "without": loss + share, "1.2": share} for step, share, loss in grown
    ]
    heads.growth(lines, {1: "1.2"}, pairs=2.5)
    assert (
        "network 1: above one half from step 100, 90% at the end, where the loss is 1.90, and 2.80 without" in said[0]
    )
    assert "a table of pairs has 2.50" in said[0]


def test_where_a_gpts_numbers_are_adds_up(said):
    writing.parameters(GPT(GPTConfig(65, 64, n_layer=4, n_head=4, n_embd=128)))
    assert "The 804,096 numbers" in said[0] and "MLPs 524,288 (65.2%); attention 262,144 (32.6%)" in said[0]
    assert "tables 16,512 (2.1%); norms 1,152 (0.1%)" in said[0] and 524_288 + 262_144 + 16_512 + 1_152 == 804_096


def test_of_todays_models_there_is_only_the_count(said, capsys):
    writing.parameters(ModernGPT(ModernConfig(65, 64, n_layer=1, n_head=2, n_embd=8, rotary=True)))
    assert "numbers: one of today's models" in capsys.readouterr().out and not said


def test_the_tower_shows_parameters_beside_each_loss(said):
    rungs = {"a table": (2.5, "abc" * 30, 4225), "three that don't add": (3.25, "x\u21b5y", 107_457)}
    writing.tower(rungs, {"a table": ["pairs"], "three that don't add": ["heads", "MLP"] * 3})
    assert "a table: 2.50, 4,225 parameters" in said[0] and "don't add: 3.25, 107,457 parameters" in said[0]


def test_the_passage_says_from_where_to_where_its_colours_go(said):
    writing.surprise_text({0: torch.full((44,), 4.2), 2000: torch.full((44,), 1.5)}, "x" * 44)
    assert "white at 0 to full colour at 5 nats" in said[0] and "step 0 4.2, step 2,000 1.5" in said[0]


def test_recipes_are_compared_by_the_letters_that_they_read(said):
    writing.recipes({"plain": ([0, 1_536_000], [4.2, 1.9]), "better": ([0, 3_072_000], [4.2, 1.5])}, {"bigram": 2.5})
    assert "plain ends at 1.90 after 1.5 million letters; better ends at 1.50 after 3.1 million" in said[0]
