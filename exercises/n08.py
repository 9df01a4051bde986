"""The exercises of notebook 08: a nanoGPT is trained and looked into."""

import copy
import functools
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises import compare
from exercises.curves import COPY, HEALTHY, HIGH, LEAK, LOW, OVERFIT, RUNS
from exercises.judge import Asked, WrongError, built, exercise, prediction
from helpers.attention import MultiHeadAttention
from helpers.gpt import GPT, GPTConfig


def must(hold: Any, sentence: str) -> None:
    if not hold:
        raise WrongError(sentence)


exercise(
    "8a",  # As unsure as choosing among how many?
    lambda loss: math.exp(loss),
    lambda: [(0.0,), (1,), (0.25,), (1.9,), (math.log(65),), (math.log(50_257),)],
    mistakes={
        "the loss is in nats, so the base is e": lambda loss: 2**loss,
        "those are bits: a number of characters is asked for": lambda loss: loss / math.log(2),
    },
)


def batch(tokens: Tensor, starts: Tensor, T: int, later: tuple[int, ...] = (0, 1)) -> Tensor:
    """Windows that begin this many places after `starts`."""
    inside = starts[:, None] + torch.arange(T)
    return torch.stack([tokens[inside + places] for places in later])


def texts() -> Iterator[tuple[Tensor, Tensor, int]]:
    """Tokens, starts and T."""
    generator = torch.Generator().manual_seed(0)
    for N, starts, T in (
        (9, [4, 2], 2),
        (9, [7], 1),  # its target is the last token
        (25, [20, 3, 17], 1),
        (30, [4], 5),
        (42, [30, 7, 7, 12], 9),
        (75, [45, 2], 14),
        (100, [13, 92, 1], 6),
    ):
        yield torch.randint(10 * N, (N,), generator=generator), torch.tensor(starts), T


@exercise(
    "8b",  # What comes next
    batch,
    texts,
    mistakes={
        "y is x again: a model that is asked for what it sees learns to copy": {"later": (0, 0)},
        "x begins at its start, and y ONE token later": {"later": (0, 2)},
        "each place of x has its own target in y, the very next token": (
            lambda tokens, starts, T: (batch(tokens, starts, T)[0], tokens[starts + T])
        ),
    },
)
def _(answer: Asked) -> None:
    for _, value in answer.results():
        if any(torch.as_tensor(part).is_floating_point() for part in value):
            raise WrongError("tokens are whole numbers, with which an embedding finds its rows")


# ---------------------------------------------------------------- 8d: what went wrong?
MARKS = {
    HEALTHY: "a validation loss a little above the training loss is normal, as long as it doesn't RISE",
    HIGH: "at too high a rate, even the training loss jumps far above its start",
    LOW: "at too low a rate, the loss hardly leaves its start",
    OVERFIT: "where it overfits, validation and fresh rise together, and the training loss falls",
    COPY: "nobody can foresee the next letter of FRESH text so well: a loss near 0 is too good to be true",
    LEAK: "a leak holds the validation loss down; fresh text, which nobody has seen, tells the truth",
}


def diagnosis(training: list[float], validation: list[float], fresh: list[float]) -> str:
    if max(training) > training[0] + 1:
        return HIGH
    if training[-1] > training[0] - 0.5:
        return LOW
    if fresh[-1] < 0.5:
        return COPY
    if validation[-1] < fresh[-1] - 0.5:
        return LEAK
    return OVERFIT if validation[-1] > min(validation) + 0.2 else HEALTHY


@exercise(
    "8d",  # What went wrong?
    diagnosis,
    lambda: sorted((tuple(lists) for _, *lists in RUNS), key=lambda lists: len(lists[0])),
    broken=(
        "it calls healthy runs overfitting and knows one fault of five. Does the validation loss RISE?",
        lambda training, validation, fresh: OVERFIT if validation[-1] > training[-1] else HEALTHY,
    ),
)
def _(answer: Any) -> None:
    for case, name in answer.results():
        is_name = isinstance(name, str) and name in MARKS
        must(is_name, f"{name!r} is none of the six names: 'healthy', and FAULTS, letter by letter")
        must(name == case.right, MARKS[case.right])


# ---------------------------------------------------------------- 8e: one head falls silent
def own(layer: MultiHeadAttention, head: int) -> slice:
    """The channels of a head, before out_proj."""
    D = layer.W_query.out_features // layer.num_heads
    return slice(head * D, (head + 1) * D)


def silenced(layer: MultiHeadAttention, x: Tensor, head: int) -> Tensor:
    layer = copy.deepcopy(layer).double()
    layer.out_proj.weight[:, own(layer, head)] = 0
    return layer(x.double())


def without_query(layer: MultiHeadAttention, x: Tensor, head: int) -> Tensor:
    layer = copy.deepcopy(layer)
    layer.W_query.weight[own(layer, head)] = 0
    return layer(x)


def with_zeros(x: Tensor, place: slice) -> Tensor:
    x = x.clone()
    x[..., place] = 0
    return x


