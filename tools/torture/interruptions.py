"""Deaths, full disks, signals and rivals, each at a random instant of a training; then the run must go on as if nothing
had happened, and end where the undisturbed one ends, bit for bit."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tools.torture import small
from tools.torture.harness import REFUSED, RIGHT, Attempt, bad, group
from tools.torture.small import KINDS, PLAIN, Kind, first_of, leftovers, load_error, refused, start

ROOT = Path(__file__).parents[2]
WRITING = ("open", "fsync", "replace", "mkdir", "chmod")  # what a full disk refuses: it never refuses to delete
TOUCHING = ("open", "fsync", "replace", "rename", "unlink", "mkdir", "chmod", "link")


def at_storage_call(number: int, act: Callable[[], None], after: bool = False, only: tuple[str, ...] = TOUCHING):
    """An arm: call `act` at the number-th call, and all later ones, of os's functions that touch the disk."""

    def arm():
        calls = [0]

        def watched(function):
            def call(*arguments, **named):
                calls[0] += 1
                hit = calls[0] >= number
                if hit and not after:
                    act()
                result = function(*arguments, **named)
                if hit and after:
                    act()
                return result

            return call

        for name in only:
            setattr(os, name, watched(getattr(os, name)))

    return arm


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def limit_file_size(size: int, deadly: bool) -> Callable[[], None]:
    """Files end at `size` bytes: the write that goes beyond kills the process in its middle, or fails as if full."""

    def arm():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if deadly else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return arm


def _file_size(random: Random, kind: Kind) -> int:
    """Mostly inside the checkpoint, sometimes inside the small files."""
    largest = (kind.whole / "checkpoint.pt").stat().st_size
    return random.randrange(int(largest * 1.1)) if random.random() < 0.7 else random.randrange(3000)


# ---------------------------------------------------------------- kills
def _death(random: Random, kind: Kind) -> tuple[str, Callable[[], None], float | None]:
    """A name, an arm, and after how many seconds to send SIGKILL (None: the arm does it)."""
    way = random.choice(("clock", "clock", "call", "call", "write", "late write"))
    if way == "clock":
        delay = random.uniform(0, 1.05) * kind.undisturbed_seconds()
        return f"SIGKILL after {delay:.3f} s", lambda: None, delay
    number = random.randint(1, kind.storage_calls())
    if way == "call":
        after = random.random() < 0.5
        name = f"SIGKILL {'after' if after else 'before'} storage call {number}"
        return name, at_storage_call(number, die, after), None
    size = _file_size(random, kind)
    limit = limit_file_size(size, deadly=True)
    if way == "write":
        return f"death at byte {size} of a file", limit, None
    return f"death at byte {size} of a file from storage call {number} on", at_storage_call(number, limit), None


