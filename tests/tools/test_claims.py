"""The study of what the sources claim: variants are what their names say, its table is whole."""

import math
from pathlib import Path

import pytest
import torch

from helpers import checks
from helpers.data import OWN, Corpus
from helpers.gpt import count_parameters
from helpers.tables import MEASURED, read_table
from tools.studies import claims
from tools.studies.claims import (
    ALL_TEXT,
    FEW_PAGES,
    GPTS,
    SUMS,
    WHOLE,
    Claims,
    Task,
)

TOKENS = torch.randint(11, (2, 20), generator=torch.Generator().manual_seed(0))
X = torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(1))


def attention(name):
    """The first layer's attention of a variant, which is in evaluation."""
    return Claims().build(name, 11, seed=1).eval().blocks[0].attention


# ---------------------------------------------------------------- the variants
@pytest.mark.parametrize("name", GPTS)
def test_no_variant_sees_its_future(name):
    checks.causal(Claims().build(name, 11, seed=1).eval(), TOKENS)


def test_weights_are_softmax_as_soon_as_they_are_divided_by_their_sum(monkeypatch):
    """What is masked counts 0 in the sum, so the GPT's own outputs come back."""
    layer = attention(WHOLE)
    mask = layer.mask[:8, :8]

    def divided(scores):
        powers = scores.exp()
        return powers / powers.masked_fill(~mask, 0.0).sum(dim=-1, keepdim=True)

    checks.close(claims.attend(layer, X, weigh=divided), layer(X), tolerance=1e-5)
    for name in claims.WEIGHTS:
        assert not torch.allclose(attention(name)(X), layer(X), atol=1e-3)


def test_full_width_heads_are_heads_of_the_whole_width_side_by_side():
    layer = attention("full-width heads")
    with torch.no_grad():
        layer.W_query.weight *= 20  # so that weights differ
    heads = []
    for rows in torch.arange(4 * 64).split(64):  # 64 rows of each matrix belong to a head
        query, key, value = (X @ getattr(layer, name).weight[rows].T for name in ("W_query", "W_key", "W_value"))
        scores = (query @ key.mT / 8).masked_fill(~layer.mask[:8, :8], float("-inf"))
        heads.append(scores.softmax(dim=-1) @ value)
    expected = torch.cat(heads, dim=-1) @ layer.out_proj.weight.T
    checks.close(layer(X), expected, tolerance=1e-5)


def test_sizes():
    sizes = {name: count_parameters(Claims().build(name, 65, seed=1)) for name in GPTS}
    assert sizes["no W_o"] == sizes[WHOLE] - 2 * 64 * 64
    assert sizes["full-width heads"] == sizes[WHOLE] + 2 * 4 * 3 * 64 * 64
    assert sizes["full-width heads"] == pytest.approx(sizes["4 layers"], rel=0.01)
    assert sizes["dropout 0.2, context only"] == sizes[WHOLE]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["weights", "context"])
def test_dropout_in_one_place_leaves_all_others_alone(place):
    """Nothing in a layer bends after it, so the mean of many draws is what evaluation gives."""
    layer = attention(f"dropout 0.2, {place} only")
    expected = layer(X)
    checks.close(expected, attention(WHOLE)(X))
    layer.train()
    draws = torch.stack([layer(X) for _ in range(2000)]).detach()
    error = draws.std(dim=0) / 2000**0.5
    assert error.max() > 0
    assert ((draws.mean(dim=0) - expected).abs() <= 6 * error + 1e-6).all()
    model = Claims().build(f"dropout 0.2, {place} only", 11, seed=1).train()
    assert model.dropout.p == model.blocks[0].dropout.p == 0


# ---------------------------------------------------------------- the study
def tiny():
    """Two steps of each kind of task, of as few variants as make a difference."""
    return {
        ALL_TEXT: Task((WHOLE, "dropout 0.1"), (0.01,), seeds=1),
        SUMS: Task(("exp, not divided",), (0.01, 1e6), seeds=1),
        FEW_PAGES: Task(("dropout 0.2",), (0.01,), seeds=1, letters=100),
    }


@pytest.mark.slow
def test_each_task_is_learned_and_reported(play):
    corpus = Corpus(play[:20_000], OWN, Path("own.txt"), sha256="")
    study = Claims(steps=40, tasks=tiny())
    lines = study.conduct(corpus)
    assert [study.run_of(line) for line in lines] == study.plan() and len(lines) == 5
    by = {(line["task"], line["rate"], line["seed"]): line for line in lines}
    pages, text = by[FEW_PAGES, 0.01, 1], by[ALL_TEXT, 0.01, 1]
    assert pages["own"] < text["own"] - 0.2 and pages["new"] > text["new"]
    assert by[SUMS, 1e6, 1]["new"] == pytest.approx(math.log(len(corpus.alphabet)), abs=1e-4)
    table = study.report(lines).splitlines()
    assert len(table) == 1 + 4
    (row,) = [row for row in table if "exp" in row]
    assert "0.01" in row and str(1e6) not in row  # at that rate it diverged


def test_the_stored_table_is_that_of_the_whole_study():
    study = Claims()
    comments, lines = read_table(MEASURED / "claims.csv")
    made = "made by: python -m tools.studies claims, at commit "
    assert comments[0].startswith(made) and "uncommitted" not in comments[0]
    assert f"budget: {study.budget()}" in comments and not study.missing(lines)
    assert len(lines) == len({study.run_of(line) for line in lines}) == len(study.plan())
    sizes = {name: count_parameters(study.build(name, 65, 1)) for name in GPTS}
    of_gpts = (ALL_TEXT, SUMS, FEW_PAGES)
    assert all(line["parameters"] == sizes[line["variant"]] for line in lines if line["task"] in of_gpts)
