"""The work of one update, shared: a batch in pieces, gradients that add up, and weights that are whole or cut.

Each process draws the whole batch and takes its own part of it, so the batches don't depend on the number of processes.
With DistributedDataParallel each one has all weights, with FSDP2 (`fully_shard`) each one keeps a slice of every
matrix, and gathers a block's matrices for as long as it computes with them.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float, Int64, Integer
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from helpers.core.optim import TrainConfig
from helpers.core.training import cross_entropy, evaluate, learn, loss_of, windows_side_by_side
from helpers.scaling.team import ALONE, Team
from helpers.support.errors import ConfigError
from helpers.support.modes import evaluating
from helpers.support.products import quick_products


class Sharing:
    """How a team shares an update: over its processes, over `accumulate` pieces in each, and with `fsdp` cut weights.

    The gradients are those of the whole batch, for parts of unequal length too. Each part draws its dropout with a seed
    of its own, so 4 processes give what 2 processes give in 2 pieces each, and one process in 4. ConfigError, from
    `check`, for a batch that is too small to be cut into as many parts.
    """

    def __init__(self, team: Team = ALONE, accumulate: int = 1, fsdp: bool = False):
        self.team = team
        self.accumulate = accumulate
        self.fsdp = fsdp and team.size > 1
        self.module: Any = None  # as PyTorch's engine wants it

    def __str__(self) -> str:
        processes = "one process" if self.team.size == 1 else f"{self.team.size} processes"
        weights = ", each with a part of the weights" if self.fsdp else ""
        pieces = f", batches in {self.accumulate} pieces" if self.accumulate > 1 else ""
        return processes + weights + pieces

    @property
    def parts(self) -> int:
        return self.team.size * self.accumulate

    def check(self, config: TrainConfig) -> None:
        if config.batch_size < self.parts:
            raise ConfigError(
                f"a batch of {config.batch_size} can't be cut into {self.parts} parts ({self}): "
                "take fewer, or a larger batch_size"
            )

    def wrap(self, model: nn.Module) -> nn.Module:
        """`model` as PyTorch's engine wants it. FSDP2 changes the model itself, and cuts its weights."""
        self.module = model
        if self.fsdp:
            cut(model, self.team.size)
        elif self.team.size > 1:
            self.module = with_equal_gradients(model)
        return self.module

    def settings(self, config: TrainConfig) -> TrainConfig:
        """The settings of the loop. Cut weights are not rounded to bfloat16 on a CPU, where they are only rehearsed."""
        return replace(config, bfloat16_cpu=False) if self.fsdp else config

    def learn(self, forward: Callable[..., Any], x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, ""]:
        """For `updates`: the loss of the whole batch, of which this process computes its part of the gradients."""
        if self.parts == 1:
            return learn(forward, x, y)
        first = self.team.rank * self.accumulate
        mine = range(first, first + self.accumulate)
        texts, answers = x.tensor_split(self.parts), y.tensor_split(self.parts)
        seeds = torch.randint(2**62, (self.parts,)).tolist()  # by the generator of the dropout, in step everywhere
        loss = torch.zeros((), device=x.device)
        for part in mine:
            with self._in_step(part == mine[-1]), dropout_seed(seeds[part], x.device):
                share = loss_of(forward, texts[part], answers[part], reduction="sum") / y.numel()
                (share * self.team.size).backward()  # the engine takes the mean over the processes
            loss += share.detach()
        return self.team.total(loss)

    @torch.no_grad()
    def evaluate(self, model: nn.Module, tokens: Integer[Tensor, "N"], context_length: int) -> float:
        """What core's `evaluate` gives, but for rounding; each process computes its share of the windows."""
        if self.team.size == 1:
            return evaluate(model, tokens, context_length)
        pieces = windows_side_by_side(tokens, context_length)
        total = torch.zeros((), dtype=torch.float64, device=tokens.device)
        with evaluating(model), quick_products():
            while turns := list(islice(pieces, self.team.size)):
                is_mine = self.team.rank < len(turns)
                x, y = turns[self.team.rank if is_mine else 0]  # with cut weights, nobody may leave out a pass
                total += is_mine * cross_entropy(model(x), y, reduction="sum")
        return self.team.total(total).item() / (len(tokens) - 1)

    def _in_step(self, last: bool) -> AbstractContextManager:
        """The processes exchange their gradients once, at the last piece."""
        if self.fsdp:
            self.module.set_requires_gradient_sync(last)
        elif isinstance(self.module, DistributedDataParallel) and not last:
            return self.module.no_sync()
        return nullcontext()


def with_equal_gradients(model: nn.Module) -> DistributedDataParallel:
    """`model`, with the mean of all processes' gradients in each.

    DistributedDataParallel sorts gradients into packets, in the order in which they come the first time. A pass for
    nothing lets it do so before the first update. Otherwise the first update of a run that goes on would add its
    gradients in another order, round differently, and not end as the undisturbed run, to the last bit.
    """
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # broadcast_buffers has a new name in 2.13
        wrapped = DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    wrapped.config = model.config
    device = next(model.parameters()).device
    with dropout_seed(0, device):
        wrapped(torch.zeros(1, 1, dtype=torch.long, device=device)).sum().backward()
    model.zero_grad()
    return wrapped


def cut(model: nn.Module, processes: int) -> None:
    """Leave each process a slice of every matrix (PyTorch's `fully_shard`, block by block)."""
    from torch.distributed.device_mesh import init_device_mesh  # half a second, which only this takes
    from torch.distributed.fsdp import fully_shard

    warnings.filterwarnings("ignore", "FSDP2-wrapped module")  # nothing is added to the logits in place
    mesh = init_device_mesh(next(model.parameters()).device.type, (processes,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


@contextmanager
def dropout_seed(seed: int, device: torch.device) -> Iterator[None]:
    """Inside, dropout is drawn from `seed`; afterwards the generators go on as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def whole(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors in one piece: those that FSDP2 has cut are gathered, in memory of the CPU, and only for the leader."""
    return {name: gather(tensor) for name, tensor in tensors.items()}


def is_cut(tensor: Tensor) -> bool:
    return hasattr(tensor, "full_tensor")  # a DTensor has it


def gather(tensor: Tensor) -> Tensor:
    if not is_cut(tensor):
        return tensor
    full = tensor.full_tensor()
    return full.to("cpu", copy=True) if torch.distributed.get_rank() == 0 else full.new_empty(0)


def cut_like(full: Tensor, own: Tensor) -> Tensor:
    """`full` as `own` is kept: cut, if that is cut."""
    if not is_cut(own):
        return full
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(full.to(own.device), own.device_mesh, own.placements, src_data_rank=None)
