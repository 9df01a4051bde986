"""Train the preset three-minutes with two seeds and store how it fares and what it writes, for notebook 08.

make better

The runs are ordinary ones, in build/runs: those that are there already go on, and one that is finished is only read.
"""

import platform
import subprocess
import sys
from pathlib import Path

import torch

from helpers.commands import train
from helpers.core.precision import has_bfloat16
from helpers.core.sampling import generate
from helpers.runs import checkpoint
from helpers.runs.folder import is_run
from helpers.runs.presets import choose_preset, run_folder
from helpers.support import files
from helpers.support.console import command, say
from helpers.world.corpus import Corpus, load_corpus

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "notebooks" / "measured" / "three-minutes.txt"
PRESET = "three-minutes"
SEEDS = (1, 2)
LENGTH = 420
TEMPERATURE = 0.8
TOP_P = 0.9


def main(_: list[str]) -> None:
    corpus = load_corpus()
    folders = [run_folder(PRESET, choose_preset(PRESET, seed=seed), corpus) for seed in SEEDS]
    for seed, folder in zip(SEEDS, folders, strict=True):
        resume = ["--resume"] if is_run(folder) else []
        if status := train.main(["--preset", PRESET, "--seed", str(seed), "--out", str(folder), *resume]):
            sys.exit(status)  # why, has been said
    files.write(STORED, account(folders, corpus))
    say(f"stored in {STORED}")


def account(folders: list[Path], corpus: Corpus) -> str:
    """Where the numbers come from, how each run fared, and what the first one's model writes."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    lines = [
        f"made by: make better, at commit {commit.stdout.strip() or 'unknown'}",
        f"Python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} threads, "
        f"{'bfloat16' if has_bfloat16() else 'float32'}; corpus: {corpus.name}, SHA-256 {corpus.sha256}",
        *(how_it_fared(seed, folder) for seed, folder in zip(SEEDS, folders, strict=True)),
        f"the model of seed {SEEDS[0]}, temperature {TEMPERATURE}, top-p {TOP_P}, writes:",
    ]
    return "".join(f"# {line}\n" for line in lines) + sample(folders[0])


def how_it_fared(seed: int, folder: Path) -> str:
    history = checkpoint.load(folder).history
    return f"seed {seed}: loss {history.best.val_loss:.4f} after {history[-1].seconds:.0f} s"


def sample(folder: Path) -> str:
    """What the model writes, without the line that it has not ended."""
    model, tokenizer = checkpoint.load_model(folder)
    prompt = tokenizer.encode(tokenizer.start_of_text)
    dice = torch.Generator().manual_seed(1)
    written = generate(model, prompt, LENGTH, temperature=TEMPERATURE, top_p=TOP_P, generator=dice)
    return tokenizer.decode(written).strip().rsplit("\n", 1)[0] + "\n"


if __name__ == "__main__":
    sys.exit(command(main))
