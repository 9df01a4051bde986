"""What counts as a word in lesson 09's contest, and whom its judges choose."""

import pytest
import torch

from helpers import microscope
from helpers.data import CharTokenizer
from helpers.gpt import GPT, GPTConfig
from helpers.rooms import contest

BOOK = contest.book_of("The lark, the nightingale; 't was no lark.")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return GPT(GPTConfig(vocab_size=9, context_length=12, n_layer=1, n_head=1, n_embd=8)).train()


def test_a_book_holds_its_words_of_three_letters_in_small_letters():
    assert sorted(BOOK) == ["lark", "nightingale", "the", "was"]


@pytest.mark.parametrize("text, words", [
    ("the LARK, no moth ", ["lark", "moth"]),  # `the` was given
    ("the lark", []),  # it may go on
    ("nightingale sings.", ["sings"]),  # it began before
])  # fmt: skip
def test_words_are_those_that_lie_wholly_behind_the_beginning(text, words):
    assert contest.words_after(text, begin=3) == words


def test_the_share_counts_every_word_and_the_different_ones_count_once():
    texts = ["   lark lark moth ", "   lark the moth,", "   "]
    assert contest.found_and_different(texts, 3, BOOK) == (4 / 6, 2)
    assert contest.found_and_different(["   "], 3, BOOK) == (0.0, 0)


def test_pieces_come_from_all_over_and_never_overlap():
    rows = contest.pieces(torch.arange(103), 5, 10)
    assert rows[:, 0].tolist() == [0, 20, 40, 60, 90] and torch.equal(rows[2], torch.arange(40, 50))


def test_a_table_gives_a_point_for_each_network_over_all_dice():
    def line(network, rule, found, different):
        return {"network": network, "rule": rule, "words": 10, "found": found, "different": different}

    lines = [
        line("a", "cooling", 4, 2),
        line("b", "cooling", 9, 7),
        line("a", "cooling", 6, 4),
        line("a", "top-k", 0, 0),
    ]
    assert contest.by_network(lines, rule="cooling") == [(0.5, 3), (0.9, 7)]


@pytest.mark.parametrize("length", [9, 13, 30])
def test_surprises_are_those_of_the_microscope_whether_or_not_a_text_fits(model, length):
    texts = torch.randint(9, (3, length), generator=torch.Generator().manual_seed(1))
    expected = torch.stack([microscope.surprise(model, text) for text in texts])[:, 3:]
    torch.testing.assert_close(contest.surprises(model, texts, 4), expected)
    assert model.training


def test_the_model_keeps_what_surprises_it_least_behind_the_beginning(model):
    tries = torch.randint(9, (2, 5, 10), generator=torch.Generator().manual_seed(2))
    nats = contest.surprises(model, tries.flatten(0, 1), 4).mean(dim=1).view(2, 5)
    kept = contest.least_surprising(model, tries, 4)
    assert torch.equal(kept, tries[torch.arange(2), nats.argmin(dim=1)])


def test_the_book_keeps_the_first_of_those_with_the_largest_share():
    tokenizer = CharTokenizer.from_text("thelarkmoth ")
    tries = torch.stack(
        [tokenizer.encode(text) for text in ("  moth lark ", "  the moth  ", "  lark the  ", "  the the   ")]
    )
    kept = contest.most_found(tokenizer.decode, tries[None], 2, BOOK)
    assert tokenizer.decode(kept[0]) == "  lark the  "
