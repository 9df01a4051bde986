"""The exercises of notebook 06: several heads."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, randn

from exercises.graders import building, layers
from exercises.judge import Answer, Pairs, built, exercise
from exercises.variants import (
    CAUSAL_MISTAKES,
    RIGHT_HEADS,
    SeveralHeads,
    attention_with,
    heads_with,
    join,
    join_by_view,
    join_in_turn,
    split,
    split_by_view,
    split_in_turn,
)
from helpers.attention import causal_mask
from helpers.errors import CheckError


@exercise(
    "6a",
    {
        "view alone cuts the words up: cut each row into heads first, then exchange T and H": split_by_view,
        "the numbers are dealt out one by one: a head owns D neighbours": split_in_turn,
        "T stands before H: heads come first, so that each has a table (T, D)": (
            lambda x, num_heads: x.view(*x.shape[:2], num_heads, -1)
        ),
        "T and D are exchanged: each head has a row for each word": lambda x, num_heads: split(x, num_heads).mT,
        "num_heads says how many heads there are, not how wide one is": (
            lambda x, num_heads: x.view(*x.shape[:2], -1, num_heads).transpose(1, 2)
        ),
        "the heads are in reverse order": lambda x, num_heads: split(x, num_heads).flip(1),
        "it cuts the text into pieces: every head keeps every word": (
            lambda x, num_heads: torch.stack(x.chunk(num_heads, dim=1), dim=1)
        ),
        "every head gets all C numbers of a word: the width is shared out": (
            lambda x, num_heads: x[:, None].repeat(1, num_heads, 1, 1)
        ),
        "the heads stand before the texts: B comes first": lambda x, num_heads: split(x, num_heads).transpose(0, 1),
        "it answers for the first text only": lambda x, num_heads: split(x, num_heads)[0],
        "it is already split by the transpose, and the view after it scrambles: view first": (
            lambda x, num_heads: x.transpose(1, 2).reshape(x.shape[0], num_heads, x.shape[1], -1)
        ),
    },
)
def split_heads(answer: Answer) -> Pairs:
    """answer(x (B, T, H * D), num_heads) -> (B, H, T, D)."""
    for B, T, H, D in ((2, 5, 3, 4), (1, 4, 4, 1), (3, 2, 1, 6), (2, 2, 2, 2), (1, 1, 5, 3), (4, 6, 2, 3)):
        x = randn(B, T, H * D)
        yield answer(x, H), torch.stack([x[:, :, h * D : (h + 1) * D] for h in range(H)], dim=1)


@exercise(
    "6b",
    {
        "view alone puts different words into one row: exchange H and T back first": join_by_view,
        "after the transpose the numbers don't lie in order any more, and view can't do it: take reshape or flatten": (
            lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1)
        ),
        "the heads' numbers are shuffled into each other: each head's D stay together": (join_in_turn),
        "the heads are in reverse order": lambda x: join(x.flip(1)),
        "the heads are added up: they are laid side by side": lambda x: x.sum(dim=1),
        "the heads are averaged: they are laid side by side": lambda x: x.mean(dim=1),
        "the heads are laid one below the other: side by side keeps T rows": lambda x: x.flatten(1, 2),
        "only H and T are exchanged back: H and D are still to be joined": lambda x: x.transpose(1, 2),
        "only the first head is left": lambda x: x[:, 0],
        "all words are in one row: each keeps its own": lambda x: x.transpose(1, 2).flatten(1),
    },
)
def join_heads(answer: Answer) -> Pairs:
    """answer(x (B, H, T, D)) -> (B, T, H * D), head 1 first."""
    for B, H, T, D in ((2, 3, 5, 4), (1, 4, 2, 1), (2, 2, 2, 2), (3, 1, 4, 2), (1, 5, 1, 3), (4, 2, 3, 6)):
        x = randn(B, H, T, D)
        yield answer(x), torch.cat(list(x.unbind(dim=1)), dim=-1)


_ROOT_OF_C = "the scores are divided by √C: D, the width of ONE head, is meant"
_MISTAKES_OF_HEADS: dict[str, list[SeveralHeads]] = {
    **{sentence: [heads_with(attention_with(**part)) for part in parts] for sentence, parts in CAUSAL_MISTAKES.items()},
    _ROOT_OF_C: [heads_with(attention_with(lambda query, key, value: (query.shape[1] * query.shape[-1]) ** 0.5))],
    "the scores are divided by the root of the number of heads: D is the width of one": [
        heads_with(attention_with(lambda query, key, value: query.shape[1] ** 0.5))
    ],
    "the softmax runs over the queries: it should run over the keys, the last dimension": [
        heads_with(attention_with(dim=-2))
    ],
    "the softmax runs over the heads: dimension 1 is H here, and the keys are the last": [
        heads_with(attention_with(dim=1))
    ],
    "the heads are split by view alone, which cuts the words up": [heads_with(split=split_by_view)],
    "the numbers are dealt out to the heads one by one: a head owns D neighbours": [heads_with(split=split_in_turn)],
    "the heads' numbers are shuffled into each other: each head's D stay together": [heads_with(join=join_in_turn)],
    "the heads are in reverse order": [heads_with(join=lambda contexts: join(contexts.flip(1)))],
}


def _layer(
    attend: SeveralHeads = RIGHT_HEADS,
    order: tuple[int, int, int] = (0, 1, 2),
    one_head: bool = False,
    over: tuple[int, ...] = (),
    project: bool = True,
) -> Answer:
    """The whole layer, its matrices (0 query, 1 key, 2 value, 3 output) in some order, those of `over` turned over."""

    def variant(x: Tensor, *rest: Any) -> Tensor:
        *matrices, num_heads = rest
        matrices = [W.T if i in over else W for i, W in enumerate(matrices)]
        query, key, value = (x @ matrices[i] for i in order)
        context = attend(query, key, value, 1 if one_head else num_heads)
        return context @ matrices[3] if project else context

    return variant


_RIGHT_LAYER = _layer()


def _inputs(B: int, T: int, C: int, size: float) -> tuple[Tensor, Tensor]:
    """x and four matrices; if size is large, each word's score with itself is far below 0, where a finite mask shows"""
    x, matrices = randn(B, T, C), randn(4, C, C) / C**0.5
    if size > 1:
        matrices[:2] = torch.stack([size * matrices[0], -size * matrices[0]])
    return x, matrices


