# %% [markdown]
# # Solutions · what today's models changed
#
# One answer to each exercise of [its notebook](../beyond/todays_models.ipynb). Yours may look
# different and be as good: the check decides.

# %%
import math

import torch

from helpers.modern import ModernConfig, ModernGPT, SwiGLU, rotate, rotations

seed = 0  # for what is drawn

# %% [markdown]
# **12b · Only the distance.** Write out both turned vectors, multiply, and collect what belongs
# to each product. Before q₀k₀ and q₁k₁ stands cos i cos j + sin i sin j, which is cos(i - j).
# Before q₀k₁ stands sin i cos j - cos i sin j, which is sin(i - j), and before q₁k₀ the same
# with a minus. So of the two places only their distance is left, and its sign: forwards is not
# backwards. Far out in a text that matters twice, for a distance is small where float32 can no
# longer tell two places apart. Our own `rotate` agrees.


# %%
def my_rotary_score(q, k, i, j):
    # What both turn together cancels: only the angle between the two is left.
    along = q[0] * k[0] + q[1] * k[1]
    across = q[0] * k[1] - q[1] * k[0]
    return along * math.cos(i - j) + across * math.sin(i - j)


torch.manual_seed(seed)
cos, sin = rotations(30, 2)
for i, j in ((3, 1), (1, 3), (29, 0)):
    q, k = torch.randn(2, 2)
    turned = [rotate(x.expand(30, 2), cos, sin)[place] for x, place in ((q, i), (k, j))]
    torch.testing.assert_close(my_rotary_score(q, k, i, j), turned[0] @ turned[1])
    assert my_rotary_score(q, k, i, j) == my_rotary_score(q, k, i + 10**9, j + 10**9)

# %% [markdown]
# **12c · Both ends of a window.** How far does the key lie behind the query? From 0, the token
# itself, to W - 1. The broken version had no lower end: for a key in the future the distance is
# negative, which is less than W as well, and a model that sees the answer has a loss too good
# to be true.


# %%
def my_window(T, W):
    back = torch.arange(T)[:, None] - torch.arange(T)  # how far the key lies behind the query
    return (back >= 0) & (back < W)


for W in (1, 3, 12):
    layer = ModernGPT(ModernConfig(9, 12, 1, 1, 8, window=W)).blocks[0].attention
    assert torch.equal(my_window(12, W), layer.mask)
    assert my_window(12, W).sum(dim=1).tolist() == [min(t + 1, W) for t in range(12)]

# %% [markdown]
# **12d · A gate.** Half of the numbers say how far the other half is let through. For a large a
# the gate is a itself, for a very negative one 0, and just below 0 it dips a little. Our own
# `SwiGLU` holds both matrices in one, turned on their side as `nn.Linear` wants it.


# %%
def my_swiglu(x, W, V):
    a = x @ W
    return a * torch.sigmoid(a) * (x @ V)


torch.manual_seed(seed)
layer, x = SwiGLU(6, 8, bias=False), torch.randn(2, 5, 6)
W, V = layer.weight.detach().T.chunk(2, dim=1)
torch.testing.assert_close(my_swiglu(x, W, V), layer(x).detach())
assert my_swiglu(x, 1000 * W, V).isfinite().all()

# %% [markdown]
# **12e · One state for all.** (q · k) v is q times a table: in row i and column j of it stands
# kᵢ vⱼ. So a sum over s of (q · k_s) v_s is q times the sum of these tables, and the sum can be
# kept while one reads on. Row by row the loop gives what the scores give, (q kᵀ) behind a mask
# and times v. But the scores are T² numbers, and the state is D · E of them, after ten tokens
# and after ten million. The price: what has been added can't be told apart again. With a
# softmax none of this works: e to the power of q · k can't be split into a part of q alone and
# a part of k alone.


# %%
def my_linear(query, key, value):
    # All that the tokens so far leave behind is one table, of the same size however many they are.
    state, rows = torch.zeros(key.shape[1], value.shape[1]), []
    for q, k, v in zip(query, key, value, strict=True):
        state = state + torch.outer(k, v)
        rows.append(q @ state)
    return torch.stack(rows)


torch.manual_seed(seed)
query, key, value = torch.randn(30, 4), torch.randn(30, 4), torch.randn(30, 3)
rows = my_linear(query, key, value)
torch.testing.assert_close(rows, (query @ key.T).tril() @ value, atol=1e-4, rtol=1e-4)
state = key[:20].T @ value[:20]  # all that is left of twenty tokens
later = state + torch.outer(key[20], value[20])
torch.testing.assert_close(rows[20], query[20] @ later, atol=1e-4, rtol=1e-4)
