"""Instruments to look into a GPT: what surprises it, what it knows after each layer, and what each head is worth.

They train nothing and leave a model as it was. Surprise, loss and divergence are in nats; layers and heads count from
0. "Side by side" means windows of the whole context, cut out of a text one after the other; what is left is dropped.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64, Integer
from torch import Tensor

from helpers.core.attention import attention
from helpers.core.gpt import GPT
from helpers.support.errors import ConfigError, CorpusError
from helpers.support.modes import evaluating


def _known(tokens: Integer[Tensor, "N"], vocab_size: int) -> Int64[Tensor, "N"]:
    if len(tokens) == 0 or not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        raise CorpusError(f"the text is empty or has a token outside the vocabulary of 0 .. {vocab_size - 1}")
    return tokens.cpu().long()


def _judge(model: GPT, x: Int64[Tensor, "W T"], y: Int64[Tensor, "W T"], how: Callable[[Tensor, Tensor], Any]) -> list:
    """`how` of the log-probabilities after each place of x and of what came, y, some windows at a time: those of a long
    text at once would fill the memory. ConfigError when the model has diverged."""
    device, at_once, found = next(model.parameters()).device, max(1, 8192 // x.shape[1]), []
    with evaluating(model):
        for part, came in zip(x.split(at_once), y.split(at_once), strict=True):
            logits = model(part.to(device)).cpu()
            if not logits.isfinite().all():
                raise ConfigError("the model's logits are not finite: has its training diverged?")
            found.append(how(logits.log_softmax(dim=-1), came))
    return found


def _nats(log_p: Float[Tensor, "W T V"], came: Int64[Tensor, "W T"]) -> Float[Tensor, "W T"]:
    return -log_p.gather(-1, came[..., None])[..., 0]


def _side_by_side(model: GPT, tokens: Tensor, at_least: int = 1) -> tuple[Tensor, Tensor]:
    """Windows (W, T) of `tokens`, and the tokens that follow each place in them."""
    T, tokens = model.config.context_length, _known(tokens, model.config.vocab_size)
    if len(tokens) <= at_least * T:
        raise CorpusError(f"{len(tokens)} tokens are too few: with a context of {T} this takes {at_least * T + 1}")
    x, y = (part[: len(part) // T * T].view(-1, T) for part in (tokens[:-1], tokens[1:]))
    return x, y


@torch.no_grad()
def surprise(model: GPT, tokens: Integer[Tensor, "N"]) -> Float[Tensor, "N_1"]:
    """How surprising each token but the first is, given what stands before it: -log of its probability.

    Windows of the whole context start half a context apart, the last one ends with the text. The first window that
    reaches a token scores it, so the model sees all of its past or, where that doesn't fit, more than half a context.
    This costs twice as much as windows side by side. CorpusError for fewer than 2 tokens."""
    if len(tokens) < 2:
        raise CorpusError(f"{len(tokens)} tokens leave nothing to predict: this takes at least 2")
    T = min(model.config.context_length, len(tokens) - 1)
    last = len(tokens) - 1 - T
    starts = torch.tensor([*range(0, last, max(1, T // 2)), last])
    windows = _known(tokens, model.config.vocab_size)[starts[:, None] + torch.arange(T + 1)]  # (W, T + 1)
    scores = torch.cat(_judge(model, windows[:, :-1], windows[:, 1:], _nats))  # (W, T)
    nats = torch.empty(len(tokens) - 1)
    for start, row in zip(starts.flip(0).tolist(), scores.flip(0), strict=True):
        nats[start : start + T] = row  # backwards, so that the first window has the last word
    return nats


@torch.no_grad()
def loss_by_place(model: GPT, tokens: Integer[Tensor, "N"]) -> tuple[Float[Tensor, "T"], Float[Tensor, "T"]]:
    """The loss at each place t of the context, where t + 1 tokens are known, and its standard error, over windows side
    by side that are taken for independent. CorpusError unless there are two."""
    x, y = _side_by_side(model, tokens, at_least=2)
    nats = torch.cat(_judge(model, x, y, _nats))  # (W, T)
    return nats.mean(dim=0), nats.std(dim=0) / len(nats) ** 0.5


def references(tokens: Integer[Tensor, "N"], vocab_size: int) -> dict[str, Float[Tensor, "V V"]]:
    """Log-probabilities of three guessers that counted `tokens`: row = the token that stands there, column = the next.
    "uniform" knows the alphabet, "unigram" how frequent each token is, "bigram" which one follows which. Every count
    starts at 1 (Laplace), so that nothing is impossible."""
    V, tokens = vocab_size, _known(tokens, vocab_size)
    pairs = torch.bincount(tokens[:-1] * V + tokens[1:], minlength=V * V).view(V, V)
    seen = {"uniform": torch.zeros(V, V), "unigram": torch.bincount(tokens, minlength=V).expand(V, V), "bigram": pairs}
    return {name: ((1.0 + n) / (1.0 + n).sum(dim=1, keepdim=True)).log() for name, n in seen.items()}


@torch.no_grad()
def divergence(model: GPT, tokens: Integer[Tensor, "N"], reference: Float[Tensor, "V V"]) -> float:
    """Kullback-Leibler divergence KL(model || reference), the mean over all places of windows side by side.

    If the model wrote the next token, by how much more would it surprise the `reference` (log-probabilities, as in
    `references`) than the model itself? 0 if the two always agree. The other direction lets the reference write: then
    all depends on rare tokens, which a good model rightly excludes."""
    x, _ = _side_by_side(model, tokens)
    if reference.shape[0] != model.config.vocab_size or (reference.logsumexp(dim=-1).abs() > 1e-3).any():
        raise ConfigError("the reference must hold log-probabilities, a row for each token of the model's vocabulary")
    guessed = reference.cpu()
    parts = _judge(model, x, x, lambda ours, seen: (ours.exp() * (ours - guessed[seen])).sum(dim=-1).flatten())
    return torch.cat(parts).mean().item()


class Calibration(NamedTuple):
    claimed: Float[Tensor, "bins"]  # mean probability given to the likeliest token; NaN where a bin is empty
    right: Float[Tensor, "bins"]  # share of these that came
    count: Int64[Tensor, "bins"]
    error: float  # expected calibration error: the mean gap between the two, each bin by its count


@torch.no_grad()
def calibration(model: GPT, tokens: Integer[Tensor, "N"], bins: int = 10, temperature: float = 1.0) -> Calibration:
    """Does what the model is 70% sure of come in 70% of all cases? The likeliest token at each place, side by side, in
    bins of equal width; logits are divided by `temperature` (Guo et al. 2017, On Calibration of Modern Neural Networks,
    section 2)."""
    x, y = _side_by_side(model, tokens)
    parts = _judge(model, x, y, lambda log_p, _: torch.stack([*(log_p / temperature).softmax(-1).double().max(-1)]))
    sure, guess = (part.flatten() for part in torch.cat(parts, dim=1))
    place, right = (sure * bins).long().clamp(max=bins - 1), (guess == y.flatten()).double()
    count, claimed, came = (torch.bincount(place, w, minlength=bins) for w in (torch.ones_like(sure), sure, right))
    error = ((claimed - came).abs().sum() / len(sure)).item()
    return Calibration((claimed / count).float(), (came / count).float(), count.long(), error)


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
    """The forward pass line by line, with all that it computes."""
    layers, T, tokens = [], len(tokens), _known(tokens, model.config.vocab_size).to(next(model.parameters()).device)
    with evaluating(model):
        x = start = model.embed(tokens[None])
        for block in model.blocks:
            layer = block.attention
            query, key, value = layer.query_key_value(block.norm1(x))
            key, value = layer.shared(key), layer.shared(value)
            context, weights = attention(query, key, value, layer.mask_for(T, T))
            attended = x + layer.out_proj(layer.join_heads(context))
            hidden = block.mlp[:-1](block.norm2(attended))
            x = attended + block.mlp[-1](hidden)
            layers.append((x, query, key, value, weights, context, attended, hidden))
        stream, *inside = (torch.cat(part) for part in zip(*layers, strict=True))
        return Trace(torch.cat([start, stream]), *inside, logits=model.logits(x)[0])


@torch.no_grad()
def logit_lens(model: GPT, tokens: Integer[Tensor, "T"]) -> Float[Tensor, "L_1 T V"]:
    """The logits if the model ended after the embedding, after its first block, and so on; the last are its own. Each
    stream goes through the final norm and head (nostalgebraist 2020, interpreting GPT: the logit lens)."""
    return model.logits(every_tensor(model, tokens).stream)


@contextmanager
def switch_off(model: GPT, layer: int, head: int) -> Iterator[None]:
    """Inside, one head is silent: its context is 0 before `out_proj`, and all else goes on. Several may be nested.
    ConfigError for a head that isn't there. (Michel et al. 2019, Are Sixteen Heads Really Better than One?)"""
    L, H, C = model.config.n_layer, model.config.n_head, model.config.n_embd
    if not (0 <= layer < L and 0 <= head < H):
        raise ConfigError(f"no head {head} in layer {layer}: layers go from 0 to {L - 1}, heads from 0 to {H - 1}")
    others = (torch.arange(C) // (C // H) != head).to(next(model.parameters()).device)
    silent = model.blocks[layer].attention.out_proj.register_forward_pre_hook(lambda _, inputs: inputs[0] * others)
    try:
        yield
    finally:
        silent.remove()


class Score(NamedTuple):
    heads: Float[Tensor, "L H"]
    habitless: float  # of a head that attends evenly to all it sees, or evenly to the last 8: whichever scores higher


def head_score(maps: Float[Tensor, "L B H T T"], target: Bool[Tensor, "B T T"]) -> Score:
    """The share of its attention (`attention_maps`) that each head spends on those keys (last) that are the target of
    the query: the mean over all queries that have one, NaN if none has."""
    if target.shape != (maps.shape[1], *maps.shape[-2:]):
        raise ConfigError(f"maps of {(*maps.shape,)} take a target of {(maps.shape[1], *maps.shape[-2:])}")
    maps, target, seen = maps.cpu(), target.cpu(), torch.ones(maps.shape[-2:]).tril()
    even = torch.stack([m / m.sum(-1, keepdim=True) for m in (seen, seen.triu(-7))])[:, None, None]
    spent = ((m * target[:, None]).sum(-1).transpose(1, 2) for m in (maps, even))  # (L, H, B, T) and (2, 1, B, T)
    heads, habitless = (share[..., target.any(-1)].mean(-1) for share in spent)
    return Score(heads, habitless.max().item())


def head_scores(maps: Float[Tensor, "L B H T T"], tokens: Int64[Tensor, "B T"]) -> dict[str, Score]:
    """Four habits: attending to the letter before, to earlier ones of the same kind, to those that came after these
    ("induction", Olsson et al. 2022), and to the first place. No query is its own target."""
    place, tokens = torch.arange(tokens.shape[1]), tokens.cpu()
    past = (place < place[:, None]).expand(len(tokens), -1, -1)  # row = query, column = key
    same = past & (tokens[:, None] == tokens[..., None])
    after = past & same.roll(1, dims=-1)
    habits = {"letter before": past.triu(-1), "same letter": same, "after the same letter": after}
    return {name: head_score(maps, target) for name, target in (habits | {"first place": past & (place == 0)}).items()}
