"""Train every variant of helpers/ablations.py and write the tables that notebook 10 reads (`make ablations`).

A run that ends is kept at once, in build/ablations/. After a Ctrl-C, a kill or a power cut the same command trains
only what is missing; when every run is there, the tables are written and what was kept is removed.
"""

import argparse
import csv
import hashlib
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import connection, get_context, parent_process, resource_tracker
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from helpers import ablations, data, files
from helpers.console import Stopped, command
from helpers.data import CharTokenizer
from helpers.errors import ConfigError, HelpersError, StorageError, TrainingError
from helpers.gpt import GPT, GPTConfig
from helpers.state import Record
from helpers.training import TrainConfig, evaluate, train

ROOT = Path(__file__).resolve().parents[1]
JOURNAL = ROOT / "build" / "ablations"
# Importing torch takes seconds. Linux forks every run from one process that has done it and nothing else; elsewhere
# torch does not survive a fork for certain.
PROCESSES = get_context("forkserver" if sys.platform == "linux" else "spawn")
PROCESSES.set_forkserver_preload(["helpers.ablations"])


# ---------------------------------------------------------------- dropout, which matters only in a long run
LONG_SIZES: dict[str, Any] = dict(context_length=64, n_layer=4, n_head=4, n_embd=128)
LONG = TrainConfig(batch_size=16, max_steps=2000, eval_interval=400)
LONG_CHARACTERS = 50_000


def run_long(
    dropout: float, seed: int, tokens: Int64[Tensor, "N"], tokenizer: CharTokenizer, steps: int | None = None
) -> list[dict]:
    """Train on the first 50,000 characters only, 40 times over; both losses, without dropout, as they go."""
    train_tokens, val_tokens = data.split(tokens, LONG_SIZES["context_length"])
    train_tokens, records = train_tokens[:LONG_CHARACTERS], []

    def keep(model: nn.Module, record: Record) -> None:
        losses = {"train_loss": train_tokens, "val_loss": val_tokens}
        losses = {key: round(evaluate(model, part, LONG_SIZES["context_length"]), 4) for key, part in losses.items()}
        records.append({"dropout": dropout, "seed": seed, "step": record.step, **losses})

    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=tokenizer.vocab_size, dropout=dropout, **LONG_SIZES))
    train(model, train_tokens, val_tokens, ablations.cut(replace(LONG, seed=seed), steps), on_record=keep)
    return records


# ---------------------------------------------------------------- all runs by their names
TABLES = {  # what takes longest comes first
    "overfitting.csv": {f"dropout {p}": partial(run_long, p) for p in (0.0, 0.2)},
    "ablations.csv": {name: partial(ablations.run, name) for name in ablations.VARIANTS},
}
RUNS = {name: train for table in TABLES.values() for name, train in table.items()}


# ---------------------------------------------------------------- what is kept of a finished run
class Journal:
    """The finished runs on one text, with one state of the code and one torch: a file each, written whole."""

    def __init__(self, folder: Path, corpus: data.Corpus, steps: int | None):
        code = b"".join(path.read_bytes() for path in [*sorted((ROOT / "helpers").glob("*.py")), Path(__file__)])
        self.identity = {
            "corpus": corpus.sha256,
            "code": hashlib.sha256(code).hexdigest(),
            "versions": versions(),
            "steps": steps,
        }
        self.folder = folder / hashlib.sha256(json.dumps(self.identity).encode()).hexdigest()[:16]

    def _path(self, name: str, seed: int) -> Path:
        return self.folder / f"{name}, seed {seed}.json"

    def read(self, name: str, seed: int) -> list[dict] | None:
        """The lines that this run gives to its table; None when it has not been made, or not under this identity."""
        try:
            kept = json.loads(self._path(name, seed).read_bytes())
            return kept["lines"] if kept["run"] == [name, seed] and kept["identity"] == self.identity else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, name: str, seed: int, lines: list[dict]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = {"run": [name, seed], "identity": self.identity, "lines": lines}
        files.write(self._path(name, seed), json.dumps(kept, indent=1))

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


