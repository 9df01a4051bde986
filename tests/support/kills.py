"""python tests/support/kills.py FOLDER COUNT: kill a training COUNT times; it goes on each time.

The moments are random.

It is a program of its own, which imports PyTorch once and forks each training. It leaves
FOLDER/killed and, beside it, FOLDER/whole, which nobody has disturbed; it prints the steps that
were saved when the kills came.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # an optimizer imports it at its first step: before a fork, only this process waits
from run_folder import ALPHABET, MUON, TODAY

from helpers import checkpoint
from helpers.data import OWN, Corpus
from helpers.modern import ModernConfig, ModernGPT
from helpers.optim import TrainConfig
from helpers.training import train

torch.set_num_threads(1)
TOKENS = torch.randint(65, (3000,), generator=torch.Generator().manual_seed(1))
CONFIG = TrainConfig(batch_size=4, max_steps=40, eval_interval=4, bfloat16_cpu=True, **MUON)
SIZES = ModernConfig(65, 16, 1, 2, 32, dropout=0.2, **TODAY)


def training(folder: Path, resume: bool) -> None:
    torch.manual_seed(1)
    corpus = Corpus(ALPHABET, OWN, folder, 64 * "0")
    train(
        ModernGPT(SIZES),
        TOKENS[:2700],
        TOKENS[2700:],
        CONFIG,
        out_dir=folder,
        resume=resume,
        corpus=corpus,
    )


def started(folder: Path) -> int:
    """The number of a process that trains."""
    child = os.fork()
    if child == 0:
        training(folder, resume=(folder / "checkpoint.pt").exists())
        os._exit(0)
    return child


def main(folder: Path, count: int) -> None:
    began = time.monotonic()
    training(folder / "whole", resume=False)
    seconds = time.monotonic() - began
    saved = []
    for _ in range(count):
        child = started(folder / "killed")
        time.sleep(random.uniform(0, 2 * seconds / count))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if (folder / "killed" / "checkpoint.pt").exists():
            saved.append(checkpoint.load(folder / "killed").step)
    os.waitpid(started(folder / "killed"), 0)
    print(saved)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
