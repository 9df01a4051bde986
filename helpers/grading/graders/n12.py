"""The exercises of notebook 12: what today's models changed."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, randint, randn

from helpers.grading.judge import Answer, Pairs, exercise

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


def _rows(
    before: Callable[[Tensor, int], Tensor] = lambda tokens, V: F.pad(tokens, (1, 0), value=V)[:, :-1],
    number: Callable[..., Tensor] = lambda before, now, V: before * (V + 1) + now,
) -> Answer:
    """The row of each pair, from what stands before each token and how a number is made of the two."""
    return lambda tokens, V, rows: number(before(tokens, V), tokens, V) % rows


def _kept(place: int, value: Callable[[Tensor, int], Tensor | int]) -> Callable[[Tensor, int], Tensor]:
    """What stands before each token, with something else at one place."""

    def before(tokens: Tensor, V: int) -> Tensor:
        shifted = tokens.roll(1, dims=1)
        shifted[:, place] = value(tokens, V)
        return shifted

    return before


@exercise(
    "12e",
    {
        "the base is V + 1: with the one that stands before the text there are V + 1 digits": _rows(
            number=lambda before, now, V: before * V + now
        ),
        "the digits are exchanged: the previous token is the higher one": _rows(
            number=lambda before, now, V: now * (V + 1) + before
        ),
        "before the first token stands V, not 0, which is a token itself": _rows(_kept(0, lambda tokens, V: 0)),
        "before the first token stands V, not V - 1, which is a token itself": _rows(_kept(0, lambda tokens, V: V - 1)),
        "before the first token stands V, not -1": _rows(_kept(0, lambda tokens, V: -1)),
        "before the first token stands the last one: a text is no ring": _rows(
            lambda tokens, V: tokens.roll(1, dims=1)
        ),
        "before the first token stands that token again: V is asked for": _rows(
            _kept(0, lambda tokens, V: tokens[:, 0])
        ),
        "before a text's first token stands the end of the text above: each begins anew": _rows(
            lambda tokens, V: F.pad(tokens.flatten(), (1, 0), value=V)[:-1].view(tokens.shape)
        ),
        "that looks at the NEXT token, which a model must not see": _rows(
            lambda tokens, V: F.pad(tokens, (0, 1), value=V)[:, 1:]
        ),
        "the modulo is missing: the table has only `rows` rows": [
            lambda tokens, V, rows: _rows()(tokens, V, (V + 1) ** 2),
            lambda tokens, V, rows: _rows(number=lambda before, now, V: before * V + now)(tokens, V, (V + 1) ** 2),
        ],
        "it cuts numbers off at the last row: take what is left after a division": (
            lambda tokens, V, rows: _rows()(tokens, V, (V + 1) ** 2).clamp(max=rows - 1)
        ),
        "that is how often `rows` goes into the number: what is left is asked for": (
            lambda tokens, V, rows: _rows()(tokens, V, (V + 1) ** 2) // rows
        ),
        "the two are only added: 1, 2 and 2, 1 get one row": _rows(number=lambda before, now, V: before + now),
        "those are the tokens: a row is for a pair": lambda tokens, V, rows: tokens % rows,
        "those are triples: only one token before is asked for": _rows(
            number=lambda before, now, V: (F.pad(before, (1, 0), value=V)[:, :-1] * (V + 1) + before) * (V + 1) + now
        ),
        "the first token has a row, too": lambda tokens, V, rows: (tokens[:, :-1] * (V + 1) + tokens[:, 1:]) % rows,
    },
)
def rows(answer: Answer) -> Pairs:
    """answer(tokens (B, T), V, rows) -> for each place the row of (previous, current) (B, T)."""
    for B, T, V, count in (
        (2, 5, 7, 64),
        (3, 4, 9, 17),
        (1, 1, 4, 25),
        (2, 6, 65, 1000),
        (1, 3, 3, 7),
        (2, 2, 50_000, 4096),
    ):
        tokens = randint(V, (B, T))
        yield answer(tokens, V, count), _rows()(tokens, V, count), 0.01
