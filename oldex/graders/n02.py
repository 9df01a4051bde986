"""The exercises of notebook 02: softmax."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, randn

from exercises.graders.stages import then
from exercises.judge import Answer, Pairs, exercise
from exercises.variants import TURNING_BATCHES_ONLY, TURNING_TABLES_ONLY, turned


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


def _by(turn: Callable[[Tensor], Tensor] = turned, dim: int = -1) -> Answer:
    """Contexts by another way to turn the keys on their side, or another axis of the softmax."""
    return lambda queries, keys, values: (queries @ turn(keys)).softmax(dim) @ values


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
        "right for a table, but with more dimensions `.T` turns all of them around: exchange the last two alone": [
            _by(turn) for turn in TURNING_TABLES_ONLY
        ],
        "dimensions that are counted from the front fit a batch, and no table: count from the end, `-2` and `-1`": [
            _by(turn) for turn in TURNING_BATCHES_ONLY
        ],
        "dimension 1 is the last one in a table only: with more dimensions, the softmax runs along -1": _by(dim=1),
    },
)
def contexts(answer: Answer) -> Pairs:
    """answer(queries (..., T, D), keys (..., S, D), values (..., S, E)) -> contexts (..., T, E), unscaled."""
    yield from then(_contexts_of_tables(answer), _contexts_of_batches(answer))


def _contexts_of_tables(answer: Answer) -> Pairs:
    for T, S, D, E, size in ((2, 4, 3, 5, 1), (3, 2, 4, 4, 1), (1, 1, 1, 1, 1), (3, 3, 3, 3, 1), (2, 3, 2, 1, 300)):
        queries, keys, values = (size * randn(T, D)).round(), (2 * randn(S, D)).round(), randn(S, E)
        yield answer(queries, keys, values), (queries @ keys.T).double().softmax(dim=-1) @ values.double()


def _contexts_of_batches(answer: Answer) -> Pairs:
    for leading, T, S, D, E in (((3,), 2, 4, 5, 2), ((2, 3), 4, 5, 6, 1), ((1,), 3, 2, 4, 3), ((4, 1), 1, 3, 2, 2)):
        queries, keys, values = randn(*leading, T, D).round(), randn(*leading, S, D).round(), randn(*leading, S, E)
        yield answer(queries, keys, values), (queries @ keys.mT).double().softmax(dim=-1) @ values.double()


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
        "that is temperature 1: the scores are divided by one half first": (1 / 8, 2 / 8, 5 / 8),
        "that is temperature 2: scores are DIVIDED by the temperature, and here they double": (
            1 / (1 + 2**0.5 + 5**0.5),
            2**0.5 / (1 + 2**0.5 + 5**0.5),
            5**0.5 / (1 + 2**0.5 + 5**0.5),
        ),
        "the temperature divides the scores, not the weights, which add up to 1": [
            (2 / 8, 4 / 8, 10 / 8),
            (1 / 16, 2 / 16, 5 / 16),
        ],
        "2 ln 5 is ln 25, not ln 10: to double an exponent is to square": (1 / 15, 4 / 15, 10 / 15),
        "e to the power 0 is 1, not 0: the first score gets a share, too": [(0, 4 / 29, 25 / 29), (0, 2 / 7, 5 / 7)],
        "the order is reversed: the first score is the smallest": [(25 / 30, 4 / 30, 1 / 30), (5 / 8, 2 / 8, 1 / 8)],
        "those are the exponentials: divide them by their sum": [(1, 4, 25), (1, 2, 5)],
        "those are shares of the scores: softmax takes exponentials first": (0, 0.301, 0.699),
        "those are scores: weights are all between 0 and 1 and add up to 1": [
            (0, 1.3863, 3.2189),
            (0, 0.6931, 1.6094),
            (0, 0.3466, 0.8047),
        ],
        "those are percentages: weights add up to 1": [(3.33, 13.33, 83.33), (3.3, 13.3, 83.3), (3, 13, 83)],
        "a low temperature favours the largest score, and does not yet give it everything": (0, 0, 1),
        "a low temperature makes shares less equal, not equal": (1 / 3, 1 / 3, 1 / 3),
    },
)
def shares(answer: Answer) -> Pairs:
    """answer = softmax of the scores 0, ln 2 and ln 5 at a temperature of one half."""
    yield answer, (1 / 30, 4 / 30, 25 / 30), 0.0051  # two decimals will do


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


def _log(odds: Callable[[int, float], float]) -> Answer:
    return lambda n, share: math.log(odds(n, share))


@exercise(
    "2f",
    {
        "the one is no part of its crowd: n - 1 others share the rest": _log(lambda n, share: _odds(share) * n),
        "that compares it with all others together: ONE of them has the weight (1 - share) / (n - 1)": _log(
            lambda n, share: _odds(share)
        ),
        "the others together get 1 - share, not 1: what one word wins they lose": [
            _log(lambda n, share: share * (n - 1)),
            _log(lambda n, share: share * n),
        ],
        "the larger the crowd, the larger the lead: its ratio to ONE other is n - 1 times that to all of them": [
            _log(lambda n, share: _odds(share) / (n - 1)),
            _log(lambda n, share: _odds(share) / n),
        ],
        "that is for a share of one half, whatever the share": [_log(lambda n, share: n - 1), _log(lambda n, share: n)],
        "the share itself is forgotten: its ratio to one other's weight is share (n - 1) / (1 - share)": [
            _log(lambda n, share: (n - 1) / (1 - share)),
            _log(lambda n, share: 1 / (1 - share)),
        ],
        "the sign is wrong: whoever gets more leads": _log(lambda n, share: 1 / (_odds(share) * (n - 1))),
        "the logarithm is missing: the ratio of two weights is e to the power of the lead": [
            lambda n, share: _odds(share) * (n - 1),
            lambda n, share: _odds(share) * n,
        ],
        "the logarithm has the base e, since softmax takes powers of e": [
            lambda n, share: math.log2(_odds(share) * (n - 1)),
            lambda n, share: math.log10(_odds(share) * (n - 1)),
        ],
        "that is the logarithm of its own weight: a lead compares two weights": _log(lambda n, share: share),
        "1 - share belongs under the logarithm: the ratio comes first, then its logarithm": (
            lambda n, share: math.log(share * (n - 1)) / (1 - share)
        ),
        "shares are ratios of exponentials, not of scores": [
            lambda n, share: share - (1 - share) / (n - 1),
            lambda n, share: share * n - 1,
        ],
    },
)
def lead(answer: Answer) -> Pairs:
    """answer(n, share) -> by how much one of n scores, all others equal, must lead to get `share` by softmax."""
    for n, share in ((2, 0.9), (3, 0.5), (10, 0.9), (100, 0.02), (7, 0.2), (1000, 0.999), (50_257, 0.25),
                     (1_000_000, 0.99), (2, 0.501)):  # fmt: skip
        yield answer(n, share), math.log(_odds(share) * (n - 1)), 1e-4


@exercise(
    "2g",
    {
        "a sum does not know the order of its terms: who asks the same of the same five words gets the same row": [
            (5, ...)
        ],
        "row t belongs to the word at place t: two places hold another word than before": [(0, ...)],
        "two words have changed places, and each has a row": [(1, ...)],
        "three rows are those that stay; and the word between the two has not moved either": [(3, ...)],
        "only two words have moved: the rows of the others stay as they are": [(4, ...)],
        "that is a share: count the rows": [(0.4, ...)],
        "a word takes its context along: it asks as before, and meets the same words, in another order": [(2, 2)],
        "every word meets the same five words as before: a mixture does not change with their order": [(2, 5)],
        "the words that did not move ask as before, and the words that they meet are the same": [(2, 3)],
        "both words have moved in the same way: one can't lose its context while the other keeps it": [(2, 1)],
        "a place stands nowhere in the formula: moving gives no word another context": [(2, 4)],
    },
)
def changes(answer: Answer) -> Pairs:
    """answer = how many rows of five change when two words change places, and how many words' contexts."""
    yield answer, (2, 0), 0.01
