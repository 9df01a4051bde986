"""The exercises of *reward*: choosing, what holds the network back, and a judge that is harder to fool."""

from collections.abc import Iterator

import torch
from torch import Tensor

from exercises.judge import exercise, prediction

TEXTS = torch.arange(48).view(12, 4)  # twelve texts of four letters, all different


def chosen(written: Tensor, rewards: Tensor, tries: int, *, best: bool = True, each: bool = True) -> Tensor:
    """Of each `tries` neighbours the one with the largest reward."""
    if not each:
        return written[rewards.argsort(descending=best)[: len(written) // tries]]
    grouped = rewards.view(-1, tries)
    best_of = grouped.argmax(dim=1) if best else grouped.argmin(dim=1)
    return written[best_of + tries * torch.arange(len(grouped))]


def written_and_judged() -> Iterator[tuple[Tensor, Tensor, int]]:
    for rewards, tries in (
        ([0.2, 0.7], 2),
        ([0.9, 0.8, 0.1, 0.3], 2),
        ([0.1, 0.5, 0.4, 0.9, 0.6, 0.8], 3),
        ([0.3, 0.2, 0.9, 0.8, 0.7, 0.1, 0.4, 0.6], 4),
        ([0.3, 0.2, 0.1, 0.8, 0.9, 0.7, 0.4, 0.6, 0.5, 0.35, 0.25, 0.15], 6),
    ):
        yield TEXTS[: len(rewards)], torch.tensor(rewards), tries


exercise(
    "16a",  # Keep the winners
    chosen,
    written_and_judged,
    mistakes={
        "those are the best of all: each beginning has a winner of its own": {"each": False},
        "those have the smallest rewards": {"best": False},
        "the winner's place is counted in its own group: where in the whole list does the group begin?": (
            lambda written, rewards, tries: written[rewards.view(-1, tries).argmax(dim=1)]
        ),
        "that is the first of each group, whatever its reward": lambda written, rewards, tries: written[::tries],
    },
)

# One try is all words with a chance of 0.3. Of eight, at least one:
prediction(
    "16b",  # Throw eight times
    right=1 - 0.7**8,
    tolerance=0.005,
    mistakes={
        "that is the chance that all eight are: one is enough": 0.3**8,
        "that is the chance that none is": 0.7**8,
        "chances of different throws can't be added up: that would be more than certain": 8 * 0.3,
    },
)


def divergence(new: Tensor, old: Tensor, *, backwards: bool = False, total: bool = False) -> Tensor:
    """The mean over places of KL(new ‖ old), by logits (T, V)."""
    p, q = new.log_softmax(dim=-1), old.log_softmax(dim=-1)
    if backwards:
        p, q = q, p
    each = (p.exp() * (p - q)).sum(dim=-1)
    return each.sum() if total else each.mean()


exercise(
    "16c",  # The penalty
    divergence,
    "new: T V, old: T V",
    mistakes={
        "the two are the wrong way round: it is the new network's own chances that weigh the difference": {
            "backwards": True
        },
        "take the mean over the places, or a longer text is punished more": {"total": True},
        "that is the cross-entropy: it isn't 0 where both say the same": (
            lambda new, old: -(new.softmax(-1) * old.log_softmax(-1)).sum(-1).mean()
        ),
        "those are logits: take the log-softmax of both first": (
            lambda new, old: (new.softmax(-1) * (new - old)).sum(-1).mean()
        ),
    },
)


def different_words(words: list[str], book: set[str]) -> float:
    """The share of the words that stand in the book and have not come before."""
    return len({word for word in words if word in book}) / len(words) if words else 0.0


def sayings() -> Iterator[tuple[list[str], set[str]]]:
    book = {"the", "king", "and", "love", "that"}
    lines = ["king", "the king", "thou king", "the the", "the king and the king", "kyng lofe", "any any and any", ""]
    for words in map(str.split, lines):
        yield words, book


exercise(
    "16d",  # A judge who counts once
    different_words,
    sayings,
    mistakes={
        "a word that is repeated counts each time": (
            lambda words, book: sum(word in book for word in words) / len(words) if words else 0.0
        ),
        "divide by all words that are written: else one good word among ten bad ones gets the full reward": (
            lambda words, book: len({*words} & book) / len({*words}) if words else 0.0
        ),
        "that is a number of words: divide by how many are written": lambda words, book: float(len({*words} & book)),
    },
)
