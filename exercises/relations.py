"""What a wrong answer has to do with the right one: sentences for mistakes that nobody has listed.

Three kinds are tried, in all cases: what is given is the right result with something done to it;
it is what is right for other inputs; it is right for some sizes only.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from exercises import compare
from exercises.inputs import Case, precise

Pairs = list[tuple[Case, Any]]  # a case, and what the answer gave for it

# What was done to the right result, by what a friend would say. For numbers of any kind:
DONE: dict[str, Callable[[Tensor], Tensor]] = {
    "the sign is wrong": lambda r: -r,
    "the signs are lost": lambda r: r.abs(),
    "the fraction stands on its head: that is 1 over the right number": lambda r: 1 / r,
    "that is 1 minus what is asked for": lambda r: 1 - r,
    "that is the square of what is asked for: a root is missing": lambda r: r**2,
    "one exponential too many: that is exp of what is asked for": lambda r: r.exp(),
    "one logarithm too many: that is log of what is asked for": lambda r: r.log(),
}
# For tables alone:
DONE_TO_TABLES: dict[str, Callable[[Tensor], Tensor]] = {
    "rows and columns are exchanged: turn it on its side (.mT)": lambda r: r.mT,
    "one softmax too many: it was right before the last one": lambda r: r.softmax(-1),
}
# For tables of True and False:
DONE_TO_MASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "True and False are exchanged: it hides what should be seen": lambda r: ~r,
    "rows and columns are exchanged: turn it on its side (.mT)": lambda r: r.mT,
    "all of it is True: something has to be False": torch.ones_like,
    "all of it is False: something has to be True": torch.zeros_like,
}
# What is still to be done to what is given.
LEFT: dict[str, Callable[[Tensor], Tensor]] = {
    "the softmax is missing: do that to what you have": lambda a: a.softmax(-1),
    "rows should add up to 1: divide each by its sum": lambda a: a / a.sum(-1, keepdim=True),
    "there is a dimension of 1 too many, the last one: is there a keepdim=True that should go?": (
        lambda a: a.squeeze(-1)
    ),
    "it still has to be added up along each row": lambda a: a.sum(-1),
    "it still has to be averaged along each row": lambda a: a.mean(-1),
}
# What was done to an input before the right thing was done.
CHANGED: dict[str, Callable[[Any], Any]] = {
    "`{}` should be taken as it is, and not turned on its side": lambda x: x.mT,
    "the sign of `{}` is wrong": lambda x: -x,
    "`{}` makes no difference in it": torch.zeros_like,
    "a softmax is taken of `{}` first: take it as it is": lambda x: x.softmax(-1),
    "`{}` is taken in reverse order": lambda x: x.flip(-1),
    "the rows of `{}` are taken in reverse order": lambda x: x.flip(-2),
    "`{}` counts twice": lambda x: 2 * x,
    "`{}` counts half": lambda x: x / 2,
    "`{}` is taken as 1": lambda x: 1,
    "`{}` is one too large": lambda x: x + 1,
    "`{}` is one too small": lambda x: x - 1,
}
# The same, where the input is a mask or says yes or no.
CHANGED_TRUTHS: dict[str, Callable[[Any], Any]] = {
    "True and False are exchanged in `{}`": lambda x: ~x if isinstance(x, Tensor) else not x,
    "`{}` makes no difference: it is taken as True": lambda x: x | True,
    "`{}` makes no difference: it is taken as False": lambda x: x & False,
    "`{}` should be taken as it is, and not turned on its side": lambda x: x.mT,
}
UNFIT = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
LN_2 = math.log(2)
FACTORS = {
    2: "all is twice as large as it should be",
    0.5: "all is half as large as it should be",
    100: "that is percent, and 1 means all here",
    1 / LN_2: "that is in bits: divide by ln 2 where nats are asked for, or the other way round",
    LN_2: "one logarithm has the base 2, and the other one the base e",
}
POWERS = {0.5: "√{}", -0.5: "1/√{}", 1: "{}", -1: "1/{}", 2: "{}²", -2: "1/{}²"}


# ---------------------------------------------------------------- all of them, in order
def found(
    pairs: Pairs,
    reference: Callable[..., Any],
    names: tuple[str, ...],
    gives: tuple[str, ...],
    tolerance: float,
) -> str:
    """A sentence that fits all cases, or an empty text."""
    pairs = sorted(pairs, key=lambda pair: -pair[0].count)  # the largest case tells most
    rights = [_as_tensor(case.right) for case, _ in pairs]
    values = [value for _, value in pairs]
    prefix = ""
    several = isinstance(rights[0], Tensor) and isinstance(values[0], (tuple, list))
    if several and (why := _too_much(values, rights, tolerance)):
        return why
    if isinstance(rights[0], tuple):
        if why := _of_a_tuple(values, rights, gives, tolerance):
            return why
        place = _only_wrong_part(values, rights, tolerance)
        if place is not None:
            prefix = f"{gives[place] if gives else f'number {place + 1}'}: "
            rights = [right[place] for right in rights]
            values = [compare.parts_of(value)[place] for value in values]
    cases = [case for case, _ in pairs]
    why = ""
    if all(isinstance(right, Tensor) for right in rights):
        tables = [compare.numbers(value) for value in values]
        if any(table is None for table in tables):
            return ""
        why = of_results(tables, rights, cases, names, tolerance)
    if why:
        return prefix + why
    return _of_inputs([value for _, value in pairs], cases, reference, names, tolerance)


def _as_tensor(right: Any) -> Any:
    return torch.tensor(right) if type(right) in (int, float) else right


def _too_much(values: list, rights: list, tolerance: float) -> str:
    """Is one thing of several what is asked for?"""
    for place in range(len(values[0])):
        try:
            if all(compare.same(value[place], right, tolerance) for value, right in zip(values, rights, strict=True)):
                return f"it returns {len(values[0])} things, and number {place + 1} of them is right: return that alone"
        except (IndexError, TypeError):
            continue
    return ""


def _of_a_tuple(values: list, rights: list, gives: tuple[str, ...], tolerance: float) -> str:
    count = len(rights[0])
    names = gives or tuple(f"number {place + 1}" for place in range(count))
    for place in range(count):
        if all(compare.same(a, right[place], tolerance) for a, right in zip(values, rights, strict=True)):
            return f"that is the {names[place]} alone: return ({', '.join(names)})"
    for order in list(itertools.permutations(range(count)))[1:]:
        turned = [tuple(right[i] for i in order) for right in rights]
        if all(compare.same(a, right, tolerance) for a, right in zip(values, turned, strict=True)):
            return f"all is there, in another order: return ({', '.join(names)})"
    return ""


def _only_wrong_part(values: list, rights: list, tolerance: float) -> int | None:
    """The first part of a tuple that isn't right."""
    for place in range(len(rights[0])):
        for value, right in zip(values, rights, strict=True):
            parts = compare.parts_of(value)
            if parts is None or len(parts) != len(right):
                return None
            if not compare.same(parts[place], right[place], tolerance):
                return place
    return None


