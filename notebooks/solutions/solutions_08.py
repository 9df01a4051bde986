# %% [markdown]
# # Solutions 08 · nanoGPT on Shakespeare
#
# One answer to each exercise of [notebook 08](../08_nanogpt_shakespeare.ipynb). Yours may look
# different and be as good: the check decides.

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

from exercises import curves
from helpers import data
from helpers.attention import MultiHeadAttention, attention
from helpers.gpt import GPT, GPTConfig

seed = 0  # for weights and batches
sizes = (500, 2_000, 8_000, 32_000)  # characters to train on, in the exploration

# %% [markdown]
# **8a · As unsure as choosing among how many?** n equally likely characters cost ln n each, and e undoes
# the logarithm. So a loss of 1.9 is the doubt among less than seven characters, of 65; the
# fresh model doubts among all.


# %%
def my_perplexity(loss):
    # n equally likely characters cost ln n each; e undoes the natural logarithm.
    return math.exp(loss)


assert round(my_perplexity(math.log(65))) == 65 and 6 < my_perplexity(1.9) < 7

# %% [markdown]
# **8b · What comes next.** The target of each place is the token one place later: y is x, moved
# by one. So T tokens give T questions at once, and only the last target is not in x.


# %%
def my_batch(tokens, starts, T):
    # y is the same window, one token later.
    inside = starts[:, None] + torch.arange(T)  # (B, T)
    return torch.stack([tokens[inside], tokens[inside + 1]])


x, y = my_batch(torch.arange(50), torch.tensor([0, 30, 44]), 5)
assert (y == x + 1).all()

# %% [markdown]
# **8d · What went wrong?** Each fault leaves a mark of its own. Too high a rate throws the loss
# far above its start, too low a rate leaves it there. A loss near 0 on text that nobody has
# seen is too good to be true. If two texts are both said to be unseen and only one is easy, the
# easy one was not unseen. And overfitting is not a gap: it is a validation loss that has turned
# round.


# %%
def my_diagnosis(training, validation, fresh):
    if max(training) > training[0] + 1:
        return "learning rate too high"
    if training[-1] > training[0] - 0.5:
        return "learning rate too low"
    if fresh[-1] < 0.5:  # nobody can foresee a text so well: the answer is in the input
        return "targets not shifted"
    if validation[-1] < fresh[-1] - 0.5:  # only one of two unseen texts is hard
        return "validation text leaked"
    if validation[-1] > min(validation) + 0.2:
        return "overfitting"
    return "healthy"


assert [my_diagnosis(*run) for _, *run in curves.RUNS] == [name for name, *_ in curves.RUNS]

# %% [markdown]
# **8e · One head falls silent.** The heads are apart as long as their contexts are, (B, H, T,
# D); out_proj mixes them. Since it only adds up, the output is the sum of what the heads
# contribute, and silencing one takes exactly its part away.


# %%
def my_ablation(layer, x, head):
    # Up to the contexts all heads are apart, (B, H, T, D); out_proj mixes them.
    query, key, value = (
        layer.split_heads(W(x)) for W in (layer.W_query, layer.W_key, layer.W_value)
    )
    context, _ = attention(query, key, value, layer.mask_for(x.shape[1], x.shape[1]))
    context[:, head] = 0
    return layer.out_proj(layer.join_heads(context))


torch.manual_seed(seed)
layer, x = MultiHeadAttention(12, 12, 6, dropout=0.0, num_heads=3), torch.randn(2, 6, 12)
with torch.no_grad():
    parts = torch.stack([layer(x) - my_ablation(layer, x, head) for head in range(3)])
    torch.testing.assert_close(parts.sum(0) + layer.out_proj.bias, layer(x))

# %% [markdown]
# **8f · Three rungs of a ladder.** A fresh model spreads its guess over three letters: ln 3.
# Who has counted knows that b is half of the text: half of the letters cost ln 2, the others
# ln 4. Who remembers one letter knows every b before it comes and pays ln 2 only for every
# second letter. No model can go below, since a coin decides. On a long text of such words, the
# counts confirm it.

# %%
# Three letters for the fresh model; b is half of the text; after a or c nothing is left to guess.
my_losses = (math.log(3), math.log(2) / 2 + math.log(4) / 2, math.log(2) / 2)
torch.manual_seed(seed)
text = "".join("ab" if coin else "cb" for coin in torch.rand(20_000) < 0.5)
shares = torch.tensor([text.count(sign) / len(text) for sign in "abc"])
words = torch.tensor([text[::2].count(sign) for sign in "ac"]) / 20_000
measured = torch.tensor([math.log(3), -shares @ shares.log(), -words @ words.log() / 2])
torch.testing.assert_close(measured, torch.tensor(my_losses), atol=2e-3, rtol=0)

