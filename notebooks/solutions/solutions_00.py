"""One answer to each exercise of notebook 00. Yours may look different and be as good: the checks decide."""

import torch


def my_word_for_word(words, dictionary):
    return [dictionary.get(word, word) for word in words]


def my_additive_scores(query, keys, W_query, W_key, v):
    return torch.tanh(query @ W_query + keys @ W_key) @ v


def my_alignment(weights):
    return weights.argmax(dim=-1)
