"""The exercises of *what matters*: experiments that would pass review."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, randint, randn

from exercises.judge import Answer, Pairs, exercise


@exercise(
    "10a",
    {
        "that is the chance for one change: there are twenty": [0.05, 0.0488],
        "1 is how many are declared on average: chances don't add up, or thirty changes would have one of 1.5": [
            1,
            100,
        ],
        "that is the chance that NONE of them is declared: take it from 1": 0.95**20,
        "that is the chance of exactly one: two and more count, too": 20 * 0.05 * 0.95**19,
        "that is the chance of two or more: one is enough": 1 - 0.95**20 - 20 * 0.05 * 0.95**19,
        "that is the chance that one change is judged rightly": 0.95,
        "that is percent: a chance lies between 0 and 1": [64, 64.1, 64.15, 64.2],
        "that is for nineteen: count them again": 1 - 0.95**19,
        "that is for all twenty at once, which is next to never: one is enough": 0.05**20,
    },
)
def chance(answer: Answer) -> Pairs:
    """answer = the chance that of twenty idle changes, each judged at 5 %, at least one is declared."""
    yield answer, 1 - 0.95**20, 0.005


def _errors(
    paired: Callable[..., Tensor] = lambda a, b, both: a + b - 2 * both,
    apart: Callable[..., Tensor] = lambda a, b, both: a + b,
    error: Callable[[Tensor, int], Tensor] = lambda variance, S: (variance / S).sqrt(),
    less: int = 1,
) -> Answer:
    """Two errors from the variances of both sides and their covariance, each a sum divided by S - `less`."""

    def variant(with_change: Tensor, whole: Tensor) -> tuple[float, float]:
        rest = torch.stack([with_change, whole])
        rest = rest - rest.mean(1, keepdim=True)
        (a, both), (_, b) = rest @ rest.T / (rest.shape[1] - less)
        return error(paired(a, b, both), len(whole)).item(), error(apart(a, b, both), len(whole)).item()

    return variant


def _thrown_together(with_change: Tensor, whole: Tensor) -> tuple[float, float]:
    return _errors()(with_change, whole)[0], torch.cat([with_change, whole]).std().item() / len(whole) ** 0.5


@exercise(
    "10b",
    {
        "that divides the squares by S: their mean is estimated too, so divide by S - 1": _errors(less=0),
        "S - 1 belongs into the variance only: the mean is over S runs": _errors(
            error=lambda variance, S: (variance / (S - 1)).sqrt()
        ),
        "that is how far single runs scatter: a mean of S scatters less, by the root of S": _errors(
            error=lambda variance, S: variance.sqrt()
        ),
        "it divides by S: the error falls with the ROOT of S": _errors(error=lambda variance, S: variance.sqrt() / S),
        "those are variances: take the root": [
            _errors(error=lambda variance, S: variance / S),
            _errors(error=lambda variance, S: variance),
        ],
        "the two are exchanged: first the paired one": lambda with_change, whole: _errors()(with_change, whole)[::-1],
        "both are as if the runs were unrelated: for the first, subtract seed by seed": _errors(
            paired=lambda a, b, both: a + b
        ),
        "both are paired: the second must not know which runs share a seed": _errors(
            apart=lambda a, b, both: a + b - 2 * both
        ),
        "what both share makes their difference scatter LESS: take the covariance away": _errors(
            paired=lambda a, b, both: a + b + 2 * both
        ),
        "the covariance counts twice: once for each side": _errors(paired=lambda a, b, both: a + b - both),
        "errors don't add up, their squares do": _errors(apart=lambda a, b, both: (a.sqrt() + b.sqrt()) ** 2),
        "variances add up, though the means are subtracted: noise does not cancel noise": [
            _errors(apart=lambda a, b, both: (a - b).abs()),
            _errors(apart=lambda a, b, both: a - b),
            _errors(apart=lambda a, b, both: (a.sqrt() - b.sqrt()) ** 2),
        ],
        "the second is the error of one mean: both of them scatter": [
            _errors(apart=lambda a, b, both: a),
            _errors(apart=lambda a, b, both: b),
        ],
        "each mean is over S runs, not 2 S": _errors(apart=lambda a, b, both: (a + b) / 2),
        "both sets of runs are thrown together: that their means differ is no noise": _thrown_together,
        "the second is missing: the error as if the runs were unrelated": (
            lambda with_change, whole: _errors()(with_change, whole)[0]
        ),
    },
)
def errors(answer: Answer) -> Pairs:
    """answer(with_change (S,), whole (S,)) -> standard errors of the difference, paired and as if unrelated."""
    for S, shared, own in ((5, 0.1, 0.02), (3, 0.0, 0.1), (8, 0.3, 0.05), (2, 0.1, 0.1), (12, -0.1, 0.02)):
        seeds, noise = randn(S), own * randn(2, S)
        with_change, whole = 2.1 + shared * seeds + noise[0], 2 + 2 * abs(shared) * seeds + noise[1]
        yield answer(with_change, whole), _errors()(with_change.double(), whole.double())


def _loss(logits: Tensor, targets: Tensor, **how: str) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), **how)


def _at_the_last(loss: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    """A loss of the logits (B, V) and the targets (B,) of the last place."""
    return lambda logits, targets: loss(logits[:, -1], targets[:, -1])


@exercise(
    "10c",
    {
        "that is the mean over all places: only at the last one is nothing left to peek at": _loss,
        "that is the first place: the last one is asked for": lambda x, targets: _loss(x[:, 0], targets[:, 0]),
        "that is the last text of the batch: take the last place of each": lambda x, targets: _loss(x[-1], targets[-1]),
        "the logits of the last place belong to the target of the last place": [
            lambda logits, targets: _loss(logits[:, -1], targets[:, 0]),
            lambda logits, targets: _loss(logits[:, 0], targets[:, -1]),
        ],
        "that is the sum over the texts: their mean is asked for": _at_the_last(partial(_loss, reduction="sum")),
        "one loss for each text: their mean is asked for": _at_the_last(partial(_loss, reduction="none")),
        "it takes the softmax twice: cross_entropy wants logits": _at_the_last(
            lambda logits, targets: _loss(logits.softmax(-1), targets)
        ),
        "the sign is wrong: a loss is minus the logarithm": _at_the_last(lambda x, targets: -_loss(x, targets)),
        "the logarithm is missing, or the softmax: a loss is -log of a probability": [
            _at_the_last(lambda logits, targets: F.nll_loss(logits.softmax(-1), targets)),
            _at_the_last(F.nll_loss),
            _at_the_last(lambda logits, targets: -F.nll_loss(logits.softmax(-1), targets)),
        ],
        "first the logarithm of each text, then the mean": _at_the_last(
            lambda logits, targets: -(-F.nll_loss(logits.softmax(-1), targets)).log()
        ),
        "the softmax runs over the texts: it runs over the vocabulary": _at_the_last(
            lambda logits, targets: F.nll_loss(logits.log_softmax(0), targets)
        ),
        "those are bits: a loss is in nats": _at_the_last(lambda x, targets: _loss(x, targets) / math.log(2)),
        "that is the share of right guesses: the loss asks how sure it was": _at_the_last(
            lambda logits, targets: (logits.argmax(-1) == targets).float().mean()
        ),
    },
)
def last_loss(answer: Answer) -> Pairs:
    """answer(logits (B, T, V), targets (B, T)) -> mean loss at the last place, where nothing can leak."""
    for B, T, V in ((6, 5, 7), (2, 4, 3), (1, 3, 5), (3, 1, 4), (4, 2, 2)):
        logits, targets = 2 * randn(B, T, V), randint(V, (B, T))
        yield answer(logits, targets), _at_the_last(_loss)(logits.double(), targets)


def _adjusted(
    factor: Callable[..., Tensor] = lambda place, R: R - place,
    running: Callable[[Tensor], Tensor] = lambda x: x.cummax(0).values,
    most: float = 1.0,
    descending: bool = False,
) -> Answer:
    """Adjusted p-values: sorted, each times a factor of its place, a running maximum, at most `most`, and back."""

    def variant(p: Tensor) -> Tensor:
        ranked, order = p.sort(descending=descending)
        adjusted = running(ranked * factor(torch.arange(len(p)), len(p))).clamp(max=most)
        return torch.empty_like(p).scatter(0, order, adjusted)

    return variant


def _from_above(x: Tensor) -> Tensor:
    return x.flip(0).cummin(0).values.flip(0)


def _by_powers(p: Tensor) -> Tensor:
    ranked, order = p.sort()
    adjusted = 1 - (1 - ranked) ** torch.arange(len(p), 0, -1)
    return torch.empty_like(p).scatter(0, order, adjusted.cummax(0).values)


@exercise(
    "10d",
    {
        "that is Bonferroni's: only the smallest is multiplied by R, the next by R - 1": [
            lambda p: (p * len(p)).clamp(max=1),
            lambda p: p * len(p),
        ],
        "a larger p must not end up below a smaller one: the running maximum is missing": [
            _adjusted(running=lambda x: x),
            _adjusted(running=lambda x: x, most=math.inf),
        ],
        "a probability is at most 1": _adjusted(most=math.inf),
        "that is in sorted order: put them back into the order in which they came": (
            lambda p: _adjusted()(p.sort().values)
        ),
        "it goes back the wrong way: the k-th of the sorted belongs at place order[k]": (
            lambda p: _adjusted()(p.sort().values)[p.argsort()]
        ),
        "the smallest gets the largest factor: R, then R - 1": _adjusted(lambda place, R: place + 1),
        "it begins with the largest: sort ascending": _adjusted(descending=True),
        "it does not sort: the factors go by size, not by order": [
            lambda p: (p * torch.arange(len(p), 0, -1)).cummax(0).values.clamp(max=1),
            lambda p: (p * torch.arange(len(p), 0, -1)).clamp(max=1),
        ],
        "the first factor is R, not R - 1": _adjusted(lambda place, R: R - 1 - place),
        "that is Benjamini and Hochberg's, which bounds the SHARE of false claims: Holm bounds the chance of any": (
            _adjusted(lambda place, R: R / (place + 1), _from_above)
        ),
        "a running minimum from above is Hochberg's, which asks more of the data: Holm runs a maximum from below": (
            _adjusted(running=_from_above)
        ),
        "that is Šidák's power, which needs independent changes: Holm multiplies": _by_powers,
        "those are the thresholds or the decisions: adjusted p-values are asked for": [
            lambda p: p <= 0.05,
            lambda p: _adjusted()(p) <= 0.05,
            lambda p: _adjusted()(p) < 0.05,
            lambda p: torch.empty_like(p).scatter(0, p.argsort(), 0.05 / torch.arange(len(p), 0, -1)),
        ],
        "nothing is adjusted": lambda p: p,
    },
)
def holm(answer: Answer) -> Pairs:
    """answer(p (R,)) -> the same adjusted (R,) for R claims at once."""
    some = (
        [0.03, 0.001, 0.04, 0.02],
        [0.9, 0.012, 0.3, 0.011, 0.0004, 0.6],
        [0.02, 0.02, 0.5, 0.02],
        [0.2],
        [0.7, 0.04],
    )
    for p in (*map(torch.tensor, some), torch.rand(9) ** 3):
        yield answer(p), _adjusted()(p.double())


def _rate(of: Callable[[Tensor], Tensor], nan: float = math.inf) -> Answer:
    """The rate with the lowest value of its losses, in which NaN has become `nan`."""

    def value(runs: Tensor) -> float:
        return of(torch.where(runs.isnan(), nan, runs)).item()

    return lambda losses: min(losses, key=lambda rate: value(losses[rate]))


def _luckiest(losses: dict[float, Tensor]) -> float | None:
    best, lowest = None, math.inf
    for rate, runs in losses.items():
        if runs.min() < lowest:
            best, lowest = rate, runs.min()
    return best


@exercise(
    "10e",
    {
        "one lucky run still decides: take the mean of a rate's runs": [
            _rate(torch.min),
            lambda losses: min(losses, key=lambda rate: losses[rate].min()),
        ],
        "a rate that diverged wins, since no number is smaller than NaN: it counts as infinitely bad": [
            lambda losses: min(losses, key=lambda rate: losses[rate].mean()),
            lambda losses: list(losses)[torch.stack([runs.mean() for runs in losses.values()]).argmin()],
        ],
        "runs that diverged are left out, as if they had not been: such a rate is infinitely bad": _rate(
            torch.nanmean, math.nan
        ),
        "NaN has become 0, the best loss of all: it counts as infinitely bad": _rate(torch.mean, 0.0),
        "it takes the HIGHEST mean: a low loss is good": _rate(lambda runs: -runs.mean()),
        "that is a sum: a rate with more seeds has more to add up, so take the mean": _rate(torch.sum),
        "it looks at the worst run only: that is bad luck instead of good": _rate(torch.max),
        "that is the median, to which a failed run is like any other: take the mean": [
            _rate(torch.median),
            _rate(lambda runs: runs.quantile(0.5)),
        ],
        "it looks at one seed only: take the mean of all": [_rate(lambda runs: runs[0]), _rate(lambda runs: runs[-1])],
        "that is the loss: its rate is asked for": (
            lambda losses: torch.stack([*map(torch.mean, losses.values())]).nan_to_num(math.inf).min()
        ),
        "that is the rate's place in the dictionary: the rate itself is asked for": (
            lambda losses: torch.stack([*map(torch.mean, losses.values())]).nan_to_num(math.inf).argmin()
        ),
    },
    broken=("the more seeds it gets, the worse it chooses. How many of a rate's runs have a say?", _luckiest),
)
def rate(answer: Answer) -> Pairs:
    """answer(losses: rate -> losses (S,)) -> the rate whose mean is lowest."""
    nan = math.nan
    for losses in (
        {0.01: [2.5, 2.5, 2.6], 0.03: [2.3, 2.4, 2.2], 0.1: [1.9, 3.1, 2.9]},
        {0.1: [nan, 1.5, 1.6], 0.03: [2.0, 2.1, 2.2, 2.1], 0.01: [2.3, 2.3], 0.3: [nan, nan]},
        {0.003: [2.4, 2.41, 2.4], 0.03: [2.2, 2.0, 2.5], 0.1: [1.7, nan, 1.8], 0.3: [math.inf, 1.6, 3.0]},
        {0.02: [2.0, 2.0, 3.0], 0.05: [2.1, 2.2, 2.1]},
        {0.3: [nan, 2.5], 0.1: [2.0, 2.1]},
        {0.5: [2.0]},
    ):
        seeds = {rate: torch.tensor(runs) for rate, runs in losses.items()}
        yield answer(seeds), _rate(torch.mean)(seeds)
    many = {rate: 2 + 0.1 * place + 0.3 * place * randn(40) for place, rate in enumerate((0.01, 0.02, 0.04, 0.08))}
    yield answer(many), _rate(torch.mean)(many)
