"""What a museum room shows: its drawing, the line that was changed, and what the checks say."""

import ast
import copy
import difflib
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.gpt import GPT, GPTConfig
from helpers.rooms import museum_checks as checks
from helpers.rooms import museum_curves as curves
from helpers.rooms import museum_faults as faults
from helpers.rooms.museum_program import C as CHANNELS
from helpers.rooms.museum_program import H, L, Program, T
from helpers.sampling import generate
from helpers.tables import MEASURED, Line, read_table
from pictures import plotting

BLUE, ORANGE, GREEN = plotting.COLORS[:3]
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
ROOMS: dict[int, type[Program]] = {
    1: faults.TooLargeForHalf,
    2: faults.LoudTable,
    3: faults.SoftmaxTwice,
    4: faults.NotShifted,
    5: faults.TurnedRound,
    6: faults.WrongAxis,
    7: faults.NoWayBack,
    8: faults.ClimbedOver,
    9: faults.AlmostZero,
    10: faults.WrongBothWays,
}
GALLERY: dict[str, type[Program]] = {
    "a": faults.EmptyRow,
    "b": faults.WrongRoot,
    "c": faults.MeanOfMeans,
    "d": faults.SameDeck,
    "e": faults.ByBatch,
    "f": faults.NormsDecay,
    "g": faults.AlwaysDrops,
    "encore": faults.LastVisitor,
}
LOOKS = {
    "1. the first loss": ["the first loss is ln V"],
    "2. one batch, by heart": [
        "one batch is learned by heart",
        "every parameter moves, and only matrices decay",
        "a new update forgets the last one's gradients",
    ],
    "3. the pairs": [
        "the target is the next letter",
        "every step and every worker reads other pages",
    ],
    "4. the future, to the last bit": [
        "no letter sees the future",
        "no letter sees the future, however large the scores",
    ],
    "5. training against writing": [
        "a text means the same, however it goes on",
        "what is cut off never comes",
        "one text knows nothing of the last one",
    ],
    "6. what must hold, in numbers": [
        "weights of a row add up to 1",
        "scores have size 1",
        "it runs in half precision",
        "gradients are numbers, also of padded and of empty texts",
        "no two parameters start alike",
    ],
    "7. the same in another way": [
        "a text alone is the same text padded in a batch",
        "a batch in pieces is the batch",
        "two exams give one mark, and training goes on as before",
        "the mark doesn't depend on the size of a batch",
    ],
}


# ---------------------------------------------------------------- what is printed
def measured(kind: type, updates: int = 300) -> list[Line]:
    """The lines of museum.csv about a program."""
    _, lines = read_table(MEASURED / "museum.csv")
    return [line for line in lines if (line["variant"], line["steps"]) == (kind.__name__, updates)]


def curve(room: int) -> None:
    """Print where the curves of a room's program and the healthy one end, for each seed."""
    for title, kind in (("this program", ROOMS[room]), ("healthy", Program)):
        ends = [line["loss"] for line in measured(kind)]
        seeds = "  ".join(f"{end:.2f}" for end in ends)
        print(f"{title:14} {fmean(ends):6.2f}     seed by seed {seeds}")


def culprit(kind: type[Program]) -> None:
    """Print the lines that a fault (−) and its repair (+) don't share, and what the checks say."""
    lines(kind)
    checked(kind)


def lines(kind: type[Program]) -> None:
    """The lines alone."""
    for part in vars(kind):
        if part not in vars(Program) or part.startswith("__") or part == "seen_by":
            continue
        print(f"in `{part}`")
        fault, repair = (_body(vars(owner)[part]) for owner in (kind, Program))
        for line in difflib.ndiff(fault, repair):
            if line[0] in "+-":
                print(f"  {line}")


def checked(kind: type[Program]) -> None:
    """The checks alone: what the check says that sees the fault, or all of them where none is named."""
    results = checks.table([kind])[kind.__name__]
    red = {name: sentence for name, sentence in results.items() if sentence}
    for name in sorted(red, key=lambda name: name != kind.seen_by):
        why = f":\n       {red[name]}" if kind.seen_by in ("", name) else ""
        print(f"RED    {name}{why}")
    print(f"green  the other {len(checks.CHECKS) - len(red)}")


