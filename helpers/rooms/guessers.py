"""Counting, one idea at a time: what each discount and each way to count is worth, by run length."""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int64, Integer
from torch import Tensor

from helpers.counted import CountedGPT
from helpers.counting import KneserNey, discounts_of
from helpers.optim import TrainConfig
from helpers.rooms.parts import Zeros

WIDEST = 79  # columns: longer lines count as this long
FIXED = 0.75  # what each count gives away, where the amount isn't fitted


def losses(
    train_tokens: Integer[Tensor, "N"],
    val_tokens: Integer[Tensor, "M"],
    vocab_size: int,
    longest: int = 8,
    *,
    neighbours: bool = False,
    fitted: bool = False,
) -> list[float]:
    """The mean loss in nats of guessing by runs of 0 letters, of 1, ... of `longest`.

    With `neighbours`, a shorter run that is asked says after how many different letters something
    came, and not how often (Kneser and Ney 1995). With `fitted`, a count gives away an amount for
    its size (Chen and Goodman 1998), else always 0.75.
    """
    V, grams = vocab_size, []
    for n in range(1, longest + 2):  # all runs of n letters, as numbers in base V, and how often
        powers = V ** torch.arange(n - 1, -1, -1)
        runs, ahead = (x.long().unfold(0, n, 1) @ powers for x in (train_tokens, val_tokens))
        grams.append((*runs.unique(return_counts=True), ahead))
    shorter = torch.full((len(val_tokens),), 1 / V, dtype=torch.float64)
    mean_losses = []
    for length, (numbers, often, ahead) in enumerate(grams):
        shorter = shorter[-len(ahead) :]
        guess = smoothed(numbers, often, ahead, shorter, V, fitted)
        mean_losses.append(-guess.log().mean().item())
        if neighbours and length < longest:
            longer, _, _ = grams[length + 1]
            kinds = torch.bincount(torch.searchsorted(numbers, longer % V ** (length + 1)), minlength=len(numbers))
            guess = smoothed(numbers, kinds, ahead, shorter, V, fitted)
        shorter = guess
    return mean_losses


