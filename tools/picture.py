"""Draw the README's moving picture from a trained run: noise turns to verse, and a head learns to look.

python -m tools.picture, once `python -m helpers.training --preset playground` has trained.
"""

import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.animation import PillowWriter
from matplotlib.axes import Axes
from PIL import Image, ImageChops, ImageSequence
from torch import Tensor

from helpers import ROOT, checkpoint
from helpers.commands import Options, command, say
from helpers.files import write
from helpers.microscope import every_tensor
from helpers.presets import RUNS
from helpers.sampling import generate
from pictures import plotting

PICTURE, RUN = ROOT / "docs" / "learning.gif", RUNS / "playground"
IN_THE_DARK = PICTURE.with_stem("learning-dark")
NIGHT = (13, 17, 23)  # GitHub's background
STEPS = (0, 100, 500, 2000, 6000)
# The dice are chosen from a hundred, as what makes one read on.
PROMPT, LENGTH, TEMPERATURE, TOP_P, DICE = "ROMEO:\n", 260, 0.8, 0.9, 94
READ = "O Romeo, Romeo!"
TYPED, PAUSE = 3, 15  # frames in which a text appears, and in which it then stands still: two and a half seconds
WIDTH, LINES = 49, 10  # of the text, in letters and lines


def on_lines(text: str) -> list[str]:
    """The text on lines of at most WIDTH letters."""
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, WIDTH) or [""]]
    return lines[:LINES]


def draw_map(ax: Axes, weights: Tensor) -> None:
    """Where each letter of READ looks."""
    T = len(READ)
    hidden = torch.ones(T, T).triu(1).bool()
    ax.clear()
    ax.imshow(hidden.numpy(), cmap="Greys", vmax=8)
    ax.imshow(weights.masked_fill(hidden, torch.nan).numpy(), cmap=plotting.SHARE, vmin=0, vmax=1)
    letters = plotting.labels(list(READ))
    ax.set_xticks(range(T), letters, fontsize=9, family="monospace")
    ax.set_yticks(range(T), letters, fontsize=9, family="monospace")
    ax.xaxis.tick_top()
    plotting.bare(ax)
    ax.tick_params(pad=1)


def draw(folder: Path, path: Path) -> str:
    """Write the picture; returns its alternative text."""
    _, tokenizer = checkpoint.load_model(folder)
    losses = {record.step: record.val_loss for record in checkpoint.load(folder).history}
    models = [snapshot for snapshot in checkpoint.load_snapshots(folder) if snapshot[0] in STEPS]
    maps = [every_tensor(model, tokenizer.encode(READ)).weights for _, model in models]
    before = maps[-1].diagonal(-1, dim1=-2, dim2=-1).mean(dim=-1)  # (L, H)
    layer, head = divmod(before.argmax().item(), before.shape[1])

    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3), dpi=100, width_ratios=(1.95, 1))
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.02, top=0.82, wspace=0.04)
    writer, texts = PillowWriter(fps=6), []
    with writer.saving(figure, str(path), dpi=100):
        for (step, model), weights in zip(models, maps, strict=True):
            generator = torch.Generator().manual_seed(DICE)
            text = generate(
                model,
                tokenizer.encode(PROMPT),
                LENGTH,
                temperature=TEMPERATURE,
                top_p=TOP_P,
                generator=generator,
            )
            lines = on_lines(tokenizer.decode(text))
            texts.append(lines)
            draw_map(right, weights[layer, head])
            right.set_title("where a head looks", fontsize=11)
            left.clear()
            left.axis("off")
            left.set_title(
                f"after {step:,} updates, validation loss {losses[step]:.2f}",
                loc="left",
                fontsize=11,
            )
            artist = left.text(0, 1, "", family="monospace", fontsize=11, va="top")
            artist.set_transform(left.transAxes)
            last = step == models[-1][0]
            for frame in range(TYPED + PAUSE * (2 if last else 1)):
                whole, share = "\n".join(lines), min(1, (frame + 1) / TYPED)
                artist.set_text(whole[: round(len(whole) * share)].replace("$", r"\$"))
                writer.grab_frame()
    plt.close(figure)
    noise, verse = (next(line for line in lines[1:] if line)[:40] for lines in (texts[0], texts[-1]))
    first, last = (of_all[layer, head].diagonal(-1).mean() for of_all in (maps[0], maps[-1]))
    return (
        f'Over {models[-1][0]:,} updates, what a GPT writes goes from noise ("{noise}") to something that sounds a '
        f'little like Shakespeare ("{verse}"). Beside it, the map of where one of its heads looks: at first with '
        f"{first:.0%} at the letter before, by the end with {last:.0%}"
    )


def darken(bright: Path, dark: Path) -> None:
    """The same picture for a dark page: light and dark change places, and colours keep their names."""
    with Image.open(bright) as image:
        frames, times = [], []
        for frame in ImageSequence.Iterator(image):
            hue, saturation, value = frame.convert("RGB").convert("HSV").split()
            shade = ImageChops.invert(ImageChops.multiply(value, saturation.point(lambda s: 255 - s)))
            paler = saturation.point(lambda s: round(0.7 * s))
            night = Image.merge("HSV", (hue, paler, ImageChops.lighter(shade, saturation))).convert("RGB")
            frames.append(ImageChops.lighter(night, Image.new("RGB", night.size, NIGHT)).quantize(64))
            times.append(frame.info["duration"])
    frames[0].save(dark, save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=True)


def main(arguments: list[str]) -> None:
    Options(prog="python -m tools.picture", description=__doc__).parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch) / "learning.gif"
        alt = draw(RUN, draft)
        darken(draft, draft.with_stem("dark"))
        write(PICTURE, draft.read_bytes())
        write(IN_THE_DARK, draft.with_stem("dark").read_bytes())
    say(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1e6:.2f} MB\n{alt}")


if __name__ == "__main__":
    import sys

    sys.exit(command(main))
