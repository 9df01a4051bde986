"""The exercises of notebook 09: drawing from a model, and the cache."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn, randint, randn

from exercises.graders import gpts, writing
from exercises.graders.drawing import (
    cached,
    in_sorted_order,
    kept,
    nucleus_by,
    number_repeated,
    one_hot,
    pieces,
    repeated,
    share,
    slope_with,
    speculated,
    variance,
)
from exercises.judge import Answer, Pairs, built, exercise
from exercises.variants import shares
from helpers.errors import CheckError
from helpers.gpt import GPT, GPTConfig


def _reheated(change: Callable[[Tensor, float], Tensor]) -> Answer:
    """Probabilities of changed logits, which are the logarithms of the probabilities."""
    return lambda probabilities, hot: change(probabilities.log(), hot).softmax(-1)


_right_heat = _reheated(lambda logits, hot: logits / hot)


@exercise(
    "9a",
    {
        "temperature divides logits, and those are probabilities: undo the softmax first": [
            lambda probabilities, hot: (probabilities / hot).softmax(-1),
            lambda probabilities, hot: torch.log_softmax(probabilities / hot, -1).exp(),
        ],
        "it multiplies by the temperature: hot should make the shares more equal": [
            _reheated(lambda logits, hot: logits * hot),
            lambda probabilities, hot: probabilities**hot / (probabilities**hot).sum(),
        ],
        "they don't add up to 1: divide by their sum": [
            lambda probabilities, hot: probabilities ** (1 / hot),
            lambda probabilities, hot: probabilities / hot,
        ],
        "divided by the temperature and then by their sum, they are what they were: the power comes first": (
            lambda probabilities, hot: probabilities
        ),
        "those are logits: softmax is still to come": lambda probabilities, hot: probabilities.log() / hot,
        "those are the logarithms of the new probabilities": lambda probabilities, hot: _right_heat(
            probabilities, hot
        ).log(),
        "softmax takes powers of e, so undo it by the natural logarithm": [
            lambda probabilities, hot: (probabilities.log2() / hot).softmax(-1),
            lambda probabilities, hot: (probabilities.log10() / hot).softmax(-1),
        ],
        "the temperature is forgotten, or it is 1: a second softmax only flattens": (
            lambda probabilities, hot: probabilities.softmax(-1)
        ),
        "it lets the likeliest take everything: that is temperature 0": (
            lambda probabilities, hot: one_hot(probabilities.argmax(), len(probabilities))
        ),
        "a sigmoid undone looks at each probability alone: the shares compete in a softmax": (
            lambda probabilities, hot: (probabilities.logit() / hot).softmax(-1)
        ),
    },
)
def temperature(answer: Answer) -> Pairs:
    """answer(probabilities (V,), temperature) -> the probabilities at that temperature (V,)."""
    for V, hot in ((6, 0.5), (6, 2.0), (3, 1.0), (10, 0.2), (2, 7.5), (5, 3), (1, 0.5)):
        probabilities = randn(V).softmax(0)
        yield answer(probabilities, hot), _right_heat(probabilities.double(), hot)


@exercise(
    "9b",
    {
        "the token with which the sum reaches p belongs to the nucleus: without it the sum stays below": [
            nucleus_by(lambda ranked, total, p: total <= p),
            nucleus_by(lambda ranked, total, p: total < p),
        ],
        "that is a threshold for each token: the nucleus is a sum": [
            lambda probabilities, p: probabilities >= p,
            lambda probabilities, p: probabilities > p,
        ],
        "it keeps one token too many: where the sum is p already, it is complete": [
            nucleus_by(lambda ranked, total, p: total - ranked <= p),
            nucleus_by(lambda ranked, total, p: (total - ranked < p).roll(1) | (total - ranked < p)),
        ],
        "that is in sorted order: put zeros and ones back into the order of the vocabulary": in_sorted_order,
        "it goes back the wrong way: the k-th of the sorted belongs at place order[k]": (
            lambda probabilities, p: in_sorted_order(probabilities, p)[probabilities.argsort(descending=True)]
        ),
        "it begins with the least likely": nucleus_by(lambda ranked, total, p: total - ranked < p, descending=False),
        "it adds up in the order of the vocabulary: begin with the likeliest": (
            lambda probabilities, p: probabilities.cumsum(0) - probabilities < p
        ),
        "kept and cut are exchanged: 1 is kept": lambda probabilities, p: 1 - kept(probabilities, p),
        "those are the new probabilities: give 1 where a token is kept": [
            lambda probabilities, p: shares(probabilities * kept(probabilities, p)),
            lambda probabilities, p: probabilities * kept(probabilities, p),
        ],
        "those are the numbers of the tokens: say 1 or 0 for each of the vocabulary": (
            lambda probabilities, p: kept(probabilities, p).nonzero().flatten()
        ),
        "it compares with the likeliest: that is min-p": lambda probabilities, p: (
            probabilities >= p * probabilities.max()
        ),
        "it keeps a share of the tokens, whatever their probabilities": nucleus_by(
            lambda ranked, total, p: torch.arange(len(ranked)) < p * len(ranked)
        ),
        "only the likeliest is kept: others may be needed to reach p": (
            lambda probabilities, p: one_hot(probabilities.argmax(), len(probabilities))
        ),
        "everything is kept: stop where the sum reaches p": lambda probabilities, p: torch.ones_like(probabilities),
    },
)
def nucleus(answer: Answer) -> Pairs:
    """answer(probabilities (V,), p) -> 1 for each token of the nucleus, 0 for all others (V,)."""
    for in_64ths, p in (  # their sums are exact
        ([3, 26, 6, 19, 10], 0.3),
        ([3, 26, 6, 19, 10], 0.6),
        ([3, 26, 6, 19, 10], 0.8),
        ([3, 26, 6, 19, 10], 1.0),
        ([8, 32, 16, 4, 3, 1], 0.75),
        ([5, 40, 9, 10], 0.01),
        ([1, 2, 4, 7, 50], 0.9),
        ([64], 0.5),
    ):
        probabilities = torch.tensor(in_64ths) / 64
        yield answer(probabilities, p), kept(probabilities, p)


@exercise(
    "9c",
    {
        "that is the share of NEW windows: those that have occurred before are asked for": (
            lambda tokens, n: 1 - repeated(tokens, n)
        ),
        "that is their number: divide by the number of windows": number_repeated,
        "there are T - n + 1 windows, not T": [
            lambda tokens, n: number_repeated(tokens, n) / len(tokens),
            lambda tokens, n: 1 - len(set(pieces(tokens, n))) / len(tokens),
        ],
        "there are T - n + 1 windows: one is missing": [
            lambda tokens, n: repeated(tokens[:-1], n),
            lambda tokens, n: number_repeated(tokens, n) / (len(tokens) - n),
        ],
        "only single tokens are compared: a window has n": lambda tokens, n: repeated(tokens, 1),
        "the windows overlap: the next one begins one token later, not n": lambda tokens, n: repeated(tokens, n, n),
        "only the window just before is compared: it may have occurred anywhere before": (
            share(lambda pieces, i: i > 0 and pieces[i] == pieces[i - 1])
        ),
        "a window's first occurrence counts, too: it has not occurred BEFORE": (
            share(lambda pieces, i: pieces.count(pieces[i]) > 1)
        ),
        "it counts those that will come again: the last occurrence has occurred before, the first has not": (
            share(lambda pieces, i: pieces.index(pieces[i]) == i and pieces.count(pieces[i]) > 1)
        ),
        "the order inside a window counts: 1, 2 is not 2, 1": [
            share(lambda pieces, i: sorted(pieces[i]) in [sorted(piece) for piece in pieces[:i]]),
            share(lambda pieces, i: set(pieces[i]) in [set(piece) for piece in pieces[:i]]),
        ],
        "it compares sums: different windows may have equal ones": (
            share(lambda pieces, i: sum(pieces[i]) in [sum(piece) for piece in pieces[:i]])
        ),
        "an overlapping window may be a repetition, too: 3, 3, 3 holds 3, 3 twice": (
            lambda tokens, n: share(lambda pieces, i: pieces[i] in pieces[: max(0, i - n + 1)])(tokens, n)
        ),
    },
)
def repetition(answer: Answer) -> Pairs:
    """answer(tokens (T,), n) -> the share of the windows of n tokens that have occurred before."""
    texts = ([1, 2, 1, 2, 1, 2], [1, 2, 3, 4, 5, 6], [3, 3, 3, 3, 5, 3, 3], [1, 4, 2, 3, 2, 4, 1, 4, 2])
    for text, n in ((text, n) for text in texts for n in (1, 2, 3)):
        yield answer(torch.tensor(text), n), repeated(torch.tensor(text), n)
    for T, n in ((40, 4), (300, 10), (6, 5)):
        text = randint(2, (T,))
        yield answer(text, n), repeated(text, n)


@exercise(
    "9d",
    {
        "hotter is more even, and the entropy rises: the sign is wrong": (
            lambda logits, temperature: -slope_with()(logits, temperature)
        ),
        "the power of the temperature is 3: 2 from the entropy's own slope, 1 from z / τ": slope_with(2),
        "the power of the temperature is 3, not 1": slope_with(1),
        "the power of the temperature is 3, not 4: z / τ is differentiated once": slope_with(4),
        "the division by τ³ is missing": slope_with(0),
        "the probabilities are those at temperature 1: take them at τ": slope_with(at=lambda hot: 1.0),
        "the probabilities are at 1 / τ: softmax takes z / τ": slope_with(at=lambda hot: 1 / hot),
        "all logits count alike in that variance: weigh each with its probability": [
            slope_with(spread=lambda logits, shares: logits.var(unbiased=False)),
            slope_with(spread=lambda logits, shares: logits.var()),
        ],
        "that is the variance around the plain mean: take the mean that the probabilities give": slope_with(
            spread=lambda logits, shares: (shares * (logits - logits.mean()) ** 2).sum()
        ),
        "that is the mean of the squares: the square of the mean is to be taken away": slope_with(
            spread=lambda logits, shares: (shares * logits**2).sum()
        ),
        "that is the standard deviation: its square is meant": slope_with(
            spread=lambda logits, shares: variance(logits, shares).sqrt()
        ),
        "the spread of the probabilities is not asked for: it is that of the logits": [
            slope_with(spread=lambda logits, shares: shares.var()),
            slope_with(spread=lambda logits, shares: shares.var(unbiased=False)),
        ],
        "that is the mean of the logits, and the entropy knows no level: add 1 to all of them": slope_with(
            spread=lambda logits, shares: (shares * logits).sum()
        ),
        "that is the entropy: its slope is asked for": lambda logits, temperature: torch.distributions.Categorical(
            logits=logits / temperature
        ).entropy(),
        "those are bits per degree: the entropy is in nats": (
            lambda logits, temperature: slope_with()(logits, temperature) / math.log(2)
        ),
        "z / τ has 1 / τ² in its variance already: that makes five": slope_with(5),
    },
)
def slope(answer: Answer) -> Pairs:
    """answer(logits (V,), temperature) -> the derivative of the entropy by the temperature, in nats."""
    for V, hot in ((5, 1.0), (5, 2.0), (3, 0.7), (12, 1.5), (2, 0.8), (7, 3), (4, 1.3)):
        logits = 2 * randn(V) + 1
        yield answer(logits, hot), slope_with()(logits.double(), hot), 1e-3  # also for who measures it in float32


@exercise(
    "9e",
    {
        "that is half: keys AND values are kept, and a number of 16 bits takes two bytes": (94_371_840, ..., ...),
        "each layer has a cache of its own": (5_242_880, ..., ...),
        "a number of 16 bits takes two bytes, not more": [(377_487_360, ..., ...), (1_509_949_440, ..., ...)],
        "the heads share the width: 20 heads of 64 numbers are 1,280, not 20 times 1,280": (3_774_873_600, ..., ...),
        "it keeps vectors of 1,280 numbers, those of all 20 heads together, not of 64": (9_437_184, ..., ...),
        "old queries are never needed again: keys and values are kept": (283_115_520, ..., ...),
        "the scores are not kept: they are computed and thrown away": (36 * 1024 * 1024 * 2, ..., ...),
        "it is bytes that are asked for, all of them": [
            (188.743680, ..., ...),
            (188_743.680, ..., ...),
            (180, ..., ...),
        ],
        "more heads of the same width together cut the vectors into more pieces, and no number is added": [
            (..., 2, ...),
            (..., 0.5, ...),
        ],
        "each token has one key and one value per layer: twice the text takes twice the cache": [
            (..., ..., 4),
            (..., ..., 1),
        ],
    },
)
def cache_size(answer: Answer) -> Pairs:
    """answer = the cache's bytes, and by how much 40 heads instead of 20, and 2,048 tokens, would multiply it."""
    yield answer, (2 * 36 * 1024 * 1280 * 2, 1, 2), 0.01


