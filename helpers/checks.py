"""Properties that must hold: what a lesson claims of a result is checked by one of these."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from helpers.errors import CheckError, HelpersError


@contextmanager
def refused(words: str) -> Iterator[None]:
    """Around what must be refused: print the message of the package's error that the block raises.

    CheckError when the block raises nothing, or when its message does not contain `words`; other
    errors pass through.
    """
    try:
        yield
    except HelpersError as error:
        if words not in str(error):
            raise CheckError(f"refused, but not for {words!r}: {error}") from error
        print(error)
    else:
        raise CheckError(f"nothing was refused: {words!r} went unnoticed")


def close(a: Tensor, b: Tensor, tolerance: float = 1e-6) -> None:
    """CheckError unless the shapes are the same and no entry differs by more than `tolerance`.

    NaN differs from everything, infinity is equal to itself.
    """
    if a.shape != b.shape:
        raise CheckError(f"the shapes differ: {tuple(a.shape)} and {tuple(b.shape)}")
    same = torch.isclose(a.detach().cpu().double(), b.detach().cpu().double(), rtol=0, atol=tolerance)
    places = (~same).nonzero()
    if len(places):
        first = tuple(places[0].tolist())
        raise CheckError(
            f"{len(places)} of {a.numel()} entries differ, the first at {first}: "
            f"{a[first].item():.6g} and {b[first].item():.6g}"
        )


@torch.no_grad()
def causal(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """CheckError if output t of `function` changes when inputs after t do.

    x is (B, T) ids or (B, T, C) vectors. A module must be in evaluation mode, for dropout changes
    outputs too. For every t the whole future is replaced by the tokens one place earlier; the outputs
    up to t must stay the same to the last bit.
    """
    if torch.equal(x, x[:, :1].expand_as(x)):
        raise CheckError("a future that is like the past hides nothing: x needs different tokens")
    before = function(x)
    for t in range(x.shape[1] - 1):
        after = function(torch.cat([x[:, : t + 1], x[:, t:-1]], dim=1))
        if not torch.equal(before[:, : t + 1], after[:, : t + 1]):
            place = f"position {t} or before" if t else "position 0"
            raise CheckError(f"not causal: the output at {place} changes with what comes after it")
