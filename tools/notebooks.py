"""Run the notebooks: `python -m tools.notebooks run 08 -p preset smoke`, from the root of the
project.

`run` executes notebooks with papermill into build/notebooks, several at a time. `store` executes
them in place and keeps outputs that git can compare. `fresh` brings notebooks back as they were
committed and keeps the reader's copies in mine/kept.
"""

import argparse
import ast
import importlib.util
import multiprocessing
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import nbformat
import papermill
from nbformat import NotebookNode

from helpers import ROOT
from helpers.commands import command, say
from helpers.course import NOTEBOOKS, course
from helpers.errors import ConfigError, HelpersError
from helpers.files import write
from tools import ledger, lessons, surroundings

BUILD, MINE = ROOT / "build", ROOT / "mine"
# As JupyterLab writes it with the kernel that tools/setup.py installs: then opening a notebook
# changes nothing.
KERNEL = {
    "display_name": "Python 3 (dot products to nanoGPT)",
    "language": "python",
    "name": "python3",
}
# Lines of a training, shown as they come.
PROGRESS = re.compile(r"step +\d+  train |the run in |a new run, ")


# ---------------------------------------------------------------- which
def chosen(names: list[str]) -> list[Path]:
    """The notebooks that these names mean; without names all, and others beside them are named."""
    if not names:
        lessons.name_others(NOTEBOOKS)
    paths = [lessons.named(name, NOTEBOOKS) for name in names]
    return list(dict.fromkeys(paths)) or lessons.everyone(NOTEBOOKS)


def read_run(path: Path) -> NotebookNode | None:
    """An executed notebook; None when there is none at the path, or not a readable one."""
    try:
        return nbformat.read(path, as_version=4)
    except Exception:  # nbformat raises whatever JSON, its schema and the file system raise
        return None


def run_of(path: Path) -> Path:
    """Where the last run of a notebook lies."""
    return BUILD / "notebooks" / path.relative_to(NOTEBOOKS)


# ---------------------------------------------------------------- one notebook
class Progress:
    """Shows a training's lines while a notebook runs; papermill writes all prints into it."""

    def __init__(self, name: str):
        self.name = name

    def write(self, text: str) -> None:
        for line in text.splitlines():
            if PROGRESS.match(line):
                say(f"{self.name}: {line}")

    def flush(self) -> None:
        pass


def execute(path: Path, target: Path, values: dict[str, object] | None = None) -> str:
    """One notebook through papermill to `target`; why it failed, or an empty text.

    What lay at `target` stays until the run is over.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".run-", dir=target.parent) as scratch:
            draft = Path(scratch) / path.name
            problem = run_papermill(path, draft, values or {})
            if notebook := read_run(draft):
                draft.replace(target)
    except OSError as error:
        return f"can't write {target}: {error.strerror or error}"
    return problem or (ledger.why_incomplete(notebook) if notebook else "papermill has written nothing")


def run_papermill(path: Path, target: Path, values: dict[str, object]) -> str:
    # papermill takes braces in a path for a template.
    source, out = (str(file).replace("{", "{{").replace("}", "}}") for file in (path, target))
    for attempt in range(3):
        try:
            papermill.execute_notebook(
                source,
                out,
                values,
                kernel_name="python3",
                progress_bar=False,
                stdout_file=Progress(path.stem),
                extra_arguments=["--log-level=CRITICAL"],  # ending a kernel is no error
                coalesce_streams=True,
            )
        except papermill.PapermillExecutionError as error:
            return f"{error.ename}: {error.evalue}"
        except RuntimeError as error:
            # Before any cell, another kernel that was started at the same moment may have taken its
            # port.
            if attempt == 2 or not re.search("before replying|didn't respond", str(error)):
                return f"{type(error).__name__}: {error}"
        except Exception as error:  # of papermill, nbclient, Jupyter: it costs this notebook only
            return f"{type(error).__name__}: {error}"
        else:
            break
    return ""


# ---------------------------------------------------------------- settings
def settings(path: Path, pairs: list[list[str]]) -> dict[str, object]:
    """The values that -p NAME VALUE gives to a notebook's parameters; the last one counts.

    ConfigError for a name that the notebook lacks, and for a value of another type than its own,
    unless that is None.
    """
    parameters = papermill.inspect_notebook(str(path).replace("{", "{{").replace("}", "}}"))
    values = {}
    for name, text in pairs:
        if name not in parameters:
            raise ConfigError(f"{path.stem} has no parameter {name!r}: it has {', '.join(parameters) or 'none'}")
        default, value = literal(parameters[name]["default"]), literal(text)
        if isinstance(default, str):
            value = text
        elif isinstance(default, float) and type(value) is int:
            value = float(value)
        elif default is not None and type(value) is not type(default):
            raise ConfigError(f"{name} takes a value such as {default!r}, not {text!r}")
        values[name] = value
    return values


def literal(text: str) -> object:
    """What a word means to Python, or the word itself: 3, None, [1, 2], smoke."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


