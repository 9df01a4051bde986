"""One answer to each exercise of notebook 01. Yours may look different and be as good: the checks decide."""

import torch


def my_scores(queries, keys):
    scores = torch.zeros(len(queries), len(keys))
    for t in range(len(queries)):
        for s in range(len(keys)):
            for i in range(queries.shape[1]):
                scores[t, s] += queries[t, i] * keys[s, i]
    return scores


def my_cosine(a, b):
    return (a @ b) / ((a @ a) ** 0.5 * (b @ b) ** 0.5)


def my_nearest(i, vectors):
    scores = vectors @ vectors[i]
    scores[i] = float("-inf")
    return scores.argmax()
