"""The check of the attention formula: a candidate is tried on many inputs, and a known mistake is named."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from helpers.core.attention import attention, causal_mask
from helpers.grading import mistakes
from helpers.grading.mistakes import Trial, all_close
from helpers.support.errors import CheckError


class Case(NamedTuple):
    """The inputs of one call."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None

    @property
    def right(self) -> tuple[Tensor, Tensor]:
        return attention(*self)


class Result(NamedTuple):
    """What a candidate gave for a case, and the names of the inputs that it changed."""

    case: Case
    context: Tensor
    weights: Tensor
    changed: str

    def is_right(self, relative: float = 1e-5) -> bool:
        return all_close((self.context, self.weights), self.case.right, relative)


@torch.no_grad()
def attention_formula(candidate: Callable) -> None:
    """CheckError unless `candidate(query, key, value, mask)` gives attention's context and weights.

    Tried on random float64 inputs with head widths 1, 3, 4, 7 and 16; (B, T, D) and, with heads, (B, H, T, D); one
    text and two; as many keys as queries, more and fewer; without a mask, with a causal one and with masks that are
    not; then on scores down to -1e200 and with an empty row, where a finite mask value shows. The inputs must stay as
    they are. Single precision inside is fine. A known mistake is named.
    """
    cases = _cases()
    results, errors = [], []
    for case in cases:
        try:
            results.append(_called(candidate, case))
        except CheckError as error:
            errors.append((case, error))
    if errors or not all(result.is_right() for result in results):
        raise _what_is_wrong(candidate, cases, results, errors)
    if any(_sees_forbidden(result) for result in results):
        raise _not_attention(mistakes.FINITE)
    for result in results:
        if result.changed:
            raise _not_attention(f"it changes its input, the {result.changed}, in place")
    in_double = all(result.is_right(1e-11) for result in results)
    sizes = (1e3, 1e6, 1e20, 1e100) if in_double else (1e3, 1e6, 1e17)  # below any finite mask value
    causal_case = cases[1]
    _try_far_below_zero(candidate, causal_case, sizes)
    _try_an_empty_row(candidate, causal_case)


def _cases() -> list[Case]:
    """Several head widths, heads, one text and two, more keys than queries, fewer, and masks."""
    generator = torch.Generator().manual_seed(0)
    shapes = [  # leading dimensions, queries, keys, head width, width of the values, share that an odd mask allows
        ((2,), 5, 5, 4, 3, None),
        ((2,), 5, 5, 4, 3, 0),  # 0: the causal mask
        ((2,), 6, 6, 3, 2, 0.5),
        ((2,), 3, 5, 4, 3, 0.5),
        ((1,), 4, 7, 3, 5, None),
        ((1,), 5, 5, 1, 2, None),
        ((2, 3), 4, 6, 16, 7, None),
        ((2, 3), 5, 5, 16, 4, 0),
        ((1, 4), 6, 3, 7, 2, 0.5),
    ]
    cases = []
    for leading, T, S, D, D_value, share in shapes:
        query = torch.randn(*leading, T, D, generator=generator, dtype=torch.float64)
        key = torch.randn(*leading, S, D, generator=generator, dtype=torch.float64)
        value = torch.randn(*leading, S, D_value, generator=generator, dtype=torch.float64)
        mask = None
        if share == 0:
            mask = causal_mask(T)
        elif share:
            mask = torch.rand(T, S, generator=generator) < share
            mask[:, 2] = True  # no row is empty
        cases.append(Case(query, key, value, mask))
    return cases


