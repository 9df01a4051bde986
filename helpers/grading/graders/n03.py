"""The exercises of notebook 03: query, key, value."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, randn

from helpers.core.attention import attention, causal_mask
from helpers.grading.judge import Answer, Pairs, exercise
from helpers.grading.variants import attention_with, divided_by, plain_attention, without_shift


def _by_number_of(size_of: Callable[[Tensor, Tensor, Tensor], int]) -> Answer:
    """Attention whose scores are divided by the root of another size than D."""
    return attention_with(scale=lambda query, key, value: size_of(query, key, value) ** 0.5)


def _divided_late(query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    return [x / key.shape[-1] ** 0.5 for x in divided_by(lambda D: 1)(query, key, value)]


@exercise(
    "3a",
    {
        "the scores are not divided by √D": divided_by(lambda D: 1),
        "the scores are divided by D: its square root is meant": divided_by(lambda D: D),
        "the scores are multiplied by √D: divide": divided_by(lambda D: D**-0.5),
        "the scores are divided by another number than √D": [
            divided_by(lambda D: 2),
            divided_by(lambda D: D / 2),
            divided_by(lambda D: math.log2(D) or 1),
            divided_by(lambda D: math.sqrt(D) + 1e-3),
        ],
        "the scores are divided by the root of a number of words: D is the width of a key, its LAST dimension": [
            _by_number_of(lambda query, key, value: key.shape[-2]),
            _by_number_of(lambda query, key, value: query.shape[-2]),
            _by_number_of(lambda query, key, value: query.shape[0]),
            _by_number_of(lambda query, key, value: query.shape[1]),
        ],
        "the scores are divided by the root of the values' width: D is that of the keys": (
            _by_number_of(lambda query, key, value: value.shape[-1])
        ),
        "it divides after the softmax: the scores are meant to shrink, not the weights": _divided_late,
        "the softmax runs over the queries: it should run over the keys, the last dimension": attention_with(dim=-2),
        "dimension 1 is the last one in a table only: with more dimensions, say -1": attention_with(dim=1),
        "context and weights are exchanged: the context comes first": (
            lambda query, key, value: plain_attention(query, key, value)[::-1]
        ),
        "it returns the scores beside the context: the weights are asked for": (
            lambda query, key, value: (plain_attention(query, key, value)[0], query @ key.mT / key.shape[-1] ** 0.5)
        ),
        "the context is missing: return both, (context, weights)": (
            lambda query, key, value: plain_attention(query, key, value)[1]
        ),
        "the weights are missing: return both, (context, weights)": (
            lambda query, key, value: plain_attention(query, key, value)[0]
        ),
        "large scores give NaN: take the largest score of each row away first, or use softmax": without_shift,
    },
)
def scaled_attention(answer: Answer) -> Pairs:
    """answer(query, key, value), any leading dimensions -> context, weights."""
    tables = [(2, 4, 3, 5), (3, 3, 3, 3), (1, 1, 1, 1), (4, 2, 9, 1), (2, 3, 16, 2)]
    cases = [(randn(T, D), randn(S, D), randn(S, E)) for T, S, D, E in tables]
    cases += [((300 * randn(2, 4)).round(), randn(3, 4).round(), randn(3, 2))]  # large scores, without rounding errors
    cases += [(randn(2, 4, 3), randn(2, 5, 3), randn(2, 5, 2)), tuple(randn(3, 2, 1, 6, 9))]
    for inputs in cases:
        yield answer(*inputs), attention(*inputs)


def _cross(
    query_from: int = 0,
    key_from: int = 1,
    value_from: int = 1,
    order: tuple[int, ...] = (0, 1, 2),
    attend: Answer = plain_attention,
    asked_for: int | slice = 0,
) -> Answer:
    """Cross-attention: query, key and value come from x (0) or memory (1), by matrices in that order."""

    def variant(*inputs: Tensor) -> Tensor:
        sources = [inputs[place] for place in (query_from, key_from, value_from)]
        projected = [source @ inputs[2 + i] for source, i in zip(sources, order, strict=True)]
        return attend(*projected)[asked_for]

    return variant


def _by_the_width_of_x(x: Tensor, memory: Tensor, *matrices: Tensor) -> Tensor:
    return _cross(attend=divided_by(lambda D: x.shape[-1] ** 0.5))(x, memory, *matrices)


@exercise(
    "3b",
    {
        "that is self-attention: x asks, but memory answers": _cross(0, 0, 0),
        "that is the memory's self-attention: the queries come from x": _cross(1, 1, 1),
        "the roles are exchanged: x asks and memory answers": _cross(1, 0, 0),
        "the values come from x: what is told comes from the memory": _cross(0, 1, 0),
        "the keys come from x: what is found is in the memory": _cross(0, 0, 1),
        "W_query and W_key are exchanged": _cross(order=(1, 0, 2)),
        "W_key is used where W_value belongs": _cross(order=(0, 1, 1)),
        "W_value is used where W_key belongs": _cross(order=(0, 2, 2)),
        "the scores are not divided by √D": _cross(attend=divided_by(lambda D: 1)),
        "the scores are divided by √C: D is the width of the projected keys": _by_the_width_of_x,
        "the softmax runs over the queries: it should run over the keys": _cross(attend=attention_with(dim=0)),
        "the memory is mixed as it is: W_value makes the values": (
            lambda x, memory, W_query, W_key, W_value: plain_attention(x @ W_query, memory @ W_key, memory)[0]
        ),
        "only the context is asked for, without the weights": _cross(asked_for=slice(None)),
        "those are the weights: they still have to mix the values": _cross(asked_for=1),
    },
)
def cross_attention(answer: Answer) -> Pairs:
    """answer(x (T, C), memory (S, C), W_query, W_key, W_value (C, D)) -> contexts (T, D)."""
    for T, S, C, D, size in ((3, 5, 4, 2, 1), (4, 4, 3, 3, 1), (1, 3, 2, 5, 1), (2, 1, 1, 1, 1), (4, 2, 3, 2, 20)):
        x, memory, matrices = size * randn(T, C), randn(S, C), randn(3, C, D)
        W_query, W_key, W_value = matrices
        inputs = (x, memory, W_query.clone(), W_key.clone(), W_value.clone())
        yield answer(*inputs), attention(x @ W_query, memory @ W_key, memory @ W_value)[0]


def _less_its_mean(mean: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    """Each weight times what its derivative is above a mean."""
    return lambda weights, d_weights: weights * (d_weights - mean(weights, d_weights))


def _mean_of_row(weights: Tensor, d_weights: Tensor) -> Tensor:
    return (weights * d_weights).sum(-1, keepdim=True)


_right_gradient = _less_its_mean(_mean_of_row)


@exercise(
    "3c",
    {
        "what raises one weight lowers the others: take the weighted mean of d_weights away": torch.mul,
        "each score moves ALL weights of its row, not only its own": (
            lambda weights, d_weights: weights * (1 - weights) * d_weights
        ),
        "the mean that is taken away is weighted, by the weights": _less_its_mean(
            lambda weights, d_weights: d_weights.mean(-1, keepdim=True)
        ),
        "the sum over a row is not weighted: multiply by the weights before you add": _less_its_mean(
            lambda weights, d_weights: d_weights.sum(-1, keepdim=True)
        ),
        "the mean is taken down the columns: a row is one softmax": _less_its_mean(
            lambda weights, d_weights: (weights * d_weights).sum(0, keepdim=True)
        ),
        "the mean is taken over the whole table: each row has its own": _less_its_mean(
            lambda weights, d_weights: (weights * d_weights).sum()
        ),
        "the sign is wrong": lambda weights, d_weights: -_right_gradient(weights, d_weights),
        "a small weight makes its score's effect small, too: multiply by the weights at the end": (
            lambda weights, d_weights: d_weights - _mean_of_row(weights, d_weights)
        ),
        "the mean is taken away from the products: it is weighted once more": (
            lambda weights, d_weights: weights * d_weights - _mean_of_row(weights, d_weights)
        ),
        "it treats the weights as if they were scores": [
            lambda weights, d_weights: weights.softmax(-1) * d_weights,
            lambda weights, d_weights: _right_gradient(weights.softmax(-1), d_weights),
        ],
        "that is the derivative by the weights, unchanged": lambda weights, d_weights: d_weights,
    },
)
def gradient(answer: Answer) -> Pairs:
    """answer(weights (T, S), d_weights (T, S)) -> the derivative of the loss by the scores (T, S)."""
    for T, S, size in ((4, 6, 1), (3, 3, 1), (1, 2, 1), (2, 1, 1), (3, 4, 1000)):
        scores, d_weights = randn(T, S).requires_grad_(), size * randn(T, S)
        weights = scores.softmax(dim=-1)
        # First what is right: PyTorch imports sympy for its first such gradient. An answer that did so could run out of
        # its time in the middle of it, and leave half a sympy to all that come after.
        right = torch.autograd.grad(weights, scores, d_weights)[0]
        yield answer(weights.detach(), d_weights), right, 1e-5 * size


@exercise(
    "3d",
    {
        "144 is the variance: the standard deviation is its square root": 144,
        "each product has the variance 9 / 4, and 64 of them are added up": [1.5, 2.25],
        "8 would be right if both standard deviations were 1": 8,
        "the standard deviations are multiplied, not added": [8 * 3.5, 28**0.5],
        "variances multiply, not standard deviations alone: 3 and 1/2 count squared under the root": 64**0.5 * 1.5**0.5,
        "variances add up over 64 products, standard deviations don't": 96,
        "0 is the mean: the dot products scatter around it": 0,
        "64 numbers, not 63 or 65, are added up, and their mean is known": [1.5 * 63**0.5, 1.5 * 65**0.5],
    },
)
def spread(answer: Answer) -> Pairs:
    """answer = the standard deviation of the dot product of 64 numbers of standard deviation 3 with 64 of 1/2."""
    yield answer, 12, 0.05


def _broken_find(x: Tensor, W_query: Tensor, W_key: Tensor) -> Tensor:
    queries = x @ W_query
    keys = x @ W_query
    return queries @ keys.T


def _found(score: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    """Scores that are made of the queries x W_query and the keys x W_key."""
    return lambda x, W_query, W_key: score(x @ W_query, x @ W_key)


@exercise(
    "3e",
    {
        "now both are keys: the queries need W_query": _found(lambda query, key: key @ key.T),
        "rows and columns are exchanged: row t holds the scores of query t": _found(lambda query, key: key @ query.T),
        "neither matrix is used: x would find what is like itself": lambda x, W_query, W_key: x @ x.T,
        "W_query is used, but the keys are the bare x": lambda x, W_query, W_key: x @ W_query @ x.T,
        "W_key is used, but the queries are the bare x": lambda x, W_query, W_key: x @ (x @ W_key).T,
        "it scales the scores: they are asked for without √D here": _found(
            lambda query, key: query @ key.T / key.shape[1] ** 0.5
        ),
        "it gives weights: scores come before the softmax": _found(lambda query, key: (query @ key.T).softmax(-1)),
        "it averages both directions, and so the scores are still symmetric": _found(
            lambda query, key: (query @ key.T + key @ query.T) / 2
        ),
        "one matrix for both, even if it is the sum of two, makes the scores symmetric": [
            _found(lambda query, key: (query + key) @ (query + key).T),
            _found(lambda query, key: (query + key) @ (query + key).T / 4),
        ],
        "it hides the future: no mask is asked for": [
            _found(lambda query, key: (query @ key.T).tril()),
            _found(lambda query, key: (query @ key.T).masked_fill(~causal_mask(len(query)), -torch.inf)),
        ],
    },
    broken=(
        "a finds b exactly as much as b finds a, whatever the matrices are. Where does the symmetry come from?",
        _broken_find,
    ),
)
def find(answer: Answer) -> Pairs:
    """answer(x (T, C), W_query, W_key (C, D)) -> unscaled scores (T, T)."""
    for T, C, D, size in ((4, 3, 2, 1), (3, 3, 3, 1), (2, 1, 4, 1), (1, 2, 2, 1), (5, 4, 4, 100)):
        x, W_query, W_key = (size * randn(T, C)).round(decimals=1), *randn(2, C, D).round(decimals=1)
        right = _found(lambda query, key: query @ key.T)
        yield (
            answer(x, W_query.clone(), W_key.clone()),
            right(x.double(), W_query.double(), W_key.double()),
            1e-4 * size**2,
        )


@exercise(
    "3f",
    {
        "that is (D, D): x meets W_query first, so M begins with W_query and ends with W_key on its side": (
            lambda W_query, W_key: W_query.T @ W_key
        ),
        "that is turned over: who asks and who is found are exchanged": lambda W_query, W_key: W_key @ W_query.T,
        "that is (D, D), and who asks and who is found are exchanged": lambda W_query, W_key: W_key.T @ W_query,
        "W_key must be turned on its side: (x W_key)ᵀ = W_keyᵀ xᵀ": lambda W_query, W_key: W_query @ W_key,
        "W_key is forgotten, so M is symmetric": lambda W_query, W_key: W_query @ W_query.T,
        "W_query is forgotten, so M is symmetric": lambda W_query, W_key: W_key @ W_key.T,
        "that multiplies number by number: a matrix product is meant": lambda W_query, W_key: W_query * W_key,
        "both matrices are added: one after the other, they multiply": lambda W_query, W_key: W_query + W_key,
        "it is scaled by √D: these scores are not": lambda W_query, W_key: W_query @ W_key.T / W_query.shape[1] ** 0.5,
        "it averages both directions: who asks and who is found are not the same": (
            lambda W_query, W_key: (W_query @ W_key.T + W_key @ W_query.T) / 2
        ),
    },
)
def table(answer: Answer) -> Pairs:
    """answer(W_query, W_key (C, D)) -> the matrix M (C, C) with which x M xᵀ is x's unscaled scores."""
    for C, D, size in ((4, 2, 1), (3, 3, 1), (2, 5, 1), (1, 1, 1), (3, 4, 1000)):
        W_query, W_key = (size * randn(C, D)).round(decimals=1), randn(C, D).round(decimals=1)
        yield answer(W_query, W_key), W_query.double() @ W_key.double().T, 1e-5 * size
