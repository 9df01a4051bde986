"""The exercises of notebook 09: sampling."""

import itertools

import torch
from torch import randn

from helpers.exercises import Answer, Pairs, exercise


@exercise("9a", hint="temperature divides logits, and these are probabilities: what undoes a softmax?")
def temperature(answer: Answer) -> Pairs:
    """answer(probabilities (V,), temperature) -> the probabilities at that temperature (V,)."""
    probabilities = randn(6).softmax(0)
    for t in (0.5, 2.0):
        yield answer(probabilities, t), (probabilities.log() / t).softmax(0)


@exercise(
    "9b", hint="sort; keep a token while those before it add up to less than p; back to the order of the vocabulary"
)
def nucleus(answer: Answer) -> Pairs:
    """answer(probabilities (V,), p) -> 1 for each token of the nucleus, 0 for all others (V,)."""
    probabilities = torch.tensor([0.05, 0.4, 0.1, 0.3, 0.15])
    for p, kept in {0.3: [0, 1, 0, 0, 0], 0.6: [0, 1, 0, 1, 0], 0.8: [0, 1, 0, 1, 1], 1.0: [1, 1, 1, 1, 1]}.items():
        yield answer(probabilities, p), torch.tensor(kept)


@exercise("9c", hint="collect the windows in a set; those that do not enlarge it are repetitions")
def repetition(answer: Answer) -> Pairs:
    """answer(tokens (T,), n) -> the share of the windows of n tokens that have occurred before."""
    for text, n in itertools.product(([1, 2, 1, 2, 1, 2], [1, 2, 3, 4, 5, 6], [3, 3, 3, 3, 5, 3, 3]), (1, 2, 3)):
        windows = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        yield answer(torch.tensor(text), n), 1 - len(set(windows)) / len(windows)
