"""One answer to each exercise of notebook 05. Yours may look different and be as good: the checks decide."""

import torch
from torch import nn


def my_dropout(x, keep, p):
    # What is kept stands for what is lost: 1 - p is the share that is kept.
    return x * keep / (1 - p)


def my_lost_words(T, p):
    # Word t, counted from 1, has t weights, and loses all of them with probability p to the power t.
    return sum(p**t for t in range(1, T + 1))


def my_causal_attention(query, key, value, keep, p):
    T, D = query.shape[-2:]
    scores = query @ key.transpose(-2, -1) / D**0.5
    future = torch.ones(T, T, dtype=torch.bool).triu(diagonal=1)
    weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
    return my_dropout(weights, keep, p) @ value


# The four draws give 10 - 6, 10 + 0, 0 - 6 and 0 + 0. ReLU makes 4, 10, 0 and 0 of them.
my_average = (4 + 10 + 0 + 0) / 4


def my_dropped_weights(scores, keep, p, training):
    # A dropped score would be 0, which is a score like any other: drop weights, after the softmax.
    future = torch.ones_like(scores).triu(diagonal=1) > 0
    weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
    return weights * keep / (1 - p) if training else weights


class MyDropout(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        # train() and eval() set self.training, in this layer and in all that stand in the same model.
        if not self.training or self.p == 0:
            return x
        keep = torch.rand_like(x) >= self.p
        return x * keep / (1 - self.p)
