"""One answer to each exercise of notebook 03. Yours may look different and be as good: the checks decide."""

import torch


def my_attention(query, key, value):
    # Only the last two dimensions take part, so that any number of others may come first.
    scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


def my_cross_attention(x, memory, W_query, W_key, W_value):
    # x asks; the memory is searched, and the memory tells.
    context, _ = my_attention(x @ W_query, memory @ W_key, memory @ W_value)
    return context


def my_gradient(weights, d_weights):
    # A weight can rise only by what the others lose: only what lies above the row's average counts.
    average = (weights * d_weights).sum(dim=-1, keepdim=True)
    return weights * (d_weights - average)


# Each product has mean 0 and variance 9 / 4. Variances of independent numbers add up: 144, whose root is 12.
my_spread = 12


def my_find(x, W_query, W_key):
    # With one matrix for both, scores are dot products of a table with itself, which are symmetric.
    queries = x @ W_query
    keys = x @ W_key
    return queries @ keys.T


def my_table(W_query, W_key):
    # (x W_query)(x W_key)ᵀ = x W_query W_keyᵀ xᵀ
    return W_query @ W_key.T
