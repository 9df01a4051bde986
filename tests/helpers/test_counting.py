"""Counting against its definition, in dictionaries: letter by letter, with nothing shared."""

import itertools
from collections import Counter

import pytest
import torch

from helpers import counting
from helpers.counting import KneserNey, discounts_of, spoken, word_vectors
from helpers.data import CharTokenizer

TEXT = "to be or not to be, that is the question: whether it is nobler in the mind to suffer or to be. " * 3
LENGTHS = (0, 1, 2, 3, 5)
LONGEST = 5


@pytest.fixture(scope="module")
def tokenizer():
    return CharTokenizer.from_text(TEXT)


@pytest.fixture(scope="module")
def tokens(tokenizer):
    return tokenizer.encode(TEXT)


@pytest.fixture(scope="module", params=["in tables", "in entries"])
def counts(request, tokens, tokenizer):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "in entries":
            patch.setattr(counting, "LARGEST_TABLE", 0)
        return KneserNey(tokens, tokenizer.vocab_size, LONGEST)


class ByHand:
    """Kneser-Ney by its definition, from a list of events: what stood before, and what came."""

    def __init__(self, tokens, V, longest, discounts=None, without=None):
        self.V = V
        padded = [V] * (longest + 1) + tokens.tolist()
        events = [(tuple(padded[i : i + longest + 1]), padded[i + longest + 1]) for i in range(len(tokens))]
        if without is not None:
            del events[without]
        self.tables = {}
        for length in range(longest + 1):
            often = Counter((before[len(before) - length :], letter) for before, letter in events)
            neighbours = {(before[len(before) - length - 1 :], letter) for before, letter in events}
            self.tables[length] = (
                often,
                Counter((before[1:], letter) for before, letter in neighbours),
            )
        self.discounts = discounts or {
            (length, way): discounts_of(torch.tensor(list(table.values())).float()).tolist()
            for length, tables in self.tables.items()
            for way, table in enumerate(tables)
        }

    def probability(self, context, letter, way=0):
        table = self.tables[len(context)][way]
        counts = [table[context, letter] for letter in range(self.V)]
        lower = self.probability(context[1:], letter, way=1) if context else 1 / self.V
        if not sum(counts):
            return lower
        discounts = [self.discounts[len(context), way][min(count, 3)] for count in counts]
        return (counts[letter] - discounts[letter] + sum(discounts) * lower) / sum(counts)


def test_every_probability_is_that_of_the_definition(counts, tokens, tokenizer):
    by_hand = ByHand(tokens, tokenizer.vocab_size, LONGEST)
    text = tokenizer.encode("the mind is to be the noble question, oft")
    p, _ = counts.probabilities(text[None], LENGTHS)
    for place, (column, length) in itertools.product((6, 17, 40), enumerate(LENGTHS)):
        context = tuple(text[place - length + 1 : place + 1].tolist()) if length else ()
        right = [by_hand.probability(context, letter) for letter in range(tokenizer.vocab_size)]
        torch.testing.assert_close(p[0, place, column], torch.tensor(right), rtol=1e-4, atol=1e-6)


def test_a_place_of_the_text_is_predicted_as_if_it_had_never_been_counted(counts, tokens, tokenizer):
    V = tokenizer.vocab_size
    discounts = ByHand(tokens, V, LONGEST).discounts  # they are those of the whole text
    windows = tokens[None, :-1]
    p, totals = counts.probabilities(windows, LENGTHS, targets=tokens[None, 1:])
    for place in (5, 20, 71, 140, len(tokens) - 2):
        by_hand = ByHand(tokens, V, LONGEST, discounts, without=place + 1)
        for column, length in enumerate(LENGTHS):
            context = tuple(tokens[place - length + 1 : place + 1].tolist()) if length else ()
            right = [by_hand.probability(context, letter) for letter in range(V)]
            torch.testing.assert_close(p[0, place, column], torch.tensor(right), rtol=1e-4, atol=1e-6)
            assert totals[0, place, column] == sum(by_hand.tables[length][0][context, letter] for letter in range(V))


@pytest.mark.parametrize("forget", [False, True])
def test_they_sum_to_one_everywhere_and_nothing_is_impossible(counts, tokens, forget):
    p, _ = counts.probabilities(tokens[None, :-1], range(LONGEST + 1), tokens[None, 1:] if forget else None)
    assert (p > 0).all()
    torch.testing.assert_close(p.sum(-1), torch.ones(p.shape[:-1]), rtol=1e-5, atol=1e-5)


def test_what_comes_later_changes_nothing(counts, tokens):
    changed = tokens.clone()
    changed[40:] = 0
    before, after = (counts.probabilities(text[None], LENGTHS)[0][0, :40] for text in (tokens, changed))
    assert torch.equal(before, after)


def test_where_a_window_begins_the_longest_context_that_there_is_stands_in(counts, tokenizer):
    p, totals = counts.probabilities(tokenizer.encode("to be")[None], (1, 2, 3))
    assert torch.equal(p[0, 0, 0], p[0, 0, 2]) and torch.equal(p[0, 1, 1], p[0, 1, 2])
    assert not torch.equal(p[0, 2, 1], p[0, 2, 2]) and totals[0, 1].tolist()[1:] == [12.0, 12.0]


def test_a_letter_that_the_text_never_shows_is_shared_out_evenly():
    counts = KneserNey(torch.tensor([0, 1, 0, 1, 0, 2, 0, 1]), vocab_size=5, longest=2)
    p, totals = counts.probabilities(torch.tensor([[4, 3, 0, 1]]), (2,))
    assert p[0, 0, 0, 3] == p[0, 0, 0, 4] > 0 and totals[0, 1] == 0 < totals[0, 3]


def test_an_alphabet_of_thousands_works():
    text = torch.arange(3000).repeat(2)
    counts = KneserNey(text, vocab_size=3000, longest=8)
    p, totals = counts.probabilities(text[None, 100:120], (8,))
    assert (p[0, 10:, 0].argmax(-1) == torch.arange(111, 121)).all() and totals[0, 10] == 2


def test_discounts_need_counts_of_each_kind():
    assert discounts_of(torch.tensor([1.0, 1, 1, 5])).tolist() == [0, 0.5, 1, 1.5]
    n = {1: 40, 2: 15, 3: 8, 4: 5}
    many = torch.tensor([count for count, times in n.items() for _ in range(times)]).float()
    y = 40 / (40 + 2 * 15)
    right = [0, 1 - 2 * y * 15 / 40, 2 - 3 * y * 8 / 15, 3 - 4 * y * 5 / 8]
    torch.testing.assert_close(discounts_of(many), torch.tensor(right))


def test_what_is_spoken_is_the_play_without_names_and_titles():
    play = "1 KING HENRY VI\n\nKING RICHARD III:\nNow is the winter:\nof our discontent.\n\nQUEEN:\nAy."
    assert spoken(play).split() == ["Now", "is", "the", "winter:", "of", "our", "discontent.", "Ay."]


def test_a_wider_reach_counts_neighbours_farther_away():
    text = "ask pear bring carry ripe dare " * 30
    for reach, meets in ((1, False), (2, True)):
        words, vectors = word_vectors(text, reach=reach)
        assert (vectors[words.index("ask"), words.index("bring")] > 0) == meets
