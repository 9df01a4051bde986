"""Lesson 08's pictures: the ladder as a tower, a passage coloured by surprise, a GPT's numbers drawn to scale."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from helpers.gpt import GPT, count_parameters
from pictures.plotting import COLORS, bare, figure, labels, show

SURPRISE = LinearSegmentedColormap.from_list("surprise", ["white", COLORS[1]])


def tower(rungs: Mapping[str, tuple[float, str, int]], parts: Mapping[str, Sequence[str]]) -> None:
    """Rungs from the ground up: the `parts` of each as boxes, its loss, its parameters, and below what it writes.

    A rung has six parts at most; it is orange where none of several begins with "+".
    """
    _, ax = figure(7.4, 0.72 * len(rungs) + 0.3)
    phrases = []
    for y, (name, (loss, text, parameters)) in enumerate(rungs.items()):
        adds = len(parts[name]) == 1 or any(part.startswith("+") for part in parts[name])
        color = COLORS[0 if adds else 1]
        for x, part in enumerate(parts[name]):
            box = FancyBboxPatch((x, y), 0.84, 0.4, boxstyle="round,pad=0.02", fc=color, alpha=0.3, lw=0)
            ax.add_patch(box)
            ax.text(x + 0.42, y + 0.2, part, ha="center", va="center", fontsize=8.5)
        ax.text(-0.15, y + 0.2, name, ha="right", va="center")
        ax.text(6.75, y + 0.2, f"{loss:.2f}", ha="right", va="center", weight="bold", color=color, fontsize=13)
        ax.text(8.1, y + 0.2, f"{parameters:,}", ha="right", va="center", color="#444444")
        ax.text(0, y - 0.19, text[:60], va="center", family="monospace", fontsize=9, color="#444444")
        phrases.append(f"{name}: {loss:.2f}, {parameters:,} parameters, {text[:60]!r}")
    top = len(rungs) - 0.35
    for x, head in ((6.75, "loss"), (8.1, "parameters")):
        ax.text(x, top, head, ha="right", fontsize=9, color="#444444")
    ax.set(xlim=(-3.2, 8.15), ylim=(-0.4, top + 0.25))
    ax.axis("off")
    show(
        "A tower of models, from the ground up, each with its loss, its parameters and a line of its text. "
        f"{'; '.join(phrases)}."
    )


def surprise_text(rows: Mapping[int, Float[Tensor, "N"]], text: str, top: float = 5.0) -> None:
    """`text` once for each step, with the nats of each letter: white at 0, and full colour from `top` on."""
    _, ax = figure(0.9 + 0.148 * len(text), 0.9 + 0.32 * len(rows))
    for i, row in enumerate(rows.values()):
        for j, (letter, n) in enumerate(zip(labels(text), row.tolist(), strict=True)):
            ax.add_patch(Rectangle((j, i), 1, 0.92, facecolor=SURPRISE(0.85 * min(1.0, n / top)), linewidth=0))
            ax.text(j + 0.5, i + 0.48, letter, ha="center", va="center", family="monospace", fontsize=11)
    ax.set(xlim=(0, len(text)), ylim=(len(rows), 0), xticks=[])
    ax.set_yticks([i + 0.46 for i in range(len(rows))], [f"step {step:,}" for step in rows])
    bare(ax)
    scale = LinearSegmentedColormap.from_list("scale", [SURPRISE(0.0), SURPRISE(0.85)])
    bar = ax.inset_axes((0, -0.2 - 0.3 / len(rows), 0.4, 0.5 / len(rows)))
    bar.imshow([[i / 99 for i in range(100)]], cmap=scale, aspect="auto", extent=(0, top, 0, 1))
    nats = range(round(top) + 1)
    bar.set_xticks(nats, [f"{n}+" if n == nats[-1] else str(n) for n in nats])
    bar.set(yticks=[])
    bar.annotate("nats", (1, 0.5), (6, 0), xycoords="axes fraction", textcoords="offset points", va="center")
    bare(bar)
    means = ", ".join(f"step {step:,} {row.mean():.1f}" for step, row in rows.items())
    show(
        f"A passage, once for each of several steps, each letter the redder the more it surprised, from white at 0 "
        f"to full colour at {top:g} nats. Mean nats: {means}."
    )


def recipes(losses: Mapping[str, tuple[Sequence[float], Sequence[float]]], milestones: Mapping[str, float]) -> None:
    """The validation loss of each recipe over the letters that it has read, and what simple guessers score.

    `losses` has for each name how many letters were read, and the losses at these moments.
    """
    _, ax = figure(7.2, 3.8)
    most = max(max(letters) for letters, _ in losses.values())
    phrases = []
    for (name, (letters, values)), marker in zip(losses.items(), "os^D", strict=False):
        millions = [count / 1e6 for count in letters]
        (line,) = ax.plot(millions, values, marker=marker, markersize=4)
        longest = max(letters) == most
        ax.annotate(f"{name} {values[-1]:.2f}", (millions[-1], values[-1]), (0, 8) if longest else (8, -4),
                    textcoords="offset points", ha="right" if longest else "left", color=line.get_color())  # fmt: skip
        phrases.append(f"{name} ends at {values[-1]:.2f} after {millions[-1]:.1f} million letters")
    for name, level in milestones.items():
        ax.axhline(level, color="#555555", linewidth=1, linestyle="--")
        ax.annotate(name, (1, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", color="#333333")
    ax.set(xlabel="letters read, in millions", ylabel="validation loss (nats per letter)")
    show(f"The validation loss over the letters read. {'; '.join(phrases)}.")


# ---------------------------------------------------------------- where a GPT's numbers are
def parameters(model: GPT) -> None:
    """The matrices of a GPT to scale, so that equal areas are equally many numbers: tables below, blocks above."""
    total, unit = count_parameters(model), model.config.n_embd  # a block is so high
    if type(model) is not GPT:
        print(f"{total:,} numbers: one of today's models, of which there is no such picture")
        return
    gap, step = 0.14 * unit, 1.14 * unit
    _, ax = figure(7.4, 0.62 * len(model.blocks) + 0.9)
    end = 0.0
    for i, block in enumerate(model.blocks, 1):
        attention = block.attention
        squares = {
            "query": attention.W_query, "key": attention.W_key, "value": attention.W_value, "out": attention.out_proj,
        }  # fmt: skip
        x = 0.0
        for name, layer in squares.items():
            x = _area(ax, x, i * step, layer.weight, unit, COLORS[0], name)
        x += gap
        for name, layer in {"MLP, up": block.mlp[0], "MLP, down": block.mlp[-1]}.items():
            x = _area(ax, x, i * step, layer.weight, unit, COLORS[1], name)
        ax.text(-gap, i * step + unit / 2, f"block {i}", ha="right", va="center")
        end = max(end, x)
    tables = {"letters": model.token_embedding, "places": model.position_embedding}
    x = 0.0
    for name, table in tables.items():
        middle = x + table.weight.numel() / unit / 2
        ax.text(middle, -0.5 * gap, name, ha="right" if x == 0 else "left", va="top", fontsize=9)
        x = _area(ax, x, 0, table.weight, unit, COLORS[2], "")
    ax.text(-gap, unit / 2, "tables", ha="right", va="center")
    lines = [f"{name} {count:,} ({count / total:.1%})" for name, count in _shares(model).items()]
    for i, (line, color) in enumerate(zip(lines, (COLORS[1], COLORS[0], COLORS[2], "#444444"), strict=True)):
        place = (2.2 * unit + (i % 2) * 4.8 * unit, (0.72 - 0.45 * (i // 2)) * unit)
        ax.text(*place, line, va="center", color=color, weight="bold")
    ax.set(xlim=(-1.2 * unit, end), ylim=(-0.4 * unit, (len(model.blocks) + 1) * step), aspect="equal")
    ax.axis("off")
    show(
        f"The {total:,} numbers of a GPT to scale: a row of matrices for each of {len(model.blocks)} blocks, and below "
        f"them two small tables. {'; '.join(lines)}."
    )


def _area(ax, x: float, y: float, matrix: Tensor, height: int, color: str, name: str) -> float:
    """A matrix as a box of that height, with as much area as it has numbers; returns where it ends."""
    width = matrix.numel() / height
    ax.add_patch(Rectangle((x, y), width, height, facecolor=color, alpha=0.35, linewidth=0))
    ax.text(x + width / 2, y + height / 2, name, ha="center", va="center", fontsize=9)
    return x + width + 0.03 * height


def _shares(model: GPT) -> dict[str, int]:
    """How many parameters the MLPs, attention, the tables and all else (norms) have, the most first."""
    counts = {
        "MLPs": sum(count_parameters(block.mlp) for block in model.blocks),
        "attention": sum(count_parameters(block.attention) for block in model.blocks),
        "tables": count_parameters(model.token_embedding) + count_parameters(model.position_embedding),
    }
    return counts | {"norms": count_parameters(model) - sum(counts.values())}
