"""The check of multi-head attention: a class's own layers are read as heads, and a known mistake is named."""

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.core.attention import causal_mask
from helpers.grading import mistakes, variants
from helpers.grading.mistakes import Trial, all_close
from helpers.grading.variants import heads_with
from helpers.support.errors import CheckError


class Sizes(NamedTuple):
    """The arguments of a class of attention, in the order in which a candidate takes them."""

    d_in: int
    d_out: int
    context_length: int
    dropout: float
    num_heads: int

    @property
    def D(self) -> int:
        return self.d_out // self.num_heads


SIZES = (Sizes(6, 12, 5, 0.5, 3), Sizes(7, 14, 6, 0.5, 2), Sizes(5, 3, 4, 0.5, 1))
EQUAL_SIZES = (Sizes(12, 12, 5, 0.5, 4), Sizes(14, 14, 6, 0.5, 2))  # for what needs as many channels out as in
Build = Callable[..., nn.Module]


class Heads(NamedTuple):
    """What a module's layers make of x: query, key, value (B, T, H * D), heads side by side, and the last layer."""

    query: Tensor
    key: Tensor
    value: Tensor
    H: int
    project: Callable[[Tensor], Tensor]

    def split(self, x: Tensor) -> Tensor:
        return variants.split(x, self.H)


Layout = Callable[[Tensor], Heads]  # a way to read x's heads from a module's layers
Mix = Callable[[Heads], Tensor]  # the module's output


# ---------------------------------------------------------------- the check
@torch.no_grad()
def multi_head(build: Build) -> None:
    """CheckError unless `build(d_in, d_out, context_length, dropout, num_heads)` makes causal multi-head attention.

    It must have W_query, W_key, W_value and out_proj as linear layers (one matrix for all heads each; fewer key and
    value heads than query heads are fine), or one fused layer for the first three, or be nn.MultiheadAttention in a
    wrapper. These get random weights, and in evaluation mode its output is compared with the formula's: for head
    widths 3, 4 and 7, with one head and several, on shorter texts too, and on scores far below 0. A known mistake is
    named; x must stay as it is.
    """
    with torch.random.fork_rng(devices=[]):  # building draws weights, which nobody outside should notice
        all_sizes = _sizes_for(build)
        for sizes in all_sizes:
            module, layouts = _built(build, sizes)
            x = _random_texts(sizes, sizes.context_length)
            texts = [x, x[:, :3], x[:1, :1]]
            outputs = [_output(module, text, sizes) for text in texts]
            _refuse_random(module, x, outputs[0])
            fitting = [layout for layout in layouts if _fits(RIGHT, layout, texts, outputs)]
            if not fitting:
                raise _what_is_wrong(build, all_sizes, sizes, layouts, texts, outputs)
            in_double = _fits(RIGHT, fitting[0], texts, outputs, relative=1e-11)
            factors = (1e2, 1e5, 1e20, 1e60) if in_double else (1e2, 1e5, 1e15)
            _try_far_below_zero(module, fitting[0], sizes, factors)


def _sizes_for(build: Build) -> tuple[Sizes, ...]:
    """Other sizes for what has other layers, or can't be built with more channels out than in."""
    with suppress(Exception):
        module = build(*SIZES[0])
        if all(hasattr(module, name) for name in ("W_query", "W_key", "W_value")):
            return SIZES
    with suppress(Exception):
        build(*EQUAL_SIZES[0])
        return EQUAL_SIZES
    return SIZES


def _built(build: Build, sizes: Sizes) -> tuple[nn.Module, list[Layout]]:
    """The module, its layers' weights random, and the ways in which these may be read as heads."""
    module = _tried(lambda: build(*sizes), nn.Module).double().eval()
    layers, layouts = _layers_and_layouts(module, sizes)
    generator = torch.Generator().manual_seed(0)
    for layer in layers:
        for parameter in layer.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module, layouts


def _random_texts(sizes: Sizes, T: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, T, sizes.d_in, generator=generator, dtype=torch.float64)


