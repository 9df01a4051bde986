"""What goes wrong with attention in practice: a sentence for each mistake, and the formulas that make it."""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from exercises import variants
from exercises.variants import Formula, SeveralHeads, attention_with, heads_with, shares, weighed_by
from helpers.attention import attention

LEAK = "forbidden keys get weight: their scores must be -inf before the softmax"  # in whatever way it comes about


def _where(fits: Callable[..., bool], formula: Formula) -> Callable[..., Any]:
    """The formula for inputs that fit; for others ..., which stands for anything."""
    return lambda *inputs: formula(*inputs) if fits(*inputs) else ...


# ---------------------------------------------------------------- the softmax
def _exchanged(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    return attention(key, query, value, mask)


AXES: dict[str, Any] = {
    "the softmax runs over the queries, not over the keys": attention_with(dim=-2),
    "the softmax runs over dim=1, the queries of (B, T, S) and the heads of (B, H, T, S); the keys are dim=-1": (
        attention_with(dim=1)
    ),
    "the softmax runs over dim=2, which with heads, (B, H, T, S), are the queries; the keys are dim=-1": (
        attention_with(dim=2)
    ),
    "the softmax runs over dim=-3, as it does when no dim is given: over the batch or the heads; the keys are dim=-1": (
        attention_with(dim=-3)
    ),
    "the softmax runs over the batch; the keys are dim=-1": attention_with(dim=0),
    "query and key are exchanged: each row of the weights belongs to a query": (
        _where(lambda query, key, *_: query.shape == key.shape, _exchanged)
    ),
    "query and key don't fit: exchange the key's last two axes, counted from the end, as in key.transpose(-2, -1)": [
        attention_with(turn=lambda key: key.permute(*reversed(range(key.dim())))),  # key.T
        attention_with(turn=lambda key: key.transpose(0, 1)),
        attention_with(turn=lambda key: key.transpose(1, 2)),
    ],
}


# ---------------------------------------------------------------- by what the scores are divided
# From the sizes: head width D, heads H, queries T, keys S.
Divisor = Callable[[int, int, int, int], float]


def _divided(divisor: Divisor) -> Formula:
    def scale(query: Tensor, key: Tensor, value: Tensor) -> float:
        H = key.shape[1] if key.dim() == 4 else 1
        return divisor(key.shape[-1], H, query.shape[-2], key.shape[-2])

    return attention_with(scale=scale)


_OTHER_DIVISORS: dict[str, Divisor] = {
    "half the head width": lambda D, H, T, S: D / 2,
    "log2 of the head width": lambda D, H, T, S: math.log2(D),
    "the logarithm of the head width": lambda D, H, T, S: math.log(D),
    "the square of the head width": lambda D, H, T, S: D**2,
    "the square root of twice the head width": lambda D, H, T, S: (2 * D) ** 0.5,
    "the square root of half the head width": lambda D, H, T, S: (D / 2) ** 0.5,
    "the cube root of the head width": lambda D, H, T, S: D ** (1 / 3),
    "the square root of the width of all heads together": lambda D, H, T, S: (D * H) ** 0.5,
    "the width of all heads together": lambda D, H, T, S: D * H,
    "the square root of the number of keys": lambda D, H, T, S: S**0.5,
    "the number of keys": lambda D, H, T, S: S,
    "the square root of the number of queries": lambda D, H, T, S: T**0.5,
    "the number of queries": lambda D, H, T, S: T,
    "the square root of the number of heads": lambda D, H, T, S: H**0.5,
    "the number of heads": lambda D, H, T, S: H,
}
DIVISORS: dict[str, Any] = {
    "the scores are not divided by the square root of the head width": _divided(lambda D, H, T, S: 1),
    "the scores are divided by the head width, not by its square root": _divided(lambda D, H, T, S: D),
    "the scores are multiplied by the square root of the head width, not divided by it": (
        _divided(lambda D, H, T, S: D**-0.5)
    ),
    "the scores have the wrong sign: the smallest get the most weight": _divided(lambda D, H, T, S: -(D**0.5)),
    "the weights do not depend on the scores: every allowed key gets the same": _divided(lambda D, H, T, S: math.inf),
    "the scores are divided by a constant, not by the square root of the head width": [
        _divided(lambda *_, number=number: number) for number in (1 / 3, 1 / 2, 2, 3, 4, 5, 8, 10, 16, 32, 64, 100)
    ],
} | {
    f"the scores are divided by {what}, not by the square root of the head width": _divided(divisor)
    for what, divisor in _OTHER_DIVISORS.items()
}


# ---------------------------------------------------------------- which keys are seen
def _seeing(mask_of: Callable[[Tensor], Tensor]) -> list[Formula]:
    """With another mask, and -inf or a finite number in its place: a row that allows nothing tells which it is."""
    return [attention_with(mask_of=mask_of, fill=fill) for fill in (-math.inf, -1e9)]


def _seeing_where(fits: Callable[[Tensor], bool], mask_of: Callable[[Tensor], Tensor]) -> list[Callable[..., Any]]:
    def all_fits(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
        return mask is None or fits(mask)

    return [_where(all_fits, formula) for formula in _seeing(mask_of)]


def _is_square(mask: Tensor) -> bool:
    return mask.shape[-2] == mask.shape[-1]


def _is_causal(mask: Tensor) -> bool:
    return torch.equal(mask, torch.ones_like(mask).tril()) and _is_square(mask)


def _itself(mask: Tensor) -> Tensor:
    return torch.eye(*mask.shape, dtype=torch.bool)


def _shifted(by: int) -> list[Callable[..., Any]]:
    return _seeing_where(_is_causal, variants.shifted(by))


def _window(width: int) -> list[Callable[..., Any]]:
    return _seeing_where(_is_causal, lambda mask: mask & mask.triu(1 - width))


LONGEST = 6  # tokens of a text in any case
MASKS: dict[str, Any] = (
    {
        "the mask is inverted: True must mean allowed": [
            *_seeing(torch.logical_not),
            *_seeing(lambda mask: ~mask | _itself(mask)),
        ],
        "the mask is transposed: its rows belong to the queries, its columns to the keys": (
            _seeing_where(_is_square, variants.transposed)
        ),
        "it masks causally, whatever mask it is given": _seeing(variants.shifted(0)),
        "the mask is not applied": _seeing(torch.ones_like),
        "the mask is applied by row instead of column: it hides whole queries, not keys": [
            *_seeing(lambda mask: mask.all(-1, keepdim=True).expand_as(mask)),
            *_seeing(lambda mask: mask[:, -1:].expand_as(mask)),
        ],
        "the mask shows every word only itself: what came before is missing": _window(1),
    }
    | {
        f"the diagonal of the mask is shifted: a word {what}, tril() and not tril({by})": _shifted(by)
        for what, places in {
            "must see itself": range(-1, -LONGEST, -1),
            "must not see the next one": range(1, LONGEST - 1),
        }.items()
        for by in places
    }
    | {
        f"the mask is a window: a word sees only the last {width} words, itself included": _window(width)
        for width in range(2, LONGEST)
    }
)


# ---------------------------------------------------------------- what stands for -inf
_NUMBERS = (-1.0, -10.0, -20.0, -100.0, -1e3, -1e4, -65504.0, -1e5, -1e6, -1e9, -1e10, -1e15, -1e20, -1e30,
            torch.finfo(torch.float32).min, torch.finfo(torch.float64).min)  # fmt: skip


def _added(number: float) -> Formula:
    return weighed_by(lambda scores, mask: (scores + number * ~mask).softmax(-1))


def finite(numbers: Iterable[float]) -> dict[str, Any]:
    """One of these numbers in the place of -inf, or added."""
    numbers = tuple(numbers)
    return {
        "forbidden scores are set to a finite number, which still gets weight; they must be -inf": [
            attention_with(fill=number) for number in numbers
        ],
        "a finite number is added to forbidden scores, which still get weight; they must be -inf": [
            _added(number) for number in (1.0, -1.0, -5.0, *numbers)
        ],
    }


FINITE = finite(_NUMBERS)
AFTERWARDS = "the mask comes after the softmax"

# ---------------------------------------------------------------- the tables
FORMULA: dict[str, Any] = (
    AXES
    | MASKS
    | DIVISORS
    | {
        f"{AFTERWARDS}: the rows no longer sum to 1; forbidden scores must be -inf before it": (
            weighed_by(lambda scores, mask: scores.softmax(-1) * mask)
        ),
        "forbidden scores are set to 0, which still gets weight; they must be -inf": attention_with(fill=0.0),
    }
    | FINITE
)
FAR_BELOW_ZERO: dict[str, Any] = {  # right for scores near 0, and wrong far below
    f"{AFTERWARDS}: where a forbidden score is far larger, the allowed ones get no weight": (
        weighed_by(lambda scores, mask: shares(scores.softmax(-1) * mask))
    ),
    "large scores give NaN: the softmax must take the largest score of a row away first": [
        weighed_by(lambda scores, mask: shares(scores.exp() * mask)),
        weighed_by(lambda scores, mask: shares(scores.masked_fill(~mask, -math.inf).exp())),
        weighed_by(lambda scores, mask: shares((scores.masked_fill(~mask, -math.inf) - scores[..., mask].max()).exp())),
    ],
    "far below 0, allowed scores lose their weight: the softmax must take the largest score of a row away first": (
        weighed_by(lambda scores, mask: scores.exp() * mask)
    ),
} | FINITE


# ---------------------------------------------------------------- several heads
def _in_heads(table: dict[str, Any]) -> dict[str, list[SeveralHeads]]:
    """The same mistakes, made by every head."""
    return {
        sentence: [heads_with(formula) for formula in (wrong if isinstance(wrong, list) else [wrong])]
        for sentence, wrong in table.items()
    }


MIXED_UP = "by view alone, without transpose: tokens and heads are mixed up"
HEADS: dict[str, list[SeveralHeads]] = {
    f"the heads are split {MIXED_UP}": [heads_with(split=variants.split_by_view)],
    f"the heads are joined {MIXED_UP}": [heads_with(join=variants.join_by_view)],
    f"the heads are split and joined {MIXED_UP}": [
        heads_with(split=variants.split_by_view, join=variants.join_by_view)
    ],
    "the heads take their numbers in turn: view to (B, T, H, D), not to (B, T, D, H)": [
        heads_with(split=variants.split_in_turn)
    ],
    "the width is not split into heads: it is one wide head": [heads_with(split=lambda x, H: x[:, None])],
    "the mask shows the future and hides the past: it is transposed (triu for tril) or inverted": [
        heads_with(attention_with(mask_of=variants.transposed))
    ],
}
HEADS_FAR_BELOW_ZERO = _in_heads(FAR_BELOW_ZERO)


def of_heads(H: int) -> dict[str, list[SeveralHeads]]:
    """What goes wrong with H heads. Sizes are often written as numbers, so with other heads it may do anything."""
    _, *orders = itertools.permutations(range(H))
    joined = [heads_with(join=lambda contexts, order=order: variants.join(contexts[:, order])) for order in orders]
    table = HEADS | {"the heads are joined in the wrong order": [*joined, heads_with(join=variants.join_in_turn)]}
    with_H = {sentence: [_with_so_many(H, attend) for attend in wrong] for sentence, wrong in table.items()}
    return with_H | _in_heads(FORMULA)


def _with_so_many(H: int, attend: SeveralHeads) -> Callable[..., Any]:
    return lambda query, key, value, heads: attend(query, key, value, heads) if heads == H else ...
