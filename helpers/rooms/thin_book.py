"""Lesson 05's thin book: 50 scenes that a student reads again and again, and the card that each of them needs.

A student answers `student(asker, cards)`, as telegrams.look_up asks: who asks (B, 32), cards (B, 6, 96) -> (B, 32).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from helpers import telegrams
from helpers.telegrams import HEROES, SHARPNESS, VECTORS, nearest_words

SIZE = 50  # scenes of a book


class Book(NamedTuple):
    """n scenes: what a student reads, what is right, and which card says it."""

    asker: Float[Tensor, "n 32"]
    cards: Float[Tensor, "n 6 96"]
    answers: Int64[Tensor, "n"]
    needed: Bool[Tensor, "n 6"]  # the card on which the asker's hero gives


def needed(asker: Float[Tensor, "n 32"], cards: Float[Tensor, "n K 96"]) -> Bool[Tensor, "n K"]:
    """Which card has the answer to *what does the asker's hero give?*"""
    givers = nearest_words(cards[:, :, :32])
    return givers == HEROES[nearest_words(asker)][:, None]


def book(seed: int, size: int = SIZE) -> Book:
    """The scenes of `telegrams.few(size, seed)`."""
    (asker, cards), answers = telegrams.look_up("hero", size, torch.Generator().manual_seed(seed))
    return Book(asker, cards, answers[:, 0], needed(asker, cards))


def without(student: Callable[[Tensor, Tensor], Tensor], scenes: Book, gone: Bool[Tensor, "n 6"]) -> float:
    """The share of right answers where one card of each scene is `gone`, and the student sees five."""
    five = scenes.cards[~gone].view(len(gone), 5, 96)
    with torch.no_grad():
        said = nearest_words(student(scenes.asker, five))
    return (said == scenes.answers).float().mean().item()


def leads(weights: Float[Tensor, "n 6"], values: Float[Tensor, "n 6 32"], scenes: Book) -> Float[Tensor, "n 6"]:
    """What each card adds to the lead of the right word over its best rival, in points of the read-out."""
    said = SHARPNESS * weights[:, :, None] * (values @ VECTORS.T)  # (n, 6, 16)
    totals = said.sum(dim=1)
    right = scenes.answers[:, None]
    rival = totals.scatter(1, right, float("-inf")).argmax(dim=1, keepdim=True)
    places = [word[:, None].expand(-1, said.shape[1], 1) for word in (right, rival)]
    return (said.gather(2, places[0]) - said.gather(2, places[1]))[:, :, 0]
