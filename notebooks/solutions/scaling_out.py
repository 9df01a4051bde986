# %% [markdown]
# # Solutions · scaling out
#
# One answer to each exercise of [its notebook](../beyond/scaling_out.ipynb). Yours may look
# different and be as good: the check decides.

# %%
import copy

import torch
import torch.nn.functional as F

from helpers import data
from helpers.gpt import GPT, GPTConfig, count_parameters
from helpers.optim import TrainConfig, adamw, rate_at
from helpers.tables import table
from helpers.training import cross_entropy, evaluate

seed = 0  # for what is drawn
steps = 60  # of each training, in the exploration

# %% [markdown]
# **14b · An idle assembly line.** The last piece enters after M - 1 units and needs P more for
# its way through all GPUs: M + P - 1 units in all. Each GPU works for M of them and waits for
# P - 1, some before its first piece comes and the rest after its last one has gone. (So P - 1
# over M would be waiting against work.) With 4 GPUs and one piece three quarters of the time
# are lost, with 4 pieces 43 %, with 32 pieces 9 %. Below, pieces move along a line and nobody
# has counted anything beforehand.


# %%
def my_idle(P, M):
    # The last piece enters after M - 1 units and is P units on its way; each GPU works for M of
    # them.
    return (P - 1) / (M + P - 1)


def share_of_waiting(P, M):
    done = [0] * P  # when each GPU is through with its latest piece
    for _ in range(M):
        arrives = 0
        for gpu in range(P):  # it begins when the piece is there, and the one before is done
            arrives = done[gpu] = max(arrives, done[gpu]) + 1
    return 1 - M / done[-1]


for P in (1, 2, 4, 16):
    for M in (1, 4, 32, 1000):
        assert abs(my_idle(P, M) - share_of_waiting(P, M)) < 1e-9

# %% [markdown]
# **14c · Two who read the same.** In the broken version both workers threw the same dice for
# the same half of a batch, so the second one's work was thrown away. Dice of its own for each
# worker would repair that, and yet with three workers it would be another training than with
# two. So everyone draws the *whole* batch, which costs next to nothing, and takes its own part
# of it; in which way they share it out is up to you. The trainer does the same. With any number
# of workers, the windows are those that `get_batch` draws for one.


# %%
def my_starts(step, rank, size, batch_size, places):
    # Everyone draws the whole batch, with the same dice, and takes every size-th window of it.
    dice = torch.Generator().manual_seed(step)
    return torch.randint(places, (batch_size,), generator=dice)[rank::size]


x, _ = data.get_batch(torch.arange(100), 7, 10, torch.Generator().manual_seed(3))
for size in (1, 2, 3, 7):
    parts = [my_starts(3, rank, size, 7, 90) for rank in range(size)]
    assert torch.cat(parts).sort().values.tolist() == sorted(x[:, 0].tolist())
    assert max(map(len, parts)) - min(map(len, parts)) <= 1

# %% [markdown]
# **14d · Parts that add up.** A mean times its count is a sum, sums add up, and at the end one
# division makes the mean of all. A part whose places are all filled up has nothing to add, and
# must not be asked: its mean is 0 / 0, NaN, and NaN times 0 is NaN. A real model, with texts of
# unequal length of which one is empty, has the same gradient in parts as at once; the mean of
# the parts' means is another one.


# %%
def my_gradient(x, y, parts, gradient):
    total, letters = 0, 0
    for texts, answers in zip(x.tensor_split(parts), y.tensor_split(parts), strict=True):
        real = (answers != -100).sum()
        if real:  # without any, the gradient is NaN, and 0 times NaN is NaN, too
            total = total + real * gradient(texts, answers)  # a mean times its count is a sum
            letters = letters + real
    return total / letters


torch.manual_seed(seed)
model = GPT(GPTConfig(vocab_size=9, context_length=12, n_layer=1, n_head=2, n_embd=8)).double()
x, y = torch.randint(9, (2, 7, 12))
for text, length in enumerate((12, 3, 7, 12, 1, 0, 5)):
    y[text, length:] = -100


def gradient(x, y):
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())  # it leaves out -100
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


# %%
whole = gradient(x, y)
for parts in (1, 2, 3, 7):
    torch.testing.assert_close(my_gradient(x, y, parts, gradient), whole)
means = torch.stack([gradient(x[:4], y[:4]), gradient(x[4:], y[4:])])
assert (means.mean(dim=0) - whole).norm() > 0.05 * whole.norm()

# %% [markdown]
# ## Explore: seldom sending
#
# Two workers are two models here: equal at the start, each with windows and an AdamW of its
# own. After every K steps both take the mean of their *weights*. AdamW's averages stay where
# they are: nobody sends them.
#
# The windows of each step are the same in all trainings: `my_starts` shares them out. So there
# are two baselines: one worker that reads all of them, and one that reads its half and never
# hears of the other. All have the same number of steps, the same learning rates, and three
# seeds. The loss is that of 10,000 letters that nobody has seen.

