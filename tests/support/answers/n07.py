"""Answers to the exercises of notebook 07, and words that must be said of the wrong ones."""

import functools
import math

import numpy as np
import torch
import torch.nn.functional as F
from gpt_variants import (
    GPT,
    AlibiGPT,
    Block,
    Heads,
    LoopBlock,
    ParallelBlock,
    PostNormBlock,
    RotaryBlock,
    RotaryGPT,
    SinusGPT,
    TorchBlock,
    TorchGPT,
)
from nanogpt import NanoBlock, NanoGPT
from torch import nn

from exercises.n07 import layer_norm, stack


def collected(x, norm, branches):
    """What went in, and all that the branches have written."""
    written = [x]
    for branch in branches:
        written.append(branch(norm(sum(written))))
    return torch.stack(written).sum(0)


# ---------------------------------------------------------------- blocks
def block(forward=Block.forward, **parts):
    return type("Block", (Block,), {"forward": lambda self, x, cache=None: forward(self, x)} | parts)


def two(x, first, second):
    """Two branches, one after the other."""
    x = x + first(x)
    return x + second(x)


def with_mlp(*layers):
    """A block with another MLP: sizes of its matrices, as parts of C, and what bends."""

    def __init__(self, C, num_heads, dropout=0.0):
        Block.__init__(self, C, num_heads, dropout)
        self.mlp = nn.Sequential(*(nn.Linear(x[0] * C, x[1] * C) if isinstance(x, tuple) else x() for x in layers))

    return block(__init__=__init__)


class Unscaled(nn.Dropout):
    def forward(self, x):
        return x * (torch.rand_like(x) >= self.p) if self.training else x


class RandomNorm(nn.Module):
    """Its gain and its shift are drawn."""

    def __init__(self, C):
        super().__init__()
        self.gain, self.shift = (nn.Parameter(torch.randn(C)) for _ in range(2))

    def forward(self, x):
        return layer_norm(x, self.gain, self.shift)


class AlwaysOn(nn.Dropout):
    def forward(self, x):
        return F.dropout(x, self.p)


class Loose(Block):
    """Its norms and its MLP stand in the block itself, with branches that begin with nothing."""

    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__(C, num_heads, dropout)
        del self.norm1, self.norm2, self.mlp
        self.gain = nn.ParameterList(torch.ones(C) for _ in range(2))
        self.up, self.down = (
            nn.Parameter(torch.randn(C, 4 * C)),
            nn.Parameter(torch.zeros(4 * C, C)),
        )
        self.share = nn.Parameter(torch.zeros(1))

    def forward(self, x, cache=None):
        normed = F.rms_norm(x, x.shape[-1:]) * self.gain[0]
        x = x + self.share * self.drop(self.heads(normed, cache))
        normed = F.rms_norm(x, x.shape[-1:]) * self.gain[1]
        return x + self.drop(F.silu(normed @ self.up) @ self.down)


# ---------------------------------------------------------------- GPTs
def gpt(forward=GPT.forward, **parts):
    return type("GPT", (GPT,), {"forward": lambda self, tokens: forward(self, tokens)} | parts)


def then(change):
    return gpt(lambda self, tokens: change(GPT.forward(self, tokens)))


def hidden_table(self, T, C):
    self.table = 0.1 * torch.randn(T, C)
    self.place = lambda places: self.table[places]


def without_dropout(self, L, C, H, p):
    self.drop = nn.Dropout(p)
    return nn.ModuleList(Block(C, H) for _ in range(L))


def from_the_end(self, x, start):
    return x + self.place(torch.arange(x.shape[1]).flip(0))