# ---------------------------------------------------------------- run
def run(names: list[str], parameters: list[list[str]] | None = None, jobs: int = 1) -> int:
    """Execute notebooks, `jobs` at a time; then say which failed, why, and what each has to tell.

    Returns 1 if one failed.
    """
    paths = chosen(names)
    if parameters and len(names) != 1:
        raise ConfigError('parameters need a notebook: make run NB=08 P="-p preset smoke"')
    values = settings(paths[0], parameters) if parameters else {}
    errors = side_by_side(paths, values, jobs)
    failed = [path.stem for path in paths if errors[path]]
    say(f"\n{len(paths) - len(failed)} passed, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    no_pages = write_pages()
    for path in paths:
        if not errors[path]:
            say_result(path)
    if failed:  # once more, where one looks first
        say("\n" + "\n".join(f"{path.stem} FAILED: {errors[path]}" for path in paths if errors[path]))
    return 1 if failed or no_pages else 0


def side_by_side(paths: list[Path], values: dict[str, object], jobs: int) -> dict[Path, str]:
    """Why each notebook failed, or an empty text. 08 starts first; 09, after it, uses its model."""
    trained = [path for path in paths if path.stem[:2] in ("08", "09")]
    long = course(NOTEBOOKS)["long"]
    others = sorted(
        (path for path in paths if path not in trained),
        key=lambda path: long.index(path.stem) if path.stem in long else len(long),
    )
    queues, errors = [trained, *([path] for path in others)], {}
    fresh_processes = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, fresh_processes, ignore_ctrl_c) as pool:
        try:
            waiting = {
                pool.submit(run_in_turn, [(path, run_of(path)) for path in queue], values): queue
                for queue in queues
                if queue
            }
            for future in as_completed(waiting):
                try:
                    errors |= future.result()
                except BrokenProcessPool:
                    errors |= dict.fromkeys(waiting[future], "the process that ran it has died")
        except BaseException:
            # Somebody stops us. A kernel ends when the process that has started it is gone.
            for process in multiprocessing.active_children():
                process.kill()
            raise
    return errors


