"""The exercises of *speedrun*: a speedrun, and how far counting gets."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, rand, randint, randn, tensor

from exercises.judge import Answer, Pairs, exercise


@exercise(
    "13a",
    {
        "the letters are exchanged: first u, then e": (3, 3, 4, 1),
        "the two ways are exchanged: first how often, then after how many": (1, 4, 3, 3),
        "letter by letter: both numbers of u, then both of e": (4, 3, 1, 3),
        "those come AFTER it: look to the left of each u and each e": (..., 2, ..., ...),
        "how many DIFFERENT letters: one that comes again counts once": (..., 4, ..., ...),
        "a letter may stand after itself, and is then one of those that it stands after": (..., ..., ..., 2),
        "look to the left of each e, and count different letters once": [(..., ..., ..., 1), (..., ..., ..., 4)],
        "each of the four words has one u": [(3, ..., ..., ...), (5, ..., ..., ...)],
        "one of the words has two of e": [(..., ..., 2, ...), (..., ..., 4, ...)],
        "those are shares of all letters: whole numbers are asked for": [
            *((4 / count, ..., ..., ...) for count in (22, 25)),
            *((round(4 / count, digits), ..., ..., ...) for count in (22, 25) for digits in (1, 2, 3)),
        ],
    },
)
def two_ways(answer: Answer) -> Pairs:
    """answer = how often u occurs and after how many different letters, and the same of e."""
    phrase, right = "quick queens quit quietly", []
    for letter in "ue":
        before = [a for a, b in zip(" " + phrase, phrase, strict=False) if b == letter]
        right += [len(before), len(set(before))]
    yield answer, tuple(right)


def _left_out(
    c: Callable[[int], int] = lambda c: c - 1,
    n: Callable[[int], int] = lambda n: n - 1,
    kinds: Callable[[int, int], int] = lambda kinds, c: kinds - (c == 1),
    kept: Callable[[int, float], float] = lambda c, d: max(c - d, 0.0),
    given: Callable[..., float] = lambda d, kinds, lower: d * kinds * lower,
    alone: Callable[[float, float], float] = lambda d, lower: lower,
) -> Answer:
    """A share: what is left of the three counts, what a letter keeps and is given, and what is said where n is 1."""

    def variant(often: int, total: int, many: int, d: float, lower: float) -> float:
        if total == 1:
            return alone(d, lower)
        return (kept(c(often), d) + given(d, kinds(many, often), lower)) / n(total)

    return variant


def _where_it_was_new(share: Callable[[float], float]) -> Answer:
    """Another share where c was 1 and other letters are left."""
    return lambda c, n, kinds, d, lower: share(lower) if c == 1 < n else _left_out()(c, n, kinds, d, lower)


@exercise(
    "13b",
    {
        "nothing is left out: that is the share with the place itself counted": (
            lambda c, n, kinds, d, lower: (c - d + d * kinds * lower) / n
        ),
        "n counts the place, too: take it away there": [
            _left_out(n=lambda n: n),
            lambda c, n, kinds, d, lower: (max(c - 1 - d, 0) + d * (kinds - (c == 1)) * lower) / n,
        ],
        "c counts the place, too: take it away there": _left_out(c=lambda c: c),
        "one part is still divided by n: of both, n - 1 are left": [
            lambda c, n, kinds, d, lower: (
                lower if n == 1 else max(c - 1 - d, 0) / (n - 1) + d * (kinds - (c == 1)) / n * lower
            ),
            lambda c, n, kinds, d, lower: (
                lower if n == 1 else max(c - 1 - d, 0) / n + d * (kinds - (c == 1)) / (n - 1) * lower
            ),
        ],
        "where c was 1, the letter was one of the kinds, and no longer is": _left_out(kinds=lambda kinds, c: kinds),
        "where c was 2 or more, the letter is still one of the kinds": _left_out(kinds=lambda kinds, c: kinds - 1),
        "a count of 0 has nothing to give away: its own part is 0, not below": [
            _left_out(kept=lambda c, d: c - d),
            lambda c, n, kinds, d, lower: (c - 1 - d + d * (kinds - (c == 1)) * lower) / (n - 1),
        ],
        "where n was 1, nothing is left to divide by: then the answer is `lower`": [
            lambda c, n, kinds, d, lower: (max(c - 1 - d, 0) + d * (kinds - (c == 1)) * lower) / (n - 1),
            lambda c, n, kinds, d, lower: max(c - 1 - d, 0) / (n - 1) + d * (kinds - (c == 1)) * lower / (n - 1),
            *(_left_out(alone=lambda d, lower, x=x: x) for x in (0.0, 1.0, math.nan, math.inf)),
        ],
        "where n was 1, nothing is left: `lower` is asked for as it is, not a part of it": [
            _left_out(alone=lambda d, lower: d * lower),
            _left_out(alone=lambda d, lower: (1 - d) * lower),
        ],
        "where c was 1, others may still be left: then `lower` gets what these give away, not everything": (
            _where_it_was_new(lambda lower: lower)
        ),
        "where c was 1, the letter becomes new, not impossible: it gets its part of what is given away": (
            _where_it_was_new(lambda lower: 0.0)
        ),
        "that is all that is given away: the letter gets `lower` of it": _left_out(
            given=lambda d, kinds, lower: d * kinds
        ),
        "each kind gives away d, not 1": _left_out(given=lambda d, kinds, lower: kinds * lower),
        "d is given away once for each kind, not once in all": _left_out(given=lambda d, kinds, lower: d * lower),
        "what is given away is missing: the letter gets a part of it": _left_out(given=lambda d, kinds, lower: 0.0),
        "the letter's own count gives d away, too": _left_out(kept=lambda c, d: c),
    },
)
def left_out(answer: Answer) -> Pairs:
    """answer(c, n, kinds, d, lower) -> the letter's share, as if this once it had not been counted."""
    for c, n, kinds, d, lower in (
        (5, 12, 4, 0.75, 0.1),
        (1, 9, 3, 0.5, 0.4),
        (1, 1, 1, 0.8, 0.3),
        (2, 2, 1, 0.7, 0.2),
        (2, 30, 11, 0.9, 0.03),
        (1, 2, 2, 0.25, 0.6),
        (3, 4, 2, 0.1, 0.05),
        (400, 1000, 20, 0.95, 0.7),
    ):
        yield answer(c, n, kinds, d, lower), _left_out()(c, n, kinds, d, lower)


