"""Byte pair encoding: learned as the loop of its definition learns it, and nothing is lost in cutting."""

from collections import Counter

import pytest

from exercises import n15
from helpers.rooms.tokens import BPETokenizer, chunks, learn

TEXT = "Now is the winter of our discontent\nmade glorious summer by this sun of York, aaaa! aaa\n" * 3


def test_the_quick_loop_learns_what_the_short_one_does():
    assert learn(TEXT, 40) == n15.learned(Counter(chunks(TEXT)), 40)


def test_it_ends_when_nothing_is_left_to_merge():
    assert learn("abc ab", 9) == [("a", "b"), ("ab", "c"), (" ", "ab")]


def test_no_token_reaches_from_one_word_into_the_next():
    assert "".join(chunks(TEXT)) == TEXT
    assert all(" " not in left[1:] + right and "\n" not in left + right for left, right in learn(TEXT, 60))


def test_a_text_comes_back_and_is_shorter_the_more_is_merged():
    merges, new = learn(TEXT, 60), "this is another summer, of\nsun; aaaaa"
    lengths = []
    for count in (0, 10, 60):
        tokenizer = BPETokenizer(sorted(set(TEXT + ";")), merges[:count])
        assert tokenizer.decode(tokenizer.encode(new)) == new
        lengths.append(len(tokenizer.encode(new)))
    assert lengths[0] == len(new) > lengths[1] > lengths[2]


def test_a_letter_that_the_alphabet_lacks_is_named():
    with pytest.raises(KeyError, match="é"):
        BPETokenizer("abc", []).encode("é")
