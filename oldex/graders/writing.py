"""Functions that write, tried with models that know what comes next, and how they are used."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises import compare
from exercises.graders.building import trying
from helpers.errors import CheckError


@dataclass
class Sight:
    """What a model saw when it was asked, and how it was asked."""

    window: list[int]
    training: bool
    gradients: bool


class Author(nn.Module):
    """Whoever knows what comes next: `says` makes logits (V,) of a window. Other places than the last say nonsense."""

    def __init__(self, says: Callable[[Tensor], Tensor], context_length: int):
        super().__init__()
        self.says, self.context_length = says, context_length
        self.sights: list[Sight] = []

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.dim() != 2 or len(tokens) != 1 or not tokens.shape[1]:
            raise CheckError(f"the model is given tokens of the shape {tuple(tokens.shape)}: (1, T) is right")
        if tokens.shape[1] > self.context_length:
            raise CheckError(
                f"the model is given {tokens.shape[1]} tokens where its context_length is {self.context_length}: once "
                "the text outgrows it, give the last of them alone"
            )
        self.sights.append(Sight(tokens[0].tolist(), self.training, torch.is_grad_enabled()))
        right = self.says(tokens[0])
        logits = right.flip(0).expand(1, tokens.shape[1], -1).clone()
        logits[0, -1] = right
        return logits


def text_of(my_write: Callable[..., Any], model: nn.Module, prompt: Tensor, n: int, *how: float) -> Tensor:
    """What it writes, after what holds for every text."""
    given = prompt.clone()
    with trying(f"a prompt of {len(prompt)} tokens and n={n}"):
        text = my_write(model, given, n, *how)
    if text is None:
        raise CheckError("it returns nothing: is a `return` missing?")
    if not isinstance(text, Tensor):
        raise CheckError(f"it returns {compare.kind(text)}: a tensor of tokens is asked for")
    if not torch.equal(given, prompt):
        raise CheckError("it changes the prompt: work on a copy")
    if text.shape != (len(prompt) + n,):
        raise CheckError(
            f"a prompt of {len(prompt)} tokens and n={n} should give {len(prompt) + n} tokens, the prompt first, and "
            f"the shape is {tuple(text.shape)}"
        )
    if text.dtype != torch.int64 or not torch.equal(text[: len(prompt)], prompt):
        raise CheckError("what it returns doesn't begin with the prompt, as tokens (int64)")
    return text


def _certain(window: Tensor) -> Tensor:
    """Logits that leave no choice: the next token depends on the whole window."""
    V = 9
    return 200.0 * F.one_hot(((window + 1) * (torch.arange(len(window)) + 1)).sum() % V, V)


def reads_on(my_write: Callable[..., Any]) -> None:
    """It gives the model the text so far, cropped to the context, and takes what the last place says."""
    T = 6
    for length, n in ((3, 4), (1, 14), (11, 5), (2, 0)):
        model = Author(_certain, T).train()
        text = text_of(my_write, model, torch.arange(length) % 9, n)
        is_used_for_writing(model.sights)
        if len(model.sights) < n:
            raise CheckError(f"it asks the model {len(model.sights)} times to write {n} tokens: each must be read")
        for end in range(length, length + n):
            window = text[max(0, end - T) : end]
            if text[end] == _certain(window).argmax():
                continue
            given = model.sights[end - length].window
            if len(model.sights) == n and given != window.tolist():
                right = f"{window.tolist()}, the last {T}," if end > T else "all of it"
                raise CheckError(f"after {text[:end].tolist()} the model is given {given}, where {right} is right")
            raise CheckError(
                "it writes a token that has no chance by the logits of the last place: are those taken, and their "
                "softmax?"
            )


def is_used_for_writing(sights: list[Sight]) -> None:
    if any(sight.training for sight in sights):
        raise CheckError("the model is in training while it writes: model.eval() switches its dropout off")
    if any(sight.gradients for sight in sights):
        raise CheckError("gradients are kept while it writes: @torch.no_grad() saves that work")


# ---------------------------------------------------------------- the odds
LOGITS = torch.tensor([0.10, 0.40, 0.04, 0.25, 0.15, 0.06]).log()
WAYS = ((1.0, 1.0), (0.5, 1.0), (2.0, 1.0), (1.0, 0.6), (2.0, 0.6), (0.5, 0.7))  # temperature, top_p
DRAWS = 500


def odds(logits: Tensor, temperature: float, top_p: float, extra: int = 0) -> Tensor:
    """The probabilities of the tokens, with a nucleus of `extra` more than are needed to reach top_p."""
    powers = (logits.double() / temperature).softmax(0)
    ordered, order = powers.sort(descending=True)
    size = int((ordered.cumsum(0) < top_p - 1e-9).sum()) + 1 + extra
    kept = torch.zeros_like(powers)
    kept[order[:size]] = ordered[:size]
    return kept / kept.sum()


def _nucleus_first(logits: Tensor, temperature: float, top_p: float) -> Tensor:
    return odds(odds(logits, 1.0, top_p).log(), temperature, 1.0)


MISTAKES: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    "temperature is not used": lambda logits, temperature, top_p: odds(logits, 1.0, top_p),
    "logits are multiplied by the temperature: divide": lambda x, temperature, p: odds(x, 1 / temperature, p),
    "top_p is not used": lambda logits, temperature, top_p: odds(logits, temperature, 1.0),
    "the nucleus is taken first: the temperature comes before it": _nucleus_first,
    "the nucleus is too small: the token that reaches top_p belongs to it": lambda x, t, p: odds(x, t, p, -(p < 1)),
    "the nucleus is too large: it ends with the token that reaches top_p": lambda x, t, p: odds(x, t, p, extra=1),
    "it always takes the likeliest token: draw": lambda logits, temperature, top_p: odds(logits, 1.0, 0.0),
}


def author_of_odds() -> nn.Module:
    """A model whose next token has nothing to do with what it reads."""
    return Author(lambda window: LOGITS, 4)


def draws_by_the_odds(
    my_write: Callable[..., Any], ways: tuple = WAYS, make: Callable[[], nn.Module] = author_of_odds
) -> None:
    """Tokens come as often as temperature and top_p let them, and those outside of the nucleus never."""
    counts = []
    for temperature, top_p in ways:
        text = text_of(my_write, make(), torch.tensor([1]), DRAWS, temperature, top_p)
        counts.append(text[1:].bincount(minlength=len(LOGITS)))
    wrong = [i for i, way in enumerate(ways) if not _may_be(counts[i], odds(LOGITS, *way))]
    if wrong:
        for sentence, mistake in MISTAKES.items():
            if all(_may_be(counts[i], mistake(LOGITS, *way)) for i, way in enumerate(ways)):
                raise CheckError(f"its tokens come out as they would if this were so: {sentence}")
        way, count = ways[wrong[0]], counts[wrong[0]]
        raise CheckError(
            f"at temperature={way[0]:g} and top_p={way[1]:g}, tokens of probabilities {_shares(LOGITS.exp())} should "
            f"come with {_shares(odds(LOGITS, *way))}, and come with {_shares(count / DRAWS)}"
        )
    prompt = torch.tensor([1])
    if torch.equal(*(text_of(my_write, make(), prompt, 40) for _ in range(2))):
        raise CheckError("two calls write the same text: is a seed set inside?")


def _may_be(counts: Tensor, probabilities: Tensor) -> bool:
    """Are the counts, by five standard deviations, such as those probabilities give?"""
    luck = 5 * (DRAWS * probabilities * (1 - probabilities)).sqrt()
    return bool(((counts - DRAWS * probabilities).abs() <= luck + 1e-9).all())


def _shares(probabilities: Tensor) -> str:
    return " ".join(f"{x:.2f}" for x in probabilities.tolist())


# ---------------------------------------------------------------- writing with a cache
def writes_with_a_cache(my_write: Callable[..., Any], make: Callable[..., nn.Module]) -> None:
    """The same as without a cache, within the context, where each token is read once, and beyond it.

    `make(vocab_size=..., context_length=...)` makes a GPT that takes a cache. Its logits are replaced by the odds; or
    they are scrambled, so that the likeliest token depends on every token that is seen.
    """
    V = len(LOGITS)
    prompt = torch.arange(5) % V

    def by_the_odds() -> nn.Module:
        model = make(vocab_size=V, context_length=2 * DRAWS, n_layer=1)
        return _watched(model, lambda logits: LOGITS.expand_as(logits))[0]

    def scrambled(T: int) -> tuple[nn.Module, list[Sight]]:
        return _watched(make(vocab_size=V, context_length=T).train(), lambda logits: 5 * torch.sin(300 * logits))

    model, _ = scrambled(240)  # room for what a cache that is kept has in it
    texts = []
    for _ in range(2):
        torch.manual_seed(0)
        texts.append(text_of(my_write, model, prompt, 4))
    first, again = texts
    if not torch.equal(first, again):
        raise CheckError("a second text isn't written as the first one was: does each call begin with a new cache?")
    T = 24
    n = T + 1 - len(prompt)  # before the last token is written, the text fits just so
    model, sights = scrambled(T)
    text = text_of(my_write, model, prompt, n).tolist()
    is_used_for_writing(sights)
    read = [token for sight in sights for token in sight.window]
    if read == text[: T - 1] + text[:T]:
        raise CheckError(
            f"a text of {T} tokens is read anew, and it still fits the context of {T}: a new cache begins only where "
            "the text is longer than context_length"
        )
    if read not in (text[:T], text[:T] + text[1:]):  # some read the last token, too, and begin a new cache for it
        raise CheckError(
            f"to write {n} tokens after {len(prompt)} it reads {len(read)}: with a cache each is read once"
        )
    draws_by_the_odds(my_write, ((0.5, 0.75),), by_the_odds)
    for T, n in ((24, 19), (8, 14), (4, 3)):
        model, _ = scrambled(T)
        text = text_of(my_write, model, prompt, n, 1.0, 1e-6)
        for end in range(len(prompt), len(text)):
            with torch.no_grad():
                logits = model.eval()(text[None, max(0, end - T) : end])[0, -1]
            if logits[text[end]] < logits.max() - 0.2:
                where = f"once the text is longer than the context of {T}" if end > T else "within the context"
                why = ": a new cache, from the last context_length tokens, gives what it should" if end > T else ""
                raise CheckError(f"{where}, it doesn't write the likeliest token of its window (top_p is tiny){why}")


def _watched(model: nn.Module, change: Callable[[Tensor], Tensor]) -> tuple[nn.Module, list[Sight]]:
    """The model with other logits, and what it is given from now on."""
    forward: Callable[..., Tensor] = model.forward
    sights: list[Sight] = []

    def watched(tokens: Tensor, *more: Any, **named: Any) -> Tensor:
        sights.append(Sight(tokens.flatten().tolist(), model.training, torch.is_grad_enabled()))
        return change(forward(tokens, *more, **named))

    model.forward = watched
    return model, sights
