"""The check of the attention formula: a candidate is tried on many inputs, and a known mistake is named."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from exercises import judge, mistakes
from exercises.compare import Near
from exercises.judge import Answer, Given, Pairs, Question
from helpers.attention import attention, causal_mask

SINGLE = Near(1e-5, 1e-6)
DOUBLE = Near(1e-11, 1e-12)


class Inputs(NamedTuple):
    """The inputs of one call."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None


@torch.no_grad()
def check_attention(candidate: Callable) -> None:
    """CheckError unless `candidate(query, key, value, mask)` gives attention's context and weights.

    Tried on random float64 inputs with head widths 1, 3, 4, 7 and 16; (B, T, D) and, with heads, (B, H, T, D); one
    text and two; as many keys as queries, more and fewer; without a mask, with a causal one and with masks that are
    not; then on scores down to -1e200 and with an empty row, where a finite mask value shows. The inputs must stay as
    they are. Single precision inside is fine. A known mistake is named.
    """
    judge.refuse("attention", Question(near_zero, mistakes.FORMULA), candidate)
    in_double = judge.is_right(functools.partial(near_zero, near=DOUBLE), candidate)
    sizes = (1e3, 1e6, 1e20, 1e100) if in_double else (1e3, 1e6, 1e17)  # below any finite mask value
    extremes = functools.partial(_extremes, sizes=sizes)
    judge.refuse("attention", Question(extremes, mistakes.FAR_BELOW_ZERO), candidate)


# ---------------------------------------------------------------- the graders
def near_zero(answer: Answer, near: Near = SINGLE) -> Pairs:
    """Several head widths, heads, one text and two, more keys than queries, fewer, and masks."""
    for inputs in _random_inputs():
        given = answer(*inputs)
        if inputs.mask is not None:
            yield _leak(given, inputs.mask), None
        yield given, attention(*inputs), near


def far_below_zero(answer: Answer, sizes: Sequence[float]) -> Pairs:
    """Scores that are as far below 0 as their squares say."""
    query, key, value, _ = _random_inputs()[1]
    mask = causal_mask(5)
    for size in sizes:
        low = (-size * query.abs(), size * key.abs(), value, mask)
        given = answer(*low)
        yield _leak(given, mask), None
        yield given, attention(*low), SINGLE


def _extremes(answer: Answer, sizes: Sequence[float]) -> Pairs:
    yield from far_below_zero(answer, sizes)
    query, key, value, _ = _random_inputs()[1]
    an_empty_row = causal_mask(5)
    an_empty_row[2] = False
    # NaN, as the formula has it, and 0, as PyTorch chose, are both fine.
    yield _leak(answer(query, key, value, an_empty_row), an_empty_row), None


def _leak(given: Given, mask: Tensor) -> Given:
    """The same call, judged for one thing: a forbidden key gets no weight at all, however little."""
    if given.value is ...:
        return given
    fault = mistakes.LEAK if _shows_forbidden(given.value, mask) else given.fault
    return dataclasses.replace(given, value=None, fault=fault)


def _shows_forbidden(value: Any, mask: Tensor) -> bool:
    match value:
        case (_, Tensor() as weights) if weights.shape[-2:] == mask.shape:
            return bool((weights.masked_fill(mask, 0) > 0).any())
    return False


def _random_inputs() -> list[Inputs]:
    generator = torch.Generator().manual_seed(0)
    shapes = [  # leading dimensions, queries, keys, head width, width of the values, share that an odd mask allows
        ((2,), 5, 5, 4, 3, None),
        ((2,), 5, 5, 4, 3, 0),  # 0: the causal mask
        ((2,), 6, 6, 3, 2, 0.5),
        ((2,), 3, 5, 4, 3, 0.5),
        ((1,), 4, 7, 3, 5, None),
        ((1,), 5, 5, 1, 2, None),
        ((2, 3), 4, 6, 16, 7, None),
        ((2, 3), 6, 6, 16, 4, 0),
        ((1, 4), 6, 3, 7, 2, 0.5),
    ]
    cases = []
    for leading, T, S, D, D_value, share in shapes:
        query = torch.randn(*leading, T, D, generator=generator, dtype=torch.float64)
        key = torch.randn(*leading, S, D, generator=generator, dtype=torch.float64)
        value = torch.randn(*leading, S, D_value, generator=generator, dtype=torch.float64)
        mask = None
        if share == 0:
            mask = causal_mask(T)
        elif share:
            mask = torch.rand(T, S, generator=generator) < share
            mask[:, 2] = True  # no row is empty
        cases.append(Inputs(query, key, value, mask))
    return cases
