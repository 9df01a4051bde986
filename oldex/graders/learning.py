"""Functions that train, tried with a model that writes down how it is used."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises import compare
from exercises.graders.building import trying
from helpers.errors import CheckError
from helpers.gpt import GPT, GPTConfig


@dataclass
class Batch:
    """What a model was given, and what came back to its logits."""

    tokens: Tensor
    logits: Tensor
    training: bool
    gradient: Tensor | None = None
    stale: bool = False  # were gradients of batches before still there?


class Pupil(nn.Module):
    """A small network that learns pairs, fast with any optimizer, and writes down its batches."""

    def __init__(self, V: int, context_length: int):
        super().__init__()
        self.context_length = context_length
        self.embedding, self.head = nn.Embedding(V, 64), nn.Linear(64, V)
        self.batches: list[Batch] = []
        self.fresh: Tensor | None = None  # the head's gradient, of the last batch alone
        self.head.weight.register_hook(self.look)
        self.head.weight.register_post_accumulate_grad_hook(self.look_back)

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.head(self.embedding(tokens))
        batch = Batch(tokens.clone(), logits.detach().clone(), self.training)
        self.batches.append(batch)
        if logits.requires_grad:
            logits.register_hook(lambda gradient: setattr(batch, "gradient", gradient.clone()))
        return logits

    def look(self, gradient: Tensor) -> None:
        self.fresh = gradient.clone()

    def look_back(self, weight: Tensor) -> None:
        self.batches[-1].stale = bool((weight.grad - self.fresh).abs().max() > 1e-3 * self.fresh.abs().max())


def trains(my_train: Callable[..., Any]) -> None:
    """my_train(model, tokens, steps, batch_size, report), on a text in which every token occurs once."""
    V, T, B, steps = 20, 7, 6, 150
    model = Pupil(V, T).eval()
    before = [x.detach().clone() for x in model.parameters()]
    tokens = torch.arange(V)
    reports: list[tuple[Any, Any]] = []
    after: list[int] = []  # how many batches there had been at each report

    def report(step: Any, loss: Any) -> None:
        reports.append((step, loss))
        after.append(len(model.batches))

    with trying(f"a text of {V} tokens, steps={steps} and batch_size={B}"):
        my_train(model, tokens, steps, B, report)
    if not torch.equal(tokens, torch.arange(V)):
        raise CheckError("it changes the tokens: they are the text, and must stay as they are")
    if not model.batches:
        raise CheckError("the model is never called: a batch goes through it at each update")
    _windows_are_right(model.batches, T, B)
    _targets_are_right(model.batches)
    _updates_are_right(model, before)
    _reports_are_right(reports, after, model.batches, steps)
    _text_is_covered(model.batches, V - T)
    first, last = (sum(loss for _, loss in part) / 5 for part in (reports[:5], reports[-5:]))
    if not last < 0.9 * first:
        raise CheckError(
            f"in {steps} updates the loss goes from {first:.2f} to {last:.2f} on a text that is easy to learn: is the "
            "learning rate far too small, or far too large?"
        )
    _a_deeper_model_learns(my_train, tokens, steps, B)


class _Deep(GPT):
    """A GPT as the exercises know it."""

    def __init__(self, V: int, context_length: int):
        super().__init__(GPTConfig(vocab_size=V, context_length=context_length, n_layer=2, n_head=2, n_embd=32))
        self.context_length = context_length


def _a_deeper_model_learns(my_train: Callable[..., Any], tokens: Tensor, steps: int, B: int) -> None:
    """A rate that the pupil above survives may throw a GPT out, and one that teaches it may leave a GPT as it was."""
    V = len(tokens)
    torch.manual_seed(0)
    model = _Deep(V, 7)
    losses: list[float] = []
    with trying(f"a GPT of two layers, steps={steps} and batch_size={B}"):
        my_train(model, tokens, steps, B, lambda step, loss: losses.append(float(loss)))
    in_the_end = sum(losses[-20:]) / 20
    if max(losses) > math.log(V) + 0.3 and in_the_end > 0.6:
        raise CheckError(
            f"a GPT of two layers, on a text that is easy to learn, is thrown out: its loss begins at ln {V} = "
            f"{math.log(V):.2f}, rises to {max(losses):.2f} and ends at {in_the_end:.2f}. Is the learning rate far too "
            "large?"
        )
    if in_the_end > math.log(V) - 0.45:
        raise CheckError(
            f"a GPT of two layers hardly learns a text that is easy to learn: its loss begins at ln {V} = "
            f"{math.log(V):.2f}, and after {steps} updates it is {in_the_end:.2f}. Is the learning rate far too small "
            "for this optimizer? (0.001 suits AdamW, and plain SGD wants far more.)"
        )


def _windows_are_right(batches: list[Batch], T: int, B: int) -> None:
    for batch in batches:
        x = batch.tokens
        if x.shape != (B, T):
            raise CheckError(
                f"the model is given tokens of the shape {tuple(x.shape)}: with batch_size={B} and a context_length of "
                f"{T} it should be {(B, T)}"
            )
        if not (x.diff(dim=1) == 1).all():
            raise CheckError(
                "the rows of a batch are no windows: each should be neighbours in the text, in their order"
            )
        if not batch.training:
            raise CheckError("the model is in evaluation while it learns: model.train() switches its dropout on")


def _targets_are_right(batches: list[Batch]) -> None:
    """The gradient of the mean cross-entropy at the logits is (softmax - one-hot) / (B T), which shows the target."""
    learned = [(batch, batch.gradient) for batch in batches if batch.gradient is not None]
    if not learned:
        raise CheckError("no gradient reaches the logits: is loss.backward() missing?")
    for batch, given in learned:
        right = (batch.logits.softmax(-1) - F.one_hot(batch.tokens + 1, batch.logits.shape[-1])) / batch.tokens.numel()
        if not right.abs().amax(-1).min() * batch.tokens.numel() > 1e-3:  # it knows the text by now, or has no numbers
            continue
        places = sorted({t for _, t in given.any(-1).nonzero().tolist()})
        if len(places) < batch.tokens.shape[1]:
            raise CheckError(f"of a window, only these places learn: {places}; each place has a target of its own")
        apart = (given.argmin(-1) - batch.tokens).unique().tolist()
        if apart != [1]:
            where = f"stands {apart[0]:+d} places from" if len(apart) == 1 else "has nothing to do with"
            where = "is" if apart == [0] else where
            raise CheckError(f"the target of a token {where} the token itself: it should be the next one in the text")
        if not (given - right).abs().max() < 1e-2 * right.abs().max():
            size = ((given * right).sum() / (right * right).sum()).item()
            if (given - size * right).abs().max() < 1e-2 * given.abs().max():
                raise CheckError(f"the gradient is {size:.3g} times that of the mean over all places of a batch")
            raise CheckError(
                "the gradient at the logits is not softmax minus 1 for the target: does cross_entropy get the logits "
                "themselves, and not probabilities?"
            )


def _updates_are_right(model: Pupil, before: list[Tensor]) -> None:
    for parameter, old in zip(model.parameters(), before, strict=True):
        if not parameter.isfinite().all():
            raise CheckError("its parameters are no numbers afterwards (NaN): is the learning rate far too large?")
        if torch.equal(parameter, old):
            raise CheckError("a parameter of the model is as it was: is optimizer.step() called, with its gradient?")
    if any(batch.stale for batch in model.batches):
        raise CheckError("gradients of earlier batches are still there: optimizer.zero_grad() clears them")


def _reports_are_right(reports: list[tuple[Any, Any]], after: list[int], batches: list[Batch], steps: int) -> None:
    if len(reports) != steps:
        raise CheckError(f"with steps={steps} it calls report {len(reports)} times: once after each update is right")
    if [step for step, _ in reports] != list(range(1, steps + 1)):
        told = ", ".join(str(step) for step, _ in reports[:3])
        raise CheckError(f"it reports the steps {told}, ...: the first is 1, and the last {steps}")
    for number, (step, loss) in enumerate(reports):
        if not isinstance(loss, float):
            raise CheckError(f"the loss that it reports is {compare.kind(loss)}: loss.item() is a plain float")
        if after[number] != number + 1 and len(batches) == steps:
            raise CheckError(
                f"at report {step} it has read {after[number]} batches: report each right after its update"
            )
        batch = batches[after[number] - 1]
        right = F.cross_entropy(batch.logits.flatten(0, 1), (batch.tokens + 1).flatten()).item()
        if abs(loss - right) > 1e-2 * (1 + right):
            raise CheckError(f"at step {step} it reports a loss of {loss:.3f}, and that of its batch is {right:.3f}")


def _text_is_covered(batches: list[Batch], last: int) -> None:
    """Windows begin at all places from 0 to `last` - 1, whose last target is the last token."""
    starts = torch.stack([batch.tokens[:, 0] for batch in batches])
    if (starts == starts[0]).all():
        raise CheckError("every batch is the same one: draw new windows at each step")
    if (starts == starts[:, :1]).all():
        raise CheckError("the windows of a batch are all the same: each should be drawn for itself")
    missing = sorted(set(range(last)) - set(starts.flatten().tolist()))
    if missing == [last - 1]:
        raise CheckError("the last window is never drawn: torch.randint doesn't give its end, len(tokens) - T is right")
    if missing:
        raise CheckError(f"of {last} places where a window can begin, {len(missing)} are never drawn: {missing}")
