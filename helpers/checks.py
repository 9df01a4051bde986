"""Checks that the notebooks use: properties of attention, and mistakes called by their name."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from helpers.attention import attention, causal_mask
from helpers.errors import CheckError, HelpersError
from helpers.guards import evaluating


@contextmanager
def refused(words: str) -> Iterator[None]:
    """Around what must be refused: print the message of the package's error that the block raises.

    CheckError when the block raises nothing, or when its message does not contain `words`; other errors pass through.
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
    near = (a == b) | ((a - b).abs() <= tolerance)
    if not near.all():
        place = tuple((~near).nonzero()[0].tolist())
        raise CheckError(f"{int((~near).sum())} of {near.numel()} entries differ, the first at {place}: "
                         f"{a[place].item():.6g} and {b[place].item():.6g}")  # fmt: skip


def rows_sum_to_one(weights: Tensor, tolerance: float = 1e-5) -> None:
    """CheckError unless every row (last dimension) holds weights of at least 0 that add up to 1."""
    sums = weights.sum(-1)
    if (weights < 0).any():
        raise CheckError(f"a weight is negative: {weights.min().item():.4f}")
    if not ((sums - 1).abs() <= tolerance).all():
        columns_do = weights.dim() > 1 and ((weights.sum(-2) - 1).abs() <= tolerance).all()
        hint = "; the columns do: is the softmax taken over the queries?" if columns_do else ""
        raise CheckError(f"rows do not sum to 1 but to {sums.min().item():.4f} .. {sums.max().item():.4f}{hint}")