def _smoothed(
    kept: Callable[[Tensor, float], Tensor] = lambda counts, d: (counts - d).clamp(min=0),
    given: Callable[[Tensor, float], Tensor | float] = lambda counts, d: d * (counts > 0).sum(),
    shared: Callable[[Tensor, Tensor], Tensor] = lambda lower, counts: lower,
    never: Callable[[Tensor], Tensor] = lambda lower: lower,
) -> Answer:
    """What each letter keeps, what they give away together, how that is shared out, and what an unseen run says."""

    def variant(counts: Tensor, lower: Tensor, d: float) -> Tensor:
        if not counts.any():
            return never(lower)
        return (kept(counts, d) + given(counts, d) * shared(lower, counts)) / counts.sum()

    return variant


def _without_kinds(counts: Tensor, lower: Tensor, d: float) -> Tensor:
    total = counts.sum()
    kept = (counts - d).clamp(min=0) / total
    return kept + d / total * lower


def _divided_by_its_sum(smoothed: Answer) -> Answer:
    def variant(counts: Tensor, lower: Tensor, d: float) -> Tensor:
        p = smoothed(counts, lower, d)
        return p / p.sum()

    return variant


def _nan(lower: Tensor) -> Tensor:
    return torch.full_like(lower, math.nan)


@exercise(
    "13c",
    {
        "a run that was never seen gives NaN, since 0 is divided by 0: there `lower` is asked for": _smoothed(
            never=_nan
        ),
        "a run that was never seen gives nothing at all: there `lower` is asked for": _smoothed(never=torch.zeros_like),
        "a run that was never seen is not all the same to `lower`, which knows better": _smoothed(
            never=lambda lower: torch.full_like(lower, 1 / len(lower))
        ),
        "a run that was never seen is right now: where something was seen, shares still don't add up to 1": (
            _smoothed(given=lambda counts, d: d)
        ),
        "dividing by the sum hides the hole: what is given away goes to `lower`, not back to those who gave": [
            _divided_by_its_sum(_without_kinds),
            _divided_by_its_sum(_smoothed(given=lambda counts, d: d)),
        ],
        "d for each DIFFERENT letter that was seen, not for each time": [
            _smoothed(given=lambda counts, d: d * counts.sum()),
            _smoothed(given=lambda counts, d: d * counts.sum(), never=_nan),
        ],
        "letters that were never seen give nothing away: not all V of them are kinds": [
            _smoothed(given=lambda counts, d: d * len(counts)),
            _smoothed(given=lambda counts, d: d * len(counts), never=_nan),
        ],
        "a count of 0 gives nothing away, or it falls below 0": [
            _smoothed(kept=lambda counts, d: counts - d),
            _smoothed(kept=lambda counts, d: counts - d, never=_nan),
            _smoothed(lambda counts, d: counts - d, lambda counts, d: d * len(counts)),
            _smoothed(lambda counts, d: counts - d, lambda counts, d: d * len(counts), never=_nan),
        ],
        "`lower` gets what is given away, not everything once more": [
            _smoothed(given=lambda counts, d: counts.sum()),
            _smoothed(given=lambda counts, d: counts.sum(), never=_nan),
        ],
        "1 - d is what a count of 1 keeps, and no share of the whole": [
            _smoothed(given=lambda counts, d: (1 - d) * counts.sum()),
            _smoothed(given=lambda counts, d: (1 - d) * counts.sum(), never=_nan),
        ],
        "each kind gives away d, not 1": [
            _smoothed(given=lambda counts, d: (counts > 0).sum()),
            _smoothed(given=lambda counts, d: (counts > 0).sum(), never=_nan),
        ],
        "each kind gives away d: what it keeps is less by as much": [
            _smoothed(kept=lambda counts, d: counts),
            _smoothed(kept=lambda counts, d: counts, never=_nan),
        ],
        "letters that were seen get their part of `lower`, too": [
            _smoothed(shared=lambda lower, counts: lower * (counts == 0)),
            _smoothed(shared=lambda lower, counts: lower * (counts == 0), never=_nan),
            _smoothed(shared=lambda lower, counts: lower * (counts == 0) / (lower * (counts == 0)).sum().clamp(1e-9)),
        ],
        "what is given away is shared out as `lower` says, not evenly": [
            _smoothed(shared=lambda lower, counts: torch.full_like(lower, 1 / len(lower))),
            _smoothed(shared=lambda lower, counts: torch.full_like(lower, 1 / len(lower)), never=_nan),
        ],
    },
    broken=("the shares don't add up to 1. Who gave something away, and who got it?", _without_kinds),
)
def smoothed(answer: Answer) -> Pairs:
    """answer(counts (V,), lower (V,), d) -> discounted shares (V,), and `lower` if nothing was counted."""
    for counts, d in (
        ([3, 0, 1, 0, 8], 0.75),
        ([1, 1, 1, 0, 0, 0, 0], 0.5),
        ([0, 0, 0, 0], 0.6),
        ([0, 6, 0], 0.9),
        ([2, 5, 1], 0.25),
        ([0, 0, 40, 7, 0, 1, 1, 2, 0, 300], 0.95),
        ([0, 0, 0, 0, 0, 0], 0.1),
    ):
        seen, lower = tensor(counts).float(), randn(len(counts)).softmax(0)
        yield answer(seen, lower, d), _smoothed()(seen.double(), lower.double(), d)


