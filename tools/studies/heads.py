"""Train lesson 08's GPT with three seeds, and look into each; store what heads cost and places guess.

python -m tools.studies heads

A run that has ended is kept in build/runs/heads-SEED, and only loaded the next time.
"""

import itertools

import torch
from jaxtyping import Integer
from torch import Tensor
from torch.nn.functional import cross_entropy

from helpers.data import CharTokenizer
from helpers.errors import Options
from helpers.gpt import GPT
from helpers.rooms.gaps import looks_at_gaps, loss_without
from helpers.tables import Line
from tools.studies import networks

SEEDS = (1, 2, 3)
WINDOWS = 200  # of validation text, on which heads are switched off
LETTERS = 5900  # that every place guesses


def main(arguments: list[str]) -> None:
    Options(prog="python -m tools.studies heads", description=__doc__).parse_args(arguments)
    lines = [line for seed in SEEDS for line in look_into(*networks.trained("laptop", seed, f"heads-{seed}"), seed)]
    budget = (
        f"budget: the preset laptop; heads are silenced on {WINDOWS} windows of validation text, "
        f"places guess {LETTERS} letters each"
    )
    networks.store("heads", lines, budget)


def look_into(model: GPT, tokenizer: CharTokenizer, val_tokens: Integer[Tensor, "N"], seed: int) -> list[Line]:
    """A line for each head, and for the last place with two vectors."""
    T, lines = model.config.context_length, []
    part = val_tokens[: WINDOWS * T + 1]
    whole = loss_without(model, part, [])
    looks = looks_at_gaps(model, tokenizer, part)
    for layer, head in itertools.product(range(model.config.n_layer), range(model.config.n_head)):
        cost = loss_without(model, part, [(layer, head)]) - whole
        name = f"{layer + 1}.{head + 1}"
        lines.append(line_of(seed, "head", name, cost, looks[layer, head].item()))

    tokens = val_tokens[: LETTERS + 2 * T]
    last, above, error = last_place(model, tokens)
    vectors = model.position_embedding.weight.data
    own = vectors[-1].clone()
    vectors[-1] = vectors[-2]  # the last place believes that it is the one before
    lent, lent_above, lent_error = last_place(model, tokens)
    vectors[-1] = own
    lines.append(line_of(seed, "last place", "its own vector", last, above, error))
    lines.append(line_of(seed, "last place", "its neighbour's", lent, lent_above, lent_error))
    return lines


def line_of(seed: int, kind: str, what: str, loss: float, more: float, error: float = 0.0) -> Line:
    """`loss` is a rise of the loss without a head, or a place's loss. `more` is a head's attention to
    the last gap, or a place's loss above its neighbour's, with its standard `error`.
    """
    numbers = {"loss": round(loss, 5), "more": round(more, 5), "error": round(error, 5)}
    return {"seed": seed, "kind": kind, "what": what, **numbers}


@torch.no_grad()
def last_place(model: GPT, tokens: Integer[Tensor, "N"]) -> list[float]:
    """The loss at the last place, how far it lies above that of the place before, over the same
    letters, and the standard error of that, from blocks of 50 letters.
    """
    T = model.config.context_length
    windows = tokens.long().unfold(0, T + 1, 1)
    pieces = [(w[:, :-1], w[:, 1:]) for w in windows.split(256)]
    losses = torch.cat([cross_entropy(model(x).mT, y, reduction="none") for x, y in pieces])
    n = (len(windows) - 1) // 50 * 50
    above = losses[:n, T - 1] - losses[1 : n + 1, T - 2]
    blocks = above.view(-1, 50).mean(dim=1)
    error = blocks.std() / len(blocks) ** 0.5
    return torch.stack([losses[:n, T - 1].mean(), above.mean(), error]).tolist()
