"""Take the times that the sources make claims about, side by side; store their ratios.

python -m tools.studies.times            at GPT-2's width
python -m tools.studies.times --quick    small sizes, only printed: to see that it works
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention
from helpers.errors import Options, command, say, write
from helpers.gpt import one_thread
from helpers.rooms.claims import make_heads_full_width
from helpers.tables import MEASURED, csv_table
from tools.bench import Race, about, in_the_way, race, written_out


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
        for name, ours in (
            ("softmax by its definition", by_definition),
            ("softmax less the largest", less_the_largest),
        ):
            yield f"{name}, 12 heads, T {T}", partial(ours, scores), "torch.softmax", library


# ---------------------------------------------------------------- heads
def both_passes(forward: Callable[[Tensor], Tensor], layer: nn.Module, x: Tensor) -> Callable:
    """Forward and backward, to the input and the weights."""
    return lambda: torch.autograd.grad(forward(x).sum(), [x, *layer.parameters()])


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
        in_steps = [partial(in_the_way, written_out, layer) for layer in (several, one)]
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


RACES = (softmax_races, heads_races, full_width_races)


@one_thread()
def main(arguments: list[str]) -> None:
    parser = Options(prog="python -m tools.studies.times", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, only printed")
    told = parser.parse_args(arguments)
    comments = [*about(parser.prog), "seconds of processor time, medians of the rounds"]
    lines = []
    for races in RACES:
        torch.manual_seed(1)
        for ours, run_ours, theirs, run_theirs in races(told.quick):
            # A processor's seconds, for others may be at work on the same machine.
            found = race(run_ours, run_theirs, 2 if told.quick else 25, time.process_time)
            lines.append({"ours": ours, "theirs": theirs, **found})
            say(f"{ours} / {theirs}: {found['ratio']:.3g} ({found['low']:.3g} to {found['high']:.3g})")
    if not told.quick:
        write(MEASURED / "times.csv", csv_table(lines, comments))


if __name__ == "__main__":
    sys.exit(command(main))
