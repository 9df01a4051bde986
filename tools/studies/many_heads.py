"""Lesson 06's two studies: two questions to one softmax, and what heads are worth in a small GPT."""

import time
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers import tables, telegrams
from helpers.attention import MultiHeadAttention, attention
from helpers.data import Corpus, get_batch, split
from helpers.gpt import one_thread
from helpers.rooms.study import SyntheticStudy, TextStudy
from helpers.tables import Line


# ---------------------------------------------------------------- two questions
class TwoAnswers(nn.Module):
    """Lesson 06's network, with something behind its heads: asker (B, 32), cards (B, 6, 96) -> (B, 2, 32)."""

    def __init__(self, heads: int, behind: str, width: int = 64):
        super().__init__()
        self.heads = heads
        self.W_query = nn.Linear(32, width, bias=False)
        self.W_key = nn.Linear(96, width, bias=False)
        self.W_value = nn.Linear(96, width, bias=False)
        bend = nn.GELU() if behind == "an MLP" else nn.Identity()
        two_matrices = nn.Sequential(nn.Linear(width, 256), bend, nn.Linear(256, 64))
        one_matrix = nn.Linear(width, 64, bias=False)
        self.behind = {"nothing": nn.Identity(), "a matrix": one_matrix}.get(behind, two_matrices)

    def forward(self, asker: Float[Tensor, "B 32"], cards: Float[Tensor, "B 6 96"]) -> Float[Tensor, "B 2 32"]:
        query, key, value = self.W_query(asker)[:, None], self.W_key(cards), self.W_value(cards)
        query, key, value = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (query, key, value))
        context, self.weights = attention(query, key, value)  # (B, H, 1, D)
        return self.behind(context.flatten(1)).view(-1, 2, 32)


class Asked(NamedTuple):
    """One training."""

    heads: int
    behind: str  # the heads: nothing, a matrix, two matrices, an MLP
    width: int  # of all heads together
    steps: int
    rate: float
    seed: int


class TwoQuestions(SyntheticStudy):
    """How often one head, and two, answer two questions with one look."""

    run_type = Asked

    def budget(self) -> str:
        return (
            "what does romeo give, and what does he get?, 32 scenes a step, Adam; of 2,000 new scenes: both right, "
            "the same thing twice; loud and soft: the mean weight of the louder of the two cards, and of the other"
        )

    def plan(self, lines: Iterable[Line]) -> list[Asked]:
        networks = [(1, "nothing", 64), (2, "nothing", 64), (1, "a matrix", 256)]
        networks += [(1, "two matrices", 64), (1, "an MLP", 64)]
        trainings = [(300, 0.01), (1200, 0.01), (300, 0.0025), (300, 0.04), (1200, 0.0025)]
        runs = [Asked(*network, *how, seed) for how in trainings for seed in range(8) for network in networks]
        return runs + [Asked(*networks[k], 2400, 0.001, seed) for seed in range(8) for k in (0, 3)]

    def measure(self, run: Asked) -> Line:
        start = time.process_time()
        model = telegrams.fit(
            lambda: TwoAnswers(run.heads, run.behind, run.width), "both", run.seed, steps=run.steps, lr=run.rate
        )
        exam, answers = telegrams.look_up("both", 2000, torch.Generator().manual_seed(5))
        with torch.no_grad():
            words = telegrams.nearest_words(model(*exam))
        things = telegrams.nearest_words(exam[1][:, :, 32:64])
        looks = model.weights.mean(dim=1)[:, 0]  # (2000, 6), over the heads
        weights = torch.stack([(looks * (things == answer[:, None])).sum(dim=1).mean() for answer in answers.T])
        results = {
            "right": (words == answers).all(dim=1).float().mean().item(),
            "twice": (words[:, 0] == words[:, 1]).float().mean().item(),
            "loud": weights.max().item(),
            "soft": weights.min().item(),
        }
        rounded = {name: round(value, 4) for name, value in results.items()}
        return {**run._asdict(), **rounded, "seconds": round(time.process_time() - start, 1)}

    def report(self, lines: Iterable[Line]) -> str:
        """By network and training: what is right and what is said twice, with the range over the seeds."""
        rows = []
        for run, group in self.by_setting(lines).items():
            spreads = []
            for name in ("right", "twice"):
                shares = [line[name] for line in group]
                spreads.append(tables.spread(shares, ".0%"))
            weights = [f"{fmean(line[name] for line in group):.2f}" for name in ("loud", "soft")]
            settings = [str(run.heads), run.behind, str(run.width), f"{run.steps:,}", f"{run.rate:g}"]
            rows.append([*settings, str(len(group)), *spreads, *weights])
        return tables.table(
            ["heads", "behind", "width", "steps", "rate", "seeds", "right", "twice", "loud", "soft"], rows
        )