def _neighbours(
    counted: Callable[[Tensor], Tensor] = lambda table: (table > 0).sum(0),
    before: Callable[[Tensor, int], Tensor] = lambda tokens, V: F.pad(tokens, (1, 0), value=V + 1)[:-1],
    share: Callable[..., Tensor] = lambda counts, tokens, V: counts / counts.sum(),
) -> Answer:
    """Shares of what is counted in a table, how often b follows a. V + 1 stands before the text, and isn't counted."""

    def variant(tokens: Tensor, V: int) -> Tensor:
        places = before(tokens, V), tokens
        table = torch.zeros(V + 2, V).index_put(places, torch.ones(len(tokens)), accumulate=True)
        return share(counted(table[: V + 1]), tokens, V)  # V: in a mistake, the start is a letter of its own

    return variant


@exercise(
    "13d",
    {
        "that is how often each letter occurs: after how many different ones is asked for": (
            lambda tokens, V: tokens.bincount(minlength=V) / len(tokens)
        ),
        "a pair that comes again counts once: how many DIFFERENT letters stand before it?": _neighbours(
            lambda table: table.sum(0)
        ),
        "that is how many letters FOLLOW it: those before it are asked for": _neighbours(
            lambda table: (table[:-1] > 0).sum(1)
        ),
        "the neighbours on both sides are counted: only those before it are asked for": [
            _neighbours(lambda table: ((table[:-1] + table[:-1].T) > 0).sum(0)),
            _neighbours(lambda table: (table[:-1] > 0).sum(0) + (table[:-1] > 0).sum(1)),
        ],
        "before the first token stands the last one: a text is no ring": _neighbours(
            before=lambda tokens, V: tokens.roll(1)
        ),
        "the first token stands after none: the start of the text is no letter": _neighbours(
            before=lambda tokens, V: F.pad(tokens, (1, 0), value=V)[:-1]
        ),
        "the first token stands after none: padding has made it stand after token 0": _neighbours(
            before=lambda tokens, V: F.pad(tokens, (1, 0))[:-1]
        ),
        "a letter may stand after itself, too": _neighbours(lambda table: (table.triu(1) + table.tril(-1) > 0).sum(0)),
        "shares are asked for: divide by their sum": _neighbours(share=lambda counts, tokens, V: counts),
        "they don't add up to 1: divide by the sum of all of them": [
            _neighbours(share=lambda counts, tokens, V: counts / V),
            _neighbours(share=lambda counts, tokens, V: counts / len(tokens)),
            _neighbours(share=lambda counts, tokens, V: counts / (len(tokens) - 1)),
            _neighbours(share=lambda counts, tokens, V: counts / counts.max()),
        ],
        "each is divided by how often it occurs: divide by the sum of all of them": [
            _neighbours(share=lambda counts, tokens, V: counts / tokens.bincount(minlength=V)),
            _neighbours(share=lambda counts, tokens, V: counts / tokens.bincount(minlength=V).clamp(min=1)),
        ],
        "a share is a part of the sum: that is a softmax": _neighbours(
            share=lambda counts, tokens, V: counts.double().softmax(0)
        ),
        "letters that stand after none have a share, too, of 0: V shares are asked for": [
            _neighbours(share=lambda counts, tokens, V: counts[counts > 0] / counts.sum()),
            _neighbours(share=lambda counts, tokens, V: counts[tokens.unique()] / counts.sum()),
            _neighbours(share=lambda counts, tokens, V: counts[: tokens.max() + 1] / counts.sum()),
        ],
        "nothing is added to the counts: what stands after none has the share 0": _neighbours(
            share=lambda counts, tokens, V: (counts + 1) / (counts + 1).sum()
        ),
    },
)
def neighbours(answer: Answer) -> Pairs:
    """answer(tokens (N,), V) -> each letter's share, counted by the letters that it stands after (V,)."""
    texts = [(tensor([2, 1, 2, 1, 1]), 3), (tensor([3, 0, 1, 0, 2]), 5)]
    for N, V in ((12, 4), (60, 9), (2, 3), (5, 6), (400, 12), (30, 50), (7, 2)):
        texts.append(((V * rand(N) ** 2).long(), V))  # some letters are frequent
    for tokens, V in texts:
        yield answer(tokens, V), _neighbours()(tokens, V).double()