@exercise(
    "9f",
    {
        "the places are one too high: the first token stands at 0": cached(lambda t, T: t + 1),
        "the places are one too low: token t stands at t": cached(lambda t, T: max(t - 1, 0)),
        "every token stands at the last place: each has its own": cached(lambda t, T: T - 1),
        "the places run backwards": cached(lambda t, T: T - 1 - t),
        "every token gets a cache of its own, and knows nothing of its past": [
            cached(lambda t, T: t, forget=True),
            cached(lambda t, T: 0, forget=True),
        ],
        "the whole past goes through again, into a cache that has it already": cached(lambda t, T: 0, again=True),
        "the places are forgotten: a token's vector is that of its letter plus that of its place": cached(None),
        "all layers share one cache: the keys of the layers must not mix": cached(lambda t, T: t, layers=1),
        "only the last row is returned: each token has its row of logits": (
            lambda model, tokens: model(tokens[None])[0, -1]
        ),
        "the last norm is missing: head(norm(x))": cached(lambda t, T: t, norm=False),
        "those are probabilities: logits are asked for": lambda model, tokens: model(tokens[None])[0].softmax(-1),
    },
    broken=(
        "the first row is right and all others are wrong. At which place does the model believe each token to stand?",
        cached(lambda t, T: 0),
    ),
)
def cached_logits(answer: Answer) -> Pairs:
    """answer(model, tokens (T,)) -> logits (T, V), the tokens read one by one."""
    for V, context_length, layers, heads, T in ((9, 6, 2, 2, 4), (5, 5, 2, 1, 5), (7, 4, 2, 4, 1), (6, 9, 1, 1, 3)):
        model = GPT(GPTConfig(V, context_length, layers, heads, n_embd=16)).eval().requires_grad_(False)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)  # far from uniform: every place matters
        tokens = randint(V, (T,))
        yield answer(model, tokens), model(tokens[None])[0], 1e-3