# ---------------------------------------------------------------- something was done to the result
def of_results(
    tables: list[Tensor],
    rights: list[Tensor],
    cases: list[Case],
    names: tuple[str, ...],
    tolerance: float,
) -> str:
    def fits(results: list[Tensor], change: Callable[..., Any], *arguments: list) -> bool:
        """In all cases, is the result what the change makes of its arguments?"""
        try:
            return all(compare.same(b, change(*a), tolerance) for b, *a in zip(results, *arguments, strict=True))
        except UNFIT:
            return False

    if not all(table.isfinite().all() for table in tables):
        return ""
    if all(getattr(case.right, "dtype", None) == torch.bool for case in cases):
        changes, repairs = DONE_TO_MASKS, {}
    elif all(right.dim() == 0 for right in rights):
        changes, repairs = DONE, LEFT if tables[0].dim() else {}
    else:
        changes, repairs = DONE | DONE_TO_TABLES, LEFT
    for sentence, change in changes.items():
        if fits(tables, change, rights):
            return sentence
    if changes is DONE_TO_MASKS:
        return ""
    for sentence, change in repairs.items():
        if fits(rights, change, tables):
            return sentence
    count = rights[0].dim() - len(cases[0].batch)
    for sentence, change in _along_dimensions(count, cases[0], rights[0]):
        if fits(tables, change, rights):
            return sentence
    for sentence, change in _with_inputs(cases[0], names):
        if fits(tables, change, rights, [case.inputs for case in cases]):
            return sentence
    if why := _of_a_factor(tables, rights, cases):
        return why
    if _same_numbers(tables, rights):
        if fits([table.flatten() for table in tables], torch.flatten, rights):
            return "all numbers are right, and only their shape is another"
        why = "all numbers are right and stand in other places"
        question = "which dimension, or which row, comes first?"
        return f"{why}: {question}" if rights[0].dim() > 1 else why
    return ""


