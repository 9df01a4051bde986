"""One answer to each exercise of notebook 05. Yours may look different and be as good: the checks decide."""

import torch


def my_dropout(x, keep, p):
    return x * keep / (1 - p)


def my_lost_words(T, p):
    return sum(p**t for t in range(1, T + 1))


def my_causal_attention(query, key, value, keep, p):
    T, D = query.shape[-2:]
    scores = query @ key.transpose(-2, -1) / D**0.5
    future = torch.ones(T, T, dtype=torch.bool).triu(diagonal=1)
    weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
    return my_dropout(weights, keep, p) @ value
