"""Answers to the exercises 9a to 9d: wrong ones, with words of the sentence that must refuse them, and right."""

import itertools
import math
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F


def nucleus_by_loop(probabilities, p):
    kept, total = [0] * len(probabilities), 0.0
    for token in sorted(range(len(probabilities)), key=lambda v: -probabilities[v]):
        if total >= p:
            break
        kept[token], total = 1, total + probabilities[token].item()
    return kept


def nucleus_by_cases(probabilities, p):
    """A token is in it when all that are likelier have less than p together."""
    return [float(probabilities[probabilities > q].sum()) < p for q in probabilities]


def smallest_set(probabilities, p):
    numbers = range(len(probabilities))
    sets = itertools.chain.from_iterable(itertools.combinations(numbers, size) for size in range(1, len(numbers) + 1))
    best = max(
        (chosen for chosen in sets if probabilities[list(chosen)].sum() >= p),
        key=lambda chosen: (-len(chosen), probabilities[list(chosen)].sum().item()),
    )
    return np.isin(numbers, best)


def by_search(probabilities, p):
    ranked, order = torch.sort(-probabilities)
    count = int(torch.searchsorted((-ranked).cumsum(0), p)) + 1
    return F.one_hot(order[:count], len(probabilities)).sum(0)


def stops_before(probabilities, p):
    kept, total = torch.zeros(len(probabilities)), 0.0
    for token in probabilities.argsort(descending=True):
        total += probabilities[token]
        if total > p:
            break
        kept[token] = 1
    return kept


def goes_too_far(probabilities, p):
    kept, total = torch.zeros(len(probabilities)), 0.0
    for token in probabilities.argsort(descending=True):
        if total > p:
            break
        kept[token], total = 1, total + probabilities[token]
    return kept


def ranked_mask(probabilities, p):
    descending = probabilities.sort(descending=True).values
    return ((descending.cumsum(0) - descending) < p).int()


def windows(tokens, n):
    return [" ".join(map(str, tokens[i : i + n].tolist())) for i in range(len(tokens) - n + 1)]


def repeats(tokens, n, same=lambda a, b: a == b):
    pieces = [tokens[i : i + n].tolist() for i in range(len(tokens) - n + 1)]
    return sum(any(same(piece, pieces[j]) for j in range(i)) for i, piece in enumerate(pieces)) / len(pieces)


def by_counter(tokens, n):
    counts = Counter(windows(tokens, n)).values()
    return sum(count - 1 for count in counts) / sum(counts)


def entropy(logits, temperature):
    return torch.special.entr((logits / temperature).softmax(0)).sum()


def by_autograd(logits, temperature):
    hot = torch.tensor(float(temperature), requires_grad=True)
    entropy(logits, hot).backward()
    return hot.grad


def by_difference(logits, temperature, step=1e-5):
    logits = logits.double()
    return (entropy(logits, temperature + step) - entropy(logits, temperature - step)) / (2 * step)


def by_moments(logits, temperature):
    p = torch.exp(logits / temperature)
    p = p / p.sum()
    return (p @ logits**2 - (p @ logits) ** 2) / temperature**3


def by_pairs(logits, temperature):
    p = F.softmax(logits / temperature, 0)
    return float(((logits[:, None] - logits) ** 2 * p[:, None] * p).sum() / 2 / temperature**3)


def of_scaled(logits, temperature):
    p, y = F.softmax(logits / temperature, 0), logits / temperature
    return [(p * (y - p @ y) ** 2).sum() / temperature]


