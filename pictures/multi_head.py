"""Lesson 06's pictures: the scene of sheets.py, and how far back each head of a layer looks, in several networks."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pictures import plotting

DISTANCES = ("itself", "1 back", "2 back", "3 back", "further")


def habits(networks: Sequence[Float[Tensor, "H 4"]], names: Sequence[str]) -> None:
    """For each network a table: heads as rows, the share that each gives to letters so far back as columns.

    The shares of a head are those for the letter itself, and for one, two and three letters back; what is missing
    to 1 went further back. Whoever looks one back the most stands first.
    """
    drawing, _ = plotting.figure(1.92 * len(networks), 2.6, columns=len(networks))
    sentences = []
    for ax, shares, name in zip(drawing.axes, networks, names, strict=True):
        order = shares[:, 1].argsort(descending=True)
        shares = shares[order]
        table = torch.cat([shares, 1 - shares.sum(dim=1, keepdim=True)], dim=1)
        ax.imshow(table.numpy(), cmap=plotting.SHARE, vmin=0, vmax=1, aspect="auto")
        for row, column in torch.cartesian_prod(*(torch.arange(n) for n in table.shape)).tolist():
            percent = f"{100 * table[row, column]:.0f}"
            ax.text(column, row, percent, ha="center", va="center", fontsize=9)
        ax.set_xticks(range(len(DISTANCES)), DISTANCES, rotation=90, fontsize=9)
        ax.set_yticks(range(len(order)), [f"{head + 1}" for head in order.tolist()])
        ax.set_title(name, fontsize=10)
        plotting.bare(ax)
        firsts = ", ".join(f"{share:.0%}" for share in shares[:, 1].tolist())
        sentences.append(f"{name}: {firsts}")
    drawing.axes[0].set_ylabel("head")
    plotting.show(f"How much each head gives to the letter one back. {'; '.join(sentences)}.")


def letter() -> tuple[list[str], list[str], Float[Tensor, "10 4"], dict[str, list[Tensor]]]:
    """A sentence, the names of four numbers, those of its words, and the matrices of two heads, set by hand.

    Each head, by its question, has W_query, W_key, W_value (4, 2) and its slice of W_o (2, 4).
    """
    numbers = ["thing", "deed", "opens", "refers"]  # a thing? a deed? about opening? does it refer back?
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
