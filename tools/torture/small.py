"""Trainings that take a fifth of a second, in forked children, with what they said and what they left behind."""

import dataclasses
import json
import os
import pty
import runpy
import select
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # the first optimizer would import it, in every child again

import helpers.sampling
import helpers.training  # noqa: F401  (every child would import them again)
from helpers.commands import write
from helpers.runs import checkpoint, presets
from helpers.runs.presets import PRESETS
from helpers.world import corpus
from tools.torture.harness import REFUSED, RIGHT, bad

MAX_STEPS = 30
SIZES: dict[str, Any] = dict(context_length=8, n_layer=2, n_head=2, n_embd=16, dropout=0.1)
RECIPE: dict[str, Any] = dict(batch_size=4, max_steps=MAX_STEPS, eval_interval=5, learning_rate=3e-3, warmup_steps=3)
TODAYS: dict[str, Any] = dict(mlp_width=32, bigrams=100, fourgrams=50)  # beside what the preset itself changes
WINDOWS = ((0.5, 4),)

BASE = Path()  # of this torture: corpus, whole and half-finished runs
CLOCK = {"seconds", "seconds_before", "tokens_per_second"}  # what differs from run to run
VIEWS = {"checkpoint.pt", "config.json", "history.json", "tokenizer.json", "sample.txt"}


def corpus_path() -> Path:
    return BASE / "play.txt"


@dataclass(frozen=True)
class Kind:
    """A preset in small, and the runs of it that are made before the first attack: one whole, one killed half-way."""

    preset: str

    @property
    def whole(self) -> Path:
        return BASE / self.preset / "whole"

    @property
    def half(self) -> Path:
        return BASE / self.preset / "half"

    def make(self) -> None:
        """Make the whole and the half run, and measure what an undisturbed training takes."""
        base = BASE / self.preset
        base.mkdir()
        whole = run(self.train_into(self.whole), base)
        if whole.status != 0:
            raise SystemExit(f"the undisturbed training failed:\n{whole.err}")
        (base / "seconds").write_text(str(whole.seconds))
        counted = run(self.train_into(base / "counted"), base, arm=count_storage_calls)
        (base / "calls").write_text(counted.err)
        child = start(self.train_into(self.half), base, arm=kill_at_record(4))
        if child.wait().status != -signal.SIGKILL:
            raise SystemExit("the training that was to be killed in the middle was not")

    def train_into(self, folder: object, *more: str) -> list[str]:
        return ["--preset", self.preset, "--corpus", str(corpus_path()), "--out", str(folder), "--device", "cpu",
                "--sample-length", "60", *more]  # fmt: skip

    def undisturbed_seconds(self) -> float:
        return float((BASE / self.preset / "seconds").read_text())

    def storage_calls(self) -> int:
        """How often an undisturbed training touches the disk through os's functions."""
        return int((BASE / self.preset / "calls").read_text())

    def half_in(self, folder: Path) -> Path:
        """A copy of the half run to go on with, or to spoil."""
        return Path(shutil.copytree(self.half, folder / "half"))

    def differs_from_whole(self, folder: Path) -> str:
        """'' when the run in `folder` ended as the undisturbed one."""
        return differing(folder, self.whole)

    def to_the_end(self, folder: Path, where: Path) -> str:
        """'' when the run in `folder`, begun or not, can be brought to the undisturbed end, and leaves nothing else."""
        begun = (folder / "checkpoint.pt").exists()
        again = run(self.train_into(folder, *["--resume"] * begun), where)
        if again.status != 0:
            return bad(f"{'resuming' if begun else 'starting anew'} failed with status {again.status}: {again.err}")
        return self.differs_from_whole(folder) or leftovers(folder)


PLAIN = Kind("smoke")
MUON = Kind("three-minutes")  # today's model, tables, windows that change, and bfloat16 where the processor has it
KINDS = (PLAIN, MUON)


def prepare(base: Path) -> None:
    """Make the presets small; write a corpus, and a whole and a half run of each kind."""
    global BASE
    BASE = base
    for name, preset in PRESETS.items():
        windows = WINDOWS if preset.training.windows else ()
        training = dataclasses.replace(preset.training, **RECIPE, windows=windows, bfloat16=False, compile=False)
        todays = TODAYS if preset.training.optimizer == "muon" else {}
        PRESETS[name] = dataclasses.replace(preset, model={**preset.model, **todays, **SIZES}, training=training)
    presets.RUNS = write.RUNS = base / "runs"  # no case may touch a run of the user's
    corpus_path().write_text(corpus.BUNDLED_PLAY.read_text(encoding="utf-8")[:2000], encoding="utf-8")
    for kind in KINDS:
        kind.make()


# ---------------------------------------------------------------- children
@dataclass(frozen=True)
class Outcome:
    status: int  # negative after a signal
    out: str
    err: str
    seconds: float