def _along_dimensions(count: int, case: Case, right: Tensor) -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
    """What can be done along one dimension, or with their order."""
    names = dimensions(tuple(right.shape), case)
    for place in range(count):
        dim = f"dimension {place}" if names[place].isdigit() else names[place]
        yield f"{dim} runs in reverse order", lambda r, place=place: r.flip(place)
        yield (
            f"only the first of {dim} is there: all are asked for",
            lambda r, place=place: r.select(place, 0),
        )
        yield (
            f"only the last of {dim} is there: all are asked for",
            lambda r, place=place: r.select(place, -1),
        )
    for order in list(itertools.permutations(range(count)))[1:]:
        turned = ", ".join(names[i] for i in order)
        yield (
            f"the dimensions stand in another order: it has ({turned}), and ({', '.join(names)}) is asked for",
            lambda r, order=order: r.permute(order),
        )


def dimensions(shape: tuple[int, ...], case: Case, products: bool = True) -> list[str]:
    """The letters of a table's dimensions, where sizes tell them; else numbers."""
    word_of = {size: word for word, size in reversed(case.words.items())}
    if products:
        for (a, m), (b, n) in itertools.permutations(case.sizes.items(), 2):
            word_of.setdefault(m * n, f"{a}*{b}")
    return [word_of.get(size, str(size)) for size in shape]


def _with_inputs(case: Case, names: tuple[str, ...]) -> Iterator[tuple[str, Callable[[Tensor, tuple], Any]]]:
    """An input itself, an input on top, or two inputs together."""
    tables = [place for place, x in enumerate(case.inputs) if isinstance(x, Tensor)]
    for i in tables:
        yield f"that is `{names[i]}`, as it came", lambda r, x, i=i: x[i]
        yield f"`{names[i]}` is added on top: without it, it is right", lambda r, x, i=i: r + x[i]
        yield f"`{names[i]}` is missing: add it, and all is right", lambda r, x, i=i: r - x[i]
        yield (
            f"`{names[i]}` is multiplied in at the end: without that, it is right",
            lambda r, x, i=i: r * x[i],
        )
    for i, j in itertools.combinations(tables, 2):
        pair = f"`{names[i]}` and `{names[j]}`"
        yield f"it only adds {pair}", lambda r, x, i=i, j=j: x[i] + x[j]
        yield f"it only averages {pair}", lambda r, x, i=i, j=j: (x[i] + x[j]) / 2
        yield f"it multiplies {pair} number by number", lambda r, x, i=i, j=j: x[i] * x[j]
        yield f"it takes the smaller of {pair}", lambda r, x, i=i, j=j: torch.minimum(x[i], x[j])
        yield f"it takes the larger of {pair}", lambda r, x, i=i, j=j: torch.maximum(x[i], x[j])
        yield (
            f"that is the matrix product of {pair}, and no more",
            lambda r, x, i=i, j=j: x[i] @ x[j],
        )


