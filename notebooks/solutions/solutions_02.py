"""One answer to each exercise of notebook 02. Yours may look different and be as good: the checks decide."""

import torch


def my_softmax(scores):
    exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def my_contexts(queries, keys, values):
    return my_softmax(queries @ keys.T) @ values


def my_temperature(scores, share):
    low, high = 1e-6, 1e6
    for _ in range(100):
        middle = (low * high) ** 0.5  # temperatures span many sizes: halve their logarithm
        if my_softmax(scores / middle).max() > share:
            low = middle
        else:
            high = middle
    return middle
