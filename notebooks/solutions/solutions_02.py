"""One answer to each exercise of notebook 02. Yours may look different and be as good: the checks decide."""

import math

import torch


def my_softmax(scores):
    # What is taken away from a whole row changes no weight, and with the largest gone nothing overflows.
    exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def my_contexts(queries, keys, values):
    return my_softmax(queries @ keys.T) @ values


def my_temperature(lead, share):
    # share / (1 - share) = exp(lead / temperature): take the logarithm, and solve.
    return lead / math.log(share / (1 - share))


# The 100 cancels. The exponentials of 0, ln 2 and ln 5 are 1, 2 and 5, and add up to 8.
my_shares = (1 / 8, 2 / 8, 5 / 8)


def my_weights(scores):
    # dim=1 is the last dimension of a table, but not of a batch of tables. dim=-1 always is.
    return torch.softmax(scores, dim=-1)


def my_sharper(scores):
    # The ratio is exp(max - min) with softmax and max / min with division: compare their logarithms.
    best, smallest = scores.max(), scores.min()
    return bool(best - smallest > torch.log(best / smallest))
