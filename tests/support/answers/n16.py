"""Answers to the exercises of *reward*: wrong ones, with words of what is said, and right."""

import torch

from exercises import n16


def one_by_one(written, rewards, n):
    groups = zip(written.split(n), rewards.split(n), strict=True)
    return torch.stack([texts[some.argmax()] for texts, some in groups])


def by_kl_div(new, old):
    new, old = new.log_softmax(-1), old.log_softmax(-1)
    return torch.nn.functional.kl_div(old, new, log_target=True, reduction="batchmean")


def by_hand(words, book):
    seen, good = set(), 0
    for word in words:
        good += word in book and word not in seen
        seen.add(word)
    return good / max(1, len(words))


WRONG = {
    "16a": [
        ("a winner of its own", lambda written, rewards, n: n16.chosen(written, rewards, n, each=False)),
        ("the smallest rewards", lambda written, rewards, n: n16.chosen(written, rewards, n, best=False)),
        ("counted in its own group", lambda written, rewards, n: written[rewards.view(-1, n).argmax(1)]),
        ("the first of each group", lambda written, rewards, n: written[::n]),
    ],
    "16b": [("all eight", 0.3**8), ("none is", 0.7**8), ("can't be added up", 2.4)],
    "16c": [
        ("the wrong way round", lambda new, old: by_kl_div(old, new)),
        ("the mean over the places", lambda new, old: by_kl_div(new, old) * len(new)),
        ("the cross-entropy", lambda new, old: -(new.softmax(-1) * old.log_softmax(-1)).sum(-1).mean()),
        ("those are logits", lambda new, old: (new.softmax(-1) * (new - old)).sum(-1).mean()),
    ],
    "16d": [
        ("counts each time", lambda words, book: sum(word in book for word in words) / max(1, len(words))),
        ("divide by all words", lambda words, book: len({*words} & book) / max(1, len({*words}))),
        ("how many are written", lambda words, book: float(len({*words} & book))),
        ("ZeroDivisionError", lambda words, book: len({*words} & book) / len(words)),
    ],
}
RIGHT = {
    "16a": [one_by_one],
    "16b": [1 - 0.7**8, 0.94],
    "16c": [by_kl_div],
    "16d": [by_hand],
}