def _rows(
    before: Callable[[Tensor, int], Tensor] = lambda tokens, V: F.pad(tokens, (1, 0), value=V)[:, :-1],
    number: Callable[..., Tensor] = lambda before, now, V: before * (V + 1) + now,
) -> Answer:
    """The row of each pair, from what stands before each token and how a number is made of the two."""
    return lambda tokens, V, rows: number(before(tokens, V), tokens, V) % rows


def _kept(place: int, value: Callable[[Tensor, int], Tensor | int]) -> Callable[[Tensor, int], Tensor]:
    """What stands before each token, with something else at one place."""

    def before(tokens: Tensor, V: int) -> Tensor:
        shifted = tokens.roll(1, dims=1)
        shifted[:, place] = value(tokens, V)
        return shifted

    return before


@exercise(
    "13e",
    {
        "the base is V + 1: with the one that stands before the text there are V + 1 digits": _rows(
            number=lambda before, now, V: before * V + now
        ),
        "the digits are exchanged: the previous token is the higher one": _rows(
            number=lambda before, now, V: now * (V + 1) + before
        ),
        "before the first token stands V, not 0, which is a token itself": _rows(_kept(0, lambda tokens, V: 0)),
        "before the first token stands V, not V - 1, which is a token itself": _rows(_kept(0, lambda tokens, V: V - 1)),
        "before the first token stands V, not -1": _rows(_kept(0, lambda tokens, V: -1)),
        "before the first token stands the last one: a text is no ring": _rows(
            lambda tokens, V: tokens.roll(1, dims=1)
        ),
        "before the first token stands that token again: V is asked for": _rows(
            _kept(0, lambda tokens, V: tokens[:, 0])
        ),
        "before a text's first token stands the end of the text above: each begins anew": _rows(
            lambda tokens, V: F.pad(tokens.flatten(), (1, 0), value=V)[:-1].view(tokens.shape)
        ),
        "that looks at the NEXT token, which a model must not see": _rows(
            lambda tokens, V: F.pad(tokens, (0, 1), value=V)[:, 1:]
        ),
        "the modulo is missing: the table has only `rows` rows": [
            lambda tokens, V, rows: _rows()(tokens, V, (V + 1) ** 2),
            lambda tokens, V, rows: _rows(number=lambda before, now, V: before * V + now)(tokens, V, (V + 1) ** 2),
        ],
        "it cuts numbers off at the last row: take what is left after a division": (
            lambda tokens, V, rows: _rows()(tokens, V, (V + 1) ** 2).clamp(max=rows - 1)
        ),
        "that is how often `rows` goes into the number: what is left is asked for": (
            lambda tokens, V, rows: _rows()(tokens, V, (V + 1) ** 2) // rows
        ),
        "the two are only added: 1, 2 and 2, 1 get one row": _rows(number=lambda before, now, V: before + now),
        "those are the tokens: a row is for a pair": lambda tokens, V, rows: tokens % rows,
        "those are triples: only one token before is asked for": _rows(
            number=lambda before, now, V: (F.pad(before, (1, 0), value=V)[:, :-1] * (V + 1) + before) * (V + 1) + now
        ),
        "the first token has a row, too": lambda tokens, V, rows: (tokens[:, :-1] * (V + 1) + tokens[:, 1:]) % rows,
    },
)
def rows(answer: Answer) -> Pairs:
    """answer(tokens (B, T), V, rows) -> for each place the row of (previous, current) (B, T)."""
    for B, T, V, count in (
        (2, 5, 7, 64),
        (3, 4, 9, 17),
        (1, 1, 4, 25),
        (2, 6, 65, 1000),
        (1, 3, 3, 7),
        (2, 2, 50_000, 4096),
    ):
        tokens = randint(V, (B, T))
        yield answer(tokens, V, count), _rows()(tokens, V, count), 0.01