WRONG = {
    "7a": [
        ("it gives [[4]] where [[2]] is right", lambda x, g, s: F.rms_norm(x, x.shape[-1:], g, 1e-5) + s),
        ("it is right only where C = 1", lambda x, g, s: (x - x.mean(-1, keepdim=True)) * g + s),
        ("`g` is taken as 1", lambda x, g, s: F.layer_norm(x, g.shape) + s),
        ("`s` is missing", lambda x, g, s: F.layer_norm(x, g.shape, g)),
        ("`g` and `s` are exchanged", lambda x, g, s: layer_norm(x, s, g)),
        ("it changes its input `x`", lambda x, g, s: layer_norm(x.sub_(1), g, s)),
    ],
    "7b": [
        ("is added to x as it was, once", block(lambda self, x: (
            self.mlp(self.norm2(self.heads(self.norm1(x))))))),
        ("is added to x as it was, once", block(lambda self, x: x + Block.forward(self, x))),
        ("dropout still changes x", block(lambda self, x: self.drop(Block.forward(self, x)))),
        ("a branch reads a normed copy", block(norm=lambda self, C: nn.Identity())),
        ("a branch reads a normed copy", block(lambda self, x: (
            Block.forward(self, self.norm1(x))))),
        ("4 C² in attention", with_mlp((1, 1), nn.ReLU, (1, 1))),
        ("its MLP is linear", with_mlp((1, 4), (4, 1), nn.ReLU)),
        ("none behind them", with_mlp((1, 4), nn.ReLU, (4, 1), nn.ReLU)),
        ("the MLP doesn't read what attention has found", ParallelBlock),
        ("is lost where the other branch", block(lambda self, x: (
            x + self.mlp(self.norm2(x + self.heads(self.norm1(x))))))),
        ("is their number used", block(attention=lambda self, C, num_heads: Heads(C, 1))),
        ("two calls in evaluation differ", block(dropout_layer=AlwaysOn)),
        ("what attention makes is not dropped", block(dropout_layer=lambda self, p: nn.Identity())),
        ("something else in training", block(dropout_layer=lambda self, p: nn.Dropout(0.3))),
        ("attention makes is dropped at another rate", block(
            dropout_layer=lambda self, p: nn.Dropout(p / 2))),
        ("kept at a share of 0.70, and multiplied by 1.00", block(
            dropout_layer=lambda self, p: Unscaled(p))),
        ("drop it at the branch's end", block(lambda self, x: two(
            x, lambda x: self.heads(self.drop(self.norm1(x))),
            lambda x: self.drop(self.mlp(self.norm2(x)))))),
        ("the matrices of attention add no more", block(lambda self, x: two(
            x, lambda x: self.drop(self.norm1(self.heads(x))),
            lambda x: self.drop(self.norm2(self.mlp(x)))))),
        ("the matrices of the MLP add no more", block(lambda self, x: two(
            x, lambda x: self.drop(self.heads(self.norm1(x))),
            lambda x: self.drop(self.norm2(self.mlp(x)))))),
        ("what the MLP makes is not dropped", block(lambda self, x: two(
            x, lambda x: self.drop(self.heads(self.norm1(x))), lambda x: self.mlp(self.norm2(x))))),
    ],
    "7d": [("number 3: with positions", (2, 0, 2)), ("it should be 3 things", (2, 1))],
    "7e": [
        ("norm = LayerNorm", lambda x, norm, branches: stack(x, norm, branches[::-1])),
        ("branches = [branch, branch]", lambda x, norm, branches: (
            x + sum(branch(norm(x)) for branch in branches))),
    ],
    "7f": [
        ("in another order give the same", gpt(
            make_places=lambda self, T, C: None, placed=lambda self, x, start: x)),
        ("does a place depend on how long", gpt(placed=from_the_end)),
        ("does the second read the first", gpt(lambda self, tokens: self.head(self.norm(
            sum(block(self.token(tokens) + self.place.weight[: tokens.shape[1]])
                for block in self.blocks))))),
        ("it starts out sure of itself", gpt(begin=lambda self: None)),
        ("is x added to what attention gives", gpt(block=block(lambda self, x: (
            two(0, lambda _: self.heads(self.norm1(x)), lambda x: self.mlp(self.norm2(x))))))),
        ("it gives probabilities", then(lambda logits: logits.softmax(-1))),
        ("it gives log-probabilities", then(lambda logits: logits.log_softmax(-1))),
        ("it has the shape (3, 11)", then(lambda logits: logits[:, -1])),
        ("put it into an nn.ModuleList", gpt(make_blocks=lambda self, L, C, H, p: (
            [Block(C, H, p) for _ in range(L)]))),
        ("is n_layer used", gpt(make_blocks=lambda self, L, C, H, p: (
            nn.ModuleList([Block(C, H, p)])))),
        ("is their number used", gpt(make_blocks=lambda self, L, C, H, p: (
            nn.ModuleList(Block(C, 1, p) for _ in range(L))))),
        ("an MLP that widens", gpt(block=with_mlp((1, 1)))),
        ("what is drawn at random must be a parameter", gpt(make_places=hidden_table)),
        ("context_length should be 8, and is 99", gpt(
            context_length=property(lambda self: 99, lambda self, T: None))),
        ("that should be learned by heart", then(lambda logits: logits.clamp(-0.5, 0.5))),
        ("do the blocks get the dropout", gpt(
            make_blocks=without_dropout,
            placed=lambda self, x, start: self.drop(GPT.placed(self, x, start)))),
        ("no gradient reaches its parameters", gpt(torch.no_grad()(GPT.forward))),
    ],
    "7g": [("number 1: every head", (440, 2_560, 1_300)), ("3 things", (800, 2_560))],
    "7h": [
        ("the sign of `C` is wrong", lambda V, C, std: math.log(V) - C * std**2 / 2),
        ("that is in bits", lambda V, C, std: math.log2(V * math.exp(C * std**2 / 2))),
        ("one exponential too many", lambda V, C, std: V * math.exp(C * std**2 / 2)),
        ("`V` is one too small", lambda V, C, std: math.log(V - 1) + C * std**2 / 2),
        ("for V = 65, C = 32", lambda V, C, std: 4.2),
    ],
}  # fmt: skip
RIGHT = {
    "7a": [
        lambda x, g, s: F.layer_norm(x.double(), x.shape[-1:], g.double(), s.double()),
        lambda x, g, s: layer_norm(x, g, s).requires_grad_().tolist(),
    ],
    "7b": [
        NanoBlock,
        TorchBlock,
        RotaryBlock,
        LoopBlock,
        PostNormBlock,
        Loose,
        block(norm=RandomNorm),
    ],
    "7d": [[2, 0, 1], np.array([2.0, 0.0, 1.0]), (2, False, True)],
    "7e": [
        collected,
        lambda x, norm, branches: functools.reduce(lambda y, b: y + b(norm(y)), branches, x).numpy(),
        lambda x, norm, branches: stack(x.requires_grad_(), norm, tuple(branches)).tolist(),
    ],
    "7f": [NanoGPT, RotaryGPT, SinusGPT, AlibiGPT, TorchGPT, gpt(block=Loose)],
    "7g": [torch.tensor([800, 2_560, 1_300]), [800.0, 2_560.0, 1_300.0]],
    "7h": [
        lambda V, C, std: torch.full((V,), C * std**2 / 2, dtype=torch.float64).logsumexp(0),
        lambda V, C, std: [np.log(V) + np.square(std * np.sqrt(C)) / 2],
    ],
}
