"""What readers build, tried by what it does: properties of every module, and who sees whom.

A property raises CheckError where it doesn't hold. What a module IS holds for all parameters, so `stir` draws others
first: zeros and equal numbers at the start hide nothing then. Inputs are drawn apart from what the answers draw.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from exercises import compare, judge
from helpers.errors import CheckError

Run = Callable[[Tensor], Tensor]
ROUNDING = 1e-4  # of single precision, as a part of the largest number


# ---------------------------------------------------------------- sentences
@contextmanager
def asking(question: str) -> Iterator[None]:
    """Around properties: what doesn't hold is told with this behind it."""
    try:
        yield
    except CheckError as error:
        stop = "" if str(error).endswith("?") else "."
        raise CheckError(f"{error}{stop} {question}") from error


@contextmanager
def trying(what: str) -> Iterator[None]:
    """Around a call of the answer: what it raises is told with what was tried."""
    try:
        yield
    except CheckError:
        raise
    except (Exception, SystemExit) as error:  # a learner's code may raise anything
        raise CheckError(f"for {what} {judge.raised(error)}") from error


# ---------------------------------------------------------------- modules and what they give
def words(*shape: int, seed: int = 0) -> Tensor:
    """Random vectors, always the same."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ids(V: int, *shape: int, seed: int = 0) -> Tensor:
    """Random tokens, always the same."""
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


def made(answer: Callable[..., Any], **sizes: float) -> nn.Module:
    """A module of these sizes, which the answer gets in their order."""
    described = ", ".join(f"{name}={size}" for name, size in sizes.items())
    with trying(described):
        module = answer(*sizes.values())
    if not isinstance(module, nn.Module):
        raise CheckError(f"for {described} it makes {compare.kind(module)}: a class of nn.Module is asked for")
    return module


def given(module: nn.Module, x: Tensor, shape: Sequence[int]) -> Tensor:
    """What it gives for x: numbers of this shape."""
    copy = x.clone()
    described = compare.in_short("x", x)
    with trying(described):
        output = module(copy)
    if output is None:
        raise CheckError("it returns nothing: is a `return` missing?")
    if not isinstance(output, Tensor):
        raise CheckError(f"it returns {compare.kind(output)}: a tensor alone is asked for")
    if output.shape != tuple(shape):
        raise CheckError(f"for {described} it has the shape {tuple(output.shape)} and should have {tuple(shape)}")
    if not torch.equal(copy, x):
        raise CheckError("it changes its input: work on a copy")
    if not output.isfinite().all():
        raise CheckError(
            f"for {described} not all that it gives is a number: does a row of the mask allow nothing, "
            "or is a score too large for exp?"
        )
    return output


def called(module: nn.Module, x: Tensor, width: int) -> Tensor:
    """What it gives for x, (B, T, C) or (B, T): so many numbers for each word."""
    return given(module, x, (*x.shape[:2], width))


def reading(module: nn.Module, width: int) -> Run:
    """The module as a function that learns nothing."""
    return torch.no_grad()(lambda x: called(module, x, width))


def near(a: Tensor, b: Tensor) -> bool:
    """Are they the same except for rounding?"""
    return bool((a - b).abs().max() <= ROUNDING * b.abs().max())


@torch.no_grad()
def stir(module: nn.Module, size: float = 1.0) -> None:
    """Other parameters: matrices at random, and vectors not far from where they were."""
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1:
            parameter.copy_(size * noise / max(parameter.shape) ** 0.5)
        else:
            parameter.add_(0.1 * noise)


@torch.no_grad()
def plain(module: nn.Module, C: int) -> None:
    """Of a fresh module: matrices whose rows of C numbers have a length of about 1, gains as they are, no biases."""
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        if parameter.dim() > 1:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / C**0.5)
        elif parameter.unique().numel() > 1:  # a bias, drawn at random: a gain begins as one number
            parameter.zero_()


def sound(answer: Callable[..., Any], x: Tensor, width: int, **sizes: float) -> nn.Module:
    """A stirred module in evaluation, after what must hold for every kind; x is a batch."""
    module = made(answer, **sizes).eval()
    run = reading(module, width)
    run(x)
    run(x[:1])
    run(x[:, :1])
    steady(run, x)
    stir(module)
    registered(answer, module, x, width, **sizes)
    apart(run, x)
    learned(module, x, width)
    return module.eval()


# ---------------------------------------------------------------- what holds for every module
def steady(run: Run, x: Tensor) -> None:
    """The same gives the same."""
    if not torch.equal(run(x), run(x)):
        raise CheckError("two calls with the same input give two results: is something drawn anew at each, or kept?")


def apart(run: Run, x: Tensor) -> None:
    """The texts of a batch know nothing of each other."""
    together = run(x)
    if not all(near(together[b : b + 1], run(x[b : b + 1])) for b in range(len(x))):
        raise CheckError("a text gives something else when other texts stand in its batch: they must not mix")


def registered(answer: Callable[..., Any], module: nn.Module, x: Tensor, width: int, **sizes: float) -> None:
    """All that was drawn is among the parameters: a second module that takes over the first one's does the same."""
    if unseen := _unseen(module):
        raise CheckError(unseen)
    if not list(module.parameters()):
        raise CheckError("it has no parameters: nn.Linear or nn.Parameter, made in __init__, can learn")
    other = made(answer, **sizes).eval()
    with trying("the parameters of another one of the same sizes"):
        other.load_state_dict(module.state_dict())
    if not near(reading(other, width)(x), reading(module, width)(x)):
        raise CheckError(
            "two with the same parameters give two results: what is drawn at random must be a parameter, made in "
            "__init__ (nn.Parameter, nn.Linear, nn.Embedding)"
        )


