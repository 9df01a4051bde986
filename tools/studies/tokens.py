"""The room of tokens: what larger vocabularies are worth in equal time, in nats a letter."""

import time
from collections.abc import Iterable
from functools import cache
from statistics import fmean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Int64
from torch import Tensor

from helpers import tables
from helpers.data import Corpus, get_batch
from helpers.gpt import GPT, GPTConfig
from helpers.loss import evaluate
from helpers.rooms.study import TextStudy
from helpers.rooms.tokens import BPETokenizer, learn
from helpers.tables import Line

STEPS = {65: 480, 256: 450, 1024: 390, 4096: 225}  # in half a minute on one core
VOCABULARIES = [*STEPS]
WIDEST = 64  # tokens of a window; 25 of 1,024 have as many letters as 64 of 65
SETTINGS = [*((V, WIDEST) for V in VOCABULARIES), (1024, 25)]
LONGER = [(65, WIDEST), (1024, WIDEST)]  # four times as long, too


class Read(NamedTuple):
    """One training."""

    vocabulary: int
    window: int  # tokens
    times: int  # as long as STEPS
    rate: float
    seed: int


@cache
def merges(text: str) -> list[tuple[str, str]]:
    """Those of a training text."""
    return learn(text, max(VOCABULARIES) - 65)


@cache
def texts(corpus: Corpus, vocabulary: int) -> tuple[Int64[Tensor, "N"], Int64[Tensor, "M"], int]:
    """The training and the validation text as ids, and the letters of the latter."""
    cut = int(0.9 * len(corpus.text))
    training_text, validation_text = corpus.text[:cut], corpus.text[cut:]
    tokenizer = BPETokenizer(corpus.alphabet, merges(training_text)[: vocabulary - 65])
    return tokenizer.encode(training_text), tokenizer.encode(validation_text), len(validation_text)


def best_of(tried: dict[float, float]) -> tuple[float, list[float]]:
    """The rate with the lowest loss, and those to try until it has neighbours on both sides."""
    best = min(tried, key=lambda rate: tried[rate])
    return best, [rate for rate in (best / 2, best * 2) if rate not in tried]


class Tokens(TextStudy):
    """Losses a letter by vocabulary, at each one's own best rate."""

    run_type = Read

    def budget(self) -> str:
        steps = ", ".join(f"{V}: {steps:,}" for V, steps in STEPS.items())
        return (
            "3 layers, 4 heads, width 128, 1,024 tokens a step; AdamW, the rate falls in a straight line to 0; steps "
            f"in half a minute, by vocabulary: {steps}; loss: of the whole validation text, per letter and per token"
        )

    def plan(self, lines: Iterable[Line]) -> list[Read]:
        """For each setting rates are tried with one seed until the best has neighbours; then three seeds take it."""
        losses = {self.run_of(line): line["per_letter"] for line in lines}
        runs = []
        for times in (1, 4):
            for vocabulary, window in SETTINGS if times == 1 else LONGER:
                run = Read(vocabulary, window, times, 0.004 if times == 1 else 0.002, 0)
                tried = {r.rate: loss for r, loss in losses.items() if r == run._replace(rate=r.rate)}
                runs += [run._replace(rate=rate) for rate in tried or [run.rate]]
                if tried:
                    best, missing = best_of(tried)
                    runs += [run._replace(rate=rate) for rate in missing]
                    if not missing:
                        runs += [run._replace(rate=best, seed=seed) for seed in (1, 2)]
        return runs

    def measure(self, run: Read, corpus: Corpus) -> Line:
        train, val, letters = texts(corpus, run.vocabulary)
        steps, start = run.times * STEPS[run.vocabulary], time.process_time()
        torch.manual_seed(run.seed)
        config = GPTConfig(vocab_size=run.vocabulary, context_length=run.window, n_layer=3, n_head=4, n_embd=128)
        model = GPT(config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=run.rate, fused=True)
        falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, steps)
        for _ in range(steps):
            x, y = get_batch(train, 1024 // run.window, run.window)
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            falling.step()
        seconds = time.process_time() - start
        per_token = evaluate(model, val, run.window)
        per_letter = per_token * len(val) / letters
        measured = {"per_letter": round(per_letter, 4), "per_token": round(per_token, 3), "seconds": round(seconds, 1)}
        return {**run._asdict(), **measured}

    def report(self, lines: Iterable[Line]) -> str:
        """By setting and rate."""
        rows = []
        for run, group in sorted(self.by_setting(lines).items()):
            seconds = f"{fmean(line['seconds'] for line in group):.0f}"
            row = [str(run.vocabulary), str(run.window), str(run.times), f"{run.rate:g}", str(len(group)), seconds]
            rows.append(
                [*row, *(tables.spread([line[x] for line in group], ".3f") for x in ("per_letter", "per_token"))]
            )
        return tables.table(["tokens", "window", "times", "rate", "seeds", "s", "per letter", "per token"], rows)
