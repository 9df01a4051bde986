"""Run a study in parallel and write its table (`make study NAME=parts`, `make ladder`).

The table grows in build/studies/, a line for every run that ends. After a Ctrl-C, a kill or a power cut the same
command makes only the runs that are missing; when all are there, the table moves to notebooks/measured/.
"""

import argparse
import hashlib
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process, resource_tracker
from pathlib import Path
from types import ModuleType

import filelock
import torch
from tqdm import tqdm

from helpers.core.data import CharTokenizer
from helpers.studies import experiments, ladder
from helpers.studies import parts as ablations
from helpers.studies.experiments import Run, Study
from helpers.studies.ladder import Climb, Ladder
from helpers.support import files
from helpers.support.console import Stopped, command
from helpers.support.errors import ConfigError, HelpersError, RunError, StorageError, TrainingError
from helpers.world import corpus

ROOT = Path(__file__).resolve().parents[1]
STUDIES: dict[str, Study | Ladder] = {**ablations.STUDIES, "ladder": Ladder()}
GROWING = ROOT / "build" / "studies"
# What the numbers of a run depend on: a table holds runs of one state of these files.
CODE = ["attention", "data", "gpt", "guards", "training"]
# Importing torch, and what its optimizers import at their first step, takes seconds. Linux forks every run from one
# process that has done it and nothing else; elsewhere torch does not survive a fork for certain.
PROCESSES = get_context("forkserver" if sys.platform == "linux" else "spawn")
PROCESSES.set_forkserver_preload(["helpers.ablations", "torch._dynamo"])


def maker(name: str) -> ModuleType:
    """The module that plans, measures and reports: its `plan`, `missing`, `measure` and `report` take the study."""
    return ladder if isinstance(STUDIES[name], Ladder) else experiments


def code_of(name: str) -> list[str]:
    more = ["ladder", "presets"] if isinstance(STUDIES[name], Ladder) else ["ablations", "experiments"]
    return sorted([*CODE, "modern", *more])


# ---------------------------------------------------------------- the table, as far as it goes
def made_by(name: str) -> str:
    """The first line of a table: the command, and the commit."""

    def git(*arguments: str) -> str:
        try:
            return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT).stdout.strip()
        except OSError:  # there is no git
            return ""

    changed = " with uncommitted changes" if git("status", "--porcelain", "helpers", "tools/study.py") else ""
    return f"made by: make study NAME={name}, at commit {git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}"


def identity(name: str, corpus: corpus.Corpus, device: str) -> list[str]:
    """The lines below it: all that decides what a run gives."""
    code = b"".join((ROOT / "helpers" / f"{module}.py").read_bytes() for module in code_of(name))
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return [
        f"{versions}, {platform.system()} {platform.machine()}, 1 thread a run, {device}",
        f"corpus: {corpus.name}, SHA-256 {corpus.sha256}",
        f"budget: {STUDIES[name].budget()}",
        f"code: SHA-256 {hashlib.sha256(code).hexdigest()}",
    ]


def read(path: Path, ours: list[str]) -> list[dict]:
    """The lines of the table that grows at `path`; RunError when its runs are none of `ours`."""
    if not path.exists():
        return []
    found, lines = experiments.read_table(path)
    if differing := [line for line in found[1:] if line not in ours]:
        raise RunError(f"{path} has runs of another state ({'; '.join(differing)}): go back to it, or move them away")
    return lines


