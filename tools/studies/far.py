"""Train a GPT with rotary positions on 32 letters, with three seeds; store how well it reads 128.

python -m tools.studies far
"""

from helpers.commands import Options, say
from helpers.data import load_corpus, split
from helpers.rooms import extrapolation
from helpers.tables import Line
from tools.studies import networks

SEEDS = (1, 2, 3)
STEPS = 1500


def main(arguments: list[str]) -> None:
    Options(prog="python -m tools.studies far", description=__doc__).parse_args(arguments)
    corpus = load_corpus()
    tokenizer = corpus.tokenizer
    train_tokens, val_tokens = split(tokenizer.encode(corpus.text), extrapolation.READ)
    lines: list[Line] = []
    for seed in SEEDS:
        model = extrapolation.trained(train_tokens, tokenizer.vocab_size, seed, STEPS)
        for way, options in extrapolation.WAYS.items():
            losses = extrapolation.losses_by_place(model, val_tokens, **options).tolist()
            for place, loss in zip(range(0, extrapolation.READ, 16), losses, strict=True):
                lines.append({"seed": seed, "reads": way, "place": place, "loss": round(loss, 5)})
            say(f"seed {seed}, {way}: {losses[0]:.2f} to {losses[-1]:.2f}")
    shares = train_tokens.long().bincount(minlength=tokenizer.vocab_size) / len(train_tokens)
    blind = -shares.log()[val_tokens.long()].mean().item()
    lines.append({"seed": 0, "reads": extrapolation.BLIND, "place": 0, "loss": round(blind, 5)})
    budget = (
        f"budget: 2 layers, 4 heads, width 64, {STEPS} steps of 32 windows of 32 letters, rate 0.005; "
        "800 texts of 128 letters are read; a place stands for itself and the 15 after it"
    )
    networks.store("far", lines, budget)
