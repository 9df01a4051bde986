"""Checks that the notebooks use: properties of attention, mistakes called by their name, and graders for exercises."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention, attention, causal_mask
from helpers.errors import CheckError
from helpers.gpt import GPT, GPTConfig
from helpers.sampling import generate


def equal(ours: Tensor, theirs: Tensor, tolerance: float = 1e-6) -> None:
    """CheckError unless the shapes are the same and no entry differs by more than `tolerance`.

    NaN differs from everything, infinity is equal to itself.
    """
    if ours.shape != theirs.shape:
        raise CheckError(f"the shapes differ: {tuple(ours.shape)} and {tuple(theirs.shape)}")
    close = (ours == theirs) | ((ours - theirs).abs() <= tolerance)
    if not close.all():
        place = tuple((~close).nonzero()[0].tolist())
        raise CheckError(f"{int((~close).sum())} of {close.numel()} entries differ, the first at {place}: "
                         f"{ours[place].item():.6g} and {theirs[place].item():.6g}")  # fmt: skip


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


def _all_close(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> bool:
    """Are all tensors close, in those rows that `theirs` defines (an inverted mask leaves an empty row, NaN)?"""
    for a, b in zip(ours, theirs, strict=True):
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
    evaluation, also for inputs a hundred times as large, whose softmax is sharp. The module's mode stays as it was.
    """
    was_training = module.training
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module.eval()
            if not torch.equal(module(x[None]), module(x[None])):
                raise CheckError("dropout is left on in evaluation: two calls give two results")
            wrong = {factor: _wrong_on_average(module, factor * x) for factor in (1e-3, 1, 100)}
    finally:
        module.train(was_training)
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


# ---------------------------------------------------------------- exercises
def exercise(name: str, answer: Callable, cases: Sequence[tuple[tuple, object]], hint: str) -> bool:
    """Call `answer` on each case and print one line: still to do (it returns None or ...), not yet, or right."""
    for arguments, expected in cases:
        try:
            got = answer(*arguments)
        except Exception as error:  # a learner's code may raise anything, and "run all" must go on
            print(f"{name}: not yet, it raises {type(error).__name__}: {error}. Hint: {hint}")
            return False
        if got is None or got is ...:
            print(f"{name}: still to do")
            return False
        wrong = _difference(got, expected)
        if wrong:
            print(f"{name}: not yet, {wrong}. Hint: {hint}")
            return False
    print(f"{name}: right")
    return True


