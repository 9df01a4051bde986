"""Counting: how likely each letter is after the letters before it, by modified Kneser-Ney.

After `is thi`, English goes on with `s`. A text of a million letters says so by itself: look up
what followed `is thi` in it, and how often. Two things are wrong with bare counting, and each has
its repair (Kneser and Ney 1995; Chen and Goodman 1998, An Empirical Study of Smoothing Techniques
for Language Modeling, who modified the discounts):

- What was never seen would be impossible. So each count gives a part of itself away, its discount,
  and what a context gives away is shared out as the next shorter context expects.
- A shorter context matters most where the longer one is new. There it says little how often `o`
  followed `ome`, if it always did so in `Romeo`. So a shorter context doesn't count how often a
  letter followed it, but how many different letters stood before the context and that letter: its
  neighbours.
"""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Integer
from torch import Tensor

# Two ways to count a letter after a context: how often; how many letters stood before both.
OCCURRENCES, NEIGHBOURS = 0, 1
UNSEEN, TOO_EARLY = -1, -2  # in place of a context's number
LARGEST_TABLE = 4_000_000  # entries of a table that is kept whole; larger ones are looked up
# A count gives away at least this much: else what was never seen would be impossible.
LEAST = 0.1


def _on(device: torch.device) -> AbstractContextManager:
    """Where new tensors are made. On the CPU they are anyway, and asking costs time."""
    return device if device.type != "cpu" else nullcontext()


class KneserNey:
    """The counts of a text, tokens (N,) below `vocab_size`, for contexts of 0 to `longest` letters.

    A million letters with contexts of up to eight take about two seconds and half a gigabyte.
    """

    def __init__(self, tokens: Integer[Tensor, "N"], vocab_size: int, longest: int):
        self.vocab_size, self.longest = vocab_size, longest
        self.device = tokens.device
        with _on(self.device):  # all tables are made where the text is
            self.levels = self._levels(tokens.long(), vocab_size, longest)

    @staticmethod
    def _levels(text: Int64[Tensor, "N"], vocab_size: int, longest: int) -> list["_Level"]:
        # Before the text stands a letter of its own.
        padded = F.pad(text, (longest, 0), value=vocab_size)
        # The number of each letter's context: at first none of them has any letters.
        context = torch.zeros_like(text)
        keys, entry, tables = context[:1], None, []  # an entry is a context with its next letter
        for length in range(longest + 1):
            if length:
                before = padded[longest - length :][: len(text)]
                keys, context = (context * (vocab_size + 1) + before).unique(return_inverse=True)
            entry_one_shorter = entry
            pairs, entry, times = (context * vocab_size + text).unique(return_inverse=True, return_counts=True)
            if length:
                # Each entry is a neighbour of the entry without its first letter: these are counted
                # for the table before, which is still the last.
                without_first = torch.empty_like(pairs).index_copy_(0, entry, entry_one_shorter)
                tables[-1].append(without_first.bincount())
            tables.append([keys, pairs, times])
        tables[-1].append(times)  # nobody asks for the neighbours of the longest
        return [_Level.of(*table, vocab_size) for table in tables]

    def contexts(self, tokens: Int64[Tensor, "B T"]) -> list[Int64[Tensor, "B T"]]:
        """For each length, the number of the context that ends with each token.

        UNSEEN where the counted text doesn't have it, TOO_EARLY where it would begin before the
        first token.
        """
        contexts = [torch.zeros_like(tokens)]
        for length in range(1, self.longest + 1):
            keys = self.levels[length].keys
            before = F.pad(tokens, (length - 1, 0))[:, : tokens.shape[1]]
            key = contexts[-1] * (self.vocab_size + 1) + before
            place = torch.searchsorted(keys, key).clamp_max(len(keys) - 1)
            here = torch.where((contexts[-1] >= 0) & (keys[place] == key), place, UNSEEN)
            here[:, : length - 1] = TOO_EARLY
            contexts.append(here)
        return contexts

    def probabilities(
        self,
        tokens: Int64[Tensor, "B T"],
        lengths: Sequence[int],
        targets: Int64[Tensor, "B T"] | None = None,
    ) -> tuple[Float[Tensor, "B T L V"], Float[Tensor, "B T L"]]:
        """The probability of each letter after each token, by contexts of these lengths.

        And how often these contexts were seen.

        All tensors are where the counted text is. Where there are too few tokens for a context,
        the longest that there is stands in. If `tokens` are a piece of the counted text, `targets`
        are the tokens that follow them there: each place is then predicted as if its own target had
        not been counted, that once.
        """
        with _on(self.device):
            return self._probabilities(tokens, lengths, targets)

    def _probabilities(
        self, tokens: Int64[Tensor, "B T"], lengths: Sequence[int], targets: Tensor | None
    ) -> tuple[Float[Tensor, "B T L V"], Float[Tensor, "B T L"]]:
        flat = None if targets is None else targets.flatten()
        places = [
            _Places(level, context.flatten(), flat)
            for level, context in zip(self.levels, self.contexts(tokens), strict=True)
        ]
        lower = torch.full((tokens.numel(), self.vocab_size), 1 / self.vocab_size)
        p, totals = [], []
        for length, here in enumerate(places):
            of_length, total = here.smoothed(OCCURRENCES, lower, here.left_out)
            if length:
                early = here.context == TOO_EARLY
                of_length = torch.where(early[:, None], p[-1], of_length)
                total = torch.where(early, totals[-1], total)
            p.append(of_length)
            totals.append(total)
            if length < self.longest:
                left_out = places[length + 1].neighbour_left_out
                lower, _ = here.smoothed(NEIGHBOURS, lower, left_out)
        by_length = (torch.stack([x[length] for length in lengths], dim=1) for x in (p, totals))
        p, totals = (x.unflatten(0, tokens.shape) for x in by_length)
        return p, totals


