"""The exercises of notebook 05: dropout."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from exercises.attending import ATTENTION, CAUSAL, causal_weights, weights_of
from exercises.judge import built, exercise, prediction
from exercises.properties import (
    drops_each_number,
    drops_nothing_in_evaluation,
    made,
    scales_what_it_keeps,
    words,
)

# Word t, counted from 1, has t weights and loses all of them with probability p to the power t.
exercise(
    "5b",  # Words left with nothing
    lambda T, p: sum(p**t for t in range(1, T + 1)),
    lambda: [(1, 0.2), (2, 0.5), (6, 0.5), (5, 0.0), (3, 0.9), (64, 0.1), (200, 0.97)],
    mistakes={
        "the words have different numbers of weights: the first has 1, word t has t, the last has T": (
            lambda T, p: T * p**T
        ),
        "a word has nothing left where EACH of its weights is dropped: multiply p by itself, once for each": (
            lambda T, p: sum((1 - p) ** t for t in range(1, T + 1))
        ),
        "HOW MANY words, on average? Add up the chances of all T words": lambda T, p: p**T,
    },
)


def dropped(weights: Tensor, keep: Tensor, p: float) -> Tensor:
    return weights * keep / (1 - p)


def shared_anew(weights: Tensor, keep: Tensor, p: float) -> Tensor:
    masked = weights * keep
    return masked / masked.sum(-1, keepdim=True)


def unchanged(weights: Tensor, keep: Tensor, p: float) -> Tensor:
    return weights


Drop = Callable[[Tensor, Tensor, float], Tensor]
DROPS: dict[str, dict[str, Drop]] = {
    "nothing is dropped": {"drop": unchanged},
    "what is kept is not divided by 1 - p": {"drop": lambda weights, keep, p: weights * keep},
    "p is the share that is dropped: what is kept is divided by the other share, 1 - p": {
        "drop": lambda weights, keep, p: weights * keep / p
    },
    "that makes what is kept smaller still: divide it by 1 - p": {
        "drop": lambda weights, keep, p: weights * keep * (1 - p)
    },
    "each row is divided by what is left of it: that is no longer right on average": {"drop": shared_anew},
    "it draws numbers of its own: keep is the draw": {
        "drop": lambda weights, keep, p: torch.dropout(weights, p, train=True)
    },
}
TOO_EARLY = "it drops scores, and the softmax shares 1 anew: drop weights, after the softmax"


def dropping_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keep: Tensor,
    p: float,
    drop: Drop = dropped,
    mask_of: Callable[[Tensor], Tensor] = torch.tril,
    **options: Any,
) -> Tensor:
    return drop(weights_of(query, key, mask_of=mask_of, **options), keep, p) @ value


def dropping_early(query: Tensor, key: Tensor, value: Tensor, keep: Tensor, p: float) -> Tensor:
    return causal_weights(dropped(query @ key.mT / query.shape[-1] ** 0.5, keep, p)) @ value


def with_draw(query: Tensor, key: Tensor, value: Tensor, keep: Tensor) -> dict[str, Any]:
    B, T, _ = query.shape
    p = (0.5, 0.2, 0.0)[(B + T) % 3]
    return {"query": query, "key": key, "value": value, "keep": (keep > 0) | (p == 0), "p": p}


exercise(
    "5c",  # The whole layer, by a given draw
    dropping_attention,
    "query: B T D, key: B T D, value: B T D, keep: B T T",
    prepare=with_draw,
    scales=(1e13,),
    mistakes={
        TOO_EARLY: dropping_early,
        "the mask comes after the softmax, which has already given weight away to the future": (
            lambda query, key, value, keep, p: dropped(weights_of(query, key).tril(), keep, p) @ value
        ),
    }
    | DROPS
    | CAUSAL
    | ATTENTION,
)


prediction(
    "5d",  # What comes after
    right=3.5,
    mistakes={
        "2 is right before ReLU bends it: some draws are negative, and ReLU cuts them off one by one": 2,
        "average what ReLU gives in all four draws": 14,
        "ReLU takes the SUM of the two, and makes a negative sum 0: a kept -6 pulls a kept 10 down": 5,
    },
)


def dropped_weights(
    scores: Tensor,
    keep: Tensor,
    p: float,
    training: bool,
    *,
    drop: Drop = dropped,
    early: Drop = unchanged,
    evaluated: Drop = unchanged,
    **options: Any,
) -> Tensor:
    if not training:
        return evaluated(causal_weights(scores, **options), keep, p)
    return drop(causal_weights(early(scores, keep, p), **options), keep, p)


def draws() -> Iterator[tuple[Tensor, Tensor, float, bool]]:
    for T, p in ((1, 0.75), (2, 0.5), (3, 0.0), (4, 0.2), (6, 0.75)):
        scores, keep = (2 * words(T, T, seed=T)).round(), words(T, T, seed=T + 1) > 0
        for training in (True, False):
            yield scores, keep | (p == 0), p, training


exercise(
    "5e",  # Dropped, and still there
    dropped_weights,
    draws,
    broken=(
        "a dropped place still has weight, and the first word never loses anything. What is e to the power 0?",
        lambda scores, keep, p, training: dropped_weights(scores, keep, p, training, drop=unchanged, early=dropped),
    ),
    mistakes={
        TOO_EARLY: {
            "drop": unchanged,
            "early": lambda scores, keep, p: scores.masked_fill(~keep, -math.inf),
        },
        "it drops twice: the dropout before the softmax has to go": {"early": dropped},
        "in evaluation nothing is dropped, and nothing is scaled: training has done that": {"evaluated": dropped},
    }
    | DROPS
    | CAUSAL,
)


@built("5f")  # Rely on no one
def dropout(MyDropout: Any) -> None:
    """MyDropout(p): in training, each number of x is 0 with probability p, or divided by 1 - p."""
    for p in (0.2, 0.7, 0.0):
        layer = made(MyDropout, {"p": p})
        drops_nothing_in_evaluation(layer, words(3, 4, 5))
        layer.train()
        if p:
            drops_each_number(layer, p)
        scales_what_it_keeps(layer, p)
