"""Groups of cases, each tried in a process of its own, so that a crash, a hang or a changed global harms no other case.

A group is a function `(k, random, folder) -> (name, attempt)`: the k-th case, what it is called, and what to try; all
chance comes from `random`, so that a case can be run again alone. `attempt()` returns "right", "refused" (by one
sentence) or "bad: " and why.
"""

import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random

RIGHT, REFUSED = "right", "refused"
Attempt = Callable[[], str]

FORK = multiprocessing.get_context("fork")  # importing torch takes seconds: once, in the parent


@dataclass(frozen=True)
class Group:
    name: str
    count: int  # cases in a whole run
    quick: int  # cases with --quick, as `make test` runs them
    seconds: float  # a case that takes longer hangs
    case: Callable[[int, Random, Path], tuple[str, Attempt]]


GROUPS: dict[str, Group] = {}


def group(name: str, count: int, quick: int, seconds: float = 60):
    def register(case):
        GROUPS[name] = Group(name, count, quick, seconds, case)
        return case

    return register


def bad(why: object) -> str:
    return f"bad: {' '.join(str(why).split())[:300]}"


@dataclass(frozen=True)
class Result:
    case: int
    name: str
    verdict: str


class Worker:
    """A process that tries one case after another; it is replaced when a case kills it or hangs."""

    def __init__(self, group: Group, seed: int, base: Path):
        self.pipe, other = FORK.Pipe()
        self.process = FORK.Process(target=_work, args=(other, group, seed, base))
        self.process.start()
        other.close()

    def begin(self, case: int, seconds: float) -> None:
        self.case, self.name, self.deadline = case, "?", time.monotonic() + seconds
        self.pipe.send(case)

    def end(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # with the trainings that it started
        except ProcessLookupError:
            self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection, group: Group, seed: int, base: Path) -> None:
    os.setsid()
    parent = os.getppid()
    while True:
        while not pipe.poll(1):
            if os.getppid() != parent:  # it was killed, and nobody wants the answers
                return
        k = pipe.recv()
        with tempfile.TemporaryDirectory(dir=base, ignore_cleanup_errors=True) as folder:
            os.chdir(folder)  # what is written to nowhere in particular lands here
            try:
                name, attempt = group.case(k, Random(f"{seed} {group.name} {k}"), Path(folder))
                pipe.send(name)
                verdict = attempt()
            except Exception:  # the attack itself broke
                verdict = bad(traceback.format_exc(limit=-2))
            os.chdir(base)
        pipe.send((k, verdict))


def run(group: Group, cases: list[int], seed: int, jobs: int, base: Path) -> Iterator[Result]:
    """Every case's result, in the order in which they end."""
    waiting, workers = deque(cases), []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(Worker(group, seed, base))
                workers[-1].begin(waiting.popleft(), group.seconds)
            ready = wait([worker.pipe for worker in workers], timeout=0.5)
            for worker in list(workers):
                result = None
                if worker.pipe in ready:
                    result = _next_message(worker)
                elif time.monotonic() > worker.deadline:
                    result = Result(worker.case, worker.name, bad(f"no end after {group.seconds:g} seconds"))
                    worker.end()
                if result is None:
                    continue
                yield result
                if worker.pipe.closed or not waiting:
                    worker.end() if not worker.pipe.closed else None
                    workers.remove(worker)
                else:
                    worker.begin(waiting.popleft(), group.seconds)
    finally:
        for worker in workers:
            worker.end()


def _next_message(worker: Worker) -> Result | None:
    try:
        message = worker.pipe.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        died = Result(worker.case, worker.name, bad(f"the process died with status {worker.process.exitcode}"))
        worker.end()
        return died
    if isinstance(message, str):
        worker.name = message
        return None
    return Result(worker.case, worker.name, message[1])