@dataclass
class _Level:
    """What followed the contexts of one length.

    Entry e says: after its context came letters[e], so often, counted in both ways: counts[:, e].
    """

    # Sorted: number of the context without its first letter * (V + 1) + that letter.
    keys: Int64[Tensor, "C"]
    first: Int64[Tensor, "C_and_1"]  # the entries of context c are first[c] to first[c + 1]
    pairs: Int64[Tensor, "E"]  # sorted: number of the context * V + letter
    letters: Int64[Tensor, "E"]
    counts: Float[Tensor, "2 E"]
    discounts: Float[Tensor, "2 4"]
    discounted: Float[Tensor, "2 E"]  # counts less their discounts
    # The same, a row for each context, which is quicker: where they are few.
    table: Float[Tensor, "2 C V"] | None
    totals: Float[Tensor, "2 C"]
    given_away: Float[Tensor, "2 C"]  # by the entries of a context, together
    vocab_size: int

    @classmethod
    def of(cls, keys: Tensor, pairs: Tensor, occurrences: Tensor, neighbours: Tensor, vocab_size: int) -> "_Level":
        C, context, letters = len(keys), pairs // vocab_size, pairs % vocab_size
        first = torch.searchsorted(context, torch.arange(C + 1))
        counts = torch.stack([occurrences, neighbours]).float()
        discounts = torch.stack([discounts_of(way) for way in counts])
        given_away = discounts.gather(1, counts.clamp_max(3).long())
        discounted, table = counts - given_away, None
        if C * vocab_size <= LARGEST_TABLE:
            table = torch.zeros(2, C * vocab_size).index_copy_(1, pairs, discounted)
            table = table.unflatten(1, (C, vocab_size))
        sums = (torch.zeros(2, C).index_add_(1, context, x) for x in (counts, given_away))
        return cls(keys, first, pairs, letters, counts, discounts, discounted, table, *sums, vocab_size)

    def entries_of(self, context: Int64[Tensor, "N"]) -> tuple[Int64[Tensor, "M"], Int64[Tensor, "M"]]:
        """All entries of all these contexts, and whose each is: a place in `context`."""
        first = self.first[context.clamp_min(0)]
        count = torch.where(context >= 0, self.first[context.clamp_min(0) + 1] - first, 0)
        place = torch.arange(len(context)).repeat_interleave(count)
        # 0, 1, 2, ... in each context
        nth = torch.arange(len(place)) - (count.cumsum(0) - count)[place]
        return first[place] + nth, place

    def entry_of(self, context: Int64[Tensor, "N"], letter: Int64[Tensor, "N"]) -> Int64[Tensor, "N"]:
        """The entry that says: after this context came this letter. UNSEEN where there is none."""
        pair = context * self.vocab_size + letter
        place = torch.searchsorted(self.pairs, pair).clamp_max(len(self.pairs) - 1)
        return torch.where((context >= 0) & (self.pairs[place] == pair), place, UNSEEN)