@exercise(
    "6c",
    {
        **{sentence: [_layer(attend) for attend in wrong] for sentence, wrong in _MISTAKES_OF_HEADS.items()},
        "the heads are joined by view alone, which puts different words into one row": _layer(
            heads_with(join=join_by_view)
        ),
        "there is one head for everything": _layer(one_head=True),
        "the heads are only laid side by side: W_out still has to mix them": _layer(project=False),
        "W_out stands to the right, as it is: don't turn it over": _layer(over=(3,)),
        "all matrices stand to the right, as they are: don't turn them over": _layer(over=(0, 1, 2, 3)),
        "W_query and W_key are exchanged": _layer(order=(1, 0, 2)),
        "W_key is used where W_value belongs": _layer(order=(0, 1, 1)),
        "W_query is used where W_key belongs": _layer(order=(0, 0, 2)),
    },
)
def multi_head(answer: Answer) -> Pairs:
    """answer(x (B, T, C), W_query, W_key, W_value, W_out (C, C), num_heads) -> (B, T, C)."""
    for B, T, C, H, size in ((2, 5, 12, 3, 1), (1, 4, 12, 4, 1), (2, 6, 5, 1, 1), (3, 3, 6, 2, 1), (1, 4, 4, 4, 1),
                             (2, 4, 8, 2, 1e5)):  # fmt: skip
        x, matrices = _inputs(B, T, C, size)
        right = _RIGHT_LAYER(x.double(), *matrices.double(), H)
        yield answer(x, *(W.clone() for W in matrices), H), right, 1e-4


Piece = tuple[Tensor, Tensor, Tensor]  # m, the largest score; l, the sum of exp(score - m); the context


def _merged(scale=torch.maximum, grow=lambda m, both: (m - both).exp()) -> Answer:
    """Two pieces on one scale, and how much a piece counts on it."""

    def variant(m1: Tensor, l1: Tensor, context1: Tensor, m2: Tensor, l2: Tensor, context2: Tensor) -> Piece:
        m = scale(m1, m2)
        share1, share2 = l1 * grow(m1, m), l2 * grow(m2, m)
        return m, share1 + share2, (share1 * context1 + share2 * context2) / (share1 + share2)

    return variant


def _with_context(mixed: Callable[[Piece, Piece, Piece], Tensor]) -> Answer:
    """The right m and l, with a context that is made of both pieces and the right result."""
    return lambda *inputs: (*_merged()(*inputs)[:2], mixed(inputs[:3], inputs[3:], _merged()(*inputs)))


def _weighed(share1: Tensor, share2: Tensor, one: Piece, two: Piece) -> Tensor:
    return (share1 * one[2] + share2 * two[2]) / (share1 + share2)


