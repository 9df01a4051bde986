"""Teams of processes that train together, with deaths, signals and full disks in one of them or in all.

A fork of this process is a member, and this file is their torchrun: it starts them with one store, ends all when one
has ended badly, and starts them again with the same store. What goes on must end as the undisturbed team, bit for bit.
"""

import errno
import math
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch.distributed as dist
import torch.distributed.fsdp  # noqa: F401  (every member would import it again)

from tools.torture import small
from tools.torture.harness import REFUSED, RIGHT, Attempt, bad, group
from tools.torture.interruptions import at_storage_call
from tools.torture.small import MUON, PLAIN, Kind, Outcome, differing, first_of, leftovers, load_error, start

TIME_OUT = 10.0  # seconds, as the members are told
PATIENCE = 1.5 * TIME_OUT
Arm = Callable[[], None]


@dataclass(frozen=True)
class Shared:
    """A small training of one kind in a team, and where its undisturbed run lies."""

    kind: Kind
    size: int
    fsdp: bool

    def __str__(self) -> str:
        return f"{self.kind.preset} in {self.size}{' with cut weights' if self.fsdp else ''}"

    @property
    def whole(self) -> Path:
        return small.BASE / f"team {self}"

    def train_into(self, out: Path, *more: str) -> list[str]:
        fsdp = ["--fsdp"] if self.fsdp else []
        return self.kind.train_into(out, "--time-out", str(TIME_OUT), *fsdp, *more)

    def differs(self, out: Path) -> str:
        return differing(out, self.whole)


TEAMS = [Shared(PLAIN, 2, False), Shared(PLAIN, 3, True), Shared(MUON, 3, False), Shared(MUON, 2, True)]


def prepare() -> None:
    """Make the undisturbed run of each team, and note how long it takes."""
    for shared in TEAMS:
        outcomes = Agent(shared.size, small.BASE).attempt(shared.train_into(shared.whole))
        if any(outcome.status for outcome in outcomes):
            raise SystemExit(f"the undisturbed team failed:\n{outcomes[0].err}")
        (small.BASE / f"seconds {shared}").write_text(str(max(outcome.seconds for outcome in outcomes)))


def seconds(shared: Shared) -> float:
    return float((small.BASE / f"seconds {shared}").read_text())


class Agent:
    """What torchrun is to its processes."""

    def __init__(self, size: int, folder: Path):
        self.size = size
        self.folder = folder
        self.starts = 0
        self.forced = 0  # members that did not end by themselves
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.store = dist.TCPStore("127.0.0.1", self.port, is_master=True, wait_for_workers=False)

    def member(self, rank: int, arm: Arm) -> Arm:
        surroundings = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": self.size,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": self.port,
            "TORCHELASTIC_RUN_ID": "torture",
            "TORCHELASTIC_USE_AGENT_STORE": True,
            "TORCHELASTIC_RESTART_COUNT": self.starts,
        }

        def begin() -> None:
            os.environ.update({name: str(value) for name, value in surroundings.items()})
            arm()

        return begin

    def attempt(
        self, arguments: list[str], arms: dict[int, Arm] | None = None, hits: dict[int, int] | None = None, after=0.0
    ) -> list[Outcome]:
        """Start the team, send each signal of `hits` to its rank `after` so many seconds, and wait for the end."""
        arms = arms or {}
        members = [
            start(arguments, self.folder, arm=self.member(rank, arms.get(rank, lambda: None)))
            for rank in range(self.size)
        ]
        self.starts += 1
        begun = time.monotonic()
        pending = dict(hits or {})
        ending = None
        while any([member.running() for member in members]):
            now = time.monotonic()
            if pending and now - begun >= after:
                for rank, number in pending.items():
                    members[rank].send(number)
                pending = {}
            if ending is None and any(member.status for member in members):
                ending = now
                for member in members:
                    with suppress(ProcessLookupError):
                        member.send(signal.SIGTERM)
            if ending is not None and now - ending > PATIENCE:  # torchrun waits as long for one that stands still
                self.forced += sum([member.running() for member in members])
                for member in members:
                    member.send(signal.SIGKILL)
                ending = math.inf
            if now - begun > 3 * PATIENCE:
                raise AssertionError(f"no end after {3 * PATIENCE:g} seconds")
            time.sleep(0.005)
        return [member.wait() for member in members]


