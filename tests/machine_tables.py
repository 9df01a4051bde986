"""Tables for the drawing of the machine, the cases to be drawn, and what stands in a drawing."""

import itertools

import torch

from helpers.attention import attention, causal_mask
from pictures import machine

WORDS = ["Your", "journey", "starts", "with", "one", "step"]
torch.manual_seed(5)
X = torch.rand(6, 3)
SCORES = X @ X.T
ALONE = {"x": X, "scores": SCORES, "weights": SCORES.softmax(-1), "context": SCORES.softmax(-1) @ X}
PROJECTED = dict(
    zip(("query", "key", "value"), (X @ torch.randn(3, 3, 2)).unbind(), strict=True)
) | {"x": X}
PROJECTED["scores"] = PROJECTED["query"] @ PROJECTED["key"].T / 2**0.5
PROJECTED["context"], PROJECTED["weights"] = attention(
    PROJECTED["query"], PROJECTED["key"], PROJECTED["value"]
)
CAUSAL = PROJECTED | {"mask": causal_mask(6)}
CAUSAL["context"], CAUSAL["weights"] = attention(
    PROJECTED["query"], PROJECTED["key"], PROJECTED["value"], CAUSAL["mask"]
)


CASES = {
    "grey": (WORDS, {"lit": ()}),
    "01": (WORDS, {"x": X, "scores": SCORES, "follow": 1}),
    "02": (WORDS, ALONE | {"lit": ("softmax", "weights", "mixture", "context")}),
    "03": (WORDS, PROJECTED | {"lit": ("query", "key", "value"), "follow": 1}),
    "04": (WORDS, CAUSAL | {"lit": ("mask",), "follow": 5}),
    "05": (
        WORDS,
        CAUSAL | {"kept": torch.rand(6, 6) > 0.5, "lit": ("dropout", "weights"), "follow": 5},
    ),
    "four": (WORDS[:4], {"x": X[:4], "scores": SCORES[:4, :4], "lit": ("scores", "heads")}),
    "one": (["a"], {"x": X[:1], "scores": SCORES[:1, :1]}),
    "letters": (
        list("O Romeo, Romeo! wherefor"),
        {"x": torch.rand(24, 64), "weights": torch.rand(24, 24), "follow": 7},
    ),
    "long": (
        ["tokenization", "$5$"],
        {"x": X[:2], "scores": SCORES[:2, :2], "lit": ("query", "key")},
    ),
}


def texts(ax):
    return [text.get_text() for text in ax.texts]


def box_of(tables, name, words=WORDS, keys=None):
    """Left, top, right and bottom of a table."""
    room = 14 + 5.7 * max(map(len, [*words, *(keys or [])]))
    left, top, width, height = machine.layout(tables, len(words), len(keys or words), room)[name]
    return left, top, left + width, top + height


def numbers(ax, box):
    """The numbers in a box by their rows."""
    cells = [text for text in ax.texts if box[0] < text.get_position()[0] < box[2]]
    cells = [text for text in cells if box[1] < text.get_position()[1] < box[3]]
    rows = itertools.groupby(
        sorted(cells, key=lambda t: t.get_position()[::-1]), key=lambda t: t.get_position()[1]
    )
    return [[text.get_text() for text in row] for _, row in rows]
