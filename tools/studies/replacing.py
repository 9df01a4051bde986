"""Lesson 07's study of the residual path: layers that replace what they read, given a better start."""

import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from helpers import tables, telegrams
from helpers.attention import attention
from helpers.gpt import one_thread
from helpers.rooms.study import SyntheticStudy
from helpers.rooms.towers import PAGE
from helpers.tables import Line
from helpers.telegrams import WIDTH

BATCH = 32  # pages of a step
ROOT3 = 3**0.5


class Towers(nn.Module):
    """Lesson 07's `tower(layers, adds)`, N of them side by side: (N, B, 7, 96) -> (N, B, 32)."""

    def __init__(self, layers: int, adds: bool, networks: int):
        super().__init__()
        self.adds = adds
        inwards, outwards = (layers, networks, PAGE, WIDTH), (layers, networks, WIDTH, PAGE)
        self.query, self.key, self.value = (as_pytorch_draws(inwards) for _ in range(3))
        self.out = as_pytorch_draws(outwards)

    def stream(self, x: Float[Tensor, "N B 7 96"]) -> Float[Tensor, "N B 7 96"]:
        """What the layers make of pages."""
        for query, key, value, out in zip(self.query, self.key, self.value, self.out, strict=True):
            found, _ = attention(times(x, query), times(x, key), times(x, value))
            x = x + times(found, out) if self.adds else times(found, out)
        return x

    def forward(self, x: Float[Tensor, "N B 7 96"]) -> Float[Tensor, "N B 32"]:
        return self.stream(x)[:, :, -1, WIDTH : 2 * WIDTH]


def as_pytorch_draws(shape: tuple[int, ...]) -> nn.Parameter:
    """What nn.Linear starts with, in each matrix by itself: even between ± 1 / √(numbers that come in)."""
    return nn.Parameter((2 * torch.rand(shape) - 1) / shape[-2] ** 0.5)


def times(x: Float[Tensor, "N B T C"], matrices: Float[Tensor, "N C D"]) -> Float[Tensor, "N B T D"]:
    return (x.flatten(1, 2) @ matrices).unflatten(1, x.shape[1:3])


@torch.no_grad()
def larger(towers: Towers) -> None:
    """√3 larger values and output matrices: numbers that come in and that come out are of one size."""
    towers.value *= ROOT3
    towers.out *= ROOT3


@torch.no_grad()
def handing_on(towers: Towers) -> None:
    """Each layer brings back 32 of its 96 numbers (turned at random) as they were, all layers the same."""
    turned = torch.linalg.qr(torch.randn(towers.value.shape[1:])).Q  # (N, 96, 32)
    towers.value[:] = turned
    towers.out[:] = turned.mT


@torch.no_grad()
def own_line(towers: Towers) -> None:
    """As `handing_on`, and nearly all of each line's weight is on itself: a layer changes little."""
    handing_on(towers)
    towers.query[:] = towers.key[:] = 8 * towers.value


STARTS: dict[str, Callable[[Towers], object]] = {
    "PyTorch's": lambda towers: None,
    "larger": larger,
    "handing on": handing_on,
    "own line": own_line,
}


