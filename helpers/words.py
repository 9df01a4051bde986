"""The words of a text, and a vector for each from the company it keeps: no learning, only counting."""

import re
from collections import Counter

import torch
from jaxtyping import Float
from torch import Tensor

from helpers.counting import pair_counts
from helpers.errors import CorpusError


def words_of(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters, with at most one apostrophe inside."""
    return re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", text.lower())


def word_vectors(text: str, size: int = 1000) -> tuple[list[str], Float[Tensor, "V V"]]:
    """The `size` most frequent words, and for each a vector (V,) of length 1, from the company it
    keeps; no learning.

    Entry (a, b) is the positive pointwise mutual information of a and b standing at most two places
    apart (Church and Hanks 1990; notebook 01 derives it). CorpusError for a text with fewer than 6
    different words.
    """
    words = words_of(text)
    vocabulary = [word for word, _ in Counter(words).most_common(size)]
    if len(vocabulary) < 6:
        raise CorpusError(f"word vectors need a text with 6 different words, not {len(vocabulary)}")
    V = len(vocabulary)
    number = {word: i for i, word in enumerate(vocabulary)}
    ids = torch.tensor([number.get(word, V) for word in words])  # V stands for all rarer words
    near = pair_counts(ids, V + 1) + pair_counts(ids, V + 1, distance=2)
    near = (near + near.T)[:V, :V].float()
    by_chance = near.sum(dim=1, keepdim=True) * near.sum(dim=0) / near.sum()
    surprise = (near / by_chance).log().clamp(min=0).nan_to_num(0.0)
    return vocabulary, surprise / surprise.norm(dim=1, keepdim=True).clamp(min=1e-9)
