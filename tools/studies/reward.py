"""The room of rewards: four rounds of learning from what a judge liked best, and what holds it back."""

import copy
import re
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Integer
from torch import Tensor

from helpers import tables
from helpers.data import CharTokenizer, load_corpus, split
from helpers.gpt import GPT, GPTConfig
from helpers.loss import evaluate
from helpers.optim import make_optimizer
from helpers.presets import PRESETS
from helpers.rooms import reward
from helpers.rooms.contest import book_of, found_and_different, words_after
from helpers.rooms.study import Study
from helpers.tables import Line
from helpers.training import updates

T = reward.BEGIN + reward.NEW
ROUNDS = 4
BEGINNINGS = 64  # of a round
WAYS = (("nothing", 0.0), ("Shakespeare", 1.0), *(("the old model", s) for s in (0.1, 0.3, 1.0, 3.0)), ("pairs", 0.0))


class Rewarded(NamedTuple):
    """One network, rewarded."""

    held_by: str  # nothing; Shakespeare's text, the old model (KL), or a judge that looks at pairs of words
    strength: float
    seed: int


def book() -> tuple[set[str], set[tuple[str, str]]]:
    """The words of the training text, and the pairs of them that follow each other."""
    text = load_corpus().text
    text = text[: int(0.9 * len(text))]
    return book_of(text), {*pairwise(re.findall(r"\w{3,}", text.lower()))}


@cache
def before(seed: int, vocab_size: int) -> GPT:
    """A network that has learned for half a minute."""
    train_tokens, _ = split(load_corpus().tokens, T)
    recipe = replace(PRESETS["playground"].training, max_steps=600, seed=seed, bfloat16_cpu=False)
    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=vocab_size, context_length=T, n_layer=3, n_head=4, n_embd=128))
    batches = torch.Generator().manual_seed(seed)
    for _ in updates(model, train_tokens, recipe, make_optimizer(model, recipe), batches):
        pass
    return model.eval()


class Reward(Study):
    """Words found in the book and the loss on Shakespeare, after each round."""

    run_type = Rewarded

    def budget(self) -> str:
        return (
            f"3 layers, 4 heads, width 128, trained as the preset playground, for 600 steps of 8 windows of {T}; "
            f"{ROUNDS} rounds: {BEGINNINGS} beginnings, {reward.TRIES} tries of {reward.NEW} letters each, the best "
            "read eight times, AdamW at 0.0005; found: of the words of 256 fresh tries, by the judge's book; pairs: "
            "of two neighbours; different: words found; loss: of the first 20,000 letters of the validation text"
        )

    def plan(self, lines: Iterable[Line]) -> list[Rewarded]:
        return [Rewarded(*way, seed) for seed in range(8) for way in WAYS]

    def measure(self, run: Rewarded, tokens: Integer[Tensor, "N"], vocab_size: int, device: str = "cpu") -> Line:
        old, start = before(run.seed, vocab_size), time.process_time()
        model, tokenizer = copy.deepcopy(old), CharTokenizer(load_corpus().alphabet)
        train_tokens, val_tokens = split(tokens, T)
        words, pairs = book()
        judge = reward.known_pairs(pairs) if run.held_by == "pairs" else reward.known_words(words)
        dice = torch.Generator().manual_seed(run.seed)
        torch.manual_seed(run.seed)
        brake = None
        if run.held_by == "the old model":
            brake = reward.stays_near(old, run.strength)
        if run.held_by == "Shakespeare":
            brake = reward.reads_on(train_tokens, run.strength, dice)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0005, weight_decay=0.0, fused=True)
        measured: Line = {}
        for number in range(ROUNDS + 1):
            if number:
                written = reward.tries(model, train_tokens, BEGINNINGS, dice)
                best = reward.winners(written, tokenizer.decode, judge)
                reward.learn_from(model, best, optimizer, brake)
            fresh = reward.tries(model, train_tokens, 32, torch.Generator().manual_seed(100 + run.seed))
            texts = [tokenizer.decode(one) for one in fresh]
            found, different = found_and_different(texts, reward.BEGIN, words)
            neighbours = [pair for text in texts for pair in pairwise(words_after(text, reward.BEGIN))]
            measured |= {
                f"found_{number}": round(found, 4),
                f"pairs_{number}": round(sum(pair in pairs for pair in neighbours) / max(1, len(neighbours)), 4),
                f"different_{number}": different,
                f"loss_{number}": round(evaluate(model, val_tokens[:20_000], T), 4),
            }
        return {**run._asdict(), **measured, "seconds": round(time.process_time() - start, 1)}

    def report(self, lines: Iterable[Line]) -> str:
        """By what held it: before and after the last round."""
        rows = []
        for run, group in self.by_setting(lines).items():
            row = [run.held_by, f"{run.strength:g}", str(len(group))]
            for name, form in (("found", ".0%"), ("pairs", ".0%"), ("different", ".0f"), ("loss", ".2f")):
                row += [tables.spread([line[f"{name}_{number}"] for line in group], form) for number in (0, ROUNDS)]
            rows.append(row)
        heads = [f"{name}, {when}" for name in ("found", "pairs", "different", "loss") for when in ("before", "after")]
        return tables.table(["held by", "strength", "seeds", *heads], rows)
