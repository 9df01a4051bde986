"""Rotary positions beyond the context: a model that was trained on 32 letters reads 128."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor

from helpers.modern import ModernAttention, ModernConfig, ModernGPT, rotate, rotations
from helpers.optim import TrainConfig, adamw
from helpers.training import updates

TRAINED, READ = 32, 128  # letters at once
WAYS = {
    "all before it": {},
    "only the last 32": {"window": TRAINED},
    "all, distances at most 31": {"reach": TRAINED - 1},
}
BLIND = "letter frequencies alone"


def trained(train_tokens: Integer[Tensor, "N"], vocab_size: int, seed: int, steps: int, **sizes: int) -> ModernGPT:
    """A small GPT with rotary positions, trained on windows of 32 letters."""
    torch.manual_seed(seed)
    usual: dict[str, Any] = {"n_layer": 2, "n_head": 4, "n_embd": 64}
    usual |= sizes
    config = ModernConfig(vocab_size, context_length=TRAINED, rotary=True, **usual)
    model = ModernGPT(config)
    if not steps:
        return model
    recipe = TrainConfig(
        batch_size=32,
        max_steps=steps,
        eval_interval=steps,
        warmup_steps=steps // 15,
        learning_rate=0.005,
    )
    batches = torch.Generator().manual_seed(seed)
    for _ in updates(model, train_tokens, recipe, adamw(model, recipe), batches):
        pass
    return model


@torch.no_grad()
def losses_by_place(
    model: ModernGPT,
    tokens: Integer[Tensor, "N"],
    *,
    window: int | None = None,
    reach: int | None = None,
    texts: int = 800,
) -> Float[Tensor, "8"]:
    """The loss in nats at places 0 to 127, by sixteens, where the model reads that many letters.

    With a `window` it looks only so far. With `reach` it looks at all letters, and those further
    away than `reach` are turned as if they stood at that distance.
    """
    longer = ModernGPT(replace(model.config, context_length=READ, window=window)).eval()
    longer.load_state_dict(model.state_dict(), strict=False)
    if reach is not None:
        for block in longer.blocks:
            block.attention.forward = partial(clamped, block.attention, reach=reach)
    texts = min(texts, (len(tokens) - 1) // READ)
    text = tokens[: texts * READ + 1].long()
    x, y = text[:-1].view(-1, READ), text[1:].view(-1, READ)
    losses = torch.cat(
        [
            F.cross_entropy(longer(x_batch).mT, y_batch, reduction="none")
            for x_batch, y_batch in zip(x.split(100), y.split(100), strict=True)
        ]
    )
    return losses.mean(dim=0).unflatten(0, (-1, 16)).mean(dim=1)


def felt(model: ModernGPT, tokens: Integer[Tensor, "T"]) -> Float[Tensor, "T"]:
    """How much the last block's output at the last place changes with each embedding, from there back."""
    x = model.eval().embed(tokens[None].long()).detach().requires_grad_()
    through = x
    for block in model.blocks:
        through = block(through)
    through[0, -1].square().sum().backward()
    return x.grad[0].norm(dim=-1).flip(0)


def clamped(
    layer: ModernAttention, x: Float[Tensor, "B T C"], cache: None = None, *, reach: int
) -> Float[Tensor, "B T C"]:
    """Causal attention with rotary positions, in which no distance is larger than `reach`."""
    T, D = x.shape[1], layer.head_width
    query, key, value = (layer.split_heads(matrix(x)) for matrix in (layer.W_query, layer.W_key, layer.W_value))
    near = rotate(query, *rotations(T, D)) @ rotate(key, *rotations(T, D)).mT
    turn = (table[reach:].expand(T, D) for table in rotations(reach + 1, D))
    far = rotate(query, *turn) @ key.mT
    places = torch.arange(T)
    distance = places[:, None] - places
    scores = torch.where(distance <= reach, near, far) / D**0.5
    weights = scores.masked_fill(distance < 0, float("-inf")).softmax(dim=-1)
    return layer.out_proj(layer.join_heads(weights @ value))
