"""How the weights move: the settings of a training, schedules of its rate, and optimizers.

To add a schedule, write a function of (step, config) and name it in SCHEDULES; to add an optimizer,
a function of (model, config), named in OPTIMIZERS.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from helpers.errors import ConfigError
from helpers.rules import SEED, SHARE, Rule, at_least, one_of, require, whole


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    `device` is "auto" (CUDA if there is one, else the CPU), "cpu", "cuda", "cuda:N" or "mps".
    ConfigError for a number out of range, an unknown name, windows out of order, and a device that
    isn't there.
    """

    batch_size: int  # windows in a batch
    max_steps: int  # updates
    eval_interval: int  # updates from one record to the next
    learning_rate: float = 1e-3  # at its highest
    min_learning_rate: float = 1e-4  # at the end
    warmup_steps: int = 100  # until the rate is at its highest
    schedule: str = "cosine"  # one of SCHEDULES
    decay: float = 0.2  # share of the steps, at the end, in which the schedule "stable" falls
    optimizer: str = "adamw"  # one of OPTIMIZERS
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.1
    muon_scale: float = 1.0  # Muon's rate is muon_scale * learning_rate
    muon_momentum: float = 0.95
    grad_clip: float = 1.0  # the longest gradient (0: any length)
    # ((0.7, 64),) cuts texts of 64 tokens for the first 70% of the steps.
    windows: tuple[tuple[float, int], ...] = ()
    accumulate: int = 1  # pieces of a batch, computed one after the other, to save memory
    bfloat16: bool = False  # on CUDA
    bfloat16_cpu: bool = False  # on a CPU that has instructions for it
    compile: bool = False  # on CUDA
    seed: int = 1
    device: str = "cpu"

    def __post_init__(self):
        object.__setattr__(self, "device", device_named(self.device))
        require(self, "batch_size max_steps eval_interval accumulate", whole(1, 1_000_000_000))
        require(self, "warmup_steps", whole(0, 1_000_000_000))
        require(self, "seed", SEED)
        require(self, "schedule", one_of(SCHEDULES))
        require(self, "optimizer", one_of(OPTIMIZERS))
        require(self, "decay", SHARE)
        above_zero = Rule(lambda x: x != 0 and at_least(0).allows(x), "a number above 0")
        require(self, "learning_rate", above_zero)
        require(self, "min_learning_rate weight_decay muon_scale grad_clip", at_least(0))
        require(self, "muon_momentum", at_least(0, below=1))
        require(self, "betas", Rule(are_betas, "two numbers of at least 0 and below 1"))
        require(self, "windows", Rule(are_windows, "pairs of a share of the steps and a length"))
        if list(self.windows) != sorted(self.windows):  # the first share that fits is taken
            raise ConfigError(f"windows must be in the order of their shares, not {self.windows}")


def are_betas(betas: Any) -> bool:
    return len(betas) == 2 and all(map(at_least(0, below=1).allows, betas))


def are_windows(windows: Any) -> bool:
    return isinstance(windows, (tuple, list)) and all(
        SHARE.allows(share) and whole(1).allows(length) for share, length in windows
    )