def _body(method: Callable) -> list[str]:
    """The statements of a method, without its comments and its docstring."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(method))).body
    assert isinstance(function, ast.FunctionDef)
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return [line for statement in body for line in ast.unparse(statement).splitlines()]


def by_look() -> None:
    """Print all checks, grouped by the seven looks, with the rooms in which each goes red."""
    places = {kind: str(room) for room, kind in (ROOMS | GALLERY).items()}
    results = checks.table([Program, *places])
    assert not any(results["Program"].values())
    for look, names in LOOKS.items():
        print(look)
        for name in names:
            red = [place for kind, place in places.items() if results[kind.__name__][name]]
            print(f"   {name:58}{' '.join(red) or '-'}")


# ---------------------------------------------------------------- what is drawn
def bits() -> None:
    """Three kinds of numbers as boxes, a bit each, and the largest number of each kind."""
    kinds = {
        "32 bits": (8, 23, "3.4 · 10³⁸"),
        "bfloat16": (8, 7, "3.4 · 10³⁸"),
        "half precision": (5, 10, f"{torch.finfo(torch.float16).max:,.0f}"),
    }
    _, ax = plotting.figure(9, 1.9)
    for y, (exponent, fraction, largest) in enumerate(kinds.values()):
        colors = [GREEN] + [ORANGE] * exponent + [BLUE] * fraction
        for x, color in enumerate(colors):
            ax.add_patch(Rectangle((x, y - 0.35), 0.88, 0.7, color=color, alpha=0.6, linewidth=0))
        ax.text(len(colors) + 0.4, y, f"up to {largest}", va="center")
    ax.set_yticks(range(3), kinds)
    ax.set(xlim=(-0.3, 44), ylim=(2.6, -0.6), xticks=[])
    plotting.bare(ax)
    plotting.show(
        "Three rows of boxes, one for the sign, some for the exponent, the rest for the digits. Numbers "
        "of 32 bits and bfloat16 have eight bits of exponent and go up to 3.4 · 10³⁸; half precision has "
        "five, and ends at 65,504."
    )


@torch.no_grad()
def guesses(programs: Mapping[str, Program], prompt: Tensor, vocabulary: Sequence[str]) -> None:
    """What fresh programs expect behind a prompt (t,): a bar for each of the V letters."""
    _, axes = plotting.figure(10, 2.6, columns=len(programs))
    phrases = []
    for ax, (title, program) in zip(axes, programs.items(), strict=True):
        chances = program.eval()(prompt[None])[0, -1].softmax(dim=-1)
        best = int(chances.argmax())
        ax.bar(range(len(chances)), chances, color=[BLUE] * len(chances), width=0.9)
        ax.set(title=title, ylim=(0, 1.08), xticks=[], xlabel=f"{len(chances)} letters")
        if chances[best] > 0.5:
            ax.text(best, chances[best], f" {vocabulary[best]}", va="bottom", ha="center")
        phrases.append(f"{title}: at most {chances[best]:.2f}, for {vocabulary[best]!r}")
    plotting.show(f"Bars for the chances of the letters. {'; '.join(phrases)}.")


def floor(V: int) -> None:
    """A perfect answer's chances behind one softmax, and behind a second one."""
    perfect = 1000 * F.one_hot(torch.tensor(V // 2), V).float()
    _, axes = plotting.figure(10, 2.4, columns=2)
    once = perfect.softmax(dim=-1)
    for ax, title, chances in zip(axes, ("one softmax", "and another"), (once, once.softmax(dim=-1)), strict=True):
        ax.bar(range(V), chances, color=[ORANGE if x == V // 2 else BLUE for x in range(V)])
        ax.set(title=title, ylim=(0, 1.08), xticks=[], xlabel=f"{V} letters")
        ax.text(V // 2 + 2, chances[V // 2], f"{chances[V // 2]:.2f}", va="bottom", color=ORANGE)
    highest = once.softmax(dim=-1).max()
    plotting.show(
        "A perfect answer: behind one softmax the right letter has all of the chance, behind a second "
        f"one {highest:.2f}, hardly more than the others."
    )


def moved(text: str, flags: Sequence[bool], changed: int) -> None:
    """A text's letters, orange where an output moved, with a frame around the letter that changed."""
    _, ax = plotting.figure(0.27 * len(text), 0.6)
    for x, (letter, flag) in enumerate(zip(plotting.labels(text), flags, strict=True)):
        color = ORANGE if flag else "#BBBBBB"
        ax.add_patch(Rectangle((x, 0), 0.94, 1, color=color, alpha=0.45, linewidth=0))
        ax.text(x + 0.47, 0.45, letter, ha="center", va="center", family="monospace")
    ax.add_patch(Rectangle((changed, 0), 0.94, 1, fill=False, edgecolor="black", linewidth=2))
    ax.set(xlim=(-0.1, len(text)), ylim=(-0.15, 1.15))
    ax.axis("off")
    places = [x for x, flag in enumerate(flags) if flag]
    plotting.show(
        f"The letters of {text!r}. Letter {changed} was changed; the outputs at places {places[0]} to "
        f"{places[-1]} moved."
    )


@torch.no_grad()
def first_scores(program: Program, tokens: Tensor, louder: float) -> Tensor:
    """Scores (H, T, T) of the first block, with queries `louder` times as long."""
    block = program.blocks[0]
    places = program.places(torch.ones(1, len(tokens), dtype=torch.bool))
    x = program.normed(block.norm1, program.token(tokens[None]) + program.place(places))
    query, key = (program.split(matrix(x)) for matrix in (block.query, block.key))
    return program.scores(louder * query, key)[0]


def first_weights(program: Program, tokens: Tensor, louder: float) -> Tensor:
    """Attention weights (H, T, T) of the first block, with queries `louder` times as long."""
    allowed = program.allowed(torch.ones(1, len(tokens), dtype=torch.bool))
    return program.weights(first_scores(program, tokens, louder)[None], allowed)[0]


def maps(programs: Mapping[str, Program], text: str, tokens: Tensor) -> None:
    """How the first head of each program looks at a text, with eightfold scores; grey: the future."""
    _, axes = plotting.figure(11, 4.2, columns=2)
    for ax, (title, program) in zip(axes, programs.items(), strict=True):
        weights = first_weights(program, tokens, louder=8)[0]
        ahead = torch.ones_like(weights, dtype=torch.bool).triu(1)
        plotting.heatmap(weights.masked_fill(ahead, torch.nan), plotting.labels(text), title=title, ax=ax)
    plotting.show(
        "Two maps of weights, letters by letters, grey above the diagonal. On the left each row adds up "
        "to 1, and the first letter looks at itself with 1.00; on the right each column does."
    )


def joined(programs: Mapping[str, Program]) -> None:
    """What four heads found at 48 places, a colour a place; then the first rows that each makes."""
    colors = plotting.plt.get_cmap("turbo")
    _, axes = plotting.figure(10, 2.9, columns=1 + len(programs), widths=[2, *[1] * len(programs)])
    first, *others = axes

    def cell(ax: Axes, x: float, y: float, place: int) -> None:
        color = colors(place / (T - 1))
        ax.add_patch(Rectangle((x, y), 0.94, 0.86, color=color, linewidth=0))

    for head in range(H):
        for place in range(T):
            cell(first, place, head, place)
    first.set(xlim=(-0.5, T), ylim=(H + 0.1, -0.2), title="as it lies in memory", xlabel="place")
    first.set_yticks([y + 0.43 for y in range(H)], [f"head {h + 1}" for h in range(H)])
    places = torch.arange(T).view(1, 1, T, 1).expand(1, H, T, CHANNELS // H)
    for ax, (title, program) in zip(others, programs.items(), strict=True):
        rows = program.join(places)[0, :6].view(6, H, -1)[..., 0].tolist()
        for y, row in enumerate(rows):
            for x, place in enumerate(row):
                cell(ax, x, y, place)
                ax.text(x + 0.47, y + 0.43, place, ha="center", va="center", color="white")
        ax.set(xlim=(-0.2, H), ylim=(6, -0.2), title=title, xticks=[])
        ax.set_yticks([y + 0.43 for y in range(6)], [f"place {y}" for y in range(6)])
    for ax in axes:
        plotting.bare(ax)
    plotting.show(
        "On the left a table, four heads by 48 places, coloured by place. Joined as it should be, each row "
        "has one colour: what four heads found at one place. Joined by the room's program, the first row "
        "has places 0 to 3, the second 4 to 7, and so on."
    )


def climbed(scores: Mapping[str, Tensor]) -> None:
    """One row of scores (t,) as dots, beside the score of what is forbidden."""
    forbidden = -1e4
    _, axes = plotting.figure(10, 2.7, columns=len(scores))
    phrases = []
    for ax, (title, row) in zip(axes, scores.items(), strict=True):
        ax.axhline(forbidden, color=ORANGE)
        ax.text(len(row) + 2.8, forbidden, "the future", color=ORANGE, va="bottom", ha="right")
        ax.plot(range(len(row)), row, "o", color=BLUE)
        ax.set(title=title, xlim=(-0.6, len(row) + 3), xticks=[], ylabel="score")
        ax.yaxis.set_major_formatter("{x:,.0f}")
        phrases.append(f"{title}: {int((row < forbidden).sum())} of {len(row)} scores lie below it")
    plotting.show(
        f"Scores of a letter's past as dots, and a line at {forbidden:,.0f}, where the future is. {'; '.join(phrases)}."
    )


def kept(programs: Mapping[str, Program], logits: Tensor, k: int) -> None:
    """The chances of five letters of which `k` are to stay."""
    _, axes = plotting.figure(9, 2.3, columns=len(programs))
    phrases = []
    for ax, (title, program) in zip(axes, programs.items(), strict=True):
        chances = program.kept(logits, k).softmax(dim=-1)
        stay = logits >= logits.topk(k).values[-1]
        ax.bar(range(len(logits)), chances, color=[BLUE if stays else ORANGE for stays in stay])
        for x, chance in enumerate(chances):
            ax.text(x, chance, f"{chance:.2f}", ha="center", va="bottom")
        ax.set(title=title, ylim=(0, 1), xlabel="logit of the letter")
        ax.set_xticks(range(len(logits)), [f"{logit:.0f}".replace("-", "−") for logit in logits])
        phrases.append(f"{title}: {', '.join(f'{chance:.2f}' for chance in chances)}")
    plotting.show(f"Chances of five letters, of which {k} (blue) are to stay. {'; '.join(phrases)}.")


def quarters(lengths: Sequence[int], place: int) -> None:
    """What each head of room 10's program holds of a text, at several lengths of it."""
    _, ax = plotting.figure(9, 0.5 + 0.42 * len(lengths))
    phrases = []
    for y, length in enumerate(lengths):
        positions = torch.arange(length).view(1, length, 1).expand(1, length, CHANNELS)
        heads = ROOMS[10](V=2).split(positions)[0].flatten(start_dim=1)
        for head, places in enumerate(heads):
            shares = places.bincount(minlength=length) / CHANNELS
            for x in shares.nonzero()[:, 0].tolist():
                color = plotting.COLORS[head]
                ax.add_patch(Rectangle((x, y - 0.4), 0.94, 0.8, color=color, alpha=0.55, linewidth=0))
        own = next(h for h, places in enumerate(heads) if (places == place).any())
        phrases.append(f"{own + 1} of a text of {length}")
    ax.axvspan(place, place + 0.94, color="black", alpha=0.25, linewidth=0)
    ax.set_yticks(range(len(lengths)), [f"{length} letters" for length in lengths])
    ax.set(xlim=(-0.3, max(lengths) + 0.3), ylim=(len(lengths) - 0.4, -0.6), xlabel="place")
    plotting.bare(ax)
    plotting.show(
        f"Strips of letters in four colours, a quarter for each head. Place {place} belongs to quarter "
        f"{', '.join(phrases)}."
    )


def entrance() -> None:
    """The losses of two programs, of which one is wrong, a dot for each training."""
    _, ax = plotting.figure(8, 2.2)
    phrases = []
    for y, kind in enumerate((Program, ROOMS[10])):
        losses = [line["loss"] for line in measured(kind)]
        phrases.append(f"{len(losses)} dots of program {'AB'[y]} around {fmean(losses):.2f}")
        ax.plot(losses, [y] * len(losses), "o", color=plotting.COLORS[y], alpha=0.7)
    ax.set_yticks([0, 1], ["program A", "program B"])
    ax.set(xlim=(2.15, 2.6), ylim=(1.6, -0.6), xlabel="loss after 300 updates")
    plotting.show(f"The losses of two programs: {' and '.join(phrases)}.")


def by_length(programs: Mapping[str, Program], text: Tensor) -> dict[str, list[float]]:
    """Draw, and return, each program's honest losses on a text, by how many letters are read."""
    _, ax = plotting.figure(9, 3.2)
    by_name = {name: curves.honest_losses(program, text, 400) for name, program in programs.items()}
    for (name, losses), color in plotting.colored(by_name.items()):
        ax.plot(curves.CUTS, losses, color=color)
        ax.text(T + 0.6, losses[-1], name, color=color, va="center")
    ax.set(xlabel="letters that are read", ylabel="loss of the next letter", xlim=(0, T + 7))
    phrases = (f"{name} from {min(losses):.2f} to {max(losses):.2f}" for name, losses in by_name.items())
    plotting.show(f"The loss of the letter after a text, by its length: {', '.join(phrases)}.")
    return by_name


def two_losses(kinds: Sequence[type[Program]]) -> None:
    """For each program its curve's end (dot) and its honest loss (ring), means of all seeds."""
    order = sorted(kinds, key=lambda kind: fmean(line["loss"] for line in measured(kind)))
    rooms = {kind: f"room {room}" for room, kind in ROOMS.items()} | {Program: "healthy"}
    _, ax = plotting.figure(9, 0.9 + 0.33 * len(order))
    phrases = []
    for y, kind in enumerate(order):
        loss, honest = (fmean(line[column] for line in measured(kind)) for column in ("loss", "honest"))
        color = BLUE if kind is Program else ORANGE
        ax.plot([loss, honest], [y, y], color=color, linewidth=1, alpha=0.5)
        ax.plot(loss, y, "o", color=color)
        ax.plot(honest, y, "o", color="white", markeredgecolor=color)
        phrases.append(f"{rooms[kind]} {loss:.2f} and {honest:.2f}")
    ax.set_yticks(range(len(order)), [rooms[kind] for kind in order])
    ax.set(xlabel="curve (dot) and honest loss (ring), nats", ylim=(len(order) - 0.4, -0.6))
    plotting.show(f"The end of the curve and the honest loss: {'; '.join(phrases)}.")


# ---------------------------------------------------------------- programs
def infected(program: Program, kind: type) -> Program:
    """The same weights in the hands of a faulty program."""
    copied = copy.deepcopy(program)
    copied.__class__ = kind
    return copied


def our_gpt(V: int, T: int, n_layer: int, n_head: int, n_embd: int, dropout: float) -> torch.nn.Module:
    return GPT(GPTConfig(V, T, n_layer, n_head, n_embd, dropout))


def our_batch(tokens: Tensor, starts: Tensor, T: int) -> Tensor:
    places = starts[:, None] + torch.arange(T)
    return torch.stack([tokens[places], tokens[places + 1]])


OURS = {"MyGPT": our_gpt, "my_batch": our_batch, "my_write": generate}


def check_file(MyGPT: Callable, my_batch: Callable, my_write: Callable) -> dict[str, str]:
    """What the checks of FOR_YOURS say of the parts of a reader's file."""
    kind = program_of(MyGPT, my_batch, my_write)
    return checks.table([kind], FOR_YOURS)["Yours"]


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
