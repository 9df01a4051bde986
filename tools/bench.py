"""Measure this code against its rivals, side by side (`python -m tools.bench`, with a group's name, or --quick).

Each line is a ratio of medians: ours and the rival take turns, so that what else the machine does hits both. The table
grows in build/bench/, line by line; after a Ctrl-C or a kill the same command makes the lines that are missing. When
all are there, it moves to notebooks/measured/. --quick takes smaller sizes, starts anew and stores nothing there.
"""

import argparse
import os
import platform
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import torch

from helpers.studies.tables import MEASURED, table
from helpers.support import console, files
from helpers.support.errors import ConfigError, StorageError
from helpers.world.corpus import TINY, Corpus, load_corpus
from tools import bench_lines, provenance
from tools.bench_lines import Line, all_lines

GROWING = provenance.ROOT / "build" / "bench"


# ---------------------------------------------------------------- the table
def about(corpus: Corpus, quick: bool) -> list[str]:
    """The comment lines of a table: how it was made; and all that its numbers depend on."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux; elsewhere Python knows the name
    models = [line for line in cpuinfo.read_text().splitlines() if "model name" in line] if cpuinfo.exists() else []
    model = models[0].split(":")[1].strip() if models else platform.processor()
    memory = f"{psutil.virtual_memory().total / 1e9:.0f} GB"
    code = provenance.sources(bench_lines.all_lines, packages=["helpers", "bench_lines", "bench_rivals"])
    return [
        provenance.made_by(f"python -m tools.bench{' --quick' * quick}"),
        f"machine: {model}, {os.cpu_count()} logical cores, {memory}, {platform.system()} {platform.machine()}",
        f"{torch.get_num_threads()} threads, Python {platform.python_version()}, torch {torch.__version__}",
        f"corpus: {corpus.name}, SHA-256 {corpus.sha256}",
        f"code: SHA-256 {provenance.digest(code)}",
    ]


def report(rows: Sequence[dict]) -> str:
    """The table as text: below 1, ours takes less. An exponent is no ratio. "CPU": the ratio of processor times."""

    def spread(row: dict) -> str:
        return "" if row["ratio"] == "" else f"{row['low']:.3g} to {row['high']:.3g}"

    names = ("ours", "theirs", "unit", "ratio")
    shown = [[*(str(row[n]) for n in names), spread(row), str(row["cpu_ratio"]), remark(row)] for row in rows]
    return console.table(["ours", "against", "of", "ratio", "range", "CPU", ""], shown)


def named(row: dict) -> tuple[str, str, str]:
    return row["group"], row["ours"], row["theirs"]


def remark(row: dict) -> str:
    if row["aim"] == "" or row["ratio"] == "":
        return row["note"]
    return f"aim {row['aim']}: {'met' if row['ratio'] <= row['aim'] else 'missed'}"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="", help="a group of lines (default: all)")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under a minute")
    parser.add_argument("--corpus", help="a text file instead of tiny Shakespeare")
    parser.add_argument("--out", type=Path, default=MEASURED, help="folder for the finished table")
    parser.add_argument("--growing", type=Path, default=GROWING, help="folder for what is done (default: build/bench)")
    options = parser.parse_args(arguments)
    corpus = load_corpus(options.corpus)
    lines = all_lines(options.quick, corpus)
    groups = list(dict.fromkeys(line.group for line in lines))
    if options.name not in ("", *groups):
        raise ConfigError(f"{options.name!r} is no group of the benchmark: choose one of {', '.join(groups)}")
    if corpus.name != TINY and options.out.resolve() == MEASURED.resolve():
        raise ConfigError("the stored table is of tiny Shakespeare: name another folder by --out")
    try:
        for folder in (options.out, options.growing):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't make the folder {error.filename}: {error.strerror}") from None
    path = options.growing / ("quick.csv" if options.quick else "bench.csv")
    comments = about(corpus, options.quick)
    print(*comments, sep="\n", flush=True)
    rows = measure([line for line in lines if options.name in ("", line.group)], path, comments, anew=options.quick)
    print(report([row for row in rows if options.name in ("", row["group"])]))
    if len(rows) == len(lines) and not options.quick:
        places = [line.name for line in lines]  # groups may have been measured in another order
        rows.sort(key=lambda row: places.index(named(row)))
        files.write(options.out / path.name, table(rows, comments))
        path.unlink()


def measure(lines: Sequence[Line], path: Path, comments: list[str], anew: bool) -> list[dict]:
    """Add the `lines` that the table at `path` lacks, one by one, and return all of its rows.

    RunError when the table there is of another state of the code or the machine; `anew` begins without it.
    """
    rows = [] if anew else provenance.read_growing(path, comments)
    done = set(map(named, rows))
    for line in lines:
        if line.name in done:
            continue
        try:
            rows.append(line.row())
        except KeyboardInterrupt as stopped:
            kept = "" if anew else f"what is measured is kept in {path}; the same command goes on from there"
            raise console.Stopped(getattr(stopped, "number", signal.SIGINT), kept) from None
        files.write(path, table(rows, comments))
        print(f"{line.group}: {line.ours} / {line.theirs}: {rows[-1]['ratio']} {remark(rows[-1])}", flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(console.command(main))