WRONG = {
    "9a": [
        ("undo the softmax first", lambda p, t: F.softmax(p / t, 0)),
        ("it multiplies by the temperature", lambda p, t: F.softmax(p.log() * t, 0)),
        ("it multiplies by the temperature", lambda p, t: F.normalize(p.pow(t), p=1, dim=0)),
        ("they don't add up to 1", lambda p, t: p.pow(1 / t)),
        ("they don't add up to 1", lambda p, t: p / t),
        ("they are what they were", lambda p, t: (p / t) / (p / t).sum()),
        ("softmax is still to come", lambda p, t: torch.log(p) / t),
        ("the logarithms of the new", lambda p, t: F.log_softmax(p.log() / t, 0)),
        ("by the natural logarithm", lambda p, t: F.softmax(p.log2() / t, 0)),
        ("a second softmax", lambda p, t: F.softmax(p, 0)),
        ("take everything", lambda p, t: (p == p.max()).float()),
        ("changes its input `p`", lambda p, t: p.log_().div(t).softmax(0)),
    ],
    "9b": [
        ("the sum stays below", stops_before),
        ("a threshold for each token", lambda p, t: [q >= t for q in p]),
        ("one token too many", goes_too_far),
        ("in sorted order", ranked_mask),
        ("the wrong way", lambda p, t: ranked_mask(p, t)[p.sort(descending=True).indices]),
        ("the least likely", lambda p, t: [p.sort().values[: p.sort().indices.tolist().index(v)].sum() < t
            for v in range(len(p))]),
        ("in the order of the vocabulary", lambda p, t: [float(p[:i].sum()) < t for i in range(len(p))]),
        ("kept and cut are exchanged", lambda p, t: [1 - kept for kept in nucleus_by_loop(p, t)]),
        ("those are the new probabilities", lambda p, t: F.normalize(p * by_search(p, t), p=1, dim=0)),
        ("the numbers of the tokens", lambda p, t: [v for v, kept in enumerate(nucleus_by_loop(p, t)) if kept]),
        ("min-p", lambda p, t: p / p.max() >= t),
        ("only the likeliest", lambda p, t: (p == p.max()).int()),
        ("everything is kept", lambda p, t: p > 0),
    ],
    "9c": [
        ("NEW windows", lambda x, n: len(set(windows(x, n))) / len(windows(x, n))),
        ("their number", lambda x, n: len(windows(x, n)) - len(set(windows(x, n)))),
        ("T - n + 1 windows, not T", lambda x, n: (len(windows(x, n)) - len(set(windows(x, n)))) / len(x)),
        ("one is missing", lambda x, n: repeats(x[:-1], n)),
        ("single tokens", lambda x, n: 1 - len(set(x.tolist())) / len(x)),
        ("begins one token later, not n", lambda x, n: 1 - len(set(windows(x, n)[::n])) / len(windows(x, n)[::n])),
        ("the window just before", lambda x, n: sum(
            a == b for a, b in itertools.pairwise(windows(x, n))) / len(windows(x, n))),
        ("first occurrence counts", lambda x, n: np.mean([windows(x, n).count(w) > 1 for w in windows(x, n)])),
        ("the order inside a window", lambda x, n: repeats(x, n, lambda a, b: sorted(a) == sorted(b))),
        ("it compares sums", lambda x, n: repeats(x, n, lambda a, b: sum(a) == sum(b))),
        ("where 0.66667 is right", lambda x, n: 0.5),
    ],
    "9d": [
        ("the sign is wrong", lambda z, t: -by_moments(z, t)),
        ("2 from the entropy's own slope", lambda z, t: by_moments(z, t) * t),
        ("3, not 1", lambda z, t: by_moments(z, t) * t * t),
        ("the division by τ³ is missing", lambda z, t: by_moments(z, t) * t**3),
        ("at temperature 1", lambda z, t: by_moments(z, 1.0) / t**3),
        ("weigh each", lambda z, t: z.var() / t**3),
        ("weigh each", lambda z, t: np.var(z.numpy()) / t**3),
        ("the square of the mean", lambda z, t: F.softmax(z / t, 0) @ z**2 / t**3),
        ("the standard deviation", lambda z, t: (by_moments(z, t) * t**3) ** 0.5 / t**3),
        ("the entropy knows no level", lambda z, t: F.softmax(z / t, 0) @ z / t**3),
        ("that is the entropy", lambda z, t: entropy(z, t)),
        ("bits", lambda z, t: by_difference(z, t) / math.log(2)),
        ("that makes five", lambda z, t: by_moments(z, t) / t / t),
        ("3, not 4", lambda z, t: by_moments(z, t) / t),
    ],
}  # fmt: skip
RIGHT = {
    "9a": [
        lambda p, t: p ** (1 / t) / (p ** (1 / t)).sum(),
        lambda p, t: F.normalize(p.double().pow(1 / t), p=1, dim=0),
        lambda p, t: torch.distributions.Categorical(logits=p.log() / t).probs,
        lambda p, t: np.exp(np.log(p.numpy()) / t - np.logaddexp.reduce(np.log(p.numpy()) / t)),
        lambda p, t: [1 / sum((b / a) ** (1 / t) for b in p.tolist()) for a in p.tolist()],
        lambda p, t: F.softmax((p.log2() * math.log(2) + 5) / t, 0).tolist(),
    ],
    "9b": [
        nucleus_by_loop,
        nucleus_by_cases,
        smallest_set,
        by_search,
        lambda p, t: (torch.tensor([p[p > q].sum() for q in p]) < t).float(),
        lambda p, t: np.array(nucleus_by_loop(p, t), dtype=bool),
    ],
    "9c": [
        repeats,
        by_counter,
        lambda x, n: torch.tensor([w in windows(x, n)[:i] for i, w in enumerate(windows(x, n))]).float().mean(),
        lambda x, n: 1 - len(np.unique(x.unfold(0, n, 1).numpy(), axis=0)) / (len(x) - n + 1),
        lambda x, n: [1 - len(torch.unique(x.unfold(0, n, 1), dim=0)) / len(x.unfold(0, n, 1))],
    ],
    "9d": [by_autograd, by_difference, by_moments, by_pairs, of_scaled],
}  # fmt: skip
