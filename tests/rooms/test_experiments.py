"""Comparisons: which runs they take, how one is trained and measured, and what all of them show."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from helpers import checks, data
from helpers.data import Corpus
from helpers.errors import ConfigError
from helpers.gpt import GPTConfig
from helpers.rooms import experiments
from helpers.rooms.experiments import CHOOSE, REPORT, Comparison, VariantRun
from helpers.rooms.parts import PARTS, TASTE, WHOLE
from helpers.rooms.study import Variant

TEXT = "to be, or not to be: that is the question\n" * 60
CORPUS = Corpus(TEXT, data.OWN, Path("text.txt"), sha256="")
TOKENS, V = CORPUS.tokens.long(), CORPUS.tokenizer.vocab_size
SIZES = dict(context_length=8, n_layer=1, n_head=1, n_embd=8)
SMALL = Comparison({WHOLE: Variant(), "other": Variant()}, SIZES, (5,), rates=(0.01,), seeds=2)


def line(run, loss, last_loss=9.0):
    return {**run._asdict(), "parameters": 1, "loss": loss, "last_loss": last_loss, "seconds": 0.1}


def carry_out(study, loss):
    """All lines of a study whose losses are made up: `loss(run)` instead of a training."""
    lines = []
    while runs := study.missing(lines):
        lines += [line(run, loss(run)) for run in runs]
    return lines


# ---------------------------------------------------------------- one run
def test_the_rate_is_chosen_on_text_that_nothing_else_sees(monkeypatch):
    """The first piece trains, the second chooses, and the third is reported."""
    texts, measured = [], []
    monkeypatch.setattr("helpers.rooms.study.updates", lambda model, tokens, *_: iter(texts.append(tokens) or [1.0]))
    monkeypatch.setattr(experiments, "evaluate", lambda model, tokens, T: measured.append(tokens) or 1.0)
    for part in (CHOOSE, REPORT):
        SMALL.measure(VariantRun(5, WHOLE, 0.01, 1, part), CORPUS)
    pieces = [texts[0], measured[0], measured[1]]
    assert torch.equal(torch.cat(pieces), CORPUS.tokens) and torch.equal(texts[0], texts[1])
    assert torch.equal(pieces[2], data.split(CORPUS.tokens, 8)[1])
    few = dataclasses.replace(SMALL, characters=100)
    few.measure(VariantRun(5, WHOLE, 0.01, 1, REPORT), CORPUS)
    assert torch.equal(texts[2], CORPUS.tokens[:100]) and torch.equal(measured[2], pieces[2])


def test_the_weights_and_batches_are_those_of_the_seed():
    same = dataclasses.replace(SMALL, variants=PARTS)
    whole = same.build(WHOLE, V, 1)
    deep = same.build("6 layers", V, 1)
    other = same.build(WHOLE, V, 2)
    same_sizes = same.build("no MLP", V, 1)
    assert torch.equal(whole.token_embedding.weight, same_sizes.token_embedding.weight)
    assert not torch.equal(whole.token_embedding.weight, other.token_embedding.weight)
    assert len(deep.blocks) == 6
    with pytest.raises(ConfigError, match="unknown variant 'no luck': choose one of the whole"):
        same.build("no luck", V, 1)


def test_who_diverges_counts_as_one_who_guesses():
    """A rate far too high is a result, not the study's end: its loss is a uniform guess's."""

    def explode(model):
        model.head.weight *= math.nan

    study = dataclasses.replace(SMALL, variants={WHOLE: Variant(), "exploded": Variant(change=explode)})
    line = study.measure(VariantRun(5, "exploded", 0.01, 1, REPORT), CORPUS)
    assert line["loss"] == line["last_loss"] == round(math.log(V), 5)


def test_the_last_place_loss_is_that_of_the_last_place_of_every_window():
    model = SMALL.build(WHOLE, V, 1)
    model.train()
    model.dropout.p = 0.5  # off while one measures
    expected = []
    for T in (3, 8):
        windows = torch.stack([TOKENS[start : start + T + 1] for start in range(0, len(TOKENS) - T, 5)])
        with torch.no_grad():
            logits = model.eval()(windows[:, :-1])[:, -1]
        expected.append(torch.nn.functional.cross_entropy(logits, windows[:, -1]))
        model.train()
    loss = experiments.last_place_loss(model, TOKENS, [3, 8], stride=5)
    assert model.training
    checks.close(torch.tensor(loss), torch.stack(expected).mean(), tolerance=1e-5)


def test_the_last_place_loss_cannot_be_cheated():
    """A model that knows each next token in the window is helpless at the last place."""

    class Cheat(torch.nn.Module):
        config = GPTConfig(vocab_size=11, **SIZES)

        def forward(self, tokens):
            peeked = torch.nn.functional.one_hot(tokens.roll(-1, dims=1), 11) * 50.0
            peeked[:, -1] = 0
            return peeked

    tokens = torch.randint(11, (4000,), generator=torch.Generator().manual_seed(0))
    assert experiments.evaluate(Cheat(), tokens, 8) < 0.6
    assert abs(experiments.last_place_loss(Cheat(), tokens, [2, 4, 6]) - math.log(11)) < 1e-4


# ---------------------------------------------------------------- which runs
CHOOSING = dataclasses.replace(SMALL, rates=(0.01, 0.1, 1.0), choosing_seeds=2, seeds=3, whole_seeds=4)


STEPS_OF_TWO = dataclasses.replace(CHOOSING, rates=(0.01, 0.02, 0.04))


def rates_tried(loss, study=CHOOSING):
    """Rates in the order tried, when a run ends at `loss(rate)`; and the rate that is reported."""
    lines = carry_out(study, lambda run: loss(run.rate))
    mine = [line for line in lines if line["variant"] == "other"]
    tried = list(dict.fromkeys(line["rate"] for line in mine if line["part"] == CHOOSE))
    (reported,) = {line["rate"] for line in mine if line["part"] == REPORT}
    return tried, reported


def valley(best):
    """Losses that rise with the distance from `best`."""
    return lambda rate: abs(math.log(rate / best))


def test_the_grid_grows_until_the_best_rate_is_inside():
    assert rates_tried(valley(0.02), STEPS_OF_TWO) == ([0.01, 0.02, 0.04], 0.02)
    assert rates_tried(valley(0.16), STEPS_OF_TWO) == ([0.01, 0.02, 0.04, 0.08, 0.16, 0.32], 0.16)
    assert rates_tried(valley(0.005), STEPS_OF_TWO) == ([0.01, 0.02, 0.04, 0.005, 0.0025], 0.005)
    own = {WHOLE: Variant(), "other": Variant(rates=(2.0, 4.0, 8.0))}
    assert rates_tried(valley(4.0), dataclasses.replace(CHOOSING, variants=own)) == ([2.0, 4.0, 8.0], 4.0)


def test_beyond_an_end_the_next_rate_is_as_far_again():
    assert experiments.next_rate([0.1, 0.3, 1.0], 0.1) == 0.033
    assert experiments.next_rate([0.1, 0.3, 1.0], 1.0) == 3.3
    assert experiments.next_rate([0.1, 0.3, 1.0], 0.3) is None


def test_rates_between_are_tried_where_the_neighbours_of_the_best_are_far():
    assert rates_tried(valley(0.1)) == ([0.01, 0.1, 1.0, 0.032, 0.32], 0.1)


def test_a_search_that_begins_on_a_plateau_leaves_it_by_its_far_rate():
    def stuck(rate):  # all rates above 0.002 lose about the same
        return 3.3 + 0.01 * math.sin(1000 * rate) if rate > 0.002 else 2.8 + valley(0.0007)(rate) / 10

    near = dataclasses.replace(CHOOSING, rates=(0.003, 0.006, 0.012))
    far = dataclasses.replace(CHOOSING, rates=Comparison.rates)
    assert stuck(rates_tried(stuck, near)[1]) > 3 > 2.85 > stuck(rates_tried(stuck, far)[1])


def test_a_rate_is_chosen_by_the_metric_that_is_reported_and_by_all_choosing_seeds():
    leaky = dataclasses.replace(CHOOSING, variants={WHOLE: Variant(), "other": Variant(leaks=True)})
    lines = []
    while runs := leaky.missing(lines):
        for run in runs:
            lines.append(
                line(
                    run,
                    loss=(run.rate - 1) ** 2,
                    last_loss=(run.rate - 0.1) ** 2 + (run == (5, "other", 0.1, 1001, CHOOSE)),
                )
            )
    reported = {entry["rate"] for entry in lines if (entry["variant"], entry["part"]) == ("other", REPORT)}
    # 0.1 has one bad seed, and the loss at all places, which says 1, does not count.
    assert reported == {0.032}


def test_seeds_that_choose_are_not_reported_and_the_whole_model_has_more():
    lines = carry_out(STEPS_OF_TWO, lambda run: valley(0.02)(run.rate))
    seeds = {(name, part): {} for name in CHOOSING.variants for part in (CHOOSE, REPORT)}
    for entry in lines:
        seeds[entry["variant"], entry["part"]][entry["seed"]] = True
    assert [list(found) for found in seeds.values()] == [
        [1001, 1002],
        [1, 2, 3, 4],
        [1001, 1002],
        [1, 2, 3],
    ]
    assert len(lines) == len({tuple(entry[key] for key in VariantRun._fields) for entry in lines}) == 2 * 6 + 4 + 3


# ---------------------------------------------------------------- verdicts
CROSSED = Comparison(
    {
        WHOLE: Variant(),
        "a": Variant(),
        "b": Variant(),
        "a and b": Variant(against="b"),
        "leak": Variant(leaks=True),
    },
    SIZES,
    (5, 10),
    rates=(0.01,),
    seeds=4,
    whole_seeds=6,
)
DAMAGE = {WHOLE: 0.0, "a": 0.3, "b": 0.01, "a and b": 1.0, "leak": -2.0}


def made_up(run):
    # Of the seed: the same for every variant, and much larger than what they differ by.
    luck = math.sin(3 * run.seed)
    return 2 + luck + DAMAGE[run.variant] * run.steps / 10 + 0.001 * math.sin(run.seed * len(run.variant))


def test_rows_are_paired_by_seed_and_held_against_what_they_name():
    lines = carry_out(CROSSED, made_up)
    verdicts = experiments.judge(CROSSED, lines)
    assert list(verdicts) == [(steps, row) for steps in (5, 10) for row in ("a", "b", "a and b", "leak")]
    for steps in (5, 10):
        for row, expected in {"a": 0.3, "b": 0.01, "a and b": 0.99}.items():
            verdict = verdicts[steps, row]
            assert verdict.mean == pytest.approx(expected * steps / 10, abs=0.003) and verdict.high - verdict.low < 0.02
    assert [verdicts[10, row].says for row in ("a", "b", "a and b")] == [
        "worse",
        "slightly worse",
        "worse",
    ]


def test_what_chose_the_rate_is_not_judged_and_rows_wait_for_all_their_seeds():
    lines = carry_out(CROSSED, made_up)
    choosing = [line(VariantRun(10, "a", 0.01, seed, CHOOSE), 50.0) for seed in (1, 2, 1001)]
    assert experiments.judge(CROSSED, lines + choosing) == experiments.judge(CROSSED, lines)
    short = [entry for entry in lines if (entry["steps"], entry["variant"], entry["seed"]) != (10, "a", 4)]
    missing = set(experiments.judge(CROSSED, lines)) - set(experiments.judge(CROSSED, short))
    assert missing == {(10, "a")} and experiments.judge(CROSSED, []) == {}


@pytest.mark.slow
def test_a_reader_adds_a_variant_and_gets_a_verdict():
    """The whole way, with trainings: a model that isn't told its past is found out in seconds."""
    study = dataclasses.replace(
        TASTE,
        variants={WHOLE: Variant(), "mine": PARTS["no attention"], "nothing": Variant()},
        steps=(60,),
        seeds=4,
    )
    first = dataclasses.replace(study, variants={WHOLE: Variant()})
    lines = study.conduct(CORPUS, whole_lines := first.conduct(CORPUS))
    assert len(whole_lines) == 4 and lines[:4] == whole_lines  # not trained again
    verdicts = experiments.judge(study, lines)
    assert len(lines) == 12 and verdicts[60, "mine"].mean > 0.1 and verdicts[60, "mine"].says == "worse"
    assert verdicts[60, "nothing"].says == "no difference" and verdicts[60, "nothing"].mean == 0