def _of_a_factor(tables: list[Tensor], rights: list[Tensor], cases: list[Case]) -> str:
    """One factor, or one of a size, or something that is added."""
    if any(table.shape != right.shape for table, right in zip(tables, rights, strict=True)):
        return ""
    factors = []
    for table, right, case in zip(tables, rights, cases, strict=True):
        large = right.abs() > 1e-3 * right.abs().max()
        if not large.any():
            if table.any():
                return ""
            continue
        quotients = table[large] / right[large]
        factor = quotients.mean()
        off = (quotients - factor).abs().max()
        small = (table - factor * right)[~large].abs()  # where a quotient says little
        if off > 1e-3 * factor.abs() or (small > 1e-3).any():
            return _of_a_constant(tables, rights)
        factors.append((factor.item(), case))
    if not factors:
        return ""
    first = factors[0][0]
    if all(factor == 0 for factor, _ in factors):
        return "all of it is 0"
    is_one_factor = all(math.isclose(factor, first, rel_tol=1e-3) for factor, _ in factors)
    if is_one_factor and not math.isclose(first, 1, rel_tol=1e-2):
        for expected, sentence in FACTORS.items():
            if math.isclose(first, expected, rel_tol=1e-3):
                return sentence
        size = f"1/{1 / first:.3g}" if 0 < abs(first) < 1 else f"{first:.3g}"
        return f"all is {size} times what it should be"
    for letter in cases[0].sizes:
        for power, template in POWERS.items():
            if all(math.isclose(factor, case.sizes[letter] ** power, rel_tol=1e-3) for factor, case in factors):
                return f"all is {template.format(letter)} times what it should be: is it divided or multiplied by that?"
    return ""


def _of_a_constant(tables: list[Tensor], rights: list[Tensor]) -> str:
    differences = torch.cat([(table - right).flatten() for table, right in zip(tables, rights, strict=True)])
    if (differences - differences.mean()).abs().max() < 1e-4 * differences.mean().abs():
        return f"all is {abs(differences.mean().item()):.3g} too {'large' if differences.mean() > 0 else 'small'}"
    return ""


def _same_numbers(tables: list[Tensor], rights: list[Tensor]) -> bool:
    return all(
        table.numel() == right.numel() > 0
        and compare.same(table.flatten().sort().values, right.flatten().sort().values)
        for table, right in zip(tables, rights, strict=True)
    )


# ---------------------------------------------------------------- right, for other inputs
def _of_inputs(
    values: list,
    cases: list[Case],
    reference: Callable[..., Any],
    names: tuple[str, ...],
    tolerance: float,
) -> str:
    """Inputs exchanged, one in place of another, or one changed."""
    for sentence, change in _changes(cases[0], names):
        if _is_right_for(change, values, cases, reference, tolerance):
            return sentence
    return ""


def _changes(case: Case, names: tuple[str, ...]) -> Iterator[tuple[str, Callable[[list], list]]]:
    count = len(case.inputs)
    for i, j in itertools.combinations(range(count), 2):
        order = list(range(count))
        order[i], order[j] = j, i
        yield (
            f"`{names[i]}` and `{names[j]}` are exchanged",
            lambda x, order=order: [x[k] for k in order],
        )
    for i, j in itertools.permutations(range(count), 2):
        yield (
            f"`{names[j]}` is used where `{names[i]}` belongs",
            lambda x, i=i, j=j: [x[j] if k == i else y for k, y in enumerate(x)],
        )
    for i in range(count):
        table = CHANGED_TRUTHS if compare.is_boolean(case.inputs[i]) else CHANGED
        for sentence, change in table.items():
            yield (
                sentence.format(names[i]),
                lambda x, i=i, change=change: [change(y) if k == i else y for k, y in enumerate(x)],
            )