def _unseen(module: nn.Module) -> str:
    """What stands in a module and is no part of it, as a sentence."""
    known = {id(parameter) for parameter in module.parameters()}
    for part in module.modules():
        for name, value in vars(part).items():
            if name.startswith("_"):  # of nn.Module
                continue
            if isinstance(value, Tensor) and value.requires_grad and value.is_leaf and id(value) not in known:
                return f"self.{name} is not registered and will not be learned: nn.Parameter(...) makes a parameter"
            if (
                isinstance(value, Tensor)
                and value.numel() == max(value.shape, default=0) > 1
                and value.unique().numel() == 1
            ):
                return f"self.{name} is a plain tensor and will not be learned: nn.Parameter(...) makes a parameter"
            items = list(value.values()) if isinstance(value, dict) else value
            for item in items if isinstance(items, (list, tuple)) else ():
                own = list(item.parameters()) if isinstance(item, nn.Module) else [item]
                if any(isinstance(x, nn.Parameter) and id(x) not in known for x in own):
                    kind = "ModuleList" if isinstance(item, nn.Module) else "ParameterList"
                    return f"what stands in the {type(value).__name__} self.{name} is not registered: use nn.{kind}"
    return ""


def learned(module: nn.Module, x: Tensor, width: int) -> None:
    """A gradient reaches every parameter. The bias of a key moves all scores of a row alike, so its gradient is 0."""
    output = called(module.train(), x, width)
    if not output.requires_grad:
        raise CheckError("no gradient reaches its parameters: is it computed under no_grad, or from .data or detach()?")
    (output * words(*output.shape, seed=2)).sum().backward()
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.grad is None or (parameter.dim() > 1 and not parameter.grad.any()):
            raise CheckError(f"{name} gets no gradient: is it used, and without .data or detach()?")
    module.zero_grad()


