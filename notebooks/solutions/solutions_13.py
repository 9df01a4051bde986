"""One answer to each exercise of notebook 13. Yours may look different and be as good: the checks decide."""

import torch
import torch.nn.functional as F

# u occurs four times, after q alone. e occurs three times, after u, e and i.
my_counts = (4, 1, 3, 3)


def my_left_out(c, n, kinds, d, lower):
    if n == 1:  # nothing else was counted here
        return lower
    left = c - 1
    kept = max(left - d, 0) / (n - 1)  # a count of 0 gives nothing away
    given = d * (kinds - (left == 0)) / (n - 1)
    return kept + given * lower


def my_smoothed(counts, lower, d):
    total = counts.sum()
    if total == 0:
        return lower
    kept = (counts - d).clamp(min=0) / total
    given = d * (counts > 0).sum() / total  # each letter that was seen gives d
    return kept + given * lower


def my_neighbours(tokens, V):
    # Each pair of neighbours counts once, however often it occurs.
    pairs = torch.stack([tokens[:-1], tokens[1:]], dim=1).unique(dim=0)
    return pairs[:, 1].bincount(minlength=V) / len(pairs)


def my_rows(tokens, V, rows):
    # V is the digit of "nothing stands here", so there are V + 1 digits.
    before = F.pad(tokens, (1, 0), value=V)[:, :-1]
    return (before * (V + 1) + tokens) % rows


def my_together(alone, counts, gates):
    # A product of powers is a sum of logarithms, each times its gate; logits are logarithms already.
    by_counting = (gates[:, 1:, None] * counts.log()).sum(dim=1)
    return (gates[:, :1] * alone + by_counting).softmax(dim=-1)
