"""The check of multi-head attention: a class's own layers are read as heads, and a known mistake is named."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises import compare, judge, mistakes
from exercises.compare import Near
from exercises.judge import Answer, Given, Pairs, Question
from exercises.variants import RIGHT_HEADS, SeveralHeads
from helpers.errors import CheckError


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

    def __repr__(self) -> str:
        return f"({self.d_in} to {self.d_out}, {self.num_heads} heads)"


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


Layout = Callable[[Tensor], Heads]  # a way to read x's heads from a module's layers


# ---------------------------------------------------------------- the check
@torch.no_grad()
def check_heads(build: Build) -> None:
    """CheckError unless `build(d_in, d_out, context_length, dropout, num_heads)` makes causal multi-head attention.

    It must have W_query, W_key, W_value and out_proj as linear layers (one matrix for all heads each; fewer key and
    value heads than query heads are fine), or one fused layer for the first three, or be nn.MultiheadAttention in a
    wrapper. These get random weights, and in evaluation mode its output is compared with the formula's: for head
    widths 3, 4 and 7, with one head and several, on shorter texts too, and on scores far below 0. A known mistake is
    named; x must stay as it is.
    """
    with torch.random.fork_rng(devices=[]):  # building draws weights, which nobody outside should notice
        candidate = Candidate(build)
    wrong = candidate.answers(mistakes.of_heads(candidate.all_sizes[0].num_heads))
    wrong["the output projection is missing"] = candidate.with_heads(RIGHT_HEADS, project=False)
    judge.refuse("multi-head attention", Question(candidate.near_zero, wrong), candidate)
    in_double = judge.is_right(functools.partial(candidate.near_zero, relative=1e-11), candidate)
    factors = (1e2, 1e5, 1e20, 1e60) if in_double else (1e2, 1e5, 1e15)
    far_below_zero = functools.partial(candidate.far_below_zero, factors=factors)
    wrong = candidate.answers(mistakes.HEADS_FAR_BELOW_ZERO)
    judge.refuse("multi-head attention", Question(far_below_zero, wrong), candidate)


class Candidate:
    """What `build` makes for some sizes, with random weights in its layers, and what these should give."""

    def __init__(self, build: Build):
        self.modules: dict[Sizes, nn.Module] = {}
        self.layouts: dict[Sizes, list[Layout]] = {}
        for sizes in _sizes_for(build):
            module = _built(build, sizes)
            layers, self.layouts[sizes] = _layers_and_layouts(module, sizes)
            _fill_with_random_numbers(layers)
            _refuse_random(module, _random_texts(2, sizes))
            self.modules[sizes] = module
        self.all_sizes = list(self.modules)
        self.texts: list[tuple[Sizes, Tensor]] = []
        for sizes in self.all_sizes:
            x = _random_texts(2, sizes)
            self.texts += [(sizes, x), (sizes, x[:, :3]), (sizes, x[:1, :1])]
        self.right = functools.cache(self._right_in_one_layout())  # every wrong answer is compared with the same

    def __call__(self, sizes: Sizes, x: Tensor) -> Tensor:
        return self.modules[sizes](x)

    def with_heads(self, attend: SeveralHeads, project: bool = True) -> list[Answer]:
        """What it would give if its heads attended in this way, for each layout of its layers."""

        def answer(number: int, sizes: Sizes, x: Tensor) -> Tensor:
            heads = self.layouts[sizes][number](x)
            contexts = attend(heads.query, heads.key, heads.value, heads.H)
            return heads.project(contexts) if project and contexts is not ... else contexts

        layouts = self.layouts[self.all_sizes[0]]
        return [functools.partial(answer, number) for number in range(len(layouts))]

    def answers(self, table: dict[str, list[SeveralHeads]]) -> dict[str, list[Answer]]:
        return {
            sentence: [answer for attend in wrong for answer in self.with_heads(attend)]
            for sentence, wrong in table.items()
        }

    def _right_in_one_layout(self) -> Answer:
        """Nobody prescribes a layout: it is the one that fits, and the first one if none does."""
        answers = self.with_heads(RIGHT_HEADS)
        for answer in answers:
            if judge.is_right(functools.partial(self.near_zero, right=answer), self):
                return answer
        return answers[0]

    # ------------------------------------------------------------ the two graders
    def near_zero(self, answer: Answer, relative: float = 1e-5, right: Answer | None = None) -> Pairs:
        right = right or self.right
        for sizes, text in self.texts:
            output = right(sizes, text)
            yield answer(sizes, text), output, _near(output, relative)

    def far_below_zero(self, answer: Answer, factors: Sequence[float]) -> Pairs:
        for sizes, factor in itertools.product(self.all_sizes, factors):
            texts = factor * _random_texts(16, sizes)
            output = self.right(sizes, texts)
            given = answer(sizes, texts)
            yield _leak(given, output), None
            yield given, output, _near(output)


def _near(right: Tensor, relative: float = 1e-5) -> Near:
    """Single precision must do. An entry may be off by a part of the largest one, too, for sums that cancel."""
    return Near(relative, 0.1 * relative * max(1.0, right.abs().max().item()))


def _leak(given: Given, right: Tensor) -> Given:
    """The same call, judged for one thing: the first word sees itself alone, however low its score."""
    if given.value is ...:
        return given
    is_number = isinstance(given.value, Tensor) and given.value.shape == right.shape and not given.value.isnan().any()
    others_seen = is_number and compare.difference(given.value[:, 0], right[:, 0], _near(right[:, 0]), tell=True)
    return dataclasses.replace(given, value=None, fault=mistakes.LEAK if others_seen else given.fault)


# ---------------------------------------------------------------- building it
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


def _built(build: Build, sizes: Sizes) -> nn.Module:
    try:
        module = build(*sizes)
    except Exception as error:
        raise _not_multi_head(f"it raises {type(error).__name__}: {error}") from error
    if not isinstance(module, nn.Module):
        raise _not_multi_head(f"it is {compare.kind(module)}, not a module")
    return module.double().eval()


def _fill_with_random_numbers(layers: Sequence[nn.Module]) -> None:
    generator = torch.Generator().manual_seed(0)
    for layer in layers:
        for parameter in layer.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))


def _random_texts(B: int, sizes: Sizes) -> Tensor:
    generator = torch.Generator().manual_seed(B)
    return torch.randn(B, sizes.context_length, sizes.d_in, generator=generator, dtype=torch.float64)


def _refuse_random(module: nn.Module, x: Tensor) -> None:
    try:
        first = module(x.clone()).nan_to_num().clone()
        second = module(x.clone()).nan_to_num()
    except Exception:
        return  # the judge will ask again, and say why
    if not torch.equal(first, second):
        raise _not_multi_head(
            "two calls with the same input give two results: is dropout left on in evaluation, or does it keep a state?"
        )


def _not_multi_head(fault: str) -> CheckError:
    return CheckError(f"not multi-head attention: {fault}")


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
    return [query, key, value, out], [layout(by_neighbours), layout(in_turn)]


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
