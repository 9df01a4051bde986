"""Counting, one idea at a time, against the definition and against all of it at once."""

import math
from collections import Counter

import pytest
import torch

from helpers import checks
from helpers.counted import CountedConfig, CountedGPT
from helpers.counting import KneserNey
from helpers.data import BUNDLED_PLAY, CharTokenizer
from helpers.rooms import guessers

PLAY = BUNDLED_PLAY.read_text(encoding="utf-8")[:9000]
TOKENIZER = CharTokenizer.from_text(PLAY)
TOKENS, V = TOKENIZER.encode(PLAY), TOKENIZER.vocab_size
LEARNED, NEW = TOKENS[:7000], TOKENS[7000:]


def share(text: str, letter: str, run: str, d: float) -> float:
    """As the lesson writes it."""
    shorter = share(text, letter, run[1:], d) if run else 1 / V
    places = range(len(text) - len(run))
    counts = Counter(text[i + len(run)] for i in places if text.startswith(run, i))
    if not counts:
        return shorter
    n, kinds = counts.total(), len(counts)
    return max(counts[letter] - d, 0) / n + d * kinds / n * shorter


def test_the_plain_guesser_is_the_formula():
    text, ahead = PLAY[:800], PLAY[800:840]
    losses = guessers.losses(TOKENS[:800], TOKENS[800:840], V, longest=3)
    for length in range(4):
        places = range(length, len(ahead))
        nats = [-math.log(share(text, ahead[i], ahead[i - length : i], 0.75)) for i in places]
        assert losses[length] == pytest.approx(sum(nats) / len(nats), rel=1e-6)


def test_both_ideas_together_are_kneser_ney():
    losses = guessers.losses(LEARNED, NEW, V, longest=4, neighbours=True, fitted=True)
    counts = KneserNey(LEARNED, V, longest=4)
    for length in (1, 2, 4):
        # Where a text begins, one of the two knows a letter before it.
        assert losses[length] == pytest.approx(guessers.loss_of(counts, NEW, length), abs=0.02)


def test_windows_cost_what_their_first_letters_cannot_see():
    counts = KneserNey(LEARNED, V, longest=4)
    whole = guessers.loss_of(counts, NEW, 4)
    assert whole < guessers.loss_in_windows(counts, NEW, 4, T=16)
    assert guessers.loss_in_windows(counts, NEW, 4, T=900) == pytest.approx(whole, abs=0.03)


@torch.no_grad()
def test_a_gain_belongs_to_its_letter():
    sizes = dict(context_length=128, n_layer=1, n_head=1, n_embd=8)
    config = CountedConfig(vocab_size=V, **sizes, lengths=(2, 6), counted=len(LEARNED))
    model = CountedGPT(config).eval()
    model.count(LEARNED)
    gains, letters = guessers.gains_over_counts(model, NEW[: 64 * 4 + 65])
    assert letters.tolist() == NEW[65 : 64 * 4 + 65].tolist()
    for i in (0, 63, 64, 200):
        start = i // 64 * 64  # of the window of 128 in which the letter is asked for
        x = NEW[None, start : i + 65].long()
        by_model = model(x)[0, -1].log_softmax(-1)
        by_counts = model.counts.probabilities(x, (6,))[0][0, -1, 0].log()
        gain = (by_model - by_counts)[letters[i]].item()
        assert gains[i].item() == pytest.approx(gain, abs=1e-4)


@pytest.mark.parametrize(
    ("before", "letter", "kind"),
    [
        ("a", "\n", "the end of a line"),
        ("a", ",", "a space or punctuation"),
        (" ", "x", "a word's first letter"),
        ("a", "x", "inside a word"),
    ],
)
def test_kinds_of_letters(before, letter, kind):
    assert guessers.kind_of(before, letter) == kind


def test_a_finding_is_where_it_stands_and_zero_elsewhere():
    among, values = torch.tensor([2, 5, 9]), torch.tensor([20.0, 50.0, 90.0])
    found = guessers.find(torch.tensor([9, 3, 2, 11]), among, values)
    assert found.tolist() == [90, 0, 20, 0]


# ---------------------------------------------------------------- the length of a line
def test_line_ends_are_asked_for_at_their_columns():
    text = CharTokenizer("ab\n").encode("abab\nab\naabb\n" * 20)
    newline = 2
    counts = KneserNey(text, 3, longest=2)
    odds, column, ended = guessers.line_ends(counts, text, newline)
    line = [0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4] * 20  # how many letters stand before each in its line
    assert column.tolist() == line[3:] and ended.tolist() == [x == newline for x in text.tolist()[3:]]
    p, _ = counts.probabilities(text[None, :-1].long(), (2,))
    checks.close(odds / (1 + odds), p[0, 2:, 0, newline], tolerance=1e-5)
    forgotten, _, _ = guessers.line_ends(counts, text, newline, forget=True)
    assert (forgotten[ended] <= odds[ended]).all() and not torch.equal(forgotten, odds)


def test_factors_by_column_make_as_many_line_ends_expected_as_came():
    dice = torch.Generator().manual_seed(1)
    column = torch.randint(4, (4000,), generator=dice)
    planted = torch.tensor([0.25, 1.0, 4.0, 16.0])
    odds = torch.full((4000,), 0.1)
    p = odds * planted[column] / (1 + odds * planted[column])
    ended = torch.rand(4000, generator=dice) < p
    factor = guessers.column_factors(odds, column, ended)
    assert torch.allclose(factor[:4], planted, rtol=0.4)
    gain = guessers.likelier(odds, odds * factor[column], ended)
    assert gain.mean() > 0.05 and torch.equal(guessers.likelier(odds, odds, ended), torch.zeros(4000))