@exercise(
    "6d",
    {
        "each context is an average already: multiply it by its sum before you add": _with_context(
            lambda one, two, both: ((one[0] - both[0]).exp() * one[2] + (two[0] - both[0]).exp() * two[2]) / both[1]
        ),
        "the contexts are averaged: the piece with more weight counts more": _with_context(
            lambda one, two, both: (one[2] + two[2]) / 2
        ),
        "the contexts are added: an average of values is asked for": _with_context(
            lambda one, two, both: one[2] + two[2]
        ),
        "the context is not divided by the whole sum": _with_context(lambda one, two, both: both[2] * both[1]),
        "the sums have different scales: each is relative to its own largest score": [
            _merged(grow=lambda m, both: torch.ones_like(m)),
            _with_context(lambda one, two, both: _weighed(one[1], two[1], one, two)),
            lambda m1, l1, context1, m2, l2, context2: (
                torch.maximum(m1, m2),
                l1 + l2,
                _merged()(m1, l1, context1, m2, l2, context2)[2],
            ),
        ],
        "the largest scores alone don't say how much a piece weighs: its sum counts, too": _with_context(
            lambda one, two, both: _weighed(torch.sigmoid(one[0] - two[0]), torch.sigmoid(two[0] - one[0]), one, two)
        ),
        "the sign in the exponent is wrong: a piece with the smaller largest score shrinks": _merged(
            grow=lambda m, both: (both - m).exp()
        ),
        "large scores overflow: take the larger largest score away before you take the exponential": [
            _merged(grow=lambda m, both: m.exp()),
            _with_context(lambda one, two, both: _weighed(one[1] * one[0].exp(), two[1] * two[0].exp(), one, two)),
        ],
        "the first piece's m becomes the scale, and a far larger second one overflows": _merged(lambda m1, m2: m1),
        "the second piece's m becomes the scale, and a far larger first one overflows": _merged(lambda m1, m2: m2),
        "the largest score of all is the larger of both, not the smaller": _merged(torch.minimum),
        "the largest score of both together is not their sum": [
            _merged(torch.add),
            lambda m1, l1, context1, m2, l2, context2: (m1 + m2, *_merged()(m1, l1, context1, m2, l2, context2)[1:]),
        ],
        "the piece with the larger score takes everything: the other one counts, too": _with_context(
            lambda one, two, both: torch.where(one[0] >= two[0], one[2], two[2])
        ),
        "it takes one largest score for all queries: each row has its own": [
            _merged(lambda m1, m2: torch.maximum(m1, m2).max().expand_as(m1)),
            _merged(lambda m1, m2: torch.maximum(m1, m2).max()),
        ],
        "only the context is given: the next piece needs m and l again": lambda *inputs: _merged()(*inputs)[2],
        "m and the sum are exchanged: return (m, l, context)": lambda *inputs: tuple(
            _merged()(*inputs)[i] for i in (1, 0, 2)
        ),
    },
)
def merge(answer: Answer) -> Pairs:
    """answer(m1, l1 (T, 1), context1 (T, D), m2, l2, context2) -> m, l, context of both pieces of keys together."""

    def piece(scores: Tensor, values: Tensor) -> Piece:
        m = scores.amax(dim=-1, keepdim=True)
        return m, (scores - m).exp().sum(dim=-1, keepdim=True), scores.softmax(dim=-1) @ values

    for T, first, second, D, level1, level2 in ((3, 4, 2, 3, 0, 0), (1, 1, 1, 2, 0, 0), (4, 2, 5, 1, 1e4, 1e4),
                                                (2, 3, 3, 2, -1e4, -1e4), (3, 1, 4, 4, 1e4, -1e4),
                                                (2, 5, 1, 2, -1e4, 1e4), (3, 2, 2, 2, 1e4, 1e4 - 3)):  # fmt: skip
        scores, values = (2 * randn(T, first + second)).round().double(), randn(first + second, D).double()
        scores[:, :first] += level1
        scores[:, first:] += level2
        pieces = (*piece(scores[:, :first], values[:first]), *piece(scores[:, first:], values[first:]))
        yield answer(*(part.float() for part in pieces)), piece(scores, values), 1e-4


def _broken_heads(query: Tensor, key: Tensor, value: Tensor, num_heads: int) -> Tensor:
    B, T, C = query.shape
    query, key, value = (x.view(B, T, num_heads, -1).transpose(1, 2) for x in (query, key, value))
    scores = query @ key.transpose(-2, -1) / C**0.5
    weights = scores.masked_fill(~causal_mask(T), -torch.inf).softmax(dim=-1)
    return (weights @ value).reshape(B, T, C)


