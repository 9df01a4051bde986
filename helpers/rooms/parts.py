"""What matters: one small GPT, trained with one part at a time taken out or exchanged.

The variants and studies of notebook 08, of *what matters* and of *what today's models changed*;
experiments.py trains and judges them (`python -m tools.studies parts`).
"""

import math
from collections.abc import Callable, Iterable
from functools import partial

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention
from helpers.gpt import GPT, Block
from helpers.optim import TrainConfig
from helpers.rooms.experiments import Comparison
from helpers.rooms.experts import use_experts
from helpers.rooms.study import Variant

WHOLE = "the whole model"


# ---------------------------------------------------------------- how a part is taken out
class Zeros(nn.Module):
    """A branch that adds zero: in the place of an attention or an MLP that is taken out."""

    def forward(self, x: Tensor, cache: None = None) -> Tensor:
        return torch.zeros_like(x)


def attend(
    layer: MultiHeadAttention,
    x: Float[Tensor, "B T C"],
    cache: None = None,
    *,
    causal: bool = True,
    scaled: bool = True,
) -> Float[Tensor, "B T C"]:
    """Multi-head attention spelled out: the mask and the root can be left out."""
    query, key, value = layer.query_key_value(x)
    scores = query @ key.transpose(-2, -1)
    if scaled:
        scores = scores / math.sqrt(key.shape[-1])
    if causal:
        scores = scores.masked_fill(~layer.mask[: x.shape[1], : x.shape[1]], float("-inf"))
    return layer.out_proj(layer.join_heads(scores.softmax(dim=-1) @ value))


def without_residual(block: Block, x: Tensor, cache: None = None) -> Tensor:
    return block.mlp(block.norm2(block.attention(block.norm1(x))))


def post_norm(block: Block, x: Tensor, cache: None = None) -> Tensor:
    x = block.norm1(x + block.attention(x))
    return block.norm2(x + block.mlp(x))


def change_attention(model: GPT, **parts: object) -> None:
    for block in model.blocks:
        block.attention.forward = partial(attend, block.attention, **parts)


def change_blocks(model: GPT, forward: Callable[..., Tensor]) -> None:
    for block in model.blocks:
        block.forward = partial(forward, block)


def replace_in_blocks(model: GPT, names: Iterable[str], module: type[nn.Module]) -> None:
    for block in model.blocks:
        for name in names:
            setattr(block, name, module())


def remove_norms(model: GPT) -> None:
    replace_in_blocks(model, ["norm1", "norm2"], nn.Identity)
    model.norm = nn.Identity()


def remove_positions(model: GPT) -> None:
    """Fix the position embeddings at 0: they are no longer learned."""
    model.position_embedding.weight.requires_grad_(False).zero_()


def sinusoids(T: int, C: int) -> Float[Tensor, "T C"]:
    """Sines in the even channels, cosines in the odd ones (Vaswani et al. 2017, section 3.5).

    Wavelengths go from 2 pi to 10,000 * 2 pi.
    """
    frequency = 10_000 ** (-torch.arange(0, C, 2) / C)  # (C/2,)
    angle = torch.arange(T)[:, None] * frequency  # (T, C/2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :C]


class Sinusoids(nn.Module):
    """(T,) -> (T, C): sinusoids times a learned gain that starts at a learned table's size."""

    def __init__(self, T: int, C: int):
        super().__init__()
        # The root gives the sinusoids a standard deviation of 1.
        self.register_buffer("table", sinusoids(T, C) * math.sqrt(2), persistent=False)
        self.gain = nn.Parameter(torch.tensor(0.02))

    def forward(self, positions: Int64[Tensor, "T"]) -> Float[Tensor, "T C"]:
        return self.gain * self.table[positions]


def use_sinusoids(model: GPT) -> None:
    model.position_embedding = Sinusoids(*model.position_embedding.weight.shape)


def untie(model: GPT) -> None:
    model.head.weight = nn.Parameter(torch.randn_like(model.head.weight) * 0.02)


