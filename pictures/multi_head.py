"""Lesson 06's picture: how far back each head of a layer looks, in several networks."""

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
        ax.imshow(table, cmap=plotting.SHARE, vmin=0, vmax=1, aspect="auto")
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
