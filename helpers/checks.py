"""Properties that must hold: what a lesson claims of a result is checked by one of these."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

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
    same = torch.isclose(
        a.detach().cpu().double(), b.detach().cpu().double(), rtol=0, atol=tolerance
    )
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
    outputs too; and it must leave x as it is.

    For every t the whole future is replaced, once by tokens that differ from it at every place and
    once by copies of the sequence's first token; the outputs up to t must stay the same to the last
    bit. Vectors are tried a million times as large, too (the future alone, and all), where a mask
    with a finite value leaks.
    """
    dimensions = 3 if x.is_floating_point() else 2
    if x.dim() != dimensions or torch.equal(x, x[:, :1].expand_as(x)):  # with T=1 always equal
        raise CheckError(
            "causality is tried on ids (B, T) or vectors (B, T, C), with different tokens in a sequence"
        )
    T = x.shape[1]
    output = _output(function, x)
    if output.shape[:2] != x.shape[:2]:
        raise CheckError(
            f"the output has the shape {tuple(output.shape)}, not one row for each of {T} tokens"
        )
    if not torch.equal(output, _output(function, x)):
        raise CheckError(
            "two calls with the same input give two results: is it in training, or does it keep a state?"
        )
    probes = _probes(x)
    outputs = [_output(function, probe.past) for probe in probes]
    for t in range(T - 1):
        for probe, before in zip(probes, outputs, strict=True):
            changed = torch.cat([probe.past[:, : t + 1], probe.future[:, t + 1 :]], dim=1)
            after = _output(function, changed)
            if not torch.equal(before[:, : t + 1], after[:, : t + 1]):
                when = f", for inputs {probe.size:,.0f} times as large" if probe.size > 1 else ""
                where = f"position {t} or before" if t else "position 0"
                raise CheckError(
                    f"not causal: the output at {where} changes with what comes after it{when}"
                )


def _output(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    given = x.clone()
    # A copy, for the function may write its next output over this one.
    output = function(given).clone()
    if not torch.equal(given.nan_to_num(), x.nan_to_num()):
        raise CheckError("it changes its input in place: the caller's x must stay as it is")
    return output.nan_to_num()  # two NaN are no change


class _Probe(NamedTuple):
    """A text, one whose tokens replace its future, and how many times as large that future is."""

    past: Tensor
    future: Tensor
    size: float = 1.0


def _probes(x: Tensor) -> list[_Probe]:
    others = _other_tokens(x)
    first_token = x[:, :1].expand_as(x)
    probes = [_Probe(x, others), _Probe(x, first_token)]
    if x.is_floating_point():
        # Products of four of them are still numbers.
        large = min(1e6, torch.finfo(x.dtype).max ** 0.25)
        probes += [_Probe(x, large * others, large), _Probe(large * x, large * others, large)]
    return probes


def _other_tokens(x: Tensor) -> Tensor:
    """Every token replaced by another: a random vector, or for ids the next one that x holds."""
    if x.is_floating_point():
        noise = torch.randn(
            x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
        )
        return (noise * x.float().std().item()).to(x)
    ids, index = x.unique(return_inverse=True)
    return ids[(index + 1) % len(ids)]
