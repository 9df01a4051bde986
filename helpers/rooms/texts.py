"""Counting beside a network on more and less text (`python -m tools.studies texts`).

Shakespeare is one text, and a million letters are one size. Here the first tenth of his training
text is learned, too, and the library that comes with Python, in three sizes. What is predicted
stays the same for all sizes of a text.
"""

import hashlib
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from jaxtyping import Integer
from torch import Tensor

from helpers import tables
from helpers.data import CharTokenizer, split
from helpers.optim import TrainConfig
from helpers.presets import SMALL
from helpers.rooms.advice import BESIDE, SIX_LETTERS, VARIANTS, Counts, Pairing
from helpers.rooms.study import Study
from helpers.tables import Line
from helpers.training import evaluate

ALONE = "the network alone"
SHAKESPEARE, PYTHON = "Shakespeare", "Python's library"
HELD_OUT = 100_000  # letters of Python's library
# Text, letters to learn from (0: all that there are), and updates
TEXTS = (
    (SHAKESPEARE, 100_000, 200),
    (SHAKESPEARE, 100_000, 400),
    (SHAKESPEARE, 0, 600),
    (PYTHON, 100_000, 200),
    (PYTHON, 100_000, 400),
    (PYTHON, 1_000_000, 600),
    (PYTHON, 10_000_000, 600),
)
OF_ANY_TEXT = {name: VARIANTS[name] for name in (ALONE, SIX_LETTERS, BESIDE)}


class Told(NamedTuple):
    """One training: of which text so many letters, for how many updates, a variant, and the seed."""

    text: str
    letters: int
    steps: int
    variant: str
    seed: int

    def __str__(self) -> str:
        return f"{self.text}, {self.letters:,} letters, {self.steps} updates, {self.variant}, seed {self.seed}"


@dataclass(frozen=True)
class Texts(Study):
    """The network alone, counts alone, and both, with every seed, on each of TEXTS."""

    seeds: int = 3
    texts: tuple[tuple[str, int, int], ...] = TEXTS

    run_type = Told
    variants = OF_ANY_TEXT
    sizes = SMALL

    def budget(self) -> str:
        version = hashlib.sha256(library().encode()).hexdigest()
        return (
            f"{self.seeds} seeds; of Shakespeare, the last tenth of the training text is predicted; of Python's "
            f"library (SHA-256 {version}), the first {HELD_OUT:,} letters"
        )

    def recipe(self, run: Told, device: str = "cpu") -> TrainConfig:
        return Counts(steps=run.steps).recipe(Pairing(run.variant, run.seed), device)

    def plan(self, lines: Iterable[Line]) -> list[Told]:
        seeds = range(1, self.seeds + 1)
        return [
            Told(*text, name, seed)
            for seed in seeds
            for text in self.texts
            for name in self.variants
        ]

    def measure(
        self, run: Told, tokens: Integer[Tensor, "N"], vocab_size: int, device: str = "cpu"
    ) -> Line:
        """Train once; a line of the table: the loss in windows side by side."""
        T = self.sizes["context_length"]
        if run.text == PYTHON:
            text = library()
            tokenizer = CharTokenizer.from_text(text)
            tokens, vocab_size = tokenizer.encode(text), tokenizer.vocab_size
            held_out, train_tokens = tokens[:HELD_OUT], tokens[HELD_OUT:]
        else:
            train_tokens, held_out = split(split(tokens, T)[0], T)
        train_tokens = train_tokens[: run.letters or None]
        pairing = Pairing(run.variant, run.seed)
        model, seconds = Counts(steps=run.steps).train(pairing, train_tokens, vocab_size, device)
        return {
            **run._asdict(),
            "loss": round(evaluate(model, held_out, T), 5),
            "seconds": round(seconds, 1),
        }

    def report(self, lines: Iterable[Line]) -> str:
        """By text, size and updates: mean losses, and what counts gain, seed by seed."""
        by = {}
        for line in lines:
            by.setdefault((line["text"], line["letters"], line["steps"]), {}).setdefault(
                line["variant"], []
            ).append(line)
        rows = []
        for (text, letters, steps), found in by.items():
            losses = {
                name: [line["loss"] for line in found.get(name, [])] for name in self.variants
            }
            means = [f"{fmean(of_it):.3f}" if of_it else "" for of_it in losses.values()]
            gains = [
                alone - both for alone, both in zip(losses[ALONE], losses[BESIDE], strict=False)
            ]
            spread = f"{min(gains):.3f} to {max(gains):.3f}" if gains else ""
            rows.append([text, f"{letters:,}" if letters else "all", steps, *means, spread])
        return tables.table(
            ["text", "letters", "updates", "network", "counts", "both", "counts take off"], rows
        )


def library() -> str:
    """The sources of Python's standard library, without tests and what is not plain ASCII.

    Files follow the hashes of their names, so that no part is about one thing.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    left_out = {"site-packages", "dist-packages", "test", "tests"}
    files = [path.relative_to(root) for path in root.rglob("*.py")]
    files = [path for path in files if not left_out & set(path.parts)]
    files.sort(key=lambda path: hashlib.sha256(path.as_posix().encode()).digest())
    texts = [(root / path).read_text(encoding="utf-8", errors="replace") for path in files]
    return "".join(text for text in texts if text.isascii())