# ---------------------------------------------------------------- what heads are worth
T = 32  # letters of a window
WIDTH = 64


class Guesser(nn.Module):
    """Lesson 06's layer, once or more, with or without an MLP behind each: tokens (B, T) -> logits (B, T, V)."""

    def __init__(self, vocab_size: int, num_heads: int, layers: int, mlp: bool):
        super().__init__()
        self.token = nn.Embedding(vocab_size, WIDTH)
        self.place = nn.Embedding(T, WIDTH)
        parts: list[nn.Module] = []
        for _ in range(layers):
            parts.append(MultiHeadAttention(WIDTH, WIDTH, T, 0.0, num_heads))
            if mlp:
                parts.append(nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)))
        self.parts = nn.ModuleList(parts)
        self.to_logits = nn.Linear(WIDTH, vocab_size)

    def forward(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        for part in self.parts:
            x = x + part(x)
        return self.to_logits(x)


class Worth(NamedTuple):
    """One training."""

    heads: int
    layers: int
    mlp: str  # yes or no
    steps: int
    rate: float
    seed: int


class HeadsWorth(TextStudy):
    """One head against four of a quarter of its width, with one layer or two, with an MLP or without."""

    run_type = Worth

    def budget(self) -> str:
        return (
            f"the layer of notebook 06, width {WIDTH}, 32 windows of {T} letters a step, Adam, a rate that falls in a "
            "straight line to zero; the loss in nats over the whole validation split"
        )

    def plan(self, lines: Iterable[Line]) -> list[Worth]:
        networks = [(heads, layers, mlp) for layers in (1, 2) for mlp in ("no", "yes") for heads in (1, 4)]
        runs = [Worth(*network, 600, 0.01, seed) for seed in range(8) for network in networks]
        for how in ((2400, 0.005), (600, 0.005), (600, 0.02)):
            runs += [Worth(*network, *how, seed) for seed in range(3) for network in networks]
        return runs

    @one_thread()
    def measure(self, run: Worth, corpus: Corpus) -> Line:
        start = time.process_time()
        train_tokens, val_tokens = split(corpus.tokens, T)
        torch.manual_seed(run.seed)
        model = Guesser(corpus.tokenizer.vocab_size, run.heads, run.layers, run.mlp == "yes")
        optimizer = torch.optim.Adam(model.parameters(), lr=run.rate)
        fade = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, run.steps)
        for _ in range(run.steps):
            x, y = get_batch(train_tokens, 32, T)
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            fade.step()
        n = (len(val_tokens) - 1) // T * T
        x, y = val_tokens[:n].view(-1, T).long(), val_tokens[1 : n + 1].view(-1, T).long()
        with torch.no_grad():
            nats = sum(
                F.cross_entropy(model(part).mT, answers, reduction="sum").item()
                for part, answers in zip(x.split(256), y.split(256), strict=True)
            )
        return {**run._asdict(), "loss": round(nats / n, 4), "seconds": round(time.process_time() - start, 1)}

    def report(self, lines: Iterable[Line]) -> str:
        """By network and training: the loss, and one head's less four heads', seed by seed."""
        lines = list(lines)
        of_four = {self.run_of(line)._replace(heads=1): line["loss"] for line in lines if line["heads"] == 4}
        rows = []
        for run, group in self.by_setting(lines).items():
            losses = [line["loss"] for line in group]
            gaps = [line["loss"] - of_four[self.run_of(line)] for line in group if self.run_of(line) in of_four]
            gap = tables.spread(gaps, "+.3f") if gaps else ""
            settings = [str(run.layers), run.mlp, str(run.heads), f"{run.steps:,}", f"{run.rate:g}"]
            rows.append([*settings, str(len(group)), f"{fmean(losses):.3f} ± {max(losses) - min(losses):.3f}", gap])
        return tables.table(["layers", "MLP", "heads", "steps", "rate", "seeds", "loss", "less four's"], rows)
