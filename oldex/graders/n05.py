"""The exercises of notebook 05: dropout."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn, rand, randn

from exercises.graders import building
from exercises.judge import Answer, Pairs, built, exercise
from exercises.variants import CAUSAL_MISTAKES, attention_with, masked_softmax, unchanged
from helpers.attention import attention, causal_mask
from helpers.errors import CheckError


def _dropped(x: Tensor, keep: Tensor, p: float) -> Tensor:
    return x * keep / (1 - p)


def _shared_anew(x: Tensor, keep: Tensor, p: float) -> Tensor:
    """Each row divided by what is left of it, which is not right on average either."""
    left = x * keep
    return left / left.sum(dim=-1, keepdim=True)


@exercise(
    "5a",
    {
        "what is kept must stand for what is lost: divide it by 1 - p": lambda x, keep, p: x * keep,
        "p is the share that is lost: divide by the share that is kept, 1 - p": lambda x, keep, p: x * keep / p,
        "it multiplies by 1 - p: what is kept grows": lambda x, keep, p: x * keep * (1 - p),
        "True and False are exchanged: keep is True where x stays": [
            lambda x, keep, p: x * ~keep / (1 - p),
            lambda x, keep, p: x * ~keep,
            lambda x, keep, p: x * ~keep / p,
        ],
        "nothing is dropped": [lambda x, keep, p: x, lambda x, keep, p: x / (1 - p), lambda x, keep, p: x * (1 - p)],
        "what is dropped stays as it is: it becomes 0": lambda x, keep, p: torch.where(keep, x / (1 - p), x),
        "what is dropped becomes minus infinity: that is for scores, here it is 0": (
            lambda x, keep, p: torch.where(keep, x / (1 - p), -torch.inf)
        ),
        "it draws numbers of its own: keep is the draw": [
            lambda x, keep, p: F.dropout(x, p),
            lambda x, keep, p: x * (torch.rand_like(x) >= p) / (1 - p),
            lambda x, keep, p: x * (torch.rand_like(x) > p) / (1 - p),
        ],
        "it divides by the share that this draw happened to keep: divide by 1 - p, whatever the draw": [
            lambda x, keep, p: x * keep / keep.float().mean(),
            lambda x, keep, p: x * keep / keep.float().mean(dim=-1, keepdim=True),
        ],
        "it shares what is left anew: that is no longer right on average": _shared_anew,
    },
)
def dropout(answer: Answer) -> Pairs:
    """answer(x, keep, p) -> x where keep is True, scaled, and 0 elsewhere; any shape."""
    for shape, p in (((4, 5), 0.5), ((6,), 0.1), ((2, 3, 3), 0.9), ((3, 3), 0.0), ((1, 2), 0.25)):
        x, keep = randn(shape), rand(shape) >= p
        yield answer(x, keep, p), _dropped(x.double(), keep, p)


@exercise(
    "5b",
    {
        "that is the chance of the last word alone: add up over the words": lambda T, p: p**T,
        "the words have different numbers of weights: word t has t": [lambda T, p: T * p**T, lambda T, p: T * p],
        "word t is counted from 1: the first has one weight, the last has T": [
            lambda T, p: sum(p**t for t in range(T)),
            lambda T, p: sum(p**t for t in range(1, T)),
            lambda T, p: sum(p**t for t in range(2, T + 2)),
        ],
        "those are the words that keep ALL their weights: p is the chance to lose one": (
            lambda T, p: sum((1 - p) ** t for t in range(1, T + 1))
        ),
        "those are the words that keep something": lambda T, p: T - sum(p**t for t in range(1, T + 1)),
        "those are the words that lose something": lambda T, p: T - sum((1 - p) ** t for t in range(1, T + 1)),
        "that is the chance that ALL words lose everything": lambda T, p: p ** (T * (T + 1) / 2),
        "that is the chance that at least one word does: how many do, on average?": (
            lambda T, p: 1 - math.prod(1 - p**t for t in range(1, T + 1))
        ),
        "those are the weights that are lost: a word must lose all of its own": lambda T, p: p * T * (T + 1) / 2,
        "a word loses all of its weights together only if each is lost: multiply, don't add": (
            lambda T, p: sum(min(1.0, p * t) for t in range(1, T + 1))
        ),
        "that is the share of the words: how many of them?": lambda T, p: sum(p**t for t in range(1, T + 1)) / T,
        "that goes on without an end: stop at word T": lambda T, p: p / (1 - p),
    },
)
def lost_words(answer: Answer) -> Pairs:
    """answer(T, p) -> the expected number of words, of T, whose weights are all dropped."""
    for T, p in ((6, 0.5), (1, 0.2), (64, 0.1), (3, 0.9), (5, 0.0), (200, 0.97)):
        yield answer(T, p), sum(p**t for t in range(1, T + 1))


Drop = Callable[[Tensor, Tensor, float], Tensor]


def _attending(on_weights: Drop = _dropped, **parts: Any) -> Answer:
    """Batched causal attention with one part replaced. `on_scores` and `on_weights` drop, as `_dropped` does."""
    attend = attention_with(on_weights=on_weights, **parts)

    def variant(query: Tensor, key: Tensor, value: Tensor, keep: Tensor, p: float) -> Tensor:
        context, _ = attend(query, key, value, causal_mask(query.shape[1]), keep, p)
        return context

    return variant


def _masked_late(query: Tensor, key: Tensor, value: Tensor, keep: Tensor, p: float) -> Tensor:
    return _dropped((query @ key.mT / query.shape[-1] ** 0.5).softmax(-1).tril(), keep, p) @ value


@exercise(
    "5c",
    {
        **{sentence: [_attending(**part) for part in parts] for sentence, parts in CAUSAL_MISTAKES.items()},
        "the mask comes after the softmax, which has already given weight away to the future": _masked_late,
        "the scores are divided by √T: D is the last dimension": _attending(
            scale=lambda query, key, value: query.shape[1] ** 0.5
        ),
        "the softmax runs over the queries: in a batch the keys are dimension -1": _attending(dim=1),
        "the softmax runs over the batch: the keys are dimension -1": _attending(dim=0),
        "dropout comes before the softmax: a dropped score is 0, and 0 still gets weight": [
            _attending(on_scores=_dropped, on_weights=unchanged),
            _attending(on_scores=lambda scores, keep, p: scores * keep, on_weights=unchanged),
        ],
        "it drops scores by minus infinity: the softmax shares what is left anew": _attending(
            on_scores=lambda scores, keep, p: scores.masked_fill(~keep, -torch.inf), on_weights=unchanged
        ),
        "nothing is dropped": _attending(on_weights=unchanged),
        "what is kept is not divided by 1 - p": _attending(on_weights=lambda weights, keep, p: weights * keep),
        "what is kept is divided by p: divide by the share that is kept, 1 - p": (
            _attending(on_weights=lambda weights, keep, p: weights * keep / p)
        ),
        "True and False are exchanged: keep is True where a weight stays": _attending(
            on_weights=lambda weights, keep, p: weights * ~keep / (1 - p)
        ),
        "each row is divided by what is left of it: that is no longer right on average": [
            _attending(on_weights=_shared_anew),
            _attending(on_weights=lambda weights, keep, p: _shared_anew(weights, keep, p).nan_to_num()),
        ],
        "it draws numbers of its own: keep is the draw": _attending(
            on_weights=lambda weights, keep, p: F.dropout(weights, p)
        ),
        "those are the weights: they still have to mix the values": (
            lambda query, key, value, keep, p: _dropped(
                attention(query, key, value, causal_mask(query.shape[1]))[1], keep, p
            )
        ),
    },
)
def causal_attention(answer: Answer) -> Pairs:
    """answer(query, key, value (B, T, D), keep (B, T, T), p) -> context (B, T, D)."""
    for B, T, D, p, size in ((2, 5, 4, 0.5, 1), (3, 3, 9, 0.25, 1), (1, 4, 4, 0.1, 1), (2, 1, 3, 0.5, 1),
                             (3, 4, 2, 0.0, 1), (2, 4, 4, 0.2, 1e6)):  # fmt: skip
        (query, key, value), keep = randn(3, B, T, D), rand(B, T, T) >= p
        if size > 1:  # scores far below 0, where a mask that is a number shows
            query, key = -size * query.abs(), size * key.abs()
        _, weights = attention(query.double(), key.double(), value.double(), causal_mask(T))
        inputs = (query.clone(), key.clone(), value.clone(), keep, p)
        yield answer(*inputs), _dropped(weights, keep, p) @ value.double()


@exercise(
    "5d",
    {
        "2 is right before ReLU bends it: some draws are negative, and ReLU cuts them off one by one": 2,
        "what is kept is divided by 1 - p: 5 becomes 10, and -3 becomes -6": 1.75,
        "ReLU takes the SUM of the two, and makes a negative sum 0: a kept -6 pulls a kept 10 down": 5,
        "there are four draws, equally likely: those that give 0 count, too": [7, 14 / 3],
        "that is what the four draws add up to: divide by four": 14,
        "that is one draw of four: average them all": [4, 10],
        "each number is dropped by itself: two of the four draws keep only one of them": [0, 8],
    },
)
def average(answer: Answer) -> Pairs:
    """answer = the average of relu(a + b) over the draws of dropout at 1/2, for a = 5 and b = -3."""
    yield answer, 3.5, 0.01


def _broken_weights(scores: Tensor, keep: Tensor, p: float, training: bool) -> Tensor:
    future = torch.ones_like(scores).triu(diagonal=1) > 0
    if training:
        scores = scores * keep / (1 - p)
    return scores.masked_fill(future, -torch.inf).softmax(dim=-1)


def _layer(train: Drop = _dropped, evaluate: Drop = unchanged, early: Drop = unchanged, fill: float = -torch.inf
           ) -> Answer:  # fmt: skip
    """Causal weights, with what happens to them in training and in evaluation."""

    def variant(scores: Tensor, keep: Tensor, p: float, training: bool) -> Tensor:
        scores = early(scores, keep, p) if training else scores
        weights = masked_softmax(scores, causal_mask(len(scores)), fill)
        return (train if training else evaluate)(weights, keep, p)

    return variant


@exercise(
    "5e",
    {
        "it still drops before the softmax, and without 1 / (1 - p), too: a dropped score is 0, not a weight of 0": (
            _layer(unchanged, early=lambda scores, keep, p: scores * keep)
        ),
        "it drops twice: the dropout before the softmax has to go": [
            _layer(early=_dropped),
            _layer(early=lambda scores, keep, p: scores * keep),
        ],
        "the softmax, or a division, shares what is left anew: that is no longer right on average": [
            _layer(_shared_anew),
            _layer(lambda weights, keep, p: _shared_anew(weights, keep, p).nan_to_num()),
            _layer(unchanged, early=lambda scores, keep, p: scores.masked_fill(~keep, -torch.inf) / (1 - p)),
        ],
        "what is kept is not divided by 1 - p": _layer(lambda weights, keep, p: weights * keep),
        "what is kept is not divided by 1 - p; scaling down in evaluation instead is the older way, not asked for": (
            _layer(lambda weights, keep, p: weights * keep, lambda weights, keep, p: weights * (1 - p))
        ),
        "what is kept is divided by p: divide by the share that is kept, 1 - p": _layer(
            lambda weights, keep, p: weights * keep / p
        ),
        "dropout is on in evaluation, too": _layer(evaluate=_dropped),
        "in evaluation nothing is dropped, so nothing is scaled": [
            _layer(evaluate=lambda weights, keep, p: weights / (1 - p)),
            _layer(evaluate=lambda weights, keep, p: weights * (1 - p)),
        ],
        "training and evaluation are exchanged": _layer(unchanged, _dropped),
        "nothing is dropped any more": _layer(unchanged),
        "True and False are exchanged: keep is True where a weight stays": _layer(
            lambda weights, keep, p: weights * ~keep / (1 - p)
        ),
        "the mask has gone: the future must stay hidden": (
            lambda scores, keep, p, training: _dropped(scores.softmax(-1), keep, p) if training else scores.softmax(-1)
        ),
        "a second softmax gives what was dropped weight again": _layer(
            lambda weights, keep, p: _dropped(weights, keep, p).softmax(-1)
        ),
    },
    broken=("a dropped place still has weight, and the first word never loses anything. What is e to the power 0?",
            _broken_weights),
)  # fmt: skip
def dropped_weights(answer: Answer) -> Pairs:
    """answer(scores (T, T), keep (T, T), p, training) -> causal weights (T, T), dropped in training only."""
    for T, p, training in ((4, 0.5, True), (4, 0.5, False), (6, 0.2, True), (1, 0.75, True), (3, 0.9, False),
                           (7, 0.75, True), (2, 0.0, True)):  # fmt: skip
        scores, keep = 2 * randn(T, T), rand(T, T) >= p
        weights = masked_softmax(scores.double(), causal_mask(T))
        yield answer(scores, keep, p, training), _dropped(weights, keep, p) if training else weights


@built("5f", "a class")
def dropping(MyDropout: Answer) -> None:
    """MyDropout(p): in training each number of x is 0 with probability p, or divided by 1 - p; else x is as it is."""
    for p in (0.2, 0.7):
        layer = building.made(MyDropout, p=p).train()
        for shape in ((5,), (2, 3, 4)):
            building.given(layer, building.words(*shape), shape)
        _of_training(layer, p)
        _of_evaluation(layer)
    x = building.words(3, 4)
    if not torch.equal(building.given(building.made(MyDropout, p=0.0).train(), x, x.shape), x):
        raise CheckError("with p=0 nothing is dropped, and x should come back as it is")


def _of_training(layer: nn.Module, p: float) -> None:
    x = building.words(20, 16, 200).requires_grad_()
    y = building.given(layer, x, x.shape)
    dropped = y == 0
    if not dropped.any():
        raise CheckError("in training no number becomes 0")
    if dropped.all():
        raise CheckError(f"with p={p:g} all numbers become 0")
    again = building.given(layer, x, x.shape) == 0
    if torch.equal(dropped, again):
        raise CheckError("two calls drop the same numbers: draw anew at each call")
    share = dropped.float().mean().item()
    together = ("all texts of a batch lose the same", "all words of a text lose the same", "whole words are dropped")
    for dim, sentence in enumerate(together):
        if (dropped == dropped.narrow(dim, 0, 1)).all():
            raise CheckError(f"{sentence}: draw one number for every number of x")
    for dim in range(3):
        first, second = dropped.unflatten(dim, (-1, 2)).unbind(dim + 1)
        alike = (first == second).float().mean().item()
        if _is_no_luck(alike, share**2 + (1 - share) ** 2, first.numel()):
            raise CheckError("numbers aren't dropped independently: draw one number for every number of x")
    if _is_no_luck(share, p, dropped.numel()):
        why = "" if _is_no_luck(share, 1 - p, dropped.numel()) else ": that is what should be kept"
        raise CheckError(f"with p={p:g} a share of {share:.3f} is dropped{why}")
    factor = (y / x)[~dropped].detach()
    right = 1 / (1 - p)
    if (factor - right).abs().max() > 1e-4:
        if (factor - 1).abs().max() < 1e-4:
            raise CheckError("what is kept stays as it is: divided by 1 - p, x is right on average")
        if factor.max() - factor.min() < 1e-4:
            raise CheckError(f"with p={p:g} what is kept is multiplied by {factor[0]:.3f}, and not by {right:.3f}")
        raise CheckError("a number is neither kept nor dropped: it is 0, or divided by 1 - p, and nothing in between")
    if not y.requires_grad:
        raise CheckError("no gradient comes back through it: is it computed under no_grad, or from .data or detach()?")
    y.sum().backward()
    if (x.grad - right * ~dropped).abs().max() > 1e-4:
        raise CheckError("the gradient should pass as x does: times 1 / (1 - p), and not where it is dropped")


def _is_no_luck(share: float, probability: float, draws: int) -> bool:
    """Is a share more than five standard deviations away from its probability?"""
    return abs(share - probability) > 5 * (probability * (1 - probability) / draws) ** 0.5


def _of_evaluation(layer: nn.Module) -> None:
    nn.Sequential(layer).eval()  # as a GPT tells its parts
    x = building.words(30, 20)
    before = torch.get_rng_state()
    if not torch.equal(building.given(layer, x, x.shape), x):
        raise CheckError("in evaluation x should come back as it is: self.training tells")
    if not torch.equal(before, torch.get_rng_state()):
        raise CheckError("in evaluation it draws random numbers, too: there is no need")
