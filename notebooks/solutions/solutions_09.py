# %% [markdown]
# # Solutions 09 · sampling
#
# One answer to each exercise of [notebook 09](../09_sampling.ipynb). Yours may look different
# and be as good: the check decides.

# %%

import torch
from my_gpt import MyGPT, my_fast_write

from helpers.gpt import GPT, GPTConfig

seed = 0  # for what is drawn

# %% [markdown]
# **9a · Undo the softmax.** The logarithm of the probabilities is the logits up to a constant,
# and the next softmax doesn't see a constant. Odds are raised to the power 1 / τ: 4 to 1 is 16
# to 1 at temperature ½, and 2 to 1 at temperature 2.


# %%
def my_temperature(probabilities, temperature):
    # The logarithm undoes the softmax, up to a constant that the next softmax doesn't see.
    return (probabilities.log() / temperature).softmax(dim=-1)


odds = [my_temperature(torch.tensor([0.8, 0.2]), hot) for hot in (0.5, 1, 2)]
torch.testing.assert_close(
    torch.stack([a / b for a, b in odds]), torch.tensor([16.0, 4.0, 2.0])
)

# %% [markdown]
# **9b · The nucleus.** Ask of each token whether those before it have reached p already. The
# one that reaches p is still needed, and none after it. Then back to the order of the
# vocabulary.


# %%
def my_nucleus(probabilities, p):
    # A token is kept as long as those before it have not reached p.
    descending, order = probabilities.sort(descending=True)
    before = descending.cumsum(dim=0) - descending
    kept = torch.zeros(len(probabilities), dtype=torch.long)
    kept[order] = (before < p).long()
    return kept


torch.manual_seed(seed)
for probabilities in torch.randn(100, 20).softmax(1):
    inside = probabilities[my_nucleus(probabilities, 0.9) == 1]
    assert inside.sum() >= 0.9 > inside.sum() - inside.min()  # it reaches p, and none is idle

# %% [markdown]
# **9e · The price of the cache.** Two vectors (key and value), for each of 36 layers, each of
# 1,024 tokens, 1,280 numbers, two bytes a number: 189 million bytes for one text. Heads only
# cut the 1,280 into pieces. A real cache, counted, follows the same formula.

# %%
# Keys and values, 36 layers, 1,024 tokens, 1,280 numbers of two bytes; heads only cut the 1,280 up.
my_cache = (2 * 36 * 1024 * 1280 * 2, 1, 2)
for heads, T in ((2, 16), (4, 16), (2, 32)):
    model = GPT(GPTConfig(vocab_size=9, context_length=T, n_layer=3, n_head=heads, n_embd=24))
    cache = model.new_cache()
    with torch.no_grad():
        model(torch.zeros(1, T, dtype=torch.long), cache=cache)
    assert sum(kept.key.numel() + kept.value.numel() for kept in cache) == 2 * 3 * T * 24

# %% [markdown]
# **9g · A fast draft, a strict reader.** A token comes out in two ways: drafted and kept, draft
# × kept, which is the smaller of the two probabilities; or drawn after a refusal, from what is
# missing. Together they give the target exactly, whatever the draft. A bad draft is slow, not
# wrong: kept on average is 1 minus half the sum of all differences.


# %%
def my_speculation(target, draft):
    # What the draft has too much of is thinned out; what it has too little of is made up for.
    kept = (target / draft).clamp(max=1)
    missing = (target - draft).clamp(min=0)
    return kept, missing / missing.sum()


torch.manual_seed(seed)
for target, draft in torch.randn(100, 2, 12).softmax(2).double():
    kept, rest = my_speculation(target, draft)
    refused = 1 - (draft * kept).sum()
    torch.testing.assert_close(draft * kept + refused * rest, target)
    torch.testing.assert_close(refused, (target - draft).abs().sum() / 2)

# %% [markdown]
# **9h · Let it write.** `multinomial` takes odds that don't add up to 1, so that what the
# nucleus cuts off needs no repair.


# %%
@torch.no_grad()
def my_write(model, prompt, n, temperature=1.0, top_p=1.0):
    model.eval()
    text = prompt
    for _ in range(n):
        # A window at the end of the text, of which only the last place's logits count.
        logits = model(text[None, -model.context_length :])[0, -1]
        odds = (logits / temperature).softmax(dim=0)
        odds = odds * my_nucleus(odds, top_p)
        text = torch.cat([text, torch.multinomial(odds, 1)])
    return text


class Alternates(torch.nn.Module):  # after 0 comes 1, after 1 comes 0, nearly always
    context_length = 4

    def forward(self, tokens):
        return 9.0 * torch.nn.functional.one_hot(1 - tokens, 2)


written = my_write(Alternates(), torch.tensor([0]), 9, temperature=0.1)
assert written.tolist() == [0, 1] * 5

# %% [markdown]
# **9i · Compute nothing twice.** Each layer finds its own keys and values in the dictionary
# under `self`, and puts the new ones behind them. The mask has the new rows only, and the
# places go on where they stopped. The whole of it: [my_gpt.py](my_gpt.py).

# %%
# These two, and the layers that pass the cache along, stand on one page: my_gpt.py.
my_pair = (MyGPT, my_fast_write)

# %% [markdown]
# **9j · As cold as it gets.** Only the distance to the highest logit counts. Divided by ever
# less, it stays 0 for the highest, and goes to minus infinity for all others, whose odds go
# to 0. So at 0 the highest is certain, and if several share that place, they share the die.
# That is greedy writing, except for ties.


# %%
def my_die(logits, temperature):
    behind = logits - logits.max(dim=-1, keepdim=True).values
    if temperature > 0:
        return (behind / temperature).softmax(dim=-1)
    # What the odds come closer and closer to.
    highest = (behind == 0).float()
    return highest / highest.sum(dim=-1, keepdim=True)


torch.manual_seed(seed)
logits = torch.randn(100, 20).round(decimals=1)  # so coarse that some share the highest place
torch.testing.assert_close(my_die(logits, 0.001), my_die(logits, 0))
