"""The room of rewards: a GPT writes, a judge chooses, and the GPT learns from what was chosen."""

import random
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Integer
from torch import Tensor

from helpers.data import get_batch
from helpers.gpt import GPT, evaluating
from helpers.rooms.contest import words_after
from helpers.sampling import generate

BEGIN = 32  # letters of the text that each try goes on from
NEW = 64  # letters of a try
TRIES = 8  # of which a judge keeps one

Judge = Callable[[str], float]
Brake = Callable[[GPT, Float[Tensor, "B T V"], Int64[Tensor, "B T"]], Tensor]  # what is added to a batch's loss


def tries(model: GPT, tokens: Integer[Tensor, "N"], count: int, dice: torch.Generator) -> Int64[Tensor, "M T"]:
    """`count` beginnings from anywhere in the text, each gone on with TRIES times: M = count · TRIES."""
    begins, _ = get_batch(tokens, count, BEGIN, dice)
    return generate(model, begins.repeat_interleave(TRIES, dim=0), NEW, generator=dice)


def winners(written: Int64[Tensor, "M T"], decode: Callable[[Tensor], str], judge: Judge) -> Int64[Tensor, "N T"]:
    """Of each TRIES neighbours the one that the judge gives most: N = M / TRIES."""
    rewards = torch.tensor([judge(decode(one)) for one in written]).view(-1, TRIES)
    return written.view(-1, TRIES, written.shape[1])[torch.arange(len(rewards)), rewards.argmax(dim=1)]


def learn_from(
    model: GPT,
    texts: Int64[Tensor, "N T"],
    optimizer: torch.optim.Optimizer,
    brake: Brake | None = None,
    times: int = 2,
    batch: int = 16,
) -> None:
    """Read the texts so many times, `batch` of them side by side; only the letters behind the first BEGIN count."""
    model.train()
    for _ in range(times):
        for some in texts[torch.randperm(len(texts))].split(batch):
            x, y = some[:, :-1], some[:, 1:]
            logits = model(x)
            loss = F.cross_entropy(logits[:, BEGIN - 1 :].flatten(0, 1), y[:, BEGIN - 1 :].flatten())
            if brake:
                loss = loss + brake(model, logits, x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()


# ---------------------------------------------------------------- what holds it back
def stays_near(old: GPT, strength: float) -> Brake:
    """`strength` times the KL divergence of the new guesses from those of the old model."""

    def brake(model: GPT, logits: Tensor, x: Tensor) -> Tensor:
        with evaluating(old), torch.no_grad():
            before = old(x)[:, BEGIN - 1 :].log_softmax(dim=-1)
        now = logits[:, BEGIN - 1 :].log_softmax(dim=-1)
        return strength * F.kl_div(before, now, log_target=True, reduction="sum") / before[..., 0].numel()

    return brake


def reads_on(tokens: Integer[Tensor, "N"], strength: float, dice: torch.Generator) -> Brake:
    """`strength` times the loss on as many lines of the text itself."""

    def brake(model: GPT, logits: Tensor, x: Tensor) -> Tensor:
        x, y = get_batch(tokens, len(x), x.shape[1], dice)
        return strength * F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    return brake


# ---------------------------------------------------------------- the judges
def known_words(book: set[str]) -> Judge:
    """The share of the new words that stand in the book; 0 for none."""

    def judge(text: str) -> float:
        words = words_after(text, BEGIN)
        return sum(word in book for word in words) / max(1, len(words))

    return judge


def known_pairs(pairs: set[tuple[str, str]]) -> Judge:
    """The share of the pairs of new words, one after the other, that stand so in the book; 0 for none."""

    def judge(text: str) -> float:
        new = list(pairwise(words_after(text, BEGIN)))
        return sum(pair in pairs for pair in new) / max(1, len(new))

    return judge


def by_chance(seed: int) -> Judge:
    """No judge: each text gets a number that has nothing to do with it."""
    dice = random.Random(seed)

    def judge(text: str) -> float:
        return dice.random()

    return judge
