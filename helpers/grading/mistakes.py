"""What goes wrong with attention in practice, by name, and how it is read from the weights that a candidate gives.

Two ways lead to a name. A mistake that is one of a few (the softmax over another axis, heads split by view) is made
here too, and the results are compared. A mistake with a number in it (a divisor, the value that forbidden scores are
filled with, the width of a window) is measured: the logarithms of weights are scores, up to one number in each row.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from helpers.grading.variants import attention_with, exchanged, masked_late

OVERFLOW = "large scores give NaN: the softmax must take the largest score of a row away first"
LOST = "far below 0, allowed scores lose their weight: the softmax must take the largest score of a row away first"
ROOT = "the scores are not divided by the square root of the head width"
WIDTH = "the scores are divided by the head width, not by its square root"
TURNED = "the scores have the wrong sign: the smallest get the most weight"
EVEN = "the weights do not depend on the scores: every allowed key gets the same"
QUERIES = "the softmax runs over the queries, not over the keys"
INVERTED = "the mask is inverted: True must mean allowed"
TRANSPOSED = "the mask is transposed: its rows belong to the queries, its columns to the keys"
UPSIDE_DOWN = "the mask shows the future and hides the past: it is transposed (triu for tril) or inverted"
BY_ROW = "the mask is applied by row instead of column: it hides whole queries, not keys"
OWN_MASK = "it masks causally, whatever mask it is given"
FORGOTTEN = "the mask is not applied"
AFTERWARDS = "the mask comes after the softmax: the rows no longer sum to 1; forbidden scores must be -inf before it"
LATE = "the mask comes after the softmax: where a forbidden score is far larger, the allowed ones get no weight"
ZERO = "forbidden scores are set to 0, which still gets weight; they must be -inf"
FINITE = "forbidden scores are set to a finite number, which still gets weight; they must be -inf"
ADDED = "a finite number is added to forbidden scores, which still get weight; they must be -inf"


class Trial(NamedTuple):
    """One call: the inputs, with any leading dimensions, and the weights that came back."""

    query: Tensor
    key: Tensor
    mask: Tensor | None
    weights: Tensor

    @property
    def scores(self) -> Tensor:
        return self.query @ self.key.transpose(-2, -1)

    @property
    def allowed(self) -> Tensor:
        everything = torch.ones(self.weights.shape[-2:], dtype=torch.bool)
        return (everything if self.mask is None else self.mask).expand_as(self.weights)


def all_close(got: Sequence[Tensor], right: Sequence[Tensor], relative: float = 1e-5) -> bool:
    """Are all tensors close, in those rows that `right` defines? Single precision must do: it is right, only coarser.

    Beside `relative`, an entry may be off by a tenth of that part of the largest entry, for sums that cancel.
    """
    for a, b in zip(got, right, strict=True):
        defined = ~b.isnan().any(dim=-1, keepdim=True).expand_as(b)
        a, b = a.to(b.dtype)[defined], b[defined]
        if not a.numel() or not torch.allclose(a, b, relative, 0.1 * relative * max(1.0, b.abs().max().item())):
            return False
    return True


# ---------------------------------------------------------------- over which axis the softmax runs
AXES: dict[str, Callable] = {
    QUERIES: attention_with(dim=-2),
    "the softmax runs over dim=1, the queries of (B, T, S) and the heads of (B, H, T, S); the keys are dim=-1": (
        attention_with(dim=1)
    ),
    "the softmax runs over dim=2, which with heads, (B, H, T, S), are the queries; the keys are dim=-1": (
        attention_with(dim=2)
    ),
    "the softmax runs over dim=-3, as it does when no dim is given: over the batch or the heads; the keys are dim=-1": (
        attention_with(dim=-3)
    ),
    "the softmax runs over the batch; the keys are dim=-1": attention_with(dim=0),
    "query and key are exchanged: each row of the weights belongs to a query": exchanged,
}


# ---------------------------------------------------------------- by what the scores are divided
# By what, from the sizes: head width D, heads H, queries T, keys S.
DIVISORS: dict[str, Callable[[int, int, int, int], float]] = {
    ROOT: lambda D, H, T, S: 1,
    WIDTH: lambda D, H, T, S: D,
    "the scores are multiplied by the square root of the head width, not divided by it": lambda D, *_: D**-0.5,
    TURNED: lambda D, *_: -(D**0.5),
} | {
    f"the scores are divided by {what}, not by the square root of the head width": divisor
    for what, divisor in {
        "half the head width": lambda D, *_: D / 2,
        "log2 of the head width": lambda D, *_: math.log2(D),
        "the logarithm of the head width": lambda D, *_: math.log(D),
        "the square of the head width": lambda D, *_: D**2,
        "the square root of twice the head width": lambda D, *_: (2 * D) ** 0.5,
        "the square root of half the head width": lambda D, *_: (D / 2) ** 0.5,
        "the cube root of the head width": lambda D, *_: D ** (1 / 3),
        "the square root of the width of all heads together": lambda D, H, T, S: (D * H) ** 0.5,
        "the width of all heads together": lambda D, H, T, S: D * H,
        "the square root of the number of keys": lambda D, H, T, S: S**0.5,
        "the number of keys": lambda D, H, T, S: S,
        "the square root of the number of queries": lambda D, H, T, S: T**0.5,
        "the number of queries": lambda D, H, T, S: T,
        "the square root of the number of heads": lambda D, H, T, S: H**0.5,
        "the number of heads": lambda D, H, T, S: H,
    }.items()
}


def measured_slope(trial: Trial) -> float:
    """What query @ key.T was multiplied by before the softmax; NaN where nothing shows, infinity if no number fits."""
    seen = trial.allowed & (trial.weights > 0)

    def centred(x: Tensor) -> Tensor:
        x = x.double().masked_fill(~seen, 0)
        return (x - x.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)).masked_fill(~seen, 0)

    logs, scores = centred(trial.weights.log()), centred(trial.scores)
    if not scores.any():
        return math.nan
    slope = ((logs * scores).sum() / scores.square().sum()).item()
    return slope if torch.allclose(logs, slope * scores, rtol=1e-3, atol=1e-4) else math.inf


def divisor_fault(trials: Sequence[Trial]) -> str | None:
    """The name of a wrong divisor, from trials with different head widths; None when it is right, or no number."""
    found = []
    for trial in trials:
        slope = measured_slope(trial)
        if math.isinf(slope):
            return None
        if not math.isnan(slope):
            (T, S), D = trial.weights.shape[-2:], trial.key.shape[-1]
            found.append((slope, (D, trial.key.shape[1] if trial.key.dim() == 4 else 1, T, S)))

    def fits(divisor: Callable[..., float]) -> bool:
        return all(abs(slope * divisor(*sizes) - 1) < 1e-3 for slope, sizes in found)

    if not found or fits(lambda D, *_: D**0.5):
        return None
    if all(abs(slope) < 1e-4 for slope, _ in found):
        return EVEN
    for name, divisor in DIVISORS.items():
        if fits(divisor):
            return name
    shown = {sizes[0]: 1 / slope if slope else math.inf for slope, sizes in reversed(found)}
    constant = next(iter(shown.values()))
    if len(shown) > 1 and fits(lambda *_: constant):
        return f"the scores are divided by a constant, {constant:.4g}, not by the square root of the head width"
    some = ", ".join(f"{by:.4g} at width {D}" for D, by in sorted(shown.items()))
    return f"the scores are not divided by the square root of the head width, but by {some}"


# ---------------------------------------------------------------- which keys are seen
def _windows(mask: Tensor) -> Iterator[tuple[str, Tensor]]:
    """What a causal mask may have become, by name."""
    T, everything = mask.shape[-1], torch.ones_like(mask)
    for k in (-1, 1, *range(-2, 1 - T, -1), *range(2, T - 1)):
        what = "a word must see itself" if k < 0 else "a word must not see the next one"
        yield f"the diagonal of the mask is shifted: {what}, tril() and not tril({k})", everything.tril(k)
    yield "the mask shows every word only itself: what came before is missing", torch.eye(T, dtype=torch.bool)
    for width in range(2, T):
        name = f"the mask is a window: a word sees only the last {width} words, itself included"
        yield name, everything.tril() & everything.triu(1 - width)


def other_mask(trials: Sequence[Trial]) -> str | None:
    """The name of the mask that was taken for the one given, where it is another function of it."""
    square = [(t.mask, t.weights > 0) for t in trials if t.mask is not None and t.mask.shape[-2] == t.mask.shape[-1]]

    def seen_through(mask_of: Callable[[Tensor], Tensor]) -> bool:
        return bool(square) and all(_shows(seen, mask_of(mask)) for mask, seen in square)

    if seen_through(lambda mask: mask):
        return None
    inverted = seen_through(torch.logical_not)
    but_itself = seen_through(lambda mask: ~mask | torch.eye(*mask.shape, dtype=torch.bool))
    transposed = seen_through(lambda mask: mask.mT)
    if but_itself and transposed:  # on a causal mask they are the same
        return UPSIDE_DOWN
    if inverted or but_itself or transposed:
        return TRANSPOSED if transposed else INVERTED
    return OWN_MASK if seen_through(lambda mask: torch.ones_like(mask).tril()) else None


def _shows(seen: Tensor, mask: Tensor) -> bool:
    """Is what has weight what the mask allows, in the rows where it allows anything at all?"""
    rows = mask.any(-1)
    return torch.equal(seen[..., rows, :], mask[rows].expand_as(seen[..., rows, :]))


def _fault_of_one(trial: Trial) -> str | None:
    weights, allowed = trial.weights, trial.allowed
    scores = trial.scores / trial.key.shape[-1] ** 0.5
    right, bare = scores.masked_fill(~allowed, -math.inf).softmax(-1), scores.softmax(-1)
    if trial.mask is None or all_close([weights], [right]):
        return None
    if all_close([weights], [bare]):
        return FORGOTTEN
    if all_close([weights], [bare * allowed]):
        return AFTERWARDS
    if torch.equal(allowed, torch.ones_like(allowed).tril()):
        for name, mask in _windows(trial.mask):
            if _shows(weights > 0, mask):
                return name
    untouched = (weights - bare).abs().amax(-1) < 1e-6
    level = weights.nan_to_num()
    if (untouched | (level.amax(-1) - level.amin(-1) < 1e-9)).all():
        return BY_ROW
    if not (weights[~allowed] > 0).any():
        fewer = (weights[allowed] == 0).any() and math.isfinite(measured_slope(trial))
        return "allowed keys get no weight" if fewer else None
    # log weights + one number in each row = the scores that the softmax saw, the forbidden ones too
    logs = weights.log()
    offset = torch.where(allowed, logs - scores, 0).sum(-1, keepdim=True) / allowed.sum(-1, keepdim=True)
    filled = (logs - offset)[~allowed]
    for name, values in ((FINITE, filled), (ADDED, filled - scores[~allowed])):
        if values.isfinite().all() and values.max() - values.min() < 1e-3:
            return ZERO if name == FINITE and values.abs().max() < 1e-3 else name
    return f"forbidden keys get weight, up to {weights[~allowed].max().item():.2g}"


def weights_fault(trials: Sequence[Trial]) -> str | None:
    """The first mistake that the weights show, by its name: the axis of the softmax, the divisor, or the mask."""
    for name, variant in AXES.items():
        if all(_matches(trial, variant) for trial in trials):
            return name
    unmasked = [trial for trial in trials if trial.mask is None]
    name = other_mask(trials) or divisor_fault(unmasked or trials)
    return name or next(filter(None, map(_fault_of_one, trials)), None)


def _matches(trial: Trial, variant: Callable) -> bool:
    weights = variant(trial.query, trial.key, trial.key, trial.mask)[1]
    same = torch.allclose(trial.weights.to(weights.dtype), weights, 1e-5, 1e-6, equal_nan=True)
    return same or all_close([trial.weights], [weights])


def fault_far_below_zero(case: tuple, got: Sequence[Tensor], right: Sequence[Tensor]) -> str | None:
    """What is wrong where every allowed score is far below 0; None when nothing is."""
    query, key, _, mask = case
    if all_close(got, right):
        return None
    scores, weights = query @ key.mT / math.sqrt(key.shape[-1]), got[1]
    if (weights[~mask.expand_as(weights)] > 0).any():
        return ADDED if all_close([weights], [scores.softmax(-1)]) else FINITE
    if torch.allclose(weights.to(scores.dtype), masked_late(*case)[1], equal_nan=True):
        return LATE
    if weights.isnan().any():
        return OVERFLOW
    if not ((weights.sum(-1) - 1).abs() < 1e-3).all():
        return LOST
    return f"for scores of about {scores.mean().item():.0e} the result differs from the formula"
