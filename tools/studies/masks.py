"""Lesson 04's study: what a mask buys, a mask in one of two layers, and attention without places."""

import time
from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from helpers import tables
from helpers.attention import attention, causal_mask
from helpers.data import Corpus, get_batch, split
from helpers.gpt import one_thread
from helpers.rooms.study import TextStudy
from helpers.tables import Line

T = 16  # letters of a window
WIDTH = 64


class Layer(nn.Module):
    """Lesson 04's attention: what it finds is added to what was there, (B, T, 64) -> (B, T, 64)."""

    def __init__(self, mask: Bool[Tensor, "T T"]):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.mask = mask

    def forward(self, x: Float[Tensor, "B T 64"]) -> Float[Tensor, "B T 64"]:
        n = x.shape[1]
        return x + attention(self.W_query(x), self.W_key(x), self.W_value(x), self.mask[:n, :n])[0]


class Guesser(nn.Module):
    """Lesson 04's model, with a layer for each of the masks: tokens (B, T) -> logits (B, T, V)."""

    def __init__(self, vocab_size: int, masked: Iterable[bool], places: bool = True):
        super().__init__()
        self.token = nn.Embedding(vocab_size, WIDTH)
        self.place = nn.Embedding(T, WIDTH) if places else None
        masks = [causal_mask(T) if is_masked else torch.ones(T, T).bool() for is_masked in masked]
        self.layers = nn.Sequential(*map(Layer, masks))
        self.to_logits = nn.Linear(WIDTH, vocab_size)

    def forward(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        x = self.token(tokens)
        if self.place is not None:
            x = x + self.place.weight[: tokens.shape[1]]
        return self.to_logits(self.layers(x))


@torch.no_grad()
def losses(
    model: Guesser, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"], covered: bool = False
) -> Float[Tensor, "T"]:
    """The loss at each place; `covered`: whatever comes after it is cut off first."""
    logits = model(x)
    if covered:
        logits = torch.stack([model(x[:, : t + 1])[:, -1] for t in range(T)], dim=1)
    return F.cross_entropy(logits.mT, y, reduction="none").mean(dim=0)


class Guessed(NamedTuple):
    """One training."""

    masked: str  # layer by layer: "yes", "no", "no yes", ...
    places: bool
    asked: str  # everywhere, or at the last place
    windows: int  # of a step
    steps: int
    rate: float
    seed: int


class Masks(TextStudy):
    """What it costs to be asked once a window, where a mask must stand, and what places are for."""

    run_type = Guessed

    def budget(self) -> str:
        return (
            f"the model of notebook 04, windows of {T} letters, Adam; the loss in nats on 1,000 windows of the "
            "validation split: with the future visible, covered, and at the last place"
        )

    def plan(self, lines: Iterable[Line]) -> list[Guessed]:
        usual = (True, "everywhere", 32)
        what = [("no", *usual), ("yes", *usual), ("no", False, *usual[1:]), ("yes", False, *usual[1:])]
        what += [("yes", True, "at the last place", windows) for windows in (32, 64, 128, 256, 512)]
        what += [("no", True, "everywhere", 512)]
        what += [(masked, *usual) for masked in ("no no", "yes no", "no yes", "yes yes")]
        runs = [Guessed(*setting, 300, 0.01, seed) for seed in range(8) for setting in what]
        small = [setting for setting in what if setting[3] == 32]
        return runs + [Guessed(*setting, *how, seed) for how in ((1200, 0.01), (300, 0.0025), (300, 0.04))
                       for seed in range(3) for setting in small]  # fmt: skip

    @one_thread()
    def measure(self, run: Guessed, corpus: Corpus) -> Line:
        start = time.process_time()
        train_tokens, val_tokens = split(corpus.tokens, T)
        torch.manual_seed(run.seed)
        model = Guesser(corpus.tokenizer.vocab_size, [word == "yes" for word in run.masked.split()], run.places)
        optimizer = torch.optim.Adam(model.parameters(), lr=run.rate)
        first = 0 if run.asked == "everywhere" else T - 1
        for _ in range(run.steps):
            x, y = get_batch(train_tokens, run.windows, T)
            logits, y = model(x)[:, first:], y[:, first:]
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        x, y = get_batch(val_tokens, 1000, T, torch.Generator().manual_seed(1))
        visible = losses(model, x, y)
        results = {
            "visible": visible.mean().item(),
            "covered": losses(model, x, y, covered=True).mean().item(),
            "last": visible[-1].item(),
        }
        losses_rounded = {name: round(loss, 4) for name, loss in results.items()}
        return {**run._asdict(), **losses_rounded, "seconds": round(time.process_time() - start, 1)}

    def report(self, lines: Iterable[Line]) -> str:
        """By setting: the mean and the range over the seeds of each of the three losses."""
        rows = []
        for run, group in self.by_setting(lines).items():
            spreads = []
            for name in ("visible", "covered", "last"):
                found = [line[name] for line in group]
                spreads.append(tables.spread(found))
            places = "yes" if run.places else "no"
            settings = [run.masked, places, run.asked, str(run.windows), f"{run.steps:,}", f"{run.rate:g}"]
            rows.append([*settings, str(len(group)), *spreads])
        heads = ["masked", "places", "asked", "windows", "steps", "rate", "seeds", "visible", "covered", "last"]
        return tables.table(heads, rows)
