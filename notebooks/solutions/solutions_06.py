# %% [markdown]
# # Solutions 06 · multi-head attention
#
# One answer to each exercise of [notebook 06](../06_multi_head.ipynb). Yours may look different
# and be as good: the check decides.

# %%
import torch
from torch import nn

from helpers import telegrams
from helpers.attention import attention

# %% [markdown]
# **6c · What each head writes.** Rows 0 to D - 1 of $W_o$ meet the numbers of head 1, the next D
# those of head 2. So the product of the joined heads with $W_o$ is a sum of H small products.


# %%
def my_shares(contexts, W_out):
    slices = W_out.unflatten(0, (len(contexts), -1))  # (H, D, C)
    return contexts @ slices  # (H, T, D) @ (H, D, C): one product for each head


contexts, W_out = torch.randn(3, 5, 4), torch.randn(12, 8)
joined = contexts.transpose(0, 1).flatten(1)  # (T, H, D) -> (T, H * D)
assert torch.allclose(my_shares(contexts, W_out).sum(dim=0), joined @ W_out, atol=1e-5)

# %% [markdown]
# **6d · Attention in pieces.** Only the scale was in the way. Measured from the larger of both
# maxima, the two sums can be added, and each context counts as much as its own sum. So
# attention never needs all scores at once: this step, over and over, is what FlashAttention
# does (Dao et al. 2022, section 3.1; the softmax is Milakov and Gimelshein's, 2018).


# %%
def my_merge(m1, l1, context1, m2, l2, context2):
    # Bring both sums to one scale. Neither exponent is above 0, so that nothing overflows.
    m = torch.maximum(m1, m2)
    sum1, sum2 = l1 * torch.exp(m1 - m), l2 * torch.exp(m2 - m)
    # Each context is an average: times its own sum it is what that piece has added up.
    return m, sum1 + sum2, (sum1 * context1 + sum2 * context2) / (sum1 + sum2)


# %% [markdown]
# Feed it a hundred keys in pieces of seven, with scores of up to ten thousand, beginning with a
# piece that holds nothing: the largest score is minus infinity, and the sum is 0.

# %%
torch.manual_seed(0)
scores, values = torch.randn(4, 100).double() * 3e3, torch.randn(100, 5).double()
so_far = torch.full((4, 1), -torch.inf), torch.zeros(4, 1), torch.zeros(4, 5)
for s, v in zip(scores.split(7, dim=1), values.split(7), strict=True):
    m = s.amax(dim=1, keepdim=True)
    so_far = my_merge(*so_far, m, (s - m).exp().sum(dim=1, keepdim=True), s.softmax(dim=1) @ v)
off = (so_far[2] - scores.softmax(dim=1) @ values).abs().max()
assert off < 1e-12 < 1 < so_far[0].max()

# %% [markdown]
# **6e · Two faults.** Joined by `view` alone, row 0 of the output held words 0, 1 and 2 of the
# first head, and so the first word saw the future although every head had its mask. The other
# fault changes no shape and leaks nothing: over the root of C instead of D, the scores are too
# small, and the weights too even.


# %%
def my_heads(query, key, value, num_heads):
    B, T, C = query.shape
    query, key, value = (
        x.view(B, T, num_heads, -1).transpose(1, 2) for x in (query, key, value)
    )
    # The width of ONE head counts, and words come back to the front before the heads are joined.
    scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
    future = torch.ones(T, T, dtype=torch.bool).triu(diagonal=1)
    weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
    return (weights @ value).transpose(1, 2).reshape(B, T, C)


x = torch.randn(2, 5, 12)
later = x.clone()
later[:, -1] = 9.0  # another last word
before, after = (my_heads(y, y, y, num_heads=3) for y in (x, later))
assert torch.allclose(before[:, :-1], after[:, :-1], atol=1e-5)

# %% [markdown]
# **6g · Several questions at once.** Project, split, attend with `my_heads` of 6e, which joins
# again, and mix.


