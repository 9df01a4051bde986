"""Byte pair encoding (Sennrich et al. 2016), on letters: which tokens a text makes, and what it is cut into."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Int64, Integer
from torch import Tensor

Pair = tuple[str, str]


def chunks(text: str) -> list[str]:
    """Words with the blank before them, runs of other signs, and single blanks: no token reaches across."""
    return re.findall(r" ?\w+| ?[^\w\s]+|\s", text)


def merge(tokens: Iterable[str], pair: Pair) -> list[str]:
    """The tokens, in which each such pair, from the left, has become one."""
    merged: list[str] = []
    for token in tokens:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token
        else:
            merged.append(token)
    return merged


def learn(text: str, count: int) -> list[Pair]:
    """The first `count` merges of a text, the most frequent pair each; of equally frequent ones the last by name.

    Fewer, where nothing is left to merge.
    """
    chunk_counts = Counter(chunks(text))
    cut = {chunk: list(chunk) for chunk in chunk_counts}
    pairs: Counter[Pair] = Counter()
    where: dict[Pair, set[str]] = {}  # the chunks that have had a pair

    def tally(chunk: str, sign: int) -> None:
        for pair in pairwise(cut[chunk]):
            pairs[pair] += sign * chunk_counts[chunk]
            where.setdefault(pair, set()).add(chunk)

    for chunk in cut:
        tally(chunk, +1)
    merges = []
    for _ in range(count):
        best = max(pairs, key=lambda pair: (pairs[pair], pair), default=None)
        if best is None or not pairs[best]:  # every chunk is one token
            break
        merges.append(best)
        for chunk in where[best]:
            tally(chunk, -1)
            cut[chunk] = merge(cut[chunk], best)
        for chunk in where.pop(best):
            tally(chunk, +1)
        del pairs[best]
    return merges


class BPETokenizer:
    """Text to ids and back: the letters of an alphabet, and then what each merge makes."""

    def __init__(self, alphabet: Sequence[str], merges: Sequence[Pair]):
        self.tokens = list(dict.fromkeys([*alphabet, *("".join(pair) for pair in merges)]))
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.ranks = {pair: rank for rank, pair in reversed([*enumerate(merges)])}
        self.known: dict[str, list[str]] = {}

    def cut(self, chunk: str) -> list[str]:
        """The tokens of a chunk: the merges in the order in which they were learned."""
        tokens = list(chunk)
        while pairs := [pair for pair in pairwise(tokens) if pair in self.ranks]:
            tokens = merge(tokens, min(pairs, key=self.ranks.__getitem__))
        return tokens

    def encode(self, text: str) -> Int64[Tensor, "N"]:
        """Ids; KeyError for a letter that the alphabet lacks."""
        ids: list[int] = []
        for chunk in chunks(text):
            if chunk not in self.known:
                self.known[chunk] = self.cut(chunk)
            ids += [self.ids[token] for token in self.known[chunk]]
        return torch.tensor(ids)

    def decode(self, ids: Integer[Tensor, "N"]) -> str:
        return "".join(self.tokens[i] for i in ids.tolist())
