"""Instruments to look into a GPT: its surprise, what it knows after each layer, what heads do.

They train nothing and leave a model as it was. Surprise and loss are in nats; layers and heads
count from 0.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from helpers.counting import pair_counts
from helpers.gpt import GPT, attention_weights, evaluating, watch

AT_ONCE = 4096  # tokens of one call: the log-probabilities of a long text would fill the memory


# ---------------------------------------------------------------- what comes next
@torch.no_grad()
def surprise(model: GPT, tokens: Integer[Tensor, "N"]) -> Float[Tensor, "N_1"]:
    """How surprising each token but the first is: -log of its probability, (N - 1,).

    Windows of the whole context start half a context apart, and the last one ends with the text.
    The first window that reaches a token scores it, so the model sees all of its past or, where
    that doesn't fit, more than half a context. This costs twice as much as windows side by side.
    """
    T = min(model.config.context_length, len(tokens) - 1)
    last = len(tokens) - 1 - T
    starts = torch.tensor([*range(0, last, max(1, T // 2)), last])
    places = starts[:, None] + torch.arange(T + 1)  # (W, T + 1)
    windows = tokens.to(next(model.parameters()).device).long()[places]
    scores = []
    with evaluating(model):
        for some in windows.split(max(1, AT_ONCE // T)):
            log_p = model(some[:, :-1]).log_softmax(dim=-1)
            scores.extend(-log_p.gather(-1, some[:, 1:, None])[..., 0].cpu())  # (T,) a window

    nats = torch.empty(len(tokens) - 1)
    for start, row in zip(reversed(starts.tolist()), reversed(scores), strict=True):
        nats[start : start + T] = row  # backwards: where windows overlap, the first one counts
    return nats


def references(tokens: Integer[Tensor, "N"], vocab_size: int) -> dict[str, Float[Tensor, "V V"]]:
    """Log-probabilities (V, V) of three guessers: row = a token, column = the next one.

    "uniform" knows the alphabet, "unigram" how frequent each token is, "bigram" which one follows
    which. Every count starts at 1 (Laplace), so that nothing is impossible.
    """
    V, tokens = vocab_size, tokens.cpu().long()
    counts = {
        "uniform": torch.zeros(V, V),
        "unigram": torch.bincount(tokens, minlength=V).expand(V, V),
        "bigram": pair_counts(tokens, V),
    }
    from_one = {name: 1.0 + count for name, count in counts.items()}
    return {name: (c / c.sum(dim=1, keepdim=True)).log() for name, c in from_one.items()}


# ---------------------------------------------------------------- what happens inside
class Trace(NamedTuple):
    """Every tensor on the way of T tokens through L layers."""

    stream: Float[Tensor, "L_1 T C"]  # the embedding, then what each block hands on
    query: Float[Tensor, "L H T D"]
    key: Float[Tensor, "L H T D"]
    value: Float[Tensor, "L H T D"]
    weights: Float[Tensor, "L H T T"]
    context: Float[Tensor, "L H T D"]
    attended: Float[Tensor, "L T C"]  # the stream between attention and MLP
    hidden: Float[Tensor, "L T C_4"]  # the MLP's hidden layer, after GELU
    logits: Float[Tensor, "T V"]


@torch.no_grad()
def every_tensor(model: GPT, tokens: Integer[Tensor, "T"]) -> Trace:
    """All that the forward pass of T tokens computes, layer by layer."""
    device = next(model.parameters()).device
    passed = watch(model, tokens[None].long().to(device), model.modules())
    stream = [passed[block].input for block in model.blocks] + [passed[model.norm].input]
    layers = []
    for block in model.blocks:
        attention = block.attention
        x = passed[attention].input
        query, key, value = attention.query_key_value(x)
        layers.append(
            (
                query,
                attention.repeat_kv(key),
                attention.repeat_kv(value),
                attention_weights(attention, x),
                attention.split_heads(passed[attention.out_proj].input),
                passed[block.norm2].input,
                passed[block.mlp[-1]].input,
            )
        )
    inside = [torch.cat(of_all_layers) for of_all_layers in zip(*layers, strict=True)]
    return Trace(torch.cat(stream), *inside, logits=passed[model].output[0])


# ---------------------------------------------------------------- heads
@contextmanager
def silenced(model: GPT, layer: int, head: int) -> Iterator[None]:
    """Inside, a head says at every place what it says on average; several may be nested.

    Its context before `out_proj` is its mean over the batch: the model loses what depends on the
    text, and keeps what the head always adds. Source: Michel et al. 2019, Are Sixteen Heads Really
    Better than One?
    """
    C, H = model.config.n_embd, model.config.n_head
    head_of_channel = torch.arange(C) // (C // H)
    others = (head_of_channel != head).to(next(model.parameters()).device)

    def replace(_: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        return inputs[0] * others + inputs[0].mean(dim=(0, 1)) * ~others

    hook = model.blocks[layer].attention.out_proj.register_forward_pre_hook(replace)
    try:
        yield
    finally:
        hook.remove()
