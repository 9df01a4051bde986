# %% [markdown]
# # Solutions 02 · softmax weights
#
# One answer to each exercise of [notebook 02](../02_softmax_weights.ipynb). Yours may look
# different and be as good: the check decides.

# %%
import math

import torch

# %% [markdown]
# **2a · A softmax that survives.** What is taken away from all scores of a row cancels in the
# fraction. So take away the largest: then the largest exponential is 1, and nothing can
# overflow.


# %%
def my_softmax(scores):
    # What is taken away from a whole row changes no weight, and with the largest gone nothing
    # overflows.
    exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


assert my_softmax(torch.tensor([1000.0, -1000.0])).tolist() == [1.0, 0.0]

# %% [markdown]
# **2b · Mix the values.** Scores, weights, mixture: one step each. The keys decide how much
# each value counts, and the values alone decide what is told.


# %%
def my_contexts(queries, keys, values):
    return my_softmax(queries @ keys.transpose(-2, -1)) @ values


# A query that prefers nobody gets the plain average.
mixture = my_contexts(torch.zeros(1, 2), torch.randn(4, 2), torch.eye(4))
assert torch.equal(mixture, torch.full((1, 4), 0.25))

# %% [markdown]
# **2d · Colder.** Half the temperature squares what stands between two words: at a temperature
# of 1, the third outweighs the first by 5 to 1, now by 25 to 1.

# %%
# To divide by one half is to double: 2 ln 5 is the logarithm of 5². So 1, 4 and 25, which add
# up to 30.
my_shares = (1 / 30, 4 / 30, 25 / 30)
scores = torch.tensor([1.0, 2.0, 5.0]).log()
assert torch.allclose(torch.softmax(scores / 0.5, dim=0), torch.tensor(my_shares))

# %% [markdown]
# **2e · It worked on one table.** Dimension 1 holds the keys in a table and the queries in a
# batch of tables. Counted from the end, the keys are always dimension -1.


# %%
def my_weights(scores):
    # dim=1 is the last dimension of a table, but not of a batch of tables. dim=-1 always is.
    return torch.softmax(scores, dim=-1)


assert torch.allclose(my_weights(torch.randn(2, 3, 4)).sum(dim=-1), torch.ones(2, 3))

# %% [markdown]
# **2f · One voice in a crowd.** The crowd counts by its logarithm. To be heard for half among
# ten words, one must lead by 2.2; among a million, by 13.8. Twice as many others cost only 0.7
# more.


# %%
def my_lead(n, share):
    # One of the others has the weight (1 - share) / (n - 1), and the lead is the logarithm of
    # the ratio.
    return math.log(share / ((1 - share) / (n - 1)))


# %%
others = torch.zeros(999)
crowd = torch.cat([torch.tensor([my_lead(1000, 0.3)]), others]).softmax(dim=0)
assert abs(crowd[0] - 0.3) < 1e-5

# %% [markdown]
# **2g · Change places.** A mixture has no order: each word asks the same of the same five, and
# gets the same. Only rows 2 and 4 show something else, since another word stands there. This
# attention reads a bag of words; where they stand must be told in another way (notebook 07).

# %%
# A word asks the same of the same five, and so keeps its context. Its row moves along with it.
my_changes = (2, 0)
x = torch.randn(5, 3)
changed = x[[0, 3, 2, 1, 4]]
before, after = (torch.softmax(y @ y.T, dim=1) @ y for y in (x, changed))
moved = (before - after).abs().amax(dim=1) > 1e-4
assert int(moved.sum()) == my_changes[0]
assert torch.allclose(before, after[[0, 3, 2, 1, 4]], atol=1e-6)

# %% [markdown]
# **2h · Beyond the fence?** The fence is the triangle of the three words. b lies outside. On the
# fence itself some word would have the weight 0, and no exponential is 0: softmax comes as near
# to a and c as you like, and never there.

# %%
# Only inside the triangle are all three weights above 0.
my_reach = "d"
words = torch.tensor(
    [[2.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, -1.0, 1.0]]
)  # and shares add up to 1
points = torch.tensor([[1, 0.5, 1], [1, 0.6, 1], [2, 0, 1], [0.1, -0.2, 1]])
weights = torch.linalg.solve(words.T, points.T).T  # what each point would need
inside = (weights > 1e-6).all(dim=1)
assert "".join("abcd"[i] for i in range(4) if inside[i]) == my_reach

# %% [markdown]
# **2i · How far to roll.** The slope is -4 at 1, so the first step is 0.1 · 4. At a rate of 0.5 the
# step is 2 long and ends in the valley. At 1 it is 4 long and ends as far on the other side, where
# the slope is 4: back it goes, forever. Above 1 each step ends higher than it began.


# %%
def after(rate, steps, knob=1.0):
    for _ in range(steps):
        knob -= rate * 2 * (knob - 3)  # against the slope
    return knob


my_prediction = (1.4, 0.5, 1.0)
assert abs(after(0.1, 1) - my_prediction[0]) < 1e-6
assert after(my_prediction[1], 1) == 3.0
assert [after(my_prediction[2], n) for n in (1, 2, 3)] == [5.0, 1.0, 5.0]
assert after(1.1, 20) < -70  # uphill, farther with each step

# %% [markdown]
# **2j · Feel your way down.** Two measurements for each knob, and only then are they turned: each
# slope belongs to the place where all knobs still stand.


# %%
def my_roll(error, knobs, rate, steps):
    knobs = knobs.clone()
    for _ in range(steps):
        slopes = torch.zeros_like(knobs)
        for i in range(len(knobs)):
            left, right = knobs.clone(), knobs.clone()
            left[i] -= 0.001
            right[i] += 0.001
            slopes[i] = (error(right) - error(left)) / 0.002
        knobs -= rate * slopes
    return knobs


def far_from_three(knobs):
    return ((knobs - 3) ** 2).sum()


rolled = my_roll(far_from_three, torch.ones(2, dtype=torch.double), 0.1, 1)
assert rolled.allclose(torch.full((2,), 1.4, dtype=torch.double), atol=1e-3)  # as in 2i
