"""The check of multi-head attention: a class's own layers, read as heads, and the mistakes that only heads can have."""

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.core.attention import attention, causal_mask
from helpers.grading.checks import mistakes
from helpers.grading.checks.mistakes import AXES, Trial, all_close
from helpers.support.errors import CheckError

NAMES = ("W_query", "W_key", "W_value", "out_proj")


# ---------------------------------------------------------------- layers read as heads
class Heads(NamedTuple):
    """What a module's layers make of x: query, key, value (B, T, H * D), heads side by side, and the last layer."""

    query: Tensor
    key: Tensor
    value: Tensor
    H: int
    project: Callable[[Tensor], Tensor]

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.H, -1)).transpose(1, 2)  # (B, T, H * D) -> (B, H, T, D)


def heads_with(formula: Callable, split: Callable | None = None, join: Callable | None = None, project: bool = True):
    """Multi-head attention from a module's own layers, with one part replaced."""

    def variant(heads: Heads) -> Tensor:
        parts = [(split or Heads.split)(heads, x) for x in heads[:3]]
        T = parts[0].shape[-2]
        context = formula(*parts, torch.ones(T, T, dtype=torch.bool).tril())[0]
        joined = (join or (lambda context: context.transpose(1, 2).flatten(2)))(context)
        return heads.project(joined) if project else joined

    return variant


def _split_by_view(heads: Heads, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], heads.H, x.shape[1], -1)  # only the shape says (B, H, T, D)


def _split_in_turn(heads: Heads, x: Tensor) -> Tensor:
    return x.unflatten(-1, (-1, heads.H)).permute(0, 3, 1, 2)


def _joined_by_view(context: Tensor) -> Tensor:
    return context.reshape(context.shape[0], context.shape[2], -1)


def multi_head_mistakes(formula: Callable, H: int) -> dict[str, list[Callable[[Heads], Tensor]]]:
    """The mistakes that only several heads can have, made with the right `formula`, and the wrong axes."""
    mixed_up = "by view alone, without transpose: tokens and heads are mixed up"
    orders = [list(order) for order in list(itertools.permutations(range(H)))[1:]]
    return {
        f"the heads are split {mixed_up}": [heads_with(formula, split=_split_by_view)],
        f"the heads are joined {mixed_up}": [heads_with(formula, join=_joined_by_view)],
        f"the heads are split and joined {mixed_up}": [heads_with(formula, _split_by_view, _joined_by_view)],
        "the heads take their numbers in turn: view to (B, T, H, D), not to (B, T, D, H)": [
            heads_with(formula, split=_split_in_turn)
        ],
        "the heads are joined in the wrong order": [
            *(heads_with(formula, join=lambda c, o=o: c[:, o].transpose(1, 2).flatten(2)) for o in orders),
            heads_with(formula, join=lambda c: c.permute(0, 2, 3, 1).flatten(2)),  # number by number, in turn
        ],
        "the width is not split into heads: it is one wide head": [
            heads_with(formula, split=lambda heads, x: x[:, None])
        ],
        "the output projection is missing": [heads_with(formula, project=False)],
    } | {name: [heads_with(variant)] for name, variant in AXES.items()}


def weights_behind(heads: Heads, output: Tensor) -> Tensor | None:
    """The weights (B, H, T, T) with which `output` mixes the values; None when it is no mixture of them.

    The output is linear in the weights, so they are solved for. That takes no more tokens than a head is wide.
    """
    value = heads.split(heads.value)
    B, H, T, _ = value.shape
    bias = heads.project(value.new_zeros(H * value.shape[-1]))
    alone = torch.eye(H)[:, None, :, None] * value[:, :, :, None, :]  # (B, H, T, H, D): one head's value of one token
    basis = (heads.project(alone.reshape(B, H * T, -1)) - bias).mT  # (B, C, H * T)
    target = (output - bias).mT  # (B, C, T)
    solved = torch.linalg.lstsq(basis, target.nan_to_num()).solution
    if not all_close([(basis @ solved)], [target.nan_to_num()]):
        return None
    solved = torch.where(target.isnan().any(1, keepdim=True), math.nan, solved).unflatten(1, (H, T)).mT
    return solved.masked_fill(solved.abs() < 1e-8, 0)


