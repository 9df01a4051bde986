"""The exercises of notebook 07: the transformer block."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from exercises import compare, gpts
from exercises.judge import Asked, WrongError, built, exercise, prediction
from exercises.properties import (
    begins_alike,
    has_numbers,
    made,
    sees,
    sound,
    uses_heads,
    words,
)


def layer_norm(
    x: Tensor,
    gain: Tensor,
    shift: Tensor,
    dim: int | None = -1,
    below: Callable[[Tensor], Tensor] = lambda variance: (variance + 1e-5).sqrt(),
) -> Tensor:
    x = x - x.mean(dim, keepdim=True)
    return x / below(x.square().mean(dim, keepdim=True)) * gain + shift


def by_one_less(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    C = torch.tensor(x.shape[-1])
    return layer_norm(x, gain, shift, below=lambda variance: (variance * C / (C - 1) + 1e-5).sqrt())


@exercise(
    "7a",
    layer_norm,
    "x: ... T C, gain: C, shift: C",
    scales=(0.003,),  # rows that hardly vary
    mistakes={
        "each row by itself is normalised, along the last dimension: no other word has a say in it": [
            {"dim": 0},
            {"dim": 1},
            {"dim": None},
        ],
        "the variance divides by C, not by C - 1: unbiased=False": by_one_less,
        "1e-5 is added to the variance, below the root, so that a row survives that doesn't vary": [
            {"below": lambda variance: variance.sqrt()},
            {"below": lambda variance: variance.sqrt() + 1e-5},
            {"below": lambda variance: (variance + 1e-6).sqrt()},
            {"below": lambda variance: (variance + 1e-8).sqrt()},
        ],
    },
)
def _(answer: Asked) -> None:
    """The rows are normalised, before the gain and the shift."""
    x = 3 * words(4, 8) + 2
    rows = compare.numbers(answer(x, torch.ones(8), torch.zeros(8)))
    mean, variance = rows.mean(-1), rows.var(-1, unbiased=False)
    for called, right, given in (("mean", 0, mean), ("variance", 1, variance)):
        if (given - right).abs().max() > 1e-3:
            raise WrongError(
                f"with a gain of 1 and a shift of 0, a row has a {called} of {given[0]:.3g}, not {right}"
            )


# ---------------------------------------------------------------- 7b
@built("7b")
def block(MyBlock: Any) -> None:
    """MyBlock(C, num_heads, dropout=0.0): x (B, T, C) -> (B, T, C), two branches that are added to a stream."""

    def make(dropout: float = 0.0, num_heads: int = 4) -> nn.Module:
        return made(MyBlock, {"C": C, "num_heads": num_heads, "dropout": dropout})

    for C, num_heads in ((12, 3), (10, 5), (32, 4)):
        run = sound(MyBlock, {"C": C, "num_heads": num_heads}, width=C)
    sees(run, C, future=False)
    begins_alike(run, words(2, 6, C))
    gpts.leaves_the_stream(make(), C)
    has_numbers(make(), 8 * C * C, "4 C² in attention, and as many at least in an MLP that widens")
    gpts.mlp_bends(make(), C)
    gpts.mlp_reads_attention(lambda: make(num_heads=1), C)
    gpts.mlp_comes_back(make(), C)
    gpts.norms_come_first(make(), C)
    uses_heads(lambda num_heads: make(num_heads=num_heads), words(2, 5, C), C)
    gpts.drops_both_branches(lambda p: make(p, num_heads=1), C)


# ---------------------------------------------------------------- 7d
def but(right: tuple[int, ...], place: int, *others: int) -> list[tuple[int, ...]]:
    """What is right, but for one number."""
    return [(*right[:place], other, *right[place + 1 :]) for other in others]


DEPTHS = (2, 0, 1)

prediction(
    "7d",
    DEPTHS,
    mistakes={
        "one causal layer is not enough: *today* takes its mixture from the same bag of words in both": (
            but(DEPTHS, 0, 1)
        ),
        "the causal mask tells earlier words from later ones: after one layer the two *dog* differ already, since one "
        "has seen more": but(DEPTHS, 0, 0, 3, 4),
        "without a mask every word sees the same bag in both, in every layer, and so the outputs never differ: 0": (
            but(DEPTHS, 1, 1, 2, 3, 4)
        ),
    },
)


# ---------------------------------------------------------------- 7e
Part = Callable[[Tensor], Tensor]
Step = Callable[[Tensor, Part, Part], Tensor]  # the stream, a norm, a branch -> the stream


class Branch(nn.Module):
    """Something in the place of attention or an MLP."""

    def __init__(self, C: int, seed: int):
        super().__init__()
        self.register_buffer("W", words(C, C, seed=seed))

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.W.to(x.dtype)).cumsum(0).tanh()

    def __repr__(self) -> str:
        return "branch"


def norm(x: Tensor) -> Tensor:
    """LayerNorm"""
    return torch.layer_norm(x, x.shape[-1:])


def stack(x: Tensor, norm: Part, branches: list[Part], step: Step | None = None) -> Tensor:
    for branch in branches:
        x = step(x, norm, branch) if step else x + branch(norm(x))
    return x


def stacks() -> Iterator[tuple[Any, ...]]:
    for T, C, L in ((1, 2, 1), (1, 2, 0), (2, 3, 2), (4, 4, 6)):
        yield (3 * words(T, C) + 1).round(), norm, [Branch(C, seed) for seed in range(L)]


exercise(
    "7e",
    stack,
    stacks,
    broken=(
        "with branches that write nothing but zeros, x should come out as it went in. Does it?",
        functools.partial(stack, step=lambda x, norm, branch: norm(x) + branch(norm(x))),
    ),
    mistakes={
        "there is no residual path any more: a branch is ADDED to the stream": [
            {"step": lambda x, norm, branch: branch(norm(x))},
            {"step": lambda x, norm, branch: branch(x)},
        ],
        "the stream is still normalised: a branch reads norm(x), and what it makes is added to x as it was": [
            {"step": lambda x, norm, branch: norm(x + branch(x))},
            {"step": lambda x, norm, branch: norm(x + branch(norm(x)))},
            {"step": lambda x, norm, branch: norm(x) + branch(x)},
        ],
        "normalise what a branch reads, and nothing else": [
            {"step": lambda x, norm, branch: x + branch(x)},
            {"step": lambda x, norm, branch: x + norm(branch(x))},
            {"step": lambda x, norm, branch: x + norm(branch(norm(x)))},
            lambda x, norm, branches: norm(stack(x, norm, branches)),
        ],
    },
)


# ---------------------------------------------------------------- 7f
@built("7f")
def gpt(MyGPT: Any) -> None:
    """MyGPT(vocab_size, context_length, n_layer, n_head, n_embd, dropout=0.0): tokens (B, T) -> logits (B, T, V)."""
    V, T = gpts.GPT["vocab_size"], gpts.GPT["context_length"]
    gpts.gives_logits(MyGPT)
    gpts.reads_its_past(sound(MyGPT, gpts.GPT, width=V, x=gpts.ids(V, 4, T)))
    gpts.knows_the_order(MyGPT)
    gpts.uses_its_sizes(MyGPT)
    gpts.begins_unsure(MyGPT)
    gpts.has_a_path(MyGPT)
    gpts.drops_in_blocks(MyGPT)
    gpts.learns_by_heart(MyGPT)


# ---------------------------------------------------------------- 7g
SHAPES = (2 * 4 * 10 * 10, 2 * 10 * 4 * 32, 2 * 10 * 65)

prediction(
    "7g",
    SHAPES,
    mistakes={
        "these texts have 10 tokens: the context of 64 is only how many a text may have": [
            (2 * 4 * 64 * 64, 2 * 64 * 4 * 32, 2 * 64 * 65),
            *but(SHAPES, 0, 2 * 4 * 64 * 64, 2 * 4 * 10 * 64),
            *but(SHAPES, 1, 2 * 64 * 4 * 32),
            *but(SHAPES, 2, 2 * 64 * 65),
        ],
        "every head has a table of scores, T times T, in each of the two texts, and a score is ONE number": [
            (4 * 10 * 10, 10 * 4 * 32, 10 * 65),
            *but(SHAPES, 0, 2 * 10 * 10, 4 * 10 * 10, 10 * 10, 2 * 4 * 10, 2 * 4 * 10 * 10 * 8),
        ],
        "the MLP reads each token as a whole, and its first matrix widens: 4 C numbers for each token of both": (
            but(SHAPES, 1, 640, 3_200, 5_120, 10_240, 160, 25_600, 4_096, 1_280)
        ),
    },
)


# ---------------------------------------------------------------- 7h
def first_loss(V: int, C: int, std: float) -> float:
    """A logit has the variance C std²; the right one is 0 on average."""
    return math.log(V) + C * std**2 / 2


def above_even(more: Callable[[int, float], float]) -> Callable[[int, int, float], float]:
    """The loss of even chances, and what the scatter of the logits adds."""
    return lambda V, C, std: math.log(V) + more(C, std)


exercise(
    "7h",
    first_loss,
    lambda: [
        (65, 32, 0.02),
        (27, 10, 0.0),
        (256, 16, 0.25),
        (1_000, 64, 0.125),
        (50_257, 768, 0.02),
    ],
    mistakes={
        "those are even chances: logits that scatter make one word likely for no reason, and that costs": (
            above_even(lambda C, std: 0.0)
        ),
        "a logit adds up C products, each with the variance std²; and e to a normal number is e to HALF its variance, "
        "on average": [
            above_even(lambda C, std: C * std**2),
            above_even(lambda C, std: C * std),
            above_even(lambda C, std: C * std / 2),
            above_even(lambda C, std: C**0.5 * std),
            above_even(lambda C, std: C**0.5 * std / 2),
            above_even(lambda C, std: C**0.5 * std**2 / 2),
            above_even(lambda C, std: std**2),
            above_even(lambda C, std: std**2 / 2),
            above_even(lambda C, std: std**2 / (2 * C)),
            above_even(lambda C, std: (C * std) ** 2 / 2),
        ],
        "the loss is the logarithm of that average: the logarithm of e to a power is the power": [
            above_even(lambda C, std: math.exp(C * std**2 / 2)),
            above_even(lambda C, std: math.exp(C * std**2 / 2) - 1),
            lambda V, C, std: math.log(V) * math.exp(C * std**2 / 2),
        ],
    },
)