# %%
class MyHeads(nn.Module):
    def __init__(self, C, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_query, self.W_key = nn.Linear(C, C, bias=False), nn.Linear(C, C, bias=False)
        self.W_value, self.W_out = nn.Linear(C, C, bias=False), nn.Linear(C, C, bias=False)

    def forward(self, x):
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        return self.W_out(my_heads(query, key, value, self.num_heads))


layer, x = MyHeads(12, 3), torch.randn(2, 5, 12)
assert layer(x).shape == x.shape and sum(p.numel() for p in layer.parameters()) == 4 * 12 * 12

# %% [markdown]
# ## Explore: how many heads does a question need?
#
# One network for one question or two, whose heads share C numbers; a last matrix leaves C free.
# Three seeds, a hundred steps each; it takes some seconds.

# %%
if __name__ == "__main__":
    seeds = [0, 1, 2]

    class Asker(nn.Module):
        """asker (B, 32), cards (B, 6, 96) -> (B, words, 32), from heads that share C numbers"""

        def __init__(self, heads, C, words):
            super().__init__()
            self.heads, self.words = (heads, C // heads), words
            self.W_query = nn.Linear(32, C, bias=False)
            self.W_key, self.W_value = (nn.Linear(96, C, bias=False) for _ in range(2))
            self.W_out = nn.Linear(C, 32 * words, bias=False)  # so that C is free

        def forward(self, asker, cards):
            query = self.W_query(asker).unflatten(-1, self.heads)[:, :, None]  # (B, H, 1, D)
            keys, values = (
                W(cards).unflatten(-1, self.heads) for W in (self.W_key, self.W_value)
            )
            context, _ = attention(query, keys.transpose(1, 2), values.transpose(1, 2))
            return self.W_out(context.flatten(1)).unflatten(1, (self.words, 32))

    scenes = {
        question: telegrams.look_up(question, 4000, torch.Generator().manual_seed(1))
        for question in ("give", "both")
    }

    def drawn(question, n, generator):
        """`look_up`, from scenes that are made once: that saves half of the time"""
        inputs, answers = scenes[question]
        picked = torch.randint(len(answers), (n,), generator=generator)
        return tuple(each[picked] for each in inputs), answers[picked]

    def right(question, heads, C, seed):
        words = scenes[question][1].shape[1]
        asker = telegrams.fit(
            lambda: Asker(heads, C, words), question, seed, examples=drawn, steps=100, lr=0.02
        )
        return telegrams.accuracy(asker, question, seed)

    heads = [1, 2, 4, 8]
    results = {
        (question, C): [[right(question, H, C, seed) for seed in seeds] for H in heads]
        for question, C in (("give", 8), ("both", 8), ("both", 32))
    }
    for (question, C), shares in results.items():
        for H, row in zip(heads, shares, strict=True):
            said = " ".join(f"{share:.2f}" for share in row)
            print(
                f"{question}, {C:2} numbers, heads: {H}, each {C // H:2} wide   right: {said}"
            )

    give, narrow, wide = (dict(zip(heads, shares, strict=True)) for shares in results.values())
    assert min(give[1]) > 0.95 and max(give[8]) < 0.85  # one is enough, of 1 number it isn't
    assert max(narrow[1] + wide[1]) < 0.45 < 0.75 < min(narrow[2] + wide[2])  # two need two
    assert min(wide[4] + wide[8]) > 0.9  # more do no harm ...
    assert max(narrow[4]) < 0.75 and max(narrow[8]) < 0.3  # ... unless they get too narrow

# %% [markdown]
# One question takes one head, two questions take two, and no width makes up for a head that is
# missing. More heads than questions do no harm, as long as each is wide enough to tell eight
# people apart: four numbers will do, two hardly, one doesn't. So what matters is how many there
# are *and* how wide each of them is; that is why models grow both together.
