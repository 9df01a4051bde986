# %% [markdown]
# # Solutions · tokens
#
# One answer to each exercise of [its notebook](../beyond/tokens.ipynb). Yours may look different
# and be as good: the check decides.

# %%
from collections import Counter
from itertools import pairwise

# %% [markdown]
# **15a · Stick them together.** Look at the last token that has been kept: if it and the next
# one are the pair, it grows. What has grown is another token, so it can't be used again.


# %%
def my_merge(tokens, pair):
    merged = []
    for token in tokens:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token
        else:
            merged.append(token)
    return merged


# %% [markdown]
# **15b · Which is better?** 4 nats a token are 4 / 2.5 = 1.6 nats a letter, and the other model
# has 1.8: the first one is better by 0.2.

# %%
my_difference = 1.8 - 4 / 2.5

# %% [markdown]
# **15c · Cut a word.** The merges in the order in which they were learned. *other* is a good
# test: *th* and *the* come first, then *o* takes *the*, and nothing is left for the *r*.


# %%
def my_cut(word, merges):
    tokens = list(word)
    for pair in merges:
        tokens = my_merge(tokens, pair)
    return tokens


# %% [markdown]
# **15d · The loop.** Each round counts anew, for the last merge has made new neighbours. The
# helper does the same, but mends only the counts of words that have changed.


# %%
def my_merges(counts, n):
    cut = {word: list(word) for word in counts}
    merges = []
    for _ in range(n):
        pairs = Counter()
        for word, count in counts.items():
            for pair in pairwise(cut[word]):
                pairs[pair] += count
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        cut = {word: my_merge(tokens, best) for word, tokens in cut.items()}
    return merges
