"""A process for answers, from which they should not get out.

Everywhere: a session of its own, a home of its own that is thrown away, a copy of the code, limits of time, memory,
processes and file sizes, and nothing to print to. On Linux, where the system allows it (`unshare`): no network, no
other processes in sight, nothing to write to but the home, and neither submissions nor solutions to read. It is a
safety net and no prison: whoever grades what strangers hand in should do so in a container or a virtual machine.
"""

import compileall
import contextlib
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tools.classroom import plain

START = 120.0  # seconds until PyTorch is there, on a busy machine
STILL = "it is still at work after {:g} seconds: is there a loop without an end?"
LOOK = 0.1  # seconds between two looks at what the processes take
# First everything is made read-only, then the home is laid over it, and what is not to be read is covered. Without
# privileges nothing of this can be taken back.
WALLS = """
set -e
mount --make-rprivate /
while read -r _ place _; do mount -o remount,bind,ro "$(printf %b "$place")" 2>/dev/null || :; done </proc/self/mounts
mount -t tmpfs -o size=256m,mode=700 none "$1"; home=$1; shift
while [ "$1" != -- ]; do mount -t tmpfs -o ro,size=4k none "$1"; shift; done; shift
cd "$home"
exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all -- "$@"
"""
UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--ipc", "--mount", "--pid", "--fork", "--kill-child",
           "--mount-proc", "sh", "-c", WALLS, "sh")  # fmt: skip


class Ended(Exception):
    """The process is gone, and that is why, as a sentence about the answer."""


class NoJailError(Exception):
    """There is no process to put an answer into."""


@dataclass(frozen=True)
class Limits:
    """Of one submission; seconds for one answer and for all, megabytes for one process."""

    answer: float = 10.0
    seconds: int = 180
    memory: int = 2048
    processes: int = 64
    file: int = 64


