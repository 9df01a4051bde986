# %% [markdown]
# # Solutions · what matters
#
# One answer to each exercise of [its notebook](../beyond/what_matters.ipynb). Yours may look
# different and be as good: the check decides.

# %%
import torch

seed = 0  # for what is drawn

# %% [markdown]
# **10a · Twenty changes that do nothing.** A change that does nothing stays silent with
# probability 0.95, and twenty unrelated ones all stay silent with 0.95²⁰ = 0.36. In the other
# 64 % of all papers with twenty such rows, one row at least is "significant". Throwing the dice
# says the same.

# %%
# All twenty stay silent with probability 0.95 to the power 20; in all other cases somebody is
# fooled.
my_chance = 1 - 0.95**20
torch.manual_seed(seed)
declared = torch.rand(100_000, 20) < 0.05
torch.testing.assert_close(
    declared.any(dim=1).double().mean().item(), my_chance, atol=0.01, rtol=0
)

# %% [markdown]
# **10b · What a seed moves alike.** Var(a - b) = Var a + Var b - 2 Cov(a, b), because (x -
# y)² = x² + y² - 2xy for each seed's distances from the two means. A seed that is unlucky
# with the change is mostly unlucky without it, so the covariance is above 0, and subtracting
# seed by seed takes it out. Where it is 0, pairing gains nothing, and where it is below 0, it
# costs. Both errors can be computed from the same runs, so the covariance is half the
# difference of their squares, times S.


# %%
def my_errors(with_change, whole):
    # Subtracting seed by seed takes out what both runs of a seed share: twice the covariance.
    S = len(whole)
    paired = (with_change - whole).std() / S**0.5
    unrelated = ((with_change.var() + whole.var()) / S).sqrt()
    return paired, unrelated


torch.manual_seed(seed)
luck = 0.1 * torch.randn(6).double()
with_change, whole = (2 + luck + 0.01 * torch.randn(2, 6).double()).unbind()
paired, unrelated = my_errors(with_change, whole)
covariance = torch.cov(torch.stack([with_change, whole]))[0, 1]
torch.testing.assert_close(unrelated**2 - paired**2, 2 * covariance / 6)
assert paired < unrelated / 3

# %% [markdown]
# **10e · The luckiest run.** The smallest of many draws falls with their number, and falls
# fastest where they scatter most. So more seeds make the lucky choice worse and the honest one
# better: here the better rate has mean 2.0 and scatters little, the worse one has 2.2 and
# scatters much. A comparison with NaN is never true, so a rate that diverged can't win.
# (`min(losses, key=...)` would take it, if it came first.)


# %%
def my_rate(losses):
    best, lowest = None, float("inf")
    for rate, runs in losses.items():
        if runs.mean() < lowest:  # never true of NaN
            best, lowest = rate, runs.mean()
    return best


torch.manual_seed(seed)


def wrong(seeds, choose):  # how often the worse rate is chosen
    steady, wild = 2.0 + 0.02 * torch.randn(4000, seeds), 2.2 + 0.2 * torch.randn(4000, seeds)
    return (choose(wild) < choose(steady)).double().mean()


lucky = [wrong(seeds, lambda runs: runs.amin(dim=1)) for seeds in (2, 8, 32)]
honest = [wrong(seeds, lambda runs: runs.mean(dim=1)) for seeds in (2, 8, 32)]
assert lucky[0] < lucky[1] < lucky[2] and lucky[2] > 0.95
assert honest[0] > honest[1] >= honest[2] and honest[1] < 0.02