# %% [markdown]
# **8h · How often is each letter read?** Each of 2,000 steps reads 12 windows of 64 letters, and
# nine tenths of the 1,115,394 letters are there to be read. So the model has seen most of its
# text no more than once or twice.

# %%
my_times = 2000 * 12 * 64 / (0.9 * 1_115_394)
assert 1.5 < my_times < 1.6

# %% [markdown]
# **8i · Where its numbers are.** A table has a row of C numbers for each token or place.
# Attention has four matrices of C by C in each layer, however many heads share them. An MLP has
# one of C by 4C, and one of 4C by C. So the MLPs have twice as much as attention, and only a
# small model spends much on its tables.


# %%
def my_numbers(V, T, L, C):
    return (V + T) * C, L * 4 * C * C, L * 2 * C * 4 * C


norms = (2 * 4 + 1) * 128  # two in each layer and one at the end
assert sum(my_numbers(65, 64, 4, 128)) + norms == 804_096

# %% [markdown]
# **8g · Teach it.** Guess, measure, nudge. The old gradient must go before the new one comes,
# since `backward` adds; the clip keeps a single wild batch from undoing what a hundred have
# learned.


# %%
def my_train(model, tokens, steps, batch_size, report):
    T = model.context_length
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    vectors = [weight for weight in model.parameters() if weight.dim() == 1]  # gains stay
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    for step in range(1, steps + 1):
        # A warm-up, then a cosine from the full rate down to a tenth.
        cosine = 0.55 + 0.45 * math.cos(math.pi * step / steps)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1, step / 100) * cosine
        model.train()
        x, y = my_batch(tokens, torch.randint(len(tokens) - T, (batch_size,)), T)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        report(step, loss.item())


losses = []
pairs = nn.Sequential(nn.Embedding(2, 2))
pairs.context_length = 8
my_train(pairs, torch.arange(500) % 2, 200, 8, lambda step, loss: losses.append(loss))
assert len(losses) == 200 and losses[-1] < losses[0]

# %% [markdown]
# ## Explore: how much text does it take?
#
# The smallest GPT that writes, one layer of width 32, is trained on the first 500, 2,000, 8,000
# and 32,000 characters of the bundled play, with 300 updates each. What changes is the text
# alone. Two losses are recorded: on the text that it has learned from, and on the end of the
# play, which it has never seen.

# %%
if __name__ == "__main__":
    corpus = data.load_corpus(data.BUNDLED_PLAY)
    tokenizer = data.CharTokenizer.from_text(corpus.text)
    tokens, T = tokenizer.encode(corpus.text), 16
    unseen = tokens[-6_000:]
    assert max(sizes) <= len(tokens) - len(unseen)  # no leak

    def loss(model, windows):
        return F.cross_entropy(model(windows[:, :T]).flatten(0, 1), windows[:, 1:].flatten())


# %%
def trained_on(text, steps=300):
    """The losses at the end on `text` and on what was not seen, and the lowest on the latter."""
    torch.manual_seed(seed)
    model, records = GPT(GPTConfig(tokenizer.vocab_size, T, n_layer=1, n_head=2, n_embd=32)), []
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps + 1):
        if step % 50 == 0:
            with torch.no_grad():
                parts = (part.unfold(0, T + 1, T + 1)[:300] for part in (text, unseen))
                records.append([loss(model, part).item() for part in parts])
        starts = torch.randint(len(text) - T, (16,))
        optimizer.zero_grad()
        loss(model, text[starts[:, None] + torch.arange(T + 1)]).backward()
        optimizer.step()
    return *records[-1], min(record[1] for record in records)


# %%
if __name__ == "__main__":
    measured = torch.tensor([trained_on(tokens[:size]) for size in sizes])
    seen, new, best = measured.T
    for size, row in zip(sizes, measured.tolist(), strict=True):
        print(
            f"{size:6,} characters: {row[0]:.1f} on them, {row[1]:.1f} on new text, "
            f"at best {row[2]:.1f}"
        )
    gaps = new - seen
    assert (gaps[:-1] > gaps[1:]).all() and gaps[0] > 2 and gaps[-1] < 0.2
    assert (best[:-1] > best[1:]).all() and (seen[:-1] < seen[1:]).all()

    counts = tokens.bincount() / len(tokens)
    unigram = torch.special.entr(counts).sum().item()
    assert new[0] > unigram > new[-1]

# %% [markdown]
# **What a good answer contains.** The two losses close like a funnel: a short text is learned
# by heart, and the model is then worse on new text than somebody who only counts letters. As
# the text grows, its own loss RISES and that on new text falls, until both meet: there the text
# is no longer what limits the model. From then on more text changes nothing, and a larger model
# would. Look at the lowest loss, too, since stopping early is what one would do; it hides the
# worst of the overfitting and not the lack of text. A good answer says what was held equal
# (here the updates, so a short text is read hundreds of times), repeats it with other seeds,
# and asks the next question: at which size do the curves meet for a model twice as wide?
