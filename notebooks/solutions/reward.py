# %% [markdown]
# # Solutions · reward
#
# One answer to each exercise of [its notebook](../beyond/reward.ipynb). Yours may look different
# and be as good: the check decides.

# %%
import torch

# %% [markdown]
# **16a · Keep the winners.** Each row of the table is one beginning. `argmax` says where in the
# row the winner stands; the rows begin at 0, n, 2n, …


# %%
def my_winners(written, rewards, n):
    table = rewards.view(-1, n)
    return written[table.argmax(dim=1) + n * torch.arange(len(table))]


# %% [markdown]
# **16b · Throw eight times.** None of eight is all words with a chance of 0.7 to the power of 8,
# which is 0.058. Otherwise at least one is.

# %%
my_chance = 1 - 0.7**8

# %% [markdown]
# **16c · The penalty.** At each place the new network's own chances weigh how much more likely
# it finds a letter than the old one did. Where both say the same, that is 0.


# %%
def my_penalty(new, old):
    new, old = new.log_softmax(dim=-1), old.log_softmax(dim=-1)
    return (new.exp() * (new - old)).sum(dim=-1).mean()


# %% [markdown]
# **16d · A judge who counts once.** A set holds each word once, so to say it again brings
# nothing; and it still costs something, for we divide by all that is written.


# %%
def my_judge(words, book):
    if not words:
        return 0.0
    return len(set(words) & book) / len(words)
