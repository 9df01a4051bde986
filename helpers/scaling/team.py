"""The processes that train one model together: who takes part, what they agree on, and how they end.

`torchrun` starts them, and PyTorch's process group connects them: gloo between CPUs, NCCL between GPUs. A process that
torchrun did not start is a team of one, which sends nothing.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor

from helpers.support import console
from helpers.support.errors import HelpersError, TeamError


@dataclass(frozen=True)
class Team:
    """One process of `size`. What two of them call, all must call, and in the same order: each waits for the others."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """One process reads and writes the run, and prints."""
        return self.rank == 0

    def total(self, number: Tensor) -> Tensor:
        """The sum of what the processes have."""
        if self.size > 1:
            dist.all_reduce(number)
        return number

    def largest(self, number: int) -> int:
        """The largest of what the processes have."""
        if self.size == 1:
            return number
        found = torch.tensor(number)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def from_leader(self, value: Any) -> Any:
        """What the leader has."""
        if self.size == 1:
            return value
        held = [value if self.leads else None]
        dist.broadcast_object_list(held)
        return held[0]

    def everyones(self, value: Any) -> list[Any]:
        """What each process has, by rank."""
        if self.size == 1:
            return [value]
        held: list[Any] = [None] * self.size
        dist.all_gather_object(held, value)
        return held


ALONE = Team()


@contextmanager
def one_voice() -> Iterator[dist.Store | None]:
    """Let one of the processes that torchrun has started speak, and give them the store that they share.

    Only the leader's stdout is heard. When they end by an error or a signal, the first one says why, and the others end
    in silence. A process that torchrun did not start speaks for itself, and has no store.
    """
    if not dist.is_torchelastic_launched():
        yield None
        return
    try:
        with _said_once(_store), _only_the_leader_printing():
            with console.stop_requests() as early:
                torchrun_serves = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
                store = _store(serve=os.environ["RANK"] == "0" and not torchrun_serves)
            if early.number is not None:
                raise console.Stopped(early.number)
            yield store
    except BaseException as end:
        console.unfinished.append(end)
        raise
    finally:
        console.ignore_stops()  # torchrun asks all to stop when one has ended badly, and this one has ended


@contextmanager
def gathered(store: dist.Store | None, time_out: float) -> Iterator[Team]:
    """The team of the processes that share the store; it dissolves at the end of the block.

    TeamError when a process is missing, has died, or doesn't answer for `time_out` seconds.
    """
    if store is None:
        yield ALONE
        return
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    try:
        with _lost_ones_named(time_out):
            name = _meeting(store, rank, size, time_out)
            _connect(dist.PrefixStore(name, store), rank, size, time_out)
            yield Team(rank, size)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _store(serve: bool = False) -> dist.Store:
    """What torchrun keeps for its processes."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(address, port, is_master=serve, wait_for_workers=False)


def _meeting(store: dist.Store, rank: int, size: int, time_out: float) -> str:
    """A name that the processes of this start have in common, and no earlier start had.

    When torchrun starts the processes again, its store still has what those before have written, such as addresses at
    which nobody answers now (https://github.com/pytorch/pytorch/issues/135712). So each process greets the leader with
    a name that nobody has had, and the leader answers every greeting until all have heard the answer.
    """
    own = uuid4().hex
    deadline = time.monotonic() + time_out
    others = range(1, size)
    if rank:
        store.set(f"greeting of {rank}", own)
        awaited = [f"answer to {own}"]
    else:
        awaited = [f"{other} has heard {own}" for other in others]
    while not store.check(awaited):  # store.wait would keep Python from hearing signals
        for other in [] if rank else others:
            if store.check([f"greeting of {other}"]):
                store.set(f"answer to {store.get(f'greeting of {other}').decode()}", own)
        if time.monotonic() > deadline:
            raise TeamError(f"not all of the {size} processes have arrived within {time_out:g} seconds")
        time.sleep(0.02)
    if not rank:
        return own
    name = store.get(f"answer to {own}").decode()
    store.set(f"{rank} has heard {name}", "")
    return name


def _connect(store: dist.Store, rank: int, size: int, time_out: float) -> None:
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank())
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=time_out))


def local_rank() -> int:
    """Which of its machine's processes this one is: the number of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def device_of(asked: str, team: Team) -> str:
    """The device that was asked for; in a team, "auto" and "cuda" mean a GPU for each process."""
    if team.size > 1 and asked in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{local_rank()}"
    return asked


def restarts() -> int:
    """How often torchrun (--max-restarts) has started the team again, because a process had failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@contextmanager
def _only_the_leader_printing() -> Iterator[None]:
    if os.environ["RANK"] == "0":
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield


@contextmanager
def _said_once(connect: Callable[[], dist.Store]) -> Iterator[None]:
    """Let the first error or stop through, and make those of the other processes silent.

    They ask by a new connection to the store: a signal may have broken the old one.
    """
    try:
        yield
    except (HelpersError, KeyboardInterrupt) as end:
        console.ignore_stops()
        if not _is_first(connect):
            raise console.Silent(console.status_of(end)) from None
        raise


def _is_first(connect: Callable[[], dist.Store]) -> bool:
    try:
        return connect().add(f"why start {restarts()} ended", 1) == 1
    except dist.DistError:  # torchrun has died, and the store with it
        return True


@contextmanager
def _lost_ones_named(time_out: float) -> Iterator[None]:
    """Turn what gloo and NCCL say when a process is gone into a sentence."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        raise TeamError(
            f"a process of this training has died, or has not answered for {time_out:g} seconds: "
            "what was saved is kept, and torchrun's report names the process"
        ) from None
