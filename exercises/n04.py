"""The exercises of notebook 04: the causal mask."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from exercises import compare
from exercises.attending import ATTENTION, CAUSAL, FORBIDDEN, by, causal_weights, loose_attention
from exercises.judge import Asked, WrongError, built, exercise, prediction
from exercises.properties import (
    one_head,
    rows_add_up,
    words,
)


def masked_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    return loose_attention(query, key, value, mask_of=lambda ones: ones & mask, **options)


def with_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> dict[str, Tensor]:
    mask = mask > 0
    mask[..., -1] |= ~mask.any(-1)  # no row is empty
    if mask.dim() > 3:
        mask = mask[0, 0]  # one table for the whole batch
    return {"query": query, "key": key, "value": value, "mask": mask}


def masked_late(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    weights = loose_attention(query, key, value)[1] * mask
    return weights @ value, weights


@exercise(
    "4a",  # Attention behind a mask
    masked_attention,
    "query: ... T D, key: ... S D, value: ... S E, mask: ... T S",
    prepare=with_mask,
    gives="context, weights",
    scales=(1e30,),
    mistakes={"the mask comes after the softmax, which has already given weight away to what is hidden": (masked_late)}
    | ATTENTION
    | FORBIDDEN,
)
def _(answer: Asked) -> None:
    query, key, value = words(2, 4, 5), words(2, 6, 5, seed=1), words(2, 6, 3, seed=2)
    for no_mask in ((), (None,)):
        try:
            context = answer(query, key, value, *no_mask)
        except WrongError as error:
            raise WrongError(
                f"without a mask {error}. None means that everything is allowed: ask `if mask is not None`"
            ) from error
        if not compare.same(context, loose_attention(query, key, value)):
            raise WrongError("without a mask, everything is allowed")


# ---------------------------------------------------------------- which functions look ahead?
Function = Callable[[Tensor], Tensor]


def row_by_row(x: Tensor) -> Tensor:
    """Causal attention, each row computed alone: a longer text changes no bit of it."""
    return torch.cat([loose_attention(x[t : t + 1], x[: t + 1], x[: t + 1])[0] for t in range(len(x))])


def plus_next(of_next: Function, to: slice = slice(None)) -> Function:
    """A function that adds something of the token after, to some tokens or to all that have one."""

    def function(x: Tensor) -> Tensor:
        y = x.clone()
        y[:-1][to] += of_next(x[1:])[to]
        return y

    return function


LEAK_FREE: dict[str, Function] = {
    "doubles x": lambda x: 2 * x,
    "averages the past": lambda x: x.cumsum(0) / torch.arange(1, len(x) + 1)[:, None],
    "attends to the past": row_by_row,
    "always gives zeros": lambda x: torch.zeros_like(x),
}
LEAKING: dict[str, Function] = {
    "attends to everything": lambda x: loose_attention(x, x, x)[0],
    "adds a little of the token after": plus_next(lambda after: 1e-4 * after),
    "leaks at the last place but one only": plus_next(lambda after: after, to=slice(-1, None)),
    "leaks the second token into the first": plus_next(lambda after: after, to=slice(1)),
    "divides by a length over time": lambda x: x / x.norm(dim=0),
    "leaks the order of the future": plus_next(lambda after: after - after[-1:]),
    "leaks signs, not sizes": plus_next(torch.sign),
    "leaks directions, not lengths": plus_next(lambda after: after / after.norm(dim=1, keepdim=True)),
    "leaks its first channel": plus_next(lambda after: after * torch.eye(after.shape[1])[0]),
    "leaks its last channel": plus_next(lambda after: after * torch.eye(after.shape[1])[-1]),
    "leaks what adds up to nothing": plus_next(lambda after: after - after.flip(1)),
}


def functions() -> Iterator[tuple[Function, Tensor]]:
    """Each with an x whose numbers grow; added up, multiples of 1/64 leave no rounding errors."""
    for T, C in ((4, 5), (6, 3)):
        x = (64 * torch.arange(1, T + 1)[:, None] * words(T, C)).round() / 64
        for name, function in (LEAK_FREE | LEAKING).items():
            function.__doc__ = name  # which is how an example shows it
            yield function, x


def is_causal(function: Function, x: Tensor) -> bool:
    return {name: name in LEAK_FREE for name in LEAK_FREE | LEAKING}[str(function.__doc__)]


def changing(
    change: Function,
    to: slice = slice(None),
    outputs: Callable[[int], slice] = lambda t: slice(t + 1),
) -> Callable:
    """A test that changes some tokens after each t, and looks at some of the outputs."""

    def answer(function: Function, x: Tensor) -> bool:
        for t in range(len(x) - 1):
            changed = x.clone()
            changed[t + 1 :][to] = change(x[t + 1 :][to])
            if not torch.equal(function(changed)[outputs(t)], function(x)[outputs(t)]):
                return False
        return True

    return answer


def drawn(x: Tensor) -> Tensor:
    return 30 * torch.randn(x.shape)


exercise(
    "4c",  # Does it look ahead?
    is_causal,
    functions,
    mistakes={
        "it looks at outputs whose own input was changed, and these may change: compare outputs 0 to t": (
            changing(drawn, outputs=lambda t: slice(None))
        ),
        "only the last token was changed: a leak may come from any later token": (changing(drawn, to=slice(-1, None))),
        "it sees no jumps: signs answer only to large changes, and their derivatives are 0": (
            changing(lambda x: x + 1e-3 * torch.randn(x.shape))
        ),
    },
)


def broken_weights(scores: Tensor) -> Tensor:
    future = torch.ones_like(scores).triu().bool()
    return scores.masked_fill(future, float("-inf")).softmax(dim=-1)


def divided_by_sums(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


def tables_of_scores() -> Iterator[tuple[Tensor]]:
    for T, level in ((1, 0), (2, 0), (3, 0), (5, 0), (4, 30), (3, -1e10)):
        yield ((2 * words(T, T, seed=T)).round() + level,)
    yield (torch.tensor([[0.0, 2000.0], [0.0, 0.0]]),)  # what is hidden may be far ahead


@exercise(
    "4e",  # Not a number
    causal_weights,
    tables_of_scores,
    broken=(
        "the first row is not a number (NaN). Which scores are left for the first token?",
        broken_weights,
    ),
    mistakes={
        "the NaN are gone, and their cause is not: EVERY token must see itself": (
            lambda scores: broken_weights(scores).nan_to_num()
        ),
        "a second softmax gives the zeros weight again: hide the future before the only one": (
            lambda scores: scores.softmax(-1).tril().softmax(-1)
        ),
        "where a hidden score is far ahead, softmax leaves the others 0, and 0 / 0 is NaN: hide it before": (
            lambda scores: divided_by_sums(scores.softmax(-1).tril())
        ),
    }
    | CAUSAL,
)
def _(answer: Asked) -> None:
    rows_add_up(answer)


prediction(
    "4h",  # As far as it can see
    right=(3, 7, 2),
    hints=(
        "one layer reaches the place itself and the two before it",
        "what the place two before has found in the layer below reaches two places further back",
        "before place 1 there is only place 0",
    ),
)


@built("4g")  # A layer that cannot cheat
def causal_layer(MyCausalAttention: Any) -> None:
    """MyCausalAttention(C, D): x (B, T, C) -> contexts (B, T, D), no word looks at what comes later."""
    not_divided = by(lambda *_: 1)  # no matter here: W_query learns to make up for it
    one_head(MyCausalAttention, ATTENTION | CAUSAL, True, not_divided)
