"""Several processes, started from a notebook as `torchrun` starts them at the command line."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil

from helpers.errors import RunError


class Torchrun:
    """`torchrun --nproc-per-node PROCESSES COMMAND` on this machine until the `with` block ends.

    with Torchrun(2, "-m", "helpers.training", "--preset", "smoke") as started:
        print(started.wait())
    """

    def __init__(self, processes: int, *command: str | Path, max_restarts: int = 0):
        # One that was killed may still write.
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._logs = Path(self._folder.name)
        options = [
            "--standalone",
            "--nproc-per-node",
            str(processes),
            "--max-restarts",
            str(max_restarts),
        ]
        options += ["--log-dir", str(self._logs), "--redirects", "3"]  # else their lines get mixed
        # A GPU is no place for two.
        one_thread_each = {
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        with open(self._logs / "torchrun", "wb") as own:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", *options, *map(str, command)],
                env=os.environ | one_thread_each,
                stdout=own,
                stderr=own,
            )

    def __enter__(self) -> "Torchrun":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def printed(self) -> str:
        """What the processes have printed: by start, then rank, stdout before stderr."""
        logs = self._logs.glob("*/attempt_*/*/std*.log")  # as torchrun names them
        return "".join(path.read_text(errors="replace") for path in sorted(logs, key=_place))

    def member(self, rank: int) -> psutil.Process:
        """The process with this rank. RunError when there is none now."""
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children():
                # It has just ended, or its surroundings are not to be read.
                with suppress(psutil.Error):
                    if process.environ().get("RANK") == str(rank):
                        return process
        raise RunError(f"there is no process with rank {rank}: it has not started yet, or has ended")

    def wait(self, seconds: float = 120) -> str:
        """What they printed, once all have ended. RunError if one failed or they still work."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise RunError(f"the processes are still at work after {seconds:g} seconds") from None
        if status:
            output = self.printed() or (self._logs / "torchrun").read_text(errors="replace")
            raise RunError(f"torchrun ended with status {status}: {output[-2000:].strip()}")
        return self.printed()


def _place(log: Path) -> tuple[int, int, bool]:
    attempt, rank = log.parts[-3:-1]
    return int(attempt.removeprefix("attempt_")), int(rank), log.stem != "stdout"


def until(happened: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until `happened()`. RunError after this many seconds."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise RunError(f"it has not happened within {seconds:g} seconds")
        time.sleep(0.02)
