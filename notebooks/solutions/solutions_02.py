"""One answer to each exercise of notebook 02. Yours may look different and be as good: the checks decide."""

import math

import torch


def my_softmax(scores):
    # What is taken away from a whole row changes no weight, and with the largest gone nothing overflows.
    exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def my_contexts(queries, keys, values):
    return my_softmax(queries @ keys.transpose(-2, -1)) @ values


def my_temperature(lead, share):
    # share / (1 - share) = exp(lead / temperature): take the logarithm, and solve.
    return lead / math.log(share / (1 - share))


# To divide by one half is to double: 2 ln 5 is the logarithm of 5². So 1, 4 and 25, which add up to 30.
my_shares = (1 / 30, 4 / 30, 25 / 30)


def my_weights(scores):
    # dim=1 is the last dimension of a table, but not of a batch of tables. dim=-1 always is.
    return torch.softmax(scores, dim=-1)


def my_lead(n, share):
    # One of the others has the weight (1 - share) / (n - 1), and the lead is the logarithm of the ratio.
    return math.log(share / ((1 - share) / (n - 1)))


# A word asks the same of the same five, and so keeps its context. Its row moves along with it.
my_changes = (2, 0)
