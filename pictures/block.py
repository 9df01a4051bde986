"""Attention's surroundings with real numbers: heads, the block on its stream, the whole GPT.

The stream runs down, a broad grey line; what is read from it leaves sideways and comes back to a ⊕.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from matplotlib.colors import to_hex
from torch import Tensor

from helpers.gpt import GPT, attention_weights, watch
from pictures import plotting
from pictures.marks import KNOWN, LARGE, WIDTH, Box, Canvas, room_for, short


class _Stream(Canvas):
    """A picture of the stream: its line, what is added to it, and what stands beside it."""

    def line(self, x: float, top: float, bottom: float) -> None:
        # Behind all but the block's sheets.
        self.frame((x - 5, top, 10, bottom - top), 0.5, fill="#CFCFCF")

    def plus(self, x: float, y: float) -> None:
        self.ax.plot(x, y, "o", markersize=17, color="white", markeredgecolor=KNOWN.ink, zorder=4)
        self.ax.plot(x, y, "+", markersize=11, color="black", markeredgewidth=1.6, zorder=5)

    def heads(self, name: str, weights: Tensor, box: Box) -> None:
        """The weights of all heads (H, T, T) side by side in one box."""
        H, T, _ = weights.shape
        left, top, width, height = box
        mask = torch.ones(T, T, dtype=torch.bool).tril().repeat(1, H)
        self.table(
            name,
            torch.cat([*weights], dim=-1),
            box,
            f"H × T × T = {H} × {T} × {T}",
            mask,
            numbers=False,
        )
        for h in range(H):
            self.frame((left + h * width / H, top, width / H, height), 6, KNOWN.line, width=KNOWN.width)

    def bars(self, chances: Tensor, names: Sequence[str], box: Box) -> int:
        """Draw a named bar for each column of a framed row of logits; return the highest one."""
        left, top, width, height = box
        best = int(chances.argmax())
        wide = width / len(names)
        floor = top + height + 94
        self.frame(box, 7, "black", width=2.2)
        note = "softmax of the last row: the next token's chances"
        self.write(left + width, top + height + 11, note, color=KNOWN.ink, ha="right")
        for j, tall in enumerate((60 * chances / chances.max()).tolist()):
            self.frame(
                (left + (j + 0.1) * wide, floor - tall, 0.8 * wide, tall),
                3,
                fill=plotting.COLORS[2],
            )
            if len(names) <= 75 or j == best:
                weight = "bold" if j == best else "normal"
                self.write(left + (j + 0.5) * wide, floor + 9, names[j], weight=weight)
        return best


def _hidden_shape(hidden: Tensor, C: int) -> str:
    """The shape of an MLP's hidden layer in letters: M is a width other than the usual one."""
    return "T × 4C" if hidden.shape[-1] == 4 * C else "T × M"


