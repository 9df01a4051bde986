"""Several processes that train one model together: torchrun starts them, PyTorch's DDP keeps their
weights equal.

Each process draws the whole batch and computes its part of it. One of them, the leader, reads and
writes the run. What one process calls here, all must call: each waits for the others. A process
that torchrun did not start is a team of one, which sends nothing.
"""

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from helpers import commands
from helpers.commands import SIGNALS
from helpers.errors import ConfigError, RunError

# Which torchrun has started this process (by its --rdzv-id, if it has one), and how often anew.
LAUNCH = os.environ.get("TORCHELASTIC_RUN_ID", "none")
if LAUNCH == "none":
    LAUNCH = f"process {os.getppid()}"
RESTARTS = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@contextmanager
def connected(time_out: float = 300, device: str = "auto") -> Iterator[None]:
    """Inside, the processes of torchrun are connected: gloo between CPUs, NCCL between GPUs.

    `device` is what they will compute on, as in TrainConfig.

    RunError when one of them has died, or doesn't answer for `time_out` seconds. Afterwards the
    process ignores signals: as soon as one ends badly, torchrun stops the others, and each of them
    is to end by itself, with its own sentence.
    """
    if "RANK" not in os.environ:
        yield
        return
    try:
        _connect(timedelta(seconds=time_out), device)
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
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _connect(time_out: timedelta, device: str) -> None:
    backend = "gloo"
    if torch.cuda.is_available() and device != "cpu":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    store, rank, size = next(dist.rendezvous("env://", timeout=time_out))
    # torchrun's store still holds what was written before a restart: pytorch/issues/135712.
    store = dist.PrefixStore(f"start {RESTARTS}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=time_out)


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def size() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_leader() -> bool:
    return rank() == 0


def say(text: object) -> None:
    """Print; of several processes, the leader alone does."""
    if is_leader():
        commands.say(text)


def total(number: Tensor) -> Tensor:
    """Replace the number by its sum over all processes, and return it."""
    if size() > 1:
        dist.all_reduce(number)
    return number


def any_has(things: Collection) -> bool:
    """Whether one of the processes has one."""
    return bool(total(torch.tensor(len(things))))


def wait() -> None:
    """Until every process has come here."""
    total(torch.zeros(1))


def broadcast(value: Any) -> Any:
    """The leader's value, in every process."""
    values = [value]
    if size() > 1:
        dist.broadcast_object_list(values)
    return values[0]


def refuse_differences(settings: dict[str, Any]) -> None:
    """ConfigError when another process was started with other settings: one machine may lack the text."""
    mine = settings | {"device": ""}
    for name, leaders in broadcast(mine).items():
        if total(torch.tensor(float(mine.get(name) != leaders))):
            raise ConfigError(f"the processes were started otherwise: their {name} differs")


def own_device(name: str) -> str:
    """The device of this name; of several processes, each gets a GPU of its own."""
    several = "RANK" in os.environ and name in ("auto", "cuda") and torch.cuda.is_available()
    return f"cuda:{os.environ['LOCAL_RANK']}" if several else name


def with_equal_gradients(compute_loss: nn.Module, device: str) -> nn.Module:
    """The loss as a module whose backward pass leaves the mean of all processes' gradients in each.

    DDP sends gradients in packets, which it sorts in the first pass. A batch that doesn't count is
    spent on that, so that a resumed run adds, and so rounds, in the same order as the undisturbed one.
    """
    if size() == 1:
        return compute_loss
    parallel = DistributedDataParallel(compute_loss)
    nothing = torch.zeros(1, 1, dtype=torch.long, device=device)
    parallel(nothing, nothing).backward()
    return parallel
