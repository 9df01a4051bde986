"""Lesson 06's pictures: a tape of numbers, cut and lifted; the threads of two heads over a line."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.patches import Rectangle
from torch import Tensor

from pictures import explore
from pictures.plotting import COLORS, figure, show


def tape(words: Sequence[str], alone: bool = False) -> None:
    """Four numbers a word as they lie in memory, dealt to two heads: by `view` alone, or cut and lifted."""
    C, D = 4, 2
    n = C * len(words)
    _, ax = figure(10, 2.7)
    ax.text(-0.4, 0.5, "in memory", ha="right", va="center")
    for k in range(n):
        word, color = k // C, COLORS[(k // C) % len(COLORS)]
        second = k >= n // 2 if alone else k % C >= D
        for y in (0, -1.1 - 1.1 * second):
            ax.add_patch(Rectangle((k, y), 0.94, 0.9, color=color, alpha=0.4, lw=0))
            ax.text(k + 0.47, y + 0.45, str(k), ha="center", va="center")
        if k % C == 0:
            ax.text(k + C / 2, 1.5, words[word], ha="center", va="bottom")
        cut = k == n // 2 if alone else k and k % D == 0
        if cut:
            ax.plot([k - 0.03] * 2, [-0.25, 1.0], "k--", lw=1)
            ax.text(k - 0.03, 1.0, "✂", ha="center", va="bottom", fontsize=11)
    for y, name in ((-0.65, "head 1"), (-1.75, "head 2")):
        ax.text(-0.4, y, name, ha="right", va="center")
    ax.set(xlim=(-2.6, n), ylim=(-2.3, 2.1))
    ax.axis("off")
    which = "the last eight numbers" if alone else "the last two numbers of each word"
    show(
        f"A tape of {n} numbers, four for each of {', '.join(words)}, cut by scissors. Head 2 has {which}, "
        f"head 1 the others."
    )


def threads(line: str, heads: Mapping[str, Float[Tensor, "T T"]]) -> None:
    """For each head, a line of letters twice: from each below to those above, threads as thick as weights."""
    _, axes = figure(10, 1.9 * len(heads), rows=len(heads))
    letters = [letter.replace(" ", "␣").replace("\n", "↵") for letter in line]
    phrases = []
    for ax, (name, weights) in zip(axes, heads.items(), strict=True):
        for t, row in enumerate(weights.tolist()):
            ax.text(t, 1.12, letters[t], ha="center", va="bottom", fontsize=12)
            ax.text(t, -0.12, letters[t], ha="center", va="top", fontsize=12)
            for s, weight in enumerate(row):
                if weight > 0.03:
                    ax.plot([t, s], [0, 1], color=COLORS[2], lw=4 * weight, alpha=0.8)
        ax.set(xlim=(-3.2, len(line)), ylim=(-0.5, 1.5))
        ax.text(-1, 0.5, name, ha="right", va="center")
        ax.axis("off")
        back = [float(weights.diagonal(-d).mean()) for d in range(4)]
        most = max(range(4), key=back.__getitem__)
        phrases.append(f"{name} mostly {most} back, {back[most]:.0%}")
    cases = [(name, letters, letters, weights) for name, weights in heads.items()]
    explore.lines(cases, f"Threads from each letter of {line} to those it looks at: {'; '.join(phrases)}.")