def layers() -> Iterator[tuple[MultiHeadAttention, Tensor, int]]:
    for B, T, H, D, head in (
        (1, 2, 2, 3, 0),
        (1, 4, 2, 3, 1),
        (2, 3, 4, 2, 3),
        (3, 2, 5, 3, 2),
        (2, 5, 3, 4, 1),
    ):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(head)
            layer = MultiHeadAttention(H * D, H * D, T + 1, dropout=0.0, num_heads=H, qkv_bias=True)
            for parameter in layer.requires_grad_(False).parameters():
                nn.init.normal_(parameter)
            x = torch.randn(B, T, H * D)
        layer.__doc__ = f"a layer of {H} heads"
        yield layer, x, head


@exercise(
    "8e",  # One head falls silent
    silenced,
    layers,
    mistakes={
        "x and the output belong to all heads: between the heads and out_proj, a head has its own channels": (
            lambda layer, x, head: with_zeros(layer(x), own(layer, head))
        ),
        "without query or key its scores are all equal: the head then averages, and is not silent": (without_query),
        "the head is silent, and out_proj, with its bias, still follows": (
            lambda layer, x, head: silenced(layer, x, head) - layer.out_proj.bias
        ),
    },
)
def _(answer: Any) -> None:
    """Other values of the head change nothing, and other values of any other head do."""
    for case, before in answer.results():
        layer, x, head = case.inputs
        for other_head in range(layer.num_heads):
            changed = copy.deepcopy(layer)
            changed.W_value.weight[own(layer, other_head)] *= 2
            changed.W_value.bias[own(layer, other_head)] *= 2
            is_silent = compare.same(answer(changed, x, head), before)
            if other_head == head:
                must(is_silent, f"head {head} is not silent: its values still make a difference")
            else:
                must(not is_silent, f"head {other_head} is silent, and head {head} alone should be")


FRESH, COUNTED, LOWEST = math.log(3), 1.5 * math.log(2), 0.5 * math.log(2)
prediction(
    "8f",  # Three rungs of a ladder
    right=(FRESH, COUNTED, LOWEST),
    tolerance=0.01,  # two decimals of the lowest
    hints=(
        "a fresh model gives each of the three letters 1/3: what does that cost, by the natural logarithm?",
        "the counts: half of the letters are b; a and c have a quarter each",
        "every second letter is certain and costs nothing, and a coin decides the others: the mean counts both",
    ),
)


READ = 2000 * 12 * 64 / 1_003_854
prediction(
    "8h",  # How often is each letter read?
    right=READ,
    tolerance=0.03,
    mistakes={
        "the last tenth is kept for the test: it is never trained on": 0.9 * READ,
        "a batch has many windows": READ / 12,
        "a window has 64 letters, and each is read": READ / 64,
    },
)

exercise(
    "8i",  # Where its numbers are
    lambda V, T, L, C: ((V + T) * C, 4 * L * C * C, 8 * L * C * C),
    lambda: [(2, 3, 1, 1), (7, 5, 1, 2), (5, 4, 3, 2), (65, 64, 4, 128), (50_257, 1024, 12, 768)],
    gives="tables, attention, mlps",
    mistakes={
        "the last layer shares its matrix with the table of tokens: it is counted once": (
            lambda V, T, L, C: ((2 * V + T) * C, 4 * L * C * C, 8 * L * C * C)
        ),
        "attention has four matrices: beside query, key and value one that mixes what the heads have found": (
            lambda V, T, L, C: ((V + T) * C, 3 * L * C * C, 8 * L * C * C)
        ),
        "an MLP has two matrices, one up to 4C and one back": (
            lambda V, T, L, C: ((V + T) * C, 4 * L * C * C, 4 * L * C * C)
        ),
    },
)


# ---------------------------------------------------------------- 8g: a loop that teaches
V, T, B, STEPS = 20, 7, 6, 150


