"""Checks that the notebooks use: properties of attention, and mistakes called by name (see mistakes.py)."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from helpers.core.attention import attention, causal_mask
from helpers.grading.checks import mistakes
from helpers.grading.checks.heads import multi_head as multi_head
from helpers.grading.checks.mistakes import Trial, all_close
from helpers.support.errors import CheckError, HelpersError
from helpers.support.modes import evaluating


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
    """CheckError unless every row (last dimension) holds weights of at least 0 that add up to 1. NaN is no weight."""
    sums = weights.sum(-1)
    if weights.isnan().any():
        raise CheckError(f"{int(weights.isnan().sum())} of {weights.numel()} weights are not a number (NaN): "
                         "does a row allow nothing, or did a large score overflow?")  # fmt: skip
    if (weights < 0).any():
        raise CheckError(f"a weight is negative: {weights.min().item():.4f}")
    if not ((sums - 1).abs() <= tolerance).all():
        columns_do = weights.dim() > 1 and ((weights.sum(-2) - 1).abs() <= tolerance).all()
        hint = "; the columns do: is the softmax taken over the queries?" if columns_do else ""
        raise CheckError(f"rows do not sum to 1 but to {sums.min().item():.4f} .. {sums.max().item():.4f}{hint}")


def _another(x: Tensor) -> Tensor:
    """Every token replaced by one that differs from it: random vectors, or for ids the next one that x holds."""
    if x.is_floating_point():
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return (noise * x.float().std().item()).to(x)
    ids, index = x.unique(return_inverse=True)
    return ids[(index + 1) % len(ids)]


@torch.no_grad()
def causal(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """CheckError if output t of `function` changes when inputs after t do. x is (B, T) ids or (B, T, C) vectors.

    A module must be in evaluation mode, for dropout changes outputs too; and it must leave x as it is.

    For every t the whole future is replaced, once by tokens that differ from it at every place and once by copies of
    the sequence's first token; the outputs up to t must stay the same to the last bit. Vectors are tried a million
    times as large, too (the future alone, and all), where a mask with a finite value leaks.
    """
    if x.dim() != (3 if x.is_floating_point() else 2) or x.shape[1] < 2 or torch.equal(x, x[:, :1].expand_as(x)):
        raise CheckError("causality is tried on ids (B, T) or vectors (B, T, C), with different tokens in a sequence")

    def called(x: Tensor) -> Tensor:
        given = x.clone()
        output = function(given).clone()  # a copy, for the function may write its next output over this one
        if not torch.equal(given.nan_to_num(), x.nan_to_num()):
            raise CheckError("it changes its input in place: the caller's x must stay as it is")
        return output.nan_to_num()  # two NaN are no change

    T, other = x.shape[1], _another(x)
    before = called(x)
    if before.shape[:2] != x.shape[:2]:
        raise CheckError(f"the output has the shape {tuple(before.shape)}, not one row for each of {T} tokens")
    if not torch.equal(before, called(x)):
        raise CheckError("two calls with the same input give two results: is it in training, or does it keep a state?")
    # How large the past is and how large the future, and the future itself.
    futures: list[tuple[float, float, Tensor]] = [(1, 1, other), (1, 1, x[:, :1].expand_as(x))]
    if x.is_floating_point():
        large = min(1e6, torch.finfo(x.dtype).max ** 0.25)  # products of four of them are still numbers
        futures += [(1, large, other), (large, large, other)]
    befores = {past: called(past * x) for past, _, _ in futures}
    for t in range(T - 1):
        for past, size, future in futures:
            after = called(torch.cat([past * x[:, : t + 1], size * future[:, t + 1 :]], dim=1))
            if not torch.equal(befores[past][:, : t + 1], after[:, : t + 1]):
                when = f", for inputs {size:,.0f} times as large" if size > 1 else ""
                where = f"position {t} or before" if t else "position 0"
                raise CheckError(f"not causal: the output at {where} changes with what comes after it{when}")


# ---------------------------------------------------------------- the formula
@torch.no_grad()
def attention_formula(candidate: Callable) -> None:
    """CheckError unless `candidate(query, key, value, mask)` gives attention's context and weights.

    Tried on random float64 inputs with head widths 1, 3, 4, 7 and 16; (B, T, D) and, with heads, (B, H, T, D); one
    text and two; as many keys as queries, more and fewer; without a mask, with a causal one and with masks that are
    not; then on scores down to -1e200 and with an empty row, where a finite mask value shows. The inputs must stay as
    they are. Single precision inside is fine. A known mistake is named.
    """
    cases = mistakes.formula_cases()
    rights = [attention(*case) for case in cases]
    got, errors, changed = [], [], ""
    for case in cases:
        try:
            result, touched = _called(candidate, case)
            changed = changed or touched
        except CheckError as error:
            result = None
            errors.append((case, error))
        got.append(result)
    tried = [(case, g, right) for case, g, right in zip(cases, got, rights, strict=True) if g is not None]
    if errors or not all(all_close(g, right) for _, g, right in tried):
        trials = [Trial(query, key, mask, g[1]) for (query, key, _, mask), g, _ in tried]
        right_weights = all(all_close(g[1:], right[1:]) for _, g, right in tried)
        fault = None if right_weights else mistakes.weights_fault(trials)
        if fault is None and errors:
            raise _with_a_hint(candidate, cases, errors)
        apart = max((a - b).abs().max().item() for _, g, right in tried for a, b in zip(g, right, strict=True))
        but = "the weights are right, but the context" if right_weights else "the result"
        raise CheckError(f"not attention: {fault or f'{but} differs from the formula by {apart:.3g}'}")
    for (*_, mask), (_, weights), _ in tried:
        if mask is not None and (weights.masked_fill(mask, 0) > 0).any():
            raise CheckError(f"not attention: {mistakes.FINITE}")
    if changed:
        raise CheckError(f"not attention: it changes its input, the {changed}, in place")
    double = all(all_close(g, right, 1e-11) for _, g, right in tried)
    query, key, value, mask = cases[1]
    for size in (1e3, 1e6, 1e20, 1e100) if double else (1e3, 1e6, 1e17):  # below any finite mask value
        low = (-size * query.abs(), size * key.abs(), value, mask)
        fault = mistakes.fault_far_below_zero(low, _called(candidate, low)[0], attention(*low))
        if fault:
            raise CheckError(f"not attention: {fault}")
    empty = causal_mask(5).clone()
    empty[2] = False
    _, weights = _called(candidate, (query, key, value, empty))[0]
    if (weights[:, 2] > 0).any():  # NaN, as the formula has it, and 0, as PyTorch chose, are both fine
        raise CheckError(f"not attention: {mistakes.FINITE}")


def _called(candidate: Callable, case: tuple) -> tuple[tuple[Tensor, Tensor], str]:
    """The candidate's context and weights, and which input it changed; CheckError for anything else."""
    query, key, value, _ = case
    copies = [x if x is None else x.clone() for x in case]
    try:
        result = candidate(*copies)
    except Exception as error:
        raise CheckError(f"not attention: it raises {type(error).__name__}: {error}") from error
    if not isinstance(result, tuple | list) or len(result) != 2 or not all(isinstance(x, Tensor) for x in result):
        raise CheckError("not attention: it must return two tensors, the context and the weights")
    expected = (*query.shape[:-1], value.shape[-1]), (*query.shape[:-1], key.shape[-2])
    for name, tensor, shape in zip(("context", "weights"), result, expected, strict=True):
        if tensor.shape != shape:
            raise CheckError(f"not attention: the {name} should have the shape {shape}, not {tuple(tensor.shape)}")
    changed = [
        name
        for name, x, copy in zip(("query", "key", "value", "mask"), case, copies, strict=True)
        if x is not None and not torch.equal(x, copy)
    ]
    return (result[0].clone(), result[1].clone()), " and the ".join(changed)


