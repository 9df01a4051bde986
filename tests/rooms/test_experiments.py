"""Comparisons: which runs they take, how one is trained and measured, and what all of them show."""

import dataclasses
import math
import re

import pytest
import torch

from helpers import checks, data
from helpers.data import CharTokenizer
from helpers.errors import ConfigError, CorpusError
from helpers.gpt import GPTConfig, count_parameters
from helpers.rooms import experiments
from helpers.rooms.experiments import CHOOSE, REPORT, Comparison, Run
from helpers.rooms.parts import PARTS, TASTE, WHOLE
from helpers.rooms.study import Variant
from helpers.training import updates

TEXT = "to be, or not to be: that is the question\n" * 60
TOKENIZER = CharTokenizer.from_text(TEXT)
TOKENS, V = TOKENIZER.encode(TEXT), TOKENIZER.vocab_size
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
    """A training sees the first piece only; what chooses is measured on the second, what is told on
    the third.
    """
    seen, measured = [], []
    monkeypatch.setattr(
        "helpers.rooms.study.updates", lambda model, tokens, *_: iter(seen.append(tokens) or [1.0])
    )
    monkeypatch.setattr(
        experiments, "evaluate", lambda model, tokens, T: measured.append(tokens) or 1.0
    )
    for part in (CHOOSE, REPORT):
        SMALL.measure(Run(5, WHOLE, 0.01, 1, part), TOKENS, V)
    pieces = [seen[0], measured[0], measured[1]]
    assert torch.equal(torch.cat(pieces), TOKENS) and torch.equal(seen[0], seen[1])
    assert torch.equal(pieces[2], data.split(TOKENS, 8)[1])
    few = dataclasses.replace(SMALL, characters=100)
    few.measure(Run(5, WHOLE, 0.01, 1, REPORT), TOKENS, V)
    assert torch.equal(seen[2], TOKENS[:100]) and torch.equal(measured[2], pieces[2])


@pytest.mark.slow
def test_a_line_holds_the_losses_of_the_model_that_was_trained(monkeypatch):
    trained = []

    def train(model, *arguments):
        trained.append(model)
        yield from updates(model, *arguments)

    monkeypatch.setattr("helpers.rooms.study.updates", train)
    run = Run(30, "no MLP", 0.01, 3, REPORT)
    found = dataclasses.replace(SMALL, variants=PARTS).measure(run, TOKENS, V)
    val_tokens = data.split(TOKENS, 8)[1]
    assert found["loss"] == round(experiments.evaluate(trained[0], val_tokens, 8), 5) < math.log(V)
    lengths = [
        experiments.last_place_loss(trained[0], val_tokens, [T], stride=16) for T in (2, 4, 6)
    ]
    assert found["last_loss"] == pytest.approx(sum(lengths) / 3, abs=1e-5)
    assert (
        found["parameters"] == count_parameters(trained[0])
        and Run(*list(found.values())[:5]) == run
    )
    again = dataclasses.replace(SMALL, variants=PARTS).measure(run, TOKENS, V)
    assert {**again, "seconds": 0} == {**found, "seconds": 0}


def test_the_weights_and_batches_are_those_of_the_seed():
    same = dataclasses.replace(SMALL, variants=PARTS)
    whole = same.build(WHOLE, V, 1)
    deep = same.build("no MLP, 5 layers", V, 1)
    other = same.build(WHOLE, V, 2)
    same_sizes = same.build("no MLP", V, 1)
    assert torch.equal(whole.token_embedding.weight, same_sizes.token_embedding.weight)
    assert not torch.equal(whole.token_embedding.weight, other.token_embedding.weight)
    assert len(deep.blocks) == 5
    with pytest.raises(
        ConfigError,
        match="unknown variant 'no luck': choose one of the whole model, no causal mask",
    ):
        same.build("no luck", V, 1)