def block_map(fill: Mapping[str, str], notes: Mapping[str, str] | None = None) -> None:
    """Show the parts of a GPT's block along the residual stream, each in a colour and with a note.

    The parts are "positions", "residual", "LayerNorm", "attention", "MLP" and, within attention, "queries
    and keys", "√D", "values", "heads" and "output matrix"; those without a `fill` are white. Source: Radford
    et al. 2019, section 2.3.
    """
    canvas = _Stream(250)
    notes = notes or {}

    def part(name: str, box: Box, label: str = "") -> None:
        left, top, width, height = box
        canvas.frame(box, 3, KNOWN.line, fill.get(name, "white"), KNOWN.width)
        middle = top + height / 2 - (9 if name in notes else 0)
        canvas.write(left + width / 2, middle, label or name, LARGE)
        if name in notes:
            canvas.write(left + width / 2, middle + 18, notes[name], weight="bold")

    stream = 215
    canvas.frame((40, stream - 6, 650, 12), 0.5, fill=fill.get("residual", "#CFCFCF"))
    canvas.ax.plot((130, 130), (56, stream + 24), linestyle="--", color=KNOWN.line, linewidth=1)
    canvas.write(96, 66, "once", color=KNOWN.ink)
    canvas.write(158, 66, "block", color=KNOWN.ink)
    canvas.write(24, stream, "words", color=KNOWN.ink)
    residual = "residual stream" + (f"  {notes['residual']}" if "residual" in notes else "")
    canvas.write(340, stream + 20, residual, LARGE)
    part("positions", (50, 150, 72, 40))
    canvas.arrow((86, 190), (86, stream - 12))
    canvas.plus(86, stream)

    part("LayerNorm", (140, 96, 76, 44))
    left, top, width, height = 238, 12, 224, 152
    canvas.frame((left, top, width, height), 2, KNOWN.line, fill.get("attention", "white"), 1.2)
    canvas.write(left + width / 2, top + 14, f"attention  {notes.get('attention', '')}", LARGE)
    part("queries and keys", (left + 10, top + 28, 122, 36))
    part("√D", (left + 142, top + 28, 72, 36), "÷ √D")
    part("values", (left + 10, top + 69, 96, 36))
    part("heads", (left + 116, top + 69, 98, 36), "several heads")
    part("output matrix", (left + 10, top + 110, 204, 36))
    part("LayerNorm", (512, 96, 76, 44))
    part("MLP", (606, 96, 62, 44))
    canvas.arrow((178, stream - 6), (178, 140))  # attention reads the stream, and adds to it
    canvas.arrow((216, 118), (238, 118))
    canvas.arrow((462, 118), (482, 118), (482, stream - 12))
    canvas.plus(482, stream)
    canvas.arrow((550, stream - 6), (550, 140))  # so does the MLP
    canvas.arrow((588, 118), (606, 118))
    canvas.arrow((637, 140), (637, stream - 12))
    canvas.plus(637, stream)
    phrase = f"; {', '.join(f'{name} {note}' for name, note in notes.items())}" if notes else ""
    plotting.show(
        "A block beside its residual stream, to which positions are added first, then attention, which "
        "reads through a LayerNorm, then the MLP, which reads through another. Coloured: "
        f"{', '.join(fill)}{phrase}.",
        canvas.ax.figure,
    )


def damage_map(damage: Mapping[str, float]) -> None:
    """Show `block_map` with what each part's loss costs, in nats, and the darker the more."""
    oranges = plt.get_cmap("Oranges")
    fill = {name: oranges(min(max(nats, 0) ** 0.5, 1) * 0.7) for name, nats in damage.items()}
    notes = {name: f"{nats:+.2f}".replace("-", "−") for name, nats in damage.items()}
    block_map({name: to_hex(color) for name, color in fill.items()}, notes)