def walls(folder: Path) -> bool:
    """Does this system let us take network and writing away? It is tried out in a folder."""
    outside, home, secret = folder / "outside", folder / "home", folder / "secret"
    for each in (outside, home, secret / "file"):
        each.mkdir(parents=True)
    tries = ('touch "$1"/x', '! touch "$2"/x', '! ls "$3"/file', "! mount -o remount,bind,rw /")
    places = [str(home), str(outside), str(secret)]
    try:
        done = subprocess.run(
            [*UNSHARE, str(home), str(secret), "--", "sh", "-c", " && ".join(tries), "sh", *places],
            capture_output=True,
            timeout=START,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


class Jail:
    """One process for answers: `call` sends it a message and returns what it replies.

    `code` is a folder with helpers and tools, `hidden` what it must not read; `walled` as `walls` says; `learns` where
    a grader trains what it is given.
    """

    def __init__(self, code: Path, walled: bool, hidden: Sequence[Path], limits: Limits, learns: bool = False):
        self.limits, self.walled = limits, walled
        self.folder = Path(tempfile.mkdtemp(prefix="classroom-"))
        home = self.folder / "a" / "safe" / "distance" / "home"
        home.mkdir(parents=True)
        if not walled:  # it could change the code of those who come after it
            code = Path(shutil.copytree(code, self.folder / "a" / "code"))
        command = [sys.executable, str(code / "tools" / "classroom" / "answering.py")]
        if walled:
            command = [*UNSHARE, str(home), *map(str, hidden), "--", *command]
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
        self.process = subprocess.Popen(
            command,
            cwd=home,
            env=kept | {
                "HOME": str(home), "TMPDIR": str(home), "MPLCONFIGDIR": str(home), "LC_ALL": "C.UTF-8",
                "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
                "CUDA_VISIBLE_DEVICES": "",
            },
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout
        self.asking, self.hearing = self.process.stdin, self.process.stdout
        self.watched = psutil.Process(self.process.pid)
        # As root, or counted together with all else that this user runs, a limit of processes would not be ours.
        processes = limits.processes if walled and os.geteuid() else 0
        try:
            self._receive(START)
            self._send(
                {"memory": limits.memory, "file": limits.file, "seconds": limits.seconds, "processes": processes}
                | {"learns": learns}
            )
            self._receive(START)
        except BaseException as error:
            self.close()
            if isinstance(error, Ended):  # no answer has been in it
                raise NoJailError(f"a process for answers doesn't start: {error}") from None
            raise

    def call(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Ended if it ends, takes too much, or hasn't replied after these seconds."""
        self._send(message)
        reply = self._receive(seconds)
        if not isinstance(reply, dict):
            raise Ended("it disturbs the conversation with its grader")
        return reply

    def close(self) -> None:
        """The end of all its processes and of its home."""
        with contextlib.suppress(psutil.Error):
            for child in self.watched.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.asking, self.hearing):
            with contextlib.suppress(OSError):
                pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "Jail":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ messages
    def _send(self, message: dict[str, Any]) -> None:
        data = plain.pack(message)
        try:
            self._write(struct.pack("<Q", len(data)) + data, time.monotonic() + START)
        except OSError:
            raise Ended(self._how_it_ended()) from None

    def _write(self, data: bytes, end: float) -> None:
        """A pipe holds little, and nobody may be reading."""
        number, sent = self.asking.fileno(), 0
        os.set_blocking(number, False)
        while sent < len(data):
            if time.monotonic() > end:
                raise Ended("it doesn't listen")
            if select.select([], [number], [], LOOK)[1]:
                sent += os.write(number, data[sent:])

    def _receive(self, seconds: float) -> Any:
        end = time.monotonic() + seconds
        (length,) = struct.unpack("<Q", self._read(8, end))
        if length > plain.MOST:
            raise Ended("it returns more than can be looked at")
        try:
            return plain.unpack(self._read(length, end))
        except plain.NotPlainError:
            raise Ended("it disturbs the conversation with its grader") from None

    def _read(self, count: int, end: float) -> bytes:
        number, parts, left = self.hearing.fileno(), [], count
        look = time.monotonic() + LOOK
        while left:
            now = time.monotonic()
            if now > end:
                raise Ended(
                    f"it is still at work after {self.limits.answer:g} seconds: is there a loop without an end?"
                )
            if now > look:
                self._watch()
                look = now + LOOK
            if not select.select([number], [], [], LOOK)[0]:
                continue
            part = os.read(number, min(left, 2**20))
            if not part:
                raise Ended(self._how_it_ended())
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _watch(self) -> None:
        """Ended if its processes are too many, or take too much together."""
        with contextlib.suppress(psutil.Error):
            family = [self.watched, *self.watched.children(recursive=True)]
            if len(family) > self.limits.processes:
                raise Ended(f"it starts more than {self.limits.processes} processes")
            taken = 0
            for each in family:
                with contextlib.suppress(psutil.Error):
                    taken += each.memory_info().rss
            if taken > 2 * self.limits.memory * 2**20:
                raise Ended(f"it takes more than {2 * self.limits.memory // 1024} GB of memory")

    def _how_it_ended(self) -> str:
        try:
            status = self.process.wait(1)
        except subprocess.TimeoutExpired:
            return "it closes the conversation with its grader"
        number = status - 128 if status > 128 else -status
        with contextlib.suppress(ValueError):
            return f"it ends the process, by {signal.Signals(number).name}"
        return f"it ends the process, with the status {status}"


def copy_of_the_code(root: Path, folder: Path) -> Path:
    """helpers and these tools, compiled, in a folder: what a jail runs."""
    ignored = shutil.ignore_patterns("__pycache__", "torture")
    shutil.copytree(root / "helpers", folder / "helpers", ignore=ignored)
    shutil.copytree(root / "tools" / "classroom", folder / "tools" / "classroom", ignore=ignored)
    prefix, sys.pycache_prefix = sys.pycache_prefix, None
    try:
        compileall.compile_dir(folder, quiet=2)
    finally:
        sys.pycache_prefix = prefix
    return folder
