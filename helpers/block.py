"""What stands around attention, drawn with real numbers: heads side by side, the block on its stream, the whole GPT.

The stream runs down, a broad grey line; what is read from it leaves sideways and comes back to a ⊕. All lengths are
pixels of a picture 700 wide, as in the machine.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from helpers import plotting
from helpers.errors import ConfigError
from helpers.guards import evaluating
from helpers.machine import KNOWN, LARGE, WIDTH, Box, Canvas, room_for, short


@torch.no_grad()
def draw_heads(tokens: Sequence[str], weights: Tensor, contexts: Tensor, out_proj: nn.Linear, *, mask: Tensor) -> None:
    """Show from one to eight heads side by side, with an alternative text: weights (H, T, T) and contexts (H, T, D).

    Below, the contexts are joined to rows of H · D numbers, which, times W_o, give the output (T, C). What the boolean
    `mask` (T, T) forbids is hatched. ConfigError for other shapes. Source: Vaswani et al. 2017, section 3.2.2.
    """
    H, T, D = len(weights), len(tokens), contexts.shape[-1]
    wrong = weights.shape != (H, T, T) or contexts.shape != (H, T, D) or mask.shape != (T, T)
    if wrong or not T or not 1 <= H <= 8 or out_proj.in_features != H * D:
        given = f"weights {(*weights.shape,)}, contexts {(*contexts.shape,)}, mask {(*mask.shape,)}"
        given = f"{T} tokens, {given}, W_o for {out_proj.in_features} numbers"
        raise ConfigError(f"{given}: it takes (H, T, T), (H, T, D), (T, T), H · D numbers, and H from 1 to 8")
    words, joined = short(tokens), contexts.transpose(0, 1).flatten(1)
    output, room, tall = out_proj(joined), room_for(words), min(20 * T, 120)
    each, part = min((WIDTH - room - 8) / H - 16, 210), 216 / H
    below, row = tall + 102, 2 * tall + 176
    canvas = Canvas(row + tall + 24)
    for top in (28, below, row):
        canvas.words(words, room - 6, top, tall)
    for h in range(H):
        left, color = room + h * (each + 16), plotting.COLORS[h % 6]
        middle, inner, frame = left + each / 2, min(each, 33 * D), {"line": color, "width": 2.4, "zorder": 7}
        box, joint = (middle - inner / 2, below, inner, tall), (room + h * part, row, part, tall)
        canvas.table(f"head {h + 1}", weights[h], (left, 28, each, tall), "T × T", mask=mask)
        canvas.table("context", contexts[h], box, "T × D")
        for place in ((left, 28, each, tall), box, joint):
            canvas.frame(place, **frame)
        canvas.arrow((middle, tall + 48), (middle, below - 18))
        canvas.write(middle + 7, tall + 62, "mixture", ha="left", color=KNOWN.ink)
        canvas.arrow((middle, below + tall + 20), (joint[0] + part / 2, row - 4), line=color, width=2)
    start, wide = room + 246, min(216, WIDTH - room - 246 - 138)
    for spot, sign in ((start - 15, "×"), (start + 115, "=")):
        canvas.write(spot, row + tall / 2, sign, 14)
    canvas.table("", joined, (room, row, 216, tall), "joined: T × H·D")
    canvas.table("W_o", out_proj.weight.T, (start, row, 100, tall), "H·D × C")
    canvas.table("output", output, (start + 130, row, wide, tall), "T × C")
    most = (f"head {h + 1} {table[-1].max():.2f} for {words[table[-1].argmax()]}" for h, table in enumerate(weights))
    text = f"{H} heads side by side, each with its own weights ({T} × {T}) and contexts ({T} × {D}), for the words "
    text += f"{', '.join(words[:12])}. In the row of {words[-1]} the largest weight is: {', '.join(most)}. The contexts "
    text += f"are joined to rows of {H * D} numbers; times W_o they give the output ({T} × {output.shape[-1]})."
    plotting.show(text, canvas.ax.figure)


class _Stream(Canvas):
    """A picture of the stream: its line, what is added to it, and boxes beside it."""

    def line(self, x: float, top: float, bottom: float) -> None:
        self.frame((x - 5, top, 10, bottom - top), 0.5, fill="#CFCFCF")

    def plus(self, x: float, y: float) -> None:
        self.ax.plot(x, y, "o", markersize=17, color="white", markeredgecolor=KNOWN.ink, zorder=4)
        self.ax.plot(x, y, "+", markersize=11, color="black", markeredgewidth=1.6, zorder=5)

    def thumbnails(self, weights: Tensor, box: Box) -> None:
        """A small table of weights for each head, in a grid inside a box."""
        left, top, width, height = box
        columns = len(weights) if len(weights) <= 4 else math.ceil(len(weights) ** 0.5)
        rows, mask = math.ceil(len(weights) / columns), torch.ones_like(weights[0]).tril().bool()
        size = min(width / columns, height / rows) - 6
        for h, table in enumerate(weights):
            x = left + (h % columns + 0.5) * width / columns - size / 2
            y = top + (h // columns + 0.5) * height / rows - size / 2
            style: dict[str, Any] = {"cmap": plotting.SHARE, "limits": (0, 0.6), "numbers": False, "allowed": mask}
            plotting.table(self.ax, table, (x, y, size, size), **style)
            self.frame((x, y, size, size), 6, line=KNOWN.line, width=0.8)


def _through(block: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """What a block computes for a stream x (T, C), step by step; its weights are (H, T, T)."""
    read = block.norm1(x[None])
    talk, weights = block.attention(read, return_weights=True)
    middle = x[None] + talk
    again = block.norm2(middle)
    hidden, think = block.mlp[:-1](again), block.mlp(again)
    steps = {"read": read, "weights": weights, "talk": talk, "middle": middle, "again": again}
    return {name: table[0] for name, table in (steps | {"hidden": hidden, "think": think, "after": middle + think}).items()}


@torch.no_grad()
def draw_block(tokens: Sequence[str], block: nn.Module, x: Tensor) -> None:
    """Show what a pre-norm block (like `gpt.Block`) does to a stream x (T, C), with an alternative text.

    It runs the block without dropout. All tables of the stream, and what is added to it, share one scale of colours.
    ConfigError unless x has a row for each token. Source: Radford et al. 2019, section 2.3 (the norms' places).
    """
    if x.ndim != 2 or not len(tokens) or len(x) != len(tokens):
        raise ConfigError(f"{len(tokens)} tokens, a stream of shape {tuple(x.shape)}: it takes (T, C), a row a token")
    with evaluating(block):
        steps = _through(block, x)
    words, T, tall = short(tokens), len(tokens), max(60, min(16 * len(tokens), 110))
    room, unit = room_for(words), tall + 92
    reach = 1.3 * max(float(steps[name].abs().max()) for name in ("middle", "after"))
    stream: dict[str, Any] = {"limits": (-reach, reach), "numbers": False, "at": 0.62}
    canvas, line = _Stream(28 + 2 * unit + tall + 24), room + 26
    canvas.line(line, 6, 28 + 2 * unit + tall + 20)
    norm, last = room + 186, WIDTH - 118
    box_left, box_wide = norm + 136, last - norm - 162
    for k, (name, table) in enumerate({"x": x, "x + attention": steps["middle"], "x + both": steps["after"]}.items()):
        top = 28 + k * unit
        canvas.words(words, room - 6, top, tall)
        canvas.table(name, table, (room, top, 140, tall), "T × C", **stream)
        if k == 2:
            break
        side, back, box = top + tall / 2, top + tall + 44, (box_left, top, box_wide, tall)
        canvas.table("norm", steps[("read", "again")[k]], (norm, top, 110, tall), "T × C", numbers=False)
        if k == 0:
            canvas.thumbnails(steps["weights"], box)
            canvas.frame(box, 6, line=KNOWN.line, width=1.2)
            canvas.write(box_left + box_wide / 2, top - 10, "attention: words talk", LARGE, color=KNOWN.ink)
            shape = f"H × T × T = {' × '.join(map(str, steps['weights'].shape))}"
            canvas.write(box_left + box_wide / 2, top + tall + 11, shape, color=KNOWN.ink)
        else:
            canvas.table("MLP: each word thinks", steps["hidden"], box, "T × 4C", numbers=False)
        canvas.table("to add", steps[("talk", "think")[k]], (last, top, 110, tall), "T × C", **stream)
        for start, end in ((room + 140, norm), (norm + 110, box_left), (box_left + box_wide, last)):
            canvas.arrow((start + 4, side), (end - 4, side))
        canvas.write(room + 163, side - 9, "reads", color=KNOWN.ink)
        canvas.arrow((last + 14, top + tall + 2), (last + 14, back), (line + 13, back))
        canvas.write(line + 20, back - 9, "writes", ha="left", color=KNOWN.ink)
        canvas.plus(line, back)
    added = (float(steps[name].norm() / x.norm()) for name in ("talk", "think"))
    text = "The residual stream runs down, {} words of {} numbers. Twice it is read, through a norm, and written to: "
    text += "attention, {} heads, adds a table {:.2f} times as long as x, the MLP one {:.2f} times as long."
    plotting.show(text.format(T, x.shape[1], len(steps["weights"]), *added), canvas.ax.figure)
