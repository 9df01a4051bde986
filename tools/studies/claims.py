"""What the sources claim and nobody had measured: dropout, heads, W_o, weights that sum to 1.

`python -m tools.studies claims` trains the small GPT of parts.py, on all of the text and on a few
pages of it; within a task, all have the same budget and the same seeds. times.py takes the times.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from helpers import tables
from helpers.attention import MultiHeadAttention
from helpers.data import Corpus, split
from helpers.gpt import GPT, count_parameters
from helpers.loss import evaluate
from helpers.optim import TrainConfig
from helpers.rooms.experiments import REPORT, Comparison, VariantRun, no_worse_than_guessing
from helpers.rooms.parts import STUDIES, WHOLE, remove_output_matrix
from helpers.rooms.study import GPTStudy, Variant
from helpers.tables import Line

Weigh = Callable[[Float[Tensor, "*batch T_all"]], Float[Tensor, "*batch T_all"]]
WEIGHTS: dict[str, Weigh] = {
    "scores as weights": lambda scores: scores,
    "exp, not divided": torch.exp,
}
RATES = (0.1, 0.2, 0.3, 0.5)  # of dropout


# ---------------------------------------------------------------- the GPT and its variants
def attend(
    layer: MultiHeadAttention, x: Float[Tensor, "B T C"], cache: None = None, *, weigh: Weigh
) -> Float[Tensor, "B T C"]:
    """Causal attention whose weights need not sum to 1: what is masked has weight 0."""
    query, key, value = layer.query_key_value(x)
    weights = weigh(query @ key.mT / key.shape[-1] ** 0.5)
    weights = weights.masked_fill(~layer.mask[: x.shape[1], : x.shape[1]], 0.0)
    return layer.out_proj(layer.join_heads(weights @ value))


def weigh_by(model: GPT, weigh: Weigh) -> None:
    for block in model.blocks:
        block.attention.forward = partial(attend, block.attention, weigh=weigh)


def drop_weights(model: GPT, p: float) -> None:
    for block in model.blocks:
        block.attention.dropout = p


def drop_context(model: GPT, p: float) -> None:
    for block in model.blocks:
        block.attention.out_proj = nn.Sequential(nn.Dropout(p), block.attention.out_proj)


def make_heads_full_width(layer: MultiHeadAttention) -> None:
    """Each head becomes as wide as the model; W_o brings all of them back to its width."""
    C = layer.out_proj.in_features
    for name in ("W_query", "W_key", "W_value"):
        setattr(layer, name, nn.Linear(C, layer.num_heads * C, bias=False))
    layer.out_proj = nn.Linear(layer.num_heads * C, C, bias=False)


def use_full_width(model: GPT) -> None:
    """The new matrices start as the GPT's own do."""
    for block in model.blocks:
        std = block.attention.out_proj.weight.std().item()
        make_heads_full_width(block.attention)
        for matrix in block.attention.parameters():
            nn.init.normal_(matrix, std=0.02)
        nn.init.normal_(block.attention.out_proj.weight, std=std)


DROPPED = {f"dropout {p}": Variant(sizes={"dropout": p}) for p in RATES}
ONE_PLACE = {
    "dropout 0.2, weights only": Variant(change=partial(drop_weights, p=0.2)),
    "dropout 0.2, context only": Variant(change=partial(drop_context, p=0.2)),
}
HEADS = {
    "full-width heads": Variant(change=use_full_width),
    "4 layers": Variant(sizes={"n_layer": 4}),  # as many parameters as with full-width heads
    "no W_o": Variant(change=remove_output_matrix),
}
UNDIVIDED = {name: Variant(change=partial(weigh_by, weigh=f)) for name, f in WEIGHTS.items()}
GPTS = {WHOLE: Variant(), **DROPPED, **ONE_PLACE, **HEADS, **UNDIVIDED}


# ---------------------------------------------------------------- the study
class Tried(NamedTuple):
    """One training: a variant, at its task, with a learning rate and a seed."""

    task: str
    variant: str
    rate: float
    seed: int


@dataclass(frozen=True)
class Task:
    """What is learned, by which variants, at which learning rates; `letters` None: all."""

    variants: tuple[str, ...]
    rates: tuple[float, ...]
    seeds: int
    letters: int | None = None