def _called(candidate: Callable, case: Case) -> Result:
    """The candidate's context and weights; CheckError for anything else."""
    copies = [x if x is None else x.clone() for x in case]
    try:
        given = candidate(*copies)
    except Exception as error:
        raise _not_attention(f"it raises {type(error).__name__}: {error}") from error
    if not isinstance(given, tuple | list) or len(given) != 2 or not all(isinstance(x, Tensor) for x in given):
        raise _not_attention("it must return two tensors, the context and the weights")
    context, weights = given
    for name, tensor, right in zip(("context", "weights"), given, case.right, strict=True):
        if tensor.shape != right.shape:
            shapes = f"{tuple(right.shape)}, not {tuple(tensor.shape)}"
            raise _not_attention(f"the {name} should have the shape {shapes}")
    changed = [
        name
        for name, before, after in zip(case._fields, case, copies, strict=True)
        if before is not None and not torch.equal(before, after)
    ]
    return Result(case, context.clone(), weights.clone(), " and the ".join(changed))


def _not_attention(fault: str) -> CheckError:
    return CheckError(f"not attention: {fault}")


# ---------------------------------------------------------------- what is wrong
def _what_is_wrong(
    candidate: Callable, cases: list[Case], results: list[Result], errors: list[tuple[Case, CheckError]]
) -> CheckError:
    weights_are_right = all(all_close([result.weights], [result.case.right[1]]) for result in results)
    if not weights_are_right:
        fault = mistakes.weights_fault([Trial(r.case.query, r.case.key, r.case.mask, r.weights) for r in results])
        if fault:
            return _not_attention(fault)
    if errors:
        first_case, error = errors[0]
        return CheckError(f"{error}{_hint(candidate, cases, first_case, [case for case, _ in errors])}")
    what = "the weights are right, but the context" if weights_are_right else "the result"
    apart = max(_largest_difference(result) for result in results)
    return _not_attention(f"{what} differs from the formula by {apart:.3g}")


def _largest_difference(result: Result) -> float:
    context, weights = result.case.right
    return max((result.context - context).abs().max().item(), (result.weights - weights).abs().max().item())


def _hint(candidate: Callable, cases: list[Case], first: Case, failed: list[Case]) -> str:
    """Where an error comes from: is it right on one text, or without heads, or only on some shapes?"""
    if len(failed) == len(cases):
        query, key, value, _ = cases[0]
        one_text = Case(query[0], key[0], value[0], None)
        if not _is_right_on(candidate, one_text):
            return ""
        return (
            "; on one text, (T, D), it is right: exchange the last two axes, with key.transpose(-2, -1), "
            "for key.T and key.transpose(0, 1) exchange others in a batch"
        )
    with_heads = [case for case in cases if case.query.dim() == 4]
    if len(failed) == len(with_heads) and all(case.query.dim() == 4 for case in failed):
        return "; without heads, (B, T, D), it is right: count the axes from the end, as in key.transpose(-2, -1)"
    a_mask = "without a mask" if first.mask is None else "with a mask"
    return f", for {first.query.shape[-2]} queries and {first.key.shape[-2]} keys {a_mask}"


def _is_right_on(candidate: Callable, case: Case) -> bool:
    try:
        return _called(candidate, case).is_right()
    except CheckError:
        return False


# ---------------------------------------------------------------- where a finite mask shows
def _sees_forbidden(result: Result) -> bool:
    mask = result.case.mask
    return mask is not None and bool((result.weights.masked_fill(mask, 0) > 0).any())


def _try_far_below_zero(candidate: Callable, case: Case, sizes: Sequence[float]) -> None:
    for size in sizes:
        low = Case(-size * case.query.abs(), size * case.key.abs(), case.value, case.mask)
        result = _called(candidate, low)
        fault = mistakes.fault_far_below_zero(low, (result.context, result.weights), low.right)
        if fault:
            raise _not_attention(fault)


def _try_an_empty_row(candidate: Callable, case: Case) -> None:
    mask = causal_mask(5)
    mask[2] = False
    weights = _called(candidate, case._replace(mask=mask)).weights
    if (weights[:, 2] > 0).any():  # NaN, as the formula has it, and 0, as PyTorch chose, are both fine
        raise _not_attention(mistakes.FINITE)
