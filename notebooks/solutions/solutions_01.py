# %% [markdown]
# # Solutions 01 · dot-product scores
#
# One answer to each exercise of [notebook 01](../01_dot_product_scores.ipynb). Yours may look
# different and be as good: the check decides.

# %%
import torch

# %% [markdown]
# **1a · All scores at once.** `@` multiplies the last two dimensions as matrices and leaves all
# others alone; so do the same to the keys: exchange their last two dimensions, and no others.


# %%
def my_scores(queries, keys):
    # Counted from the end, the last two dimensions are a table, however many come before them.
    return queries @ keys.transpose(-2, -1)


texts = torch.randn(2, 3, 5, 4)
assert torch.allclose(my_scores(texts, texts)[1, 2], texts[1, 2] @ texts[1, 2].T)

# %% [markdown]
# **1b · How far apart?** The square of a length is a dot product, and it multiplies out like
# any square. So a dot product is nothing but lengths compared. For vectors of one length, the
# nearest gets the highest score.


# %%
def my_dot(length_a, length_b, apart):
    # |a - b|² = (a - b) · (a - b) = |a|² - 2 a · b + |b|²: solve for a · b.
    return (length_a**2 + length_b**2 - apart**2) / 2


assert my_dot(3, 4, 5) == 0  # a right angle: Pythagoras

# %% [markdown]
# **1d · Who scores best?** A dot product multiplies and adds: 4, 2, 11 and -7. Direction,
# distance and length would each give another order; b has the best direction and is too short
# to win.

# %%
# 2 * 6 - 8 = 4, 2 * 1 + 0 = 2, 2 * 3 + 5 = 11 and 2 * -4 + 1 = -7.
my_prediction = ("cabd", "b")
keys = torch.tensor([[6.0, -8.0], [1.0, 0.0], [3.0, 5.0], [-4.0, 1.0]])
scores = keys @ torch.tensor([2.0, 1.0])
assert "".join("abcd"[i] for i in scores.argsort(descending=True)) == my_prediction[0]
assert "abcd"[(scores / keys.norm(dim=1)).argmax()] == my_prediction[1]

# %% [markdown]
# **1e · A cosine above 1.** Each row is a vector and has its own length; `keepdim=True` keeps
# the lengths beside their rows. The diagonal is the test that one gets for free: every vector's
# cosine with itself is 1.


# %%
def my_cosines(vectors):
    # Each row has its own length; keepdim=True keeps the lengths in a column, beside their rows.
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    return unit @ unit.T


assert torch.allclose(my_cosines(torch.randn(4, 3)).diagonal(), torch.ones(4))