@group("kills", count=100, quick=4)
def kills(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    kind = KINDS[k % 2]
    deaths = [_death(random, kind) for _ in range(random.randint(1, 3))]
    watching = random.random() < 0.25  # somebody loads the model all the time

    def attempt() -> str:
        out = folder / "run"
        for name, arm, delay in deaths:
            begun = (out / "checkpoint.pt").exists()
            child = start(kind.train_into(out, *["--resume"] * begun), folder, arm=arm)
            while child.running() and delay is not None and time.perf_counter() - child.start < delay:
                if watching and (out / "checkpoint.pt").exists() and (error := load_error(out)):
                    return error
                time.sleep(0.001)
            if delay is not None:
                child.send(signal.SIGKILL)
            outcome = child.wait()
            if outcome.status not in (0, -signal.SIGKILL, -signal.SIGXFSZ):
                return bad(f"{name}: status {outcome.status}: {outcome.err}")
            if (begun or "step " in outcome.out) and (error := load_error(out)):
                return error
        return kind.to_the_end(out, folder) or RIGHT

    return f"{kind.preset}: {'; '.join(name for name, _, _ in deaths)}", attempt


# ---------------------------------------------------------------- full disks
@group("full disks", count=40, quick=4)
def full_disks(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    kind = KINDS[k % 2]
    begun = random.random() < 0.6
    way = random.choice(("size", "size", "call", "call", "stdout"))
    device = None
    if way == "size":
        size = _file_size(random, kind)
        name, arm = f"no file beyond byte {size}", limit_file_size(size, deadly=False)
    elif way == "call":
        code = random.choice((errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS))
        number, only = random.randint(1, 12), random.choice((("fsync",), ("replace",), ("open",), WRITING))

        def fail():
            raise OSError(code, os.strerror(code))

        name = f"{errno.errorcode[code]} from call {number} of {'/'.join(only)} on"
        arm = at_storage_call(number, fail, only=only)
    else:
        name, arm, device = "stdout is /dev/full", (lambda: None), "/dev/full"

    def attempt() -> str:
        out = kind.half_in(folder) if begun else folder / "run"
        outcome = small.run(kind.train_into(out, *["--resume"] * begun), folder, arm=arm, device=device)
        if outcome.status == 0:
            return first_of(kind.differs_from_whole(out), leftovers(out))
        verdict = refused(outcome)
        if verdict != REFUSED:
            return verdict
        checks = [leftovers(out)]
        checks += [load_error(out)] if begun or (out / "checkpoint.pt").exists() else []
        problem = first_of(*checks, kind.to_the_end(out, folder))
        return REFUSED if problem == RIGHT else problem

    return f"{kind.preset}: {'resume' if begun else 'new run'}, {name}", attempt


# ---------------------------------------------------------------- signals
def slow_records(seconds: float) -> Callable[[], None]:
    """An arm: a pause after each record, so that there is time to do something to a training."""

    def arm():
        stdout = sys.stdout

        class Slow:
            def write(self, text):
                stdout.write(text)
                stdout.flush()
                if text.startswith("step "):
                    time.sleep(seconds)

            def __getattr__(self, name):
                return getattr(stdout, name)

        sys.stdout = Slow()

    return arm


@group("signals", count=60, quick=4)
def signals(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[k % 3]
    kind = KINDS[k % 2]
    delay, begun, twice = random.uniform(0, 1.3), random.random() < 0.3, random.random() < 0.2
    times, training = " twice" if twice else "", "a resumed training" if begun else "a new training"
    name = f"{kind.preset}: {number.name}{times} at {delay:.0%} of {training}"

    def attempt() -> str:
        out = kind.half_in(folder) if begun else folder / "run"
        child = start(kind.train_into(out, *["--resume"] * begun), folder, arm=slow_records(0.01))
        while child.running() and not child.printed():
            time.sleep(0.001)
        time.sleep(delay * kind.undisturbed_seconds() * (0.5 if begun else 1))
        child.send(number)
        if twice:
            time.sleep(0.003)
            child.send(number)
        outcome = child.wait()
        if outcome.status == 0:  # it had ended already
            return first_of(kind.differs_from_whole(out), leftovers(out))
        if (verdict := refused(outcome, 128 + number)) != REFUSED:
            return verdict
        begun_now, recorded = "step " in outcome.out, begun or "step " in outcome.out
        if begun_now and not twice and not (str(out) in outcome.err and "resume" in outcome.err):
            return bad(f"it doesn't say what is kept and how to go on: {outcome.err}")
        problem = first_of(leftovers(out), load_error(out) if recorded else "", kind.to_the_end(out, folder))
        return REFUSED if problem == RIGHT else problem

    return name, attempt


@group("signals to writing", count=12, quick=2)
def signals_to_writing(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    number, delay = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[k % 3], random.uniform(0, 0.2)

    def attempt() -> str:
        arguments = ["--run", str(KINDS[k % 2].whole), "--length", "1000000"]
        child = start(arguments, folder, module="helpers.sampling")
        while child.running() and not child.printed():
            time.sleep(0.001)
        time.sleep(delay)
        child.send(number)
        return refused(child.wait(), 128 + number)

    return f"{number.name} after {delay:.3f} s of helpers.sampling", attempt


@group("fresh processes", count=8, quick=1, seconds=200)
def fresh_processes(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    """Real ones, with the real preset. While Python itself starts, a signal ends it in Python's own way: no code of
    ours runs yet that could say it better, and nothing is written yet; so nobody asks for a sentence then."""
    number, delay = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[k % 3], random.uniform(0.1, 6)

    def attempt() -> str:
        out = folder / "run"
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "helpers.training", *PLAIN.train_into(out, "--max-steps", "20")]
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=-1, stderr=-1, text=True)
        try:
            printed, err = process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            printed, err = process.communicate()
        if process.returncode == 0:
            return first_of(leftovers(out), load_error(out))
        if (
            printed
            and (verdict := refused(small.Outcome(process.returncode, printed, err, 0), 128 + number)) != REFUSED
        ):
            return verdict
        if not printed and out.exists():
            return bad(f"nothing said, but {out} is there")
        again = ["--resume"] if (out / "checkpoint.pt").exists() else []
        done = subprocess.run([*command, *again], cwd=ROOT, env=env, capture_output=True, text=True)
        return first_of(bad(done.stderr) if done.returncode else "", leftovers(out), load_error(out))

    return f"{number.name} after {delay:.1f} s", attempt


# ---------------------------------------------------------------- two writers
@group("pairs of writers", count=40, quick=3)
def pairs(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    resume, overwrite = "--resume", "--overwrite"
    kind = KINDS[k % 2]
    wishes = random.choice((("", ""), (resume, resume), (overwrite, resume), (overwrite, overwrite)))
    lags = 0.0, random.uniform(0, 0.1)

    def attempt() -> str:
        out = kind.half_in(folder) if wishes[0] else folder / "run"
        begin = time.perf_counter() + 0.02

        def arm(lag: float):
            def wait():
                slow_records(0.05)()
                time.sleep(max(0, begin + lag - time.perf_counter()))

            return wait

        children = [
            start(kind.train_into(out, *[wish] * bool(wish)), folder, arm=arm(lag))
            for wish, lag in zip(wishes, lags, strict=True)
        ]
        outcomes = [child.wait() for child in children]
        winners = [outcome for outcome in outcomes if outcome.status == 0]
        if len(winners) != 1:
            return bad(f"{len(winners)} of two writers trained to the end: {[o.err for o in outcomes]}")
        loser = outcomes[1 - outcomes.index(winners[0])]
        if (verdict := refused(loser)) != REFUSED:
            return verdict
        problem = first_of(kind.differs_from_whole(out), leftovers(out))
        return REFUSED if problem == RIGHT else problem

    return f"{kind.preset}: {' and '.join(wish or 'a new run' for wish in wishes)}, {lags[1]:.3f} s apart", attempt