def _is_right_for(
    change: Callable[[list], list],
    values: list,
    cases: list[Case],
    reference: Callable[..., Any],
    tolerance: float,
) -> bool:
    """Is what is given right for changed inputs, in all cases in which these make sense?"""
    fits = 0
    for value, case in zip(values, cases, strict=True):
        try:
            result = reference(*map(precise, change(list(case.copies()))))
        except UNFIT:
            return False  # the answer gave something here
        if not compare.same(value, result, tolerance):
            return False
        fits += not compare.same(value, case.right, tolerance)
    return fits > 1


# ---------------------------------------------------------------- right for some sizes
def only_right_where(cases: list[Case], wrong: list[int]) -> str:
    """The beginning of a sentence: what the cases that are right have in common, and no other has."""
    good = [case for place, case in enumerate(cases) if place not in wrong]
    bad = [cases[place] for place in wrong]
    if not good:
        return ""
    if all(case.batch for case in bad):
        return "it is right, though not with more dimensions in front: "
    if all(case.scale > 1 for case in bad):
        return "it is right for small numbers, but not for large ones: "
    plain = [(case.sizes, True) for case in good if case.scale == 1 and not case.batch]
    plain += [(case.sizes, False) for case in bad if case.scale == 1 and not case.batch]
    letters = list(cases[0].sizes)
    facts: dict[str, Callable[[dict], bool]] = {}
    for a in letters:
        facts[f"{a} = 1"] = lambda sizes, a=a: sizes[a] == 1
    for a, b in itertools.combinations(letters, 2):
        facts[f"{a} = {b}"] = lambda sizes, a=a, b=b: sizes[a] == sizes[b]
    fits = [name for name, fact in facts.items() if all(fact(sizes) == right for sizes, right in plain)]
    if len(fits) != 1 or not _enough(plain):  # two that fit would be a guess
        return ""
    return f"it is right only where {fits[0]}: "


def _enough(plain: list[tuple[dict, bool]]) -> bool:
    """Three cases of each kind don't agree by chance."""
    return sum(right for _, right in plain) > 2 and sum(not right for _, right in plain) > 2


def other_shape(pairs: Pairs) -> str:
    """The letters of its shape and those of the right one, where these differ."""
    case, value = max(pairs, key=lambda pair: len(set(pair[0].words.values())))
    table = compare.numbers(value)
    if table is None or not isinstance(case.right, Tensor) or table.shape == case.right.shape:
        return ""
    if not case.sizes:  # inputs that a function gave: no letters are known
        return ""
    expected = dimensions(tuple(case.right.shape), case)
    actual = dimensions(tuple(table.shape), case, products=False)
    return f"it has the shape ({', '.join(actual)}), and ({', '.join(expected)}) is asked for: "


# ---------------------------------------------------------------- of a prediction
VALUES: dict[str, Callable[[Tensor], Tensor]] = DONE | {
    "that is the root of what is right": lambda r: r**0.5,
    "that is twice as much as is right": lambda r: 2 * r,
    "that is half of what is right": lambda r: r / 2,
    "that is one too many": lambda r: r + 1,
    "that is one too few": lambda r: r - 1,
    "that is 100 times as much: no percent": lambda r: 100 * r,
    "all are right, in reverse order": lambda r: r.flip(0),
    "the two halves are exchanged": lambda r: r.roll(len(r) // 2, 0),
}


def of_values(answer: Any, right: Any, tolerance: float) -> str:
    """What a predicted value has to do with the right one."""
    a, b = compare.numbers(answer), compare.numbers(right)
    if a is None or b is None:
        return ""
    for sentence, change in VALUES.items():
        try:
            if compare.same(a, change(b), tolerance):
                return sentence
        except (RuntimeError, IndexError, TypeError):
            continue
    return ""
