"""Answers to the exercises of notebook 00: wrong ones, with words of the sentence that must refuse them, and right."""

import math
from fractions import Fraction

import numpy as np
import torch


def only_known(words, dictionary):
    found = []
    for word in words:
        if word in dictionary:
            found.append(dictionary[word])
    return found


def sentence_replaced(words, dictionary):
    text = " ".join(words)
    for german, english in dictionary.items():
        text = text.replace(german, english)
    return text.split()


def in_turn(words, dictionary):
    words = list(words)
    for german in dictionary:
        for i, word in enumerate(words):
            if word == german:
                words[i] = dictionary[german]
    return words


def by_loop(words, dictionary):
    translated = []
    for word in words:
        if word not in dictionary:
            translated += [word]
        else:
            translated += [dictionary[word]]
    return translated


def by_try(words, dictionary):
    for word in words:
        try:
            yield dictionary[word]
        except KeyError:
            yield word


def by_overwriting_a_copy(words, dictionary):
    words = words[:]
    for i in range(len(words)):
        words[i] = dictionary.get(words[i], words[i])
    return words


def simulated(a, T):
    x = torch.zeros(T, dtype=torch.float64, requires_grad=True)
    h = torch.zeros((), dtype=torch.float64)
    for t in range(T):
        h = a * h + x[t]
    h.backward()
    return x.grad[0]


def products(a, T):
    effect = 1.0
    for _ in range(1, T):
        effect *= a
    return effect


def best_places(weights):
    places = []
    for row in weights.tolist():
        places.append(row.index(max(row)))
    return places


def additive_by_loop(query, keys, W_query, W_key, v):
    scores = []
    for key in keys:
        hidden = (query @ W_query + key @ W_key).tanh()
        scores.append(sum(h * w for h, w in zip(hidden, v, strict=True)))
    return scores