@torch.no_grad()
def causal(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """CheckError if output t of `function` changes when inputs after t do. x is (B, T) ids or (B, T, C) vectors.

    A module must be in evaluation mode, for dropout changes outputs too.

    For every t the whole future is replaced, once by the sequence's own tokens in reverse order and once by copies of
    its first token; the outputs up to t must stay the same to the last bit. Two replacements, because a sum over the
    future, say, does not see its order.
    """
    if x.dim() != (3 if x.is_floating_point() else 2) or x.shape[1] < 2 or torch.equal(x, x[:, :1].expand_as(x)):
        raise CheckError("causality is tried on ids (B, T) or vectors (B, T, C), with different tokens in a sequence")
    before, T = function(x), x.shape[1]
    if before.shape[:2] != x.shape[:2]:
        raise CheckError(f"the output has the shape {tuple(before.shape)}, not one row for each of {T} tokens")
    for t in range(T - 1):
        for future in (x.flip(1)[:, : T - t - 1], x[:, :1].expand_as(x)[:, t + 1 :]):
            after = function(torch.cat([x[:, : t + 1], future], dim=1))
            if not torch.equal(before[:, : t + 1], after[:, : t + 1]):
                raise CheckError(f"not causal: the output at position {t} or before changes with what comes after it")


def _formula_with(scale=math.sqrt, dim=-1, fill=float("-inf"), mask_of=lambda mask: mask):
    """The attention formula with one part replaced."""

    def variant(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = query @ key.transpose(-2, -1) / scale(key.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask_of(mask), fill)
        weights = scores.softmax(dim=dim)
        return weights @ value, weights

    return variant


def _inverted_but_itself(mask: Tensor) -> Tensor:
    return ~mask | torch.eye(*mask.shape, dtype=torch.bool)


OVERFLOW = "large scores give NaN: the softmax must take the largest score of a row away first"
FINITE = "forbidden scores are set to a finite number, which still gets weight; they must be -inf"
# What goes wrong in practice, by name, in one or several spellings. A failing candidate is compared with each of them.
MISTAKES: dict[str, tuple[Callable, ...]] = {
    "the scores are not divided by the square root of the head width": (_formula_with(scale=lambda d: 1),),
    "the scores are divided by the head width, not by its square root": (_formula_with(scale=lambda d: d),),
    "the softmax runs over the queries, not over the keys": (_formula_with(dim=-2), _formula_with(dim=1)),
    "the mask is inverted: True must mean allowed": (
        _formula_with(mask_of=torch.logical_not),
        _formula_with(mask_of=torch.logical_not, fill=-1e9),
        _formula_with(mask_of=_inverted_but_itself),
    ),
    "the mask is not applied": (_formula_with(mask_of=torch.ones_like),),
    "forbidden scores are set to 0, which still gets weight; they must be -inf": (_formula_with(fill=0.0),),
    FINITE: (_formula_with(fill=-1.0), _formula_with(fill=-10.0)),  # larger ones are found on low scores
}


def attention_formula(candidate: Callable) -> None:
    """CheckError unless `candidate(query, key, value, mask)` gives attention's context and weights.

    Tried on random float64 inputs without a mask, with a causal one, with one that is neither causal nor square, and
    with heads; then on scores down to -1e200 and with an empty row, where a finite mask value shows. A known mistake
    is named.
    """
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, 5, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    value = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    some = torch.rand(3, 5, generator=generator) < 0.5
    some[:, 2] = True  # no row is empty
    cases = [
        (query, key, value, None),
        (query, key, value, causal_mask(5)),
        (query[:, :3], key, value, some),
        (query[:, None], key[:, None], value[:, None], causal_mask(5)),
    ]
    got = [_called(candidate, case) for case in cases]
    rights = [attention(*case) for case in cases]
    if not all(_all_close(*pair) for pair in zip(got, rights, strict=True)):
        for name, mistakes in MISTAKES.items():
            for mistake in mistakes:
                if all(_all_close(g, mistake(*case)) for g, case in zip(got, cases, strict=True)):
                    raise CheckError(f"not attention: {name}")
        apart = max(
            (a - b).abs().max().item() for g, r in zip(got, rights, strict=True) for a, b in zip(g, r, strict=True)
        )
        raise CheckError(f"not attention: the result differs from the formula by {apart:.3g}")
    for size in (1e3, 1e6, 1e20, 1e100):  # allowed scores far below 0, and below any finite mask value
        low = (-size * query.abs(), size * key.abs(), value, causal_mask(5))
        got = _called(candidate, low)
        if not _all_close(got, attention(*low)):
            raise CheckError(f"not attention: {OVERFLOW if got[1].isnan().any() else FINITE}")
    empty = causal_mask(5).clone()
    empty[2] = False
    _, weights = _called(candidate, (query, key, value, empty))
    if (weights[:, 2] > 0).any():  # NaN, as the formula has it, and 0, as PyTorch chose, are both fine
        raise CheckError(f"not attention: {FINITE}")


def _called(candidate: Callable, case: tuple) -> tuple[Tensor, Tensor]:
    """The candidate's context and weights on copies of the inputs, or CheckError for anything else."""
    query, key, value, _ = case
    try:
        result = candidate(*(x if x is None else x.clone() for x in case))
    except Exception as error:
        raise CheckError(f"not attention: it raises {type(error).__name__}: {error}") from error
    if not isinstance(result, tuple) or len(result) != 2 or not all(isinstance(x, Tensor) for x in result):
        raise CheckError("not attention: it must return two tensors, the context and the weights")
    expected = (*query.shape[:-1], value.shape[-1]), (*query.shape[:-1], key.shape[-2])
    for name, tensor, shape in zip(("context", "weights"), result, expected, strict=True):
        if tensor.shape != shape:
            raise CheckError(f"not attention: the {name} should have the shape {shape}, not {tuple(tensor.shape)}")
    return result


def _all_close(got: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    """Are all tensors close, in those rows that `right` defines (an inverted mask leaves an empty row, NaN)?"""
    for a, b in zip(got, right, strict=True):
        defined = ~b.isnan().any(dim=-1, keepdim=True).expand_as(b)
        if a.shape != b.shape or not torch.allclose(a.to(b.dtype)[defined], b[defined], rtol=1e-6, atol=1e-9):
            return False
    return True


# ---------------------------------------------------------------- classes with several heads, and dropout
def _heads_with(
    formula=attention, split="right", join=lambda context: context.transpose(1, 2).flatten(2), project=True
):
    """Three-headed attention with a module's own weights and one part replaced."""

    def variant(module: nn.Module, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        heads = []
        for W in (module.W_query, module.W_key, module.W_value):
            y = W(x)
            heads.append({
                "right": lambda y=y: y.view(B, T, 3, 4).transpose(1, 2),
                "view": lambda y=y: y.reshape(B, 3, T, 4),  # only the shape says (B, H, T, D)
                "in turn": lambda y=y: y.view(B, T, 4, 3).permute(0, 3, 1, 2),
            }[split]())  # fmt: skip
        joined = join(formula(*heads, causal_mask(T))[0])
        return module.out_proj(joined) if project else joined

    return variant


def _joined_by_view(context: Tensor) -> Tensor:
    return context.reshape(context.shape[0], context.shape[2], -1)


def _joined_in_order(*order: int) -> Callable[[Tensor], Tensor]:
    return lambda context: context[:, order].transpose(1, 2).flatten(2)


MIXED_UP = "by view alone, without transpose: tokens and heads are mixed up"
# The mistakes of the formula, made in every head, and those that only several heads can have.
MULTI_HEAD_MISTAKES: dict[str, tuple[Callable, ...]] = {
    name: tuple(_heads_with(formula) for formula in formulas) for name, formulas in MISTAKES.items()
} | {
    f"the heads are split {MIXED_UP}": (_heads_with(split="view"),),
    f"the heads are joined {MIXED_UP}": (_heads_with(join=_joined_by_view),),
    f"the heads are split and joined {MIXED_UP}": (_heads_with(split="view", join=_joined_by_view),),
    "the heads take their numbers in turn: view to (B, T, H, D), not to (B, T, D, H)": (_heads_with(split="in turn"),),
    "the heads are joined in the wrong order": (
        *(_heads_with(join=_joined_in_order(*order)) for order in list(itertools.permutations(range(3)))[1:]),
        _heads_with(join=lambda context: context.permute(0, 2, 3, 1).flatten(2)),  # number by number, in turn
    ),
    "the output projection is missing": (_heads_with(project=False),),
}


@torch.no_grad()
def multi_head(build: Callable[..., nn.Module]) -> None:
    """CheckError unless `build(d_in, d_out, context_length, dropout, num_heads)` makes causal multi-head attention.

    It must have W_query, W_key, W_value and out_proj as linear layers (one matrix for all heads each). In evaluation
    mode its output is compared with the formula's on random float64 inputs, on a shorter sequence, and on scores far
    below 0; a known mistake is named.
    """
    generator = torch.Generator().manual_seed(0)
    module = _tried(lambda: build(6, 12, 5, 0.5, 3).double().eval())
    for name in ("W_query", "W_key", "W_value", "out_proj"):
        if not isinstance(getattr(module, name, None), nn.Linear):
            missing = name == "out_proj" and isinstance(getattr(module, name, None), (nn.Identity, type(None)))
            fault = "the output projection is missing" if missing else f"it has no linear layer {name}"
            raise CheckError(f"not multi-head attention: {fault}")
        for parameter in getattr(module, name).parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    x = torch.randn(2, 5, 6, generator=generator, dtype=torch.float64)
    cases = [x, x[:, :3]]
    got = [_tried(lambda x=x: module(x.clone())) for x in cases]
    right = _heads_with()
    if not torch.equal(got[0].nan_to_num(), _tried(lambda: module(x.clone())).nan_to_num()):
        raise CheckError("not multi-head attention: dropout is left on in evaluation")
    for x, output in zip(cases, got, strict=True):
        if output.shape != (*x.shape[:2], 12):
            raise CheckError(f"not multi-head attention: the output has the shape {tuple(output.shape)} "
                             f"instead of {(*x.shape[:2], 12)}")  # fmt: skip
    if not all(_all_close([output], [right(module, x)]) for x, output in zip(cases, got, strict=True)):
        for name, mistakes in MULTI_HEAD_MISTAKES.items():
            for mistake in mistakes:
                if all(_all_close([output], [mistake(module, x)]) for x, output in zip(cases, got, strict=True)):
                    raise CheckError(f"not multi-head attention: {name}")
        apart = max((output - right(module, x)).abs().max().item() for x, output in zip(cases, got, strict=True))
        raise CheckError(f"not multi-head attention: the result differs from the formula by {apart:.3g}")
    # Keys opposite to queries: every word's score with itself is far below 0, and below any finite mask value.
    module.W_key.weight.copy_(-module.W_query.weight)
    if module.W_key.bias is not None:
        module.W_key.bias.copy_(-module.W_query.bias)
    for size in (1e2, 1e5, 1e20, 1e60):
        output = module(size * cases[0])
        if not _all_close([output], [right(module, size * cases[0])]):
            raise CheckError(f"not multi-head attention: {OVERFLOW if output.isnan().any() else FINITE}")


def _tried(call: Callable) -> Any:
    try:
        result = call()
    except Exception as error:
        raise CheckError(f"not multi-head attention: it raises {type(error).__name__}: {error}") from error
    if not isinstance(result, (Tensor, nn.Module)):
        raise CheckError(f"not multi-head attention: it returns a {type(result).__name__}, not a tensor")
    return result


@torch.no_grad()
def dropout(module: nn.Module, x: Tensor) -> None:
    """CheckError unless `module`, causal attention with dropout on its weights, drops as it should.

    x is one short sequence (T, C). In evaluation nothing is random. In training the output varies, at the first token
    too, whose one weight of 1 only a dropout AFTER softmax can touch, and on average over 20,000 draws it is that of
    evaluation, also for inputs a hundred times as large, whose softmax is sharp. Every layer's mode stays as it was.
    """
    with evaluating(module), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if not torch.equal(module(x[None]), module(x[None])):
            raise CheckError("dropout is left on in evaluation: two calls give two results")
        wrong = {factor: _wrong_on_average(module, factor * x) for factor in (1e-3, 1, 100)}
    if any(wrong.values()):
        if not wrong[1e-3]:  # where softmax is flat, dropped scores hardly show
            raise CheckError(EARLY)
        raise CheckError("on average the output is not that of evaluation: kept weights must be divided by 1 - p")


EARLY = "dropout comes before the softmax: it must drop weights, not scores"


def _wrong_on_average(module: nn.Module, x: Tensor) -> bool:
    """Is the mean of 20,000 outputs in training another than the output in evaluation?"""
    expected = module.eval()(x[None])[0]
    drawn = module.train()(x.expand(20_000, *x.shape))
    if torch.equal(drawn, drawn[:1].expand_as(drawn)):
        raise CheckError("dropout is never applied: in training all draws are the same")
    first = drawn[:, 0]
    if drawn.isnan().any() or (torch.equal(first, first[:1].expand_as(first)) and expected[0].any()):
        raise CheckError(EARLY)
    error = drawn.double().std(0) / len(drawn) ** 0.5
    return bool(((drawn.double().mean(0) - expected).abs() > 5 * error + 1e-5 * expected.abs().max()).any())
