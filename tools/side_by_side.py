"""Make the runs of a study side by side, each in a process of its own, and let its table grow.

After each run the table is written anew. After a Ctrl-C, a kill or a power cut, the runs that had ended are kept.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from tqdm import tqdm

from helpers import errors
from helpers.errors import HelpersError, RunError, Stopped, stop_requests
from helpers.tables import Line, csv_table

# Importing torch, and what its optimizers import at their first step, takes seconds. Linux forks every run from one
# process that has done it and nothing else; elsewhere torch does not survive a fork for certain.
PROCESSES = get_context("forkserver" if sys.platform == "linux" else "spawn")
PROCESSES.set_forkserver_preload(["helpers.studies.parts", "torch._dynamo"])

Run = Any  # a named tuple of the study
Measure = Callable[[Run], Line]


class Study(Protocol):
    """What is asked of a study here (see helpers/studies/study.py)."""

    def plan(self, lines: list[Line]) -> list[Run]: ...

    def missing(self, lines: list[Line]) -> list[Run]: ...


class Running:
    """A run that is being made in a process of its own."""

    def __init__(self, run: Run, measure: Measure):
        self.run = run
        self.result, sender = PROCESSES.Pipe(duplex=False)
        self.process: BaseProcess = PROCESSES.Process(target=_make, args=(measure, run, sender), daemon=True)
        self.process.start()

    def line(self) -> Line | None:
        """The run's line of the table, once its process has ended; None when the run has failed."""
        self.process.join()
        status = self.process.exitcode or 0
        if status == 0 and self.result.poll():
            return self.result.recv()
        if status < 0:  # it had no time to say anything
            print(f"error: {self.run}: ended by {signal.Signals(-status).name}", file=sys.stderr)
        return None


def grow(study: Study, lines: list[Line], path: Path, comments: list[str], measure: Measure, jobs: int) -> None:
    """Add every run of the study that is not among the `lines`, `jobs` at a time.

    `measure(run)` gives a run's line, in a process of its own. RunError at the end when runs have failed. Stopped
    says how much is kept; the runs in progress are lost.
    """
    total = len(study.plan(lines))
    print(f"{len(lines)} of {total} runs are done already, {total - len(lines)} to go", flush=True)
    # A terminal gets a bar with the time left, a file gets a line for each run.
    bar = tqdm(total=total, initial=len(lines), unit="run", disable=None, smoothing=0.02, leave=False)
    running: dict[Any, Running] = {}  # by what the operating system signals when the process ends
    failed: list[Run] = []
    try:
        while True:
            busy = [started.run for started in running.values()]
            waiting = [run for run in study.missing(lines) if run not in busy and run not in failed]
            for run in waiting[: jobs - len(running)]:
                with _signals_held():
                    started = Running(run, measure)
                    running[started.process.sentinel] = started
            if not running:
                break
            # Not for longer than a second: a signal that another thread takes doesn't wake this one.
            for sentinel in connection.wait(list(running), timeout=1):
                ended = running.pop(sentinel)
                line = ended.line()
                if line is None:
                    failed.append(ended.run)
                    continue
                lines.append(line)
                errors.write(path, csv_table(lines, comments))
                _show(bar, len(study.plan(lines)), lines, ended.run)
    except KeyboardInterrupt as stopped:
        message = f"{len(lines)} runs are kept in {path}; the same command goes on from there"
        raise Stopped(getattr(stopped, "number", signal.SIGINT), message) from None
    finally:
        bar.close()
        for started in running.values():
            started.process.kill()
        for started in running.values():
            started.process.join()
    if failed:
        raise RunError(
            f"{len(failed)} runs failed ({'; '.join(map(str, failed))}): the table is not whole. "
            f"The others are kept in {path}; the same command tries these again"
        )


def _show(bar: tqdm, total: int, lines: list[Line], run: Run) -> None:
    bar.total = total  # it grows where the best rate lies at an end
    bar.set_postfix_str(run.variant, refresh=False)
    bar.update()
    if bar.disable:
        print(f"{len(lines):4} of {total}  {run}: {lines[-1]['loss']:.3f}", flush=True)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Ctrl-C and its kin wait until the end. A process started inside never sees them: its parent ends it instead.

    The mask alone is not enough: another thread (tqdm has one) may take the signal, and Python hands it to this one.
    """
    with stop_requests() as noted, _masked():
        yield
    if noted:
        raise Stopped(noted[0])


@contextmanager
def _masked() -> Iterator[None]:
    """Signals are blocked in this thread, and in the processes that it starts."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # or starting the first process would start it, and that lets Ctrl-C through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---------------------------------------------------------------- in the process of a run
def _make(measure: Measure, run: Run, result: connection.Connection) -> None:
    """Send the run's line. What goes wrong is said in a sentence, and the other runs go on."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    try:
        result.send(measure(run))
    except Exception as error:
        kind = "" if isinstance(error, HelpersError) else f"{type(error).__name__}: "
        sys.exit(f"error: {run}: {kind}{' '.join(str(error).split())}")


def _end_with_the_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
