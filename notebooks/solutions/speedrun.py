# %% [markdown]
# # Solutions · a speedrun
#
# One answer to each exercise of [its notebook](../beyond/speedrun.ipynb). Yours may look different
# and be as good: the check decides.

# %%
import math
from itertools import pairwise

import torch
import torch.nn.functional as F

from helpers.counting import NEIGHBOURS, KneserNey

seed = 0  # for what is drawn

# %% [markdown]
# **13a · Often, and after one.** To the left of `u` stands q, four times. To the left of `e`
# stand u, e and i: in `queens` the second e stands after the first. After a letter that one has
# never seen, `e` is the better bet: it goes with many, and `u` comes often only because q does.

# %%
# u occurs four times, after q alone. e occurs three times, after u, e and i.
my_counts = (4, 1, 3, 3)
text = "quick queens quit quietly"
pairs = list(pairwise(text))
for letter, (often, after) in {"u": my_counts[:2], "e": my_counts[2:]}.items():
    assert text.count(letter) == often
    assert len({first for first, second in pairs if second == letter}) == after

# %% [markdown]
# **13b · As if it weren't there.** Strike out one occurrence, and count again. There are n - 1
# letters left, c - 1 of them ours. If c was 1, ours is now one that was never seen: it keeps
# nothing, and one kind fewer gives something away. If n was 1, too, there is nobody left to
# give, and the shorter run has the whole say. In training that matters: a run of six letters
# has often been seen once only, at this very place, and it would be sure of what it can't know.


# %%
def my_left_out(c, n, kinds, d, lower):
    if n == 1:  # nothing else was counted here
        return lower
    left = c - 1
    kept = max(left - d, 0) / (n - 1)  # a count of 0 gives nothing away
    given = d * (kinds - (left == 0)) / (n - 1)
    return kept + given * lower


followed = list("eeeeeeaaaiiou")
kinds = len(set(followed))
for letter in "eaiou":
    rest = followed.copy()
    rest.remove(letter)
    kept = max(rest.count(letter) - 0.75, 0)
    counted_again = (kept + 0.75 * len(set(rest)) * 0.2) / len(rest)
    left_out = my_left_out(followed.count(letter), len(followed), kinds, 0.75, 0.2)
    assert math.isclose(left_out, counted_again)

# %% [markdown]
# **13c · Nothing gets lost.** Each letter that was seen gives d away, so d times their number
# is what `lower` has to share out. The broken version handed on a single d, whoever had given.
# With what is given and what is kept, all shares add up to 1 for any counts. And a run that was
# never seen has no opinion of its own. What 13b says of one letter is this with one occurrence
# less.


# %%
def my_smoothed(counts, lower, d):
    total = counts.sum()
    if total == 0:
        return lower
    kept = (counts - d).clamp(min=0) / total
    given = d * (counts > 0).sum() / total  # each letter that was seen gives d
    return kept + given * lower


torch.manual_seed(seed)
counts, lower = torch.tensor([6.0, 3, 2, 1, 1, 0, 0]), torch.randn(7).softmax(dim=0)
for some in (counts, 1000 * counts, (counts > 2).float(), 0 * counts):
    torch.testing.assert_close(my_smoothed(some, lower, 0.75).sum().item(), 1.0)
for letter in range(5):
    once_less = counts - F.one_hot(torch.tensor(letter), 7)
    c, n, p = counts[letter].item(), counts.sum().item(), lower[letter].item()
    left_out = my_left_out(c, n, 5, 0.75, p)
    assert math.isclose(left_out, my_smoothed(once_less, lower, 0.75)[letter], rel_tol=1e-5)

# %% [markdown]
# **13d · Known by its neighbours.** Each pair of neighbours counts once, so the shares are
# those of the second letters among all *different* pairs. In the text of 13a, `u` has one pair
# of 17, and `e` has three. Our own `KneserNey` counts in the same way, but for the first token:
# before a text it sets a letter of its own, which counts as one more that the first token
# stands after.


# %%
def my_neighbours(tokens, V):
    # Each pair of neighbours counts once, however often it occurs.
    pairs = torch.stack([tokens[:-1], tokens[1:]], dim=1).unique(dim=0)
    return pairs[:, 1].bincount(minlength=V) / len(pairs)


torch.manual_seed(seed)
tokens = (30 * torch.rand(500) ** 2).long()
level = KneserNey(tokens, 30, 1).levels[0]
kinds = torch.zeros(30).index_copy(0, level.letters, level.counts[NEIGHBOURS])
kinds[tokens[0]] -= 1  # the start of the text
torch.testing.assert_close(my_neighbours(tokens, 30), kinds / kinds.sum())

# %% [markdown]
# **13f · A product of experts.** Each expert's probabilities are raised to the power of its
# gate, all are multiplied, and the product is divided by its sum. In logarithms that is a
# weighted sum and a softmax. Logits will do in place of the network's logarithms: the two
# differ by one constant for each place, which the softmax takes out. A gate of 0 silences its
# expert, for a number to the power 0 is 1. And whoever thinks a letter next to impossible has a
# veto, which in a mixture nobody has.


# %%
def my_together(alone, counts, gates):
    # A product of powers is a sum of logarithms, each times its gate; logits are logarithms
    # already.
    by_counting = (gates[:, 1:, None] * counts.log()).sum(dim=1)
    return (gates[:, :1] * alone + by_counting).softmax(dim=-1)


torch.manual_seed(seed)
alone, counts = torch.randn(5, 8), torch.randn(5, 3, 8).softmax(dim=-1)
gates = torch.rand(5, 4)
product = alone.softmax(dim=-1) ** gates[:, :1]
for length in range(3):
    product = product * counts[:, length] ** gates[:, [1 + length]]
together = my_together(alone, counts, gates)
torch.testing.assert_close(together, product / product.sum(dim=-1, keepdim=True))
only_the_second = torch.tensor([0.0, 0, 1, 0]).expand(5, 4)
torch.testing.assert_close(my_together(alone, counts, only_the_second), counts[:, 1])
