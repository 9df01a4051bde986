"""What studies that look into networks share: trainings that are kept, and the table they store."""

import io
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Integer
from torch import Tensor

from helpers import checkpoint, presets, training
from helpers.commands import say
from helpers.data import CharTokenizer, load_corpus, split
from helpers.files import write
from helpers.gpt import GPT
from helpers.optim import make_optimizer
from helpers.tables import MEASURED, Line, csv_table
from tools.studies.header import header

STATE = "state.pt"


def trained(preset: str, seed: int, run: str) -> tuple[GPT, CharTokenizer, Integer[Tensor, "N"]]:
    """A preset's GPT after its training on tiny Shakespeare, its tokenizer, the validation text.

    The training is kept in build/runs, as `run`; one that has ended is only loaded.
    """
    corpus = load_corpus()
    tokenizer = corpus.tokenizer
    recipe = presets.choose_preset(preset, seed=seed, device="cpu")
    train_tokens, val_tokens = split(tokenizer.encode(corpus.text), recipe.model["context_length"])
    torch.manual_seed(seed)
    model = recipe.build(tokenizer.vocab_size, train_tokens)
    folder = presets.RUNS / run
    settings = checkpoint.settings_of(model, recipe.training, train_tokens, val_tokens, tokenizer)
    resume, _ = checkpoint.prepare_folder(folder, settings, reuse=True, overwrite=False, may_move_aside=False)
    training.train(
        model, train_tokens, val_tokens, recipe.training, out_dir=folder, resume=resume,
        corpus=corpus, preset=preset,
    )  # fmt: skip
    return model.eval(), tokenizer, val_tokens


def watched(preset: str, max_steps: int, seed: int, at: Sequence[int]) -> Path:
    """Train a preset on tiny Shakespeare, and keep its weights at each step of `at`, the last of which is `max_steps`.

    Returns the folder, in build/runs; after a kill the same call goes on at the last of these steps. (A trainer's
    snapshots lie further apart: each comes with a record, which costs a pass over the validation text.)
    """
    folder = presets.RUNS / f"{preset}-{max_steps}-steps-seed-{seed}-watched"
    recipe = presets.choose_preset(preset, max_steps=max_steps, seed=seed, device="cpu")
    corpus = load_corpus()
    tokens, _ = split(corpus.tokens, recipe.model["context_length"])
    torch.manual_seed(seed)
    model = recipe.build(corpus.tokenizer.vocab_size, tokens)
    optimizer = make_optimizer(model, recipe.training)
    generator = torch.Generator().manual_seed(seed)  # of the batches, as in the trainer
    first, losses = 0, []
    if (folder / STATE).exists():
        state = torch.load(folder / STATE, weights_only=True)
        first, losses = state["step"], state["losses"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["batches"])

    def keep(step: int) -> None:
        now = {"step": step, "losses": losses, "model": model.state_dict()}
        _save(snapshot(folder, step), now)
        _save(folder / STATE, now | {"optimizer": optimizer.state_dict(), "batches": generator.get_state()})

    if not first:
        keep(0)
    updates = training.updates(model, tokens, recipe.training, optimizer, generator, first)
    for step, loss in enumerate(updates, first + 1):
        losses.append(loss)
        if step in at:
            keep(step)
    return folder


def snapshot(folder: Path, step: int) -> Path:
    """The file in which `watched` keeps the "model" of a step, and all "losses" up to it."""
    return folder / f"step-{step:05}.pt"


def _save(path: Path, state: dict) -> None:
    file = io.BytesIO()
    torch.save(state, file)
    write(path, file.getvalue())  # whole, or not at all


def store(study: str, lines: list[Line], budget: str, table: str = "") -> None:
    """Write the table of a study of this folder (or another `table`), with the commit, the corpus and the budget."""
    table = table or study
    write(MEASURED / f"{table}.csv", csv_table(lines, [*header(study, corpus=load_corpus()), budget]))
    say(f"stored {len(lines)} rows in notebooks/measured/{table}.csv")