def _together(
    own: Callable[[Tensor], Tensor] = lambda alone: alone,
    opinions: Callable[[Tensor], Tensor] = torch.log,
    weights: Callable[[Tensor], Tensor] = lambda gates: gates,
    added: Callable[[Tensor], Tensor] = lambda x: x.sum(1),
    end: Callable[[Tensor], Tensor] = lambda x: x.softmax(-1),
) -> Answer:
    """What is weighed of the network and of the counts, by which gates, how it is added up and what becomes of it."""

    def variant(alone: Tensor, counts: Tensor, gates: Tensor) -> Tensor:
        w = weights(gates)[..., None]
        return end(w[:, 0] * own(alone) + added(w[:, 1:] * opinions(counts)))

    return variant


def _sure(p: Tensor) -> Tensor:
    return p.softmax(-1)


def _of_its_sum(x: Tensor) -> Tensor:
    return x / x.sum(-1, keepdim=True)


def _first_gate_only(gates: Tensor) -> Tensor:
    return torch.cat([gates[:, :1], torch.ones_like(gates[:, 1:])], 1)


def _other_gates_only(gates: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(gates[:, :1]), gates[:, 1:]], 1)


@exercise(
    "13f",
    {
        "that adds up probabilities, a mixture: in a product it is logarithms that are added": [
            _together(_sure, lambda p: p, end=lambda x: x),
            _together(_sure, lambda p: p, end=_of_its_sum),
            _together(_sure, lambda p: p),
            _together(_sure, lambda p: p, lambda gates: gates.softmax(-1), end=lambda x: x),
        ],
        "the counts' logarithms are weighed, not their probabilities": _together(opinions=lambda p: p),
        "logits are logarithms already: the network's go in as they are": [
            _together(torch.log),
            _together(_sure),
        ],
        "the network's gate is forgotten: it weighs the logits": _together(weights=_other_gates_only),
        "the counts' gates are forgotten: each weighs its length": _together(weights=_first_gate_only),
        "the gates are forgotten": _together(weights=torch.ones_like),
        "the first gate is the network's, the others are the counts'": [
            _together(weights=lambda gates: gates.roll(1, -1)),
            _together(weights=lambda gates: gates.flip(-1)),
        ],
        "the gates go in as they are: they needn't add up to 1": [
            _together(weights=lambda gates: gates.softmax(-1)),
            _together(weights=_of_its_sum),
            _together(weights=torch.sigmoid),
        ],
        "the network has no say": _together(own=torch.zeros_like),
        "the counts have no say": _together(opinions=torch.zeros_like),
        "that is a mean over the lengths: their sum is asked for": _together(added=lambda x: x.mean(1)),
        "that is an answer for each length: all of them together give one": lambda alone, counts, gates: (
            gates[:, :1, None] * alone[:, None] + gates[:, 1:, None] * counts.log()
        ).softmax(-1),
        "those are logits: the softmax is still to come": _together(end=lambda x: x),
        "those are logarithms: probabilities are asked for": _together(end=lambda x: x.log_softmax(-1)),
        "they don't add up to 1: a product of probabilities must be divided by its sum": [
            _together(end=torch.exp),
            _together(own=lambda alone: alone.log_softmax(-1), end=torch.exp),
        ],
        "the softmax runs over the texts: it runs over the vocabulary": _together(end=lambda x: x.softmax(0)),
        "the natural logarithm is asked for, which softmax undoes": [
            _together(opinions=torch.log2),
            _together(opinions=torch.log10),
        ],
        "the sign is wrong: what somebody believes makes it likelier": [
            _together(opinions=lambda p: -p.log()),
            _together(end=lambda x: (-x).softmax(-1)),
        ],
        "large logits give NaN: e^x overflows, so take torch.softmax": _together(end=lambda x: _of_its_sum(x.exp())),
    },
)
def together(answer: Answer) -> Pairs:
    """answer(alone (B, V), counts (B, L, V), gates (B, 1 + L)) -> the product of experts (B, V)."""
    for B, L, V, size in ((2, 3, 5, 1), (1, 1, 4, 1), (3, 2, 3, 1), (4, 4, 4, 1), (2, 5, 2, 1), (3, 2, 6, 200)):
        alone, counts = size * randn(B, V), (2 * randn(B, L, V)).softmax(-1)
        gates = 0.5 + rand(B, 1 + L) if size > 1 else randn(B, 1 + L)
        yield answer(alone, counts, gates), _together()(alone.double(), counts.double(), gates.double())