def device_named(name: Any) -> str:
    """The device of this name, the best one for "auto"; ConfigError when this machine has none."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).item()  # "meta" has no values
    except (RuntimeError, AssertionError, TypeError):
        raise ConfigError(f"this PyTorch has no device {name!r}: choose auto, cpu, cuda, cuda:N or mps") from None
    return name


# ---------------------------------------------------------------- schedules
def cosine(step: int, config: TrainConfig) -> float:
    """Linear warm-up, then a cosine down to the minimum at `max_steps` (nanoGPT's schedule)."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / (config.warmup_steps + 1)
    steps = max(1, config.max_steps - config.warmup_steps)
    progress = min(1.0, (step - config.warmup_steps) / steps)
    span = config.learning_rate - config.min_learning_rate
    return config.min_learning_rate + span * (1 + math.cos(math.pi * progress)) / 2


def warmup_stable_decay(step: int, config: TrainConfig) -> float:
    """Linear warm-up, a plateau, and over the last `decay` of the steps a line to the minimum.

    A cosine must know the end from the start, this one only when the decay begins (Hu et al. 2024,
    MiniCPM).
    """
    low, high = config.min_learning_rate, config.learning_rate
    warm = min(1.0, (step + 1) / (config.warmup_steps + 1))
    # 1 where the decay begins, 0 at the end:
    remaining = (config.max_steps - step) / (config.decay * config.max_steps)
    return min(high * warm, low + (high - low) * max(0.0, min(remaining, 1.0)))


SCHEDULES = {"cosine": cosine, "stable": warmup_stable_decay}


def rate_at(step: int, config: TrainConfig) -> float:
    """The rate of update number `step`, which counts from 0."""
    return SCHEDULES[config.schedule](step, config)


# ---------------------------------------------------------------- optimizers
def adamw(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW that decays matrices (embeddings too) and leaves biases and norms alone."""
    return _adamw(list(model.parameters()), config)


def _adamw(parameters: list[nn.Parameter], config: TrainConfig) -> torch.optim.AdamW:
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)


class Muon(torch.optim.Optimizer):
    """Each update is the orthogonal matrix nearest to the momentum (Jordan et al. 2024).

    The steps are those of torch.optim.Muon. They take less time, because matrices of one shape are
    stacked. Each matrix needs a gradient.
    """

    def __init__(self, params: list, weight_decay: float, momentum: float):
        super().__init__(params, {"lr": 1e-3, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for matrices in _of_one_shape(group["params"]):
                self._move(matrices, group["lr"], group["momentum"], group["weight_decay"])

    def _move(self, matrices: list[Tensor], rate: float, beta: float, weight_decay: float) -> None:
        gradients = [matrix.grad for matrix in matrices]
        for matrix in matrices:
            if "momentum" not in self.state[matrix]:
                self.state[matrix]["momentum"] = torch.zeros_like(matrix)
        momenta = [self.state[matrix]["momentum"] for matrix in matrices]
        # momentum = beta * momentum + (1 - beta) * gradient
        torch._foreach_lerp_(momenta, gradients, 1 - beta)
        nesterov = torch._foreach_lerp(gradients, momenta, beta)  # the momentum a step ahead
        moves = orthogonal(torch.stack(nesterov))
        rows, columns = matrices[0].shape
        # A tall matrix moves further, as Jordan has it.
        distance = rate * max(1, rows / columns) ** 0.5
        for matrix, move in zip(matrices, moves, strict=True):
            matrix.mul_(1 - rate * weight_decay).sub_(move, alpha=distance)


def _of_one_shape(matrices: list[Tensor]) -> list[list[Tensor]]:
    by_shape = defaultdict(list)
    for matrix in matrices:
        by_shape[matrix.shape].append(matrix)
    return list(by_shape.values())


def orthogonal(matrices: Float[Tensor, "N rows columns"]) -> Float[Tensor, "N rows columns"]:
    """Nearly orthogonal matrices, near the given ones: their singular values lie around 1.

    Five steps of Newton-Schulz, each x -> 3.4445 x - 4.7750 (x xT) x + 2.0315 (x xT)^2 x, with
    Jordan's coefficients; in bfloat16, as he has it, unless the processor only emulates it.
    """
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonal(matrices.mT).mT  # x @ x.T is smaller that way round
    emulated = matrices.device.type == "cpu" and not has_bfloat16()
    x = F.normalize(matrices if emulated else matrices.bfloat16(), dim=(1, 2))
    for _ in range(5):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        x = torch.baddbmm(x, polynomial, x, beta=3.4445)
    return x


def has_bfloat16() -> bool:
    """Whether the processor multiplies matrices in bfloat16; others only emulate it, and slowly."""
    capabilities = torch.cpu.get_capabilities()
    return any(has for name, has in capabilities.items() if name.endswith("bf16"))


class CombinedOptimizer:
    """Several optimizers as one."""

    def __init__(self, *optimizers: torch.optim.Optimizer):
        self.optimizers = optimizers

    @property
    def param_groups(self) -> list[dict]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def state_dict(self) -> list[dict]:
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, saved: list[dict]) -> None:
        for optimizer, state in zip(self.optimizers, saved, strict=True):
            optimizer.load_state_dict(state)


def muon_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices in the blocks, which Muon moves. All else is AdamW's."""
    return [p for p in model.blocks.parameters() if p.dim() == 2]


def muon_and_adamw(model: nn.Module, config: TrainConfig) -> CombinedOptimizer:
    """Muon, at `muon_scale` times the rate, for the matrices in the blocks; AdamW for all else."""
    matrices = muon_matrices(model)
    matrix_set = set(matrices)
    others = [p for p in model.parameters() if p not in matrix_set]
    groups = [{"params": matrices, "scale": config.muon_scale}]
    muon = Muon(groups, config.weight_decay, config.muon_momentum)
    return CombinedOptimizer(muon, _adamw(others, config))


Optimizer = torch.optim.Optimizer | CombinedOptimizer
OPTIMIZERS = {"adamw": adamw, "muon": muon_and_adamw}


def make_optimizer(model: nn.Module, config: TrainConfig) -> Optimizer:
    """The optimizer that the settings name, for all weights of the model."""
    return OPTIMIZERS[config.optimizer](model, config)
