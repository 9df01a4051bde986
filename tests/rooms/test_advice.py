"""The study of what counts give a network: its variants and measures are what they say."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from helpers.counting import KneserNey
from helpers.data import BUNDLED_PLAY, CharTokenizer, split
from helpers.presets import SMALL
from helpers.rooms.advice import (
    AFTERWARDS,
    BESIDE,
    SIX_LETTERS,
    VARIANTS,
    Counts,
    Pairing,
    reading_and_counting,
    reading_on,
)
from helpers.training import evaluate

T = 64


class Small(Counts):
    sizes = SMALL | dict(context_length=T, n_layer=1, n_embd=16)


@pytest.fixture(scope="module")
def text():
    play = BUNDLED_PLAY.read_text(encoding="utf-8")
    return CharTokenizer.from_text(play).encode(play)


@pytest.fixture(scope="module")
def study():
    return Small(steps=5, seeds=2, overlap=32)


@pytest.fixture(scope="module")
def lines(study, text):
    return study.conduct(text[:6000], 65)


def test_every_variant_runs_with_every_seed_and_is_reported(study, lines):
    assert [study.run_of(line) for line in lines] == [
        Pairing(name, seed) for seed in (1, 2) for name in VARIANTS
    ]
    said = study.report(lines)
    assert all(name in said for name in VARIANTS)
    # A seed is missing: no verdict.
    assert not study.judge(lines[:-1]).keys() & {list(VARIANTS)[-1]}
    assert study.judge(lines).keys() == VARIANTS.keys() - {BESIDE}


def test_six_letters_alone_are_kneser_ney(study, text, lines):
    learned, _ = split(text[:6000], T)
    learned, held_out = split(learned, T)
    counts, total = KneserNey(learned, 65, 8), 0.0
    for start in range(0, len(held_out) - 1, T):
        piece = held_out[start : start + T + 1].long()[None]
        p, _ = counts.probabilities(piece[:, :-1], (6,))
        total -= p[0, :, 0].log().gather(1, piece[0, 1:, None]).sum().item()
    measured = next(line for line in lines if line["variant"] == SIX_LETTERS)
    assert measured["loss"] == pytest.approx(total / (len(held_out) - 1), abs=1e-4)


def trained(study, name, text):
    model, _ = study.train(Pairing(name, 1), text[:5000], 65)
    return model.eval()


def test_a_finished_network_stays_as_it_is_when_its_gates_learn(study, text):
    alone, mixed = trained(study, "the network alone", text), trained(study, AFTERWARDS, text)
    for name, weight in alone.named_parameters():
        assert torch.equal(weight, mixed.get_parameter(name))
    assert mixed.gates.weight.abs().sum() > 0


def test_counts_that_know_the_answer_say_it_in_training(study, text):
    honest, knowing = (
        trained(study, name, text) for name in (BESIDE, "counts that know the answer")
    )
    x, y = text[None, 1000:1050].long(), text[None, 1001:1051].long()
    surprise = [
        -model._by_counting(x, x[:, :0], y)[0][0, :, -1].gather(1, y[0, :, None]).mean()
        for model in (honest, knowing)
    ]
    assert surprise[1] < 0.5 * surprise[0]


def test_reading_on_predicts_every_letter_once_with_a_past(study, text):
    model = trained(study, "the network alone", text)
    tokens, overlap = text[5000 : 5000 + T + 3 * (T - 24) + 1].long(), 24
    losses = []
    with torch.no_grad():
        for place in range(1, len(tokens)):
            # The first window that reaches so far.
            window = max(0, -(-(place - T) // (T - overlap)))
            start = window * (T - overlap)
            losses.append(
                cross_entropy(model(tokens[None, start:place])[0, -1:], tokens[place : place + 1])
            )
    expected = torch.stack(losses).mean().item()
    assert reading_on(model, tokens, T, overlap) == pytest.approx(expected, abs=1e-5)
    whole = text[5000 : 5001 + 3 * T]
    assert reading_on(model, whole, T, 0) == pytest.approx(evaluate(model, whole, T), abs=1e-5)


def test_counting_what_it_reads_helps_with_what_comes_twice_and_knows_no_letter_before_it_is_read(
    study, text
):
    model = trained(study, BESIDE, text)
    generator = torch.Generator().manual_seed(1)
    nonsense = torch.randint(65, (3000,), generator=generator)
    twice = torch.cat([nonsense[:1500]] * 2)
    once, again = (
        reading_and_counting(model, tokens, T, 32, every=200) for tokens in (nonsense, twice)
    )
    # Whoever says less of nonsense has seen it.
    assert again < once - 0.5 and once > math.log(65) - 0.02
    assert reading_and_counting(model, nonsense, T, 32, every=10_000) == reading_on(
        model, nonsense, T, 32
    )
    assert len(model.text) == 5000 and torch.equal(model.text.long(), text[:5000].long())
