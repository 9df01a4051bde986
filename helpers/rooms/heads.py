"""Lesson 08's questions about heads: where they look, and what it costs to lose them."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from helpers import microscope
from helpers.gpt import GPT, attention_maps
from helpers.loss import evaluate

Head = tuple[int, int]  # layer and head, both from 0


def looks_back(model: GPT, tokens: Integer[Tensor, "N"], letters: int = 1) -> Float[Tensor, "L H"]:
    """What share of its attention each head spends on the place this many letters back, over the first 48 windows."""
    T = model.config.context_length
    x = tokens[: len(tokens) // T * T].view(-1, T)[:48].long()
    maps = attention_maps(model, x.to(next(model.parameters()).device))
    return maps.diagonal(-letters, dim1=-2, dim2=-1).mean(dim=(1, 3)).cpu()


def loss_without(model: GPT, tokens: Integer[Tensor, "N"], heads: Iterable[Head]) -> float:
    """The loss when these heads say, at every place, what they say on average (nats per token)."""
    with ExitStack() as stack:
        for layer, head in heads:
            stack.enter_context(microscope.silenced(model, layer, head))
        return evaluate(model, tokens, model.config.context_length)


@contextmanager
def made_to_look_back(model: GPT, layer: int, head: int, letters: int = 1) -> Iterator[None]:
    """Inside, a head's map is made by hand: at every place it reads the one this many letters back, and nothing else.

    The first places, which have none, read the first. With this a guess about a head can be tested: if it is all that
    the head does, the loss stays.
    """
    attention = model.blocks[layer].attention
    D = model.config.n_embd // model.config.n_head
    channels = slice(head * D, (head + 1) * D)
    seen: list[Tensor] = []

    def note(_: nn.Module, inputs: tuple[Tensor]) -> None:
        seen[:] = [inputs[0]]

    def replace(_: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        _, _, value = attention.query_key_value(seen[0])
        value = attention.repeat_kv(value)[:, head]  # (B, T, D)
        places = (torch.arange(value.shape[1], device=value.device) - letters).clamp(min=0)
        context = inputs[0].clone()
        context[..., channels] = value[:, places]
        return context

    hooks = [attention.register_forward_pre_hook(note), attention.out_proj.register_forward_pre_hook(replace)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