def _with_a_hint(candidate: Callable, cases: list[tuple], errors: list[tuple]) -> CheckError:
    """The first error, and what it may come from: calls that go wrong only in a batch, with heads, and so on."""
    (query, key, _, mask), error = errors[0]
    failed = [query.dim() for (query, *_), _ in errors]
    single = tuple(x[0] for x in cases[0][:3])
    hint = ""
    if len(errors) == len(cases):
        try:
            if all_close(_called(candidate, (*single, None))[0], attention(*single)):
                hint = "; on one text, (T, D), it is right: exchange the last two axes, with key.transpose(-2, -1), "
                hint += "for key.T and key.transpose(0, 1) exchange others in a batch"
        except CheckError:
            pass
    elif set(failed) == {4} and len(failed) == sum(query.dim() == 4 for query, *_ in cases):
        hint = "; without heads, (B, T, D), it is right: count the axes from the end, as in key.transpose(-2, -1)"
    else:
        hint = f", for {query.shape[-2]} queries and {key.shape[-2]} keys " + ("without" if mask is None else "with")
        hint += " a mask"
    return CheckError(f"{error}{hint}")


# ---------------------------------------------------------------- dropout
DRAWS = 20_000


@torch.no_grad()
def dropout(module: nn.Module, x: Tensor, p: float | None = None) -> None:
    """CheckError unless `module`, causal attention with dropout on its weights, drops as it should.

    x is one short sequence (T, C). In evaluation nothing is random. In training the output varies, at the first token
    too, whose one weight of 1 only a dropout AFTER softmax can touch, and on average over 20,000 draws it is that of
    evaluation, also for inputs a hundred times as large, whose softmax is sharp. What is dropped is told from a text
    of equal words: each weight by itself. How much, from the largest output: p, or where p is not given the one that
    the module states (nn.Dropout's, or its attribute `dropout` or `p`). Every layer's mode stays as it was.

    A right module is refused by chance with a probability of 1e-9 for each of the 3 T C + T means that are compared.
    """
    with evaluating(module), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if not torch.equal(module(x[None]), module(x[None])):
            raise CheckError("dropout is left on in evaluation: two calls give two results")
        wrong = {factor: _wrong_on_average(module, factor * x) for factor in (1e-3, 1, 100)}
        if any(wrong.values()) and not wrong[1e-3]:  # where softmax is flat, dropped scores hardly show
            raise CheckError(mistakes.EARLY)
        fault = _fault_of_dropout(module, x, _stated(module) if p is None else p, mean_is_wrong=wrong[1e-3])
    if fault:
        raise CheckError(fault)


