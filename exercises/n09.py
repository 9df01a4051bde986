"""The exercises of notebook 09: drawing from a model, and the cache."""

import inspect
from collections.abc import Callable, Iterator
from itertools import starmap
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from exercises import compare, gpts
from exercises.judge import WrongError, built, exercise, prediction, raised
from exercises.properties import (
    TensorFunction,
    given,
    made,
    near,
    reading,
    sound,
    stir,
    words,
)


# ---------------------------------------------------------------- 9a
def heated(probabilities: Tensor, temperature: float) -> Tensor:
    return (probabilities.log() / temperature).softmax(-1)


exercise(
    "9a",  # Undo the softmax
    heated,
    lambda: [
        (torch.tensor(probabilities), temperature)
        for probabilities in (
            [1.0],
            [0.8, 0.2],
            [0.1, 0.6, 0.3],
            [0.001, 0.749, 0.25],
            [0.2, 0.05, 0.4, 0.25, 0.1],
        )
        for temperature in (2.0, 0.5, 1, 5)
    ],
    mistakes={
        "temperature divides logits, and those are probabilities: undo the softmax first": (
            lambda probabilities, temperature: (probabilities / temperature).softmax(-1)
        ),
        "it multiplies by the temperature: hot should make the shares more equal": (
            lambda probabilities, temperature: heated(probabilities, 1 / temperature)
        ),
        "softmax takes powers of e, so undo it by the natural logarithm": (
            lambda probabilities, temperature: (probabilities.log2() / temperature).softmax(-1)
        ),
    },
)


# ---------------------------------------------------------------- 9b
def nucleus(
    probabilities: Tensor,
    p: float,
    *,
    is_kept: Callable[[Tensor, Tensor, float], Tensor] = lambda own, total, p: total - own < p,
) -> Tensor:
    """1 where `is_kept`, by a token's own probability and the sum down to it; 0 elsewhere."""
    descending, order = probabilities.sort(descending=True)
    if not near(descending.sum(), torch.tensor(1.0)):
        raise ValueError("probabilities add up to 1")
    mask = torch.zeros_like(order)
    mask[order] = is_kept(descending, descending.cumsum(0), float(p)).long()
    return mask


exercise(
    "9b",  # The smallest set that reaches p
    nucleus,
    lambda: [
        (torch.tensor(in_64ths) / 64, p)  # their sums are exact
        for in_64ths, p in (
            ([64], 0.5),
            ([3, 61], 0.6),
            ([16, 48], 0.5),
            ([8, 40, 16], 0.75),
            ([8, 40, 16], 0.625),
            ([5, 40, 9, 10], 0.01),
            ([3, 26, 6, 19, 10], 0.6),
            ([3, 26, 6, 19, 10], 0.8),
            ([3, 26, 6, 19, 10], 1.0),
            ([8, 32, 16, 4, 3, 1], 0.75),
        )
    ],
    mistakes={
        "the token with which the sum reaches p belongs to the nucleus: without it the sum stays below": {
            "is_kept": lambda own, total, p: total <= p
        },
        "what is kept adds up to less than p: the token that takes the sum to p belongs to it": {
            "is_kept": lambda own, total, p: total < p
        },
        "that is a threshold for each token: the nucleus is a sum": {"is_kept": lambda own, total, p: own >= p},
    },
)


# ---------------------------------------------------------------- 9e
BYTES = 2 * 36 * 1024 * 1280 * 2  # keys and values, layers, tokens, numbers, bytes

prediction(
    "9e",  # The price of a memory
    right=(BYTES, 1, 2),
    tolerance=1e-9,  # bytes are counted
    hints=(
        "for each token and layer two vectors are kept, a key and a value, each of 1,280 numbers of two bytes",
        "more heads of the same width together cut the vectors into more pieces, and no number is added",
        "each token has one key and one value per layer, however long the text is",
    ),
)