# %%
if __name__ == "__main__":
    corpus = data.load_corpus()
    tokenizer = data.CharTokenizer(corpus.alphabet)
    T, batch_size = 32, 8  # letters of a window, and windows that all workers read in a step
    text, unseen = data.split(tokenizer.encode(corpus.text), T)
    config = TrainConfig(
        batch_size, max_steps=steps, eval_interval=steps, learning_rate=3e-3, warmup_steps=10
    )

    def learn(model, optimizer, step, starts):
        """One update, from these windows."""
        windows = text[starts[:, None] + torch.arange(T + 1)]
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, config)
        optimizer.zero_grad()
        cross_entropy(model(windows[:, :-1]), windows[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()


# %%
@torch.no_grad()
def take_the_mean(models):
    """All get the mean of their weights. Returns how many numbers each of them hands in."""
    for copies in zip(*(model.parameters() for model in models), strict=True):
        mean = torch.stack(copies).mean(dim=0)
        for weight in copies:
            weight.copy_(mean)
    return count_parameters(models[0])


# %%
def trained(seed, workers, size=2, K=None):
    """Of these workers of `size`: the loss at the end, and the numbers each sent in a step."""
    torch.manual_seed(seed)
    first = GPT(GPTConfig(tokenizer.vocab_size, T, n_layer=2, n_head=2, n_embd=64))
    models = [copy.deepcopy(first) for _ in workers]
    optimizers, sent = [adamw(model, config) for model in models], 0
    for step in range(steps):
        for rank, model, optimizer in zip(workers, models, optimizers, strict=True):
            dice = step + 10_000 * seed
            starts = my_starts(dice, rank, size, batch_size, len(text) - T)
            learn(model, optimizer, step, starts)
        if K and (step + 1) % K == 0:
            sent += take_the_mean(models)
    return evaluate(models[0], unseen[:10_000], T), sent / steps


# %%
if __name__ == "__main__":
    alone, half = "one worker, all windows", "one worker, its half alone"
    setups = {alone: {"workers": [0], "size": 1}}
    setups |= {f"two, K = {K}": {"workers": [0, 1], "K": K} for K in (1, 4, 15, 60)}
    setups[half] = {"workers": [0]}
    measured = {}
    for name, setup in setups.items():
        runs = [trained(seed + i, **setup) for i in range(3)]
        measured[name] = torch.tensor([loss for loss, _ in runs]), runs[0][1]

    rows = []
    for name, (losses, sent) in measured.items():
        apart = losses - measured[alone][0]
        row = [losses.mean(), losses.min(), losses.max(), apart.mean()]
        rows.append([name, round(sent), *(f"{number:.3f}" for number in row)])
    header = ["", "sent in a step", "loss", "lowest", "highest", "above the first"]
    print(table(header, rows))

    losses = {name: losses for name, (losses, _) in measured.items()}
    sent = {name: sent for name, (_, sent) in measured.items()}
    assert sent["two, K = 1"] == 60 * sent["two, K = 60"] > sent[alone] == sent[half] == 0
    assert (losses["two, K = 1"] < losses["two, K = 60"]).all()  # with each seed
    assert (losses[alone] < losses["two, K = 60"]).all()

# %% [markdown]
# **What a good answer contains.** On tiny Shakespeare, the more seldom the two send, the higher
# the loss: by about 0.05 for K = 4, by 0.13 for K = 15, and by 0.2 for one single mean after
# the last step (K = 60), compared with K = 1. Three seeds scatter by 0.2, so only a comparison
# within a seed says this. That single mean can't be told from a worker that never heard of the
# other: the ranges overlap almost wholly. Much of the sending can be saved here, and not for
# nothing.
#
# K = 1 is not the training of one worker, either: it ends 0.03 above it. Each AdamW divides by
# averages of *its own* gradients, so the mean of two moves isn't the move that the mean
# gradient would make. These averages are never sent. Each belongs to the way that its worker
# has gone, and after a mean the weights stand somewhere else. Whether that costs anything, this
# table doesn't say. To find out, average them as well, for three times as many numbers.
#
# A good answer also says what was held equal (steps, windows, and one learning rate, which may
# suit some K better than others), that all rows share starting weights and windows seed by seed
# (so one should compare within a seed), and how small all this is: two workers, 60 steps, 105
# thousand parameters. The idea lives in [Stich 2018](https://arxiv.org/abs/1805.09767), *Local
# SGD Converges Fast and Communicates Little*, which proves for convex problems that seldom is
# often enough, and in [Douillard et al. 2023](https://arxiv.org/abs/2311.08105), *DiLoCo*,
# where workers of a language model take hundreds of steps by themselves, and a second optimizer
# then makes a move out of what they found. Go on with that second optimizer, or with K = 60 and
# a training ten times as long.
