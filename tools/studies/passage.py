"""What a network adds to counts, letter by letter: train the preset counted, store a passage.

python -m tools.studies.passage

The run is kept in build/runs/counted-seed-21, goes on where it was stopped, and is only loaded when
it has ended.
"""

import sys

import torch

from helpers import checkpoint, presets, training
from helpers.counted import CountedGPT, build_gpt
from helpers.data import CharTokenizer, load_corpus, split
from helpers.errors import command, say, write
from helpers.rooms.guessers import gains_over_counts, kind_of
from helpers.tables import MEASURED, csv_table
from tools.provenance import ROOT, made_by

SEED = 21
WINDOWS = 800  # of validation text, by kinds of letters
LETTERS = 320  # of the passage


def main(arguments: list[str]) -> None:
    corpus = load_corpus()
    tokenizer = CharTokenizer.from_text(corpus.text)
    recipe = presets.choose_preset("counted", seed=SEED, device="cpu")
    train_tokens, val_tokens = split(tokenizer.encode(corpus.text), recipe.model["context_length"])
    torch.manual_seed(SEED)
    model = build_gpt(recipe.model_config(tokenizer.vocab_size, counted=len(train_tokens)))
    model.count(train_tokens)
    folder = ROOT / "build" / "runs" / f"counted-seed-{SEED}"
    wanted = checkpoint.settings_of(model, recipe.training, train_tokens, val_tokens, tokenizer)
    resume, _ = checkpoint.plan_run(
        folder, wanted, reuse=True, overwrite=False, may_move_aside=False
    )
    training.train(
        model, train_tokens, val_tokens, recipe.training, out_dir=folder, resume=resume,
        corpus=corpus, preset="counted",
    )  # fmt: skip
    assert isinstance(model, CountedGPT)
    gains, letters = gains_over_counts(model.eval(), val_tokens[: 64 * WINDOWS + 65])
    text = tokenizer.decode(letters)
    lines = []
    for kind in dict.fromkeys(map(kind_of, text[:-1], text[1:])):
        chosen = [
            gain
            for before, letter, gain in zip(text, text[1:], gains[1:].tolist(), strict=False)
            if kind_of(before, letter) == kind
        ]
        mean = round(sum(chosen) / len(chosen), 5)
        lines.append({"what": kind, "letter": "", "letters": len(chosen), "gain": mean})
    begin = text.find("\n\n", 5000) + 2
    for letter, gain in zip(text[begin:], gains[begin : begin + LETTERS].tolist(), strict=False):
        lines.append(
            {"what": "passage", "letter": ord(letter), "letters": 1, "gain": round(gain, 4)}
        )
    about = [
        made_by("python -m tools.studies.passage"),
        f"torch {torch.__version__}, corpus: {corpus.name}, SHA-256 {corpus.sha256}",
        f"the preset counted, seed {SEED}: by how many nats a letter of the validation text became "
        "likelier than by counts of six letters, the mean by kinds and letter by letter (code points)",
    ]
    write(MEASURED / "passage.csv", csv_table(lines, about))
    say(f"stored {len(lines)} rows in notebooks/measured/passage.csv")


if __name__ == "__main__":
    sys.exit(command(main))