# ---------------------------------------------------------------- 9g
def speculated(
    target: Tensor,
    draft: Tensor,
    *,
    keep: Callable[[Tensor, Tensor], Tensor] = lambda p, q: (p / q).clamp(max=1),
    rest: Callable[[Tensor, Tensor], Tensor] = lambda p, q: (p - q).clamp(min=0),
) -> tuple[Tensor, Tensor]:
    """Speculative sampling (Leviathan et al. 2023, section 2.3)."""
    missing = rest(target, draft)
    return keep(target, draft), missing / missing.sum()


def targets_and_drafts() -> Iterator[tuple[Tensor, Tensor]]:
    yield torch.tensor([0.5, 0.5]), torch.tensor([0.8, 0.2])
    yield torch.tensor([0.0, 1.0]), torch.tensor([0.4, 0.6])
    for V, spread in ((3, 3.0), (6, 0.3), (9, 2.0)):
        target, draft = (spread * words(2, V)).softmax(-1)
        yield target, draft


exercise(
    "9g",  # A fast draft, a strict reader
    speculated,
    targets_and_drafts,
    gives="share kept, share drawn",
    mistakes={
        "a probability can't be above 1: a token that the target likes more is kept for certain": {
            "keep": lambda p, q: p / q
        },
        "the draft has drawn the token already: divide by its probability": {"keep": torch.minimum},
        "after a refusal it draws from the target as a whole: what was kept before is counted twice": {
            "rest": lambda p, q: p
        },
    },
)


def shares(probabilities: Tensor) -> str:
    return " ".join(f"{x:.2f}" for x in probabilities.tolist())


# ---------------------------------------------------------------- 9h: what it writes
Writer = Callable[..., Tensor]
Author = Callable[[int, int], nn.Module]  # makes a model of this vocab_size and context_length


def scripted_model(model: nn.Module, T: int, next_logits: Callable[[Tensor], Tensor]) -> Any:
    """The model, with logits made of all that it has read, for the last place; others get nonsense.

    It notes what it is given (`read`) and what it then has before it (`windows`). With a cache, that
    is more than it is given; an empty one begins anew.
    """
    forward = model.forward
    model.context_length, model.read, model.windows = T, [], []

    def watched(tokens: Tensor, *more: Any, **options: Any) -> Tensor:
        if tokens.dim() != 2 or len(tokens) != 1 or not tokens.numel():
            shape = tuple(tokens.shape)
            raise WrongError(f"the model gets tokens of the shape {shape}: (1, T) is right")
        goes_on = any([*more, *options.values()])
        if goes_on and not model.windows:
            raise WrongError("a text begins with a cache that is in use: make a new one, {}")
        window = (model.windows[-1] if goes_on else []) + tokens[0].tolist()
        if len(window) > T:
            raise WrongError(
                f"the model has {len(window)} tokens before it where its context_length is {T}: "
                "once the text outgrows it, only the last of them count"
            )
        if model.training:
            raise WrongError("the model is in training while it writes: model.eval() stops dropout")
        if torch.is_grad_enabled():
            raise WrongError("gradients are kept while it writes: @torch.no_grad() saves that work")
        model.read += tokens[0].tolist()
        model.windows.append(window)
        forward(tokens, *more, **options)  # it may keep something in a cache
        last = next_logits(torch.tensor(window))
        return torch.stack([last.flip(0)] * (tokens.shape[1] - 1) + [last])[None]

    model.forward = watched
    return model.train()


def text_of(my_write: Writer, model: nn.Module, prompt: list[int], n: int, *settings: float) -> Tensor:
    """What it writes, after what holds for every text."""
    before = torch.tensor(prompt)
    tokens = before.clone()
    task = f"a prompt of {len(prompt)} and n={n}"
    try:
        text = my_write(model, tokens, n, *settings)
    except WrongError:
        raise
    except (Exception, SystemExit) as error:
        raise WrongError(f"for {task} {raised(error)}") from error
    if text is None:
        raise WrongError("it returns nothing: is a `return` missing?")
    if not isinstance(text, Tensor) or text.shape != (len(prompt) + n,):
        is_tensor = isinstance(text, Tensor)
        result = f"one of shape {tuple(text.shape)}" if is_tensor else compare.kind(text)
        raise WrongError(
            f"after {task} it should give a tensor of {len(prompt) + n} tokens, and gives {result}",
        )
    if not torch.equal(tokens, before):
        raise WrongError("it changes the prompt: work on a copy")
    if text.is_floating_point() or not torch.equal(text[: len(prompt)], before):
        raise WrongError("what it returns should begin with the prompt, as whole numbers")
    return text