def test_batches_and_dropout_are_drawn_by_the_seed(monkeypatch):
    """Pairs of one seed see the same batches; and a variant that draws more at its start gets no
    other dropout.
    """
    drawn = []

    def note(model, tokens, config, optimizer, generator):
        drawn.append((generator.initial_seed(), torch.rand(1).item()))
        return iter([1.0])

    monkeypatch.setattr("helpers.rooms.study.updates", note)
    for name, seed in ((WHOLE, 3), ("untied head", 3), (WHOLE, 4)):
        dataclasses.replace(SMALL, variants=PARTS).measure(
            Run(5, name, 0.01, seed, REPORT), TOKENS, V
        )
    assert (
        [seed for seed, _ in drawn] == [3, 3, 4]
        and drawn[0] == drawn[1]
        and drawn[0][1] != drawn[2][1]
    )


def test_a_recipe_is_the_studys_but_for_what_the_variant_changes():
    study = dataclasses.replace(SMALL, variants=PARTS, steps=(400,), batch_size=3)
    config = study.recipe(Run(400, WHOLE, 0.02, 7, REPORT))
    assert (config.learning_rate, config.min_learning_rate, config.warmup_steps) == (
        0.02,
        0.002,
        40,
    )
    assert (config.max_steps, config.batch_size, config.seed, config.weight_decay) == (
        400,
        3,
        7,
        0.1,
    )
    other = study.recipe(Run(400, "6 layers, no warm-up", 0.02, 7, REPORT))
    assert other == dataclasses.replace(config, warmup_steps=0)
    with pytest.raises(
        ConfigError, match="no MLP, 400 steps, rate None, seed 7: the rate is not chosen yet"
    ):
        study.recipe(Run(400, "no MLP", None, 7, REPORT))


def test_who_diverges_counts_as_one_who_guesses():
    """A rate that is far too high is a result, and no end of the study: its loss is that of a
    uniform guess.
    """

    def explode(model):
        model.head.weight *= math.nan

    study = dataclasses.replace(
        SMALL, variants={WHOLE: Variant(), "exploded": Variant(change=explode)}
    )
    found = study.measure(Run(5, "exploded", 0.01, 1, REPORT), TOKENS, V)
    assert found["loss"] == found["last_loss"] == round(math.log(V), 5)
    wild = SMALL.measure(Run(5, WHOLE, 1000.0, 1, REPORT), TOKENS, V)
    assert wild["loss"] == round(math.log(V), 5)


def test_the_last_place_loss_is_that_of_the_last_place_of_every_window():
    model = SMALL.build(WHOLE, V, 1)
    model.train()
    model.dropout.p = 0.5  # off while one measures
    expected = []
    for T in (3, 8):
        windows = torch.stack(
            [TOKENS[start : start + T + 1] for start in range(0, len(TOKENS) - T, 5)]
        )
        with torch.no_grad():
            logits = model.eval()(windows[:, :-1])[:, -1]
        expected.append(torch.nn.functional.cross_entropy(logits, windows[:, -1]))
        model.train()
    found = experiments.last_place_loss(model, TOKENS, [3, 8], stride=5)
    assert model.training
    checks.close(torch.tensor(found), torch.stack(expected).mean(), tolerance=1e-5)
    with pytest.raises(CorpusError, match="8 tokens are too few: a window of 8 needs at least 9"):
        experiments.last_place_loss(model, TOKENS[:8], [8])


def test_the_last_place_loss_cannot_be_cheated():
    """A model that knows the next token wherever it stands in the window is helpless at the last
    place.
    """

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
CHOOSING = dataclasses.replace(
    SMALL, rates=(0.01, 0.1, 1.0), choosing_seeds=2, seeds=3, whole_seeds=4
)


def rates_tried(best, study=CHOOSING):
    """Rates in the order in which they are tried, when losses rise with the distance from `best`;
    and the reported.
    """
    lines = carry_out(study, lambda run: abs(math.log(run.rate / best)))
    mine = [line for line in lines if line["variant"] == "other"]
    tried = list(dict.fromkeys(line["rate"] for line in mine if line["part"] == CHOOSE))
    return tried, {line["rate"] for line in mine if line["part"] == REPORT}