@exercise(
    "9g",
    {
        "a probability can't be above 1: a token that the target likes more is kept for certain": (
            speculated(keep=lambda p, q: p / q)
        ),
        "the ratio is upside down: what the target likes LESS than the draft is kept seldom": speculated(
            keep=lambda p, q: (q / p).clamp(max=1)
        ),
        "target and draft are exchanged": lambda target, draft: speculated()(draft, target),
        "the draft has drawn the token already: divide by its probability": [
            speculated(keep=torch.minimum),
            speculated(keep=lambda p, q: p),
        ],
        "that is how often it is REFUSED": speculated(keep=lambda p, q: 1 - (p / q).clamp(max=1)),
        "it keeps or refuses for certain: between, the ratio decides": speculated(keep=lambda p, q: (p >= q).float()),
        "after a refusal it draws from the target as a whole: what was kept before is counted twice": (
            speculated(rest=lambda p, q: p)
        ),
        "after a refusal it draws from the draft, which was wrong": speculated(rest=lambda p, q: q),
        "what is left does not add up to 1: divide by its sum": speculated(whole=False),
        "what the draft has too much of has come too often already: only what it has too little of is left": [
            speculated(rest=lambda p, q: (p - q).abs()),
            speculated(rest=lambda p, q: (q - p).clamp(min=0)),
        ],
        "no probability is below 0: cut what the draft has too much of": speculated(
            rest=lambda p, q: p - q, whole=False
        ),
        "that goes through a softmax: differences of probabilities are no logits": [
            speculated(rest=lambda p, q: (p - q).softmax(0)),
            speculated(rest=lambda p, q: (p - q).clamp(min=0).softmax(0)),
        ],
        "the two are exchanged: first what is kept, then what is drawn after a refusal": (
            lambda target, draft: speculated()(target, draft)[::-1]
        ),
        "the second is missing: from what is drawn after a refusal?": (
            lambda target, draft: speculated()(target, draft)[0]
        ),
    },
)
def speculation(answer: Answer) -> Pairs:
    """answer(target, draft (V,)) -> for each token how often it is kept, and what is drawn after a refusal (V,)."""
    for V, spread in ((4, 1.0), (9, 2.0), (2, 1.0), (6, 0.3), (3, 3.0)):
        target, draft = (spread * randn(2, V)).softmax(1)
        yield answer(target.clone(), draft.clone()), speculated()(target.double(), draft.double()), 1e-4
    target, draft = torch.tensor([[0.5, 0.0, 0.25, 0.25], [0.25, 0.5, 0.125, 0.125]])
    yield answer(target, draft), speculated()(target, draft), 1e-4


@built("9h", "a function")
def write(my_write: Answer) -> None:
    """my_write(model, prompt (T,), n, temperature=1.0, top_p=1.0) -> the prompt and n tokens drawn after it."""
    writing.reads_on(my_write)
    writing.draws_by_the_odds(my_write)


@built("9i", "a pair, (MyGPT, my_fast_write)")
def fast(pair: Any) -> None:
    """A GPT that takes a cache, model(tokens, cache), and a function that writes with it."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise CheckError("it should be a pair, (MyGPT, my_fast_write)")
    MyGPT, my_fast_write = pair
    gpts.gives_logits(MyGPT)
    gpts.reads_its_past(gpts.is_sound(MyGPT))
    gpts.remembers(MyGPT)
    writing.writes_with_a_cache(my_fast_write, functools.partial(gpts.stirred, MyGPT))
