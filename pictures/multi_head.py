"""Lesson 06's pictures: a tape of numbers, cut and lifted; and the scene of sheets.py."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from matplotlib.patches import Rectangle
from torch import Tensor

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


def letter() -> tuple[list[str], list[str], Float[Tensor, "10 4"], dict[str, list[Tensor]]]:
    """A sentence, the names of four numbers, those of its words, and the matrices of two heads, set by hand.

    Each head, by its question, has W_query, W_key, W_value (4, 2) and its slice of W_o (2, 4).
    """
    numbers = ["thing", "deed", "opens", "asks"]  # a thing? a deed? about opening? does it point back?
    meaning = {
        "letter": [1.0, 0.0, 1.0, 0.0],
        "table": [1.0, 0.0, 0.0, 0.0],
        "took": [0.0, 1.0, 0.0, 0.0],
        "opened": [0.0, 1.0, 1.0, 0.0],
        "it": [0.0, 0.0, 0.0, 1.0],
    }
    words = ["Romeo", "took", "the", "letter", "from", "the", "table", "and", "opened", "it"]
    x = torch.tensor([meaning.get(word, [0.0] * 4) for word in words])
    which_thing = [
        # Deeds ask for a thing, what opens for what opens; "it" asks for both, and louder.
        torch.tensor([[0.0, 0.0], [2.4, 0.0], [0.0, 2.4], [3.6, 3.6]]),
        torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
        torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
        # A thing is no deed, and then there is less to ask.
        torch.tensor([[1.0, -0.5, 0.0, -0.5], [0.0, 0.0, 1.0, 0.0]]),
    ]
    which_deed = [
        torch.tensor([[2.4, 0.0], [0.0, 0.0], [0.0, 2.4], [3.6, 3.6]]),
        torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
        torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
        # To whom something is done is a thing.
        torch.tensor([[0.25, 1.0, 0.0, -0.25], [0.0, 0.0, 1.0, 0.0]]),
    ]
    return words, numbers, x, {"which thing?": which_thing, "which deed?": which_deed}