def _drawn(module: nn.Module, x: Tensor, draws: int = DRAWS) -> Tensor:
    """Outputs in training, from a copy of x for each."""
    given = x.repeat(draws, 1, 1)
    drawn = module.train()(given)
    if not torch.equal(given[-1], x):
        raise CheckError("it changes its input in place: the caller's x must stay as it is")
    return drawn


def _wrong_on_average(module: nn.Module, x: Tensor) -> bool:
    """Is the mean of 20,000 outputs in training another than the output in evaluation?"""
    expected = module.eval()(x[None])[0]
    drawn = _drawn(module, x)
    if torch.equal(drawn, drawn[:1].expand_as(drawn)):
        again = torch.equal(drawn[:1], module(x[None]))
        raise CheckError("dropout is never applied: in training all draws are the same" if again else mistakes.SHARED)
    first = drawn[:, 0]
    if drawn.isnan().any() or (torch.equal(first, first[:1].expand_as(first)) and expected[0].any()):
        raise CheckError(mistakes.EARLY)
    off = (drawn.double().mean(0) - expected).abs()
    return bool((off > _luck(drawn) + 1e-5 * expected.abs().max()).any())


def _luck(draws: Tensor) -> Tensor:
    """How far the mean over the first dimension may be off by chance: farther with a probability of 1e-9.

    Bernstein's inequality, with the variance and the largest deviation that were seen: 6.5 standard errors and a term
    for rare large numbers, which a normal distribution would forget.
    """
    spread, far, n = draws.var(0), (draws - draws.mean(0)).abs().amax(0), len(draws)
    nats = math.log(2 / 1e-9)
    return (2 * nats * spread / n).sqrt() + 2 / 3 * nats * far / n


