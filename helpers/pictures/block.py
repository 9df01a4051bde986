"""What stands around attention, drawn with real numbers: heads side by side, the block on its stream, the whole GPT.

The stream runs down, a broad grey line; what is read from it leaves sideways and comes back to a ⊕.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from helpers.pictures import plotting
from helpers.pictures.machine import KNOWN, LARGE, WIDTH, Box, Canvas, room_for, short
from helpers.support.errors import ConfigError
from helpers.support.modes import evaluating


@torch.no_grad()
def draw_heads(tokens: Sequence[str], weights: Tensor, contexts: Tensor, out_proj: nn.Linear, mask: Tensor) -> None:
    """Show one to eight heads side by side, with an alternative text: weights (H, T, T), contexts (H, T, D).

    Below, the contexts are joined to rows of H · D numbers, which, times W_o, give the output (T, C). What the boolean
    `mask` (T, T) forbids is hatched. ConfigError for other shapes. Source: Vaswani et al. 2017, section 3.2.2.
    """
    H, T, D = len(weights), len(tokens), contexts.shape[-1]
    shapes = [(*weights.shape,), (*contexts.shape,), (*mask.shape,), out_proj.in_features]
    if shapes != [(H, T, T), (H, T, D), (T, T), H * D] or not T or not 1 <= H <= 8:
        given = "{} tokens; weights {}, contexts {}, mask {}, W_o for {} numbers".format(T, *shapes)
        raise ConfigError(f"{given}: it takes (H, T, T), (H, T, D), (T, T), H · D numbers, and H from 1 to 8")
    words, joined = short(tokens), contexts.transpose(0, 1).flatten(1)
    output, room, tall = out_proj(joined), room_for(words), min(20 * T, 120)
    each, part = min((WIDTH - room - 8) / H - 16, 210), 216 / H
    below, row = tall + 102, 2 * tall + 170
    canvas = Canvas(row + tall + 24)
    for top in (28, below, row):
        canvas.words(words, room - 6, top, tall)
    for h in range(H):
        left, color, inner = room + h * (each + 16), plotting.COLORS[h % 6], min(each, 33 * D)
        middle, end = left + each / 2, room + (h + 0.5) * part
        boxes = (left, 28, each, tall), (middle - inner / 2, below, inner, tall), (end - part / 2, row, part, tall)
        canvas.table(f"head {h + 1}", weights[h], boxes[0], "T × T", mask)
        canvas.table("context", contexts[h], boxes[1], "T × D")
        for box in boxes:
            canvas.frame(box, 7, line=color, width=2.4)
        canvas.arrow((middle, tall + 48), (middle, below - 18))
        canvas.write(middle + 7, tall + 62, "mixture", ha="left", color=KNOWN.ink)
        canvas.arrow((middle, below + tall + 20), (end, row - 4), line=color, width=2)
    start, wide = room + 246, min(216, WIDTH - room - 246 - 138)
    for spot, sign in ((start - 15, "×"), (start + 115, "=" if out_proj.bias is None else "+ b\n=")):
        canvas.write(spot, row + tall / 2, sign, 12)
    canvas.table("", joined, (room, row, 216, tall), "joined: T × H·D")
    canvas.table("", out_proj.weight.T, (start, row, 100, tall), "W_o: H·D × C")
    canvas.table("", output, (start + 130, row, wide, tall), "output: T × C")
    most = (f"head {h + 1} {table[-1].max():.2f} for {words[table[-1].argmax()]}" for h, table in enumerate(weights))
    text = (
        f"{H} heads side by side, each with weights ({T} × {T}) and contexts ({T} × {D}), for {', '.join(words[:12])}. "
    )
    text += f"Largest weights in the row of {words[-1]}: {', '.join(most)}. The contexts are joined to rows of {H * D} "
    plotting.show(text + f"numbers; times W_o they give the output ({T} × {output.shape[-1]}).", canvas.ax.figure)


class _Stream(Canvas):
    """A picture of the stream: its line, what is added to it, and what stands beside it."""

    def line(self, x: float, top: float, bottom: float) -> None:
        self.frame((x - 5, top, 10, bottom - top), 0.5, fill="#CFCFCF")  # behind all but the block's sheets

    def plus(self, x: float, y: float) -> None:
        self.ax.plot(x, y, "o", markersize=17, color="white", markeredgecolor=KNOWN.ink, zorder=4)
        self.ax.plot(x, y, "+", markersize=11, color="black", markeredgewidth=1.6, zorder=5)

    def heads(self, name: str, weights: Tensor, box: Box) -> None:
        """The weights of all heads (H, T, T) side by side in one box."""
        (H, T, _), (left, top, width, height) = weights.shape, box
        mask = torch.ones(T, T, dtype=torch.bool).tril().repeat(1, H)
        self.table(name, torch.cat([*weights], dim=-1), box, f"H × T × T = {H} × {T} × {T}", mask, numbers=False)
        for h in range(H):
            self.frame((left + h * width / H, top, width / H, height), 6, KNOWN.line, width=KNOWN.width)

    def bars(self, chances: Tensor, names: Sequence[str], box: Box) -> int:
        """Below a framed row of logits, a bar for each of its columns with its name; return the highest one."""
        (left, top, width, height), best = box, int(chances.argmax())
        wide, floor = width / len(names), top + height + 94
        self.frame(box, 7, "black", width=2.2)
        note = "softmax of the last row: the next token's chances"
        self.write(left + width, top + height + 11, note, color=KNOWN.ink, ha="right")
        for j, tall in enumerate((60 * chances / chances.max()).tolist()):
            self.frame((left + (j + 0.1) * wide, floor - tall, 0.8 * wide, tall), 3, fill=plotting.COLORS[2])
            if len(names) <= 75 or j == best:
                weight = "bold" if j == best else "normal"
                self.write(left + (j + 0.5) * wide, floor + 9, names[j], weight=weight)
        return best


def _through(block: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """What a block does with a stream x (T, C), step by step; its weights are (H, T, T)."""
    read = block.norm1(x[None])
    talk, weights = block.attention(read, return_weights=True)
    again = block.norm2(x + talk)
    steps = {"x": x[None], "read": read, "weights": weights, "talk": talk, "middle": x + talk, "again": again}
    steps |= {"hidden": block.mlp[:-1](again), "think": block.mlp(again)}
    return {name: table[0] for name, table in (steps | {"after": steps["middle"] + steps["think"]}).items()}


@torch.no_grad()
def draw_block(tokens: Sequence[str], block: nn.Module, x: Tensor, called: Mapping[str, str] | None = None) -> None:
    """Show what a pre-norm block (like `gpt.Block`) does to a stream x (T, C), with an alternative text.

    It runs the block without dropout. The stream, and what is added to it, share one scale of colours; `called` has
    other names for parts, as in {"norm": "LayerNorm"}. ConfigError unless x has a row of C numbers for each token.
    Source: Radford et al. 2019, section 2.3.
    """
    if not len(tokens) or x.shape != (len(tokens), *block.norm1.normalized_shape):
        wanted = f"it takes a token or more, and for each a row of {block.norm1.normalized_shape[0]} numbers"
        raise ConfigError(f"{len(tokens)} tokens, a stream of shape {tuple(x.shape)}: {wanted}")
    with evaluating(block):
        steps = _through(block, x)
    words, T, tall = short(tokens), len(tokens), max(60, min(16 * len(tokens), 110))
    room, unit, name_of = room_for(words), tall + 92, lambda part: (called or {}).get(part, part)
    reach = max(float(steps[name].abs().max()) for name in ("x", "middle", "after"))
    stream: dict[str, Any] = {"limits": (-reach, reach), "numbers": False, "at": 0.62}
    canvas, line, norm, last = _Stream(2 * unit + tall + 52), room + 26, room + 186, WIDTH - 118
    canvas.line(line, 6, 2 * unit + tall + 48)
    for k, (name, part) in enumerate({"x": "x", "x + attention": "middle", "x + both": "after"}.items()):
        top = 28 + k * unit
        canvas.words(words, room - 6, top, tall)
        canvas.table(name_of(name), steps[part], (room, top, 140, tall), "T × C", **stream)
    for top, read, write in ((28, "read", "talk"), (28 + unit, "again", "think")):
        side, back, box = top + tall / 2, top + tall + 44, (norm + 136, top, last - norm - 162, tall)
        canvas.table(name_of("norm"), steps[read], (norm, top, 110, tall), "T × C", numbers=False)
        if write == "talk":
            canvas.heads(name_of("attention: words talk"), steps["weights"], box)
        else:
            canvas.table(name_of("MLP: each word thinks"), steps["hidden"], box, "T × 4C", numbers=False)
        canvas.table("to add", steps[write], (last, top, 110, tall), "T × C", **stream)
        for start, end in ((room + 140, norm), (norm + 110, box[0]), (box[0] + box[2], last)):
            canvas.arrow((start + 4, side), (end - 4, side))
        canvas.write(room + 163, side - 9, "reads", color=KNOWN.ink)
        canvas.arrow((last + 14, top + tall + 2), (last + 14, back), (line + 13, back))
        canvas.write(line + 20, back - 9, name_of("writes"), ha="left", color=KNOWN.ink)
        canvas.plus(line, back)
    added = (float(steps[name].norm() / x.norm()) for name in ("talk", "think"))
    text = "The residual stream runs down, {} words of {} numbers. Twice it is read, through a norm, and written to: "
    text += "attention, {} heads, adds a table {:.2f} times as long as x, the MLP one {:.2f} times as long."
    plotting.show(text.format(T, x.shape[1], len(steps["weights"]), *added), canvas.ax.figure)


@torch.no_grad()
def draw_gpt(model: nn.Module, tokens: Tensor, vocabulary: Sequence[str]) -> None:
    """Show a GPT (like `gpt.GPT`) from T token ids (T,) to the next token's chances, with an alternative text.

    It runs without dropout; of the blocks the first one's weights are shown. `vocabulary` has a name for each of the V
    tokens; up to 75 are written under their bars. ConfigError for other ids or names.
    """
    table, places, L, T = model.token_embedding.weight, model.position_embedding.weight, len(model.blocks), len(tokens)
    known = 1 <= T <= len(places) and 0 <= int(tokens.min()) <= int(tokens.max()) < len(table)
    if tokens.ndim != 1 or len(vocabulary) != len(table) or not known:
        given = f"tokens of shape {tuple(tokens.shape)}, {len(vocabulary)} names"
        raise ConfigError(f"{given}: it takes 1 to {len(places)} ids below {len(table)}, and a name for each of these")
    words, names, x, shown = short([vocabulary[i] for i in tokens]), short(vocabulary), table[tokens] + places[:T], []
    with evaluating(model):
        for block in model.blocks:
            shown.append(_through(block, shown[-1]["after"] if shown else x))
        logits = model.head(model.norm(shown[-1]["after"]))
    room, tall, V, middle = room_for(words), max(60, min(10.5 * T, 84)), len(table), WIDTH / 2
    first, one = tall + 70, 2 * tall + 116  # the tops of x, of the block,
    last, norm = one + 190, one + tall + 216  # of what the blocks make of x, of the last norm,
    row, left, level = norm + 66, 142 + room, 28 + tall / 2  # and of the logits
    canvas = _Stream(row + tall + 114)
    canvas.line(middle, level, norm)
    for behind in (8, 4, 0) if L > 1 else (0,):
        canvas.frame((130 + behind, one + behind, 440, 148), 0.4 - behind / 100, KNOWN.line, "white", KNOWN.width)
    canvas.write(630, one + 74, f"block × {L}", LARGE, weight="bold")
    for name, shown_table, box, shape, at in (
        ("token table", table, (8, 28, 100, tall), "V × C", 0.5),
        ("tokens", table[tokens], (left, 28, 320 - left, tall), "T × C", 0.5),
        ("positions", places[:T], (380, 28, 320 - left, tall), "T × C", 0.5),
        ("position table", places, (WIDTH - 108, 28, 100, tall), "max T × C", 0.5),
        ("x", x, (270, first, 160, tall), "T × C", 0.82),
        ("norm → MLP", shown[0]["hidden"], (420, one + 66, 130, 56), "T × 4C", 0.5),
        (f"after {L} blocks", shown[-1]["after"], (270, last, 160, tall), "T × C", 0.86),
        ("logits", logits, (room, row, WIDTH - room - 8, tall), "T × V", 0.12),
    ):
        canvas.table(name, shown_table, box, shape, at=at, numbers=False)
        if len(shown_table) == T and box[0] < middle:
            canvas.words(words, box[0] - 6, box[1], tall)
    canvas.heads("norm → attention", shown[0]["weights"], (150, one + 26, 130, 56))
    for side, edge, read, write in ((-1, 284, one + 36, one + 72), (1, 416, one + 90, one + 116)):
        canvas.arrow((middle + 6 * side, read), (edge, read))
        canvas.arrow((edge, write), (middle + 13 * side, write))
        canvas.plus(middle, write)
    for start, end in ((112, 138), (WIDTH - 112, 704 - left), (322, middle - 13), (378, middle + 13)):
        canvas.arrow((start, level), (end, level))
    canvas.plus(middle, level)
    canvas.frame((middle - 40, norm, 80, 24), 2, KNOWN.line, "white", KNOWN.width)
    canvas.write(middle, norm + 12, "norm", LARGE, color=KNOWN.ink)
    canvas.arrow((middle, norm + 25), (middle, row - 3))
    canvas.write(middle + 8, norm + 44, "× token tableᵀ", ha="left", color=KNOWN.ink)
    chances = logits[-1].softmax(-1)
    best = canvas.bars(chances, names, (room, row + tall * (T - 1) / T, WIDTH - room - 8, tall / T))
    text = f"A GPT reads {', '.join(words[:12])}. Token table ({V} × {x.shape[1]}) and position table give x ({T} × "
    text += (
        f"{x.shape[1]}); {L} blocks add to it; norm and token table make logits ({T} × {V}). The likeliest next token "
    )
    plotting.show(text + f"is {names[best]}, with {chances[best]:.3f}.", canvas.ax.figure)