def _difference(got: object, expected: object) -> str:
    try:
        ours, right = torch.as_tensor(got, dtype=torch.float64), torch.as_tensor(expected, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return f"it returns a {type(got).__name__}, which is no number and no tensor"
    if ours.shape != right.shape:
        return f"the shape is {tuple(ours.shape)} and should be {tuple(right.shape)}"
    if not torch.allclose(ours, right, atol=1e-5):
        place = (ours - right).abs().nan_to_num(nan=float("inf")).argmax()
        return f"it gives {ours.flatten()[place]:.4f} where {right.flatten()[place]:.4f} is right"
    return ""


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def exercise_00_word_for_word(answer: Callable) -> bool:
    """answer(words, dictionary) -> the words looked up one by one, a word that is not there left as it is."""
    cases = [
        (["kannst", "du", "mir"], {"kannst": "can", "du": "you", "mir": "me"}),
        (["du", "und", "du"], {"du": "you"}),
    ]
    expected = [[dictionary.get(word, word) for word in words] for words, dictionary in cases]
    # Sentences as numbers, for `exercise` compares those.
    number = {word: i for i, word in enumerate(sorted({w for line in expected for w in line}))}

    def numbered(words: list[str], dictionary: dict[str, str]) -> object:
        got = answer(list(words), dict(dictionary))
        return got if got is None or got is ... else [number.get(word, -1) for word in got]

    graded = [(case, [number[word] for word in line]) for case, line in zip(cases, expected, strict=True)]
    return exercise("0a", numbered, graded, "one dictionary look-up for each word; dict.get takes a second argument")


def exercise_00_additive(answer: Callable) -> bool:
    """answer(query (D,), keys (S, D), W_query (D, D), W_key (D, D), v (D,)) -> additive scores (S,)."""
    arguments = (_random(3, seed=1), _random(5, 3, seed=2), _random(3, 3, seed=3), _random(3, 3, seed=4))
    query, keys, W_query, W_key = arguments
    v = _random(3, seed=5)
    expected = torch.tanh(query @ W_query + keys @ W_key) @ v
    return exercise(
        "0b", answer, [((*arguments, v), expected)], "tanh of the sum of both projections, then its product with v"
    )


def exercise_00_alignment(answer: Callable) -> bool:
    """answer(weights (T, S)) -> for each written word t the place of the word read that it looked at most (T,)."""
    weights = [_random(*shape, seed=shape[0]).softmax(-1) for shape in ((5, 5), (3, 6))]
    return exercise("0c", answer, [((w,), w.argmax(-1)) for w in weights], "argmax; along which dimension?")


def exercise_01_scores(answer: Callable) -> bool:
    """answer(queries (T, D), keys (S, D)) -> scores (T, S), with loops."""
    pairs = [(_random(2, 3), _random(4, 3, seed=1)), (_random(1, 1), _random(1, 1, seed=2))]
    cases = [((queries, keys), queries @ keys.T) for queries, keys in pairs]
    return exercise("1a", answer, cases, "scores[t, s] is the sum of queries[t, i] * keys[s, i] over i")


def exercise_01_cosine(answer: Callable) -> bool:
    """answer(a (D,), b (D,)) -> the cosine of the angle between them."""
    pairs = [(_random(3), _random(3, seed=1)), (_random(3), 5 * _random(3)), (_random(2), -0.1 * _random(2))]
    cases = [((a, b), F.cosine_similarity(a, b, dim=0)) for a, b in pairs]
    return exercise(
        "1b",
        answer,
        cases,
        "a dot product is length times length times the cosine; how long is a, if a @ a is the square?",
    )


def exercise_01_nearest(answer: Callable) -> bool:
    """answer(i, vectors (T, D)) -> index of the OTHER vector that scores highest with vector i."""
    cases = []
    for seed in range(4):
        vectors = _random(6, 3, seed=seed)
        scores = (vectors @ vectors.T).fill_diagonal_(float("-inf"))
        cases += [((i, vectors), scores[i].argmax()) for i in range(6)]
    return exercise("1c", answer, cases, "a word may not choose itself: set its own score to -inf first")


def exercise_02_softmax(answer: Callable) -> bool:
    """answer(scores (..., T)) -> weights of the same shape, also for scores of a thousand."""
    scores = [_random(6), _random(2, 3, 4), 1000 * _random(5, 3), torch.tensor([-1000.0, -1001.0])]
    cases = [((s,), s.softmax(dim=-1)) for s in scores]
    return exercise("2a", answer, cases, "take the largest score of each row away first; keepdim=True keeps the shape")


def exercise_02_contexts(answer: Callable) -> bool:
    """answer(queries (T, D), keys (S, D), values (S, E)) -> contexts (T, E), unscaled."""
    queries, keys, values = _random(2, 3), _random(4, 3, seed=1), _random(4, 5, seed=2)
    expected = (queries @ keys.T).softmax(dim=-1) @ values
    return exercise(
        "2b", answer, [((queries, keys, values), expected)], "scores, softmax along each row, weights @ values"
    )


def exercise_02_temperature(answer: Callable) -> bool:
    """answer(scores (T,), share) -> the temperature at which the largest weight is `share`."""

    def reached(scores: Tensor, share: float):
        temperature = answer(scores, share)
        if temperature is None or temperature is ...:
            return temperature
        if torch.as_tensor(temperature).numel() != 1 or not temperature > 0:
            return "no temperature"
        return (scores / temperature).softmax(dim=-1).max()

    cases = [((_random(6, seed=i), share), share) for i, share in enumerate((0.2, 0.5, 0.9, 0.999))]
    hint = "the largest weight falls as the temperature rises: start with a low and a high one, and halve the interval"
    return exercise("2c", reached, cases, hint)


def exercise_03_attention(answer: Callable) -> bool:
    """answer(query, key, value), any leading dimensions -> context, weights."""

    def both(*arguments):
        result = answer(*arguments)
        if result is None or result is ...:
            return result
        return torch.cat(tuple(result), dim=-1) if isinstance(result, (tuple, list)) else "one thing alone"

    inputs = [(_random(2, 4), _random(3, 4, seed=1), _random(3, 5, seed=2)), tuple(_random(3, 2, 1, 6, 9))]
    cases = [(case, torch.cat(attention(*case), dim=-1)) for case in inputs]
    return exercise(
        "3a", both, cases, "divide by key.shape[-1] ** 0.5, swap the LAST two dimensions of key, softmax over keys"
    )


def exercise_03_cross(answer: Callable) -> bool:
    """answer(x (T, C), memory (S, C), W_query, W_key, W_value (C, D)) -> contexts (T, D)."""
    x, memory, matrices = _random(3, 4), _random(5, 4, seed=1), tuple(_random(3, 4, 2, seed=2))
    W_query, W_key, W_value = matrices
    expected = attention(x @ W_query, memory @ W_key, memory @ W_value)[0]
    return exercise("3b", answer, [((x, memory, *matrices), expected)], "only the queries come from x")


def exercise_03_gradient(answer: Callable) -> bool:
    """answer(weights (T, S), d_weights (T, S)) -> the derivative of the loss by the scores (T, S)."""
    scores = _random(4, 6).requires_grad_()
    weights, d_weights = scores.softmax(dim=-1), _random(4, 6, seed=1)
    (expected,) = torch.autograd.grad(weights, scores, d_weights)
    hint = "what raises one score's weight lowers the others': take the weighted mean of d_weights away, row by row"
    return exercise("3c", answer, [((weights.detach(), d_weights), expected)], hint)


def exercise_04_average(answer: Callable) -> bool:
    """answer(x (T, C)) -> (T, C): row t is the average of rows 0 to t."""
    inputs = [_random(6, 3), _random(1, 2, seed=1), _random(9, 1, seed=2)]
    cases = [((x,), torch.stack([x[: t + 1].mean(dim=0) for t in range(len(x))])) for x in inputs]
    return exercise(
        "4a", answer, cases, "row t of the matrix is 1/(t+1), t+1 times, then zeros; tril makes the triangle"
    )


def exercise_04_window(answer: Callable) -> bool:
    """answer(T, window) -> Bool (T, T): True where query t may see key s, that is t - window < s <= t."""
    cases = []
    for T, window in ((5, 2), (6, 3), (4, 1), (3, 9)):
        t, s = torch.arange(T)[:, None], torch.arange(T)
        cases.append(((T, window), (s <= t) & (s > t - window)))
    return exercise("4b", answer, cases, "a triangle without another triangle: tril takes a diagonal=")


def exercise_04_causal(answer: Callable) -> bool:
    """answer(function (T, C) -> (T, D), x (T, C)) -> is the function causal?"""
    x, mask = _random(6, 3), causal_mask(6)
    functions = {
        lambda x: x.cumsum(dim=0): True,
        lambda x: attention(x, x, x, mask[: len(x), : len(x)])[0]: True,
        lambda x: x * 2: True,
        lambda x: attention(x, x, x)[0]: False,
        lambda x: torch.cat([x[1:], x[-1:]]): False,
        lambda x: torch.cat([x[:-2], x[-2:].flip(0)]): False,  # only the last but one looks ahead
        lambda x: x + 1e-3 * x[-1:] ** 2: False,
        lambda x: torch.cat([x[:1] + x[2:3], x[1:]]): False,  # the first looks ahead, but not to the end
    }
    hint = (
        "change everything after t, for every t; compare outputs 0 to t; keep the length; t itself is easily forgotten"
    )
    return exercise("4c", answer, [((function, x), causal_) for function, causal_ in functions.items()], hint)


def exercise_05_dropout(answer: Callable) -> bool:
    """answer(x, keep, p) -> x where keep is True, scaled, and 0 elsewhere."""
    cases = []
    for seed, p in enumerate((0.5, 0.1, 0.9)):
        x, keep = _random(4, 5, seed=seed), _random(4, 5, seed=seed + 9) > 0
        cases.append(((x, keep, p), torch.where(keep, x / (1 - p), 0.0)))
    return exercise("5a", answer, cases, "what is kept stands for what is lost: divide by the share that is kept")


def exercise_05_lost(answer: Callable) -> bool:
    """answer(T, p) -> the expected number of words, of T, whose weights are all dropped."""
    cases = [((T, p), sum(p**t for t in range(1, T + 1))) for T, p in ((6, 0.5), (1, 0.2), (64, 0.1))]
    return exercise("5b", answer, cases, "t weights are all lost with probability p to the t; add up over the words")


def exercise_05_causal(answer: Callable) -> bool:
    """answer(query, key, value (B, T, D), keep (B, T, T), p) -> context (B, T, D)."""
    cases = []
    for T, D, p, size in ((5, 4, 0.5, 1), (3, 9, 0.25, 1), (4, 4, 0.5, 1e6)):
        query, key, value = _random(3, 2, T, D)
        if size > 1:  # scores far below 0, where a mask that is a number shows
            query, key = -size * query.abs(), size * key.abs()
        keep = _random(2, T, T, seed=1) > 0
        _, weights = attention(query, key, value, causal_mask(T))
        cases.append(((query, key, value, keep, p), torch.where(keep, weights / (1 - p), 0.0) @ value))
    hint = "in this order: scores over the root of D, mask with -inf, softmax over dim=-1, keep / (1 - p), values"
    return exercise("5c", answer, cases, hint)


def exercise_06_split(answer: Callable) -> bool:
    """answer(x (B, T, H * D), num_heads) -> (B, H, T, D)."""
    cases = []
    for B, T, H, D in ((2, 5, 3, 4), (1, 4, 4, 1), (3, 2, 1, 6)):
        x = _random(B, T, H * D)
        cases.append(((x, H), torch.stack([x[:, :, h * D : (h + 1) * D] for h in range(H)], dim=1)))
    return exercise("6a", answer, cases, "view to (B, T, H, D) first, then exchange T and H")


def exercise_06_join(answer: Callable) -> bool:
    """answer(x (B, H, T, D)) -> (B, T, H * D), head 1 first."""
    inputs = [_random(2, 3, 5, 4), _random(1, 4, 2, 1), _random(2, 2, 2, 2)]
    cases = [((x,), torch.cat(list(x.unbind(dim=1)), dim=-1)) for x in inputs]
    return exercise(
        "6b", answer, cases, "exchange H and T back, then flatten the last two (view alone will refuse or scramble)"
    )


def exercise_06_multi_head(answer: Callable) -> bool:
    """answer(x (B, T, C), W_query, W_key, W_value, W_out (C, C), num_heads) -> (B, T, C)."""
    cases = []
    for T, num_heads, size in ((5, 3, 1), (4, 2, 1), (6, 1, 1), (5, 3, 1e5)):
        x, matrices = _random(2, T, 12), list(_random(4, 12, 12, seed=1))
        if size > 1:  # each word's score with itself is far below 0, where a mask that is a number shows
            matrices[:2] = size * matrices[0], -size * matrices[0]
        module = MultiHeadAttention(12, 12, T, 0.0, num_heads, out_bias=False)
        names = ("W_query", "W_key", "W_value", "out_proj")
        module.load_state_dict({f"{name}.weight": W.T for name, W in zip(names, matrices, strict=True)})
        cases.append(((x, *matrices, num_heads), module(x).detach()))
    hint = "project, split, scores over the root of the HEAD width, mask, softmax, values, join, W_out"
    return exercise("6c", answer, cases, hint)


def exercise_07_layer_norm(answer: Callable) -> bool:
    """answer(x (T, C), gain (C,), shift (C,)) -> each row to mean 0 and variance 1, times gain, plus shift (T, C)."""
    x, gain, shift = 0.05 * _random(5, 8) + 1, _random(8, seed=1), _random(8, seed=2)
    cases = [((table, gain, shift), F.layer_norm(table, (8,), gain, shift)) for table in (x, 0.01 * x)]
    return exercise(
        "7a", answer, cases, "mean and variance (divided by C, not C - 1) over the last dimension; 1e-5 inside the root"
    )


def exercise_07_block(answer: Callable) -> bool:
    """answer(x, norm1, attention, norm2, mlp) -> the pre-norm block's output."""
    x, W = _random(3, 4), 0.5 * _random(2, 4, 4, seed=1)
    parts = (
        lambda x: x / x.norm(),
        lambda x: (x @ W[0]).sin(),
        lambda x: x - x.mean(),
        lambda x: (x @ W[1]).tanh(),
    )
    norm1, attend, norm2, mlp = parts
    after = x + attend(norm1(x))
    hint = "two lines, each of the form x = x + ..."
    return exercise("7b", answer, [((x, *parts), after + mlp(norm2(after)))], hint)


def exercise_07_mlp_share(answer: Callable) -> bool:
    """answer(V, T, L, C) -> share of a GPT's parameters in its MLPs, without biases, the head sharing its table."""
    cases = [(65, 64, 4, 128), (50257, 1024, 12, 768), (50257, 1024, 48, 1600)]
    share = [8 * C * C * L / (V * C + T * C + L * (12 * C * C + 2 * C) + C) for V, T, L, C in cases]
    hint = "count both tables, 4 C^2 + 8 C^2 + two gains of C in each block, and one last gain"
    return exercise("7c", answer, list(zip(cases, share, strict=True)), hint)


def exercise_08_perplexity(answer: Callable) -> bool:
    """answer(loss in nats) -> between how many equally likely characters the model hesitates."""
    cases = [((loss,), math.exp(loss)) for loss in (0.0, 1.9, math.log(65))]
    return exercise("8a", answer, cases, "a model that hesitates between n equally likely characters has the loss ln n")


def exercise_08_batch(answer: Callable) -> bool:
    """answer(tokens (N,), starts (B,), T) -> x stacked on y: (2, B, T)."""
    tokens, starts = torch.arange(100).flip(0) % 7, torch.tensor([3, 50, 0])
    x = torch.stack([tokens[s : s + 6] for s in starts])
    y = torch.stack([tokens[s + 1 : s + 7] for s in starts])
    return exercise("8b", answer, [((tokens, starts, 6), torch.stack([x, y]))], "y is the same window, one token later")


def exercise_08_greedy(answer: Callable) -> bool:
    """answer(model, prompt (T,), n) -> prompt and the n likeliest next tokens, one after the other."""
    torch.manual_seed(0)
    model: nn.Module = GPT(GPTConfig(vocab_size=11, context_length=8, n_layer=1, n_head=1, n_embd=16)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)  # far from uniform: every token of the context matters
    prompt = torch.tensor([1, 2, 3])
    cases = [((model, prompt, n), generate(model, prompt, n, top_k=1)) for n in (1, 12)]
    return exercise(
        "8c",
        answer,
        cases,
        "the last row of logits says what comes next; feed the model.config.context_length last tokens",
    )


def exercise_09_temperature(answer: Callable) -> bool:
    """answer(probabilities (V,), temperature) -> the probabilities at that temperature (V,)."""
    probabilities = _random(6).softmax(0)
    cases = [((probabilities, t), (probabilities.log() / t).softmax(0)) for t in (0.5, 2.0)]
    return exercise(
        "9a", answer, cases, "temperature divides logits, and these are probabilities: what undoes a softmax?"
    )


def exercise_09_nucleus(answer: Callable) -> bool:
    """answer(probabilities (V,), p) -> 1 for each token of the nucleus, 0 for all others (V,)."""
    probabilities = torch.tensor([0.05, 0.4, 0.1, 0.3, 0.15])
    kept = {0.3: [0, 1, 0, 0, 0], 0.6: [0, 1, 0, 1, 0], 0.8: [0, 1, 0, 1, 1], 1.0: [1, 1, 1, 1, 1]}
    cases = [((probabilities, p), mask) for p, mask in kept.items()]
    hint = "sort; keep a token while those before it add up to less than p; go back to the order of the vocabulary"
    return exercise("9b", answer, cases, hint)


def exercise_09_repetition(answer: Callable) -> bool:
    """answer(tokens (T,), n) -> the share of the windows of n tokens that have occurred before."""
    texts = [[1, 2, 1, 2, 1, 2], [1, 2, 3, 4, 5, 6], [3, 3, 3, 3, 5, 3, 3]]
    cases = [((torch.tensor(text), n), _repeated(text, n)) for text in texts for n in (1, 2, 3)]
    return exercise("9c", answer, cases, "collect the windows in a set; those that do not enlarge it are repetitions")


def _repeated(text: list[int], n: int) -> float:
    windows = list(zip(*(text[i:] for i in range(n)), strict=False))
    return 1 - len(set(windows)) / len(windows)


def exercise_10_damage(answer: Callable) -> bool:
    """answer(losses (variants, seeds), whole (seeds,)) -> mean and standard deviation of the damage (variants, 2)."""
    losses, whole = 2 + 0.1 * _random(3, 4), 2 + 0.1 * _random(4, seed=1)
    damage = losses - whole
    expected = torch.stack([damage.mean(1), damage.std(1)], dim=1)
    hint = "compare each run with the whole model of the SAME seed; then mean and std (over seeds - 1) along the seeds"
    return exercise("10a", answer, [((losses, whole), expected)], hint)


def exercise_10_honest_loss(answer: Callable) -> bool:
    """answer(logits (B, T, V), targets (B, T)) -> mean loss at the last position, where nothing can leak."""
    logits, targets = _random(6, 5, 7), torch.arange(30).view(6, 5) % 7
    expected = F.cross_entropy(logits[:, -1], targets[:, -1])
    return exercise(
        "10b", answer, [((logits, targets), expected)], "F.cross_entropy of the last logits and last targets"
    )


def exercise_10_leaks(answer: Callable) -> bool:
    """answer(weights (T, T)) -> how much weight each query puts on its own future, summed (T,)."""
    weights = [_random(T, T, seed=T).softmax(-1) for T in (4, 6)]
    return exercise(
        "10c", answer, [((w,), w.triu(1).sum(-1)) for w in weights], "triu(1) keeps what is above the diagonal"
    )
