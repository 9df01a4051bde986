"""Ways to draw from a model and to keep a cache: the right ones, and others with one part replaced."""

from collections.abc import Callable

import torch
from torch import Tensor

from exercises.judge import Answer
from helpers.gpt import GPT


def one_hot(place: Tensor, V: int) -> Tensor:
    return torch.nn.functional.one_hot(place, V)


def nucleus_by(inside: Callable[[Tensor, Tensor, float], Tensor], descending: bool = True) -> Answer:
    """What is inside, by a rule for the sorted probabilities, the sum up to each of them and p."""

    def variant(probabilities: Tensor, p: float) -> Tensor:
        ranked, order = probabilities.sort(descending=descending)
        return torch.zeros(len(ranked)).scatter(0, order, inside(ranked, ranked.cumsum(0), p).float())

    return variant


kept = nucleus_by(lambda ranked, total, p: total - ranked < p)


def in_sorted_order(probabilities: Tensor, p: float) -> Tensor:
    return kept(probabilities.sort(descending=True).values, p)


def pieces(tokens: Tensor, n: int, step: int = 1) -> list[tuple[int, ...]]:
    return [tuple(piece) for piece in tokens.unfold(0, n, step).tolist()]


def share(counts: Callable[[list[tuple[int, ...]], int], bool]) -> Answer:
    """The share of windows i of which `counts(windows, i)` is true."""

    def variant(tokens: Tensor, n: int) -> float:
        windows = pieces(tokens, n)
        return sum(counts(windows, i) for i in range(len(windows))) / len(windows)

    return variant


def number_repeated(tokens: Tensor, n: int, step: int = 1) -> int:
    windows = pieces(tokens, n, step)
    return len(windows) - len(set(windows))


def repeated(tokens: Tensor, n: int, step: int = 1) -> float:
    return number_repeated(tokens, n, step) / len(pieces(tokens, n, step))


def variance(logits: Tensor, shares: Tensor) -> Tensor:
    return (shares * (logits - (shares * logits).sum()) ** 2).sum()


def slope_with(
    power: float = 3, at: Callable[[float], float] = lambda hot: hot, spread: Callable[..., Tensor] = variance
) -> Answer:
    """A spread of the logits over a power of the temperature, with probabilities of the temperature `at`."""
    return lambda logits, temperature: spread(logits, (logits / at(temperature)).softmax(0)) / temperature**power


def cached(
    start: Callable[[int, int], int] | None,
    forget: bool = False,
    again: bool = False,
    layers: int | None = None,
    norm: bool = True,
) -> Answer:
    """Logits of tokens that are read one by one; `start(t, T)` is the place that token t of T is given."""

    def variant(model: GPT, tokens: Tensor) -> Tensor:
        caches, rows = model.new_cache(), []
        for t in range(len(tokens)):
            caches = model.new_cache() if forget else caches
            newest = tokens[None, 0 if again else t : t + 1]
            x = model.token_embedding(newest) if start is None else model.embed(newest, start(t, len(tokens)))
            for i, block in enumerate(model.blocks):
                x = block(x, caches[i % (layers or len(caches))])
            rows.append(model.head(model.norm(x) if norm else x)[0, -1])
        return torch.stack(rows)

    return variant


def speculated(
    keep: Callable[[Tensor, Tensor], Tensor] = lambda p, q: (p / q).clamp(max=1),
    rest: Callable[[Tensor, Tensor], Tensor] = lambda p, q: (p - q).clamp(min=0),
    whole: bool = True,
) -> Answer:
    """Speculative sampling (Leviathan et al. 2023, section 2.3): how often a draft is kept, and what else is drawn."""

    def variant(target: Tensor, draft: Tensor) -> tuple[Tensor, Tensor]:
        left = rest(target, draft)
        return keep(target, draft), left / left.sum() if whole else left

    return variant
