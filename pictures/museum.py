"""What a museum room shows: faulty lines, healthy ones, and what the checks say of both."""

import copy
import inspect
from collections.abc import Callable
from statistics import fmean
from typing import Any

import torch
from matplotlib.colors import ListedColormap
from torch import Tensor

from helpers.rooms import museum_checks as checks
from helpers.rooms import museum_faults as faults
from helpers.rooms.museum_program import C as CHANNELS
from helpers.rooms.museum_program import H, L, Program, T
from helpers.tables import MEASURED, Line, read_table
from pictures import plotting

# The checks that ask for nothing but a model, its batches and its writing
FOR_YOURS = (
    "the target is the next letter",
    "the first loss is ln V",
    "one batch is learned by heart",
    "no letter sees the future",
    "a text means the same, however it goes on",
    "every parameter moves, and only matrices decay",
    "no two parameters start alike",
    "two exams give one mark, and training goes on as before",
    "the mark doesn't depend on the size of a batch",
    "one text knows nothing of the last one",
)
ROOMS: dict[int, type[Program]] = dict(
    enumerate(
        [
            faults.TooLargeForHalf,
            faults.EmptyRow,
            faults.LoudTable,
            faults.SoftmaxTwice,
            faults.NotShifted,
            faults.TurnedRound,
            faults.WrongAxis,
            faults.NoWayBack,
            faults.ClimbedOver,
            faults.WrongRoot,
            faults.MeanOfMeans,
            faults.SameDeck,
            faults.AlmostZero,
            faults.LastVisitor,
            faults.ByBatch,
            faults.NormsDecay,
            faults.AlwaysDrops,
            faults.WrongBothWays,
        ],
        start=1,
    )
)


def curve(room: int, updates: int = 300) -> None:
    """Print where the curves of a room's program and the healthy one end, for each seed."""
    for title, kind in (("this program", ROOMS[room]), ("healthy", Program)):
        ends = [line["loss"] for line in measured(kind, updates)]
        seeds = "  ".join(f"{end:.2f}" for end in ends)
        print(f"{title:14} {fmean(ends):6.2f}     seed by seed {seeds}")


def label(kind: type, seen: int = 18) -> str:
    """A program's name in a picture; none for rooms after the last `seen`, but the entrance's."""
    if kind is Program:
        return "healthy"
    if kind is ROOMS[18] and seen < 18:
        return "program B"
    if kind not in faults.FAULTS:
        return ""
    rooms = [room for room, fault in ROOMS.items() if fault is kind]
    name = "".join(
        f" {letter.lower()}" if letter.isupper() else letter for letter in kind.__name__
    ).strip()
    if not rooms:
        return f"storeroom: {name}"
    return f"room {rooms[0]}: {name}" if rooms[0] <= seen else ""


def measured(kind: type, updates: int = 300) -> list[Line]:
    """The lines of museum.csv about a program."""
    _, lines = read_table(MEASURED / "museum.csv")
    return [line for line in lines if (line["variant"], line["steps"]) == (kind.__name__, updates)]


def culprit(kind: type) -> None:
    """Print a fault's lines, the healthy ones they replace, and the checks' words on both."""
    parts = [
        name
        for name in vars(kind)
        if name in vars(Program) and not name.startswith("__") and name != "seen_by"
    ]
    for title, where in (("the fault", kind), ("the repair", Program)):
        print(title)
        for part in parts:
            print(inspect.getsource(vars(where)[part]).rstrip())
    said = checks.table([kind, Program])
    red = {name: sentence for name, sentence in said[kind.__name__].items() if sentence}
    print()
    for name, sentence in red.items():
        print(f"RED    {name}:\n       {sentence}")
    print(f"green  the other {len(checks.CHECKS) - len(red)}")
    print(
        f"       repaired: {sum(not it for it in said['Program'].values())} of {len(checks.CHECKS)} green"
    )


def infected(program: Program, kind: type) -> Program:
    """The same weights in the hands of a faulty program."""
    copied = copy.deepcopy(program)
    copied.__class__ = kind
    return copied


@torch.no_grad()
def first_weights(program: Program, tokens: Tensor, louder: float = 1.0) -> Tensor:
    """Attention weights (H, T, T) of the first block, with queries `louder` times as long."""
    real = torch.ones(1, len(tokens), dtype=torch.bool)
    block = program.blocks[0]
    x = program.normed(
        block.norm1, program.token(tokens[None]) + program.place(program.places(real))
    )
    query, key = (program.split(matrix(x)) for matrix in (block.query, block.key))
    return program.weights(program.scores(louder * query, key), program.allowed(real))[0]


def draw_table(said: dict[str, dict[str, str]], kinds: list[Any]) -> str:
    """Draw faults by checks, orange for red, a dot at the one a room names; return the alt text."""
    names = list(checks.CHECKS)
    rows = [[bool(said[kind.__name__][name]) for name in names] for kind in kinds]
    _, ax = plotting.figure(10, 0.27 * len(kinds) + 3)
    ax.imshow(
        rows, cmap=ListedColormap(["#8884", plotting.COLORS[1]]), aspect="auto", vmin=0, vmax=1
    )
    for y, kind in enumerate(kinds):
        ax.plot(
            names.index(kind.seen_by), y, "o", color="white", markersize=5, markeredgecolor="black"
        )
    ax.set_yticks(range(len(kinds)), [label(kind) for kind in kinds])
    ax.set_xticks(
        range(len(names)), names, rotation=60, ha="left", rotation_mode="anchor", fontsize=8
    )
    ax.xaxis.tick_top()
    ax.set_xticks([x - 0.5 for x in range(1, len(names))], minor=True)
    ax.set_yticks([y - 0.5 for y in range(1, len(kinds))], minor=True)
    ax.grid(which="minor", color="white", linewidth=1.5)
    ax.tick_params(which="both", length=0)
    seen = [sum(row) for row in rows]
    return (
        f"{len(kinds)} faults by {len(names)} checks. Each fault is seen by {min(seen)} to {max(seen)} of them, "
        f"{seen.count(1)} faults by one alone."
    )


# ---------------------------------------------------------------- the reader's own file
def program_of(MyGPT: Callable, my_batch: Callable, my_write: Callable) -> type[Program]:
    """A program made of the parts of a reader's file, for the checks of FOR_YOURS."""

    class Yours(Program):
        def __init__(self, V: int, seed: int = 0, dropout: float = 0.0):
            torch.nn.Module.__init__(self)
            torch.manual_seed(seed)
            self.V, self.dropout = V, dropout
            self.model = MyGPT(V, T, L, H, CHANNELS, dropout)

        def forward(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
            return self.model(tokens)

        def pairs(self, windows: Tensor) -> tuple[Tensor, Tensor]:
            starts = torch.arange(len(windows)) * windows.shape[1]
            return tuple(my_batch(windows.flatten(), starts, windows.shape[1] - 1))

        def write(self, prompt: Tensor, n: int, k: int = 8, seed: int = 0) -> Tensor:
            torch.manual_seed(seed)
            return my_write(self.model, prompt, n)

    return Yours