def _fault_of_dropout(module: nn.Module, x: Tensor, p: float | None, mean_is_wrong: bool) -> str | None:
    """What is dropped, and how much of it, if not each weight by itself with probability p.

    In a text of T equal words every weight is 1 / (t + 1), and a text of zeros, drawn with the same seed, shows what
    the biases do; the difference is the sum of what was kept.
    """
    text, zeros = x[x.norm(dim=-1).argmax()].expand_as(x), torch.zeros_like(x)
    drawn = []
    for words, draws in ((text, 64), (text, 64), (text, DRAWS // 4), (zeros, DRAWS // 4)):
        torch.manual_seed(0)
        drawn.append(_drawn(module, words, draws))
    if not torch.equal(drawn[0], drawn[1]):
        return mistakes.UNSEEDED
    first = [module.eval()(words[None])[0, 0].double() for words in (text, zeros)]
    full, kept = first[0] - first[1], (drawn[2] - drawn[3]).double()  # (C), (draws, T, C)
    if not full.any():
        raise CheckError("dropout is tried on vectors x (T, C) for which the module's outputs are not all 0")
    share = kept[:, 0] @ full / full.dot(full)  # of the first word's value, how much is there?
    nothing_dropped = (kept[:, 0] - share[:, None] * full).norm(dim=-1) < 1e-3 * full.norm()
    fault = _wrongly_dropped(kept, full, share, _number_of_heads(module))
    if fault or not (share[nothing_dropped] > 1e-3).any():
        return fault or (mistakes.UNSCALED if mean_is_wrong else None)
    factor = share[nothing_dropped].max().item()
    return mistakes.dropout_rate_fault(p, factor, 1 - share.mean().item() / factor, mean_is_wrong)


def _wrongly_dropped(kept: Tensor, full: Tensor, share: Tensor, heads: int | None) -> str | None:
    """What is dropped instead of single weights, from what is kept (draws, T, C) of T equal words."""
    T, first = kept.shape[1], kept[:, 0]
    spread = kept.var(0).sum(-1)  # (T)
    directions = torch.linalg.eigvalsh(first.T @ first)
    parts = int((directions > 1e-9 * directions[-1]).sum())  # so many are dropped independently: one for each head
    outcomes = len((1000 * share).round().unique())
    if spread[0] < 1e-10 * full.dot(full) or (parts <= 8 and outcomes > 4 * 2**parts):
        return mistakes.NOISE
    centred = kept - kept.mean(0)
    products = (centred[:, :1] * centred).sum(-1)[:, 1:]  # of the first query and each later one
    shared = T > 1 and bool((products.mean(0).abs() > _luck(products)).any())
    at_once = bool(spread[-1] / spread[0] > (1 + 1 / T) / 2)  # 1 / T when each weight is drawn for itself
    numbers = parts > heads if heads else parts == full.numel() > 1 and (shared or at_once)  # or as many heads
    return mistakes.DROPPED.get((shared, at_once, numbers))


def _stated(module: nn.Module) -> float | None:
    """The p that a module gives as its own, if it is one."""
    owners = [(owner, name) for owner in module.modules() for name in ("p", "dropout", "dropout_p")]
    found = {getattr(*owner, None) for owner in owners}
    found = {p for p in found if isinstance(p, float)}
    return found.pop() if len(found) == 1 else None


def _number_of_heads(module: nn.Module) -> int | None:
    for name in ("num_heads", "n_head", "n_heads", "nhead", "heads"):
        for owner in module.modules():
            heads = getattr(owner, name, None)
            if isinstance(heads, int | nn.ModuleList):
                return heads if isinstance(heads, int) else len(heads)
    return None