def use_post_norm(model: GPT) -> None:
    change_blocks(model, post_norm)
    model.norm = nn.Identity()  # the last block has just normalised


def remove_residual(model: GPT) -> None:
    """Without sums, weights start larger than GPT-2's, which are small to keep sums small."""
    change_blocks(model, without_residual)
    for matrix in model.blocks.parameters():
        if matrix.dim() == 2:
            # Keeps the size of what passes through (Glorot and Bengio 2010).
            nn.init.xavier_normal_(matrix)


def start_at_full_size(model: GPT) -> None:
    """Without the 1/sqrt(2 L) of the projections that end a branch (GPT-2, section 2.3)."""
    for block in model.blocks:
        for projection in (block.attention.out_proj, block.mlp[-1]):
            nn.init.normal_(projection.weight, std=0.02)


def share_query_and_key(model: GPT) -> None:
    for block in model.blocks:
        block.attention.W_query = block.attention.W_key


def remove_value_matrix(model: GPT) -> None:
    for block in model.blocks:
        block.attention.W_value = nn.Identity()


def remove_output_matrix(model: GPT) -> None:
    for block in model.blocks:
        block.attention.out_proj = nn.Identity()


def sgd_with_decay(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """SGD whose decay at a rate of 0.3 is about AdamW's at 0.01.

    A step shrinks weights by lr x decay / (1 - momentum).
    """
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 3e-4}, {"params": others}]
    return torch.optim.SGD(groups, lr=config.learning_rate, momentum=0.9)