WRONG = {
    "0a": [
        ("it loses the words", only_known),
        ("dict.get takes a second argument", lambda w, d: list(map(d.get, w))),
        ("stumbles over the first word", lambda w, d: [d[x] for x in w]),
        ("reverse order", lambda w, d: list(reversed([d.get(x, x) for x in w]))),
        ("a word counts only as a whole", sentence_replaced),
        ("translated already", in_turn),
        ("it should give a list of words", lambda w, d: " ".join(d.get(x, x) for x in w)),
        ("go through the words", lambda w, d: [v for k, v in d.items() if k in w]),
        ("ask whether the word is there", lambda w, d: [(d.get(x) or x) for x in w]),
        ("into pieces", lambda w, d: [part for x in w for part in d.get(x, x).split()]),
        ("capital letters", lambda w, d: [d.get(x.casefold(), x) for x in w]),
        ("changes its input `w`", lambda w, d: [d.get(w.pop(0), "?") for _ in list(w)]),
        ("is a `return` missing", lambda w, d: w.sort() if w is None else print(end="")),
    ],
    "0b": [
        ("exchanged the two numbers", (1600, 128)),
        ("only its last state is handed over", (5120, 1600)),
        ("however many letters", (40, 1600)),
        ("it is no message", (16384, 1600)),
        ("EVERY letter read", (128, 40)),
        ("scores belong to pairs", (128, 80)),
        ("however wide", (128, 204800)),
        ("no pair is left out", (128, 820)),
        ("not themselves", (128, 6400)),
        ("7 is not right", (128, 7)),
        ("2 things in a tuple", 128),
        ("it should be a value, and is a function", lambda: (128, 1600)),
    ],
    "0c": [
        ("once too often", lambda a, T: math.prod([a] * T)),
        ("it doesn't add", lambda a, T: a * (T - 1)),
        ("it doesn't add", lambda a, T: T * a),
        ("1 is the effect on h_1", lambda a, T: 1.0),
        ("the effect on h_2", lambda a, T: a),
        ("the sign of a is lost", lambda a, T: abs(a ** (T - 1))),
        ("all inputs together", lambda a, T: T if a == 1 else (1 - a**T) / (1 - a)),
        ("with respect to a", lambda a, T: 0 if T == 1 else (T - 1) * a ** (T - 2)),
        ("the exponent has the wrong sign", lambda a, T: 1 / a ** (T - 1)),
        ("for a=0.5, T=1 it gives 2 where 1 is right", lambda a, T: 2 * a ** (T - 1)),
    ],
    "0d": [
        ("LEAST", lambda w: (-w).argmax(-1)),
        ("each row, has its own", lambda w: w.flatten().argmax()),
        ("their places are asked for", lambda w: [max(row) for row in w.tolist()]),
        ("counts places from 1", lambda w: 1 + w.argmax(1)),
        ("the average place", lambda w: (w * torch.arange(w.shape[1])).sum(1)),
        ("whatever the weights say", lambda w: list(range(len(w)))),
        ("a dimension too many", lambda w: w.topk(1).indices),
        ("zeros and ones", lambda w: torch.nn.functional.one_hot(w.argmax(1), w.shape[1])),
        ("changes its input `w`", lambda w: w.mul_(2).argmax(-1)),
    ],
    "0e": [
        ("tanh is missing", lambda q, k, A, B, v: q @ A @ v + k @ B @ v),
        ("tanh is taken of each part", lambda q, k, A, B, v: (q @ A).tanh() @ v + (k @ B).tanh() @ v),
        ("tanh comes last", lambda q, k, A, B, v: (q @ A @ v + k @ B @ v).tanh()),
        ("matrices are exchanged", lambda q, k, A, B, v: (q @ B + k @ A).tanh() @ v),
        ("v is missing", lambda q, k, A, B, v: (q @ A + k @ B).tanh().sum(1)),
        ("one number per key", lambda q, k, A, B, v: v * (q @ A + k @ B).tanh()),
        ("adds them", lambda q, k, A, B, v: (k @ B * (q @ A)).tanh() @ v),
        ("before the softmax", lambda q, k, A, B, v: ((q @ A + k @ B).tanh() @ v).softmax(0)),
        ("the query is left out", lambda q, k, A, B, v: (k @ B).tanh() @ v),
        ("another bend", lambda q, k, A, B, v: (q @ A + k @ B).clamp(min=0) @ v),
        ("it gives", lambda q, k, A, B, v: torch.zeros(len(k))),
    ],
}  # fmt: skip
RIGHT = {
    "0a": [
        by_loop,
        by_try,
        by_overwriting_a_copy,
        lambda words, dictionary: tuple(dictionary.get(word, word) for word in words),
        lambda words, dictionary: np.array([dictionary.get(word, word) for word in words]),
        lambda words, dictionary: map(lambda word: {**{word: word}, **dictionary}[word], words),
    ],
    "0b": [
        [128, 1600],
        (128.0, Fraction(1600)),
        np.array([128, 1600]),
        torch.tensor([128, 1600]),
        (torch.tensor(128), np.int64(1600)),
        (torch.tensor([128.0]), 40**2),
    ],
    "0c": [
        simulated,
        products,
        lambda a, T: torch.tensor(a, dtype=torch.float64) ** (T - 1),
        lambda a, T: np.power(float(a), T - 1)[None],
        lambda a, T: [a**T / a],
        lambda a, T: math.prod([a] * (T - 1)),
    ],
    "0d": [
        best_places,
        lambda w: w.numpy().argmax(axis=1),
        lambda w: tuple(max(range(w.shape[1]), key=row.__getitem__) for row in w),
        lambda w: w.max(dim=1).indices.double().requires_grad_(),
        lambda w: (torch.argmax(row) for row in w),
        lambda w: w.T.argmax(0).int(),
    ],
    "0e": [
        additive_by_loop,
        lambda q, k, A, B, v: np.tanh((q @ A + k @ B).numpy()) @ v.numpy(),
        lambda q, k, A, B, v: torch.einsum("sa,a->s", torch.tanh(k @ B + q[None] @ A), v).requires_grad_(),
        lambda q, k, A, B, v: (torch.cat([q.expand_as(k), k], 1) @ torch.cat([A, B])).double().tanh() @ v.double(),
        lambda q, k, A, B, v: [float(v @ torch.tanh(A.T @ q + B.T @ key)) for key in k],
    ],
}
