"""The loss: of a batch, as a training computes it, and of a whole text."""

import importlib.util
from contextlib import AbstractContextManager

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Integer
from torch import Tensor, nn

from helpers import team
from helpers.gpt import evaluating
from helpers.optim import TrainConfig, has_bfloat16


def cross_entropy(
    logits: Float[Tensor, "B T V"], targets: Int64[Tensor, "B T"], reduction: str = "mean"
) -> Float[Tensor, ""]:
    """Cross-entropy of logits against targets, in nats."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction=reduction)


class Loss(nn.Module):
    """The mean loss of a batch; a model may bring its own, as a method `loss(x, y)`."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, ""]:
        if hasattr(self.model, "loss"):
            return self.model.loss(x, y)
        return cross_entropy(self.model(x), y)


@torch.no_grad()
def evaluate(model: nn.Module, tokens: Integer[Tensor, "N"], context_length: int) -> float:
    """Mean cross-entropy in nats per token over ALL of `tokens` but the first.

    They are cut into windows of `context_length`, the last one shorter. Nothing is drawn: the same
    model gives the same number.
    """
    T = context_length
    end = (len(tokens) - 1) // T * T  # of the last whole window
    rows = max(1, 4096 // T)  # windows of one forward pass
    inputs = [*tokens[:end].view(-1, T).split(rows), tokens[None, end:-1]]
    targets = [*tokens[1 : end + 1].view(-1, T).split(rows), tokens[None, end + 1 :]]
    total = 0.0
    with evaluating(model):
        for x, y in zip(inputs, targets, strict=True):
            if y.numel():
                total += cross_entropy(model(x.long()), y.long(), reduction="sum").item()
    return total / (len(tokens) - 1)


# ---------------------------------------------------------------- as the settings want it
def loss_module(model: nn.Module, config: TrainConfig) -> tuple[nn.Module, AbstractContextManager[None]]:
    """The loss as the settings want it, compiled, in bfloat16, shared by several processes.

    Beside it, the context in which to call it: with bfloat16 on CUDA, that is autocast.
    """
    kind = torch.device(config.device).type
    compute_loss: nn.Module = Loss(model)
    if kind == "cuda" and config.compile and importlib.util.find_spec("triton"):
        # Compiling takes triton; Windows has none. A model may have a way of its own.
        if hasattr(model, "compile_parts"):
            model.compile_parts()
        else:
            compute_loss = torch.compile(compute_loss)
    if computes_in_bfloat16_on_cpu(config):
        compute_loss = Rounded(compute_loss)
    precision = torch.autocast(kind, torch.bfloat16, enabled=config.bfloat16 and kind == "cuda")
    return team.with_equal_gradients(compute_loss, config.device), precision


class Rounded(nn.Module):
    """The same loss by weights and buffers rounded to bfloat16.

    What learns are the float32 weights, so that small updates aren't rounded away.
    """

    def __init__(self, compute_loss: nn.Module):
        super().__init__()
        self.compute_loss = compute_loss

    def forward(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, ""]:
        tensors = [*self.compute_loss.named_parameters(), *self.compute_loss.named_buffers()]
        rounded = {name: t.bfloat16() for name, t in tensors if t.is_floating_point()}
        return torch.func.functional_call(self.compute_loss, rounded, (x, y))


def computes_in_bfloat16_on_cpu(config: TrainConfig) -> bool:
    on_cpu = torch.device(config.device).type == "cpu"
    return on_cpu and config.bfloat16_cpu and has_bfloat16()
