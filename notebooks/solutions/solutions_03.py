# %% [markdown]
# # Solutions 03 · query, key, value
#
# One answer to each exercise of [notebook 03](../03_query_key_value.ipynb). Yours may look
# different and be as good: the check decides.

# %%
import torch
import torch.nn.functional as F
from torch import nn

# %% [markdown]
# **3a · Attention, whole.** Scores over √D, softmax over keys, mixture of values. Everything
# counts dimensions from the end, so that batches and heads may come first.


# %%
def my_attention(query, key, value):
    # Only the last two dimensions take part, so that any number of others may come first.
    scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


_, weights = my_attention(*torch.randn(3, 2, 4, 6, 8))  # two texts, four heads
assert torch.allclose(weights.sum(dim=-1), torch.ones(2, 4, 6))

# %% [markdown]
# **3b · Ask another text.** Only the queries come from x. The number of queries and that of
# keys have nothing to do with each other: each of the T rows mixes the S values.


# %%
def my_cross_attention(x, memory, W_query, W_key, W_value):
    # x asks; the memory is searched, and the memory tells.
    context, _ = my_attention(x @ W_query, memory @ W_key, memory @ W_value)
    return context


asked = my_cross_attention(torch.randn(2, 3), torch.randn(5, 3), *torch.randn(3, 3, 4))
assert asked.shape == (2, 4)  # a row for each word that asks, however many answer

# %% [markdown]
# **3c · If everybody spoke louder.** A louder voice moves the shares from those below the
# average to those above it, in proportion to how far they lie from it. So each context moves by
# the covariance of score and value; where all scores are equal, it stays.


# %%
def my_turn(weights, scores, values):
    # A weight can rise only by what the others lose: only what lies above the row's average counts.
    average = (weights * scores).sum(dim=-1, keepdim=True)
    return (weights * (scores - average)) @ values


scores, values = torch.randn(2, 5, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
by_autograd = torch.autograd.functional.jvp(
    lambda factor: (factor * scores).softmax(dim=-1) @ values,
    torch.tensor(1.0, dtype=torch.float64),
    torch.tensor(1.0, dtype=torch.float64),
)[1]
assert torch.allclose(my_turn(scores.softmax(dim=-1), scores, values), by_autograd)

# %% [markdown]
# **3d · Unequal partners.** Each product has the variance 9 · ¼, and 64 of them add up to 144,
# whose root is 12. With variance 1 on both sides it would be 8, the √D by which attention
# divides.

# %%
# Each product has mean 0 and variance 9 / 4. Variances of independent numbers add up: 144,
# whose root is 12.
my_spread = 12
products = 3 * torch.randn(20_000, 64) * 0.5 * torch.randn(20_000, 64)
assert abs(products.sum(dim=1).std() - my_spread) < 0.5

# %% [markdown]
# **3e · The longer, the duller.** The scores were divided by the root of how many keys there
# are, instead of how wide they are. For 16 words of 16 numbers that is the same. In a text four
# times as long, all scores are half as large, which acts like a temperature of 2.


# %%
def my_weights(query, key):
    # A score adds up as many products as a word has numbers. How many words there are changes none.
    scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
    return torch.softmax(scores, dim=-1)


query, key = torch.randn(1, 4), torch.randn(6, 4)
once, twice = my_weights(query, key), my_weights(query, key.repeat(2, 1))
assert torch.allclose(twice[:, :6], once / 2)

# %% [markdown]
# **3f · Two matrices in one.** Turned over, a product changes its order: (x W_key)ᵀ = W_keyᵀ
# xᵀ. So query and key only ever act together, as one table of who looks for what; it has C rows
# and columns, but a rank of at most D.


# %%
def my_table(W_query, W_key):
    # (x W_query)(x W_key)ᵀ = x W_query W_keyᵀ xᵀ
    return W_query @ W_key.T


assert torch.linalg.matrix_rank(my_table(*torch.randn(2, 5, 2))) == 2  # though M is 5 × 5

# %% [markdown]
# **3g · A layer that learns.** `nn.Linear` holds a matrix and hands it to the optimizer; what
# stands in a plain list would be forgotten. The layer itself only says who makes what of whom.


# %%
class MySelfAttention(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.W_query = nn.Linear(C, D, bias=False)
        self.W_key = nn.Linear(C, D, bias=False)
        self.W_value = nn.Linear(C, D, bias=False)

    def forward(self, x):
        # All three from the same words: each asks, each is asked, each tells.
        context, _ = my_attention(self.W_query(x), self.W_key(x), self.W_value(x))
        return context


x = torch.randn(2, 6, 3)
layer = MySelfAttention(3, 4)
assert layer(x).shape == (2, 6, 4) and len(list(layer.parameters())) == 3

# %% [markdown]
# **3h · Additive scores.** Add, bend, and read out with v. Without the bend, the query would
# add the same number to every score, and the softmax would not notice it.


# %%
def my_additive_scores(query, keys, W_query, W_key, v):
    # (A,) + (S, A): the one query is added to every key. Only tanh makes the two depend on each
    # other.
    return torch.tanh(query @ W_query + keys @ W_key) @ v


scores = my_additive_scores(
    torch.rand(2), torch.ones(3, 2), *torch.rand(2, 2, 4), torch.rand(4)
)
assert torch.allclose(scores, scores[0].expand(3))  # keys that are alike score alike

# %% [markdown]
# ## Explore: train two matrices on a question of your own
#
# Seven words, the days of the week, and one question that each of them asks: *which day comes
# after me?* The word vectors are one-hot, so that row i of `W_query` is day i's query, and
# `W_query @ W_key.T` is the table of all scores. Nothing else is trained.

# %%
if __name__ == "__main__":
    days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    next_day = (torch.arange(7) + 1) % 7

    def trained(width, one_matrix=False, steps=400, seed=0):
        torch.manual_seed(seed)
        W_query = (0.1 * torch.randn(7, width)).requires_grad_()
        W_key = W_query if one_matrix else (0.1 * torch.randn(7, width)).requires_grad_()
        learned = [W_query] if one_matrix else [W_query, W_key]
        optimizer = torch.optim.Adam(learned, lr=0.05)
        for _ in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(W_query @ W_key.T, next_day).backward()
            optimizer.step()
        return W_query.detach(), W_key.detach()

    def found(W_query, W_key):
        """The day that each day looks at most."""
        return (W_query @ W_key.T).argmax(dim=1)

    for width in (1, 2, 3, 7):
        two, one = found(*trained(width)), found(*trained(width, one_matrix=True))
        right = [int((days_found == next_day).sum()) for days_found in (two, one)]
        print(f"width {width}: two matrices find {right[0]} of 7, one matrix {right[1]}")
        assert right[1] < 4 and (right[0] == 7 or width == 1)

    W_query, W_key = trained(width=2)
    table = W_query @ W_key.T
    assert (table.argmax(dim=1) == next_day).all()

# %% [markdown]
# **What a good answer contains.** The table has its largest number in each row one step beside
# the diagonal, so it points one way: Monday looks for Tuesday, and Tuesday does not look for
# Monday. Width 2 is enough: the training has spread the keys over a circle, in an order of its
# own, and each query points at the key of the day after. With one matrix for both roles the
# table is symmetric, so yesterday scores as much as tomorrow, and it fails at every width. Go
# on with a question that many words answer alike, such as *weekday or weekend*, and say
# beforehand what the table will look like.
