"""Make the runs of a study and store their table:  python -m tools.studies parts

The table grows in build/studies/, a line for every run that ends. After a Ctrl-C, a kill or a power
cut the same command makes only the runs that are missing; when all are there, the table moves to
notebooks/measured/. With --extend, a study that has got more runs keeps those of its stored table, and
the table says of which commit they are: it may, as long as the code of the old runs is the same.
"""

import argparse
import sys
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from helpers import ROOT
from helpers.commands import command
from helpers.data import TINY, Corpus, load_corpus
from helpers.errors import ConfigError, RunError
from helpers.files import write
from helpers.rooms import parts
from helpers.rooms.museum_curves import Museum
from helpers.rooms.study import GPTStudy, SyntheticStudy, TextStudy
from helpers.tables import MEASURED, Line, csv_table, read_table
from tools.studies import far, heads, passage, presets, rungs, times
from tools.studies.asking import Mirrors, Root
from tools.studies.claims import Claims
from tools.studies.header import header
from tools.studies.law import Law
from tools.studies.many_heads import HeadsWorth, TwoQuestions
from tools.studies.masks import Masks
from tools.studies.norms import Norms
from tools.studies.recurrent import Copying, Translating
from tools.studies.replacing import Replacing
from tools.studies.reward import Reward
from tools.studies.sampling import Sampling
from tools.studies.thin_book import ThinBook
from tools.studies.tokens import Tokens

STUDIES: dict[str, SyntheticStudy | TextStudy] = {
    **parts.STUDIES,
    "museum": Museum(),
    "claims": Claims(),
    "copying": Copying(),
    "translating": Translating(),
    "thin_book": ThinBook(),
    "mirror": Mirrors(),
    "root": Root(),
    "masks": Masks(),
    "two_questions": TwoQuestions(),
    "heads_worth": HeadsWorth(),
    "sampling": Sampling(),
    "norms": Norms(),
    "replacing": Replacing(),
    "law": Law(),
    "tokens": Tokens(),
    "reward": Reward(),
}
# Programs of their own, which keep a training, or nothing, and store their table at the end.
SCRIPTS = {
    "far": far.main,
    "heads": heads.main,
    "passage": passage.main,
    "presets": presets.main,
    "rungs": rungs.main,
    "times": times.main,
}
GROWING = ROOT / "build" / "studies"


def comments_of(name: str, corpus: Corpus, device: str) -> list[str]:
    """The comment lines of a study's table."""
    study = STUDIES[name]
    lines = header(name, "1 thread a run", device, corpus=corpus if isinstance(study, TextStudy) else None)
    return [*lines, f"budget: {study.budget()}"]


def measure(name: str, path: str | None, device: str, run: Any) -> Line:
    """One run of the study `name`, on one thread, on the text at `path`: its line of the table."""
    torch.set_num_threads(1)
    match STUDIES[name]:
        case GPTStudy() as study:
            return study.measure(run, load_corpus(path), device)
        case TextStudy() as study:
            return study.measure(run, load_corpus(path))
        case study:
            return study.measure(run)


def grow(name: str, path: Path, options: argparse.Namespace) -> list[Line]:
    """Make the missing runs at `path`; move the table to `options.out` when it is whole.

    RunError when the lines that are there were made under other circumstances.
    """
    study, corpus = STUDIES[name], load_corpus(options.corpus)
    if isinstance(study, TextStudy) and corpus.name != TINY and options.out.resolve() == MEASURED.resolve():
        raise ConfigError("the stored tables are of tiny Shakespeare: name another folder by --out")
    comments = comments_of(name, corpus, options.device)
    lines: list[Line] = []
    if options.extend:
        stored, lines = read_table(options.out / path.name)
        if not {*comments[1:-1]} <= {*stored}:  # all but the commit and the budget
            raise RunError(f"the stored table was made otherwise ({'; '.join(stored[1:])}): make it anew")
        comments += [*(x for x in stored if x.startswith("earlier lines")), f"earlier lines {stored[0]}"]
    if path.exists():
        stored, lines = read_table(path)
        if stored != comments:
            raise RunError(f"{path} has runs made otherwise ({'; '.join(stored[1:])}): move it away")
    options.out.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    bar = tqdm(total=len(study.plan(lines)), initial=len(lines), unit="run", smoothing=0.02)
    running: dict[Future[Line], Any] = {}
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        try:
            # Which runs there are may depend on those that have ended: the best rate is found as it
            # goes.
            while running or study.missing(lines):
                waiting = [run for run in study.missing(lines) if run not in running.values()]
                for run in waiting[: options.jobs - len(running)]:
                    job = pool.submit(measure, name, options.corpus, options.device, run)
                    running[job] = run
                for job in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[job]
                    lines.append(job.result())
                    write(path, csv_table(lines, comments))
                    bar.total = len(study.plan(lines))
                    bar.update()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    bar.close()
    wanted = set(study.plan(lines))  # a longer search may have left some rates behind
    lines = [line for line in lines if study.run_of(line) in wanted]
    write(options.out / path.name, csv_table(lines, comments))
    if not (options.out / path.name).samefile(path):
        path.unlink()
    return lines


def main(arguments: list[str]) -> None:
    if arguments and arguments[0] in SCRIPTS:
        SCRIPTS[arguments[0]](arguments[1:])  # it has options of its own
        return
    parser = argparse.ArgumentParser(
        prog="python -m tools.studies",
        description=__doc__.splitlines()[0],
        epilog=f"without these options: {', '.join(SCRIPTS)}",
    )
    parser.add_argument("name", choices=STUDIES, help="the study")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, of one thread each (2)")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, mps, or auto")
    parser.add_argument("--corpus", help="a text file instead of tiny Shakespeare")
    parser.add_argument("--out", type=Path, default=MEASURED, help="folder for the finished table")
    parser.add_argument("--growing", type=Path, default=GROWING, help="folder for what is done so far")
    parser.add_argument("--extend", action="store_true", help="keep the runs of the stored table")
    parser.add_argument("--verdicts", action="store_true", help="print what the finished rows show")
    options = parser.parse_args(arguments)
    path = options.growing / f"{options.name}.csv"
    if options.device != "cpu" and not isinstance(STUDIES[options.name], GPTStudy):
        raise ConfigError(f"{options.name} is trained on the CPU alone")
    if not options.verdicts:
        lines = grow(options.name, path, options)
    elif tables := [table for table in (path, options.out / path.name) if table.exists()]:
        _, lines = read_table(tables[0])
    else:
        raise RunError(f"there are no runs of this study yet, neither in {path} nor in {options.out}")
    print(STUDIES[options.name].report(lines))


if __name__ == "__main__":
    # Processes that are spawned find `measure` by the name of its module, never in __main__.
    from tools.studies import __main__ as by_name

    sys.exit(command(by_name.main))
