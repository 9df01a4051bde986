"""Train the preset three-minutes with two seeds and store how it fares and what it writes, for notebook 08.

make better
"""

import platform
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from helpers.core import data
from helpers.core.sampling import generate
from helpers.core.training import evaluate
from helpers.runs import fast
from helpers.runs.presets import FAST
from helpers.support import files
from helpers.support.console import command, say
from helpers.world import corpus

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "notebooks" / "measured" / "three-minutes.txt"
SEEDS, LENGTH, TEMPERATURE, TOP_P = (1, 2), 420, 0.8, 0.9


def main(_: list[str]) -> None:
    corpus, preset = corpus.load_corpus(None), FAST["three-minutes"]
    tokenizer, T = data.CharTokenizer(corpus.alphabet), preset.model["context_length"]
    train_tokens, val_tokens = data.split(tokenizer.encode(corpus.text), T)
    fared, written = [], ""
    for seed in SEEDS:
        start = time.perf_counter()
        with tqdm(total=preset.training.max_steps, desc=f"seed {seed}", unit=" steps") as bar:
            seeded = replace(preset, training=replace(preset.training, seed=seed))
            model = fast.train(seeded, train_tokens, tokenizer.vocab_size, lambda step, loss, bar=bar: bar.update())
        seconds = time.perf_counter() - start
        fared.append(f"seed {seed}: loss {evaluate(model, val_tokens, T):.4f} after {seconds:.0f} s")
        say(fared[-1])
        prompt, dice = tokenizer.encode(tokenizer.start_of_text), torch.Generator().manual_seed(1)
        if not written:
            drawn = generate(model, prompt, LENGTH, temperature=TEMPERATURE, top_p=TOP_P, generator=dice)
            written = tokenizer.decode(drawn)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    lines = [
        f"made by: make better, at commit {commit.stdout.strip() or 'unknown'}",
        f"Python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} threads, "
        f"{'bfloat16' if fast.has_bfloat16() else 'float32'}; corpus: {corpus.name}, SHA-256 {corpus.sha256}",
        *fared,
        f"the model of seed {SEEDS[0]}, temperature {TEMPERATURE}, top-p {TOP_P}, writes:",
    ]
    files.write(STORED, "".join(f"# {line}\n" for line in lines) + written.strip().rsplit("\n", 1)[0] + "\n")
    say(f"stored in {STORED.relative_to(ROOT)}")


if __name__ == "__main__":
    import sys

    sys.exit(command(main))