def test_the_best_rate_is_reported_and_the_grid_grows_where_that_lies_at_its_end():
    assert rates_tried(0.1) == ([0.01, 0.1, 1.0], {0.1})
    assert rates_tried(10.0) == ([0.01, 0.1, 1.0, 10.0, 100.0], {10.0})
    assert rates_tried(0.001) == ([0.01, 0.1, 1.0, 0.001, 0.0001], {0.001})
    assert rates_tried(1e9) == ([0.01, 0.1, 1.0, 10.0, 100.0], {100.0})  # five at most
    own = {WHOLE: Variant(), "other": Variant(rates=(2.0, 4.0, 8.0))}
    assert rates_tried(4.0, dataclasses.replace(CHOOSING, variants=own)) == ([2.0, 4.0, 8.0], {4.0})


def test_a_rate_is_chosen_by_the_metric_that_is_reported_and_by_all_choosing_seeds():
    leaky = dataclasses.replace(CHOOSING, variants={WHOLE: Variant(), "other": Variant(leaks=True)})
    lines = []
    while runs := leaky.missing(lines):
        for run in runs:
            lines.append(
                line(
                    run,
                    loss=-run.rate,
                    last_loss=(run.rate - 0.1) ** 2 + (run == (5, "other", 0.1, 1001, CHOOSE)),
                )
            )
    reported = {
        entry["rate"] for entry in lines if (entry["variant"], entry["part"]) == ("other", REPORT)
    }
    assert reported == {
        0.01
    }  # 0.1 has one bad seed, and the loss at all places, which says 100, does not count


def test_seeds_that_choose_are_not_reported_and_the_whole_model_has_more():
    lines = carry_out(CHOOSING, lambda run: abs(math.log(run.rate / 0.1)))
    seeds = {(name, part): {} for name in CHOOSING.variants for part in (CHOOSE, REPORT)}
    for entry in lines:
        seeds[entry["variant"], entry["part"]][entry["seed"]] = True
    assert [list(found) for found in seeds.values()] == [
        [1001, 1002],
        [1, 2, 3, 4],
        [1001, 1002],
        [1, 2, 3],
    ]
    assert (
        len(lines)
        == len({tuple(entry[key] for key in Run._fields) for entry in lines})
        == 2 * 6 + 4 + 3
    )


def test_the_plan_counts_runs_whose_rate_is_not_known_yet():
    plan = CHOOSING.plan([])
    assert len(plan) == 2 * 6 + 4 + 3 and sum(run.rate is None for run in plan) == 7
    assert CHOOSING.missing([]) == [run for run in plan if run.rate is not None]
    some = [line(run, 1.0) for run in plan[:3]]
    assert CHOOSING.missing(some) == CHOOSING.missing([])[3:]
    assert SMALL.plan([])[0] == Run(5, WHOLE, 0.01, 1, REPORT)  # a single rate needs no choice


def test_a_study_that_makes_no_sense_is_refused():
    with pytest.raises(
        ConfigError, match="no luck: no variant of the study, which has the whole model, other"
    ):
        dataclasses.replace(SMALL, interactions={"row": {"no luck": 1, WHOLE: -1}})
    with pytest.raises(ConfigError, match="nobody: no variant of the study"):
        dataclasses.replace(SMALL, variants={WHOLE: Variant(), "other": Variant(against="nobody")})
    with pytest.raises(ConfigError, match="at least two seeds, not 1"):
        dataclasses.replace(SMALL, seeds=1)
    with pytest.raises(ConfigError, match="a context of at least 4"):
        dataclasses.replace(SMALL, sizes=SIZES | {"context_length": 3})


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
    interactions={"a x b": {"a and b": 1, WHOLE: 1, "a": -1, "b": -1}},
)
DAMAGE = {WHOLE: 0.0, "a": 0.3, "b": 0.01, "a and b": 1.0, "leak": -2.0}


