"""The exercises of notebook 07: the block."""

import torch
from torch import randn

from helpers.exercises import Answer, Pairs, exercise


@exercise("7a", hint="mean and variance (divided by C, not C - 1) over the last dimension; 1e-5 inside the root")
def layer_norm(answer: Answer) -> Pairs:
    """answer(x (T, C), gain (C,), shift (C,)) -> each row to mean 0 and variance 1, times gain, plus shift (T, C)."""
    x, gain, shift = 0.05 * randn(5, 8) + 1, randn(8), randn(8)
    for table in (x, 0.01 * x):
        yield answer(table, gain, shift), torch.layer_norm(table, (8,), gain, shift)


@exercise("7b", hint="two lines, each of the form x = x + ...")
def block(answer: Answer) -> Pairs:
    """answer(x, norm1, attention, norm2, mlp) -> the pre-norm block's output."""
    x, (W, U) = randn(3, 4), 0.5 * randn(2, 4, 4)
    norm1, norm2 = lambda x: x / x.norm(), lambda x: x - x.mean()
    attend, mlp = lambda x: (x @ W).sin(), lambda x: (x @ U).tanh()
    after = x + attend(norm1(x))
    yield answer(x, norm1, attend, norm2, mlp), after + mlp(norm2(after))


@exercise("7c", hint="count both tables, 4 C^2 + 8 C^2 + two gains of C in each block, and one last gain")
def mlp_share(answer: Answer) -> Pairs:
    """answer(V, T, L, C) -> share of a GPT's parameters in its MLPs, without biases, the head sharing its table."""
    for V, T, L, C in ((65, 64, 4, 128), (50257, 1024, 12, 768), (50257, 1024, 48, 1600)):
        yield answer(V, T, L, C), 8 * C * C * L / (V * C + T * C + L * (12 * C * C + 2 * C) + C)
