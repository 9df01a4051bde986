"""What a study is: variants of one model, the runs that train them, and what the runs show.

A GPTStudy trains GPTs on a text: experiments.py compares variants over many seeds. Other studies train
networks of their own, a TextStudy on a text, a SyntheticStudy on examples that it draws.
`python -m tools.studies` makes the runs side by side and stores their table.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from helpers.data import Corpus
from helpers.errors import ConfigError
from helpers.gpt import GPT
from helpers.models import build_gpt, config_of
from helpers.optim import Optimizer, TrainConfig, make_optimizer
from helpers.tables import Line
from helpers.training import updates


def no_change(model: GPT) -> None:
    """Leave the model as it is."""


@dataclass(frozen=True)
class Variant:
    """A change to the whole model, or to its recipe, in ten lines or fewer.

    `sizes` replaces some of GPTConfig's or ModernConfig's, `recipe` some of TrainConfig's; `change`
    works on the new GPT, in place.
    """

    sizes: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    change: Callable[[GPT], None] = no_change
    optimizer: Callable[[nn.Module, TrainConfig], Optimizer] = make_optimizer
    rates: tuple[float, ...] = ()  # to choose from; empty: the study's
    against: str = ""  # the variant that it is held against; empty: the whole model
    leaks: bool = False  # it sees its future, so its loss at all places says nothing


class Study(ABC):
    """What to train, how to measure it, and what it shows: fixed before the first run.

    A run is a named tuple: a variant, a seed, and all else that tells it from other runs. Each run
    gives one line of the table, which holds the fields of the run and what was measured.
    """

    run_type: Any  # of the named tuples

    @abstractmethod
    def plan(self, lines: Iterable[Line]) -> list[Any]:
        """Every run of the study, in order, as far as the `lines` that are there can tell."""

    @abstractmethod
    def report(self, lines: Iterable[Line]) -> str:
        """What the lines show, as a table of text."""

    @abstractmethod
    def budget(self) -> str:
        """The settings in one line, for the top of the table."""

    def run_of(self, line: Line) -> Any:
        """The run that gave a line of the table."""
        return self.run_type(*(line[name] for name in self.run_type._fields))

    def by_setting(self, lines: Iterable[Line]) -> dict[Any, list[Line]]:
        """The lines of each setting: the run with seed 0, and what all its seeds gave."""
        groups: dict[Any, list[Line]] = {}
        for line in lines:
            groups.setdefault(self.run_of(line)._replace(seed=0), []).append(line)
        return groups

    def is_known(self, run: Any) -> bool:
        """Whether everything about the run is known, so that it can be made."""
        return True

    def missing(self, lines: Iterable[Line]) -> list[Any]:
        """The runs that can be made now, and are not among the `lines`."""
        lines = list(lines)
        done = {self.run_of(line) for line in lines}
        return [run for run in self.plan(lines) if self.is_known(run) and run not in done]


class SyntheticStudy(Study):
    """A study whose runs draw their own examples: scenes of Verona, words written backwards."""

    @abstractmethod
    def measure(self, run: Any) -> Line:
        """Train once; the run's line of the table."""


class TextStudy(Study):
    """A study whose runs read a text."""

    @abstractmethod
    def measure(self, run: Any, corpus: Corpus) -> Line:
        """Train once on the corpus; the run's line of the table."""

    def conduct(self, corpus: Corpus, lines: Iterable[Line] = ()) -> list[Line]:
        """The `lines` that are there and those that the study still needs, one run after the other.

        For a study that takes seconds, in a notebook. Others take `python -m tools.studies`.
        """
        lines = list(lines)
        while runs := self.missing(lines):
            lines += [self.measure(run, corpus) for run in runs]
        return lines


class GPTStudy(TextStudy):
    """A study of a small GPT, its variants and its recipe."""

    variants: Any  # a Variant for each name
    sizes: Any  # of the model, by name; a variant may replace some

    @abstractmethod
    def measure(self, run: Any, corpus: Corpus, device: str = "cpu") -> Line:
        """Train once on the corpus, on the device; the run's line of the table."""

    @abstractmethod
    def recipe(self, run: Any, device: str = "cpu") -> TrainConfig:
        """How a run trains."""

    def build(self, name: str, vocab_size: int, seed: int) -> GPT:
        """A fresh model of the variant `name`; ConfigError when the study has no such variant."""
        if name not in self.variants:
            raise ConfigError(f"unknown variant {name!r}: choose one of {', '.join(self.variants)}")
        variant = self.variants[name]
        sizes = {"vocab_size": vocab_size} | self.sizes | variant.sizes
        torch.manual_seed(seed)
        model = build_gpt(config_of(sizes))
        with torch.no_grad():
            variant.change(model)
        return model

    def train(
        self, run: Any, train_tokens: Integer[Tensor, "N"], vocab_size: int, device: str = "cpu"
    ) -> tuple[GPT, float]:
        """The model after the run's last update, and the updates' seconds of processor time.

        A training whose loss is no number any more ends there.
        """
        config = self.recipe(run, device)
        model = self.build(run.variant, vocab_size, run.seed).to(config.device)
        optimizer = self.variants[run.variant].optimizer(model, config)
        batches = torch.Generator().manual_seed(run.seed)
        torch.manual_seed(run.seed)  # for a model that draws numbers of its own: `updates` seeds the dropout
        start = time.process_time()
        for loss in updates(model, train_tokens, config, optimizer, batches):
            if not math.isfinite(loss):
                break
        return model, time.process_time() - start
