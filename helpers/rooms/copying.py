"""Lesson 00's networks: one reads a word, another writes it backwards.

They are recurrent, as those of 2014 were. The writer sees the reader's last state alone, or looks
back at all of them (Bahdanau and others, 2014; dot products as in Luong and others, 2015).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.gpt import one_thread

LETTERS = "abcdefgh"
A = len(LETTERS)
LONGEST = 20  # letters in a word that is practised
Texts = Int64[Tensor, "B S"]
TextSource = Callable[[float], tuple[Texts, Texts]]  # what is read and written, after a share of the training


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

    def __init__(self, looks_back: bool, width: int):
        super().__init__()
        self.looks_back = looks_back
        self.reader = nn.GRU(A, width, batch_first=True)
        self.writer = nn.GRU(1, width, batch_first=True)  # it is told nothing but to go on
        self.head = nn.Linear(2 * width, A)

    def see(self, words: Texts) -> Seen:
        memory, last = self.reader(F.one_hot(words, A).float())
        h, _ = self.writer(torch.zeros(*words.shape, 1), last)
        scores = h @ memory.mT
        if not self.looks_back:
            scores = torch.full_like(scores, -torch.inf)
            scores[:, :, -1] = 0
        weights = scores.softmax(dim=-1)
        return Seen(memory, h, scores, weights, weights @ memory)

    def forward(self, words: Texts) -> Float[Tensor, "B S A"]:
        seen = self.see(words)
        return self.head(torch.cat([seen.h, seen.context], dim=-1))


def numbers(word: str) -> Texts:
    """A word as a batch of one."""
    return torch.tensor([[LETTERS.index(letter) for letter in word]])


def spelled(word: Int64[Tensor, "S"]) -> str:
    return "".join(LETTERS[i] for i in word.tolist())


# ---------------------------------------------------------------- training
def random_words(progress: float) -> tuple[Texts, Texts]:
    """64 words of one length, and the same backwards; short ones come first."""
    longest = min(LONGEST, 2 + int((LONGEST - 1) * progress / 0.5))
    words = torch.randint(A, (64, int(torch.randint(1, longest + 1, ()))))
    return words, words.flip(1)


def nobody(step: int, model: Any) -> None:
    """Watch nothing."""


@one_thread()
def train(
    model: nn.Module,
    examples: TextSource,
    steps: int,
    peak_rate: float,
    watch: Callable[[int, Any], None] = nobody,
) -> None:
    """On one thread: the matrices are so small that a second one only waits."""
    optimizer = torch.optim.Adam(model.parameters())
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak_rate, total_steps=steps)
    for step in range(steps):
        watch(step, model)
        read, written = examples(step / steps)
        loss = F.cross_entropy(model(read).flatten(0, 1), written.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
    watch(steps, model)


def trained(
    looks_back: bool = True,
    width: int = 48,
    steps: int = 1000,
    peak_rate: float = 1e-2,
    seed: int = 1,
    watch: Callable[[int, Copier], None] = nobody,
) -> Copier:
    """A network that has practised on random words of up to twenty letters."""
    torch.manual_seed(seed)
    model = Copier(looks_back, width)
    train(model, random_words, steps, peak_rate, watch)
    return model


@one_thread()
@torch.no_grad()
def accuracy(model: Copier, length: int) -> float:
    """The share of letters that are right, in 500 words of this many letters."""
    generator = torch.Generator().manual_seed(length)
    words = torch.randint(A, (500, length), generator=generator)
    return (model(words).argmax(dim=-1) == words.flip(1)).float().mean().item()
