"""The exercises of notebook 04: the causal mask."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, randn

from exercises.formula import far_below_zero, near_zero
from exercises.graders import building, layers
from exercises.graders.causality import (
    CAUSAL,
    LEAKING,
    changed_at,
    changed_future,
    derivatives_vanish,
    outputs_at,
)
from exercises.graders.stages import then
from exercises.judge import Answer, Pairs, built, exercise
from exercises.mistakes import FAR_BELOW_ZERO, FORMULA, finite
from exercises.variants import (
    masked_softmax,
    plain_attention,
    root_of_width,
    shifted,
    transposed,
    unchanged,
)
from helpers.attention import attention, causal_mask


def _unasked(mask_of: Callable[[Any], Any]) -> Answer:
    """Attention that doesn't ask first whether there is a mask."""

    def variant(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = query @ key.mT / root_of_width(query, key, value)
        weights = scores.masked_fill(mask_of(mask), -math.inf).softmax(-1)
        return weights @ value, weights

    return variant


def _truth(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    return plain_attention(query, key, value, mask if mask else None)


def _returning(asked_for: Callable[[tuple[Tensor, Tensor]], Any]) -> Answer:
    return lambda query, key, value, mask=None: asked_for(plain_attention(query, key, value, mask))


@exercise(
    "4a",
    {
        "mask=None means that everything is allowed: ask `if mask is not None` before you use it": [
            _unasked(lambda mask: ~mask),
            _unasked(lambda mask: mask.logical_not()),
            _unasked(lambda mask: mask == 0),
        ],
        "a whole table is neither true nor false: ask `if mask is not None`, not `if mask`": _truth,
        "the weights are missing: return both, (context, weights)": _returning(lambda both: both[0]),
        "the context is missing: return both, (context, weights)": _returning(lambda both: both[1]),
        "context and weights are exchanged: the context comes first": _returning(lambda both: both[::-1]),
    }
    | FORMULA
    | FAR_BELOW_ZERO
    | finite(-(10.0**size) for size in (0, 1, 3, 4, 5, 6, 8, 9, 10, 12, 15, 20, 30)),
)
def masked_attention(answer: Answer) -> Pairs:
    """answer(query (..., T, D), key (..., S, D), value (..., S, E), mask=None) -> context (..., T, E), weights.

    The mask is boolean, True where attention is allowed, and broadcasts to (..., T, S). No row of it is empty.
    """
    yield from then(near_zero(answer), _far_and_broadcast(answer))


def _far_and_broadcast(answer: Answer) -> Pairs:
    """Scores far below 0 in single precision, no fourth input at all, and masks for each text, or for keys alone."""
    yield from far_below_zero(answer, (1e3, 1e6, 1e17))
    query, key, value = randn(2, 3, 4, 5), randn(2, 3, 6, 5), randn(2, 3, 6, 2)
    yield answer(query, key, value), attention(query, key, value)
    for shape in ((2, 1, 4, 6), (2, 3, 4, 6), (2, 1, 1, 6), (1, 6)):
        mask = torch.rand(shape) < 0.5
        mask[..., 1] = True  # no row is empty
        yield answer(query, key, value, mask), attention(query, key, value, mask)


def _seen(rule: Callable[[Tensor, Tensor, int], Tensor]) -> Answer:
    """The mask by a rule for query t, key s and the window."""
    return lambda T, window: rule(torch.arange(T)[:, None], torch.arange(T), window)


@exercise(
    "4b",
    {
        "that is the whole past: keys before t - window + 1 are too far away": _seen(lambda t, s, w: s <= t),
        "True and False are exchanged: True means that t may see s": _seen(lambda t, s, w: (s > t) | (s <= t - w)),
        "the window is one too wide: t itself counts, too": _seen(lambda t, s, w: (s <= t) & (s >= t - w)),
        "the window is one too narrow: t - window < s, and t itself belongs to it": [
            _seen(lambda t, s, w: (s <= t) & (s > t - w + 1)),
            _seen(lambda t, s, w: (s < t) & (s > t - w)),
        ],
        "t does not see itself": _seen(lambda t, s, w: (s < t) & (s >= t - w)),
        "it looks ahead: rows are queries, and s may not be above t": [
            _seen(lambda t, s, w: (s >= t) & (s < t + w)),
            _seen(lambda t, s, w: (s >= t) & (s <= t + w)),
        ],
        "it looks both ways: s may not be above t": [
            _seen(lambda t, s, w: (s - t).abs() < w),
            _seen(lambda t, s, w: (s - t).abs() <= w),
        ],
        "it sees what is too far away, and nothing else": _seen(lambda t, s, w: s <= t - w),
        "it cuts the text into blocks: the window moves along with t": _seen(
            lambda t, s, w: (s <= t) & (s // w == t // w)
        ),
        "those are numbers to add to the scores: a mask says True where attention is allowed": _seen(
            lambda t, s, w: torch.where((s <= t) & (s > t - w), 0.0, -torch.inf)
        ),
        "it always sees the first `window` keys: the window moves along with t": _seen(
            lambda t, s, w: (s <= t) & (s < w)
        ),
    },
)
def window_mask(answer: Answer) -> Pairs:
    """answer(T, window) -> Bool (T, T): True where query t may see key s, that is t - window < s <= t."""
    for T, window in ((5, 2), (6, 3), (4, 1), (3, 9), (1, 1), (1, 3), (7, 7), (9, 4)):
        yield answer(T, window), _seen(lambda t, s, w: (s <= t) & (s > t - w))(T, window)


@exercise(
    "4c",
    {
        "True is not always right: some of these functions look ahead": lambda function, x: True,
        "False is not always right: some of these functions are causal": lambda function, x: False,
        "True and False are exchanged": lambda function, x: function.__doc__ in LEAKING,
        "only the last token was changed: a leak may come from any later token": [
            changed_at(-1, slice(0, -1)),
            changed_at(-1, slice(0, -1), 1.0),
            changed_at(-1, slice(0, -1), 100.0),
        ],
        "only the first output was looked at: any output may leak": outputs_at(lambda t: slice(0, 1)),
        "it looks at output t + 1 too, whose own input was changed: compare outputs 0 to t": (
            outputs_at(lambda t: slice(0, t + 2))
        ),
        "it compares all outputs: those after t may change, since their inputs did": outputs_at(lambda t: slice(None)),
        "it changes the past and looks at later outputs: those may change": changed_at(0, slice(1, None)),
        "the same number was added to the whole future: some leaks see only differences": [
            changed_future(lambda x: x + 1),
            changed_future(lambda x: x + 10),
            changed_future(lambda x: x + 100),
        ],
        "only the order of the future was changed: some leaks see only its sum": [
            changed_future(lambda x: x.flip(0)),
            changed_future(lambda x: x.roll(1, 0)),
        ],
        "only the signs of the future were changed: some leaks see only absolute values": changed_future(lambda x: -x),
        "the future was only stretched: some leaks see only signs or directions": [
            changed_future(lambda x: 2 * x),
            changed_future(lambda x: 10 * x),
        ],
        "small changes were let pass: a leak may be small, compare exactly": [
            changed_future(lambda x: 3 * randn(x.shape), lambda a, b: torch.allclose(a, b, atol=1e-1)),
            changed_future(lambda x: 3 * randn(x.shape), lambda a, b: torch.allclose(a, b, atol=1e-2)),
        ],
        "only sums were compared: a leak may add up to nothing": (
            changed_future(lambda x: 3 * randn(x.shape), lambda a, b: torch.allclose(a.sum(-1), b.sum(-1)))
        ),
        "it sees no jumps: signs and rounded numbers answer only to large changes, and their derivatives are 0": [
            derivatives_vanish,
            changed_future(lambda x: x + 1e-3 * randn(x.shape)),
            changed_future(lambda x: x + 1e-2 * randn(x.shape)),
        ],
    },
)
def is_causal(answer: Answer) -> Pairs:
    """answer(function (T, C) -> (T, D), x (T, C)) -> does no output depend on a later input?"""
    for T, C in ((6, 3), (4, 5)):
        # Large numbers come late, where a leak of them shows; a shift of all numbers leaves no rounding errors.
        x = (64 * torch.arange(1, T + 1)[:, None] * randn(T, C)).round() / 64
        for function in (CAUSAL | LEAKING).values():
            yield answer(function, x), function.__doc__ in CAUSAL


@exercise(
    "4d",
    {
        "that is half of all: the diagonal, 1,000 scores, is allowed as a whole": 500_000,
        "the diagonal is missing: every token may look at itself": 499_500,
        "those are all scores: the future is hidden": 1_000_000,
        "that is the diagonal alone: a token may look at the past, too": [1_000, 999],
        "only the diagonal is hidden in that count": 999_000,
        "token t sees t tokens when the first is number 1: the last sees 1,000, not 1,001": 501_501,
        "those are three quarters: the triangle is about half of the square": 750_000,
        "that is the sum without its half: 1 + 2 + … + T is T (T + 1) / 2": [1_001_000, 1_001],
    },
)
def count(answer: Answer) -> Pairs:
    """answer = how many of the scores of 1,000 tokens a causal mask lets through."""
    yield answer, 500_500, 0.1


def _broken_causal_weights(scores: Tensor) -> Tensor:
    future = torch.ones_like(scores).triu().bool()
    return scores.masked_fill(future, float("-inf")).softmax(dim=-1)


def _weights(mask_of: Callable[[Tensor], Tensor] = unchanged, fill: float = -math.inf, dim: int = -1) -> Answer:
    """Causal weights with another mask, value of forbidden scores or axis of the softmax."""
    return lambda scores: masked_softmax(scores, mask_of(causal_mask(len(scores))), fill, dim)


def _first_row_alone(scores: Tensor) -> Tensor:
    weights = _broken_causal_weights(scores)
    weights[0] = torch.eye(len(scores))[0]
    return weights


@exercise(
    "4e",
    {
        "the future still gets weight: nothing is hidden": lambda scores: scores.softmax(dim=-1),
        "forbidden scores are set to 0, and 0 still gets weight: they must be -inf": [
            _weights(fill=0.0),
            lambda scores: scores.tril().softmax(dim=-1),
        ],
        "forbidden scores are set to a number, below which an allowed score may lie: they must be -inf": [
            _weights(fill=-(10.0**size)) for size in (0, 1, 2, 3, 4, 5, 9)
        ],
        "the past is hidden: row t may see the columns up to t": [
            _weights(transposed),
            lambda scores: scores.softmax(dim=-1).triu(),
        ],
        "the NaN are gone, and their cause is not: a token must see itself": [
            lambda scores: _broken_causal_weights(scores).nan_to_num(),
            lambda scores: _broken_causal_weights(scores).nan_to_num(1 / len(scores)),
            lambda scores: _broken_causal_weights(scores).nan_to_num(1.0),
        ],
        "only the first row is repaired: EVERY token must see itself": _first_row_alone,
        "the diagonal goes the wrong way, and hides the word before, too: triu(diagonal=1) begins above it": (
            _weights(shifted(-2))
        ),
        "it looks one token ahead": _weights(shifted(1)),
        "the mask comes after the softmax: what is left of a row no longer adds up to 1": [
            lambda scores: scores.softmax(-1).tril(),
            lambda scores: scores.softmax(-1).tril(-1),
        ],
        "the softmax runs down the columns: each row should add up to 1": _weights(dim=0),
        "it divides by the sums of the columns: each row should add up to 1": (
            lambda scores: scores.softmax(-1).tril() / scores.softmax(-1).tril().sum(0)
        ),
        "it divides by the sum of the whole table: each row has its own": (
            lambda scores: scores.softmax(-1).tril() / scores.softmax(-1).tril().sum()
        ),
        "row t is divided by the sum of another row: keep the sums as a column (keepdim=True)": (
            lambda scores: scores.softmax(-1).tril() / scores.softmax(-1).tril().sum(-1)
        ),
        "a second softmax gives the zeros weight again: divide each row by its sum": [
            lambda scores: scores.softmax(-1).tril().softmax(-1),
            lambda scores: scores.softmax(-1).tril().softmax(-1).tril(),
        ],
        "row t is divided by t + 1: divide by what is left of it": (
            lambda scores: scores.softmax(-1).tril() / torch.arange(1, len(scores) + 1)[:, None]
        ),
        "it leaves the weights of each row equal: the scores decide": (
            lambda scores: torch.ones_like(scores).tril() / torch.arange(1, len(scores) + 1)[:, None]
        ),
    },
    broken=("the first row is not a number (NaN). Which scores are left for the first token?", _broken_causal_weights),
)
def causal_weights(answer: Answer) -> Pairs:
    """answer(scores (T, T)) -> weights (T, T), 0 above the diagonal, each row adding up to 1."""
    for T, size, level in (
        (4, 1, 0.0),
        (1, 1, 0.0),
        (2, 1, 0.0),
        (6, 3, 0.0),
        (5, 8, 30.0),
        (3, 2, -1e3),
        (4, 2, -1e6),
        (3, 0, -1e10),
    ):
        scores = (size * randn(T, T)).round() + level if level else size * randn(T, T)
        yield answer(scores), masked_softmax(scores.double(), causal_mask(T))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


@exercise(
    "4f",
    {
        "the lead is forgotten: the number is ADDED to the forbidden score, which keeps its lead": (
            lambda lead, fill: _sigmoid(fill)
        ),
        "the number is forgotten: it is added to the forbidden score": lambda lead, fill: _sigmoid(lead),
        "that is the other weight, of the allowed score": lambda lead, fill: _sigmoid(-lead - fill),
        "the number is added, not taken away": lambda lead, fill: _sigmoid(lead - fill),
        "the forbidden score is AHEAD by `lead`: that sign is wrong": lambda lead, fill: _sigmoid(fill - lead),
        "that is the ratio of the two weights: divide by their sum": (
            lambda lead, fill: math.exp(min(lead + fill, 700))
        ),
        "something still leaks: the number is finite": lambda lead, fill: 0.0,
        "that is the difference of the scores: the weight is its sigmoid": lambda lead, fill: lead + fill,
        "it counts the row's scores as equals before the number is added": [
            lambda lead, fill: math.exp(min(lead + fill, 700)) / 2,
            lambda lead, fill: _sigmoid(lead) * math.exp(fill) if fill > -700 else 0.0,
        ],
        "shares are of exponentials, not of scores": (
            lambda lead, fill: (lead + fill) / (1 + lead + fill) if lead + fill != -1 else 0.0
        ),
    },
)
def leak(answer: Answer) -> Pairs:
    """answer(lead, fill) -> the weight of a forbidden score, `lead` above the one allowed score, plus `fill`."""
    for lead, fill in ((0.0, -10.0), (5.0, -10.0), (20.0, -10.0), (3.0, -3.0), (-2.0, -1.0), (2.5, -1.5), (1, -1.5),
                       (10_040.0, -10_000.0), (9_999.0, -10_000.0), (0.0, -80.0), (0.0, 0.0)):  # fmt: skip
        yield answer(lead, fill), _sigmoid(lead + fill), 1e-6


@built("4g", "a class")
def causal_attention(MyCausalAttention: Answer) -> None:
    """MyCausalAttention(C, D): x (B, T, C) -> contexts (B, T, D), and no output depends on what comes later."""
    for C, D, B, T in ((3, 7, 2, 4), (5, 5, 3, 6), (6, 1, 1, 2)):
        building.reading(building.made(MyCausalAttention, C=C, D=D), D)(building.words(B, T, C))
    for C, D in ((6, 3), (4, 8)):
        module = building.sound(MyCausalAttention, building.words(3, 5, C), D, C=C, D=D)
        layers.causal_attention(module, C, D)
