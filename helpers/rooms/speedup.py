"""How much faster several processes make one update than one of them alone.

torchrun --nproc-per-node 2 -m helpers.rooms.speedup --out speedup.csv    # of 2 processes; some minutes
"""

import argparse
import csv
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

from helpers import errors, team
from helpers.gpt import GPT, GPTConfig, count_parameters
from helpers.optim import TrainConfig, adamw
from helpers.training import Loss

V, T, B = 65, 64, 12  # letters, context and batch of the preset "laptop"
WIDTHS = (32, 64, 96, 128, 192)  # of models of four layers; laptop has 128


def main(arguments: list[str] | None = None) -> int:
    return errors.command(_command, arguments)


def _command(arguments: list[str]) -> None:
    """Print a line of JSON for each width, and with --out store a table: what `measured` returns."""
    parser = errors.Options(prog="torchrun ... -m helpers.rooms.speedup", description=__doc__)
    parser.add_argument(
        "--widths", type=int, nargs="+", default=list(WIDTHS), help="of the models, multiples of 4"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="of each measurement, of which the median counts"
    )
    parser.add_argument("--repeat", type=int, default=1, help="how often to measure all of it")
    parser.add_argument("--out", type=Path, help="a table, as CSV")
    told = parser.parse_args(arguments)
    with team.connected(60):
        lines = []
        for _ in range(told.repeat):
            for width in told.widths:
                found = measured(GPTConfig(V, T, n_layer=4, n_head=4, n_embd=width), told.rounds)
                if team.is_leader():
                    errors.say(json.dumps(found))
                lines.append(found)
        if team.is_leader() and told.out:
            _store(told, lines)


def _store(told: argparse.Namespace, lines: list[dict[str, float]]) -> None:
    system = f"Python {platform.python_version()}, torch {torch.__version__}, {platform.system()} {platform.machine()}"
    with told.out.open("w", encoding="utf-8", newline="") as file:
        file.write(
            f"# made by: torchrun --nproc-per-node {team.size()} -m helpers.rooms.speedup "
            f"--rounds {told.rounds} --repeat {told.repeat}, {time.strftime('%Y-%m-%d')}, with nothing else at work\n"
            f"# {system}, {os.cpu_count()} virtual cores, 1 thread a process\n"
        )
        writer = csv.DictWriter(file, lines[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            line | {name: f"{line[name]:.4g}" for name in list(line)[1:]} for line in lines
        )


def measured(config: GPTConfig, rounds: int) -> dict[str, float]:
    """Seconds of one update of a batch, and of what it consists of, each the median of some rounds.

    `alone` by one process, while the others wait; `shared` by all of them. `half` is the gradient
    of a process's part of the batch, when it computes alone, `both` when all do; `update` is
    AdamW's, `send` an all-reduce of as many numbers as the gradient has.
    """
    torch.manual_seed(1)
    x, y = torch.randint(V, (2, B, T))
    model = GPT(config)
    optimizer = adamw(model, TrainConfig(batch_size=B, max_steps=1, eval_interval=1))
    gradient = torch.zeros(count_parameters(model))
    rank, processes = team.rank(), team.size()
    alone = Loss(model)
    shared = team.with_equal_gradients(alone, "cpu")
    part = slice(rank * B // processes, (rank + 1) * B // processes)

    def update(loss_of: torch.nn.Module, part: slice) -> None:
        optimizer.zero_grad()
        loss_of(x[part], y[part]).backward()
        optimizer.step()

    def learn_a_part() -> None:
        alone(x[part], y[part]).backward()

    return {
        "parameters": len(gradient),
        "alone": _seconds(lambda: update(alone, slice(B)), rounds, together=False),
        "shared": _seconds(lambda: update(shared, part), rounds),
        "half": _seconds(learn_a_part, rounds, together=False),
        "both": _seconds(learn_a_part, rounds),
        "update": _seconds(optimizer.step, rounds),
        "send": _seconds(lambda: dist.all_reduce(gradient), rounds),
    }


def _seconds(work: Callable[[], object], rounds: int, together: bool = True) -> float:
    """Median seconds of the work, done by all at once or by the leader while others wait."""
    taken = []
    for _ in range(rounds + 2):  # the first two warm up
        dist.barrier()
        start = time.perf_counter()
        if together or team.is_leader():
            work()
        taken.append(time.perf_counter() - start)
    return median(taken[2:])


if __name__ == "__main__":
    raise SystemExit(main())
