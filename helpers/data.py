"""The command `python -m helpers.data`, and the names of helpers/core/data.py, world/corpus.py and world/words.py."""

from helpers.commands.prepare import main
from helpers.core.data import CharTokenizer, alphabet_of, get_batch, split
from helpers.support.console import leave
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

if __name__ == "__main__":
    leave(main)
