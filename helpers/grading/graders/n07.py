"""The exercises of notebook 07: the block."""

from collections.abc import Callable

import torch
from torch import Tensor, randn

from helpers.grading.judge import Answer, Pairs, exercise

Part = Callable[[Tensor], Tensor]


def _normed(dim: int | tuple[int, ...] = -1, correction: int = 0, inside: float = 1e-5, outside: float = 0.0,
            center: bool = True, root: bool = True) -> Answer:  # fmt: skip
    """LayerNorm with one part replaced."""

    def variant(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        mean, variance = x.mean(dim, keepdim=True), x.var(dim, keepdim=True, correction=correction)
        below = (variance + inside) ** (0.5 if root else 1) + outside
        return (x - mean if center else x) / below * gain + shift

    return variant


def _root_mean_square(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain + shift


def _divided_by_length(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    x = x - x.mean(-1, keepdim=True)
    return x / (x.norm(dim=-1, keepdim=True) + 1e-5) * gain + shift


@exercise(
    "7a",
    {
        "it normalises the columns, across words: each row by itself is meant": _normed(0),
        "it normalises the whole table at once: each row by itself is meant": _normed((0, 1)),
        "the variance divides by C, not by C - 1: unbiased=False": _normed(correction=1),
        "1e-5 is missing: a row that hardly varies is blown up": _normed(inside=0.0),
        "1e-5 stands outside the root: add it to the variance": [
            _normed(inside=0.0, outside=1e-5),
            _normed(inside=0.0, outside=1e-5, correction=1),
        ],
        "1e-5 is asked for, not another number": [_normed(inside=10.0**size) for size in (-3, -4, -6, -7, -8, -12)],
        "it divides by the variance: its square root is meant": [
            _normed(root=False),
            _normed(root=False, inside=0.0, outside=1e-5),
        ],
        "the mean is not taken away": _normed(center=False),
        "that is RMSNorm, which leaves the mean where it is": _root_mean_square,
        "the gain is forgotten": lambda x, gain, shift: _normed()(x, torch.ones_like(gain), shift),
        "the shift is forgotten": lambda x, gain, shift: _normed()(x, gain, torch.zeros_like(shift)),
        "gain and shift are forgotten": (
            lambda x, gain, shift: _normed()(x, torch.ones_like(gain), torch.zeros_like(shift))
        ),
        "the shift comes after the gain: don't multiply it": lambda x, gain, shift: _normed()(x, gain, gain * shift),
        "gain and shift are exchanged": lambda x, gain, shift: _normed()(x, shift, gain),
        "it divides by the length of the row, which is √C times the standard deviation": _divided_by_length,
        "the mean is only taken away, and nothing is divided": (
            lambda x, gain, shift: (x - x.mean(-1, keepdim=True)) * gain + shift
        ),
    },
)
def layer_norm(answer: Answer) -> Pairs:
    """answer(x (T, C), gain (C,), shift (C,)) -> each row to mean 0 and variance 1, times gain, plus shift (T, C)."""
    for T, C, size, level in ((5, 8, 1, 0), (3, 3, 0.05, 1), (5, 8, 5e-4, 2**-7), (1, 4, 2, -3), (4, 2, 1, 0),
                              (2, 16, 100, 50)):  # fmt: skip
        x, gain, shift = size * randn(T, C) + level, randn(C), randn(C)
        if T == 5:
            x[2] = level  # a row that doesn't vary at all
        yield answer(x, gain, shift), torch.layer_norm(x.double(), (C,), gain.double(), shift.double()), 1e-4


Step = Callable[[Tensor, Part, Part], Tensor]  # the stream, a norm and a branch -> the stream


def _pre_norm(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return x + branch(norm(x))


def _post_norm(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return norm(x + branch(x))


def _without_path(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return branch(norm(x))


def _without_norm(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return x + branch(x)


def _normed_stream(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return norm(x) + branch(norm(x))


def _normed_branch(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return x + norm(branch(x))


def _block(attends: Step = _pre_norm, thinks: Step = _pre_norm) -> Answer:
    """Two steps: attention with norm1, then the MLP with norm2."""
    return lambda x, norm1, attention, norm2, mlp: thinks(attends(x, norm1, attention), norm2, mlp)


_right_block = _block()


@exercise(
    "7b",
    {
        "that is post-norm: each norm stands before its branch, and the sum is left alone": _block(
            _post_norm, _post_norm
        ),
        "both residual paths are missing: a branch is ADDED to x": _block(_without_path, _without_path),
        "the residual path around the MLP is missing": _block(thinks=_without_path),
        "the residual path around attention is missing": _block(_without_path),
        "the stream is normalised: only what a branch reads should be": [
            _block(_normed_stream, _normed_stream),
            _block(_normed_stream),
            _block(thinks=_normed_stream),
        ],
        "attention and MLP stand side by side: the MLP reads what attention has written": [
            lambda x, norm1, attention, norm2, mlp: x + attention(norm1(x)) + mlp(norm2(x)),
            lambda x, norm1, attention, norm2, mlp: x + attention(norm1(x)) + mlp(norm1(x)),
        ],
        "the MLP comes first: attention does": [
            lambda x, norm1, attention, norm2, mlp: _right_block(x, norm2, mlp, norm1, attention),
            lambda x, norm1, attention, norm2, mlp: _right_block(x, norm1, mlp, norm2, attention),
        ],
        "the two norms are exchanged": (
            lambda x, norm1, attention, norm2, mlp: _right_block(x, norm2, attention, norm1, mlp)
        ),
        "norm1 is used twice: the MLP has norm2": (
            lambda x, norm1, attention, norm2, mlp: _right_block(x, norm1, attention, norm1, mlp)
        ),
        "nothing is normalised": _block(_without_norm, _without_norm),
        "what a branch writes is normalised: normalise what it reads": _block(_normed_branch, _normed_branch),
        "the second residual path starts from the first x: what attention wrote is lost": (
            lambda x, norm1, attention, norm2, mlp: x + mlp(norm2(x + attention(norm1(x))))
        ),
        "what attention wrote is added twice": (
            lambda x, norm1, attention, norm2, mlp: _right_block(x, norm1, attention, norm2, mlp) + attention(norm1(x))
        ),
        "x itself is added twice": (
            lambda x, norm1, attention, norm2, mlp: _right_block(x, norm1, attention, norm2, mlp) + x
        ),
        "the MLP is forgotten": lambda x, norm1, attention, norm2, mlp: x + attention(norm1(x)),
    },
)
def block(answer: Answer) -> Pairs:
    """answer(x, norm1, attention, norm2, mlp) -> the pre-norm block's output, of x's shape."""
    for T, C in ((3, 4), (1, 2), (5, 5)):
        x, (W, U) = randn(T, C), 0.5 * randn(2, C, C)
        parts: list[Part] = [
            lambda x: x / x.norm(),
            lambda x, W=W: (x @ W).cumsum(0).sin(),
            lambda x: x - x.mean() + 0.1,
            lambda x, U=U: (x @ U).tanh(),
        ]
        yield answer(x, *parts), _right_block(x, *parts)


Count = Callable[[int, int], float]


def _share(
    mlps: Count = lambda L, C: 8 * C * C * L,
    words: float = 1,
    places: float = 1,
    attention: float = 4,
    gains: float = 1,
    more: Count = lambda L, C: 0,
) -> Answer:
    """The MLPs' share, with another count on the line, or below it."""

    def variant(V: int, T: int, L: int, C: int) -> float:
        blocks = L * ((attention + 8) * C * C + 2 * C * gains)
        return mlps(L, C) / (words * V * C + places * T * C + blocks + C * gains + more(L, C))

    return variant


@exercise(
    "7c",
    {
        "that is the MLP of one block: there are L": _share(lambda L, C: 8 * C * C),
        "the head shares its table with the tokens: count it once": _share(words=2),
        "two thirds is the share in a block: the tables count, too": lambda V, T, L, C: 8 / 12,
        "the token table is forgotten": _share(words=0),
        "the position table is forgotten": _share(places=0),
        "both tables are forgotten": _share(words=0, places=0),
        "an MLP has two matrices, up to 4C and back down, so 8 C²; 4 C² is what attention has": [
            _share(lambda L, C: 4 * C * C * L),
            _share(lambda L, C: 4 * C * C * L, more=lambda L, C: -4 * C * C * L),
        ],
        "attention has four matrices: query, key, value and output": [
            _share(attention=3),
            _share(attention=0),
            _share(attention=1),
        ],
        "the gains are forgotten: two of C in each block, and a last one": _share(gains=0),
        "the last norm has a gain, too": _share(more=lambda L, C: -C),
        "each block has two norms, with C gains each": _share(more=lambda L, C: -L * C),
        "there are no biases, and no shifts": [
            lambda V, T, L, C: (8 * C * C + 5 * C) * L / (V * C + T * C + L * (12 * C * C + 13 * C) + 2 * C),
            lambda V, T, L, C: 8 * C * C * L / (V * C + T * C + L * (12 * C * C + 13 * C) + 2 * C),
            lambda V, T, L, C: (8 * C * C + 5 * C) * L / (V * C + T * C + L * (12 * C * C + 7 * C) + C),
            _share(more=lambda L, C: 2 * L * C + C),
        ],
        "a norm's gain is no part of the MLP": _share(lambda L, C: (8 * C * C + C) * L),
        "that is a percentage: a share lies between 0 and 1": _share(lambda L, C: 800 * C * C * L),
        "that is how many parameters the MLPs have: divide by all": lambda V, T, L, C: 8 * C * C * L,
        "that is the share of everything else": lambda V, T, L, C: 1 - _share()(V, T, L, C),
    },
)
def mlp_share(answer: Answer) -> Pairs:
    """answer(V, T, L, C) -> share of a GPT's parameters in its MLPs, without biases, the head sharing its table."""
    for V, T, L, C in ((5, 3, 2, 2), (65, 64, 4, 128), (50257, 1024, 12, 768), (50257, 1024, 48, 1600), (1, 7, 1, 1)):
        yield answer(V, T, L, C), _share()(V, T, L, C), 1e-6


@exercise(
    "7d",
    {
        "one causal layer is not enough: *today* takes its mixture from the same bag of words in both": [(1, ..., ...)],
        "the causal mask tells earlier words from later ones: the second layer can use what the first one saw": [
            (0, ..., ...)
        ],
        "that is more than it takes: after one layer the two *dog* differ already, since one has seen more": [
            (3, ..., ...),
            (4, ..., ...),
        ],
        "without a mask every word sees the same bag in both, in every layer, and so the outputs never differ: 0": [
            (2, 1, ...),
            (2, 2, ...),
            (2, 3, ...),
            (2, 4, ...),
        ],
        "with positions the word at place 0 is another vector in each text: no layer has to find that out": [
            (2, 0, 0),
            (2, 0, 2),
            (2, 0, 3),
        ],
    },
)
def depths(answer: Answer) -> Pairs:
    """answer = layers until the last outputs differ: causal; without mask (0 for never); the same with positions."""
    yield answer, (2, 0, 1), 0.01


def _broken_stack(x: Tensor, norm: Part, branches: list[Part]) -> Tensor:
    for branch in branches:
        x = norm(x)
        x = x + branch(x)
    return x


def _stack(step: Step) -> Answer:
    """One step for each branch."""

    def variant(x: Tensor, norm: Part, branches: list[Part]) -> Tensor:
        for branch in branches:
            x = step(x, norm, branch)
        return x

    return variant


_right_stack = _stack(_pre_norm)


def _added_to_the_first(x: Tensor, norm: Part, branches: list[Part]) -> Tensor:
    return x + branches[-1](norm(_added_to_the_first(x, norm, branches[:-1]))) if branches else x


@exercise(
    "7e",
    {
        "there is no residual path any more: a branch is ADDED to the stream": _stack(_without_path),
        "that is post-norm, and the stream is still normalised": [
            _stack(_post_norm),
            _stack(lambda x, norm, branch: norm(x + branch(norm(x)))),
        ],
        "nothing is normalised any more: a branch reads norm(x)": _stack(_without_norm),
        "what a branch writes is normalised: normalise what it reads": [
            _stack(_normed_branch),
            _stack(lambda x, norm, branch: x + norm(branch(norm(x)))),
        ],
        "every branch is added to the first x: the stream must keep what was written before": _added_to_the_first,
        "all branches read the first x: each should read what those below it have written": (
            lambda x, norm, branches: x + sum(branch(norm(x)) for branch in branches)
        ),
        "the branch reads x as it is, and the stream is still normalised": _stack(
            lambda x, norm, branch: norm(x) + branch(x)
        ),
        "the stream itself is asked for, without a last norm": (
            lambda x, norm, branches: norm(_right_stack(x, norm, branches))
        ),
        "only the last branch is left": lambda x, norm, branches: _right_stack(x, norm, branches[-1:]),
        "only the first branch is left": lambda x, norm, branches: _right_stack(x, norm, branches[:1]),
        "the stream doubles at every branch: x is added once": _stack(lambda x, norm, branch: 2 * x + branch(norm(x))),
    },
    broken=("with branches that write nothing but zeros, x should come out as it went in. Does it?", _broken_stack),
)
def stack(answer: Answer) -> Pairs:
    """answer(x (T, C), norm, branches) -> the residual stream after all branches (T, C)."""

    def norm(x: Tensor) -> Tensor:
        return torch.layer_norm(x, x.shape[-1:])

    for T, C, L in ((3, 4, 2), (2, 6, 0), (1, 3, 1), (4, 4, 6)):
        branches = [lambda x, W=W: (x @ W).cumsum(0).tanh() for W in randn(L, C, C)]
        x = 3 * randn(T, C) + 1
        yield answer(x, norm, branches), _right_stack(x, norm, branches), 1e-4
