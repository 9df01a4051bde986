"""Lesson 09's contest: how many of the words that a model writes stand in a book, and how many different ones."""

import re
from collections.abc import Callable, Iterable
from statistics import fmean

import torch
from jaxtyping import Float, Int64, Integer
from torch import Tensor
from torch.nn.functional import cross_entropy

from helpers.gpt import GPT, evaluating
from helpers.microscope import surprise
from helpers.tables import Line


def pieces(tokens: Integer[Tensor, "N"], n: int, length: int) -> Int64[Tensor, "n length"]:
    """Pieces from all over a text, as far from each other as it allows; the first and the last are its ends."""
    every = tokens[: len(tokens) // length * length].long().view(-1, length)
    return every[torch.linspace(0, len(every) - 1, n).long()]


def book_of(text: str) -> set[str]:
    """The words of three letters or more, in small letters."""
    return set(re.findall(r"\w{3,}", text.lower()))


def words_after(text: str, begin: int) -> list[str]:
    """The words of three letters or more behind the first `begin` letters, in small letters.

    One that began before, and one that may go on behind the end, are left out.
    """
    found = re.finditer(r"(?<!\w)\w{3,}(?=\W)", text)
    return [word[0].lower() for word in found if word.start() >= begin]


def found_and_different(texts: Iterable[str], begin: int, book: set[str]) -> tuple[float, int]:
    """The share of their words that stand in the `book`, and how many different ones do, in all texts together."""
    words = [word for text in texts for word in words_after(text, begin)]
    found = [word for word in words if word in book]
    return len(found) / max(1, len(words)), len(set(found))


def surprises(model: GPT, texts: Int64[Tensor, "N T"], begin: int) -> Float[Tensor, "N T_begin"]:
    """How surprising each letter behind the first `begin` is to the model, in nats."""
    if texts.shape[1] > model.config.context_length + 1:
        return torch.stack([surprise(model, text) for text in texts])[:, begin - 1 :]
    with evaluating(model), torch.no_grad():  # the same, side by side
        return cross_entropy(model(texts[:, :-1]).mT, texts[:, 1:], reduction="none")[:, begin - 1 :]


def by_network(lines: Iterable[Line], **settings: object) -> list[tuple[float, float]]:
    """The share found and how many different words are, in the lines of measured/sampling.csv that have these
    `settings`: for each network the means over its sets of dice.
    """
    groups: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if settings.items() <= line.items():
            share = line["found"] / max(1, line["words"])
            groups.setdefault(line["network"], []).append((share, line["different"]))
    return [(fmean(share for share, _ in some), fmean(many for _, many in some)) for some in groups.values()]


# ---------------------------------------------------------------- the judges of best of n
def least_surprising(model: GPT, tries: Int64[Tensor, "N n T"], begin: int) -> Int64[Tensor, "N T"]:
    """Of each n tries the one that surprises the model least."""
    nats = surprises(model, tries.flatten(0, 1), begin).mean(dim=1).view(tries.shape[:2])
    return tries[torch.arange(len(tries)), nats.argmin(dim=1)]


def most_found(
    decode: Callable[[Tensor], str], tries: Int64[Tensor, "N n T"], begin: int, book: set[str]
) -> Int64[Tensor, "N T"]:
    """Of each n tries the one with the largest share of words that stand in the `book`."""
    best = [max(some, key=lambda one: found_and_different([decode(one)], begin, book)[0]) for some in tries]
    return torch.stack(best)