def pages(question: str, networks: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """For each of N networks n pages (N, n, 7, 96) and their answers (N, n)."""
    (x,), answers = telegrams.page(question, networks * n, generator)
    return x.unflatten(0, (networks, n)), answers.view(networks, n)


@torch.no_grad()
def right(towers: Towers, question: str) -> Float[Tensor, "N"]:
    """The share of 1,000 new pages that each answers rightly."""
    networks = towers.value.shape[1]
    x, answers = pages(question, networks, 1000, torch.Generator().manual_seed(1_000_000))
    return (telegrams.nearest_words(towers(x)) == answers).float().mean(dim=1)


def at_the_start(towers: Towers) -> Line:
    """By how much the lines of a page differ at the top, as a share of their size; how large the stream
    is there, and a gradient at the bottom, as shares of what went in. Medians of the networks.
    """
    x, _ = pages("give", towers.value.shape[1], 100, torch.Generator().manual_seed(2))
    x.requires_grad_()
    top = towers.stream(x)
    gradient = torch.randn(top.shape, generator=torch.Generator().manual_seed(3))
    (bottom,) = torch.autograd.grad(top, x, gradient)

    def size(numbers: Tensor) -> Tensor:
        return numbers.flatten(start_dim=1).norm(dim=1)

    shares = {
        "differ": size(top - top.mean(dim=2, keepdim=True)) / size(top),
        "size": size(top) / size(x),
        "gradient": size(bottom) / size(gradient),
    }
    return {name: float(f"{share.median():.3g}") for name, share in shares.items()}


class Networks(NamedTuple):
    """Trainings of several networks, side by side."""

    question: str
    layers: int
    networks: int  # each with numbers and pages of its own
    adds: bool
    start: str
    rate: float
    steps: int


class Replacing(SyntheticStudy):
    """What layers that replace learn with a better start, with more steps, and in higher towers."""

    run_type = Networks

    def budget(self) -> str:
        return (
            f"the towers of notebook 07, some side by side, each with its own numbers and pages, {BATCH} a step, Adam; "
            "the percentage that each has right of 1,000 new pages after 100 steps, 300 and 1,000"
        )

    def plan(self, lines: Iterable[Line]) -> list[Networks]:
        rates = (0.003, 0.00075, 0.012)
        untouched, scaled, handing, own = [(False, start) for start in STARTS]
        adding = (True, "PyTorch's")
        slow = [Networks("give", 6, 8, *how, rate, 1000) for how in (untouched, scaled) for rate in rates]
        slow.append(Networks("give", 6, 8, *untouched, 0.0002, 1000))
        quick = [Networks("give", 6, 8, *how, rate, 300) for how in (adding, handing, own) for rate in rates]
        high = [
            Networks("give", layers, 4, *how, rate, 300)
            for layers in (12, 24)
            for how in (scaled, own, adding)
            for rate in rates[:2]
        ]
        deep = [
            Networks("give", layers, 4, *how, rate, 1000)
            for layers in (12, 24)
            for how in (untouched, scaled, own)
            for rate in (0.00075, 0.0002)
        ]
        following = [Networks("next", 6, 4, *how, 0.00075, 1000) for how in (untouched, scaled)]
        return slow + quick + high + deep + [*following, Networks("next", 6, 4, *adding, 0.003, 300)]

    @one_thread()
    def measure(self, run: Networks) -> Line:
        start = time.process_time()
        torch.manual_seed(0)
        towers = Towers(run.layers, run.adds, run.networks)
        STARTS[run.start](towers)
        line = {**run._asdict(), **at_the_start(towers), "right_100": "", "right_300": "", "right_1000": ""}
        optimizer = torch.optim.Adam(towers.parameters(), lr=run.rate, fused=True)
        generator = torch.Generator().manual_seed(0)
        for step in range(1, run.steps + 1):
            x, answers = pages(run.question, run.networks, BATCH, generator)
            logits = telegrams.SHARPNESS * towers(x) @ telegrams.VECTORS.T
            # Of all networks together: each learns as if it were alone
            loss = run.networks * F.cross_entropy(logits.flatten(0, 1), answers.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step in (100, 300, 1000):
                line[f"right_{step}"] = percentages(right(towers, run.question))
        return {**line, "seconds": round(time.process_time() - start, 1)}

    def report(self, lines: Iterable[Line]) -> str:
        """By setting: what it starts with, and the worst, the median and the best network."""
        rows = []
        for line in lines:
            row = [
                line["question"],
                str(line["layers"]),
                str(line["networks"]),
                "adds" if line["adds"] else "replaces",
                line["start"],
            ]
            row += [f"{line[name]:g}" for name in ("rate", "differ", "size", "gradient")]
            for steps in (100, 300, 1000):
                found = [int(share) for share in str(line[f"right_{steps}"]).split()]
                row.append(f"{min(found)} {median(found):.0f} {max(found)}" if found else "")
            rows.append(row)
        heads = [
            "question",
            "layers",
            "networks",
            "each",
            "start",
            "rate",
            "differ",
            "size",
            "gradient",
            "100",
            "300",
            "1,000",
        ]
        return tables.table(heads, rows)


def percentages(shares: Float[Tensor, "N"]) -> str:
    return " ".join(f"{100 * share:.0f}" for share in shares.tolist())
