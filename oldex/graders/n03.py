"""The exercises of notebook 03: query, key, value."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, randn

from exercises.graders import building, layers
from exercises.judge import Answer, Pairs, built, exercise
from exercises.variants import attention_with, divided_by, plain_attention, without_shift
from helpers.attention import attention


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


def _moved(mean: Callable[[Tensor, Tensor], Tensor | float]) -> Answer:
    """Each weight times what its score is above a mean, and the values mixed by that."""
    return lambda weights, scores, values: (weights * (scores - mean(weights, scores))) @ values


def _mean_of_row(weights: Tensor, scores: Tensor) -> Tensor:
    return (weights * scores).sum(-1, keepdim=True)


_right_turn = _moved(_mean_of_row)


def _by_a_step(size: float) -> Answer:
    """What a larger factor changes, for each unit by which it is larger."""

    def variant(weights: Tensor, scores: Tensor, values: Tensor) -> Tensor:
        weights, scores, values = weights.double(), scores.double(), values.double()
        return (((1 + size) * scores).softmax(-1) - weights) @ values / size

    return variant


def _by_the_factor(scores: Tensor, values: Tensor) -> Tensor:
    """The derivative of the contexts, by autograd: for each unit of the factor, a score moves by as much as it is."""
    scores = scores.double().requires_grad_()
    columns = (scores.softmax(-1) @ values.double()).T
    gradients = [torch.autograd.grad(x, scores, torch.ones_like(x), retain_graph=True)[0] for x in columns]
    return torch.stack([(scores.detach() * gradient).sum(-1) for gradient in gradients], dim=-1)


@exercise(
    "3c",
    {
        "what raises one weight lowers the others: take the weighted mean of the scores away": _moved(lambda *_: 0.0),
        "each score moves ALL weights of its row, not only its own": (
            lambda weights, scores, values: (weights * (1 - weights) * scores) @ values
        ),
        "the mean that is taken away is weighted, by the weights": [
            _moved(lambda weights, scores: scores.mean(-1, keepdim=True)),
            lambda weights, scores, values: (weights * scores) @ (values - values.mean(0)),
        ],
        "the sum over a row is not weighted: multiply by the weights before you add": _moved(
            lambda weights, scores: scores.sum(-1, keepdim=True)
        ),
        "the mean is taken down the columns: a row is one softmax": _moved(
            lambda weights, scores: (weights * scores).sum(0, keepdim=True)
        ),
        "the mean is taken over the whole table: each row has its own": _moved(
            lambda weights, scores: (weights * scores).sum()
        ),
        "the sign is wrong": lambda weights, scores, values: -_right_turn(weights, scores, values),
        "a small weight moves little: multiply by the weights, too": (
            lambda weights, scores, values: (scores - _mean_of_row(weights, scores)) @ values
        ),
        "the mean is taken away from the products: it is weighted once more": (
            lambda weights, scores, values: (weights * scores - _mean_of_row(weights, scores)) @ values
        ),
        "those are the derivatives of the weights: they still have to mix the values": (
            lambda weights, scores, values: weights * (scores - _mean_of_row(weights, scores))
        ),
        "those are the contexts: by how much do they change?": lambda weights, scores, values: weights @ values,
        "that is what the factor 2 changes: a derivative belongs to the smallest of steps": _by_a_step(1.0),
        "that step is too large: a derivative is what it comes to as it shrinks to nothing": [
            *map(_by_a_step, (0.5, 0.1, 0.01, 0.001)),
        ],
        "it treats the weights as if they were scores": (
            lambda weights, scores, values: _right_turn(weights.softmax(-1), weights, values)
        ),
        "each weight is multiplied by itself: one factor is the weight, the other the score": (
            lambda weights, scores, values: _right_turn(weights, weights, values)
        ),
    },
)
def turn(answer: Answer) -> Pairs:
    """answer(weights, scores (T, S), values (S, E)) -> the derivative of the contexts (T, E) by a factor of the scores.

    The weights are the softmax of factor * scores, along rows, and the factor is 1.
    """
    for T, S, E, size, level in ((4, 6, 3, 1, 0), (3, 3, 3, 2, 0), (1, 2, 1, 1, 0), (2, 1, 2, 1, 0), (3, 4, 2, 1, 8),
                                 (2, 5, 4, 20, 0)):  # fmt: skip
        scores, values = size * randn(T, S) + level, 3 * randn(S, E)
        # First what is right: PyTorch imports sympy for its first such gradient. An answer that did so could run out of
        # its time in the middle of it, and leave half a sympy to all that come after.
        right = _by_the_factor(scores, values)
        yield answer(scores.softmax(dim=-1), scores, values), right, 1e-4


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


def _broken_weights(query: Tensor, key: Tensor) -> Tensor:
    return torch.softmax(query @ key.transpose(-2, -1) / key.shape[-2] ** 0.5, dim=-1)


def _only_weights(formula: Answer) -> Answer:
    """The weights of an attention, without its contexts."""
    return lambda query, key: formula(query, key, key)[1]


def _weights_by(size_of: Callable[[Tensor, Tensor], float]) -> Answer:
    """Weights whose scores are divided by something else that is made of query and key."""
    return _only_weights(attention_with(scale=lambda query, key, value: size_of(query, key)))


@exercise(
    "3e",
    {
        "now the scores are not divided at all: a score adds up D products, and grows with √D": _weights_by(
            lambda query, key: 1
        ),
        "they are divided by D: its square root is meant": _weights_by(lambda query, key: key.shape[-1]),
        "they are multiplied by √D: divide": _weights_by(lambda query, key: key.shape[-1] ** -0.5),
        "that is the number of queries: no number of words counts, only how many products a score adds up": [
            _weights_by(lambda query, key: query.shape[-2] ** 0.5),
            _weights_by(lambda query, key: query.shape[-2]),
        ],
        "the number of keys still divides, if without its root: it should not count at all": _weights_by(
            lambda query, key: key.shape[-2]
        ),
        "the number of keys still takes part: the width alone counts": [
            _weights_by(lambda query, key: (key.shape[-1] * key.shape[-2]) ** 0.5),
            _weights_by(lambda query, key: key.shape[-1] * key.shape[-2]),
            _weights_by(lambda query, key: (key.shape[-1] + key.shape[-2]) ** 0.5),
            _weights_by(lambda query, key: (key.shape[-1] / key.shape[-2]) ** 0.5),
        ],
        "16 was the width in that text: take it from the shape": [
            _weights_by(lambda query, key: 4),
            _weights_by(lambda query, key: 16),
        ],
        "dimension 1 is the width of a table only: with more dimensions, say -1": [
            _weights_by(lambda query, key: key.shape[1] ** 0.5),
            _weights_by(lambda query, key: query.shape[1] ** 0.5),
        ],
        "that is the number of texts, and for a table the number of words: the width is dimension -1": [
            _weights_by(lambda query, key: len(key) ** 0.5),
            _weights_by(lambda query, key: len(query) ** 0.5),
        ],
        "it divides after the softmax: rows no longer add up to 1": _only_weights(_divided_late),
        "the softmax now runs over the queries: it should run over the keys, the last dimension": [
            _only_weights(attention_with(dim=-2)),
            lambda query, key: _broken_weights(key, query).mT,
        ],
        "those are the scores: weights come after the softmax": (
            lambda query, key: query @ key.mT / key.shape[-1] ** 0.5
        ),
        "large scores give NaN: take the largest score of each row away first, or use softmax": _only_weights(
            without_shift
        ),
    },
    broken=("a longer text makes the weights flatter, however wide the words are. What are the scores divided by?",
            _broken_weights),
)  # fmt: skip
def weights(answer: Answer) -> Pairs:
    """answer(query (..., T, D), key (..., S, D)) -> weights (..., T, S), of scores over √D."""
    tables = [(2, 4, 3), (3, 5, 5), (1, 1, 1), (4, 2, 9), (2, 3, 16), (2, 40, 4)]
    cases = [(randn(T, D), randn(S, D)) for T, S, D in tables]
    cases += [((300 * randn(2, 4)).round(), randn(3, 4).round())]  # large scores, without rounding errors
    cases += [(randn(2, 4, 3), randn(2, 5, 3)), (randn(3, 2, 1, 8), randn(3, 2, 6, 8))]
    for query, key in cases:
        yield answer(query, key), attention(query, key, key)[1]


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


@built("3g", "a class")
def self_attention(MySelfAttention: Answer) -> None:
    """MySelfAttention(C, D): x (B, T, C) -> contexts (B, T, D), every word looks at every word."""
    for C, D, B, T in ((3, 7, 2, 4), (5, 5, 3, 6), (6, 1, 1, 2)):
        building.reading(building.made(MySelfAttention, C=C, D=D), D)(building.words(B, T, C))
    C, D = 6, 3
    module = building.sound(MySelfAttention, building.words(3, 5, C), D, C=C, D=D)
    run = building.reading(module, D)
    building.sees_all(run, 0.3 * building.words(6, C), building.words(6, C, seed=1))
    layers.forgets_order(run, building.words(2, 7, C), causal=False)
    layers.weighs(run, C)
    layers.any_length(run, C, causal=False)
    layers.three_matrices(module, C, D)
