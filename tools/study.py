"""Make the runs of a study and store their table (`python -m tools.study parts`).

The table grows in build/studies/, a line for every run that ends. After a Ctrl-C, a kill or a power cut the same
command makes only the runs that are missing; when all are there, the table moves to notebooks/measured/.
"""

import argparse
import platform
import sys
from functools import partial
from pathlib import Path
from typing import Any

import filelock
import torch

from helpers.core.data import CharTokenizer
from helpers.museum.curves import Museum
from helpers.studies import parts
from helpers.studies.counts import Counts
from helpers.studies.ladder import Ladder
from helpers.studies.study import Study
from helpers.studies.tables import MEASURED, Line, read_table, table
from helpers.studies.texts import Texts
from helpers.support import files
from helpers.support.console import command
from helpers.support.errors import ConfigError, RunError, StorageError
from helpers.world.corpus import TINY, Corpus, load_corpus
from tools import provenance, side_by_side
from tools.surroundings import jobs

STUDIES: dict[str, Study] = {
    **parts.STUDIES,
    "ladder": Ladder(),
    "counts": Counts(),
    "texts": Texts(),
    "museum": Museum(),
}
GROWING = provenance.ROOT / "build" / "studies"


def identity(study: Study, corpus: Corpus, device: str) -> list[str]:
    """The comment lines of a table that name all that decides what a run gives."""
    settings = provenance.written([study, study.variants, study.sizes])
    kind = type(study)
    code = provenance.sources(CharTokenizer, kind.plan, kind.measure, study.variants)
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return [
        f"{versions}, {platform.system()} {platform.machine()}, 1 thread a run, {device}",
        f"corpus: {corpus.name}, SHA-256 {corpus.sha256}",
        f"budget: {study.budget()}",
        f"settings: SHA-256 {provenance.digest([settings])}",
        f"code: SHA-256 {provenance.digest(code)}",
    ]


def measure(name: str, path: str | None, device: str, ours: list[str], run: Any) -> Line:
    """One run, on one thread, of the study `name` on the text at `path`; ConfigError unless its identity is `ours`."""
    torch.set_num_threads(1)
    study = STUDIES[name]
    corpus = load_corpus(path)
    if identity(study, corpus, device) != ours:
        raise ConfigError("the text or the code has changed since the command was started: start it again")
    tokenizer = CharTokenizer(corpus.alphabet)
    return study.measure(run, tokenizer.encode(corpus.text), tokenizer.vocab_size, device)


def make(name: str, path: Path, options: argparse.Namespace) -> list[Line]:
    """Make the runs that are missing at `path`, and move the table to `options.out` when it is whole."""
    corpus = load_corpus(options.corpus)
    if corpus.name != TINY and options.out.resolve() == MEASURED.resolve():
        raise ConfigError("the stored tables are of tiny Shakespeare: name another folder by --out")
    try:
        for folder in (options.out, path.parent):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't make the folder {error.filename}: {error.strerror}") from None
    study = STUDIES[name]
    ours = identity(study, corpus, options.device)
    comments = [provenance.made_by(f"python -m tools.study {name}"), *ours]
    try:
        lock = filelock.FileLock(path.with_suffix(".lock"), blocking=False).acquire()
    except filelock.Timeout:
        raise RunError(f"another study is writing {path}: wait for it, or stop it") from None
    with lock:
        lines = provenance.read_growing(path, comments)
        print(corpus, *comments, sep="\n", flush=True)
        one_run = partial(measure, name, options.corpus, options.device, ours)
        side_by_side.grow(study, lines, path, comments, one_run, options.jobs)
        files.write(options.out / path.name, table(lines, comments))
        path.unlink()
    return lines


def count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10,000")
    return int(text)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.study", description=__doc__.splitlines()[0])
    parser.add_argument("name", help=f"one of: {', '.join(STUDIES)}")
    parser.add_argument(
        "--jobs", type=count, default=jobs(), help="runs side by side, of one thread each (default: JOBS)"
    )
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:N, mps, or auto")
    parser.add_argument("--corpus", help="a text file instead of tiny Shakespeare")
    parser.add_argument("--out", type=Path, default=MEASURED, help="folder for the finished table")
    parser.add_argument(
        "--growing", type=Path, default=GROWING, help="folder for what is done (default: build/studies)"
    )
    parser.add_argument("--verdicts", action="store_true", help="print what the finished rows show, and train nothing")
    options = parser.parse_args(arguments)
    if options.name not in STUDIES:
        raise ConfigError(f"{options.name!r} is no study: choose one of {', '.join(STUDIES)}")
    path = options.growing / f"{options.name}.csv"
    if not options.verdicts:
        lines = make(options.name, path, options)
    elif tables := [table for table in (path, options.out / path.name) if table.exists()]:
        _, lines = read_table(tables[0])
    else:
        raise RunError(f"there are no runs of this study yet, neither in {path} nor in {options.out}")
    print(STUDIES[options.name].report(lines))


if __name__ == "__main__":
    sys.exit(command(main))
