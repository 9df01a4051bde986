"""Take the times that the sources make claims about, side by side; store their ratios.

python -m tools.studies times            at GPT-2's width
python -m tools.studies times --quick    small sizes, only printed: to see that it works
"""

import platform
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from helpers.attention import CausalAttention, MultiHeadAttention
from helpers.commands import Options, say
from helpers.files import write
from helpers.gpt import one_thread
from helpers.tables import MEASURED, Line, csv_table
from tools.studies.claims import make_heads_full_width
from tools.studies.header import header

Race = tuple[str, Callable, str, Callable]  # ours by name, ours, the rival by name, the rival


# ---------------------------------------------------------------- measuring
def race(ours: Callable, theirs: Callable, rounds: int, clock: Callable[[], float] = time.process_time) -> Line:
    """Call ours, theirs, ours, theirs, ...: the ratio of medians, and the range of the rounds' own.

    One more round comes first, for caches and imports, and doesn't count. The clock counts the
    processor's seconds, for others may be at work on the same machine.
    """
    durations: tuple[list[float], list[float]] = ([], [])
    for _ in range(1 + rounds):
        for run, seconds in zip((ours, theirs), durations, strict=True):
            start = clock()
            run()
            seconds.append(clock() - start)
    times, their_times = durations[0][1:], durations[1][1:]
    ratios = [a / b for a, b in zip(times, their_times, strict=True)]
    line = {
        "ratio": median(times) / median(their_times),
        "low": min(ratios),
        "high": max(ratios),
        "seconds": median(times),
        "their_seconds": median(their_times),
    }
    return {name: float(f"{value:.4g}") for name, value in line.items()} | {"rounds": rounds}


# ---------------------------------------------------------------- softmax, written out
def by_definition(scores: Tensor) -> Tensor:
    """The formula as it stands: it overflows from scores of 89 on."""
    powers = scores.exp()
    return powers / powers.sum(dim=-1, keepdim=True)


def less_the_largest(scores: Tensor) -> Tensor:
    """The same for any scores: no power is above 1."""
    return by_definition(scores - scores.amax(dim=-1, keepdim=True))


def softmax_races(quick: bool) -> Iterator[Race]:
    for T in (8,) if quick else (256, 1024):
        scores = torch.randn(12, T, T)
        library = partial(torch.softmax, scores, dim=-1)
        for name, softmax in (
            ("softmax by its definition", by_definition),
            ("softmax less the largest", less_the_largest),
        ):
            yield f"{name}, 12 heads, T {T}", partial(softmax, scores), "torch.softmax", library


# ---------------------------------------------------------------- loops
def loop_races(quick: bool) -> Iterator[Race]:
    """The book's six words of three numbers: 36 dot products."""
    words = torch.randn(6, 3)

    def in_loops() -> Tensor:
        return torch.stack([torch.stack([one.dot(other) for other in words]) for one in words])

    yield "36 dot products in two loops", in_loops, "one product", lambda: words @ words.T


# ---------------------------------------------------------------- heads
def both_passes(forward: Callable[[Tensor], Tensor], layer: nn.Module, x: Tensor) -> Callable:
    """Forward and backward, to the input and the weights."""
    return lambda: torch.autograd.grad(forward(x).sum(), [x, *layer.parameters()])


