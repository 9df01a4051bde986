"""The exercises of notebook 07: the block."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn, randn

from exercises.graders import building, gpts, layers
from exercises.graders.stages import then
from exercises.judge import Answer, Pairs, built, exercise

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
        "dimension 1 holds the numbers of a word in a table (T, C) only: count from the end, dim=-1": _normed(1),
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
    """answer(x (..., C), gain (C,), shift (C,)) -> each row to mean 0 and variance 1, times gain, plus shift."""
    yield from then(_tables(answer), _batches(answer))


def _tables(answer: Answer) -> Pairs:
    for T, C, size, level in ((5, 8, 1, 0), (3, 3, 0.05, 1), (5, 8, 5e-4, 2**-7), (1, 4, 2, -3), (4, 2, 1, 0),
                              (2, 16, 100, 50)):  # fmt: skip
        x, gain, shift = size * randn(T, C) + level, randn(C), randn(C)
        if T == 5:
            x[2] = level  # a row that doesn't vary at all
        yield answer(x, gain, shift), _layer_norm(x, gain, shift), 1e-4


def _batches(answer: Answer) -> Pairs:
    """For who is right about tables: several texts at once."""
    for shape in ((2, 3, 4), (2, 2, 3, 5)):
        x, gain, shift = randn(shape), randn(shape[-1]), randn(shape[-1])
        yield answer(x, gain, shift), _layer_norm(x, gain, shift), 1e-4


def _layer_norm(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return torch.layer_norm(x.double(), gain.shape, gain.double(), shift.double())


Step = Callable[[Tensor, Part, Part], Tensor]  # the stream, a norm and a branch -> the stream


def _pre_norm(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return x + branch(norm(x))


def _post_norm(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return norm(x + branch(x))


def _without_path(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return branch(norm(x))


def _without_norm(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return x + branch(x)


def _normed_branch(x: Tensor, norm: Part, branch: Part) -> Tensor:
    return x + norm(branch(x))


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


@exercise(
    "7g",
    {
        "these texts have 10 tokens: the context of 64 is only how many a text may have": [
            (32_768, ..., ...),
            (5_120, ..., ...),
            (800, 16_384, ...),
            (800, 2_560, 8_320),
        ],
        "every head has a table of scores of its own: there are four": [(200, ..., ...), (100, ..., ...)],
        "there are two texts": [(400, ..., ...), (800, 1_280, ...), (800, 2_560, 650)],
        "that is for all three layers: ONE is asked for": [(2_400, ..., ...), (800, 7_680, ...)],
        "future scores are computed as well, and hidden only afterwards": [(440, ..., ...), (360, ..., ...)],
        "a score is ONE number, the sum of D products": (6_400, ..., ...),
        "every token meets every token: that makes T times T in each head": [(80, ..., ...), (640, ..., ...)],
        "the first matrix of the MLP widens: each token has 4 C numbers behind it": (800, 640, ...),
        "the second matrix brings them back to C: the first alone is asked for": [(800, 3_200, ...), (800, 5_120, ...)],
        "heads are attention's: the MLP reads each token as a whole": [(800, 10_240, ...), (800, 160, ...)],
        "no token meets another in the MLP: T once, not T times T": (800, 25_600, ...),
        "that is how many numbers the matrix has: what it GIVES is asked for": [(800, 4_096, ...), (800, 2_560, 2_080)],
        "every token gets logits, not the last one alone": [(800, 2_560, 130), (800, 2_560, 65)],
        "logits come one for each word of the vocabulary, not C": (800, 2_560, 640),
        "logits come once, after the last layer": (800, 2_560, 3_900),
    },
)
def shapes(answer: Answer) -> Pairs:
    """answer = how many scores and hidden numbers a layer has, and how many logits there are.

    A GPT of vocabulary 65, context 64, 3 layers, 4 heads and width 32 reads 2 texts of 10 tokens.
    """
    B, T, V, H, C = 2, 10, 65, 4, 32
    yield answer, (B * H * T * T, B * T * 4 * C, B * T * V), 0.1


def _above_even(more: Callable[[int, float], float]) -> Answer:
    """The loss of even chances, and what the scatter of the logits adds."""
    return lambda V, C, std: math.log(V) + more(C, std)


@exercise(
    "7h",
    {
        "those are even chances: logits that scatter make one word likely for no reason, and that costs": _above_even(
            lambda C, std: 0.0
        ),
        "e to the power z is e to HALF the variance, on average": _above_even(lambda C, std: C * std**2),
        "std is the root of the variance: square it": [
            _above_even(lambda C, std: C * std / 2),
            _above_even(lambda C, std: C * std),
        ],
        "that is half a standard deviation of a logit, or a whole one: its variance is meant": [
            _above_even(lambda C, std: C**0.5 * std),
            _above_even(lambda C, std: C**0.5 * std / 2),
        ],
        "variances of C products add up: C times, not √C times": _above_even(lambda C, std: C**0.5 * std**2 / 2),
        "a logit adds up C products, not one: each brings its variance": [
            _above_even(lambda C, std: std**2 / 2),
            _above_even(lambda C, std: std**2),
        ],
        "C variances add up, not C times C: standard deviations don't add": _above_even(
            lambda C, std: (C * std) ** 2 / 2
        ),
        "variances add up: they are not shared among C numbers": _above_even(lambda C, std: std**2 / (2 * C)),
        "the sign is wrong: to be sure of something without a reason costs": _above_even(
            lambda C, std: -C * std**2 / 2
        ),
        "the loss is the logarithm of that average: the logarithm of e to a power is the power": [
            _above_even(lambda C, std: math.exp(C * std**2 / 2)),
            _above_even(lambda C, std: math.exp(C * std**2 / 2) - 1),
            lambda V, C, std: math.log(V) * math.exp(C * std**2 / 2),
        ],
        "that is in bits: nats have the logarithm with the base e": [
            lambda V, C, std: (math.log(V) + C * std**2 / 2) / math.log(2),
            lambda V, C, std: math.log2(V) + C * std**2 / 2,
        ],
        "that is the perplexity: the loss is its logarithm": lambda V, C, std: V * math.exp(C * std**2 / 2),
        "all V words share the chances, the right one, too": lambda V, C, std: math.log(V - 1) + C * std**2 / 2,
        "the logarithm of a product is a sum: ln V is not multiplied": lambda V, C, std: math.log(V) * C * std**2 / 2,
    },
)
def first_loss(answer: Answer) -> Pairs:
    """answer(V, C, std) -> the loss, in nats, of a head (V, C) drawn with `std`, for C numbers of size 1.

    A logit is normal with the variance C std². The right one is 0 on average, and so the loss is the logarithm of the
    sum of V exponentials, each e to half the variance on average.
    """
    for V, C, std in ((65, 32, 0.02), (65, 128, 0.08), (50_257, 768, 0.02), (1_000, 64, 0.125), (256, 16, 0.25),
                      (100_000, 100, 0.05), (27, 10, 0.0)):  # fmt: skip
        yield answer(V, C, std), math.log(V) + C * std**2 / 2, 1e-4


@built("7b", "a class")
def whole_block(MyBlock: Answer) -> None:
    """MyBlock(C, num_heads, dropout=0.0): attention and an MLP, each with a norm and a path: (B, T, C) -> (B, T, C)."""
    for C, H, B, T in ((12, 3, 2, 5), (8, 1, 1, 1), (10, 5, 3, 2)):
        building.reading(building.made(MyBlock, C=C, num_heads=H), C)(building.words(B, T, C))
    layers.has_a_path(building.made(MyBlock, C=64, num_heads=4).eval(), 64)
    C = 32
    module = building.sound(MyBlock, building.words(3, 5, C), C, C=C, num_heads=4)
    run = building.reading(module, C)
    building.sees_the_past(run, building.words(6, C), building.words(6, C, seed=1))
    layers.hides_large_ones(run, C)
    building.begins_alike(run, building.words(1, 6, C))
    layers.is_normed(module, C)
    layers.leaves_the_stream(building.made(MyBlock, C=C, num_heads=4).eval(), C)
    building.widens(sum(parameter.numel() for parameter in module.parameters()), C)
    layers.bends(module, C)
    layers.comes_back(module, C)
    layers.one_after_the_other(building.made(MyBlock, C=C, num_heads=1).eval(), C)
    x = building.words(2, 5, C)

    def of(heads: int) -> nn.Module:
        block = building.made(MyBlock, C=C, num_heads=heads).eval()
        building.stir(block)
        return block

    building.uses_heads(lambda block: building.reading(block, C)(x), of, "is num_heads used?")
    layers.keeps_the_stream(building.made(MyBlock, C=C, num_heads=4, dropout=0.5), C)
    building.drops(
        lambda block: building.reading(block, C)(x), lambda p: building.made(MyBlock, C=C, num_heads=4, dropout=p)
    )
    layers.drops_both(building.made(MyBlock, C=C, num_heads=4, dropout=0.5), C)


@built("7f", "a class")
def gpt(MyGPT: Answer) -> None:
    """MyGPT(vocab_size, context_length, n_layer, n_head, n_embd, dropout=0.0): tokens (B, T) -> logits (B, T, V)."""
    gpts.gives_logits(MyGPT)
    run = gpts.is_sound(MyGPT)
    gpts.reads_its_past(run)
    gpts.knows_the_order(MyGPT)
    gpts.uses_its_sizes(MyGPT)
    gpts.begins_unsure(MyGPT)
    gpts.has_a_path(MyGPT)
    gpts.drops(MyGPT)
    gpts.learns_by_heart(MyGPT)
