"""The exercises of *what today's models changed*: what today's models changed."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, randn

from exercises.judge import Answer, Pairs, exercise

CACHE = 2 * 24 * 8192 * 2048 * 2  # keys and values, layers, tokens, width, bytes


@exercise(
    "12a",
    {
        "the two are exchanged: first with 16 heads of keys and values": (CACHE / 4, CACHE),
        "that is half: keys AND values are kept, and a number of 16 bits takes two bytes": (CACHE / 2, ...),
        "a number of 16 bits takes two bytes, not more": [(2 * CACHE, ...), (8 * CACHE, ...)],
        "each layer has a cache of its own": (CACHE / 24, ...),
        "the heads share the width: 16 heads of 128 numbers are 2,048, not 16 times 2,048": (16 * CACHE, ...),
        "all 16 heads keep something: 16 times 128 numbers, not 128": (CACHE / 16, ...),
        "old queries are never needed again: keys and values are kept": (CACHE * 3 / 2, ...),
        "the scores are not kept: they are computed and thrown away": (24 * 16 * 8192**2 * 2, ...),
        "it is bytes that are asked for, all of them": [
            *((round(CACHE / unit, digits), ...) for unit in (1e9, 1e6, 2**30, 2**20) for digits in (1, 2, 3)),
            (CACHE / 1e9, ...),
            (CACHE / 1e6, ...),
        ],
        "four heads of keys and values are kept instead of sixteen: a head's width stays 128": (..., CACHE),
        "both keys and values have four heads: nothing of the other twelve is kept": (..., CACHE * 5 / 8),
        "four heads are left, not one": (..., CACHE / 16),
        "it is divided BY four heads, or multiplied: four of sixteen are a quarter": [
            (..., 4 * CACHE),
            (..., CACHE * 3 / 4),
            (..., CACHE / 2),
        ],
    },
)
def cache_size(answer: Answer) -> Pairs:
    """answer = the bytes of a cache with 16 heads of keys and values, and with 4."""
    yield answer, (CACHE, CACHE // 4), 0.01


def _score(
    angle: Callable[[int, int], float] = lambda i, j: i - j,
    dot: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q[0] * k[0] + q[1] * k[1],
    cross: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q[0] * k[1] - q[1] * k[0],
) -> Answer:
    """The score of two turned vectors, from an angle, what stands before its cosine, and what before its sine."""
    return lambda q, k, i, j: dot(q, k) * math.cos(angle(i, j)) + cross(q, k) * math.sin(angle(i, j))


def _turned(x: Tensor, place: int) -> Tensor:
    angle = torch.tensor(place, dtype=x.dtype)
    return torch.stack([x[0] * angle.cos() - x[1] * angle.sin(), x[1] * angle.cos() + x[0] * angle.sin()])


@exercise(
    "12b",
    {
        "at places in the millions float32 can't tell neighbours apart: compute with the distance, which is small": (
            lambda q, k, i, j: _turned(q, i) @ _turned(k, j)
        ),
        "the sign before the sine is wrong: try a query at place 1 and a key at place 0": _score(lambda i, j: j - i),
        "who stands further right matters: the distance has a sign": _score(lambda i, j: abs(i - j)),
        "the angles are subtracted, not added: if both move on by one, nothing changes": _score(lambda i, j: i + j),
        "the part with the sine is missing": _score(cross=lambda q, k: 0.0 * q[0]),
        "the part with the cosine is missing": _score(dot=lambda q, k: 0.0 * q[0]),
        "in the cross term one product is taken from the other": [
            _score(cross=lambda q, k: q[0] * k[1] + q[1] * k[0]),
            _score(cross=lambda q, k: -q[0] * k[1] - q[1] * k[0]),
        ],
        "sine and cosine are exchanged: at distance 0 the score is the plain dot product": [
            lambda q, k, i, j: (q @ k) * math.sin(i - j) + (q[0] * k[1] - q[1] * k[0]) * math.cos(i - j),
            lambda q, k, i, j: (q @ k) * math.sin(i - j) - (q[0] * k[1] - q[1] * k[0]) * math.cos(i - j),
        ],
        "only the query is turned: the key has a place, too": _score(lambda i, j: i),
        "only the key is turned: the query has a place, too": _score(lambda i, j: -j),
        "nothing is turned": _score(lambda i, j: 0),
        "those are degrees: the angle is in radians": _score(lambda i, j: math.radians(i - j)),
        "the sine takes the same dot product: it needs the cross term": [
            _score(cross=lambda q, k: q @ k),
            _score(cross=lambda q, k: -(q @ k)),
        ],
        "it scales the score: there is no root here": lambda q, k, i, j: _score()(q, k, i, j) / 2**0.5,
        "those are two numbers: a score is one, so add them up": [
            lambda q, k, i, j: _turned(q.double(), i - j) * k,
            lambda q, k, i, j: _turned(q.double(), i) * _turned(k.double(), j),
        ],
    },
)
def rotary_score(answer: Answer) -> Pairs:
    """answer(q (2,), k (2,), i, j) -> the score of q turned by i radians and k turned by j."""
    for i, j in ((3, 1), (1, 3), (0, 0), (7, 0), (0, 1), (2, 9), (2**24 + 3, 2**24 + 1), (2**25 + 1, 2**25 + 6)):
        q, k = randn(2, 2)
        yield answer(q, k, i, j), _score()(q.double(), k.double(), i, j)


def _window(allowed: Callable[..., Tensor]) -> Answer:
    """A (T, T) table by a rule for the query's place (T, 1), the key's place (T,) and W."""
    return lambda T, W: allowed(torch.arange(T)[:, None], torch.arange(T), W).expand(T, T)


@exercise(
    "12c",
    {
        "W counts the token itself: it sees W - 1 before it, not W": [
            _window(lambda i, j, W: (j <= i) & (i - j <= W)),
            _window(lambda i, j, W: i - j <= W),
        ],
        "one too few: itself and W - 1 before it make W": _window(lambda i, j, W: (j <= i) & (i - j < W - 1)),
        "a token sees itself, too": [
            _window(lambda i, j, W: (j < i) & (i - j < W)),
            _window(lambda i, j, W: (j < i) & (i - j <= W)),
        ],
        "the future is hidden, but the window is gone": _window(lambda i, j, W: j <= i),
        "it still sees W - 1 tokens of the future": _window(lambda i, j, W: (i - j).abs() < W),
        "it sees the future and not the past: rows are queries": [
            _window(lambda i, j, W: (j >= i) & (j - i < W)),
            _window(lambda i, j, W: j >= i),
        ],
        "that is what is FORBIDDEN: True is where a token may look": _window(lambda i, j, W: (j > i) | (i - j >= W)),
        "those are blocks with walls between them: the window slides along": [
            _window(lambda i, j, W: (j <= i) & (i // W == j // W)),
            _window(lambda i, j, W: i // W == j // W),
        ],
        "it sees the FIRST W tokens of the text: the window ends at the token itself": _window(
            lambda i, j, W: (j <= i) & (j < W)
        ),
        "it sees what is further away than the window": _window(lambda i, j, W: (j <= i) & (i - j >= W)),
        "it sees itself alone": _window(lambda i, j, W: i == j),
        "that is added to scores: True and False are asked for": lambda T, W: torch.zeros(T, T).masked_fill(
            ~_window(lambda i, j, W: (j <= i) & (i - j < W))(T, W), -math.inf
        ),
    },
    broken=(
        "a loss too good to be true. Print your table for T = 4: what does the first token see?",
        _window(lambda i, j, W: i - j < W),
    ),
)
def window(answer: Answer) -> Pairs:
    """answer(T, W) -> (T, T), True where a token is seen: itself and the W - 1 before it."""
    for T, W in ((6, 3), (5, 1), (4, 4), (3, 8), (1, 1), (8, 2), (7, 5)):
        yield answer(T, W), torch.ones(T, T, dtype=torch.bool).tril().triu(1 - W)


def _gated(gate: Callable[[Tensor], Tensor]) -> Answer:
    return lambda x, W, V: gate(x @ W) * (x @ V)


@exercise(
    "12d",
    {
        "W opens and V is let through: they are exchanged": lambda x, W, V: _gated(F.silu)(x, V, W),
        "that is GLU, whose gate is the sigmoid alone: silu(a) is a times it": _gated(torch.sigmoid),
        "that is GEGLU: the gate is silu": [_gated(F.gelu), _gated(lambda a: F.gelu(a, approximate="tanh"))],
        "that is ReGLU: the gate is silu": _gated(F.relu),
        "that is GELU's quick cousin: in silu the sigmoid is of a itself": _gated(
            lambda a: a * torch.sigmoid(1.702 * a)
        ),
        "the gate is missing: x W goes through silu": _gated(lambda a: a),
        "nothing is let through: multiply by x V": lambda x, W, V: F.silu(x @ W),
        "the two are multiplied, not added": lambda x, W, V: F.silu(x @ W) + x @ V,
        "only one of the two goes through silu": lambda x, W, V: F.silu(x @ W) * F.silu(x @ V),
        "silu comes before the product": lambda x, W, V: F.silu((x @ W) * (x @ V)),
        "that is the sigmoid of -a: closed and open are exchanged": _gated(lambda a: a * torch.sigmoid(-a)),
        "large numbers give NaN: e^a overflows, so take torch.sigmoid or 1 / (1 + e^-a)": [
            _gated(lambda a: a * a.exp() / (1 + a.exp())),
            _gated(lambda a: a * (a.exp() / (1 + a.exp()))),
        ],
        "sigmoid looks at each number alone: that is a softmax": _gated(lambda a: a * a.softmax(-1)),
        "that is tanh: the sigmoid lies between 0 and 1": [_gated(torch.tanh), _gated(lambda a: a * torch.tanh(a))],
    },
)
def swiglu(answer: Answer) -> Pairs:
    """answer(x (B, T, C), W (C, F), V (C, F)) -> silu(x W) * (x V) (B, T, F)."""
    for B, T, C, width, size in ((2, 3, 4, 6, 1), (1, 1, 3, 2, 1), (3, 2, 1, 5, 2), (1, 4, 4, 4, 1), (2, 2, 3, 5, 99)):
        x, W, V = (size * randn(B, T, C)).round(), *(2 * randn(2, C, width)).round()  # whole numbers: exact products
        yield answer(x, W, V), _gated(lambda a: a / (1 + (-a).exp()))(x.double(), W.double(), V.double())


def _linear(
    scores: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q @ k.T,
    seen: Callable[[Tensor], Tensor] = torch.tril,
    change: Callable[[Tensor], Tensor] = lambda x: x,
) -> Answer:
    """Attention without a softmax: scores (T, T), what is left of them, and a change to all rows at the end."""
    return lambda query, key, value: change(seen(scores(query, key)) @ value)


def _softmaxed(scores: Tensor, fill: float = -math.inf) -> Tensor:
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, fill).softmax(-1)


def _shares(scores: Tensor) -> Tensor:
    return scores.tril() / scores.tril().sum(-1, keepdim=True)


def _positive(x: Tensor) -> Tensor:
    """As Katharopoulos et al. make queries and keys positive, so that scores can be divided by their sum."""
    return F.elu(x) + 1


def _by_state(
    grown: Callable[[Tensor, Tensor, Tensor], Tensor],
    read: Callable[[Tensor, Tensor], Tensor] = lambda q, S: q @ S,
    start: Callable[[Tensor, Tensor], Tensor] = lambda k, v: torch.zeros(len(k), len(v)),
) -> Answer:
    """The loop: a state, how it grows by a key and a value, and how a query reads it."""

    def variant(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        S, rows = start(key[0], value[0]), []
        for q, k, v in zip(query, key, value, strict=True):
            S = grown(S, k, v)
            rows.append(read(q, S))
        return torch.stack(rows)

    return variant


def _turned_round(S: Tensor, k: Tensor, v: Tensor) -> Tensor:
    S += torch.outer(v, k)
    return S


@exercise(
    "12e",
    {
        "the state is read before the token has entered it: a token sees itself, too": _linear(
            seen=lambda x: x.tril(-1)
        ),
        "every row knows the whole text: read the state in the loop, when it holds the tokens up to t": _linear(
            seen=lambda x: x
        ),
        "it sees the future and not the past: row t adds up what comes BEFORE it": [
            _linear(seen=torch.triu),
            _linear(seen=lambda x: x.triu(1)),
        ],
        "nothing goes through a softmax here: a score is the dot product itself": [
            _linear(seen=_softmaxed),
            _linear(lambda q, k: q @ k.T / q.shape[-1] ** 0.5, _softmaxed),
            _linear(seen=lambda x: x.softmax(-1)),
            _linear(lambda q, k: q @ k.T / q.shape[-1] ** 0.5, lambda x: x.softmax(-1)),
            _linear(seen=lambda x: x.softmax(-1).tril()),
        ],
        "nothing is divided by √D here": _linear(lambda q, k: q @ k.T / q.shape[-1] ** 0.5),
        "nothing is divided by the sum of the scores: it may be 0, or below": [
            _linear(seen=_shares),
            lambda query, key, value: _linear()(query, key, value) / (query @ key.T).tril().sum(-1, keepdim=True),
            _linear(lambda q, k: _positive(q) @ _positive(k).T, _shares),
        ],
        "that is a mean: the state adds up": [
            _linear(change=lambda rows: rows / torch.arange(1, len(rows) + 1)[:, None]),
            _linear(change=lambda rows: rows / len(rows)),
        ],
        "the state is made anew at each token: add to what is there": _linear(seen=lambda x: x.diag().diag()),
        "the outer product is the wrong way round: with q @ S, keys stand down and values across": [
            _by_state(lambda S, k, v: S + torch.outer(v, k)),
            _by_state(_turned_round),
            _by_state(lambda S, k, v: S + torch.outer(v, k), start=lambda k, v: torch.zeros(len(v), len(k))),
            _by_state(lambda S, k, v: S + torch.outer(v, k), lambda q, S: S @ q),
        ],
        "the state is read the wrong way round: q @ S mixes its rows, S @ q its columns": _by_state(
            lambda S, k, v: S + torch.outer(k, v), lambda q, S: S @ q
        ),
        "query and key are exchanged: the key is what enters the state": _linear(lambda q, k: k @ q.T),
        "the key enters the state, not the query: (query_t · key_s) is the score": _linear(lambda q, k: q @ q.T),
        "minus infinity is for a softmax: without one, what is forbidden counts 0": [
            _linear(seen=lambda x: x.masked_fill(torch.ones_like(x, dtype=torch.bool).triu(1), -math.inf)),
            _linear(seen=lambda x: x + torch.full_like(x, -math.inf).triu(1)),
        ],
        "those are the scores: multiply them by the values": [
            lambda query, key, value: (query @ key.T).tril(),
            lambda query, key, value: query @ key.T,
        ],
        "that is the state: each query reads it, and what it reads is a row": (lambda query, key, value: key.T @ value),
        "that is the last row alone: one for each token": lambda query, key, value: _linear()(query, key, value)[-1],
        "rows don't add up, the state does: what it holds is in each row already": _linear(
            change=lambda rows: rows.cumsum(0)
        ),
        "queries and keys go in as they are, without a bend": [
            _linear(lambda q, k: _positive(q) @ _positive(k).T),
            _linear(lambda q, k: q.relu() @ k.relu().T),
            _linear(lambda q, k: q.exp() @ k.exp().T),
        ],
    },
)
def linear(answer: Answer) -> Pairs:
    """answer(query, key (T, D), value (T, E)) -> causal attention without a softmax (T, E)."""
    for T, D, E in ((4, 3, 2), (6, 2, 5), (3, 3, 3), (1, 4, 2), (5, 1, 3), (7, 4, 1), (24, 2, 2)):
        query, key = (2 * randn(2, T, D)).round()  # whole numbers: exact sums
        value = (3 * randn(T, E)).round()
        yield answer(query, key, value), _linear()(query.double(), key.double(), value.double())