def written_out(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """What `layer` computes, (B, T, C) -> (B, T, C), with weights that are stored."""
    output, _ = layer(x, return_weights=True)
    return output


def heads_races(quick: bool) -> Iterator[Race]:
    """Several heads of C / H beside one of C, as the GPT computes them and written out."""
    T, C = (8, 48) if quick else (256, 768)
    x = torch.randn(1, T, C, requires_grad=True)
    one = MultiHeadAttention(C, C, T, 0.0, num_heads=1, out_bias=False)
    for H in (4, 12, 16):
        several = MultiHeadAttention(C, C, T, 0.0, num_heads=H, out_bias=False)
        yield (
            f"{H} heads, T {T}, C {C}",
            both_passes(several, several, x),
            "one head",
            both_passes(one, one, x),
        )
        in_steps = [partial(written_out, layer) for layer in (several, one)]
        yield (
            f"{H} heads, written out, T {T}, C {C}",
            both_passes(in_steps[0], several, x),
            "one head, written out",
            both_passes(in_steps[1], one, x),
        )


def full_width_races(quick: bool) -> Iterator[Race]:
    """Heads as wide as the model beside heads that share its width."""
    for T, C, H in ((8, 8, 2),) if quick else ((32, 64, 4), (256, 768, 12)):
        x = torch.randn(1, T, C, requires_grad=True)
        shared = MultiHeadAttention(C, C, T, 0.0, H, out_bias=False)
        wide = MultiHeadAttention(C, C, T, 0.0, H, out_bias=False)
        make_heads_full_width(wide)
        yield (
            f"{H} full-width heads, T {T}, C {C}",
            both_passes(wide, wide, x),
            f"{H} heads of {C // H}",
            both_passes(shared, shared, x),
        )


class StackedHeads(nn.Module):
    """Heads with projections of their own, put side by side: (B, T, C) -> (B, T, C)."""

    def __init__(self, C: int, T: int, H: int):
        super().__init__()
        self.heads = nn.ModuleList(CausalAttention(C, C // H, T, 0.0) for _ in range(H))
        self.out_proj = nn.Linear(C, C, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out_proj(torch.cat([head(x) for head in self.heads], dim=-1))


def splitting_races(quick: bool) -> Iterator[Race]:
    """StackedHeads heads beside one layer whose projections are split, both written out."""
    for T, C, H in ((8, 8, 2),) if quick else ((32, 64, 4), (256, 768, 12)):
        x = torch.randn(1, T, C, requires_grad=True)
        stacked = StackedHeads(C, T, H)
        split = MultiHeadAttention(C, C, T, 0.0, H, out_bias=False)
        yield (
            f"{H} stacked heads, T {T}, C {C}",
            both_passes(stacked, stacked, x),
            "split ones",
            both_passes(partial(written_out, split), split, x),
        )


def recurrent_races(quick: bool) -> Iterator[Race]:
    """A GRU beside a layer of attention, forward and backward."""
    C = 8 if quick else 64
    for T in (8,) if quick else (16, 64, 256, 1024):
        x = torch.randn(1, T, C, requires_grad=True)
        gru = nn.GRU(C, C, batch_first=True)
        layer = MultiHeadAttention(C, C, T, 0.0, num_heads=1, out_bias=False)

        def recurrent(x: Tensor, gru: nn.GRU = gru) -> Tensor:
            return gru(x)[0]

        yield f"a GRU, T {T}, C {C}", both_passes(recurrent, gru, x), "attention", both_passes(layer, layer, x)


# ---------------------------------------------------------------- the command
RACES = (softmax_races, loop_races, heads_races, splitting_races, full_width_races, recurrent_races)


def processor() -> str:
    """Its name, where the system knows it."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux; elsewhere Python knows the name
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    match = re.search(r"model name\s*: (.+)", text)
    return match[1] if match else platform.processor()


@one_thread()
def main(arguments: list[str]) -> None:
    parser = Options(prog="python -m tools.studies times", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, only printed")
    options = parser.parse_args(arguments)
    comments = [*header("times", processor(), "1 thread"), "seconds of processor time, medians of the rounds"]
    lines = []
    for races in RACES:
        torch.manual_seed(1)
        for ours, run_ours, theirs, run_theirs in races(options.quick):
            result = race(run_ours, run_theirs, 2 if options.quick else 25)
            lines.append({"ours": ours, "theirs": theirs, **result})
            say(f"{ours} / {theirs}: {result['ratio']:.3g} ({result['low']:.3g} to {result['high']:.3g})")
    if not options.quick:
        write(MEASURED / "times.csv", csv_table(lines, comments))
