"""The exercises of notebook 03: query, key, value."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from exercises.attending import ATTENTION, loose_attention, weights_of
from exercises.judge import built, exercise, prediction
from exercises.properties import one_head


def divided_late(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    context, weights = loose_attention(query, key, value, divisor=lambda *_: 1)
    return context / key.shape[-1] ** 0.5, weights / key.shape[-1] ** 0.5


exercise(
    "3a",  # Attention, whole
    loose_attention,
    "query: ... T D, key: ... S D, value: ... S E",
    gives="context, weights",
    scales=(300,),
    mistakes={"it divides after the softmax: the scores are meant to shrink, not the weights": divided_late}
    | ATTENTION,
)


def cross(x: Tensor, memory: Tensor, W_query: Tensor, W_key: Tensor, W_value: Tensor, **options: Any) -> Tensor:
    return loose_attention(x @ W_query, memory @ W_key, memory @ W_value, **options)[0]


def values_of_x(x: Tensor, memory: Tensor, W_query: Tensor, W_key: Tensor, W_value: Tensor) -> Tensor:
    return loose_attention(x @ W_query, memory @ W_key, x @ W_value)[0]


exercise(
    "3b",  # Ask another text
    cross,
    "x: T C, memory: S C, W_query: C D, W_key: C D, W_value: C D",
    scales=(20,),
    mistakes={
        "the scores are divided by √C: D is the width of the projected keys": (
            lambda x, *rest: cross(x, *rest, divisor=lambda *_: x.shape[-1] ** 0.5)
        ),
        "values come from the memory, as keys do: what is found there is what answers": values_of_x,
    }
    | ATTENTION,
)


def change_with_loudness(weights: Tensor, scores: Tensor, values: Tensor) -> Tensor:
    """The derivative of the contexts with respect to a factor on all scores, where that is 1."""
    mean = (weights * scores).sum(-1, keepdim=True)
    return (weights * (scores - mean)) @ values


def with_weights(scores: Tensor, values: Tensor) -> dict[str, Tensor]:
    return {"weights": scores.softmax(-1), "scores": scores, "values": values}


exercise(
    "3c",  # If everybody spoke louder
    change_with_loudness,
    "scores: T S, values: S E",
    prepare=with_weights,
    scales=(20,),
    mistakes={
        "what raises one weight lowers the others: take the weighted mean of the scores away": (
            lambda weights, scores, values: (weights * scores) @ values
        ),
        "the mean that is taken away is weighted, by the weights": (
            lambda weights, scores, values: (weights * (scores - scores.mean(-1, keepdim=True))) @ values
        ),
        "that step is too large: a derivative is what it comes to as it shrinks to nothing": (
            lambda weights, scores, values: 10 * ((1.1 * scores).softmax(-1) - weights) @ values
        ),
    },
)


prediction(
    "3d",  # Unequal partners
    right=12,
    tolerance=4e-3,
    mistakes={
        "each product has the variance 9 / 4, and 64 of them are added up": 2.25,
        "8 would be right if both standard deviations were 1": 8,
        "variances add up over 64 products, standard deviations don't": 96,
    },
)


exercise(
    "3e",  # The longer, the duller
    weights_of,
    "query: ... T D, key: ... S D",
    scales=(300,),
    broken=(
        "a longer text makes the weights flatter, however wide the words are. What are the scores divided by?",
        lambda query, key: torch.softmax(query @ key.mT / key.shape[-2] ** 0.5, -1),
    ),
    mistakes={
        "the number of keys still takes part: the width alone counts": {
            "divisor": lambda q, k, v: (k.shape[-1] * k.shape[-2]) ** 0.5
        },
        "it divides after the softmax: rows no longer add up to 1": (
            lambda query, key: divided_late(query, key, key)[1]
        ),
    }
    | ATTENTION,
)


exercise(
    "3f",  # Two matrices in one
    lambda W_query, W_key: W_query @ W_key.mT,
    "W_query: C D, W_key: C D",
    mistakes={
        "that is (D, D): x meets W_query first, so M begins with W_query and ends with W_key on its side": (
            lambda W_query, W_key: W_query.mT @ W_key
        ),
    },
)


@built("3g")  # A layer that learns
def self_attention(MySelfAttention: Any) -> None:
    """MySelfAttention(C, D): x (B, T, C) -> contexts (B, T, D), every word looks at every word."""
    one_head(MySelfAttention, ATTENTION, causal=False)


def additive_scores(
    query: Tensor,
    keys: Tensor,
    W_query: Tensor,
    W_key: Tensor,
    v: Tensor,
    score: Callable[..., Tensor] = lambda q, k, v: torch.tanh(q + k) @ v,
) -> Tensor:
    return score(query @ W_query, keys @ W_key, v)


def with_small_matrices(**inputs: Tensor) -> dict[str, Any]:
    """So small that tanh bends, and doesn't only give 1 or -1."""
    return {name: x / 10 if name.startswith("W") else x for name, x in inputs.items()}


exercise(
    "3h",  # Additive scores
    additive_scores,
    "query: D, keys: S D, W_query: D A, W_key: D A, v: A",
    prepare=with_small_matrices,
    scales=(100,),
    mistakes={
        "tanh is missing: without it the query adds the same to every score, and softmax doesn't notice": {
            "score": lambda q, k, v: (q + k) @ v
        },
        "first the sum, then tanh, and last the product with v": {
            "score": lambda q, k, v: (torch.tanh(q) + torch.tanh(k)) @ v
        },
    },
)