@exercise(
    "6e",
    {
        "one of two: the words are whole again, but the scores are still divided by √C": _MISTAKES_OF_HEADS[_ROOT_OF_C],
        "one of two: the scores are right, but the heads are still joined by view alone": heads_with(join=join_by_view),
        **{
            sentence: wrong for sentence, wrong in _MISTAKES_OF_HEADS.items() if sentence != _ROOT_OF_C
        },
        "the split was right: now the words are cut up before the join, and put together wrongly again": (
            heads_with(split=split_by_view, join=join_by_view)
        ),
        "the output still has H before T: it is (B, T, C)": heads_with(join=lambda contexts: contexts.flatten(1, 2)),
    },
    broken=("change the last word, and an earlier row changes, though every head has its mask. Which row, and whose "
            "numbers stand in it? And there is a second fault", _broken_heads),
)  # fmt: skip
def heads(answer: Answer) -> Pairs:
    """answer(query, key, value (B, T, C), num_heads) -> the heads' contexts side by side (B, T, C)."""
    for B, T, C, H, size in ((2, 5, 12, 3, 1), (1, 4, 8, 4, 1), (2, 3, 5, 1, 1), (3, 6, 6, 2, 1), (1, 3, 3, 3, 1),
                             (2, 4, 6, 2, 1e5)):  # fmt: skip
        x, matrices = _inputs(B, T, C, size)
        inputs = [x @ W for W in matrices[:3]]
        yield answer(*inputs, H), RIGHT_HEADS(*(x.double() for x in inputs), H), 1e-4


@exercise(
    "6f",
    {
        "the two halves are exchanged: view alone comes first": (2, 3, 30, 31),
        "view alone reads on where the first head stopped, in the middle of the text": [
            (2, 3, 2, 3),
            (20, 21, 2, 3),
            (10, 11, 2, 3),
            (32, 33, 2, 3),
        ],
        "with the transpose, every head keeps every word: its first row is word 0": [
            (30, 31, 30, 31),
            (30, 31, 12, 13),
        ],
        "that is the first head: the second one is asked for": [(0, 1, 0, 1), (0, 1, 2, 3), (30, 31, 0, 1)],
        "that is the second row: rows are counted from 0 here": [(32, 33, 12, 13), (10, 11, 12, 13)],
        "a head owns D neighbours, not every second number": [(30, 31, 1, 3), (1, 3, 1, 3), (30, 32, 1, 3)],
        "the 12th place in memory is word 3's first number, which is 30, not 12": [(12, 13, 2, 3), (12, 13, 12, 13)],
        "a row of a head has D = 2 numbers, so both rows together are four": [
            (30, 31, 32, 33),
            (30, 31),
            (30, 31, 32, 33, 0, 1, 2, 3),
        ],
    },
)
def rows(answer: Answer) -> Pairs:
    """answer = row 0 of the second of 2 heads, by view alone and as it should be; x (6, 4) holds 10 t + c."""
    yield answer, (30, 31, 2, 3), 0.01


@built("6g", "a class")
def layer_of_heads(MyHeads: Answer) -> None:
    """MyHeads(C, num_heads): causal attention of several heads and a last matrix, x (B, T, C) -> (B, T, C)."""
    C = 12
    for H in (1, 2, 4, 6, 12):
        building.reading(building.made(MyHeads, C=C, num_heads=H), C)(building.words(2, 5, C))
    apart = building.reading(building.made(MyHeads, C=C, num_heads=3).eval(), C)
    building.sees_more_than_itself(apart, *building.words(2, 5, C))
    for H in (1, 3):
        cut = (
            "With one head it doesn't happen: are heads cut out by view(B, T, H, D).transpose(1, 2), and joined by "
            "the way back, transpose first?"
        )
        with building.asking(cut) if H > 1 else nullcontext():
            module = building.sound(MyHeads, building.words(3, 5, C), C, C=C, num_heads=H)
            layers.causal_attention(module, C, C)
        found = layers.number_of_heads(module, C)
        if found == 1 < H:
            raise CheckError(f"with num_heads={H} all heads look at the same places: is num_heads used?")
        if found != H:
            why = "are H and D = C / H exchanged" if found == C // H else "is num_heads used, and one softmax for each"
            raise CheckError(f"with num_heads={H} it looks at a text in {found} ways: {why}?")
        if H == 1:
            layers.three_matrices(module, C, C)
    layers.heads_are_mixed(module, C)
    layers.values_are_learned(module, C)
    layers.queries_are_own(building.made(MyHeads, C=C, num_heads=3).eval(), C, 3)
    narrow, wide = (building.made(MyHeads, C=64, num_heads=H).eval() for H in (16, 1))
    layers.width_makes_no_difference(narrow, wide, 64)
