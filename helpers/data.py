"""The names of helpers/core/data.py, and of the texts in helpers/world/corpus.py and words.py."""

from helpers.core.data import CharTokenizer, alphabet_of, get_batch, split
from helpers.world.corpus import BUNDLED, BUNDLED_PLAY, OWN, TINY, Corpus, load_corpus
from helpers.world.words import word_vectors, words_of

__all__ = [
    "BUNDLED",
    "BUNDLED_PLAY",
    "OWN",
    "TINY",
    "CharTokenizer",
    "Corpus",
    "alphabet_of",
    "get_batch",
    "load_corpus",
    "split",
    "word_vectors",
    "words_of",
]
