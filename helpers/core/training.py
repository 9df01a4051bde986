"""Training: the loss, the loop of updates, and the loss over a whole split.

helpers/runs/train.py puts this loop into a run that survives a stop, which `python -m helpers.training` starts.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Integer
from torch import Tensor, nn

from helpers.core.data import get_batch
from helpers.core.optim import Optimizer, TrainConfig, learning_rate
from helpers.core.precision import forward_pass
from helpers.support.errors import CorpusError
from helpers.support.modes import evaluating
from helpers.support.products import quick_products


def cross_entropy(
    logits: Float[Tensor, "B T V"], targets: Int64[Tensor, "B T"], reduction: str = "mean"
) -> Float[Tensor, ""]:
    """Cross-entropy of logits against targets, in nats."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction=reduction)


def loss_of(
    forward: Callable[..., Any], x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"], reduction: str = "mean"
) -> Float[Tensor, ""]:
    """The loss of a batch, to learn from it. Of two logits, the first count, and both learn."""
    logits = forward(x, asked=y) if getattr(forward, "asks", False) else forward(x)
    if isinstance(logits, Tensor):
        return cross_entropy(logits, y, reduction)
    together, alone = (cross_entropy(each, y, reduction) for each in logits)
    return together + (alone - alone.detach())


class _Asking:
    """A forward pass of a model that has counted the answers, and takes them to forget them."""

    asks = True

    def __init__(self, forward: Callable[..., Any]):
        self.forward = forward

    def __call__(self, x: Tensor, asked: Tensor) -> Any:
        return self.forward(x, asked=asked)


def learn(forward: Callable[..., Any], x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, ""]:
    """The loss of a batch. Its gradients are added to those that the weights have."""
    loss = loss_of(forward, x, y)
    loss.backward()
    return loss


def updates(
    model: nn.Module,
    tokens: Integer[Tensor, "N"],
    config: TrainConfig,
    optimizer: Optimizer,
    generator: torch.Generator,
    first_step: int = 0,
    learn: Callable[..., Tensor] = learn,
) -> Iterator[float]:
    """The loop: one update after the other, from `first_step` to `max_steps`. It yields each batch's loss.

    `generator` draws the batches, PyTorch's global generator draws the dropout: whoever seeds both gets the same
    weights again. Model and tokens must be on `config.device` already. If a group of the optimizer has a "scale"
    (Muon's has), its learning rate is multiplied by it. Whoever shares the work gives another `learn`: helpers/scaling.
    """
    forward = forward_pass(model, config)
    if getattr(model.config, "counted", 0):
        forward = _Asking(forward)
    for step in range(first_step, config.max_steps):
        model.train()  # the caller may have evaluated it
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config) * group.get("scale", 1.0)
        batch_size, window = batch_shape(step, config, model.config.context_length)
        x, y = get_batch(tokens, batch_size, window, generator)
        optimizer.zero_grad()  # before the forward pass, which can use the memory that becomes free
        loss = learn(forward, x, y)
        nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        yield loss.item()


def batch_shape(step: int, config: TrainConfig, context_length: int) -> tuple[int, int]:
    """How many windows of which length update number `step` sees; every update sees about the same number of tokens."""
    window = context_length
    for share, length in config.windows:
        if step < math.ceil(share * config.max_steps):
            window = length
            break
    return config.batch_size * context_length // window, window


@torch.no_grad()
def evaluate(model: nn.Module, tokens: Integer[Tensor, "N"], context_length: int) -> float:
    """Mean cross-entropy in nats per token over ALL of `tokens` but the first, which nothing predicts.

    The split is cut into windows of `context_length` side by side, the last one shorter: no random draw, so the same
    model gives the same number. CorpusError when there is nothing to predict.
    """
    if len(tokens) < 2:
        raise CorpusError(f"{len(tokens)} tokens leave nothing to predict: a split needs at least 2")
    total, count = 0.0, 0
    with evaluating(model), quick_products():
        for x, y in windows_side_by_side(tokens, context_length):
            total += cross_entropy(model(x), y, reduction="sum").item()
            count += y.numel()
    return total / count


def windows_side_by_side(
    tokens: Integer[Tensor, "N"], context_length: int
) -> Iterator[tuple[Int64[Tensor, "B T"], Int64[Tensor, "B T"]]]:
    """All of `tokens` as inputs and targets, about 4,096 at a time; the last window may be shorter."""
    inputs, targets = tokens[:-1], tokens[1:]
    whole = len(inputs) // context_length * context_length
    at_once = max(1, 4096 // context_length) * context_length
    for start in range(0, whole, at_once):
        end = min(start + at_once, whole)
        x = inputs[start:end].unflatten(0, (-1, context_length))
        y = targets[start:end].unflatten(0, (-1, context_length))
        yield x.long(), y.long()
    if whole < len(inputs):
        yield inputs[None, whole:].long(), targets[None, whole:].long()
