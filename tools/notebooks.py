"""Run the notebooks: `run` with papermill into build/, `store` in place, with outputs that git can compare.

`ledger` says where each number of the sources stands, after running what has changed. `fresh` brings back the notebooks
as they were committed. Make hands over NB (one notebook) and P (its parameters) in the environment.
"""

import early  # noqa: F401

# isort: split
import argparse
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import nbformat
import parameters
import warm
from nbformat import NotebookNode

from helpers import ledger
from helpers.errors import ConfigError, HelpersError, command, say
from helpers.support.files import write
from helpers.tables import table
from tools import site, tables
from tools.lessons import lessons
from tools.site.pages import Run

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS, BUILD = ROOT / "notebooks", ROOT / "build"
# As JupyterLab writes it with the kernel that the Makefile installs: then opening a notebook changes nothing.
KERNEL = {"display_name": "Python 3 (dot products to nanoGPT)", "language": "python", "name": "python3"}
SHORT = ("01", "02")  # they run last, so that all workers end together
RUNNING: set[subprocess.Popen] = set()  # the papermills at work
STOPPING = threading.Event()  # somebody has stopped the run: nothing is started any more, and nothing written
# Papermill in a process of its own. Values come as JSON on stdin: neither a shell nor papermill's YAML reads them.
PAPERMILL = """
import json, logging, sys
sys.modules["rfc3987_syntax"] = None  # a second or two of nbformat's import, to check addresses that we lack
import papermill
sys.path.append(sys.argv.pop(1))
import warm
warm.use()
logging.basicConfig(level=logging.INFO, format="%(message)s")
source, target = (path.replace("{", "{{").replace("}", "}}") for path in sys.argv[1:])  # papermill formats its paths
values = json.load(sys.stdin)
for tries in range(3):
    try:
        papermill.execute_notebook(source, target, values, kernel_name="python3", progress_bar=False, log_output=True,
                                   coalesce_streams=True)
        break
    except RuntimeError as problem:  # before any cell: another kernel, started at the same moment, has taken its port
        if tries == 2 or not any(part in str(problem) for part in ("before replying", "didn't respond")):
            raise
"""


def find_notebooks(only: str | None = None) -> list[Path]:
    paths = lessons(NOTEBOOKS)
    if not only:
        return paths
    chosen = [path for path in paths if only in (path.stem, path.name, path.stem[:2])]
    if not chosen:
        raise ConfigError(
            f"no notebook {parameters.clip(only)}: choose one of {', '.join(path.stem for path in paths)}"
        )
    return chosen


def read_run(name: str | Path) -> NotebookNode | None:
    """The last run of a notebook, from build/ or at a path; None when there is none, or not a readable one."""
    try:
        return nbformat.read(BUILD / "notebooks" / f"{name}.ipynb" if isinstance(name, str) else name, as_version=4)
    except Exception:  # nbformat raises whatever JSON, its schema and the file system raise
        return None


# ---------------------------------------------------------------- run
def run(only: str | None, text: str, jobs: int = 1) -> int:
    """Papermill each notebook on a fresh kernel, `jobs` at a time, build their pages, and say at the end which failed;
    1 when one did. 08 starts first, and 09 after it, whose model it writes with; short ones end the queue."""
    paths, values = find_notebooks(only), {}
    if text.strip():
        if not only:
            raise ConfigError('parameters need a notebook: make run NB=08_nanogpt_shakespeare P="-p preset smoke"')
        values = parameters.read(text, nbformat.read(paths[0], as_version=4), paths[0].stem)
    trained = [path for path in paths if path.stem[:2] in ("08", "09")]
    others = sorted((path for path in paths if path not in trained), key=lambda path: path.stem[:2] in SHORT)
    queues = [trained, *([path] for path in others)]
    errors = {}
    STOPPING.clear()
    if len(paths) > 1:
        warm.start()

    def run_in_turn(queue: list[Path]) -> None:
        for path in queue:
            if STOPPING.is_set():
                return
            start = time.perf_counter()
            say(f"{path.stem}: started")
            errors[path.stem] = execute(path, values)
            if STOPPING.is_set():  # there is nothing to say about it
                return
            how = f"FAILED: {errors[path.stem]}" if errors[path.stem] else "ok"
            say(f"{path.stem}: {how}, {time.perf_counter() - start:.0f} s ({len(errors)} of {len(paths)})")

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for done in as_completed([pool.submit(run_in_turn, queue) for queue in queues]):
                done.result()
        except BaseException:  # somebody stops us
            STOPPING.set()
            for process in list(RUNNING):
                warm.kill(process)
            raise
    failed = [path.stem for path in paths if errors[path.stem]]
    say(f"\n{len(paths) - len(failed)} passed, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    no_pages = write_pages()
    say(no_pages or f"to read them: {(BUILD / 'html' / 'index.html').relative_to(ROOT)}")
    for notebook in [read_run(path.stem) for path in paths if not errors[path.stem]]:
        if notebook and (result := tables.printed(notebook, "result")):
            say(f"\n{result.rstrip()}")
    if failed:  # once more, where one looks first
        say("\n" + "\n".join(f"{name} FAILED: {errors[name]}" for name in failed))
    return 1 if failed or no_pages else 0


def execute(path: Path, values: dict[str, object]) -> str:
    """One notebook through papermill into build/notebooks; its training steps show as they come.

    Returns why the run failed, or an empty text. The last run's files stay until this one is over.
    """
    folder = make_folder("notebooks")
    target, log = folder / path.name, folder / f"{path.stem}.log"
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch) / path.name
        status, lines = papermill(path, draft, values)
        content = draft.read_bytes() if draft.exists() else None
    if STOPPING.is_set():
        return "stopped"
    try:
        write(log, lines)
        if content is None:
            target.unlink(missing_ok=True)
        else:
            write(target, content)
    except HelpersError as problem:
        return str(problem)
    notebook = read_run(path.stem)
    if notebook is None:
        return f"papermill stopped with status {status}, see {log.relative_to(ROOT)}"
    stopped = f"papermill stopped with status {status}, see {log.relative_to(ROOT)}" if status else ""
    return tables.why_incomplete(notebook) or stopped