def certain(window: Tensor) -> Tensor:
    """Logits that leave no choice: the next of 9 tokens depends on the whole window."""
    places = torch.arange(1, 1 + len(window))
    return 200.0 * F.one_hot(((window + 1) * places).sum() % 9, 9)


def shows_the_end(my_write: Writer, author: Author, cached: bool = False) -> None:
    """The model gets the text, or its end where that is too long, and the last place counts.

    cached: each token is read once, until the window is full. Then its last half is read anew, so the
    model may have anything from half a window to a whole one before it. Some writers read the last token,
    too, though nothing follows it.
    """
    T = 6
    for length, n in ((3, 4), (1, 14), (11, 5), (2, 0)):
        model = scripted_model(author(9, T), T, certain)
        text = text_of(my_write, model, [t % 9 for t in range(length)], n)
        if len(model.windows) < n:
            raise WrongError(f"it asks the model {len(model.windows)} times to write {n} tokens")
        for end in range(length, length + n):
            least = min(end, T // 2 if cached else T)
            ends = [text[end - size : end] for size in range(least, min(end, T) + 1)]
            context = model.windows[end - length]
            if any(text[end] == certain(window).argmax() for window in ends if window.tolist() in model.windows):
                continue
            if len(model.windows) == n and context not in [window.tolist() for window in ends]:
                wholes = f"the last {T}" if not cached else f"the last {least} to {T}"
                right = f"{ends[-1].tolist()}, {wholes}," if end > T else "all of it"
                raise WrongError(
                    f"after {text[:end].tolist()} the model has {context} before it, where {right} is right"
                )
            raise WrongError(
                "it writes a token that has no chance by the last place's logits: are those taken, and their softmax?"
            )
        if cached:
            reads_little(text, length, model.read, T)


def reads_little(text: Tensor, length: int, read: list[int], T: int) -> None:
    """Of a text that began with `length` tokens, each is read once until the window is full, and the last
    half of a window twice.
    """
    everything = len(text)
    n = everything - length
    first, last = text[:T].tolist(), text[-T:].tolist()
    if length < T == everything - 1 and read not in (first, first + last):
        raise WrongError(
            f"a text grows from {length} to {T} tokens, which just fit the context, and the model gets "
            f"{len(read)}: with a cache each is read once, and a new one begins only where they don't fit"
        )
    if length < T < everything and len(read) > 2 * everything:
        raise WrongError(
            f"to write {n} tokens after {length} it reads {len(read)}, for a context of {T}: where the text doesn't "
            f"fit any more, begin the new cache with its last {T // 2}, and there is room for as many more"
        )


# ---------------------------------------------------------------- 9h: how it draws
LOGITS = torch.tensor([0.03, 0.60, 0.06, 0.15, 0.05, 0.11]).log()
WAYS = ((1.0, 1.0), (4.0, 0.7), (1.0, 0.5))  # temperature and top_p
DRAWS = 200


def odds(temperature: float, top_p: float) -> Tensor:
    powers = (LOGITS / temperature).softmax(-1)
    masked = powers * nucleus(powers, top_p)
    return masked / masked.sum()


SLIPS: dict[str, Callable[[float, float], Tensor]] = {
    "temperature is not used": lambda temperature, top_p: odds(1.0, top_p),
    "top_p is not used": lambda temperature, top_p: odds(temperature, 1.0),
    "the nucleus is taken first: the temperature comes before it": (
        lambda temperature, top_p: heated(odds(1.0, top_p), temperature)
    ),
}


def draws_by_the_odds(my_write: Writer, author: Author) -> None:
    """Tokens come as often as they should, and those outside of the nucleus never."""

    def drawn(n: int, *settings: float) -> Tensor:
        model = scripted_model(author(len(LOGITS), 2), 2, lambda window: LOGITS)
        return text_of(my_write, model, [1], n, *settings)[1:]

    for name, parameter in inspect.signature(my_write).parameters.items():
        if name in ("temperature", "top_p") and parameter.default != 1:
            raise WrongError(f"{name} should be 1 where nothing is said")
    counts = [drawn(DRAWS, *(way if way != (1.0, 1.0) else ())).bincount(minlength=len(LOGITS)) for way in WAYS]
    for way, count in zip(WAYS, counts, strict=True):
        if may_be(count, odds(*way)):
            continue
        for slip, law in SLIPS.items():
            if all(map(may_be, counts, starmap(law, WAYS))):
                raise WrongError(slip)
        raise WrongError(
            f"at temperature={way[0]:g} and top_p={way[1]:g}, tokens of probabilities {shares(LOGITS.exp())} "
            f"should come with {shares(odds(*way))}, and come with {shares(count / DRAWS)}"
        )
    if torch.equal(drawn(40), drawn(40)):
        raise WrongError("two calls write the same text: is a seed set inside?")


def may_be(counts: Tensor, probabilities: Tensor) -> bool:
    """Are the counts within five standard deviations?"""
    luck = 5 * (DRAWS * probabilities * (1 - probabilities)).sqrt()
    return bool(((counts - DRAWS * probabilities).abs() <= luck + 1e-6).all())


@built("9h", "a function")  # Let it write
def write(my_write: Writer) -> None:
    """my_write(model, prompt (T,), n, temperature=1.0, top_p=1.0) -> prompt and n tokens more."""
    shows_the_end(my_write, lambda V, T: nn.Identity())  # it takes no cache
    draws_by_the_odds(my_write, lambda V, T: nn.Identity())


# ---------------------------------------------------------------- 9i: a GPT with a cache
def through(model: nn.Module, cache: dict[Any, Any], V: int) -> TensorFunction:
    """The model as a function of new tokens (B, T)."""

    def run(new: Tensor) -> Tensor:
        try:
            return given(lambda x: model(x, cache), new, V)
        except WrongError as error:
            raise WrongError(f"with a cache, {error}") from error

    return torch.no_grad()(run)


def reads_as_without(model: nn.Module, V: int, T: int) -> None:
    """In pieces, through a cache, it gives what it gives for the whole text without one."""
    text, without = gpts.ids(V, 3, T), reading(model, V)
    whole = without(text)
    every = range(1, T + 1)
    for manner, ends, texts, why in (
        ("token by token", every, 1, "does each get its own place, and see what is cached alone"),
        ("in turn with another text", every, 2, "is something kept outside of the cache"),
        ("in pieces", (3, T - 1, T), 1, "does the mask show what is cached, and no more"),
    ):
        caches: list[dict[Any, Any]] = [{} for _ in range(texts)]
        for start, end in zip((0, *ends), ends, strict=False):
            for turn, cache in enumerate(caches):
                logits = through(model, cache, V)(text.roll(turn, 0)[:, start:end])
                if not near(logits, whole.roll(turn, 0)[:, start:end]):
                    raise WrongError(
                        f"read {manner}, with a cache, place {start} gets other logits than without one: {why}?"
                    )
        if not all(caches):
            raise WrongError("the cache stays empty: whatever is kept should stand in there")
    if not near(without(text), whole):
        raise WrongError("without a cache it remembers what was read before with one")


class Counting(TorchFunctionMode):
    """Counts the numbers that PyTorch's functions give."""

    count = 0

    def __torch_function__(self, function: Any, types: Any, inputs: Any = (), options: Any = None) -> Any:
        output = function(*inputs, **(options or {}))
        self.count += output.numel() if isinstance(output, Tensor) else 0
        return output


def saves_work(model: nn.Module, V: int, T: int) -> None:
    """One more token costs far less than the whole text."""
    text = gpts.ids(V, 1, T)
    run = through(model, {}, V)
    run(text[:, :-1])
    with Counting() as one_more:
        run(text[:, -1:])
    with Counting() as whole:
        reading(model, V)(text)
    if one_more.count > whole.count / 2:
        raise WrongError(
            f"with {T - 1} tokens in the cache, one more is as much work as all {T} without a cache: keep keys and "
            "values in it, and compute those of the new token alone"
        )


@built("9i", "a pair of a class and a function")  # Compute nothing twice
def fast(pair: tuple[Callable[..., nn.Module], Writer]) -> None:
    """model(tokens, cache), and a function that writes with it."""
    MyGPT, my_fast_write = pair
    gpts.gives_logits(MyGPT)
    gpts.uses_its_sizes(MyGPT)
    gpts.begins_unsure(MyGPT)
    gpts.has_a_path(MyGPT)
    gpts.drops_in_blocks(MyGPT)

    def gpt(V: int, T: int, n_layer: int = 1, n_head: int = 2, n_embd: int = 16) -> nn.Module:
        return stir(made(MyGPT, dict(zip(gpts.SIZES, (V, T, n_layer, n_head, n_embd), strict=True))))

    for sizes in ((11, 8, 2, 2, 32), (7, 12, 3, 1, 16)):
        V, T, *_ = sizes
        sound(MyGPT, dict(zip(gpts.SIZES, sizes, strict=True)), V, gpts.ids(V, 3, T))
        reads_as_without(gpt(*sizes), V, T)
    saves_work(gpt(11, 64, n_layer=2, n_embd=32), 11, 64)
    shows_the_end(my_fast_write, gpt, cached=True)
    draws_by_the_odds(my_fast_write, gpt)


# ---------------------------------------------------------------- 9j
def cold(
    logits: Tensor,
    temperature: float,
    *,
    winners: Callable[[Tensor], Tensor] = lambda behind: behind == 0,
) -> Tensor:
    """The odds at a temperature; at 0 those that they come ever closer to."""
    behind = logits - logits.amax(-1, keepdim=True)
    if temperature > 0:
        return (behind / temperature).softmax(-1)
    odds = winners(behind).float()
    return odds / odds.sum(-1, keepdim=True)


exercise(
    "9j",  # As cold as it gets
    cold,
    lambda: [
        (torch.tensor(logits), temperature)
        for logits, temperature in (
            ([2.0, 1.0], 0.5),
            ([2.0, 1.0], 0.0),
            ([-3.0, -1.0, -2.0], 0.0),
            ([1.0, 3.0, 3.0], 0.0),
            ([1.0, 1.0 + 2**-20, 0.0], 0.0),
            ([[0.0, 4.0, 4.0], [5.0, 1.0, 0.0]], 0.0),
            ([[0.0, 4.0, 4.0], [5.0, 1.0, 0.0]], 2.0),
            ([300.0, 200.0, 300.0], 1e-37),
        )
    ],
    broken=(
        "at 0 it is not a number (NaN). By how much does each logit lie below the highest, and what becomes of that, "
        "divided by ever less?",
        lambda logits, temperature: (logits / temperature).softmax(-1),
    ),
    mistakes={
        "two letters share the highest logit, and they share the die, however cold it gets": {
            "winners": lambda behind: F.one_hot(behind.argmax(-1), behind.shape[-1])
        },
        "0 is colder than any small number: two logits that differ by less still share the die": (
            lambda logits, temperature: cold(logits, max(temperature, 1e-6))
        ),
        "as it gets colder the lead grows, and at temperature 1 it is what it was": (
            lambda logits, temperature: cold(logits, temperature or 1.0)
        ),
    },
)