def layouts_of(module: nn.Module, d_out: int, H: int) -> tuple[list[nn.Module], list[Callable[[Tensor], Heads]]]:
    """A module's layers, and the ways to read query, key and value from them; CheckError when there are none."""
    D = d_out // H
    layers: list[Any] = [getattr(module, name, None) for name in NAMES]
    if all(isinstance(layer, nn.Linear) for layer in layers[:3]):
        query, key, value, out = layers
        if isinstance(out, nn.Identity | None):
            raise CheckError("the output projection is missing")
        if not isinstance(out, nn.Linear):
            raise CheckError("it has no linear layer out_proj")
        widths = [layer.out_features for layer in layers[:3]]
        G = widths[1] // D  # heads of key and value, each shared by H / G heads of the query
        if widths[0] != d_out or widths[1:] != [G * D] * 2 or not G or H % G:
            raise CheckError(
                f"W_query, W_key and W_value give {widths} numbers: {H} heads of width {D} need {d_out} each"
            )
        indices = [torch.arange(G).repeat_interleave(H // G), torch.arange(G).repeat(H // G)]

        def shared(x: Tensor, heads: Tensor) -> Tensor:
            return x.unflatten(-1, (G, D))[..., heads, :].flatten(-2)

        return layers, [
            lambda x, i=i: Heads(query(x), shared(key(x), i), shared(value(x), i), H, out)
            for i in indices[: 1 if G in (1, H) else 2]
        ]
    linear = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    whole = [layer for layer in module.modules() if isinstance(layer, nn.MultiheadAttention)]
    if len(whole) == len(linear) == 1 and whole[0].in_proj_weight is not None and whole[0].num_heads == H:
        inner = whole[0]

        def packed(x: Tensor) -> Heads:
            return Heads(*F.linear(x, inner.in_proj_weight, inner.in_proj_bias).chunk(3, -1), H, inner.out_proj)

        return [inner], [packed]
    fused = [layer for layer in linear.values() if layer.out_features == 3 * d_out]
    last = [layer for layer in linear.values() if layer.in_features == layer.out_features == d_out]
    if len(fused) == len(last) == 1 and len(linear) == 2:
        # Three blocks, or three parts in every head, or three numbers in turn; and in which order, nobody prescribes.
        shapes = (((3, H, D), -3), ((H, 3, D), -2), ((H, D, 3), -1))
        return [*fused, *last], [
            lambda x, shape=shape, axis=axis, order=order: Heads(
                *(fused[0](x).unflatten(-1, shape).select(axis, i).flatten(-2) for i in order), H, last[0]
            )
            for (shape, axis), order in itertools.product(shapes, itertools.permutations(range(3)))
        ]
    found = ", ".join(f"{name} ({layer.in_features} to {layer.out_features})" for name, layer in linear.items())
    if whole:
        raise CheckError(
            "it has no linear layer W_query, but nn.MultiheadAttention among other layers, or with another number of "
            f"heads than the {H} asked for: check the attention alone, without what stands around it"
        )
    raise CheckError(
        f"it has no linear layer W_query; what it has: {found or 'none'}. The formula can be tried on linear layers "
        f"W_query, W_key, W_value and out_proj, on one fused layer of {3 * d_out} outputs with one of {d_out} after "
        "it, and on nn.MultiheadAttention"
    )


# ---------------------------------------------------------------- the check
# d_in, d_out, context_length, dropout, num_heads; the second row for builds that need as many channels out as in.
SIZES = ((6, 12, 5, 0.5, 3), (7, 14, 6, 0.5, 2), (5, 3, 4, 0.5, 1))
EQUAL_SIZES = ((12, 12, 5, 0.5, 4), (14, 14, 6, 0.5, 2))


@torch.no_grad()
def multi_head(build: Callable[..., nn.Module]) -> None:
    """CheckError unless `build(d_in, d_out, context_length, dropout, num_heads)` makes causal multi-head attention.

    It must have W_query, W_key, W_value and out_proj as linear layers (one matrix for all heads each; fewer key and
    value heads than query heads are fine), or one fused layer for the first three, or be nn.MultiheadAttention in a
    wrapper. These get random weights, and in evaluation mode its output is compared with the formula's: for head
    widths 3, 4 and 7, with one head and several, on shorter texts too, and on scores far below 0. A known mistake is
    named; x must stay as it is.
    """
    with torch.random.fork_rng(devices=[]):  # building draws weights, which nobody outside should notice
        sizes = _sizes_for(build)
        for size in sizes:
            module, layouts = _built(build, size)
            x = torch.randn(2, size[2], size[0], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
            texts = [x, x[:, :3], x[:1, :1]]
            got = [_output(module, text, size) for text in texts]
            _refuse_random(module, x, got[0])
            right = heads_with(attention)
            fitting = [layout for layout in layouts if _all_fit(right, layout, texts, got)]
            if fitting:
                single = not _all_fit(right, fitting[0], texts, got, relative=1e-11)
                _try_far_below_zero(module, fitting[0], size, (1e2, 1e5, 1e15) if single else (1e2, 1e5, 1e20, 1e60))
                continue
            for layout, (name, variants) in itertools.product(layouts, multi_head_mistakes(attention, size[4]).items()):
                if any(_all_fit(variant, layout, texts, got) for variant in variants):
                    raise _not_multi_head(name)
            apart = min((got[0] - right(layout(x))).abs().max().item() for layout in layouts)
            fault = _read_off(build, sizes, len(layouts))
            raise _not_multi_head(fault or f"the result differs from the formula by {apart:.3g}")


def _sizes_for(build: Callable[..., nn.Module]) -> tuple[tuple, ...]:
    """Other sizes for what has other layers, or can't be built with more channels out than in."""
    with suppress(Exception):
        module = build(*SIZES[0])
        if all(hasattr(module, name) for name in NAMES[:3]):
            return SIZES
    with suppress(Exception):
        build(*EQUAL_SIZES[0])
        return EQUAL_SIZES
    return SIZES


def _all_fit(
    variant: Callable, layout: Callable, texts: Sequence[Tensor], outputs: Sequence[Tensor], relative: float = 1e-5
) -> bool:
    return all(
        all_close([output], [variant(layout(text))], relative) for text, output in zip(texts, outputs, strict=True)
    )


def _refuse_random(module: nn.Module, x: Tensor, output: Tensor) -> None:
    if torch.equal(output.nan_to_num(), module(x.clone()).nan_to_num()):
        return
    seeded = []
    for _ in range(2):
        torch.manual_seed(0)
        seeded.append(module(x.clone()).nan_to_num().clone())
    if torch.equal(*seeded):
        raise _not_multi_head("dropout is left on in evaluation")
    raise _not_multi_head("two calls with the same input and the same seed give two results: it keeps a state")


def _try_far_below_zero(module: nn.Module, layout: Callable, size: tuple, factors: Sequence[float]) -> None:
    many = torch.randn(16, size[2], size[0], generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for factor in factors:
        output, heads = _output(module, factor * many, size), layout(factor * many)
        right = heads_with(attention)(heads)
        if output.isnan().any():
            late = torch.allclose(output, heads_with(mistakes.masked_late)(heads), equal_nan=True)
            raise _not_multi_head(mistakes.LATE if late else mistakes.OVERFLOW)
        if not all_close([output[:, 0]], [right[:, 0]]):  # the first word sees itself alone, however low its score
            raise _not_multi_head(mistakes.FINITE)
        if not all_close([output], [right]):
            raise _not_multi_head(f"for inputs {factor:.0e} times as large the result differs from the formula")


def _not_multi_head(fault: str) -> CheckError:
    return CheckError(f"not multi-head attention: {fault}")


def _tried(call: Callable, kind: type) -> Any:
    try:
        result = call()
    except Exception as error:
        raise _not_multi_head(f"it raises {type(error).__name__}: {error}") from error
    if not isinstance(result, kind):
        raise _not_multi_head(f"it returns a {type(result).__name__}, not a {kind.__name__.lower()}")
    return result


def _output(module: nn.Module, x: Tensor, size: tuple) -> Tensor:
    given = x.clone()
    output = _tried(lambda: module(given), Tensor).clone()
    if output.shape != (*x.shape[:2], size[1]):
        raise _not_multi_head(f"the output has the shape {tuple(output.shape)} instead of {(*x.shape[:2], size[1])}")
    if not torch.equal(given, x):
        raise _not_multi_head("it changes its input in place: the caller's x must stay as it is")
    return output


def _built(build: Callable[..., nn.Module], size: tuple) -> tuple[nn.Module, list[Callable[[Tensor], Heads]]]:
    """The module, its layers' weights random, and the ways in which these may be read as heads."""
    module = _tried(lambda: build(*size), nn.Module).double().eval()
    try:
        layers, layouts = layouts_of(module, d_out=size[1], H=size[4])
    except CheckError as error:
        raise _not_multi_head(str(error)) from None
    generator = torch.Generator().manual_seed(0)
    for layer in layers:
        for parameter in layer.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module, layouts


def _read_off(build: Callable[..., nn.Module], sizes: tuple, ways: int) -> str | None:
    """What is wrong with the weights behind the outputs, wherever these are a mixture of the values."""
    for way in range(ways):
        trials = []
        for size in sizes:
            with suppress(CheckError):
                module, layouts = _built(build, size)
                T = min(size[2], size[1] // size[4])  # no more tokens than a head is wide
                x = torch.randn(2, T, size[0], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
                heads = layouts[way](x)
                weights = weights_behind(heads, _output(module, x, size))
                if weights is not None:
                    trials.append(Trial(heads.split(heads.query), heads.split(heads.key), causal_mask(T), weights))
        fault = mistakes.weights_fault(trials) if trials else None
        if fault:
            return fault
    return None
