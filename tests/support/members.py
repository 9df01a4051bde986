"""Teams of processes for tests: forks of this one, which has PyTorch already, connected by gloo."""

import multiprocessing
import tempfile
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # an optimizer imports it at its first step: before a fork, only this process waits
import torch.distributed as dist


def together(size: int, work: Callable[[], Any], seconds: float = 60) -> list[Any]:
    """What `work` returns in each process of a team, by rank.

    AssertionError with the traceback of one that fails.
    """
    forks = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        members = [forks.Process(target=_take_part, args=(rank, size, Path(folder), work)) for rank in range(size)]
        # Pytest has threads, which rest.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            for member in members:
                member.start()
        for member in members:
            member.join(seconds)
            member.kill()
        for error in Path(folder).glob("error *"):
            raise AssertionError(error.read_text())
        return [torch.load(f"{folder}/{rank}", weights_only=False) for rank in range(size)]


def _take_part(rank: int, size: int, folder: Path, work: Callable[[], Any]) -> None:
    torch.set_num_threads(1)  # a fork lacks OpenMP's other threads, and would wait for them
    try:
        timeout = timedelta(seconds=20)
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/store",
            rank=rank,
            world_size=size,
            timeout=timeout,
        )
        torch.save(work(), folder / str(rank))
        dist.destroy_process_group()
    except BaseException:
        (folder / f"error {rank}").write_text(traceback.format_exc())