ALL_TEXT, FEW_PAGES = "all of the text", "a few pages"  # of the GPT
SUMS = "all of the text, for weights"
RATE = 6e-3  # the best one of the whole model, in the study parts
HEAD_RATES = (1.5e-3, 3e-3, RATE)  # other widths and depths may want less
TASKS = {
    ALL_TEXT: Task((WHOLE, *DROPPED, *ONE_PLACE, *HEADS), (RATE,), seeds=3),
    SUMS: Task((WHOLE, *UNDIVIDED), (RATE, 2 * RATE, 4 * RATE), seeds=3),
    FEW_PAGES: Task((WHOLE, *DROPPED, *ONE_PLACE), (RATE / 8, RATE), seeds=3, letters=5000),
}


@dataclass(frozen=True)
class Claims(GPTStudy):
    """Every variant of every task, at each of its rates, with each seed.

    `own` is the loss, in nats, on what it learns from (of a long text, on as much as is held out),
    `held_out` on the piece by which the rate is chosen, `new` on the validation split.
    """

    steps: int = 1200
    tasks: dict[str, Task] = field(default_factory=lambda: TASKS)

    run_type = Tried
    variants = GPTS
    sizes = STUDIES["parts"].sizes

    def budget(self) -> str:
        return (
            f"the GPT of the study parts, {self.steps} steps of 8 windows; a few pages are "
            f"{self.tasks[FEW_PAGES].letters} letters; rates are chosen on held-out text"
        )

    def plan(self, lines: Iterable[Line] = ()) -> list[Tried]:
        """Seed 1 of all tasks comes first, so that an unfinished table shows something of each."""
        runs = [
            Tried(task, variant, rate, seed)
            for task, settings in self.tasks.items()
            for variant in settings.variants
            for rate in rates_of(settings, variant)
            for seed in range(1, settings.seeds + 1)
        ]
        return sorted(runs, key=lambda run: run.seed)

    def recipe(self, run: Tried, device: str = "cpu") -> TrainConfig:
        of_parts = Comparison(self.variants, self.sizes, (self.steps,))
        return of_parts.recipe(VariantRun(self.steps, run.variant, run.rate, run.seed, REPORT), device)

    def measure(self, run: Tried, corpus: Corpus, device: str = "cpu") -> Line:
        start = time.process_time()
        T = self.sizes["context_length"]
        train_tokens, new = split(corpus.tokens.to(self.recipe(run, device).device), T)
        train_tokens, held_out = split(train_tokens, T)
        train_tokens = train_tokens[: self.tasks[run.task].letters]
        model, _ = self.train(run, train_tokens, corpus.tokenizer.vocab_size, device)
        pieces = {"own": train_tokens[: len(held_out)], "held_out": held_out, "new": new}
        results = {
            name: no_worse_than_guessing(evaluate(model, piece, T), corpus.tokenizer.vocab_size)
            for name, piece in pieces.items()
        }
        seconds = round(time.process_time() - start, 1)
        return {**run._asdict(), "parameters": count_parameters(model), **results, "seconds": seconds}

    def report(self, lines: Iterable[Line]) -> str:
        """Each variant at its best rate, with its spread over seeds; and `new` at all rates."""
        lines, rows = list(lines), []
        for task, settings in self.tasks.items():
            for variant in settings.variants:
                by_rate = {rate: of_one(lines, task, variant, rate) for rate in rates_of(settings, variant)}
                by_rate = {rate: group for rate, group in by_rate.items() if group}
                if by_rate:
                    best = best_rate(by_rate)
                    own, new = ([line[name] for line in by_rate[best]] for name in ("own", "new"))
                    at_all = (fmean(line["new"] for line in group) for group in by_rate.values())
                    rows.append(
                        [task, variant, str(best), f"{fmean(own):.3f}", f"{fmean(new):.3f}",
                         f"{min(new):.3f} to {max(new):.3f}", tables.row(at_all, ".3f")]
                    )  # fmt: skip
        return tables.table(["task", "variant", "rate", "own", "new", "over seeds", "new, by rate"], rows)


# ---------------------------------------------------------------- what the lines show
def rates_of(task: Task, variant: str) -> tuple[float, ...]:
    return HEAD_RATES if variant in HEADS else task.rates


def of_one(lines: Iterable[Line], task: str, variant: str, rate: float) -> list[Line]:
    key = (task, variant, rate)
    return [line for line in lines if (line["task"], line["variant"], line["rate"]) == key]


def best_rate(by_rate: dict[float, list[Line]]) -> float:
    """The rate with the lowest mean loss on what was held out."""
    return min(by_rate, key=lambda rate: fmean(line["held_out"] for line in by_rate[rate]))
