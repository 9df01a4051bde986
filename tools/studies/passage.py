"""What a network adds to counts, letter by letter: train the preset counted, store a passage.

python -m tools.studies passage

The run is kept in build/runs/counted-seed-21, goes on where it was stopped, and is only loaded when
it has ended.
"""

from helpers.commands import Options
from helpers.counted import CountedGPT
from helpers.rooms.guessers import gains_over_counts, kind_of
from tools.studies import networks

SEED = 21
WINDOWS = 800  # of validation text, by kinds of letters
LETTERS = 320  # of the passage


def main(arguments: list[str]) -> None:
    Options(prog="python -m tools.studies passage", description=__doc__).parse_args(arguments)
    model, tokenizer, val_tokens = networks.trained("counted", SEED, f"counted-seed-{SEED}")
    assert isinstance(model, CountedGPT)
    gains, letters = gains_over_counts(model, val_tokens[: 64 * WINDOWS + 65])
    text = tokenizer.decode(letters)
    lines = []
    for kind in dict.fromkeys(map(kind_of, text[:-1], text[1:])):
        kind_gains = [
            gain
            for before, letter, gain in zip(text, text[1:], gains[1:].tolist(), strict=False)
            if kind_of(before, letter) == kind
        ]
        mean = round(sum(kind_gains) / len(kind_gains), 5)
        lines.append({"what": kind, "letter": "", "letters": len(kind_gains), "gain": mean})
    begin = text.find("\n\n", 5000) + 2
    for letter, gain in zip(text[begin:], gains[begin : begin + LETTERS].tolist(), strict=False):
        lines.append({"what": "passage", "letter": ord(letter), "letters": 1, "gain": round(gain, 4)})
    budget = (
        f"the preset counted, seed {SEED}: by how many nats a letter of the validation text became "
        "likelier than by counts of six letters, the mean by kinds and letter by letter (code points)"
    )
    networks.store("passage", lines, budget)