# ---------------------------------------------------------------- one run, in a process of its own
def work(name: str, seed: int, options: argparse.Namespace, identity: dict) -> None:
    """Train and keep one run, on one thread. What goes wrong is said in a sentence, and the other runs go on."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    torch.set_num_threads(1)
    try:
        corpus = data.load_corpus(options.corpus)
        journal = Journal(options.journal, corpus, options.steps)
        if journal.identity != identity:
            raise ConfigError("the text or the code has changed since the command was started: start it again")
        tokenizer = CharTokenizer(corpus.alphabet)
        lines = RUNS[name](seed, tokenizer.encode(corpus.text), tokenizer, options.steps)
        journal.write(name, seed, lines if isinstance(lines, list) else [lines])
    except Exception as error:
        kind = "" if isinstance(error, HelpersError) else f"{type(error).__name__}: "
        sys.exit(f"error: {name}, seed {seed}: {kind}{' '.join(str(error).split())}")


def _end_with_the_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Ctrl-C and its kin wait until the end. A process started inside never sees them: its parent ends it instead."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # or starting the first process would start it, and that lets Ctrl-C through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---------------------------------------------------------------- all runs, and their tables
def train_all(wanted: list[tuple[str, int]], journal: Journal, options: argparse.Namespace) -> dict:
    """The lines of every run in `wanted`: out of the journal, or from new processes, `options.jobs` at a time.

    TrainingError at the end when runs failed. Stopped says how much is kept; the runs in progress are lost.
    """
    done = {run: lines for run in wanted if (lines := journal.read(*run)) is not None}
    print(f"{len(done)} of {len(wanted)} runs are done already, {len(wanted) - len(done)} to go", flush=True)
    waiting, running, failed = [run for run in wanted if run not in done], {}, []
    try:
        while waiting or running:
            while waiting and len(running) < options.jobs:
                run = waiting.pop(0)
                process = PROCESSES.Process(target=work, args=(*run, options, journal.identity), daemon=True)
                with _signals_held():
                    process.start()
                    running[process.sentinel] = (process, run)
            for sentinel in connection.wait(running):
                process, run = running.pop(sentinel)
                process.join()
                lines = journal.read(*run)
                if lines is not None:
                    done[run] = lines
                    loss = lines[-1].get("writing_loss", lines[-1].get("val_loss"))
                    print(f"{len(done):3} of {len(wanted)}  {run[0]}, seed {run[1]}: {loss}", flush=True)
                    continue
                failed.append(f"{run[0]}, seed {run[1]}")
                if process.exitcode < 0:
                    print(f"error: {failed[-1]}: ended by {signal.Signals(-process.exitcode).name}", file=sys.stderr)
    except KeyboardInterrupt as stopped:
        _end(running)
        kept = sum(journal.read(*run) is not None for run in wanted)
        message = f"{kept} of {len(wanted)} runs are kept in {journal.folder}; the same command goes on from there"
        raise Stopped(getattr(stopped, "number", signal.SIGINT), message) from None
    finally:
        _end(running)
    if failed:
        raise TrainingError(
            f"{len(failed)} of {len(wanted)} runs failed ({'; '.join(failed)}): no table is written. "
            "The others are kept; the same command tries these again"
        )
    return done


def _end(running: dict) -> None:
    for process, _ in running.values():
        process.kill()
    for process, _ in running.values():
        process.join()


def versions() -> str:
    return f"Python {platform.python_version()}, torch {torch.__version__}, {platform.system()} {platform.machine()}"


def provenance(corpus: data.Corpus) -> list[str]:
    """Comment lines for the top of a table: how to make it again, and what made it."""

    def git(*arguments: str) -> str:
        try:
            return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT).stdout.strip()
        except OSError:  # there is no git
            return ""

    commit = git("rev-parse", "--short", "HEAD") or "unknown"
    changed = " with uncommitted changes" if git("status", "--porcelain", "helpers", "tools/ablations.py") else ""
    return [
        f"# made by: make ablations, at commit {commit}{changed}",
        f"# {versions()}, 1 thread a run, CPU",
        f"# corpus: {corpus.name}",
    ]


def table(lines: list[dict], comments: list[str]) -> str:
    """A CSV file under comment lines, for `ablations.read_table`."""
    text = io.StringIO()
    text.writelines(comment + "\n" for comment in comments)
    writer = csv.DictWriter(text, lines[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10,000")
    return int(text)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python tools/ablations.py", description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=count, default=2, help="runs side by side, of one thread each (default: 2)")
    parser.add_argument("--seeds", type=count, default=3, help="seeds 1 .. N (default: 3)")
    parser.add_argument("--out", type=Path, default=ablations.MEASURED, help="folder for the two tables")
    parser.add_argument(
        "--journal", type=Path, default=JOURNAL, help="folder for what is done (default: build/ablations)"
    )
    parser.add_argument("--corpus", help="a text file instead of tiny Shakespeare")
    parser.add_argument("--steps", type=count, help="cut every run to so many steps, for a test")
    parser.add_argument("--only", action="append", choices=RUNS, metavar="RUN", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    corpus = data.load_corpus(options.corpus)
    part = options.steps or options.only or options.seeds < 3 or corpus.name != data.TINY
    if part and options.out.resolve() == ablations.MEASURED.resolve():
        raise ConfigError("notebook 10 needs the whole experiment on tiny Shakespeare: name another folder by --out")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't make the folder {options.out}: {error.strerror}") from None
    comments, journal = provenance(corpus), Journal(options.journal, corpus, options.steps)
    print(corpus, *comments, sep="\n", flush=True)
    names = [name for name in RUNS if name in (options.only or RUNS)]
    wanted = [(name, seed) for name in names for seed in range(1, options.seeds + 1)]
    done = train_all(wanted, journal, options)
    for file, runs in TABLES.items():
        if lines := [line for run in wanted if run[0] in runs for line in done[run]]:
            files.write(options.out / file, table(lines, comments))
    journal.remove()


if __name__ == "__main__":
    sys.exit(command(main))
