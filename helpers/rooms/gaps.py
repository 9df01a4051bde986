"""Lesson 08's question about heads: which of them look at the last gap, and what it costs to lose them."""

from collections.abc import Iterable
from contextlib import ExitStack

import torch
from jaxtyping import Bool, Float, Int64, Integer
from torch import Tensor

from helpers import microscope
from helpers.data import CharTokenizer
from helpers.gpt import GPT, attention_maps
from helpers.loss import evaluate

Head = tuple[int, int]  # layer and head, both from 0


def last_gap(x: Int64[Tensor, "B T"], characters: Iterable[str]) -> Bool[Tensor, "B T T"]:
    """Is this key (last axis) the last gap before that query? A gap is a space or the end of a line.

    A query that is a gap itself has none.
    """
    place = torch.arange(x.shape[1])
    gaps = torch.tensor([i for i, c in enumerate(characters) if c.isspace()], dtype=torch.long)
    last = torch.where(torch.isin(x, gaps), place, -1).cummax(dim=1).values[..., None]
    return (place == last) & (last >= 0) & (last < place[:, None])


def looks_at_gaps(model: GPT, tokenizer: CharTokenizer, tokens: Integer[Tensor, "N"]) -> Float[Tensor, "L H"]:
    """What share of its attention each head spends on the last gap, over the first 96 windows."""
    T = model.config.context_length
    x = tokens.cpu().long()[: len(tokens) // T * T].view(-1, T)[:96]
    maps = attention_maps(model, x.to(next(model.parameters()).device))
    return microscope.head_score(maps, last_gap(x, tokenizer.characters))


def loss_without(model: GPT, tokens: Integer[Tensor, "N"], heads: Iterable[Head]) -> float:
    """The loss when these heads say, at every place, what they say on average (nats per token)."""
    with ExitStack() as stack:
        for layer, head in heads:
            stack.enter_context(microscope.silenced(model, layer, head))
        return evaluate(model, tokens, model.config.context_length)
