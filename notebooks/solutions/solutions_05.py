# %% [markdown]
# # Solutions 05 · dropout
#
# One answer to each exercise of [notebook 05](../05_dropout.ipynb). Yours may look different
# and be as good: the check decides.

# %%
import itertools

import torch
import torch.nn.functional as F
from torch import nn

from helpers import telegrams

# %% [markdown]
# **5b · Words left with nothing.** Word t has t weights, and they are dropped independently of
# one another, so it loses all of them with probability p to the power t. Averages add up,
# whether the words have anything to do with each other or not. At one half, about one word of
# every text is left with nothing: nearly always one of the first few.


# %%
def my_lost_words(T, p):
    # Word t, counted from 1, has t weights, and loses all of them with probability p to the
    # power t.
    return sum(p**t for t in range(1, T + 1))


torch.manual_seed(0)
kept = (torch.rand(20_000, 6, 6) >= 0.5).tril()
lost = (kept.sum(dim=-1) == 0).sum(dim=-1).double()  # words of each draw
assert abs(lost.mean() - my_lost_words(6, 0.5)) < 0.03

# %% [markdown]
# **5c · The whole layer, by a given draw.** Scores, mask, softmax, dropout, mixture: this order
# and no other. Everything counts dimensions from the end, so that a batch changes nothing.


# %%
def my_causal_attention(query, key, value, keep, p):
    T, D = query.shape[-2:]
    scores = query @ key.transpose(-2, -1) / D**0.5
    future = torch.ones(T, T, dtype=torch.bool).triu(diagonal=1)
    weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
    # What is kept stands for what is lost: 1 - p is the share that is kept.
    return (weights * keep / (1 - p)) @ value


query, key, value = torch.randn(3, 2, 5, 4)
mine = my_causal_attention(query, key, value, keep=torch.ones(2, 5, 5), p=0.0)
right = F.scaled_dot_product_attention(query, key, value, is_causal=True)
assert torch.allclose(mine, right, atol=1e-6)

# %% [markdown]
# **5d · What comes after.** The sums are right on average: 4, 10, -6 and 0 average to 2. ReLU
# cuts off the -6, which balanced the others, and 3.5 is left. Right on average holds for sums
# of what was dropped, and for nothing that bends them.

# %%
# The four draws give 10 - 6, 10 + 0, 0 - 6 and 0 + 0. ReLU makes 4, 10, 0 and 0 of them.
my_average = (4 + 10 + 0 + 0) / 4
draws = torch.cartesian_prod(torch.tensor([0.0, 10.0]), torch.tensor([0.0, -6.0])).sum(dim=1)
assert draws.mean() == 5 - 3 and draws.relu().mean() == my_average != (5 - 3)

# %% [markdown]
# **5e · Dropped, and still there.** A dropped score became 0, and e to the power 0 is 1: a
# weight like any other. The softmax then shared 1 among all, dropped or not, so that no row
# ever lost anything. After the softmax a dropped weight is 0, and what is kept grows by a
# factor that does not depend on the draw.


# %%
def my_dropped_weights(scores, keep, p, training):
    # A dropped score would be 0, which is a score like any other: drop weights, after the softmax.
    future = torch.ones_like(scores).triu(diagonal=1) > 0
    weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
    return weights * keep / (1 - p) if training else weights


nothing = torch.zeros(3, 3)
assert not my_dropped_weights(nothing, keep=nothing > 0, p=0.5, training=True).any()

# %% [markdown]
# **5f · Rely on no one.** A fresh draw at every call, and nothing at all in evaluation.
# Dividing by 1 − p here is what spares everybody else from thinking about it.


# %%
class MyDropout(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        # train() and eval() set self.training, in this layer and in all that stand in the same
        # model.
        if not self.training or self.p == 0:
            return x
        keep = torch.rand_like(x) >= self.p
        return x * keep / (1 - self.p)


layer, ones = MyDropout(0.25), torch.ones(100_000)
assert abs(layer(ones).mean() - 1) < 0.02 and torch.equal(layer.eval()(ones), ones)

# %% [markdown]
# ## Explore: whoever reads everything once
#
# The student of the lesson reads books of different sizes from cover to cover, again and again,
# for 100 steps of 32 scenes: 50 scenes come 64 times, 3,200 come once. Three seeds; it takes
# some seconds.

# %%
if __name__ == "__main__":
    seeds = [0, 1, 2]

    class Student(nn.Module):
        """The lesson's: an asker (B, 32) and six cards (B, 6, 96) -> an answer (B, 32)"""

        def __init__(self, p):
            super().__init__()
            self.W_query = nn.Linear(32, 32, bias=False)
            self.W_key, self.W_value = (nn.Linear(96, 32, bias=False) for _ in range(2))
            self.drop = nn.Dropout(p)

        def forward(self, asker, cards):
            asker, cards = self.drop(asker), self.drop(cards)
            query, key, value = (
                self.W_query(asker)[:, None],
                self.W_key(cards),
                self.W_value(cards),
            )
            return ((query @ key.mT / 32**0.5).softmax(dim=-1) @ value)[:, 0]


# %%
def book(n, seed):
    """n scenes, which are read from cover to cover, again and again"""
    inputs, answers = telegrams.look_up("hero", n, torch.Generator().manual_seed(seed))
    pages = itertools.count()

    def examples(question, batch, generator):
        read = (batch * next(pages) + torch.arange(batch)) % n
        return tuple(each[read] for each in inputs), answers[read]

    return examples


def right(p, n, steps):
    """Right answers on new scenes, a share for each seed"""
    shares = []
    for seed in seeds:
        student = telegrams.fit(
            lambda: Student(p), "hero", seed, examples=book(n, seed), steps=steps
        )
        shares.append(telegrams.accuracy(student, "hero", seed))
    return shares


# %%
if __name__ == "__main__":
    once = 100 * 32  # so many scenes are read in 100 steps
    thin = {p: {n: right(p, n, 100) for n in (25, 50, 100, 200, once)} for p in (0.0, 0.5)}
    short = {p: {steps: right(p, once, steps) for steps in (25, 50)} for p in (0.0, 0.5)}
    for p, shares in short.items():
        shares[100] = thin[p][once]
    for what, table in (("scenes, 100 steps", thin), ("steps, no scene twice", short)):
        for p, shares in table.items():
            for size, row in shares.items():
                said = " ".join(f"{share:.2f}" for share in row)
                print(f"p = {p}   {size:4} {what:22} right: {said}")

    pairs = {n: list(zip(row, thin[0.5][n], strict=True)) for n, row in thin[0.0].items()}
    assert all(without + 0.05 < with_it for without, with_it in pairs[50] + pairs[100])
    assert max(map(max, pairs[25])) < 0.5  # 25 scenes are too few for both
    assert min(map(min, pairs[200] + pairs[once])) > 0.94  # and from 200 on both learn the rule
    halfway = zip(short[0.0][25], short[0.5][25], strict=True)
    # Here dropout costs time.
    assert all(without > with_it + 0.2 for without, with_it in halfway)
    assert min(short[0.0][50]) > 0.95

# %% [markdown]
# Dropout is for whoever reads the same thing often, and enough of it: with 25 scenes nobody
# finds the rule, with 50 or 100 dropout finds it for most, and from 200 on it comes by itself.
# Where nothing is read twice, there is nothing to learn by heart: dropout takes nothing from
# the end, but it needs about twice as long to get there. That is why the large models of today,
# which read nearly everything once, mostly go without it.
