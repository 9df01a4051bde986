"""One answer to each exercise of notebook 03. Yours may look different and be as good: the checks decide."""

import torch


def my_scaled_attention(query, key, value):
    scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


def my_cross_attention(x, memory, W_query, W_key, W_value):
    context, _ = my_scaled_attention(x @ W_query, memory @ W_key, memory @ W_value)
    return context


def my_softmax_gradient(weights, d_weights):
    mean = (weights * d_weights).sum(dim=-1, keepdim=True)
    return weights * (d_weights - mean)
