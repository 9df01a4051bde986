"""Words of a text, and vectors from the company that they keep."""

import torch

from helpers.counting import word_vectors, words_of


def test_an_apostrophe_belongs_to_a_word_only_inside():
    assert words_of("Don't, DON'T 'tis") == ["don't", "don't", "tis"]


def test_word_vectors_by_hand():
    """a and b meet more often than by chance; neighbours reach two places, not three."""
    vocabulary, vectors = word_vectors("a b c d e f " * 5 + "a b a b a b", size=6)
    assert vocabulary == ["a", "b", "c", "d", "e", "f"]
    assert torch.allclose(vectors.norm(dim=1), torch.ones(6))
    a, d = vocabulary.index("a"), vocabulary.index("d")
    assert vectors[a, d] == 0 and vectors[a, vocabulary.index("e")] > 0
    assert (vectors >= 0).all() and torch.equal(vectors > 0, (vectors > 0).T)


def test_rare_words_are_left_out():
    vocabulary, vectors = word_vectors("a a a b b b c c d d e e f g h", size=6)
    assert vocabulary == ["a", "b", "c", "d", "e", "f"] and vectors.shape == (6, 6)