def papermill(path: Path, target: Path, values: dict[str, object]) -> tuple[int, str]:
    """Papermill's exit status and everything that it and the notebook printed."""
    lines = []
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", PAPERMILL, str(Path(__file__).parent), str(path), str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        bufsize=1,
    )
    RUNNING.add(process)
    if STOPPING.is_set():
        warm.kill(process)
    with process:
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(values))
            process.stdin.close()
            for line in process.stdout:
                lines.append(line)
                if re.match(r"step +\d+  train |the run in |a new run, ", line):  # as training and runs write it
                    say(f"{path.stem}: {line}", end="")
        except BaseException:  # somebody stops us
            warm.kill(process)
            raise
        finally:
            RUNNING.discard(process)
    return process.returncode, "".join(lines)


def make_folder(name: str) -> Path:
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def last_run(name: str) -> Run:
    """What build/ knows of a notebook."""
    notebook = read_run(name)
    if notebook is None:
        return Run(None, "not run yet")
    facts, status = notebook.metadata.get("papermill", {}), tables.why_incomplete(notebook) or "ok"
    when = (facts.get("start_time") or "")[:16].replace("T", " ")
    return Run(notebook, status, when, facts.get("duration"), tables.printed(notebook, "result"))


def write_pages() -> str:
    """All pages anew in build/html, each notebook's from its last run; why that failed, or an empty text."""
    try:
        site.build(ROOT, BUILD / "html", {path.stem: last_run(path.stem) for path in find_notebooks()})
    except HelpersError as problem:
        return str(problem)
    return ""


# ---------------------------------------------------------------- store
def store(only: str | None) -> None:
    """Run notebooks in place on a fresh kernel; keep no time stamps, which differ by themselves.

    A notebook that fails stays as it was, and those after it too.
    """
    STOPPING.clear()
    for path in find_notebooks(only):
        notebook, start = nbformat.read(path, as_version=4), time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch:
            status, _ = papermill(path, Path(scratch) / path.name, {})
            done = read_run(Path(scratch) / path.name)
        problem = tables.why_incomplete(done) if done else f"papermill stopped with status {status}"
        if problem or done is None:
            raise HelpersError(f"{path.stem} is not stored: {problem}")
        for cell, ran in zip(notebook.cells, done.cells, strict=True):
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
        notebook.metadata = {"kernelspec": KERNEL, "language_info": done.metadata.language_info}
        nbformat.validate(notebook)
        write(path, nbformat.writes(notebook) + "\n")
        for name, picture in readme_pictures(notebook).items():
            write(ROOT / "docs" / f"{name}.png", picture)
        say(f"{path.stem}: stored after {time.perf_counter() - start:.0f} s")
        (NOTEBOOKS / "measured").mkdir(exist_ok=True)
        write(NOTEBOOKS / "measured" / "scoreboard.csv", tables.scoreboard_table(NOTEBOOKS))  # the next one shows it
    write(NOTEBOOKS / "ledger.md", tables.ledger_page(NOTEBOOKS))
    write(NOTEBOOKS / "errata.md", tables.errata_page(NOTEBOOKS))
    claims = ROOT / "docs" / "claims.md"
    write(claims, tables.with_claims(claims.read_text(encoding="utf-8"), NOTEBOOKS))