def ignore_ctrl_c() -> None:
    """Leave Ctrl-C to the main process, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_in_turn(work: list[tuple[Path, Path]], values: dict[str, object]) -> dict[Path, str]:
    """Notebooks, each with where its run goes, one after the other."""
    errors = {}
    for path, target in work:
        say(f"{path.stem}: started")
        start = time.perf_counter()
        errors[path] = execute(path, target, values)
        verdict = f"FAILED: {errors[path]}" if errors[path] else "ok"
        say(f"{path.stem}: {verdict}, {time.perf_counter() - start:.0f} s")
    return errors


def say_result(path: Path) -> None:
    """What the cells tagged "result" have printed: of 08, what the GPT writes."""
    notebook = read_run(run_of(path))
    if notebook and (result := ledger.printed(notebook, "result")):
        say(f"\n{result.rstrip()}")


def write_pages() -> str:
    """Pages of all last runs in build/html, if Sphinx is there; why that failed, or ""."""
    if not importlib.util.find_spec("sphinx"):
        say("to read them: build/notebooks, in JupyterLab; for pages of them: make site, then make run")
        return ""
    from tools import site

    try:
        runs = {path.stem: last_run(path) for path in lessons.everyone(NOTEBOOKS)}
        site.build(ROOT, BUILD / "html", runs)
    except HelpersError as problem:
        say(problem)
        return str(problem)
    say("to read them: build/html/index.html")
    return ""


def last_run(path: Path):
    """What build/ knows of a notebook, as the pages take it."""
    from tools.site import pages

    notebook = read_run(run_of(path))
    if notebook is None:
        return pages.LessonRun(None, "not run yet")
    facts, status = notebook.metadata.get("papermill", {}), ledger.why_incomplete(notebook) or "ok"
    when = (facts.get("start_time") or "")[:16].replace("T", " ")
    return pages.LessonRun(notebook, status, when, facts.get("duration"), ledger.printed(notebook, "result"))


# ---------------------------------------------------------------- store
def store(names: list[str]) -> None:
    """Run notebooks in place on a fresh kernel; keep no time stamps, which differ by themselves.

    A notebook that fails stays as it was, and those after it too: HelpersError says why.
    """
    for path in chosen(names):
        notebook, start = nbformat.read(path, as_version=4), time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch:
            problem = execute(path, Path(scratch) / path.name)
            result = read_run(Path(scratch) / path.name)
        if problem or result is None:
            raise HelpersError(f"{path.stem} is not stored: {problem}")
        for cell, ran in zip(notebook.cells, result.cells, strict=True):
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
        notebook.metadata = {"kernelspec": KERNEL, "language_info": result.metadata.language_info}
        nbformat.validate(notebook)
        write(path, nbformat.writes(notebook) + "\n")
        say(f"{path.stem}: stored after {time.perf_counter() - start:.0f} s")
        (NOTEBOOKS / "measured").mkdir(exist_ok=True)
        # The next one shows it.
        write(NOTEBOOKS / "measured" / "scoreboard.csv", ledger.scoreboard_table(NOTEBOOKS))
    write(NOTEBOOKS / "ledger.md", ledger.ledger_page(NOTEBOOKS))
    page = ROOT / "README.md"
    if page.exists():
        write(page, lessons.readme(page.read_text(encoding="utf-8")))


# ---------------------------------------------------------------- fresh
def fresh() -> None:
    """Bring back the notebooks as committed; changed ones are copied to mine/kept/ first."""
    if git("rev-parse", "--show-cdup", or_say="this folder is no clone of a git repository").strip():
        raise HelpersError("this folder is no clone of a git repository: it only lies in one")
    output = git(
        "diff",
        "--name-only",
        "--no-renames",
        "--diff-filter=a",  # what was added since has no committed version
        "-z",
        "HEAD",
        "--",
        ":(glob)notebooks/**/*.ipynb",
        or_say="git can't compare",
    )
    names = [name for name in output.split("\0") if name]
    if not names:
        say("the notebooks are as they were committed: nothing to do")
        return
    folder = new_folder(MINE / "kept")
    for name in names:
        path, copy = ROOT / name, folder / Path(name).relative_to("notebooks")
        if path.is_file():
            copy.parent.mkdir(exist_ok=True)
            write(copy, path.read_bytes())
    git("checkout", "HEAD", "--", *names, or_say="git can't bring back the notebooks")
    for name in names:
        copy = folder / Path(name).relative_to("notebooks")
        say(f"{Path(name).stem}: as committed" + (f", yours is in {copy.relative_to(ROOT)}" if copy.exists() else ""))


def git(*words: str, or_say: str) -> str:
    try:
        process = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    except FileNotFoundError:
        raise HelpersError("git is needed and was not found") from None
    if process.returncode:
        why = process.stderr.strip() or "git failed"
        raise HelpersError(f"{or_say} ({why.splitlines()[0]})")
    return process.stdout


def new_folder(parent: Path) -> Path:
    """A folder that was not there before, named by date and time."""
    stamp, number = time.strftime("%Y-%m-%d-%H%M%S"), 1
    while True:
        folder = parent / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__)
    parser.add_argument("action", choices=["run", "store", "fresh"])
    parser.add_argument(
        "notebooks",
        nargs="*",
        metavar="NOTEBOOK",
        help="08, 08_nanogpt_shakespeare or a path (all)",
    )
    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), dest="parameters")
    options = parser.parse_args(arguments)
    surroundings.shut_out_others()
    jobs = surroundings.jobs()
    if options.action == "fresh":
        fresh()
    elif options.action == "store":
        surroundings.share_cores(2)
        store(options.notebooks)
    else:
        surroundings.share_cores(2 if len(options.notebooks) == 1 else jobs)
        sys.exit(run(options.notebooks, options.parameters, jobs))


if __name__ == "__main__":
    sys.exit(command(main))