def _output(module: nn.Module, x: Tensor, sizes: Sizes) -> Tensor:
    given = x.clone()
    output = _tried(lambda: module(given), Tensor).clone()
    right_shape = (*x.shape[:2], sizes.d_out)
    if output.shape != right_shape:
        raise _not_multi_head(f"the output has the shape {tuple(output.shape)} instead of {right_shape}")
    if not torch.equal(given, x):
        raise _not_multi_head("it changes its input in place: the caller's x must stay as it is")
    return output


def _tried(call: Callable, kind: type) -> Any:
    try:
        result = call()
    except Exception as error:
        raise _not_multi_head(f"it raises {type(error).__name__}: {error}") from error
    if not isinstance(result, kind):
        raise _not_multi_head(f"it returns a {type(result).__name__}, not a {kind.__name__.lower()}")
    return result


def _refuse_random(module: nn.Module, x: Tensor, output: Tensor) -> None:
    if torch.equal(output.nan_to_num(), module(x.clone()).nan_to_num()):
        return
    if torch.equal(_seeded(module, x), _seeded(module, x)):
        raise _not_multi_head("dropout is left on in evaluation")
    raise _not_multi_head("two calls with the same input and the same seed give two results: it keeps a state")


def _seeded(module: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return module(x.clone()).nan_to_num().clone()


def _fits(mix: Mix, layout: Layout, texts: Sequence[Tensor], outputs: Sequence[Tensor], relative: float = 1e-5) -> bool:
    pairs = zip(texts, outputs, strict=True)
    return all(all_close([output], [mix(layout(text))], relative) for text, output in pairs)


def _try_far_below_zero(module: nn.Module, layout: Layout, sizes: Sizes, factors: Sequence[float]) -> None:
    generator = torch.Generator().manual_seed(2)
    many = torch.randn(16, sizes.context_length, sizes.d_in, generator=generator, dtype=torch.float64)
    for factor in factors:
        output = _output(module, factor * many, sizes)
        heads = layout(factor * many)
        right = RIGHT(heads)
        if output.isnan().any():
            late = torch.allclose(output, _mixed_by(heads_with(variants.masked_late))(heads), equal_nan=True)
            raise _not_multi_head(mistakes.LATE if late else mistakes.OVERFLOW)
        if not all_close([output[:, 0]], [right[:, 0]]):  # the first word sees itself alone, however low its score
            raise _not_multi_head(mistakes.FINITE)
        if not all_close([output], [right]):
            raise _not_multi_head(f"for inputs {factor:.0e} times as large the result differs from the formula")


def _not_multi_head(fault: str) -> CheckError:
    return CheckError(f"not multi-head attention: {fault}")


# ---------------------------------------------------------------- what is wrong
def _mixed_by(attend: variants.SeveralHeads, project: bool = True) -> Mix:
    """The output that `attend` makes of a module's own query, key and value."""

    def mix(heads: Heads) -> Tensor:
        contexts = attend(heads.query, heads.key, heads.value, heads.H)
        return heads.project(contexts) if project else contexts

    return mix


RIGHT = _mixed_by(variants.RIGHT_HEADS)


def mistakes_of_heads(H: int) -> dict[str, list[Mix]]:
    """The mistakes that only several heads can have, and the wrong axes."""
    mixed_up = "by view alone, without transpose: tokens and heads are mixed up"
    split = variants.split_by_view
    join = variants.join_by_view
    orders = [list(order) for order in itertools.permutations(range(H))][1:]
    in_other_orders = [heads_with(join=lambda contexts, o=o: variants.join(contexts[:, o])) for o in orders]
    found = {
        f"the heads are split {mixed_up}": [_mixed_by(heads_with(split=split))],
        f"the heads are joined {mixed_up}": [_mixed_by(heads_with(join=join))],
        f"the heads are split and joined {mixed_up}": [_mixed_by(heads_with(split=split, join=join))],
        "the heads take their numbers in turn: view to (B, T, H, D), not to (B, T, D, H)": [
            _mixed_by(heads_with(split=variants.split_in_turn))
        ],
        "the heads are joined in the wrong order": [
            _mixed_by(attend) for attend in (*in_other_orders, heads_with(join=variants.join_in_turn))
        ],
        "the width is not split into heads: it is one wide head": [
            _mixed_by(heads_with(split=lambda x, H: x[:, None]))
        ],
        "the output projection is missing": [_mixed_by(variants.RIGHT_HEADS, project=False)],
    }
    for name, formula in mistakes.AXES.items():
        found[name] = [_mixed_by(heads_with(formula))]
    return found


def _what_is_wrong(
    build: Build,
    all_sizes: tuple[Sizes, ...],
    sizes: Sizes,
    layouts: list[Layout],
    texts: Sequence[Tensor],
    outputs: Sequence[Tensor],
) -> CheckError:
    """The name of the mistake that gives these outputs; what the weights behind them show; or how far off they are."""
    named = mistakes_of_heads(sizes.num_heads)
    for layout, (name, mixes) in itertools.product(layouts, named.items()):
        if any(_fits(mix, layout, texts, outputs) for mix in mixes):
            return _not_multi_head(name)
    apart = min((outputs[0] - RIGHT(layout(texts[0]))).abs().max().item() for layout in layouts)
    fault = _read_off(build, all_sizes, len(layouts))
    return _not_multi_head(fault or f"the result differs from the formula by {apart:.3g}")


def _read_off(build: Build, all_sizes: tuple[Sizes, ...], ways: int) -> str | None:
    """What is wrong with the weights behind the outputs, wherever these are a mixture of the values."""
    for way in range(ways):
        trials = []
        for sizes in all_sizes:
            with suppress(CheckError):
                module, layouts = _built(build, sizes)
                T = min(sizes.context_length, sizes.D)  # no more tokens than a head is wide
                x = _random_texts(sizes, T)
                heads = layouts[way](x)
                weights = weights_behind(heads, _output(module, x, sizes))
                if weights is not None:
                    trials.append(Trial(heads.split(heads.query), heads.split(heads.key), causal_mask(T), weights))
        fault = mistakes.weights_fault(trials) if trials else None
        if fault:
            return fault
    return None


def weights_behind(heads: Heads, output: Tensor) -> Tensor | None:
    """The weights (B, H, T, T) with which `output` mixes the values; None when it is no mixture of them.

    The output is linear in the weights, so they are solved for. That takes no more tokens than a head is wide.
    """
    value = heads.split(heads.value)
    B, H, T, D = value.shape
    bias = heads.project(value.new_zeros(H * D))
    alone = torch.eye(H)[:, None, :, None] * value[:, :, :, None, :]  # (B, H, T, H, D): one head's value of one token
    basis = (heads.project(alone.reshape(B, H * T, H * D)) - bias).mT  # (B, C, H * T)
    target = (output - bias).mT  # (B, C, T)
    numbers = target.nan_to_num()
    solved = torch.linalg.lstsq(basis, numbers).solution
    if not all_close([basis @ solved], [numbers]):
        return None
    solved = torch.where(target.isnan().any(1, keepdim=True), math.nan, solved).unflatten(1, (H, T)).mT
    return solved.masked_fill(solved.abs() < 1e-8, 0)


# ---------------------------------------------------------------- layers read as heads
def _layers_and_layouts(module: nn.Module, sizes: Sizes) -> tuple[list[nn.Module], list[Layout]]:
    """A module's layers, and the ways to read query, key and value from them; CheckError when there are none."""
    parts = [getattr(module, name, None) for name in ("W_query", "W_key", "W_value")]
    if all(isinstance(layer, nn.Linear) for layer in parts):
        return _of_four_layers(*parts, getattr(module, "out_proj", None), sizes)
    linear = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    whole = [layer for layer in module.modules() if isinstance(layer, nn.MultiheadAttention)]
    alone = len(whole) == len(linear) == 1
    if alone and whole[0].in_proj_weight is not None and whole[0].num_heads == sizes.num_heads:
        return _of_pytorchs_class(whole[0])
    fused = [layer for layer in linear.values() if layer.out_features == 3 * sizes.d_out]
    last = [layer for layer in linear.values() if layer.in_features == layer.out_features == sizes.d_out]
    if len(fused) == len(last) == 1 and len(linear) == 2:
        return _of_a_fused_layer(fused[0], last[0], sizes)
    if whole:
        raise _not_multi_head(
            "it has no linear layer W_query, but nn.MultiheadAttention among other layers, or with another number of "
            f"heads than the {sizes.num_heads} asked for: check the attention alone, without what stands around it"
        )
    found = ", ".join(f"{name} ({layer.in_features} to {layer.out_features})" for name, layer in linear.items())
    raise _not_multi_head(
        f"it has no linear layer W_query; what it has: {found or 'none'}. The formula can be tried on linear layers "
        f"W_query, W_key, W_value and out_proj, on one fused layer of {3 * sizes.d_out} outputs with one of "
        f"{sizes.d_out} after it, and on nn.MultiheadAttention"
    )


def _of_four_layers(
    query: nn.Linear, key: nn.Linear, value: nn.Linear, out: nn.Module | None, sizes: Sizes
) -> tuple[list[nn.Module], list[Layout]]:
    """Keys and values may have fewer heads, G, each shared by H / G heads of the query: by neighbours, or in turn."""
    if isinstance(out, nn.Identity | None):
        raise _not_multi_head("the output projection is missing")
    if not isinstance(out, nn.Linear):
        raise _not_multi_head("it has no linear layer out_proj")
    H, D, d_out = sizes.num_heads, sizes.D, sizes.d_out
    widths = [layer.out_features for layer in (query, key, value)]
    G = widths[1] // D
    if widths != [d_out, G * D, G * D] or not G or H % G:
        raise _not_multi_head(
            f"W_query, W_key and W_value give {widths} numbers: {H} heads of width {D} need {d_out} each"
        )

    def layout(heads_of_keys: Tensor) -> Layout:
        def shared(x: Tensor) -> Tensor:
            return x.unflatten(-1, (G, D))[..., heads_of_keys, :].flatten(-2)

        return lambda x: Heads(query(x), shared(key(x)), shared(value(x)), H, out)

    by_neighbours = torch.arange(G).repeat_interleave(H // G)
    in_turn = torch.arange(G).repeat(H // G)
    ways = [by_neighbours] if G in (1, H) else [by_neighbours, in_turn]
    return [query, key, value, out], [layout(heads_of_keys) for heads_of_keys in ways]


def _of_pytorchs_class(inner: nn.MultiheadAttention) -> tuple[list[nn.Module], list[Layout]]:
    def packed(x: Tensor) -> Heads:
        query, key, value = F.linear(x, inner.in_proj_weight, inner.in_proj_bias).chunk(3, -1)
        return Heads(query, key, value, inner.num_heads, inner.out_proj)

    return [inner], [packed]


def _of_a_fused_layer(fused: nn.Linear, last: nn.Linear, sizes: Sizes) -> tuple[list[nn.Module], list[Layout]]:
    """Three blocks, or three parts in every head, or three numbers in turn; and in which order, nobody prescribes."""
    H, D = sizes.num_heads, sizes.D

    def layout(shape: tuple[int, int, int], axis: int, order: tuple[int, ...]) -> Layout:
        def unpacked(x: Tensor) -> Heads:
            parts = fused(x).unflatten(-1, shape)
            query, key, value = (parts.select(axis, i).flatten(-2) for i in order)
            return Heads(query, key, value, H, last)

        return unpacked

    shapes = (((3, H, D), -3), ((H, 3, D), -2), ((H, D, 3), -1))
    orders = list(itertools.permutations(range(3)))
    return [fused, last], [layout(shape, axis, order) for shape, axis in shapes for order in orders]