@torch.no_grad()
def draw_gpt(model: GPT, tokens: Tensor, vocabulary: Sequence[str]) -> None:
    """Show a GPT from T token ids (T,) to the next token's chances, with an alternative text.

    It runs without dropout; of the blocks the first one's weights are shown. `vocabulary` has a
    name for each of the V tokens; up to 75 are written under their bars.
    """
    V = model.config.vocab_size
    C = model.config.n_embd
    T = len(tokens)
    L = len(model.blocks)
    words = short([vocabulary[i] for i in tokens])
    names = short(vocabulary)
    first = model.blocks[0]
    passed = watch(model, tokens[None], [first, first.attention, first.mlp[-1], model.norm, model])
    x, after = passed[first].input[0], passed[model.norm].input[0]
    logits = passed[model].output[0]
    hidden = passed[first.mlp[-1]].input[0]
    table = model.token_embedding.weight
    own = table[tokens]
    places = model.position_embedding.weight if hasattr(model, "position_embedding") else None
    added = _added(model)
    unembedding = "token table" if model.head.weight is table else "a table of its own"

    room = room_for(words)
    tall = max(60, min(10.5 * T, 84))  # of a table
    middle = WIDTH / 2  # the stream
    level = 28 + tall / 2  # the middle of what makes x; below it, the tops
    x_top = tall + 70
    block_top = 2 * tall + 116
    after_top = block_top + 190  # of what the blocks make of x
    norm_top = block_top + tall + 216
    logits_top = norm_top + 66
    canvas = _Stream(logits_top + tall + 114)
    canvas.line(middle, level, norm_top)

    # From the tables to x
    left = 142 + room
    tables = [
        ("token table", table, (8, 28, 100, tall), "V × C", 0.5),
        ("tokens", own, (left, 28, 320 - left, tall), "T × C", 0.5),
        ("x", x, (270, x_top, 160, tall), "T × C", 0.82),
        (f"after {L} blocks", after, (270, after_top, 160, tall), "T × C", 0.86),
        ("logits", logits, (room, logits_top, WIDTH - room - 8, tall), "T × V", 0.12),
    ]
    canvas.arrow((112, level), (138, level))
    canvas.arrow((322, level), (middle - 13, level))
    if added:
        tables.append((added, x - own, (380, 28, 320 - left, tall), "T × C", 0.5))
        canvas.arrow((378, level), (middle + 13, level))
        canvas.plus(middle, level)
    if places is not None:
        tables.append(("position table", places, (WIDTH - 108, 28, 100, tall), "max T × C", 0.5))
        canvas.arrow((WIDTH - 112, level), (704 - left, level))
    for name, numbers, box, shape, at in tables:
        canvas.table(name, numbers, box, shape, at=at, numbers=False)
        if len(numbers) == T and box[0] < middle:
            canvas.words(words, box[0] - 6, box[1], tall)

    # The blocks, as sheets that lie upon each other
    sheets = (8, 4, 0) if L > 1 else (0,)
    for behind in sheets:
        sheet = (130 + behind, block_top + behind, 440, 148)
        canvas.frame(sheet, 0.4 - behind / 100, KNOWN.line, "white", KNOWN.width)
    canvas.write(630, block_top + 74, f"block × {L}", LARGE, weight="bold")
    weights = attention_weights(first.attention, passed[first.attention].input)[0]
    canvas.heads("norm → attention", weights, (150, block_top + 26, 130, 56))
    shape = _hidden_shape(hidden, C)
    canvas.table("norm → MLP", hidden, (420, block_top + 66, 130, 56), shape, numbers=False)
    for side, edge, read, write in ((-1, 284, 36, 72), (1, 416, 90, 116)):
        canvas.arrow((middle + 6 * side, block_top + read), (edge, block_top + read))
        canvas.arrow((edge, block_top + write), (middle + 13 * side, block_top + write))
        canvas.plus(middle, block_top + write)

    # From the stream to the next token
    canvas.frame((middle - 40, norm_top, 80, 24), 2, KNOWN.line, "white", KNOWN.width)
    canvas.write(middle, norm_top + 12, "norm", LARGE, color=KNOWN.ink)
    canvas.arrow((middle, norm_top + 25), (middle, logits_top - 3))
    canvas.write(middle + 8, norm_top + 44, f"× {unembedding}ᵀ", ha="left", color=KNOWN.ink)
    chances = logits[-1].softmax(-1)
    last_row = (room, logits_top + tall * (T - 1) / T, WIDTH - room - 8, tall / T)
    best = canvas.bars(chances, names, last_row)

    give = {"": "gives", "positions": "and position table give"}.get(added, f"and {added} give")
    text = (
        f"A GPT reads {', '.join(words[:12])}. Token table ({V} × {C}) {give} x ({T} × {C}); {L} blocks add to it; "
        f"norm and {unembedding} make logits ({T} × {V}). The likeliest next token is {names[best]}, with "
        f"{chances[best]:.3f}."
    )
    plotting.show(text, canvas.ax.figure)


def _added(model: GPT) -> str:
    """What a GPT adds to token embeddings: positions, tokens before, both, or (rotary) nothing."""
    parts = []
    if hasattr(model, "position_embedding"):
        parts.append("positions")
    if len(getattr(model, "tables", ())) or len(getattr(model, "before", ())):
        parts.append("tokens before")
    return ", ".join(parts)


