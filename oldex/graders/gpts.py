"""A whole GPT that readers build, tried by what it does, and its cache."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from exercises.graders import building
from exercises.graders.building import Run, ids, made, near, reading, stir, trying
from helpers.errors import CheckError

V = 11
T = 8
SIZES = {"vocab_size": V, "context_length": T, "n_layer": 2, "n_head": 2, "n_embd": 32}
UPDATES = 200


def stirred(answer: Callable[..., Any], **changes: int) -> nn.Module:
    model = made(answer, **{**SIZES, **changes}).eval()
    stir(model)
    return model


# ---------------------------------------------------------------- what comes out
def gives_logits(answer: Callable[..., Any]) -> None:
    """Logits for every place of texts as long as the context and shorter, of every size."""
    for sizes in ((11, 8, 2, 2, 32), (65, 5, 1, 4, 32), (7, 12, 3, 1, 16)):
        model = made(answer, **dict(zip(SIZES, sizes, strict=True))).eval()
        kept = getattr(model, "context_length", "missing")
        if kept != sizes[1]:
            raise CheckError(
                f"its attribute context_length should be {sizes[1]}, and is {kept}: training and writing ask for it"
            )
        _logits(model, ids(sizes[0], 3, sizes[1]), sizes[0])
    for shape in ((1, T - 3), (4, 2), (2, 1)):
        building.called(stirred(answer), ids(V, *shape), V)


def is_sound(answer: Callable[..., Any]) -> Run:
    """What must hold for every module, and the logits of one with other parameters."""
    return reading(building.sound(answer, ids(V, 4, T), V, **SIZES), V)


def _logits(model: nn.Module, tokens: Tensor, V: int) -> None:
    with torch.no_grad(), trying(f"tokens of shape {tuple(tokens.shape)}"):
        output = model(tokens.clone())
    B, T = tokens.shape
    if isinstance(output, tuple):
        raise CheckError(f"it returns a tuple of {len(output)}: the logits alone are asked for")
    if isinstance(output, Tensor) and output.shape == (B, V):
        raise CheckError("it gives logits for one place of each text: all are asked for, (B, T, V)")
    output = building.called(model, tokens, V)
    if near(output.exp().sum(-1), torch.ones(B, T)):
        raise CheckError("it gives log-probabilities: logits are asked for, and cross_entropy does the rest")
    if (output >= 0).all() and near(output.sum(-1), torch.ones(B, T)):
        raise CheckError("it gives probabilities: logits are asked for, before any softmax")


# ---------------------------------------------------------------- what it sees
def reads_its_past(run: Run) -> None:
    """Each place sees its own token and all before it, and none after it."""
    tokens = ids(V, T)
    building.sees_the_past(run, tokens, (tokens + 1) % V)
    building.sees_the_past(run, tokens, (tokens + 5) % V)
    building.begins_alike(run, tokens[None])


def knows_the_order(answer: Callable[..., Any]) -> None:
    """With one layer already. (With a mask, several layers tell the first place from the others even without.)"""
    run = reading(stirred(answer, n_layer=1), V)
    tokens = torch.stack([torch.randperm(V, generator=torch.Generator().manual_seed(i))[:T] for i in range(8)])
    turned = torch.cat([tokens[:, :-1].flip(1), tokens[:, -1:]], 1)
    if near(run(turned)[:, -1], run(tokens)[:, -1]):
        raise CheckError("the tokens before in another order give the same: does it know places (positions)?")


# ---------------------------------------------------------------- what it is made of
def uses_its_sizes(answer: Callable[..., Any]) -> None:
    """n_layer and n_head make a difference, and a layer is as large as a block."""
    numbers = [sum(x.numel() for x in stirred(answer, n_layer=layers).parameters()) for layers in (1, 3)]
    if numbers[0] >= numbers[1]:
        raise CheckError(f"with 3 layers it has no more parameters than with 1 ({numbers[0]:,}): is n_layer used?")
    building.widens((numbers[1] - numbers[0]) // 2, SIZES["n_embd"])
    tokens = ids(V, 2, T)
    building.uses_heads(
        lambda model: reading(model, V)(tokens), lambda heads: stirred(answer, n_head=heads), "is n_head used?"
    )


# ---------------------------------------------------------------- how it begins, and whether it learns
def begins_unsure(answer: Callable[..., Any]) -> None:
    """The loss of a fresh GPT is that of a guess."""
    V = 65
    tokens = ids(V, 64, 33)
    model = made(answer, vocab_size=V, context_length=32, n_layer=2, n_head=4, n_embd=64).eval()
    loss = F.cross_entropy(reading(model, V)(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).item()
    if abs(loss - math.log(V)) > 0.3:
        raise CheckError(
            f"the first loss is {loss:.2f} where ln {V} = {math.log(V):.2f} is right: it starts out sure of itself. "
            "Draw the matrices, those of nn.Embedding too, with a standard deviation of 0.02"
        )


def has_a_path(answer: Callable[..., Any]) -> None:
    """Through many layers, a place still depends on its own token. Attention alone takes means of means of all."""
    long = 16
    model = made(answer, **{**SIZES, "context_length": long, "n_layer": 8}).eval()
    run = reading(model, V)
    tokens = ids(V, 24, long)
    changed = torch.cat([tokens[:, :-1], (tokens[:, -1:] + 1) % V], 1)
    before, after = run(tokens)[:, -1], run(changed)[:, -1]
    if (after - before).norm() < 1e-3 * before.norm():
        raise CheckError(
            "in a fresh one of 8 layers, the logits at a place hardly change with its own token: is x added to what "
            "attention gives?"
        )


def learns_by_heart(answer: Callable[..., Any]) -> None:
    """Four short texts are soon known."""
    model = made(answer, **SIZES).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    texts = ids(V, 4, T + 1)
    texts[:, 0] = torch.arange(4)
    loss = math.inf
    for _ in range(UPDATES):
        loss = F.cross_entropy(model(texts[:, :-1]).flatten(0, 1), texts[:, 1:].flatten())
        if loss < 0.1:
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    raise CheckError(
        f"four short texts, {UPDATES} updates by Adam, and the loss is still {loss:.2f}: that should be learned by "
        "heart. Does all that it knows reach the logits?"
    )


def drops(answer: Callable[..., Any]) -> None:
    building.drops(lambda model: reading(model, V)(ids(V, 2, T)), lambda p: made(answer, **SIZES, dropout=p))


# ---------------------------------------------------------------- the cache
def remembers(answer: Callable[..., Any]) -> None:
    """model(tokens, cache) reads new tokens alone, and gives what it gives for the whole text without a cache."""
    model = stirred(answer)
    tokens = ids(V, 3, T)
    whole = reading(model, V)(tokens)

    def read(how: str, why: str, ends: Sequence[int], *texts: Tensor) -> None:
        """Texts in pieces, each with its own cache, in turn."""
        caches: list[dict] = [{} for _ in texts]
        given: list[list[Tensor]] = [[] for _ in texts]
        for start, end in zip((0, *ends), ends, strict=False):
            for text, cache, logits in zip(texts, caches, given, strict=True):
                logits.append(_cached(model, text[:, start:end], cache))
        if not all(caches):
            raise CheckError("the cache that it is given stays empty: whatever it keeps should stand in there")
        for text, logits in zip(texts, given, strict=True):
            right = whole if text is tokens else whole.flip(0)
            for t in range(T):
                if not near(torch.cat(logits, 1)[:, t], right[:, t]):
                    raise CheckError(f"read {how}, the logits at place {t} differ from those without a cache: {why}?")

    one_by_one = range(1, T + 1)
    read("token by token", "does each get its own place, and see all that is cached", one_by_one, tokens)
    why = "is something kept outside of the cache"
    read("in turn with another text", why, one_by_one, tokens, tokens.flip(0))
    read("in pieces", "does the mask show what is cached, and hide what comes later in the piece", (3, 7, T), tokens)
    if not near(reading(model, V)(tokens), whole):
        raise CheckError("without a cache it remembers what was read before: only a cache should be remembered")
    _saves_work(answer)


def _saves_work(answer: Callable[..., Any]) -> None:
    """One more token costs far less than the whole text, counted in multiplications of matrices."""
    model = stirred(answer, context_length=64)
    tokens = ids(V, 1, 64)
    cache: dict = {}
    _cached(model, tokens[:, :-1], cache)
    with FlopCounterMode(display=False) as one_more:
        _cached(model, tokens[:, -1:], cache)
    with FlopCounterMode(display=False) as whole:
        reading(model, V)(tokens)
    if one_more.get_total_flops() > whole.get_total_flops() / 2:
        raise CheckError(
            "with 63 tokens in the cache, one more costs as much work as all 64 without a cache: keep keys and values "
            "in it, and compute those of the new token alone"
        )


@torch.no_grad()
def _cached(model: nn.Module, tokens: Tensor, cache: dict) -> Tensor:
    with trying(f"new tokens of shape {tuple(tokens.shape)} and a cache"):
        output = model(tokens.clone(), cache)
    if not isinstance(output, Tensor) or output.shape != (*tokens.shape, V):
        given = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise CheckError(
            f"with a cache, new tokens {tuple(tokens.shape)} should give {(*tokens.shape, V)}, not {given}"
        )
    return output
