# %% [markdown]
# # Solutions 04 · the causal mask
#
# One answer to each exercise of [notebook 04](../04_causal_mask.ipynb). Yours may look
# different and be as good: the check decides.

# %%

import torch
from torch import nn

# %% [markdown]
# **4a · Attention behind a mask.** The mask stands between the scores and the softmax, which
# then shares 1 among what is left. One mask (T, S) serves a whole batch, since `masked_fill`
# stretches it over all dimensions in front.


# %%
def my_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
    if mask is not None:
        # Before the softmax: it then shares 1 among what is left.
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


x = torch.randn(2, 4, 3)
context, weights = my_attention(x, x, x, torch.ones(4, 4).tril().bool())
assert torch.allclose(context[:, 0], x[:, 0]) and (weights.triu(diagonal=1) == 0).all()

# %% [markdown]
# **4c · Does it look ahead?** For every place t, replace the whole future by large random
# numbers and compare what comes before, to the last bit. Any one change that is regular, such
# as adding 1, has leaks that it cannot see.


# %%
def my_is_causal(function, x):
    # For every place, another future, twice: drawn anew and large, so that signs and sizes change.
    before = function(x)
    for t in range(len(x) - 1):
        for _ in range(2):
            changed = torch.cat([x[: t + 1], 10 * torch.randn(x[t + 1 :].shape)])
            if not torch.equal(function(changed)[: t + 1], before[: t + 1]):
                return False
    return True


x = torch.randn(6, 2)
assert my_is_causal(lambda x: x.cumsum(0), x) and not my_is_causal(lambda x: x - x.mean(0), x)

# %% [markdown]
# **4e · Not a number.** `triu()` keeps the diagonal, so each word was hidden from itself, and
# the first had nobody left: softmax divided 0 by 0. The future begins one place above the
# diagonal.


# %%
def my_causal_weights(scores):
    # The future begins one place above the diagonal: a word sees itself, and so no row is empty.
    future = torch.ones_like(scores).triu(diagonal=1).bool()
    return scores.masked_fill(future, float("-inf")).softmax(dim=-1)


weights = my_causal_weights(torch.randn(5, 5))
assert torch.allclose(weights.sum(dim=1), torch.ones(5)) and (weights.diagonal() > 0).all()

# %% [markdown]
# **4h · As far as it can see.** A layer reaches two places back. What was found there had reached
# two places further, and so on: two for each layer, and the place itself.


# %%
def seen(place, layers):
    reached = {place}
    for _ in range(layers):
        reached = {s for t in reached for s in (t, t - 1, t - 2) if s >= 0}
    return len(reached)


my_reach = (seen(20, 1), seen(20, 3), seen(1, 3))
assert my_reach == (3, 7, 2)

# %% [markdown]
# **4g · A layer that cannot cheat.** The matrices of notebook 03, and one mask. It has no
# matrix of its own to learn: what is forbidden is forbidden whatever the model learns.


# %%
class MyCausalAttention(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.W_query = nn.Linear(C, D, bias=False)
        self.W_key = nn.Linear(C, D, bias=False)
        self.W_value = nn.Linear(C, D, bias=False)

    def forward(self, x):
        # Made anew for each text, so that texts of every length fit.
        T = x.shape[1]
        mask = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        context, _ = my_attention(self.W_query(x), self.W_key(x), self.W_value(x), mask)
        return context


x = torch.randn(1, 6, 3)
layer, other = MyCausalAttention(3, 4), x.clone()
other[:, 4:] += 100
assert torch.equal(layer(x)[:, :4], layer(other)[:, :4])