def made_up(run):
    luck = math.sin(
        3 * run.seed
    )  # of the seed: the same for every variant, and much larger than what they differ by
    return (
        2
        + luck
        + DAMAGE[run.variant] * run.steps / 10
        + 0.001 * math.sin(run.seed * len(run.variant))
    )


def test_rows_are_paired_by_seed_and_held_against_what_they_name():
    lines = carry_out(CROSSED, made_up)
    found = experiments.judge(CROSSED, lines)
    assert list(found) == [
        (steps, row) for steps in (5, 10) for row in ("a", "b", "a and b", "leak", "a x b")
    ]
    for steps in (5, 10):
        for row, expected in {"a": 0.3, "b": 0.01, "a and b": 0.99, "a x b": 0.69}.items():
            verdict = found[steps, row]
            assert (
                verdict.mean == pytest.approx(expected * steps / 10, abs=0.003)
                and verdict.high - verdict.low < 0.02
            )
    assert [found[10, row].says for row in CROSSED.rows()][:3] == [
        "worse",
        "slightly worse",
        "worse",
    ]


def test_a_leak_is_judged_by_its_last_places():
    lines = carry_out(CROSSED, made_up)
    for entry in lines:
        entry["last_loss"] = (
            3.0 + (entry["variant"] == "leak") + 0.01 * entry["seed"] * (entry["variant"] == "leak")
        )
    assert experiments.judge(CROSSED, lines)[10, "leak"].mean == pytest.approx(1.025)  # and not -2
    assert experiments.judge(CROSSED, lines)[10, "a"].mean == pytest.approx(0.3, abs=0.003)


def test_what_chose_the_rate_is_not_judged_and_rows_wait_for_all_their_seeds():
    lines = carry_out(CROSSED, made_up)
    chosen = [line(Run(10, "a", 0.01, seed, CHOOSE), 50.0) for seed in (1, 2, 1001)]
    assert experiments.judge(CROSSED, lines + chosen) == experiments.judge(CROSSED, lines)
    short = [
        entry
        for entry in lines
        if (entry["steps"], entry["variant"], entry["seed"]) != (10, "a", 4)
    ]
    missing = set(experiments.judge(CROSSED, lines)) - set(experiments.judge(CROSSED, short))
    assert missing == {(10, "a"), (10, "a x b")} and experiments.judge(CROSSED, []) == {}


def test_the_report_has_a_line_for_each_row_and_says_the_rate():
    header, *text = CROSSED.report(carry_out(CROSSED, made_up)).splitlines()
    assert len(text) == 2 * 5 and header.split()[:4] == ["steps", "changed", "rate", "damage"]
    worst, *_ = [entry for entry in text if entry.split()[0] == "10"]
    assert re.fullmatch(
        r" +10  a and b +0\.01  \+0\.99\d  \+0\.\d+ to \+\d\.\d+ +< 0\.0001 +worse", worst
    ), worst


@pytest.mark.weekly
def test_a_reader_adds_a_variant_and_gets_a_verdict():
    """The whole way, with trainings: a model that is told nothing of its past is found out in
    seconds.
    """
    study = dataclasses.replace(
        TASTE,
        variants={WHOLE: Variant(), "mine": PARTS["no attention"], "nothing": Variant()},
        steps=(60,),
        seeds=4,
    )
    first = dataclasses.replace(study, variants={WHOLE: Variant()})
    lines = study.conduct(TOKENS, V, kept := first.conduct(TOKENS, V))
    assert len(kept) == 4 and lines[:4] == kept  # not trained again
    found = experiments.judge(study, lines)
    assert len(lines) == 12 and found[60, "mine"].mean > 0.1 and found[60, "mine"].says == "worse"
    assert found[60, "nothing"].says == "no difference" and found[60, "nothing"].mean == 0
