"""Several processes that train one model together: torchrun starts them, PyTorch's DDP keeps their
weights equal.

Each process draws the whole batch and computes its part of it. One of them, the leader, reads and
writes the run. What one process calls here, all must call: each waits for the others. A process
that torchrun did not start is a team of one, which sends nothing.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from helpers.errors import SIGNALS, ConfigError, RunError

# by torchrun, after a process has failed
RESTARTS = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@contextmanager
def gathered(time_out: float = 300) -> Iterator[None]:
    """Inside, the processes that torchrun has started are connected: gloo between CPUs, NCCL
    between GPUs.

    RunError when one of them has died, or doesn't answer for `time_out` seconds.
    """
    if "RANK" not in os.environ:
        yield
        return
    rank, size, seconds = (
        int(os.environ["RANK"]),
        int(os.environ["WORLD_SIZE"]),
        timedelta(seconds=time_out),
    )
    torchrun_serves = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank())
        backend = "cpu:gloo,cuda:nccl"
    try:
        store: Any = dist.TCPStore(address, port, size, rank == 0 and not torchrun_serves, seconds)
        # it keeps what the processes before a restart have written: pytorch/issues/135712
        if torchrun_serves:
            store = dist.PrefixStore(f"start {RESTARTS}", store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=seconds)
        yield
        dist.barrier()
        dist.destroy_process_group()
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        raise RunError(
            f"a process of this training has died, or has not answered for {time_out:g} seconds: "
            "what was saved is kept, and torchrun's report names the process"
        ) from None
    finally:
        # when one has ended badly, torchrun stops the others, which have ended by themselves
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def local_rank() -> int:
    """Which of its machine's processes this one is: the number of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def place() -> tuple[int, int]:
    """The number of this process, and how many there are: (0, 1) without torchrun."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def leads() -> bool:
    return place()[0] == 0


def total(number: Tensor) -> Tensor:
    """The sum of what the processes have."""
    if place()[1] > 1:
        dist.all_reduce(number)
    return number


def from_leader(value: Any) -> Any:
    """What the leader has."""
    held = [value]
    if place()[1] > 1:
        dist.broadcast_object_list(held)
    return held[0]


def refuse_differences(settings: dict[str, Any]) -> None:
    """ConfigError when another process was started otherwise: one machine may lack the text."""
    mine = settings | {"device": ""}
    for name, wanted in from_leader(mine).items():
        if total(torch.tensor(float(mine.get(name) != wanted))):
            raise ConfigError(f"the processes were started otherwise: their {name} differs")


def device_of(asked: str) -> str:
    """The device that was asked for; of several processes, each gets a GPU of its own."""
    several = "RANK" in os.environ and asked in ("auto", "cuda") and torch.cuda.is_available()
    return f"cuda:{local_rank()}" if several else asked


def with_equal_gradients(loss_of: nn.Module, device: str) -> nn.Module:
    """The loss as a module whose backward pass leaves the mean of all processes' gradients in each.

    Gradients travel in packets, sorted as they come in the first pass. After a pass for nothing
    they are sorted; without it, the first update of a resumed run would add, and so round, in
    another order.
    """
    if place()[1] == 1:
        return loss_of
    shared = DistributedDataParallel(loss_of)
    nothing = torch.zeros(1, 1, dtype=torch.long, device=device)
    shared(nothing, nothing).backward()
    return shared