def readme_pictures(notebook: NotebookNode) -> dict[str, bytes]:
    """What the README shows: pictures of the cells tagged readme-NAME, by name."""
    return {
        tag.removeprefix("readme-"): base64.b64decode(out.data["image/png"])
        for cell in notebook.cells
        for tag in cell.metadata.get("tags", [])
        for out in cell.get("outputs", [])
        if tag.startswith("readme-") and "image/png" in out.get("data", {})
    }


# ---------------------------------------------------------------- ledger
def show_ledger() -> int:
    """Run the notebooks that have changed since their last run, print where each row stands; 1 when one is missing."""
    stages = {row["notebook"] for row in ledger.rows()}
    found, failed, ran = {}, [], False
    for path in [path for path in find_notebooks() if path.stem in stages]:
        if is_outdated(path):
            say(f"running {path.stem}")
            error = execute(path, {})
            failed += [f"{path.stem}: {error}"] if error else []
            ran = True
        if notebook := read_run(path.stem):
            found[path.stem] = notebook
    if ran:
        write_pages()  # what can't be shown can still be listed
    lines = tables.ledger_lines(found)
    say(table(("source", "row", "notebook", "status"), lines))
    done, skipped, bad = (sum(line[3].startswith(words) for line in lines)
                          for words in ("reproduced", "skipped", ("MISSING", "FAILED")))  # fmt: skip
    say(f"\n{done} of {len(lines)} rows reproduced, {skipped} skipped, {bad} missing or failed")
    for failure in failed:
        say(f"FAILED: {failure}")
    return 1 if bad or failed else 0


def is_outdated(path: Path) -> bool:
    """Is there no whole run in build/ since the notebook or helpers/ changed, or had it other settings, or skips?"""
    last = read_run(path.stem)
    if last is None or tables.why_incomplete(last) or "skipped: " in tables.printed(last):
        return True
    sources = [path, *(file for file in ledger.LEDGER.parents[1].rglob("*") if file.suffix in (".py", ".toml", ".txt"))]
    changed = max(file.stat().st_mtime for file in sources)
    other_settings = any("injected-parameters" in cell.metadata.get("tags", []) for cell in last.cells)
    return other_settings or (BUILD / "notebooks" / path.name).stat().st_mtime < changed


# ---------------------------------------------------------------- fresh
def fresh() -> None:
    """Bring back the notebooks as they were committed; copies of the changed ones go to build/kept/ first."""
    if git("rev-parse", "--show-cdup", or_say="this folder is no clone of a git repository").strip():
        raise HelpersError("this folder is no clone of a git repository: it only lies in one")
    listed = git("diff", "--name-only", "-z", "HEAD", "--", ":(glob)notebooks/*.ipynb", or_say="git can't compare")
    names = [name for name in listed.split("\0") if name]
    if not names:
        say("the notebooks are as they were committed: nothing to do")
        return
    kept = new_folder(BUILD / "kept")
    for name in names:
        path = ROOT / name
        if path.is_file():
            write(kept / path.name, path.read_bytes())
    git("checkout", "HEAD", "--", *names, or_say="git can't bring back the notebooks")
    for name in names:
        copy = kept / Path(name).name
        say(f"{Path(name).stem}: as committed" + (f", yours is in {copy.relative_to(ROOT)}" if copy.exists() else ""))


def git(*words: str, or_say: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    except FileNotFoundError:
        raise HelpersError("git is needed and was not found") from None
    if done.returncode:
        raise HelpersError(f"{or_say} ({done.stderr.strip().splitlines()[0] if done.stderr.strip() else 'git failed'})")
    return done.stdout


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["run", "store", "ledger", "fresh"])
    parser.add_argument("--only", default=os.environ.get("NB"), help="one notebook, by its name (default: $NB)")
    parser.add_argument("--parameters", default=os.environ.get("P", ""), help=f"{parameters.USAGE} (default: $P)")
    parser.add_argument("--jobs", type=int, default=1, help="how many notebooks `run` runs at a time (default: 1)")
    options = parser.parse_args(arguments)
    if options.action == "run":
        sys.exit(run(options.only, options.parameters, max(1, options.jobs)))
    if options.action == "ledger":
        sys.exit(show_ledger())
    if options.action == "store":
        store(options.only)
    else:
        fresh()


if __name__ == "__main__":
    sys.exit(command(main))