class Child:
    """A running command. What it prints comes through pipes, which no limit of file sizes touches."""

    def __init__(self, pid: int, out: int, err: int):
        self.pid, self.start, self.status = pid, time.perf_counter(), None
        self.pipes = {"out": out, "err": err}
        self.read = {"out": b"", "err": b""}

    def _drain(self) -> None:
        for name, pipe in self.pipes.items():
            while select.select([pipe], [], [], 0)[0] and (piece := _read(pipe)):
                self.read[name] += piece

    def running(self) -> bool:
        self._drain()
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is None

    def printed(self, name: str = "out") -> str:
        self._drain()
        return self.read[name].decode("utf-8", "replace").replace("\r\n", "\n")

    def send(self, number: int) -> None:
        if self.running():
            os.kill(self.pid, number)

    def wait(self) -> Outcome:
        while self.running():
            time.sleep(0.002)
        outcome = Outcome(self.status, self.printed(), self.printed("err"), time.perf_counter() - self.start)
        for pipe in self.pipes.values():
            os.close(pipe)
        return outcome


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 16)
    except OSError:  # a terminal whose other side is closed
        return b""


def start(
    arguments: list[str],
    where: Path,
    *,
    module: str = "helpers.training",
    arm: Callable[[], None] = lambda: None,
    device: str | None = None,
    terminal: bool = False,
) -> Child:
    """Fork a child that is `python -m MODULE ARGUMENTS` in the folder `where`; `arm` is called in it at first.

    Its stdout is a pipe, a terminal, or the `device` of that name.
    """
    out, child_out = pty.openpty() if terminal else os.pipe()
    err, child_err = os.pipe()
    pid = os.fork()
    if pid:
        os.close(child_out)
        os.close(child_err)
        return Child(pid, out, err)
    status = 1
    try:
        # As in a terminal, also when this is run under nohup, which has hang-ups ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(device, os.O_WRONLY) if device else child_out, 1)
        os.dup2(child_err, 2)
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        os.chdir(where)
        torch.manual_seed(os.getpid())  # a training must not depend on what was drawn before it
        arm()
        sys.argv = [module, *arguments]
        warnings.filterwarnings("ignore", "'helpers.* found in sys.modules", RuntimeWarning)  # runpy's: it was forked
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(status)


def run(arguments: list[str], where: Path, **options) -> Outcome:
    return start(arguments, where, **options).wait()


def run_sampling(arguments: list[str], where: Path, **options) -> Outcome:
    return run(arguments, where, module="helpers.sampling", **options)


def kill_at_record(number: int) -> Callable[[], None]:
    """A death right after the given record is printed."""

    def arm():
        stdout, seen = sys.stdout, []

        class Watched:
            def write(self, text):
                stdout.write(text)
                if text.startswith("step "):
                    seen.append(text)
                if len(seen) >= number:
                    stdout.flush()
                    os.kill(os.getpid(), signal.SIGKILL)

            def __getattr__(self, name):
                return getattr(stdout, name)

        sys.stdout = Watched()

    return arm


def count_storage_calls() -> None:
    """An arm: at the end, print to stderr how often the training touched the disk."""
    from tools.torture.interruptions import at_storage_call

    calls, leave = [], os._exit
    at_storage_call(1, lambda: calls.append(None))()

    def report(status):
        os.write(2, str(len(calls)).encode())
        leave(status)

    os._exit = report


# ---------------------------------------------------------------- verdicts
def refused(outcome: Outcome, status: int = 2) -> str:
    """Is this a refusal as it should be: the right status and one sentence on stderr?"""
    lines = outcome.err.splitlines()
    if "Traceback" in outcome.err:
        return bad(f"a traceback: {lines[-1]}")
    if outcome.status != status:
        return bad(f"status {outcome.status} instead of {status}: {outcome.err}")
    if len(lines) != 1 or (status == 2 and not lines[0].startswith("error: ")):
        return bad(f"not one sentence: {outcome.err!r}")
    return REFUSED


def differing(folder: Path, undisturbed: Path) -> str:
    """'' when two runs ended alike: weights, moments, history, sample, bit for bit."""
    ours, whole = (
        {
            "state": plain(torch.load(place / "checkpoint.pt", weights_only=True)),
            "history.json": plain(json.loads((place / "history.json").read_text())),
            "sample.txt": (place / "sample.txt").read_bytes(),
            "tokenizer.json": (place / "tokenizer.json").read_bytes(),
        }
        for place in (folder, undisturbed)
    )
    names = [name for name in whole if ours[name] != whole[name]]
    return bad(f"another end than the undisturbed run's: {', '.join(names)}") if names else ""


def leftovers(folder: Path) -> str:
    """'' when the folder holds only what a run folder may hold."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    strange = sorted(name for name in names - VIEWS if name not in (".lock", "lock"))
    return bad(f"left behind: {', '.join(strange)}") if strange else ""


def load_error(folder: Path) -> str:
    """'' when the model of a run folder loads."""
    try:
        checkpoint.load_model(folder)
        return ""
    except Exception as error:
        return bad(f"the folder no longer loads: {type(error).__name__}: {error}")


def plain(value: object) -> object:
    """Everything in a state as values that compare bit for bit, without what the clock wrote."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.contiguous().view(-1).numpy().tobytes()
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items() if name not in CLOCK}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def first_of(*checks: str) -> str:
    return next((check for check in checks if check), RIGHT)
