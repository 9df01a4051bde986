"""What counts give to a network, and which part does it (`python -m tools.studies counts`).

Nothing here reads the validation text: the last tenth of the training text is predicted, and the
rest of it is learned and counted.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from helpers import tables
from helpers.attention import KVCache
from helpers.counted import CountedGPT
from helpers.data import split
from helpers.gpt import GPT, count_parameters, evaluating
from helpers.optim import Optimizer, TrainConfig, adamw, make_optimizer
from helpers.presets import MUON_IN_WINDOWS, PRESETS, SMALL
from helpers.rooms.study import Study, Variant
from helpers.rooms.verdicts import Verdict, verdict
from helpers.tables import Line
from helpers.training import cross_entropy, evaluate, updates

BESIDE, AFTERWARDS = "beside counts", "a finished network, mixed afterwards"
SIX_LETTERS = "counts of six letters alone"  # which learn nothing


# ---------------------------------------------------------------- the changes
def six_letters(model: GPT) -> None:
    """Believe the contexts of six letters, and nothing else."""
    assert isinstance(model, CountedGPT)
    model.gates.bias.zero_()
    model.gates.bias[1 + model.lengths.index(6)] = 1.0


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def no_network(model: GPT) -> None:
    """Gates see only how often contexts were seen: to them and the head the last layer is zero."""
    model.norm = Nothing()


def gates_alone(model: nn.Module, config: TrainConfig) -> Optimizer:
    assert isinstance(model, CountedGPT)
    return adamw(model.gates, replace(config, learning_rate=3e-3, weight_decay=0.0))


class ReadsCounts(CountedGPT):
    """The network reads the counts' opinions as numbers; no gate multiplies them in."""

    def forward(self, tokens: Tensor, cache: list[KVCache] | None = None) -> Tensor:
        return self.read(tokens)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self.read(x, targets=y), y)

    def read(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        opinions, features = self._by_counting(tokens, tokens[:, :0], targets)
        x = self.embed(tokens)
        x = x + self.reading(torch.cat([opinions.flatten(-2), features], dim=-1).to(x.dtype))
        return self.logits(self.through_blocks(x))


def as_input(model: GPT) -> None:
    assert isinstance(model, CountedGPT)
    L, V = len(model.lengths), model.config.vocab_size
    model.reading = nn.Linear(L * V + 2 * L + 1, model.config.n_embd)
    nn.init.zeros_(model.reading.weight)
    model.__class__ = ReadsCounts


class LearnsTogether(CountedGPT):
    """The network learns only from what it adds to the counts, and needn't know anything alone."""

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        together, _ = self.logits_together_and_alone(x, x[:, :0], targets=y)
        return cross_entropy(together, y)


def learn_together(model: GPT) -> None:
    model.__class__ = LearnsTogether


class KnowsTheAnswer(CountedGPT):
    """In training, the counts know the very letter that is asked for."""

    def _by_counting(
        self, tokens: Tensor, past: Tensor, targets: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        return super()._by_counting(tokens, past, None)


def know_the_answer(model: GPT) -> None:
    model.__class__ = KnowsTheAnswer


class WithoutCounts(CountedGPT):
    """The network, as if there were no counts; its gates wait."""

    def forward(self, tokens: Tensor, cache: list[KVCache] | None = None) -> Tensor:
        return self.logits(self.through_blocks(self.embed(tokens), cache))

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self(x), y)


def without_counts(model: GPT) -> None:
    model.__class__ = WithoutCounts


LENGTHS = {"lengths": PRESETS["counted"].model["lengths"]}
VARIANTS = {
    BESIDE: Variant(sizes=LENGTHS),
    "beside counts, less sure": Variant(sizes=LENGTHS | {"temperature": 1.1}),
    "the network alone": Variant(),
    SIX_LETTERS: Variant(sizes=LENGTHS, change=six_letters),
    "counts with gates, no network": Variant(
        sizes=LENGTHS, change=no_network, optimizer=gates_alone
    ),
    "counts as input, no gates": Variant(sizes=LENGTHS, change=as_input),
    "the network learns only together": Variant(sizes=LENGTHS, change=learn_together),
    "counts that know the answer": Variant(sizes=LENGTHS, change=know_the_answer),
    AFTERWARDS: Variant(sizes=LENGTHS, change=without_counts),
}


# ---------------------------------------------------------------- the study
class Pairing(NamedTuple):
    """One training: a variant, and the seed."""

    variant: str
    seed: int

    def __str__(self) -> str:
        return f"{self.variant}, seed {self.seed}"


@dataclass(frozen=True)
class Counts(Study):
    """Every variant with every seed, for the same number of updates of the preset's recipe."""

    steps: int = 600
    seeds: int = 3
    overlap: int = 128
    margin: float = 0.01

    run_type = Pairing
    variants = VARIANTS
    sizes = SMALL

    def budget(self) -> str:
        return (
            f"{self.steps} updates of the preset counted, {self.seeds} seeds; the last tenth of the training text is "
            f"predicted; reading on, each letter has at least {self.overlap} before it; margin {self.margin} nats"
        )

    def recipe(self, run: Pairing, device: str = "cpu") -> TrainConfig:
        return replace(
            MUON_IN_WINDOWS,
            max_steps=self.steps,
            eval_interval=self.steps,
            seed=run.seed,
            device=device,
        )

    def plan(self, lines: Iterable[Line]) -> list[Pairing]:
        """Every run, seed by seed, so that a table that is cut off has all variants."""
        return [Pairing(name, seed) for seed in range(1, self.seeds + 1) for name in VARIANTS]

    def train(
        self, run: Pairing, train_tokens: Integer[Tensor, "N"], vocab_size: int, device: str = "cpu"
    ) -> tuple[GPT, float]:
        config = self.recipe(run, device)
        model = self.build(run.variant, vocab_size, run.seed).to(config.device)
        if isinstance(model, CountedGPT):
            model.config = replace(model.config, counted=len(train_tokens))
            model.text = torch.empty(
                len(train_tokens), dtype=model.text.dtype, device=config.device
            )
            model.count(train_tokens)
        start = time.process_time()
        if run.variant == AFTERWARDS:
            learn(model, train_tokens, config, make_optimizer)
            model.__class__ = CountedGPT
            for name, weight in model.named_parameters():
                weight.requires_grad_(name.startswith("gates"))
            learn(
                model, train_tokens, replace(config, max_steps=config.max_steps // 5), gates_alone
            )
        elif run.variant != SIX_LETTERS:
            learn(model, train_tokens, config, VARIANTS[run.variant].optimizer)
        return model, time.process_time() - start

    def measure(
        self, run: Pairing, tokens: Integer[Tensor, "N"], vocab_size: int, device: str = "cpu"
    ) -> Line:
        """Train once; a line of the table: the loss in windows side by side, and reading on."""
        T = self.sizes["context_length"]
        training_text, _ = split(tokens, T)
        train_tokens, held_out = split(training_text.to(self.recipe(run, device).device), T)
        model, seconds = self.train(run, train_tokens, vocab_size, device)
        return {
            **run._asdict(),
            "parameters": count_parameters(model),
            "loss": round(evaluate(model, held_out, T), 5),
            "reading_on": round(reading_on(model, held_out, T, self.overlap), 5),
            "seconds": round(seconds, 1),
        }

    def judge(self, lines: Iterable[Line]) -> dict[str, Verdict]:
        """How much worse than beside counts each variant is, by pairs of seeds."""
        losses = {(line["variant"], line["seed"]): line["loss"] for line in lines}
        seeds = range(1, self.seeds + 1)
        return {
            name: verdict(
                [losses[name, seed] - losses[BESIDE, seed] for seed in seeds], self.margin
            )
            for name in VARIANTS
            if name != BESIDE
            and all({(name, seed), (BESIDE, seed)} <= losses.keys() for seed in seeds)
        }

    def report(self, lines: Iterable[Line]) -> str:
        """By variant: mean losses over the seeds, the excess over beside counts, the verdict."""
        lines = list(lines)
        judged = self.judge(lines)
        rows = []
        for name in VARIANTS:
            of_it = [line for line in lines if line["variant"] == name]
            if not of_it:
                continue
            means = [
                fmean(line[column] for line in of_it)
                for column in ("loss", "reading_on", "seconds")
            ]
            found = judged.get(name)
            worse = f"{found.mean:+.3f}  ({found.low:+.3f} to {found.high:+.3f})" if found else ""
            says = found.says if found else ""
            rows.append(
                [name, f"{means[0]:.3f}", f"{means[1]:.3f}", f"{means[2]:.0f}", worse, says]
            )
        return tables.table(
            ["variant", "loss", "reading on", "seconds", "worse by (95 % interval)", "verdict"],
            rows,
        )


def learn(
    model: GPT, train_tokens: Tensor, config: TrainConfig, optimizer: Callable[..., Optimizer]
) -> None:
    batches = torch.Generator().manual_seed(config.seed)
    for _ in updates(model, train_tokens, config, optimizer(model, config), batches):
        pass


@torch.no_grad()
def reading_on(
    model: nn.Module, tokens: Integer[Tensor, "N"], context_length: int, overlap: int
) -> float:
    """Mean cross-entropy in nats per token where no window but the first begins without a past:
    each begins `overlap` tokens before the end of the last one, and what it says of these doesn't
    count. The last few, which fill no window, are left out.

    In the windows of `evaluate`, side by side, a model forgets everything where one ends; this is
    how one reads a book.
    """
    losses = []
    with evaluating(model):
        for windows in (
            tokens.unfold(0, context_length + 1, context_length - overlap).long().split(32)
        ):
            x, y = windows[:, :-1], windows[:, 1:]
            losses.append(F.cross_entropy(model(x).float().mT, y, reduction="none"))
    return _of_the_new(losses, overlap)


@torch.no_grad()
def reading_and_counting(
    model: CountedGPT,
    tokens: Integer[Tensor, "N"],
    context_length: int,
    overlap: int,
    every: int = 1000,
) -> float:
    """The same of a model that also counts what it reads, anew after about `every` tokens.

    It counts its own text and all that came since. Its weights stay as they are.

    So it isn't the same model any more at the end, and its loss is no rival to that of one which
    stays (Krause et al. 2018, Dynamic Evaluation of Neural Sequence Models, do so with gradients).
    """
    first, step = model.text, context_length - overlap
    losses, read = [], 0
    try:
        with evaluating(model):
            for windows in (
                tokens.unfold(0, context_length + 1, step).long().split(max(1, every // step))
            ):
                losses.append(
                    F.cross_entropy(
                        model(windows[:, :-1]).float().mT, windows[:, 1:], reduction="none"
                    )
                )
                read += step * len(windows)
                model.text = torch.cat([first, tokens[: read + overlap].to(first)])
    finally:
        model.text = first
    return _of_the_new(losses, overlap)


def _of_the_new(losses: list[Float[Tensor, "_ T"]], overlap: int) -> float:
    """The mean over windows; all but the first begin with tokens already predicted."""
    by_place = torch.cat(losses)
    return torch.cat([by_place[0], by_place[1:, overlap:].flatten()]).mean().item()
