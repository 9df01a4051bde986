"""Draw the README's moving picture from a trained run: the loss falls, and its text turns to verse.

python -m tools.picture [--run build/runs/laptop]
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.animation import PillowWriter

from helpers import checkpoint
from helpers.errors import command, say, write
from helpers.sampling import generate

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "learning.gif"
PROMPT, LENGTH, TEMPERATURE = "ROMEO:\n", 330, 0.8
TYPED, PAUSE = 6, 8  # frames in which a text appears, and in which it then stands still
WIDTH, LINES = 46, 12  # of the text, in letters and lines


def texts(folder: str) -> Iterator[tuple[int, str]]:
    """Each snapshot's step, and its text after the prompt, always by the same random numbers."""
    _, tokenizer = checkpoint.load_model(folder)
    for step, model in checkpoint.load_snapshots(folder):
        generator = torch.Generator().manual_seed(1)
        prompt = tokenizer.encode(PROMPT)
        written = generate(model, prompt, LENGTH, temperature=TEMPERATURE, generator=generator)
        yield step, tokenizer.decode(written)


def on_lines(text: str) -> list[str]:
    """The text cut after WIDTH letters a line, wherever that is: noise has few spaces to cut at."""
    lines = [
        line[at : at + WIDTH]
        for line in text.split("\n")
        for at in range(0, max(len(line), 1), WIDTH)
    ]
    return lines[:LINES]


def draw(folder: str, path: Path) -> str:
    """Write the picture; returns its alternative text."""
    history, drawn = checkpoint.load(folder).history, list(texts(folder))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), dpi=100, width_ratios=(2, 3))
    figure.subplots_adjust(left=0.07, right=0.99, bottom=0.16, top=0.9, wspace=0.1)
    writer = PillowWriter(fps=6)
    with writer.saving(figure, str(path), dpi=100):
        for number, (step, text) in enumerate(drawn):
            past = [record for record in history if record.step <= step]
            left.clear()
            left.plot([r.step for r in history], [r.val_loss for r in history], color="0.88")
            left.plot([r.step for r in past], [r.val_loss for r in past], color="tab:blue", lw=2.5)
            left.plot(step, past[-1].val_loss, "o", color="tab:orange", ms=9)
            left.set(xlabel="updates", ylabel="surprise per letter (nats)", ylim=(1.6, 4.4))
            left.set_title(f"{step:,} updates, loss {past[-1].val_loss:.2f}", loc="left")
            left.spines[["top", "right"]].set_visible(False)
            lines = on_lines(text)
            right.clear()
            right.set_title("what it writes", loc="left")
            right.axis("off")
            shown = right.text(
                0, 1, "", family="monospace", fontsize=11, va="top", transform=right.transAxes
            )
            last = number == len(drawn) - 1
            for frame in range(TYPED + PAUSE * (3 if last else 1)):
                whole, share = "\n".join(lines), min(1, (frame + 1) / TYPED)
                shown.set_text(whole[: round(len(whole) * share)].replace("$", r"\$"))
                writer.grab_frame()
    plt.close(figure)
    losses = [next(r.val_loss for r in history if r.step == step) for step, _ in drawn]
    first, end = (
        on_lines(text.replace(PROMPT, "").strip())[0][:24] for _, text in (drawn[0], drawn[-1])
    )
    return (
        f"A curve falls from {losses[0]:.2f} to {losses[-1]:.2f} in {drawn[-1][0]:,} updates; beside it the text that "
        f'the model writes turns from noise ("{first}") to something that sounds like Shakespeare ("{end}")'
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--run", default="build/runs/laptop", help="a finished run (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch) / "learning.gif"
        alt = draw(options.run, draft)
        write(PICTURE, draft.read_bytes())
    say(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1e6:.2f} MB\n{alt}")


if __name__ == "__main__":
    import sys

    sys.exit(command(main))
