"""The exercises of notebook 07: the transformer block."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises import gpts
from exercises.judge import built, exercise, prediction
from exercises.properties import (
    begins_alike,
    has_numbers,
    made,
    sees,
    sound,
    uses_heads,
    words,
)


def layer_norm(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:]) * gain + shift


exercise(
    "7a",  # LayerNorm by hand
    layer_norm,
    "x: ... T C, gain: C, shift: C",
    scales=(0.003,),  # rows that hardly vary
    mistakes={
        "each row by itself is normalised, along the last dimension: no other word has a say in it": (
            lambda x, gain, shift: (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt() * gain + shift
        ),
        "the variance divides by C, not by C - 1: unbiased=False": (
            lambda x, gain, shift: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt() * gain + shift
        ),
        "1e-5 is added to the variance, below the root, so that a row survives that doesn't vary": (
            lambda x, gain, shift: (x - x.mean(-1, True)) / x.std(-1, correction=0, keepdim=True) * gain + shift
        ),
    },
)


# ---------------------------------------------------------------- 7b
@built("7b")  # A block of your own
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
prediction(
    "7d",  # Who bit whom?
    right=(2, 0, 1),
    hints=(
        "in one causal layer *today* takes its mixture from the same bag of words in both texts; but the mask tells "
        "earlier words from later ones, so what is in the bag differs after it",
        "without a mask every word sees the same bag in both texts, in every layer",
        "with positions, the bags hold different vectors from the start",
    ),
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
    "7e",  # The stream that forgets
    stack,
    stacks,
    broken=(
        "with branches that write nothing but zeros, x should come out as it went in. Does it?",
        functools.partial(stack, step=lambda x, norm, branch: norm(x) + branch(norm(x))),
    ),
    mistakes={
        "there is no residual path any more: a branch is ADDED to the stream": {
            "step": lambda x, norm, branch: branch(norm(x))
        },
        "the stream is still normalised: a branch reads norm(x), and what it makes is added to x as it was": {
            "step": lambda x, norm, branch: norm(x + branch(x))
        },
        "normalise what a branch reads, and nothing else": {"step": lambda x, norm, branch: x + norm(branch(x))},
    },
)


# ---------------------------------------------------------------- 7f
@built("7f")  # Your GPT
def gpt(MyGPT: Any) -> None:
    """MyGPT(vocab_size, context_length, n_layer, n_head, n_embd, dropout=0.0): tokens (B, T) -> logits (B, T, V)."""
    V, T = gpts.SIZES["vocab_size"], gpts.SIZES["context_length"]
    gpts.gives_logits(MyGPT)
    gpts.reads_its_past(sound(MyGPT, gpts.SIZES, width=V, x=gpts.ids(V, 4, T)))
    gpts.knows_the_order(MyGPT)
    gpts.uses_its_sizes(MyGPT)
    gpts.begins_unsure(MyGPT)
    gpts.has_a_path(MyGPT)
    gpts.goes_through_blocks_in_turn(MyGPT)
    gpts.drops_in_blocks(MyGPT)
    gpts.learns_by_heart(MyGPT)


# ---------------------------------------------------------------- 7g
prediction(
    "7g",  # Shapes on the way through
    right=(2 * 4 * 10 * 10, 2 * 10 * 4 * 32, 2 * 10 * 65),
    hints=(
        "every head has a table of scores, T times T, in each of the two texts, and T is how many tokens were read",
        "the MLP reads each token as a whole, and its first matrix widens: 4 C numbers for each token of both texts",
        "each token that was read gets a logit for every token that might come next",
    ),
)


# ---------------------------------------------------------------- 7h
def first_loss(V: int, C: int, std: float) -> float:
    """A logit has the variance C std²; the right one is 0 on average."""
    return math.log(V) + C * std**2 / 2


exercise(
    "7h",  # How surprised is a fresh model?
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
            lambda V, C, std: math.log(V)
        ),
        "a logit adds up C products, each with the variance std²; and e to a normal number is e to HALF its variance, "
        "on average": lambda V, C, std: math.log(V) + C * std**2,
        "the loss is the logarithm of that average: the logarithm of e to a power is the power": (
            lambda V, C, std: math.log(V) + math.exp(C * std**2 / 2)
        ),
    },
)