class _Places:
    """Many places of a text, and what a level knows of their contexts (N,).

    `targets` are the letters that come next; they are left out of the counts, each at its place.
    """

    def __init__(self, level: _Level, context: Int64[Tensor, "N"], targets: Int64[Tensor, "N"] | None):
        self.level, self.context, self.targets = level, context, targets
        if level.table is None:
            self.entries, self.place = level.entries_of(context)
        # How much the count of each place's target falls: by 1 where it was counted. The level
        # below counts different letters that came before it; there, the count falls by 1 only if
        # the longer context occurred this once.
        self.left_out = self.neighbour_left_out = None
        if targets is not None:
            self.own = level.entry_of(context, targets)
            self.left_out = (self.own >= 0).float()
            once = level.counts[OCCURRENCES][self.own] == 1
            self.neighbour_left_out = self.left_out * once

    def smoothed(
        self, way: int, lower: Float[Tensor, "N V"], left_out: Float[Tensor, "N"] | None
    ) -> tuple[Float[Tensor, "N V"], Float[Tensor, "N"]]:
        """The probability of each letter, and how much was counted.

        What the counts give away is shared out as `lower`, the shorter context, has it.
        """
        level, rows = self.level, self.context.clamp_min(0)
        if level.table is None:
            discounted = torch.zeros_like(lower)
            discounted[self.place, level.letters[self.entries]] = level.discounted[way][self.entries]
        else:
            discounted = level.table[way][rows]
        total = torch.where(self.context >= 0, level.totals[way][rows], 0.0)
        given_away = level.given_away[way][rows]
        if left_out is not None:
            count, discounts = level.counts[way][self.own], level.discounts[way]
            fewer = count - left_out
            # The count falls by `left_out`: partly that had been kept, the rest given away.
            drop = level.discounted[way][self.own] - (fewer - discounts[fewer.clamp_max(3).long()])
            discounted[torch.arange(len(discounted)), self.targets] -= drop
            total = total - left_out
            given_away = given_away - (left_out - drop)
        p = (discounted + given_away[:, None] * lower) / total.clamp_min(1)[:, None]
        return torch.where(total[:, None] > 0, p, lower), total


def discounts_of(counts: Float[Tensor, "E"]) -> Float[Tensor, "4"]:
    """What a count of 0, of 1, of 2, and of 3 or more gives away.

    Chen and Goodman estimate it from how many counts are 1, 2, 3 and 4. Where that can't be said, a
    count gives half of itself away, and at most 1.5.
    """
    n1, n2, n3, n4 = (float((counts == n).sum()) for n in (1, 2, 3, 4))
    if min(n1, n2, n3) == 0:
        return torch.tensor([0.0, 0.5, 1.0, 1.5])
    y = n1 / (n1 + 2 * n2)
    discounts = [0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
    return torch.tensor([min(max(d, LEAST), float(i)) for i, d in enumerate(discounts)])


def pair_counts(tokens: Int64[Tensor, "N"], vocab_size: int, distance: int = 1) -> Int64[Tensor, "V V"]:
    """How often token b (column) stands `distance` places after token a (row)."""
    V = vocab_size
    pairs = tokens[:-distance] * V + tokens[distance:]
    return torch.bincount(pairs, minlength=V * V).view(V, V)


# ---------------------------------------------------------------- words by their company
def words_of(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters, with at most one apostrophe inside."""
    return re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", text.lower())


def spoken(text: str) -> str:
    """A play without what is only printed: the lines that say who speaks, and titles in capitals."""
    lines = text.splitlines()
    return "\n".join(
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if not line.isupper() and not (before == "" and line.endswith(":"))
    )


def word_vectors(text: str, size: int = 1000, reach: int = 2) -> tuple[list[str], Float[Tensor, "V V"]]:
    """The `size` most frequent words, each with a vector (V,) of length 1: the company it keeps.

    Nothing is learned. Entry (a, b) is the positive pointwise mutual information of a and b standing
    at most `reach` places apart (Church and Hanks 1990; notebook 01 derives it).
    """
    words = words_of(text)
    vocabulary = [word for word, _ in Counter(words).most_common(size)]
    V = len(vocabulary)
    number = {word: i for i, word in enumerate(vocabulary)}
    ids = torch.tensor([number.get(word, V) for word in words])  # V stands for all rarer words
    near = torch.stack([pair_counts(ids, V + 1, distance) for distance in range(1, reach + 1)]).sum(dim=0)
    near = (near + near.T)[:V, :V].float()
    by_chance = near.sum(dim=1, keepdim=True) * near.sum(dim=0) / near.sum()
    surprise = (near / by_chance).log().clamp(min=0).nan_to_num(0.0)
    return vocabulary, surprise / surprise.norm(dim=1, keepdim=True).clamp(min=1e-9)
