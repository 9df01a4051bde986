"""The exercises of notebook 02: softmax."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, randn

from helpers.grading.judge import Answer, Pairs, exercise


def _shares(scores: Tensor, shift: Tensor | float = 0.0, dim: int = -1) -> Tensor:
    """Softmax as one writes it down, with what is taken away from the scores first."""
    exponentials = (scores - shift).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@exercise(
    "2a",
    {
        "large scores give NaN: take the largest score of each row away first": [
            _shares,
            lambda scores: _shares(scores, scores.amin(dim=-1, keepdim=True)),
        ],
        "taking the mean away is not enough, a score far above it still overflows: take the largest": (
            lambda scores: _shares(scores, scores.mean(dim=-1, keepdim=True))
        ),
        "it takes away the largest score of the whole tensor, and rows far below it die: each row has its own": (
            lambda scores: _shares(scores, scores.max())
        ),
        "it cuts large scores off, which changes their weights": [
            lambda scores: _shares(scores.clamp(-80, 80)),
            lambda scores: _shares(scores.clamp(max=80)),
            lambda scores: _shares(scores.clamp(-50, 50)),
            lambda scores: _shares(scores.clamp(-100, 88)),
        ],
        "it sums over the first dimension: weights add up to 1 along the last": [
            lambda scores: scores.softmax(dim=0),
            lambda scores: _shares(scores, scores.amax(dim=0, keepdim=True), dim=0),
        ],
        "it sums over the second dimension: weights add up to 1 along the last": lambda scores: scores.softmax(dim=1),
        "the whole tensor adds up to 1: each row should": [
            lambda scores: scores.flatten().softmax(dim=0).view(scores.shape),
            lambda scores: (scores - scores.max()).exp() / (scores - scores.max()).exp().sum(),
        ],
        "the weights don't add up to 1: divide by the sum of each row": (
            lambda scores: (scores - scores.amax(dim=-1, keepdim=True)).exp()
        ),
        "it divides the scores by their sum: take the exponential first": (
            lambda scores: scores / scores.sum(dim=-1, keepdim=True)
        ),
        "those are the logarithms of the weights": lambda scores: scores.log_softmax(dim=-1),
        "its base is 2: softmax takes powers of e": lambda scores: (scores * math.log(2)).softmax(dim=-1),
        "that is the sigmoid, which looks at each score alone": torch.sigmoid,
        "the best score takes everything: that is the hard maximum": (
            lambda scores: torch.nn.functional.one_hot(scores.argmax(-1), scores.shape[-1])
        ),
    },
)
def softmax(answer: Answer) -> Pairs:
    """answer(scores (..., T)) -> weights of the same shape, also for scores of a thousand."""
    apart = torch.tensor([[1000.0, -1000.0, 0.0], [-1001.0, -1000.0, -1001.0]])
    for scores in (randn(6), randn(3, 2), randn(2, 3, 4), randn(2, 1, 2, 3), randn(1), (3 * randn(5, 3)).round() + 1000,
                   torch.tensor([-1000.0, -1001.0]), apart, torch.tensor([100.0, 102.0])):  # fmt: skip
        rounding = 2e-4 if scores.abs().max() > 99 else 1e-5  # of float32, on the way through a logarithm
        yield answer(scores), scores.double().softmax(dim=-1), rounding


def _mixed(mix: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    """Contexts that are made of the raw scores and the values."""
    return lambda queries, keys, values: mix(queries @ keys.T, values)


@exercise(
    "2b",
    {
        "it scales the scores: in this notebook there is no √D yet": (
            lambda queries, keys, values: (queries @ keys.T / keys.shape[1] ** 0.5).softmax(-1) @ values
        ),
        "the softmax runs over the queries: each query's weights add up to 1, so it runs along each row": _mixed(
            lambda scores, values: scores.softmax(0) @ values
        ),
        "there is no softmax: the raw scores mix the values": _mixed(torch.mm),
        "those are the weights: they still have to mix the values": _mixed(lambda scores, values: scores.softmax(-1)),
        "it mixes the keys: they are only for finding, the values are what is told": (
            lambda queries, keys, values: (queries @ keys.T).softmax(-1) @ keys
        ),
        "scores are divided by their sum: that is no softmax": [
            _mixed(lambda scores, values: scores / scores.sum(-1, keepdim=True) @ values),
            _mixed(lambda scores, values: scores @ values / scores.sum(-1, keepdim=True)),
        ],
        "it takes only the value with the best score: a mixture is asked for": _mixed(
            lambda scores, values: values[scores.argmax(-1)]
        ),
        "it is the plain average of the values, whatever the query": (
            lambda queries, keys, values: values.mean(0).expand(len(queries), -1)
        ),
        "it mixes by distance: the score is the dot product": (
            lambda queries, keys, values: (-torch.cdist(queries, keys)).softmax(-1) @ values
        ),
        "the values take part in finding: scores come from queries and keys": (
            lambda queries, keys, values: (queries @ values.T).softmax(-1) @ values
        ),
        "the exponentials are not divided by their sum": _mixed(lambda scores, values: scores.exp() @ values),
        "large scores give NaN: take the largest score of each row away first": _mixed(
            lambda scores, values: _shares(scores) @ values
        ),
        "the keys must be turned on their side: every query must meet every key": (
            lambda queries, keys, values: (queries @ keys).softmax(-1) @ values
        ),
    },
)
def contexts(answer: Answer) -> Pairs:
    """answer(queries (T, D), keys (S, D), values (S, E)) -> contexts (T, E), unscaled."""
    for T, S, D, E, size in ((2, 4, 3, 5, 1), (3, 2, 4, 4, 1), (1, 1, 1, 1, 1), (3, 3, 3, 3, 1), (2, 3, 2, 1, 300)):
        queries, keys, values = (size * randn(T, D)).round(), (2 * randn(S, D)).round(), randn(S, E)
        yield answer(queries, keys, values), (queries @ keys.T).double().softmax(dim=-1) @ values.double()


def _odds(share: float) -> float:
    return share / (1 - share)


@exercise(
    "2c",
    {
        "that is upside down: the hotter, the more equal the shares": lambda lead, share: math.log(_odds(share)) / lead,
        "temperature divides the lead, it doesn't multiply it": lambda lead, share: lead * math.log(_odds(share)),
        "the logarithm is missing: the ratio of the shares is e to the power lead / temperature": (
            lambda lead, share: lead / _odds(share)
        ),
        "compare the two shares with each other: the smaller is 1 - share, not 1": (
            lambda lead, share: -lead / math.log(share)
        ),
        "the ratio needs both shares: share / (1 - share)": [
            lambda lead, share: -lead / math.log(1 - share),
            lambda lead, share: lead / math.log(1 / (1 - share) + 1),
        ],
        "the ratio is upside down, which makes the temperature negative": (
            lambda lead, share: -lead / math.log(_odds(share))
        ),
        "the logarithm has the base e, since softmax takes powers of e": [
            lambda lead, share: lead / math.log10(_odds(share)),
            lambda lead, share: lead / math.log2(_odds(share)),
        ],
        "the lead is forgotten: twice the lead needs twice the temperature": lambda _, share: (
            1 / math.log(_odds(share))
        ),
        "the lead is one difference, not one on each side": [
            lambda lead, share: 2 * lead / math.log(_odds(share)),
            lambda lead, share: lead / (2 * math.log(_odds(share))),
        ],
        "shares are ratios of exponentials: that is linear": [
            lambda lead, share: lead / share,
            lambda lead, share: lead / (2 * share - 1),
            lambda lead, share: lead * (1 - share),
        ],
    },
)
def temperature(answer: Answer) -> Pairs:
    """answer(lead, share) -> the temperature at which the larger of two scores, `lead` apart, gets `share`."""
    for lead, share in ((1.0, 0.9), (2.5, 0.6), (0.25, 0.99), (300.0, 0.75), (7, 0.501), (1e-3, 0.8)):
        yield answer(lead, share), lead / math.log(_odds(share))


@exercise(
    "2d",
    {
        "adding 100 to each score changes no weight: e¹⁰⁰ stands above and below the line": [
            (1 / 3, 1 / 3, 1 / 3),
            (100 / 302.3026, 100.6931 / 302.3026, 101.6094 / 302.3026),
        ],
        "the largest score gets the largest share, not everything": (0, 0, 1),
        "the order is reversed: the first score is the smallest": (5 / 8, 2 / 8, 1 / 8),
        "those are shares of the scores: softmax takes exponentials first": (0, 0.301, 0.699),
        "those are the exponentials: divide them by their sum": (1, 2, 5),
        "those are percentages: weights add up to 1": (12.5, 25, 62.5),
        "e to the power 0 is 1, not 0: the first score gets a share, too": (0, 2 / 7, 5 / 7),
        "those are the scores: weights are all between 0 and 1 and add up to 1": [
            (0, 0.6931, 1.6094),
            (100, 100.6931, 101.6094),
        ],
        "nothing overflows: softmax takes the largest score away first": [
            (float("nan"),) * 3,
            (float("inf"),) * 3,
            (0, 0, 0),
        ],
    },
)
def shares(answer: Answer) -> Pairs:
    """answer = softmax of the scores 0, ln 2 and ln 5, after 100 has been added to each."""
    yield answer, (1 / 8, 2 / 8, 5 / 8), 0.0051  # two decimals will do


def _broken_weights(scores: Tensor) -> Tensor:
    return scores.softmax(dim=1)


@exercise(
    "2e",
    {
        "the weights add up to 1 over the batch: sequences must not share their weights": (
            lambda scores: scores.softmax(dim=0)
        ),
        "each table adds up to 1: each of its rows should": (
            lambda scores: scores.flatten(1).softmax(dim=1).view(scores.shape)
        ),
        "the whole tensor adds up to 1: each row should": (
            lambda scores: scores.flatten().softmax(dim=0).view(scores.shape)
        ),
        "large scores give NaN: take the largest score of each row away first": _shares,
        "rows and columns are exchanged": [
            lambda scores: scores.softmax(dim=-1).mT,
            lambda scores: scores.mT.softmax(dim=-1),
            lambda scores: scores.softmax(dim=1).mT,
        ],
        "scores are divided by their sum: that is no softmax": lambda scores: scores / scores.sum(dim=-1, keepdim=True),
        "the weights don't add up to 1: divide by the sum of each row": (
            lambda scores: (scores - scores.amax(dim=-1, keepdim=True)).exp()
        ),
        "the softmax is taken twice": [
            lambda scores: scores.softmax(dim=1).softmax(dim=-1),
            lambda scores: scores.softmax(dim=-1).softmax(dim=-1),
            lambda scores: scores.softmax(dim=-1).softmax(dim=1),
        ],
        "it answers for the first sequence only": [
            lambda scores: scores[0].softmax(dim=-1),
            lambda scores: scores[0].softmax(dim=1),
            lambda scores: scores[:1].softmax(dim=-1),
        ],
        "it has averaged the sequences first": lambda scores: scores.mean(dim=0).softmax(dim=-1),
    },
    broken=("each row of a sequence's table should add up to 1. What do the rows add up to, and the columns?",
            _broken_weights),
)  # fmt: skip
def weights(answer: Answer) -> Pairs:
    """answer(scores (B, T, S)) -> weights (B, T, S) whose rows add up to 1."""
    for B, T, S in ((2, 3, 4), (3, 3, 3), (1, 1, 5), (3, 1, 1), (2, 4, 1)):
        scores = randn(B, T, S)
        yield answer(scores), scores.softmax(dim=-1)
    scores = (3 * randn(2, 2, 3)).round() + 1000
    yield answer(scores), scores.double().softmax(dim=-1)


def _compared(rule: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    """Is it sharper? By a rule for the best and the smallest score."""
    return lambda scores: bool(rule(scores.max(), scores.min()))


def _softmax_wins(best: Tensor, other: Tensor) -> Tensor:
    return best - other > (best / other).log()


def _best_two(scores: Tensor) -> bool:
    second, best = scores.sort().values[-2:] if len(scores) > 1 else (scores[0], scores[0])
    return bool(_softmax_wins(best, second))


@exercise(
    "2f",
    {
        "True is not always right: softmax may be the flatter one": lambda scores: True,
        "False is not always right: softmax may be the sharper one": lambda scores: False,
        "that is the wrong way round": _compared(lambda best, least: best - least < (best / least).log()),
        "the difference is compared with the ratio: compare it with the ratio's logarithm": _compared(
            lambda best, least: best - least > best / least
        ),
        "no fixed difference decides: the level of the scores counts, too": [
            _compared(lambda best, least: best - least > 1),
            _compared(lambda best, least: best - least >= 1),
            _compared(lambda best, least: best - least > 2),
            _compared(lambda best, least: best - least > 0.5),
        ],
        "no fixed level decides: the difference of the scores counts, too": [
            _compared(lambda best, least: best > 1),
            _compared(lambda best, least: least > 1),
        ],
        "it compares the best score's shares: compare its share RELATIVE to that of the smallest": (
            lambda scores: bool(scores.softmax(0).max() > scores.max() / scores.sum())
        ),
        "it compares the best with the second best: the smallest is meant": _best_two,
        "it takes the last and the first score for the best and the smallest": [
            lambda scores: bool(_softmax_wins(scores[-1], scores[0])),
            lambda scores: bool(_softmax_wins(scores[0], scores[-1])),
        ],
        "large scores overflow: e to the power max - min is the ratio, without e to the power of a score": _compared(
            lambda best, least: best.exp() / least.exp() > best / least
        ),
        "the logarithm has the base e, since softmax takes powers of e": [
            _compared(lambda best, least: best - least > (best / least).log10()),
            _compared(lambda best, least: best - least > (best / least).log2()),
        ],
    },
)
def sharper(answer: Answer) -> Pairs:
    """answer(scores (T,), all above 0) -> does softmax favour the best score over the smallest more than division does?

    Softmax gives the ratio exp(max - min), division gives max / min.
    """
    cases = [[10.0, 10.5], [0.01, 3.0], [2.5, 0.5], [1.8, 0.2], [3.0, 2.0], [0.1, 0.2], [0.3, 1.0, 2.0, 0.7],
             [2.6, 0.4, 2.5], [1.0, 5.0, 3.0], [500.0, 501.0, 500.5], [0.05, 2.0, 1.9, 0.06], [4.0, 4.0], [2.0],
             [0.001, 0.002, 0.0015], [0.3, 2.4], [1.2, 0.4, 1.1], [0.15, 1.1], [7.0, 9.5, 8.0], [1.3, 1.9]]  # fmt: skip
    for scores in map(torch.tensor, cases):
        yield answer(scores), _compared(_softmax_wins)(scores)
