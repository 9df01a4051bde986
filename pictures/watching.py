"""Lesson 08's training, watched: the run that goes on where it was, and the curve that grows as it learns."""

import math
from pathlib import Path

from jaxtyping import Integer
from torch import Tensor, nn

from helpers import checkpoint, microscope, presets, training
from helpers.checkpoint import History, Record
from helpers.data import Corpus, split
from helpers.presets import Preset
from pictures import plotting


class Run:
    """A training in a folder: new, or the one that is there already.

    `what_happens` says which. `records` has what was recorded so far, also after a stop. The folder is `out_dir`, or
    one in build/runs/ with the name of the preset, where another run than this is kept under a new name. With `reuse`
    the same run goes on; `overwrite` trains anew. RunError for a folder that can't be used (see `train`).
    """

    def __init__(
        self,
        model: nn.Module,
        recipe: Preset,
        corpus: Corpus,
        preset: str,
        *,
        out_dir: str | Path | None = None,
        reuse: bool = True,
        overwrite: bool = False,
    ):
        self.model, self.recipe, self.corpus, self.preset = model, recipe, corpus, preset
        self.overwrite = overwrite
        self.tokens = split(corpus.tokens, recipe.model["context_length"])  # to learn from, to validate
        self.folder = Path(out_dir) if out_dir else presets.run_folder(preset, recipe, corpus)
        wanted = checkpoint.settings_of(model, recipe.training, *self.tokens, corpus.tokenizer)
        self.resume, self.what_happens = checkpoint.prepare_folder(
            self.folder, wanted, reuse=reuse, overwrite=overwrite, may_move_aside=out_dir is None
        )
        self.records = History()
        self.milestones = guessers(*self.tokens, len(corpus.alphabet))
        self.live = plotting.Live(
            self.draw,
            "Training and validation loss fall, fast at first and then slowly, below the dashed levels of "
            "the uniform, the unigram and the bigram guesser.",
        )

    def train(self) -> None:
        """Train the model, or load it, with a line and a new point of the curve at each record.

        A stop (Ctrl-C, in Jupyter the square) raises Stopped once all is saved.
        """
        history = training.train(
            self.model,
            *self.tokens,
            self.recipe.training,
            out_dir=self.folder,
            resume=self.resume,
            overwrite=self.overwrite,
            corpus=self.corpus,
            preset=self.preset,
            on_resume=lambda run: self.records.extend(run.history),
            on_record=self.note,
        )
        self.records[:] = history
        self.live.update()

    def note(self, model: nn.Module, record: Record) -> None:
        """Print a new record, and draw it."""
        self.records.append(record)
        self.live.update()
        training.print_record(model, record)

    def draw(self) -> None:
        """The losses so far, and what simple guessers score."""
        plotting.curves(
            self.records.column("step"),
            {"training": self.records.column("train_loss"), "validation": self.records.column("val_loss")},
            milestones=self.milestones,
            xlabel="step",
            ylabel="loss (nats per letter)",
            title=f"step {self.records[-1].step:,} of {self.recipe.training.max_steps:,}",
        )


def guessers(
    train_tokens: Integer[Tensor, "N_train"], val_tokens: Integer[Tensor, "N_val"], vocab_size: int
) -> dict[str, float]:
    """The losses of three who know only the alphabet, only how frequent each letter is, only what follows which."""
    known = microscope.references(train_tokens, vocab_size)
    pairs = val_tokens[:-1].long(), val_tokens[1:].long()
    losses = {name: -known[name][pairs].mean().item() for name in ("unigram", "bigram")}
    return {"uniform": math.log(vocab_size)} | losses