def drops(run: Callable[[nn.Module], Tensor], make: Callable[[float], nn.Module]) -> None:
    """Dropout changes what a module gives in training, and draws nothing in evaluation."""
    module = make(0.5).eval()
    stir(module)
    before = torch.get_rng_state()
    if not torch.equal(run(module), run(module)):
        raise CheckError("with dropout=0.5, two calls in evaluation differ: does dropout ask self.training?")
    if not torch.equal(before, torch.get_rng_state()):
        raise CheckError("with dropout=0.5, random numbers are drawn in evaluation, too")
    if torch.equal(run(module.train()), run(module)):
        raise CheckError("with dropout=0.5, two calls in training give the same: is dropout used?")
    module = make(0.0).train()
    stir(module)
    if not torch.equal(run(module), run(module)):
        raise CheckError("with dropout=0, two calls in training differ: is another p used than the one that is given?")


def widens(parameters: int, C: int) -> None:
    """A block has about 12 C² of them: 4 in attention, 8 in its MLP, which are 2 where it stays at C."""
    if parameters < 6.5 * C * C:
        raise CheckError(
            f"a block of width {C} has {parameters:,} parameters, where attention and an MLP that widens to 4C have "
            f"about 12 C² = {12 * C * C:,}: is there an MLP, and does it widen?"
        )


def uses_heads(run: Callable[[nn.Module], Tensor], make: Callable[[int], nn.Module], question: str) -> None:
    """With 4 heads it gives something else than with 1, also where both can have the same parameters."""
    one, four = make(1), make(4)
    shapes = [{name: x.shape for name, x in model.state_dict().items()} for model in (one, four)]
    if shapes[0] == shapes[1]:
        four.load_state_dict(one.state_dict())
    if near(run(four), run(one)):
        raise CheckError(f"with 4 heads it gives what it gives with 1: {question}")


# ---------------------------------------------------------------- who sees whom
def touched(run: Run, x: Tensor, others: Tensor) -> Tensor:
    """(T, T): does output t (column) change, to the last bit, when input s (row) of one text x (T, ...) is replaced?"""
    T = len(x)
    same = x.repeat(T, *[1] * x.dim())
    changed = same.clone()
    changed[range(T), range(T)] = others
    return (run(same) != run(changed)).any(-1)


def sees_all(run: Run, x: Tensor, others: Tensor) -> None:
    """Every output changes with every input."""
    blind = ~touched(run, x, others)
    if blind.any():
        s, t = blind.nonzero()[0].tolist()
        raise CheckError(
            f"output {t} doesn't change with input {s}: without a mask, every word looks at every word, itself included"
        )


def sees_more_than_itself(run: Run, x: Tensor, others: Tensor) -> None:
    """Some output changes with another input than its own."""
    if torch.equal(touched(run, x, others), torch.eye(len(x), dtype=torch.bool)):
        raise CheckError(
            "each word sees itself alone: when queries meet keys, do heads stand before words, (B, H, T, D)?"
        )


def sees_the_past(run: Run, x: Tensor, others: Tensor) -> None:
    """Every output changes with the inputs up to its own place, and with none after it, not by the last bit."""
    seen = touched(run, x, others)
    blind = ~seen & torch.ones_like(seen).triu()
    no_future(seen, "" if seen.triu(1).any() else ", and not at the past: is the mask on the wrong side?")
    if blind.any():
        s, t = blind.nonzero()[0].tolist()
        why = "a word must see itself" if s == t else "it must see all that came before it"
        raise CheckError(f"output {t} doesn't change with input {s}: {why}")


def no_future(seen: Tensor, more: str) -> None:
    leaks = seen.tril(-1)
    if leaks.any():
        s, t = leaks.nonzero()[0].tolist()
        raise CheckError(f"output {t} changes with input {s}: it looks into the future{more}")


def begins_alike(run: Run, x: Tensor) -> None:
    """The beginning of a text alone gives what it gives when more follows."""
    whole = run(x)
    for t in range(1, x.shape[1]):
        if not near(run(x[:, :t]), whole[:, :t]):
            raise CheckError(
                f"the first {t} inputs alone give something else than at the beginning of {x.shape[1]}: "
                "does a place depend on how long the text is?"
            )