class RecordingGPT(GPT):
    """A GPT that looks at how it is taught, by a text in which each token occurs once: 0, 1, 2, ..."""

    def __init__(self):
        super().__init__(GPTConfig(V, T, n_layer=2, n_head=2, n_embd=32))
        self.context_length = T
        self.before = [parameter.detach().clone() for parameter in self.parameters()]
        self.last = self.before  # at the last report
        self.unmoved = 0  # reports since whose last one no parameter has changed
        self.starts: list[Tensor] = []  # of each batch
        self.losses: list[float] = []  # that were reported
        self.loss = math.nan  # that of the last batch

    def forward(self, x: Tensor) -> Tensor:  # ty: ignore[incompatible-method-override]
        if not torch.is_grad_enabled():  # a look at how it does, from which nothing is learned
            return super().forward(x)
        must(
            x.shape == (B, T),
            f"it gives the model tokens of the shape {tuple(x.shape)}: with batch_size={B} and a "
            f"context_length of {T}, {(B, T)} is right",
        )
        must(
            (x.diff(dim=1) == 1).all(),
            "the rows of a batch are no windows: neighbours in the text, in their order",
        )
        must(x.max() < V - 1, "a window ends with the text's last token, after which nothing comes")
        must(
            self.training,
            "the model is in evaluation while it learns: model.train() switches its dropout on",
        )
        self.starts.append(x[:, 0].clone())
        logits = super().forward(x)
        self.loss = F.cross_entropy(logits.detach().flatten(0, 1), (x + 1).flatten()).item()
        if logits.requires_grad:
            logits.register_hook(functools.partial(self.learn, x.clone(), logits.detach().clone()))
        return logits

    def learn(self, x: Tensor, logits: Tensor, gradient: Tensor) -> None:
        """The gradient at the logits shows the targets: softmax, minus 1 for the target."""
        for parameter, before in zip(self.parameters(), self.before, strict=True):
            is_cleared = parameter.grad is None or not parameter.grad.any()
            must(
                is_cleared or torch.equal(parameter, before),
                "gradients of earlier batches are still there: optimizer.zero_grad() clears them",
            )
        right = (logits.softmax(-1) - F.one_hot(x + 1, V)) / x.numel()
        if not right.abs().amax(-1).min() * x.numel() > 1e-3:  # it knows the text, or is NaN
            return
        places = gradient.any(-1).any(0)
        must(
            places.all(),
            f"of a window, only these places learn: {places.nonzero().flatten().tolist()}; each "
            "place has a target of its own",
        )
        later = (gradient.argmin(-1) - x).unique().tolist()
        position = f"stands at {later[0]:+d}" if len(later) == 1 else "has nothing to do with it"
        position = "is the token itself" if later == [0] else position
        must(later == [1], f"the target of a token {position}: it should be the next one, at +1")
        must(
            (gradient - right).abs().max() < 1e-2 * right.abs().max(),
            f"the gradient at the logits isn't softmax minus 1 for the target, over {B} * {T}: does "
            "cross_entropy get the logits themselves, and is it the mean?",
        )

    def report(self, step: Any, loss: Any) -> None:
        following = len(self.losses) + 1
        must(
            step == following,
            f"it reports the step {step} where {following} is next: each step, from 1 to `steps`",
        )
        must(
            isinstance(loss, float),
            f"the loss that it reports is {compare.kind(loss)}: loss.item() is a plain float",
        )
        must(
            not abs(loss - self.loss) > 1e-2 * (1 + self.loss),  # NaN where training went wrong
            f"at step {step} it reports a loss of {loss:.3f}, and that of the last batch is "
            f"{self.loss:.3f}: report each right after its update",
        )
        self.unmoved += all(map(torch.equal, self.parameters(), self.last))
        self.last = [parameter.detach().clone() for parameter in self.parameters()]
        self.losses.append(loss)


@built("8g", "a function")  # Teach it
def training(my_train: Any) -> None:
    """my_train(model, tokens, steps, batch_size, report) teaches the model."""
    pupil, tokens = RecordingGPT().eval(), torch.arange(V)
    my_train(pupil, tokens, STEPS, B, pupil.report)
    losses = pupil.losses
    must(
        torch.equal(tokens, torch.arange(V)),
        "it changes the tokens: they are the text, and must stay as they are",
    )
    must(len(losses) == STEPS, f"with steps={STEPS} it calls report {len(losses)} times")
    must(
        not any(map(torch.equal, pupil.parameters(), pupil.before)),
        "a parameter of the model is as it was: are loss.backward() and optimizer.step() called?",
    )
    must(  # a rate may begin and end at 0
        pupil.unmoved < STEPS // 20,
        f"in {pupil.unmoved} of {STEPS} steps no parameter changes: optimizer.step() belongs to each",
    )
    must(
        all(map(torch.equal, pupil.parameters(), pupil.last)),
        "after the last report the parameters change once more: report after each update",
    )
    draws_everywhere(torch.stack(pupil.starts))
    start, highest, end = math.log(V), max(losses), sum(losses[-20:]) / 20
    must(
        end < start - 0.45 and (highest < start + 0.3 or end < 0.6),
        f"on a text that is easy to learn, the loss of a GPT begins at ln {V} = {start:.2f}, reaches "
        f"{highest:.2f} and ends at {end:.2f}: is the learning rate far too large, or far too small "
        "for this optimizer? (0.001 suits AdamW, and plain SGD wants far more.)",
    )


def draws_everywhere(starts: Tensor) -> None:
    """Windows (steps, B) begin at all places that have a target for each token."""
    must(
        (starts != starts[:, :1]).any(),
        "the windows of a batch are all the same: draw each for itself",
    )
    missing = sorted(set(range(V - T)) - set(starts.flatten().tolist()))
    must(
        not missing,
        f"of {V - T} places where a window can begin, it never draws {missing}: each step draws new "
        "starts, and torch.randint leaves out its end",
    )
    distances = (starts - starts[:, :1]) % (V - T)
    must(
        (distances != distances[0]).any(),
        "the windows of a batch lie at the same distances in every step: draw each for itself",
    )
