"""Lesson 07's study of norms: at which rate training runs away without them, and what else holds it."""

import time
from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from helpers import tables
from helpers.data import Corpus, get_batch, split
from helpers.gpt import GPT, GPTConfig, one_thread
from helpers.rooms.parts import remove_norms
from helpers.rooms.study import TextStudy
from helpers.tables import Line

T = 32  # letters of a window
STEPS = 300
GUESS = 4.17  # nats: ln 65, a blind guess


class Rated(NamedTuple):
    """One training."""

    norms: bool
    held_by: str  # nothing, clipping: gradients longer than 1 are shortened, or warm-up: over 50 steps
    rate: float
    seed: int
    steps: int = STEPS


class Norms(TextStudy):
    """Losses with norms and without, at ordinary and at high rates."""

    run_type = Rated

    def budget(self) -> str:
        return (
            f"notebook 07's GPT (helpers.gpt), three blocks of four heads, C = 64, {STEPS} steps or four times as many "
            f"on 16 windows of {T} letters, Adam, the rate falls to zero; the loss in nats on 1,000 windows of the "
            "validation split"
        )

    def plan(self, lines: Iterable[Line]) -> list[Rated]:
        settings = [
            (norms, "nothing", rate) for rate in (0.03, 0.008, 0.015, 0.004, 0.002, 0.001) for norms in (False, True)
        ]
        settings += [(False, how, 0.03) for how in ("clipping", "warm-up")]
        runs = [Rated(*setting, seed) for setting in settings for seed in range(8)]
        runs += [Rated(norms, "nothing", 0.06, seed) for seed in range(3) for norms in (False, True)]
        rates = {True: (0.001, 0.002, 0.004), False: (0.004, 0.008, 0.015)}
        longer = [(norms, rate) for norms in rates for rate in rates[norms]]
        return runs + [Rated(norms, "nothing", rate, seed, 4 * STEPS) for norms, rate in longer for seed in range(3)]

    @one_thread()
    def measure(self, run: Rated, corpus: Corpus) -> Line:
        start = time.process_time()
        train_tokens, val_tokens = split(corpus.tokens, T)
        torch.manual_seed(run.seed)
        model = GPT(GPTConfig(corpus.tokenizer.vocab_size, context_length=T, n_layer=3, n_head=4, n_embd=64))
        if not run.norms:
            remove_norms(model)
        optimizer = torch.optim.Adam(model.parameters(), run.rate, fused=True)
        rises = 50 if run.held_by == "warm-up" else 1
        highest = 0.0
        for step in range(run.steps):
            for group in optimizer.param_groups:
                group["lr"] = run.rate * min(1, (step + 1) / rises) * (1 - step / run.steps)
            x, y = get_batch(train_tokens, 16, T)
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            if run.held_by == "clipping":
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            highest = max(highest, loss.item())
        x, y = get_batch(val_tokens, 1000, T, torch.Generator().manual_seed(1))
        with torch.no_grad():
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        measured = {"loss": round(loss.item(), 4), "highest": round(highest, 4)}
        return {**run._asdict(), **measured, "seconds": round(time.process_time() - start, 1)}

    def report(self, lines: Iterable[Line]) -> str:
        """By setting: the losses of all seeds in order, and how many lie above a blind guess."""
        rows = []
        for run, group in self.by_setting(lines).items():
            losses = sorted(line["loss"] for line in group)
            above = sum(not loss < GUESS for loss in losses)  # one that is no number, too
            norms = "yes" if run.norms else "no"
            row = [norms, run.held_by, f"{run.rate:g}", f"{run.steps:,}", str(len(group)), str(above)]
            rows.append([*row, " ".join(f"{loss:,.2f}" for loss in losses)])
        return tables.table(["norms", "held by", "rate", "steps", "seeds", f"above {GUESS}", "losses"], rows)