def smoothed(numbers: Tensor, counts: Tensor, ahead: Tensor, shorter: Tensor, V: int, fitted: bool) -> Tensor:
    """How likely each place's letter is: `ahead` is its run with the letter, `shorter` the guess of
    the shorter run, and `counts` (E,) belong to the runs of the text, `numbers` (E,), sorted.
    """
    d = discounts_of(counts.float()).double() if fitted else torch.tensor([0, FIXED, FIXED, FIXED])
    starts, which = (numbers // V).unique(return_inverse=True)
    given_away = torch.bincount(which, d[counts.clamp(max=3)].double())
    total = torch.bincount(which, counts.double())
    discounted = counts.double() - d[counts.clamp(max=3)]
    of_run = find(ahead // V, starts, total)
    mixed = (find(ahead, numbers, discounted) + find(ahead // V, starts, given_away) * shorter) / of_run
    return torch.where(of_run > 0, mixed, shorter)


def find(numbers: Tensor, among: Tensor, values: Tensor) -> Tensor:
    """The value of each of the numbers, or 0 where it isn't `among` them (sorted)."""
    place = torch.searchsorted(among, numbers).clamp(max=len(among) - 1)
    return torch.where(among[place] == numbers, values[place], 0.0)


def at_each_place(
    counts: KneserNey, tokens: Integer[Tensor, "N"], length: int, *, forget: bool = False
) -> Iterator[tuple[Float[Tensor, "M V"], Int64[Tensor, "M"]]]:
    """A text's places, piece by piece: the probabilities by runs of `length` letters, and what came.

    The first `counts.longest` letters are only looked back at. With `forget`, where the text is part of
    the counted one, each place is predicted as if it had not been counted.
    """
    past, piece = counts.longest, 4096
    for start in range(past, len(tokens) - 1, piece):  # a piece begins with letters of the last
        part = tokens[None, start - past : start + piece + 1].long()
        p, _ = counts.probabilities(part[:, :-1], (length,), part[:, 1:] if forget else None)
        yield p[0, past:, 0], part[0, past + 1 :]


def loss_of(counts: KneserNey, tokens: Integer[Tensor, "N"], length: int) -> float:
    """The mean loss in nats of guessing by counts of runs of `length` letters."""
    total = 0.0
    for p, came in at_each_place(counts, tokens, length):
        total -= p.gather(1, came[:, None]).log().sum().item()
    return total / (len(tokens) - 1 - counts.longest)


def loss_in_windows(counts: KneserNey, tokens: Integer[Tensor, "N"], length: int, T: int) -> float:
    """The same in windows of T letters side by side, as networks are measured: their first letters
    have little before them.
    """
    n = (len(tokens) - 1) // T * T
    windows = tokens[:n].long().view(-1, T), tokens[1 : n + 1].long().view(-1, T)
    total = 0.0
    for x, y in zip(*(part.split(64) for part in windows), strict=True):
        p, _ = counts.probabilities(x, (length,))
        total -= p[:, :, 0].gather(2, y[..., None]).log().sum().item()
    return total / n


# ---------------------------------------------------------------- the length of a line
def line_ends(
    counts: KneserNey, tokens: Integer[Tensor, "N"], newline: int, *, forget: bool = False
) -> tuple[Float[Tensor, "M"], Int64[Tensor, "M"], Bool[Tensor, "M"]]:
    """At each place of a text: the odds of a line end by the counts, the column, and whether it came."""
    places = at_each_place(counts, tokens, counts.longest, forget=forget)
    p = torch.cat([probabilities[:, newline] for probabilities, _ in places])
    where = torch.arange(len(tokens))
    before = where.masked_fill(tokens != newline, -1).cummax(dim=0).values
    column = (where - before).clamp(max=WIDEST)  # of the letter that is asked for
    past = counts.longest
    return p / (1 - p), column[past:-1], tokens[past + 1 :] == newline


def column_factors(
    odds: Float[Tensor, "M"], column: Int64[Tensor, "M"], ended: Bool[Tensor, "M"]
) -> Float[Tensor, "C"]:
    """By what the odds of a line end are multiplied in each column, so that as many are expected as came."""
    factor, came = torch.ones(WIDEST + 1), torch.bincount(column, ended.float(), WIDEST + 1)
    for _ in range(10):
        expected = torch.bincount(column, share_of(odds * factor[column]), WIDEST + 1)
        factor = factor * (came + 1) / (expected + 1)
    return factor


def likelier(before: Float[Tensor, "M"], after: Float[Tensor, "M"], ended: Bool[Tensor, "M"]) -> Float[Tensor, "M"]:
    """How many nats likelier what came is by other odds of a line end."""
    gain = share_of(after).log() - share_of(before).log()
    return torch.where(ended, gain, (1 - share_of(after)).log() - (1 - share_of(before)).log())


def share_of(odds: Float[Tensor, "M"]) -> Float[Tensor, "M"]:
    """The probability that has these odds."""
    return odds / (1 + odds)


# ---------------------------------------------------------------- beside a network
@torch.no_grad()
def gains_over_counts(
    model: CountedGPT, tokens: Integer[Tensor, "N"]
) -> tuple[Float[Tensor, "M"], Integer[Tensor, "M"]]:
    """How many nats likelier each letter became than by counts of six letters, and the letters.

    Each is asked for with at least 64 letters before it: the first 65 are only looked back at.
    """
    gains, letters = [], []
    windows = tokens.long().unfold(0, 129, 64)
    for batch in windows.split(64):
        x, y = batch[:, :-1], batch[:, 1:, None]
        log_p = model(x).log_softmax(-1).gather(2, y)
        p, _ = model.counts.probabilities(x, (6,))
        gain = log_p - p[:, :, 0].log().gather(2, y)
        gains.append(gain[:, 64:, 0].flatten())
        letters.append(y[:, 64:, 0].flatten())
    return torch.cat(gains), torch.cat(letters)


def no_network(model: CountedGPT) -> None:
    """Gates see only how often runs were seen: for them and the head the last layer is zero."""
    model.norm = Zeros()


def gates_alone(model: CountedGPT, config: TrainConfig) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.gates.parameters(), lr=config.learning_rate, weight_decay=0.0)


class KnowsTheAnswer(CountedGPT):
    """In training, the counts know the very letter that is asked for."""

    def _by_counting(self, tokens: Tensor, past: Tensor, targets: Tensor | None) -> tuple[Tensor, Tensor]:
        return super()._by_counting(tokens, past, None)


def know_the_answer(model: CountedGPT) -> None:
    model.__class__ = KnowsTheAnswer


def kind_of(before: str, letter: str) -> str:
    """What a letter is, given the one before it."""
    if not letter.isalpha():
        return "the end of a line" if letter == "\n" else "a space or punctuation"
    return "inside a word" if before.isalpha() else "a word's first letter"