# ---------------------------------------------------------------- one run, in a process of its own
def work(
    name: str, run: Run | Climb, options: argparse.Namespace, ours: list[str], result: connection.Connection
) -> None:
    """Train on one thread and send the line. What goes wrong is said in a sentence, and the other runs go on."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    torch.set_num_threads(1)
    try:
        corpus = corpus.load_corpus(options.corpus)
        if identity(name, corpus, options.device) != ours:
            raise ConfigError("the text or the code has changed since the command was started: start it again")
        tokenizer = CharTokenizer(corpus.alphabet)
        tokens = tokenizer.encode(corpus.text)
        result.send(maker(name).measure(STUDIES[name], run, tokens, tokenizer.vocab_size, options.device))
    except Exception as error:
        kind = "" if isinstance(error, HelpersError) else f"{type(error).__name__}: "
        sys.exit(f"error: {run}: {kind}{' '.join(str(error).split())}")


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


# ---------------------------------------------------------------- all runs
def train_all(name: str, lines: list[dict], path: Path, comments: list[str], options: argparse.Namespace) -> None:
    """Add every run of the study that is not among the `lines`, from `options.jobs` processes at a time.

    After each, the table at `path` is written anew. TrainingError at the end when runs failed. Stopped says how much is
    kept; the runs in progress are lost.
    """
    study, made, running, failed = STUDIES[name], maker(name), {}, []
    total = len(made.plan(study, lines))
    print(f"{len(lines)} of {total} runs are done already, {total - len(lines)} to go", flush=True)
    # A terminal gets a bar with the time left, a file gets a line for each run.
    bar = tqdm(total=total, initial=len(lines), unit="run", disable=None, smoothing=0.02, leave=False)
    try:
        while True:
            busy = [run for _, run, _ in running.values()]
            waiting = [run for run in made.missing(study, lines) if run not in busy and run not in failed]
            for run in waiting[: options.jobs - len(running)]:
                _start(running, name, run, options, comments[1:])
            if not running:
                break
            for sentinel in connection.wait(running):
                process, run, result = running.pop(sentinel)
                process.join()
                if process.exitcode == 0 and result.poll():
                    lines.append(result.recv())
                    files.write(path, experiments.table(lines, comments))
                    _show(bar, len(made.plan(study, lines)), lines, run)
                    continue
                failed.append(run)
                if process.exitcode < 0:
                    print(f"error: {run}: ended by {signal.Signals(-process.exitcode).name}", file=sys.stderr)
    except KeyboardInterrupt as stopped:
        message = f"{len(lines)} runs are kept in {path}; the same command goes on from there"
        raise Stopped(getattr(stopped, "number", signal.SIGINT), message) from None
    finally:
        bar.close()
        for process, _, _ in running.values():
            process.kill()
        for process, _, _ in running.values():
            process.join()
    if failed:
        raise TrainingError(
            f"{len(failed)} runs failed ({'; '.join(map(str, failed))}): the table is not whole. "
            f"The others are kept in {path}; the same command tries these again"
        )


def _start(running: dict, name: str, run: Run | Climb, options: argparse.Namespace, ours: list[str]) -> None:
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=work, args=(name, run, options, ours, sender), daemon=True)
    with _signals_held():
        process.start()
        running[process.sentinel] = (process, run, receiver)


def _show(bar: tqdm, total: int, lines: list[dict], run: Run | Climb) -> None:
    bar.total = total  # it grows where the best rate lies at an end
    bar.set_postfix_str(run.variant, refresh=False)
    bar.update()
    if bar.disable:
        print(f"{len(lines):4} of {total}  {run}: {lines[-1]['loss']:.3f}", flush=True)


def count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10,000")
    return int(text)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python tools/study.py", description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default=os.environ.get("NAME", ""), help=f"one of: {', '.join(STUDIES)}")
    parser.add_argument("--jobs", type=count, default=2, help="runs side by side, of one thread each (default: 2)")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:N, mps, or auto")
    parser.add_argument("--corpus", help="a text file instead of tiny Shakespeare")
    parser.add_argument("--out", type=Path, default=experiments.MEASURED, help="folder for the finished table")
    parser.add_argument(
        "--growing", type=Path, default=GROWING, help="folder for what is done (default: build/studies)"
    )
    parser.add_argument("--verdicts", action="store_true", help="print what the finished rows show, and train nothing")
    options = parser.parse_args(arguments)
    if options.name not in STUDIES:
        raise ConfigError(f"NAME={options.name} is no study: choose one of {', '.join(STUDIES)}")
    study, path = STUDIES[options.name], options.growing / f"{options.name}.csv"
    if not options.verdicts:
        lines = make(options.name, path, options)
    elif tables := [table for table in (path, options.out / path.name) if table.exists()]:
        lines = experiments.read_table(tables[0])[1]
    else:
        raise RunError(f"there are no runs of this study yet, neither in {path} nor in {options.out}")
    print(maker(options.name).report(study, lines))


def make(name: str, path: Path, options: argparse.Namespace) -> list[dict]:
    """Make the runs that are missing at `path`, and move the table to `options.out` when it is whole."""
    corpus = corpus.load_corpus(options.corpus)
    if corpus.name != corpus.TINY and options.out.resolve() == experiments.MEASURED.resolve():
        raise ConfigError("the stored tables are of tiny Shakespeare: name another folder by --out")
    try:
        for folder in (options.out, path.parent):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't make the folder {error.filename}: {error.strerror}") from None
    comments = [made_by(name), *identity(name, corpus, options.device)]
    try:
        lock = filelock.FileLock(path.with_suffix(".lock"), blocking=False).acquire()
    except filelock.Timeout:
        raise RunError(f"another `make study` is writing {path}: wait for it, or stop it") from None
    with lock:
        lines = read(path, comments)
        print(corpus, *comments, sep="\n", flush=True)
        train_all(name, lines, path, comments, options)
        files.write(options.out / path.name, experiments.table(lines, comments))
        path.unlink()
    return lines


if __name__ == "__main__":
    sys.exit(command(main))
