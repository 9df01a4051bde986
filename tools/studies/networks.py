"""What studies that look into networks share: a training that is kept, and the table they store."""

import torch
from jaxtyping import Integer
from torch import Tensor

from helpers import ROOT, checkpoint, presets, training
from helpers.data import CharTokenizer, load_corpus, split
from helpers.errors import say, write
from helpers.gpt import GPT
from helpers.tables import MEASURED, Line, csv_table
from tools.provenance import made_by


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
    folder = ROOT / "build" / "runs" / run
    settings = checkpoint.settings_of(model, recipe.training, train_tokens, val_tokens, tokenizer)
    resume, _ = checkpoint.plan_run(folder, settings, reuse=True, overwrite=False, may_move_aside=False)
    training.train(
        model, train_tokens, val_tokens, recipe.training, out_dir=folder, resume=resume,
        corpus=corpus, preset=preset,
    )  # fmt: skip
    return model.eval(), tokenizer, val_tokens


def store(study: str, lines: list[Line], budget: str) -> None:
    """Write the table of a study of this folder, with the commit, the corpus and the budget."""
    corpus = load_corpus()
    about = [
        made_by(f"python -m tools.studies {study}"),
        f"torch {torch.__version__}, corpus: {corpus.name}, SHA-256 {corpus.sha256}",
        budget,
    ]
    write(MEASURED / f"{study}.csv", csv_table(lines, about))
    say(f"stored {len(lines)} rows in notebooks/measured/{study}.csv")