# ---------------------------------------------------------------- norm and bend
def norm_bars(words: Mapping[str, Float[Tensor, "C"]]) -> None:
    """Show a few words' numbers as bars, before LayerNorm and after it, on one scale each."""
    C = len(next(iter(words.values())))
    panels = {
        "before": words,
        "after LayerNorm": {name: F.layer_norm(numbers, (C,)) for name, numbers in words.items()},
    }
    _, axes = plotting.figure(7.2, 2.5, columns=2)
    said = []
    for ax, (title, rows) in zip(axes, panels.items(), strict=True):
        ticks = []
        for i, (name, numbers) in enumerate(rows.items()):
            start = i * (C + 2)
            ax.bar([start + j for j in range(C)], numbers.tolist(), 0.85, color=plotting.COLORS[i])
            ticks.append(start + (C - 1) / 2)
            mean, spread = (plotting.numeral(x.item(), 1) for x in (numbers.mean(), numbers.std(correction=0)))
            said.append(f"{title}, the {name} word's numbers have mean {mean} and standard deviation {spread}")
        ax.axhline(0, color="black", linewidth=0.8)
        ax.set_xticks(ticks, rows)
        ax.tick_params(axis="x", length=0)
        ax.spines["bottom"].set_visible(False)
        ax.set_title(title)
    plotting.show(f"Bars of {C} numbers: {'; '.join(said)}.", axes[0].figure)


def bends() -> None:
    """Show GELU's curve beside ReLU's."""
    x = torch.linspace(-4, 4, 321)
    gelu = F.gelu(x)
    _, ax = plotting.figure(3.8, 2.6)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.plot(x, F.relu(x), "--", color=plotting.COLORS[1], label="ReLU")
    ax.plot(x, gelu, color=plotting.COLORS[0], linewidth=2.2, label="GELU")
    ax.legend(frameon=False, loc="upper left")
    ax.set(xlabel="what comes in", ylabel="what goes on")
    low = int(gelu.argmin())
    ends, lowest = (plotting.numeral(gelu[i].item(), 2) for i in (0, low))
    plotting.show(
        f"GELU goes from {ends} at −4 through its lowest, {lowest} at {plotting.numeral(x[low].item(), 2)}, and 0 at 0 "
        f"to {gelu[-1]:.2f} at 4. ReLU is 0 up to 0 and then goes up like what comes in: it has a corner there, "
        "GELU a bend.",
        ax.figure,
    )


# ---------------------------------------------------------------- the stream, read aloud
def read_aloud(
    chances: Mapping[str, Float[Tensor, "T V"]],
    tokens: Int64[Tensor, "T"],
    next_tokens: Int64[Tensor, "T"],
    vocabulary: Sequence[str],
) -> None:
    """Show which token a stream would say at each place, the greener the surer: a row for each height
    at which it was read, and the tokens that really come next below.
    """
    names = plotting.labels(vocabulary)
    T = len(tokens)
    says = {name: shares.max(dim=-1) for name, shares in chances.items()}
    sure = torch.stack([values for values, _ in says.values()])
    _, ax = plotting.figure(1.9 + 0.5 * T, 1.1 + 0.42 * len(says))
    # Pale enough to read black on
    ax.imshow(sure.numpy(), cmap=plotting.SHARE, vmin=0, vmax=1.5, aspect="auto")
    for i, (_, spoken) in enumerate(says.values()):
        for t in range(T):
            is_right = spoken[t] == next_tokens[t]
            style = {"weight": "bold"} if is_right else {"color": "#333333"}
            ax.text(t, i, names[spoken[t]], ha="center", va="center", fontsize=13, **style)
    rows = len(says)
    for t in range(T):
        ax.text(t, rows + 0.1, names[next_tokens[t]], ha="center", va="center", fontsize=13, weight="bold")
    ax.set_ylim(rows + 0.6, -0.5)
    ax.set_xticks(range(T), [names[i] for i in tokens], fontsize=13)
    ax.xaxis.tick_top()
    ax.set_yticks([*range(rows), rows + 0.1], [*says, "what comes next"])
    ax.set_title("read so far", fontsize=10)
    plotting.bare(ax)

    def spelled(ids: Tensor) -> str:
        return " ".join(names[i] for i in ids)

    parts = [
        f"{name}: {spelled(spoken)} ({int((spoken == next_tokens).sum())} of {T} come next)"
        for name, (_, spoken) in says.items()
    ]
    plotting.show(
        f"What the stream would say at each place of {spelled(tokens)}. {'; '.join(parts)}. "
        f"What comes next: {spelled(next_tokens)}.",
        ax.figure,
    )