def sentences(outcomes: list[Outcome]) -> list[str]:
    lines = [line for outcome in outcomes for line in outcome.err.splitlines()]
    return [line for line in lines if line.startswith(("error: ", "stopped by "))]


def complained(outcomes: list[Outcome]) -> str:
    """'' when the team has ended with one sentence and no traceback."""
    said = sentences(outcomes)
    if len(said) != 1 or any("Traceback" in outcome.err for outcome in outcomes):
        everything = " | ".join(f"{outcome.status}: {outcome.err}" for outcome in outcomes)
        return bad(f"{len(said)} sentences: {everything}")
    return ""


def to_the_end(agent: Agent, shared: Shared, out: Path) -> str:
    """'' when the team, started again, ends as the undisturbed one, and leaves nothing else."""
    outcomes = agent.attempt(shared.train_into(out))
    if any(outcome.status for outcome in outcomes):
        return bad(f"going on failed: {' | '.join(outcome.err for outcome in outcomes)}")
    return first_of(shared.differs(out), leftovers(out))


def struck(name: str, choose: Callable[[Random, int], list[int]], number: int, count: int) -> None:
    """A group: the chosen ranks get a signal, once or twice, at any moment; then the team goes on."""

    @group(name, count=count, quick=2, seconds=180)
    def case(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
        shared = TEAMS[k % len(TEAMS)]
        # Before a tenth of a second, a fork has not begun to listen.
        times = [max(0.1, random.uniform(0, 1.05) * seconds(shared)) for _ in range(random.randint(1, 2))]
        ranks = [choose(random, shared.size) for _ in times]

        def attempt() -> str:
            out, agent = folder / "run", Agent(shared.size, folder)
            for moment, hit in zip(times, ranks, strict=True):
                outcomes = agent.attempt(shared.train_into(out), hits=dict.fromkeys(hit, number), after=moment)
                # The dead say nothing, and those who were done before had nothing to say.
                failed = any(outcome.status not in (0, -signal.SIGKILL) for outcome in outcomes)
                if failed and (problem := complained(outcomes)):
                    return problem
                if number != signal.SIGSTOP and agent.forced:
                    return bad(f"{agent.forced} of the team had to be killed")
                if (out / "checkpoint.pt").exists() and (error := load_error(out)):
                    return error
            return to_the_end(agent, shared, out) or RIGHT

        moments = ", ".join(f"{ranks} after {moment:.2f} s" for moment, ranks in zip(times, ranks, strict=True))
        return f"{shared}: {moments}", attempt


def one(random: Random, size: int) -> list[int]:
    return [random.randrange(size)]


def everyone(random: Random, size: int) -> list[int]:
    return list(range(size))


struck("kills of one in a team", one, signal.SIGKILL, count=50)
struck("kills of whole teams", everyone, signal.SIGKILL, count=50)
struck("SIGTERM to one in a team", one, signal.SIGTERM, count=20)
struck("Ctrl-C to whole teams", everyone, signal.SIGINT, count=20)
struck("stand-stills of one in a team", one, signal.SIGSTOP, count=4)


@group("full disks of a team", count=20, quick=2, seconds=180)
def full_disks(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    shared = TEAMS[k % len(TEAMS)]
    number = random.randint(1, 12)
    only = random.choice((("fsync",), ("replace",), ("open",)))

    def fail() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def attempt() -> str:
        out, agent = folder / "run", Agent(shared.size, folder)
        outcomes = agent.attempt(shared.train_into(out), arms={0: at_storage_call(number, fail, only=only)})
        if not any(outcome.status for outcome in outcomes):
            return shared.differs(out) or RIGHT
        problem = first_of(complained(outcomes), load_error(out) if (out / "checkpoint.pt").exists() else "")
        return problem if problem != RIGHT else (to_the_end(agent, shared, out) or REFUSED)

    return f"{shared}: full from call {number} of {'/'.join(only)} on", attempt
