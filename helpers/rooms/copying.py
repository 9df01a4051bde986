"""Lesson 00's networks: one reads a word, another writes its letters in a new order.

They are recurrent, as those of 2014 were. The writer sees the reader's last state alone, or looks
back at all of them (Bahdanau and others, 2014; dot products as in Luong and others, 2015).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.gpt import one_thread

LETTERS = "abcdefgh"
A, C = len(LETTERS), 48  # letters, numbers in a state
Words = Int64[Tensor, "B S"]
Task = Callable[[Words], tuple[Words, Words]]  # what is read, what is to be written


class Seen(NamedTuple):
    """What the writer had before it when it wrote: a row for each text and letter."""

    memory: Float[Tensor, "B S C"]  # the reader's states
    h: Float[Tensor, "B T C"]  # the writer's states
    scores: Float[Tensor, "B T S"]
    weights: Float[Tensor, "B T S"]
    context: Float[Tensor, "B T C"]

    @property
    def places(self) -> list[int]:
        """Where the thickest line of each letter of the first text goes, counted from 1."""
        return (self.weights[0].argmax(dim=-1) + 1).tolist()


class Copier(nn.Module):
    """A reader and a writer: words (B, S) -> logits of the letters written (B, S, A)."""

    def __init__(self, looks_back: bool, letters: int = A):
        super().__init__()
        self.looks_back, self.letters = looks_back, letters
        self.reader = nn.GRU(letters, C, batch_first=True)
        self.writer = nn.GRU(1, C, batch_first=True)  # it is told nothing but to go on
        self.head = nn.Linear(2 * C, letters)

    def see(self, words: Words) -> Seen:
        memory, last = self.reader(F.one_hot(words, self.letters).float())
        h, _ = self.writer(torch.zeros(*words.shape, 1), last)
        scores = h @ memory.mT
        if not self.looks_back:
            scores = torch.full_like(scores, -torch.inf)
            scores[:, :, -1] = 0
        weights = scores.softmax(dim=-1)
        return Seen(memory, h, scores, weights, weights @ memory)

    def forward(self, words: Words) -> Float[Tensor, "B S A"]:
        trace = self.see(words)
        return self.head(torch.cat([trace.h, trace.context], dim=-1))


# ---------------------------------------------------------------- what is to be written
def backwards(words: Words) -> tuple[Words, Words]:
    return words, words.flip(1)


def capital_first(words: Words) -> tuple[Words, Words]:
    """One letter of each word becomes a capital, which is written before the others."""
    B, S = words.shape
    capital = torch.randint(S, (B, 1))
    words = words.scatter(1, capital, words.gather(1, capital) + A)  # eight more letters
    order = torch.arange(S).repeat(B, 1).scatter(1, capital, -1)
    return words, words.gather(1, order.argsort(dim=1))


def numbers(word: str) -> Words:
    """A word as a batch of one; capitals are letters of their own."""
    return torch.tensor([[(LETTERS + LETTERS.upper()).index(letter) for letter in word]])


def spelled(words: Int64[Tensor, "S"]) -> str:
    return "".join((LETTERS + LETTERS.upper())[i] for i in words.tolist())


# ---------------------------------------------------------------- training
def nobody(step: int, model: Copier) -> None:
    """Watch nothing."""


@one_thread()
def train(
    looks_back: bool = True,
    task: Task = backwards,
    seed: int = 1,
    steps: int = 250,
    watch: Callable[[int, Copier], None] = nobody,
) -> Copier:
    """A network that has seen random words of up to eight letters; short ones come first.

    On one thread: the matrices are so small that a second one only waits.
    """
    torch.manual_seed(seed)
    model = Copier(looks_back, A if task is backwards else 2 * A)
    optimizer = torch.optim.Adam(model.parameters())
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for step in range(steps):
        watch(step, model)
        longest = min(8, 2 + int(7 * step / (0.5 * steps)))
        words = torch.randint(A, (64, int(torch.randint(1, longest + 1, ()))))
        words, answers = task(words)
        loss = F.cross_entropy(model(words).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
    watch(steps, model)
    return model


@one_thread()
@torch.no_grad()
def accuracy(model: Copier, length: int, task: Task = backwards) -> float:
    """The share of letters that are right, in 500 words of so many letters."""
    generator = torch.Generator().manual_seed(length)
    words, answers = task(torch.randint(A, (500, length), generator=generator))
    return (model(words).argmax(dim=-1) == answers).float().mean().item()
