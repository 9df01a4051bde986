# %% [markdown]
# # Solutions 00 · why attention
#
# One answer to each exercise of [notebook 00](../00_why_attention.ipynb). Yours may look
# different and be as good: the check decides.

# %%
import torch
import torch.nn.functional as F
from torch import nn

# %% [markdown]
# **0b · What goes through one vector.** The message is as wide as the state, whether the string
# has 4 letters or 400. The scores grow with the product of both lengths: that is what attention
# pays for its memory.

# %%
# Whatever the reader has read, its last state is all that the writer gets: 128 numbers.
# A score belongs to a pair, one letter written and one letter read: 40 * 40.
my_prediction = (128, 40 * 40)
assert my_prediction[1] > 12 * my_prediction[0]  # what attention pays for its memory

# %% [markdown]
# **0c · How a first letter fades.** Each step multiplies by a, and T - 1 steps lie between. For
# a below 1 the first input fades exponentially; for a above 1 it explodes.


# %%
def my_effect(a, T):
    # x_1 goes into h_1 as it is; each of the T - 1 steps from h_1 to h_T multiplies by a.
    return a ** (T - 1)


assert my_effect(0.9, 40) < 0.02  # of the first of 40 letters hardly anything is left

# %% [markdown]
# **0d · Where did it look?** `dim` names the dimension that disappears: to compare along a row,
# take the last one. A square table hides this mistake, so try your functions on tables that are
# not square.


# %%
def my_alignment(weights):
    # One row for each word written: compare along the row. dim=0 compared the rows with one
    # another.
    return weights.argmax(dim=-1)


assert my_alignment(torch.eye(3, 6)).tolist() == [0, 1, 2]

# %% [markdown]
# ## Explore: how many letters fit through one vector?
#
# A reader hands one vector to a writer, which repeats the string. The digits are random, so
# that nothing can be guessed from the ones before: every digit has to go through the vector.
# Everything takes about a quarter of a minute on one core.


# %%
def copier(width, digits=10):
    """A reader and a writer, with one vector of `width` numbers between them."""
    embed, head = nn.Embedding(digits + 1, width), nn.Linear(width, digits)
    reader, writer = (nn.GRU(width, width, batch_first=True) for _ in range(2))

    def write(x):
        _, state = reader(embed(x))  # (1, B, width): this is all that the writer gets
        start = torch.full((len(x), 1), digits)
        written, _ = writer(embed(torch.cat([start, x[:, :-1]], dim=1)), state)
        return head(written)  # (B, T, digits)

    return write, [p for part in (embed, reader, writer, head) for p in part.parameters()]


# %%
def arrived(width, steps, longest=10, seed=0):
    """Train a copier; then the share of digits that arrive, for strings of 1 to `longest`."""
    torch.manual_seed(seed)
    write, parameters = copier(width)
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        x = torch.randint(10, (64, int(torch.randint(1, longest + 1, ()))))
        optimizer.zero_grad()
        F.cross_entropy(write(x).flatten(0, 1), x.flatten()).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        slower.step()
    with torch.no_grad():
        strings = [torch.randint(10, (500, T)) for T in range(1, longest + 1)]
        return torch.tensor([(write(x).argmax(-1) == x).double().mean() for x in strings])


# %%
if __name__ == "__main__":
    lines = {f"{width} numbers": arrived(width, steps=300) for width in (16, 32, 64)}
    lines["16 numbers, trained three times as long"] = arrived(16, steps=900)
    for name, share in lines.items():
        print(f"{name}: {share[9]:.2f} of ten digits arrive")

    narrow, middle, wide, longer = lines.values()
    assert narrow.mean() < middle.mean() < wide.mean()  # wider is better
    assert longer.mean() > narrow.mean() + 0.05  # and so is longer training, at the same width

# %% [markdown]
# **What a good answer contains.** The curves are all near 1 for the shortest strings, so that
# whatever is lost later is lost because of length, and the wider vector loses less. But the
# narrow vector, trained three times as long, carries nearly as much as wider ones did before:
# these curves measure the vector *and* the training, and nobody has seen the limit of the
# vector yet. To find it, train until the curve stops moving, at several widths and seeds, and
# say how far your answer depends on that.