# ---------------------------------------------------------------- the variants and the study
no_attention = partial(replace_in_blocks, names=["attention"], module=Zeros)
no_mlp = partial(replace_in_blocks, names=["mlp"], module=Zeros)
no_scaling = partial(change_attention, scaled=False)
no_warm_up = {"warmup_steps": 0}
NEAR = (3e-3, 6e-3, 1.2e-2)  # where no variant is far from the whole model's best rate
PARTS = {
    WHOLE: Variant(),
    "no causal mask": Variant(change=partial(change_attention, causal=False), leaks=True),
    "no attention": Variant(change=no_attention),
    "no MLP": Variant(change=no_mlp),
    # Two ways to give its numbers back
    "no MLP, 6 layers": Variant(sizes={"n_layer": 6}, change=no_mlp),
    "no MLP, width 108": Variant(sizes={"n_embd": 108}, change=no_mlp),
    "no residual": Variant(change=partial(change_blocks, forward=without_residual)),
    "no residual, its own start": Variant(change=remove_residual),
    "full-size start": Variant(change=start_at_full_size),
    "no LayerNorm": Variant(change=remove_norms),
    "no positions": Variant(change=remove_positions),
    "sinusoids with a gain": Variant(change=use_sinusoids),
    "one head": Variant(sizes={"n_head": 1}),
    "query = key": Variant(change=share_query_and_key),
    "no value matrix": Variant(change=remove_value_matrix),
    "no output matrix": Variant(change=remove_output_matrix),
    "dropout 0.1": Variant(sizes={"dropout": 0.1}),
    "dropout 0.2": Variant(sizes={"dropout": 0.2}),
    "untied head": Variant(change=untie),
    "SGD for AdamW": Variant(optimizer=sgd_with_decay, rates=(0.01, 0.1, 0.3, 1.0, 10.0)),
    "no weight decay": Variant(recipe={"weight_decay": 0.0}),
    # Two parts at once: the root matters more where heads are wide
    "no scaling": Variant(change=no_scaling),
    "no scaling, one head": Variant(sizes={"n_head": 1}, change=no_scaling, against="one head"),
    "no warm-up": Variant(recipe=no_warm_up),
    "post-norm": Variant(change=use_post_norm),
    "6 layers": Variant(sizes={"n_layer": 6}),
}
# Those that are trained five times as long as well.
LONGER = (
    WHOLE,
    "no attention",
    "no MLP",
    "no residual",
    "no residual, its own start",
    "no LayerNorm",
    "no positions",
    "one head",
    "no scaling",
)
# What later models changed, one change at a time. Widths of 170 give SwiGLU's three matrices as
# many weights as two.
MODERN = {
    WHOLE: Variant(),
    "rotary": Variant(sizes={"rotary": True}),
    "RMSNorm": Variant(sizes={"rms_norm": True}),
    "squared ReLU": Variant(sizes={"mlp": "relu2"}),
    "SwiGLU": Variant(sizes={"mlp": "swiglu", "mlp_width": 170}),
    "QK-norm": Variant(sizes={"qk_norm": True}),
    "softcap": Variant(sizes={"softcap": 15.0}),
    "zero start": Variant(sizes={"zero_start": True}),
    "one head of keys": Variant(sizes={"n_kv_head": 1}),
    "a window of 8": Variant(sizes={"window": 8}),
    "pairs in a table": Variant(sizes={"bigrams": 4356}),
    "Muon": Variant(recipe={"optimizer": "muon", "muon_scale": 2.0}),
    "warm-up, stable, decay": Variant(recipe={"schedule": "stable", "decay": 0.5}),
}
# Eight MLPs of which a letter uses one, the same work; and one MLP with as many numbers as they have.
EXPERTS = {
    WHOLE: Variant(),
    "eight experts": Variant(change=use_experts),
    "one MLP of their size": Variant(sizes={"mlp_width": 2048}),
}
SIZES = dict(context_length=32, n_layer=2, n_head=4, n_embd=64)
STUDIES = {
    "modern": Comparison(
        variants=MODERN,
        sizes=SIZES,
        steps=(1200,),
        rates=NEAR,
        whole_seeds=16,
    ),
    "parts": Comparison(
        variants=PARTS,
        sizes=SIZES,
        steps=(400, 1200),
        whole_seeds=16,
    ),
    # Three seeds, since most of these runs take minutes.
    "experts": Comparison(
        variants=EXPERTS,
        sizes=SIZES,
        steps=(1200, 6000),
        rates=NEAR,
        choosing_seeds=1,
        seeds=3,
    ),
    # What becomes of a damage when training goes on, five times as long.
    "longer": Comparison(
        variants={name: PARTS[name] for name in LONGER},
        sizes=SIZES,
        steps=(6000,),
        seeds=5,
    ),
    # How high a learning rate the model bears, with queries and keys of known size and without.
    "rates": Comparison(
        variants={WHOLE: Variant(), "QK-norm": MODERN["QK-norm"]},
        sizes=SIZES,
        steps=(1200,),
        rates=(6e-3, 1.2e-2, 2.4e-2, 4.8e-2),
        choosing_seeds=3,
    ),
    # Few characters, read 13 times over and 51 times over: what dropout is for.
    "dropout": Comparison(
        variants={"no dropout": Variant(), "dropout 0.2": Variant(sizes={"dropout": 0.2})},
        sizes=dict(context_length=32, n_layer=4, n_head=4, n_embd=64),
        steps=(1000, 4000),
        rates=NEAR,
        characters=20_000,
    ),
}
# For a reader's own variant, some seconds a run: one layer, at a rate that is good for the whole
# model.
TASTE = Comparison(
    variants={WHOLE: Variant()},
    sizes=dict(context_length=32, n_layer=1, n_head=2, n_embd=64),
    steps=(600,),
    rates=(6e-3,),
    seeds=5,
)


# ---------------------------------------------------------------- what a block costs
def flop_shares(T: int, C: int) -> dict[str, float]:
    """Of the operations of one GPT block that reads T tokens of width C, the share of each part.

    For each token, a multiplication by a matrix costs two for each of its numbers: Q, K, V and W_o
    have 4 C C of them, the MLP 8 C C. Scores and mixture take 2 T C each, whatever the number of
    heads; nothing is saved by the mask.
    """
    counted = {
        "projections": 4 * 2 * C * C,
        "scores": 2 * T * C,
        "mixture": 2 * T * C,
        "MLP": 8 * 2 * C * C,
    }
    return {part: flops / sum(counted.values()) for part, flops in counted.items()}
