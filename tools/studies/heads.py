"""Train lesson 08's better GPT with three seeds and watch its heads grow; store where they look and what they cost.

python -m tools.studies heads

The trainings are kept in build/runs/playground-…-watched: after a kill the same command goes on with them, and those
that have ended are only read. It stores heads.csv, heads_growth.csv, heads_maps.csv and playground.txt.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from helpers.commands import Options, say
from helpers.data import CharTokenizer, load_corpus, split
from helpers.files import write
from helpers.gpt import GPT, attention_maps
from helpers.loss import evaluate
from helpers.presets import PRESETS
from helpers.rooms.heads import Head, looks_back, loss_without, made_to_look_back
from helpers.tables import MEASURED, Line
from tools.studies import networks
from tools.studies.header import header
from tools.studies.presets import sample

PRESET, STEPS, SEEDS = "playground", 3000, (1, 2, 3)
AT = (25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1000, 1200, 1500, 1800, 2100, 2400, 2700,
      3000)  # fmt: skip
WINDOWS = 50  # of validation text, on which heads are switched off
LINE = "wherefore art thou Romeo"


def main(arguments: list[str]) -> None:
    Options(prog="python -m tools.studies heads", description=__doc__).parse_args(arguments)
    corpus = load_corpus()
    tokenizer = corpus.tokenizer
    _, val_tokens = split(corpus.tokens, PRESETS[PRESET].model["context_length"])
    heads, growth, ends = [], [], []
    for seed in SEEDS:
        say(f"network {seed}")
        folder = networks.watched(PRESET, STEPS, seed, AT)
        model, _ = at_step(folder, STEPS)
        lines = look_into(model, val_tokens, seed)
        heads.extend(lines)
        growth.extend(grown(folder, val_tokens, seed, keenest(lines)))
        ends.append(f"seed {seed}: loss {evaluate(model, val_tokens, model.config.context_length):.4f}")
    budget = f"budget: the preset {PRESET} with {STEPS:,} steps; {', '.join(ends)} on the whole validation text"
    networks.store("heads", heads, f"{budget}; everything else on its first {WINDOWS} windows")
    networks.store("heads", growth, f"{budget}, and so are all others", "heads_growth")
    first, _ = at_step(networks.watched(PRESET, STEPS, SEEDS[0], AT), STEPS)
    networks.store("heads", maps_of(first, tokenizer), f"the network of seed {SEEDS[0]} reads {LINE!r}", "heads_maps")
    text = [*header("heads", corpus=corpus), budget, f"the model of seed {SEEDS[0]}, temperature 0.8, writes:"]
    write(MEASURED / f"{PRESET}.txt", "".join(f"# {line}\n" for line in text) + sample(first, tokenizer, top_p=1.0))
    say(f"stored a text in notebooks/measured/{PRESET}.txt")


def at_step(folder: Path, step: int) -> tuple[GPT, list[float]]:
    """The network as it was at this step, and the losses of all batches up to it."""
    kept = torch.load(networks.snapshot(folder, step), weights_only=True)
    model = PRESETS[PRESET].build(len(load_corpus().alphabet), torch.empty(0))
    model.load_state_dict(kept["model"])
    return model.eval(), kept["losses"]


def look_into(model: GPT, val_tokens: Integer[Tensor, "N"], seed: int) -> list[Line]:
    """A line for each head: where it looks, and by how much the loss rises in four trials.

    `cost`: it says the same at every place, its mean; `first_half`, `second_half`: the same, on either half of the
    windows; `zeros`: it says nothing at all; `by_hand`: it reads the letter one, two or three back, whichever it looked
    at most, and nothing else.
    """
    T, lines = model.config.context_length, []
    part = val_tokens[: WINDOWS * T + 1]
    halves = part[: WINDOWS // 2 * T + 1], part[WINDOWS // 2 * T :]
    whole = [loss_without(model, half, []) for half in halves]
    back = torch.stack([looks_back(model, part, letters) for letters in (1, 2, 3)])  # (3, L, H)
    for layer, head in heads_of(model):
        costs = [loss_without(model, half, [(layer, head)]) - loss for half, loss in zip(halves, whole, strict=True)]
        with says_nothing(model, layer, head):
            zeros = evaluate(model, part, T) - sum(whole) / 2
        mine = back[:, layer, head]
        with made_to_look_back(model, layer, head, 1 + int(mine.argmax())):
            by_hand = evaluate(model, part, T) - sum(whole) / 2
        measured = dict(zip(("one_back", "two_back", "three_back"), mine.tolist(), strict=True)) | {
            "cost": sum(costs) / 2,
            "first_half": costs[0],
            "second_half": costs[1],
            "zeros": zeros,
            "by_hand": by_hand,
        }
        which = {"seed": seed, "layer": layer + 1, "head": head + 1}
        lines.append(which | {name: round(value, 4) for name, value in measured.items()})
    return lines


def heads_of(model: GPT) -> Iterator[Head]:
    return itertools.product(range(model.config.n_layer), range(model.config.n_head))


def keenest(lines: list[Line]) -> Head:
    """The head that ends with the largest share one letter back."""
    line = max(lines, key=lambda line: line["one_back"])
    return line["layer"] - 1, line["head"] - 1


@contextmanager
def says_nothing(model: GPT, layer: int, head: int) -> Iterator[None]:
    """Inside, what a head says is all zeros."""
    D = model.config.n_embd // model.config.n_head
    channels = slice(head * D, (head + 1) * D)

    def replace(_: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        context = inputs[0].clone()
        context[..., channels] = 0
        return context

    hook = model.blocks[layer].attention.out_proj.register_forward_pre_hook(replace)
    try:
        yield
    finally:
        hook.remove()


def grown(folder: Path, val_tokens: Integer[Tensor, "N"], seed: int, one: Head) -> Iterator[Line]:
    """A line for each step that was kept: the losses, that without head `one`, each head's share one letter back.

    `train_loss` is the mean over the batches since the line before (at step 0 it is the validation loss).
    """
    before = 0
    for step in (0, *AT):
        model, losses = at_step(folder, step)
        loss, shares = loss_without(model, val_tokens, []), looks_back(model, val_tokens)
        numbers = {
            "train_loss": sum(losses[before:step]) / (step - before) if step else loss,
            "loss": loss,
            "without": loss_without(model, val_tokens, [one]),
        } | {f"{layer + 1}.{head + 1}": shares[layer, head].item() for layer, head in heads_of(model)}
        yield {"seed": seed, "step": step} | {name: round(value, 4) for name, value in numbers.items()}
        before = step


def maps_of(model: GPT, tokenizer: CharTokenizer) -> list[Line]:
    """A line for each head and letter of LINE: the shares of the letters that it looks at, to two digits."""
    maps = attention_maps(model, tokenizer.encode(LINE)[None].long())[:, 0]
    return [
        {"layer": layer + 1, "head": head + 1, "letter": place + 1}
        | {str(key + 1): round(share, 2) for key, share in enumerate(maps[layer, head, place].tolist())}
        for layer, head in heads_of(model)
        for place in range(len(LINE))
    ]
