"""The room of rewards: eight rounds of learning from what a judge liked best, and what holds it back."""

import copy
import re
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import torch

from helpers import tables
from helpers.data import Corpus, split
from helpers.gpt import GPT, GPTConfig
from helpers.loss import evaluate
from helpers.optim import make_optimizer
from helpers.presets import PRESETS
from helpers.rooms import reward
from helpers.rooms.contest import book_of, found_and_different, words_after
from helpers.rooms.study import TextStudy
from helpers.tables import Line
from helpers.training import updates

T = reward.BEGIN + reward.NEW
ROUNDS = 8
BEGINNINGS = 64  # of a round
TIMES = 2  # that the best are read
RATE = 0.0005
WAYS = (
    ("nothing", 0.0),
    ("no choice", 0.0),
    *(("Shakespeare", strength) for strength in (0.3, 1.0, 3.0, 1000.0)),  # 1,000: nearly nothing else
    *(("the old model", strength) for strength in (0.1, 0.3, 1.0, 3.0)),
    ("pairs", 0.0),
    *(("reading", times) for times in (1.0, 8.0)),
    ("every try", 1.0),
    ("a lower rate", 0.0002),
)
MEASURED = {"found": ".0%", "chosen": ".0%", "pairs": ".0%", "different": ".0f", "loss": ".2f"}


class Rewarded(NamedTuple):
    """One network, rewarded."""

    held_by: str  # one of WAYS: Shakespeare's text, the old model (KL), a judge of pairs of words, ...
    strength: float  # of what holds it; for reading, how many times; a lower rate: which, and read once
    seed: int


def book(corpus: Corpus) -> tuple[set[str], set[tuple[str, str]]]:
    """The words of the training text, and the pairs of them that follow each other."""
    text = corpus.text[: int(0.9 * len(corpus.text))]
    return book_of(text), {*pairwise(re.findall(r"\w{3,}", text.lower()))}


@cache
def before(corpus: Corpus, seed: int) -> GPT:
    """A network that has learned for half a minute."""
    train_tokens, _ = split(corpus.tokens, T)
    vocab_size = corpus.tokenizer.vocab_size
    recipe = replace(PRESETS["playground"].training, max_steps=600, seed=seed, bfloat16_cpu=False)
    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=vocab_size, context_length=T, n_layer=3, n_head=4, n_embd=128))
    batches = torch.Generator().manual_seed(seed)
    for _ in updates(model, train_tokens, recipe, make_optimizer(model, recipe), batches):
        pass
    return model.eval()


class Reward(TextStudy):
    """Words found in the book and the loss on Shakespeare, after each round."""

    run_type = Rewarded

    def budget(self) -> str:
        return (
            f"3 layers, 4 heads, width 128, trained as the preset playground, for 600 steps of 8 windows of {T}; "
            f"{ROUNDS} rounds: {BEGINNINGS} beginnings, {reward.TRIES} tries of {reward.NEW} letters each, the best "
            f"(without a choice: any) read {TIMES} times, AdamW at {RATE}; found: of the words of 128 fresh tries; "
            "pairs: of two neighbours; different: words found; chosen: what is found in the best of each eight of "
            "them; loss: of the first 20,000 letters of the validation text; goes on: the last column, "
            f"{reward.BEGIN} letters of the text, and then what is written"
        )

    def plan(self, lines: Iterable[Line]) -> list[Rewarded]:
        return [Rewarded(*way, seed) for seed in range(8) for way in WAYS]

    def measure(self, run: Rewarded, corpus: Corpus) -> Line:
        old, start = before(corpus, run.seed), time.process_time()
        model, tokenizer = copy.deepcopy(old), corpus.tokenizer
        train_tokens, val_tokens = split(corpus.tokens, T)
        words, pairs = book(corpus)
        judge = by_words = reward.known_words(words)
        if run.held_by == "pairs":
            judge = reward.known_pairs(pairs)
        if run.held_by == "no choice":
            judge = reward.by_chance(run.seed)
        times = {"reading": int(run.strength), "every try": 1, "a lower rate": 1}.get(run.held_by, TIMES)
        rate = run.strength if run.held_by == "a lower rate" else RATE
        dice = torch.Generator().manual_seed(run.seed)
        torch.manual_seed(run.seed)
        brake = None
        if run.held_by == "the old model":
            brake = reward.stays_near(old, run.strength)
        if run.held_by == "Shakespeare":
            brake = reward.reads_on(train_tokens, run.strength, dice)
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0, fused=True)
        measured: Line = {}
        for number in range(ROUNDS + 1):
            if number:
                written = reward.tries(model, train_tokens, BEGINNINGS, dice)
                every = run.held_by == "every try"
                best = written if every else reward.winners(written, tokenizer.decode, judge)
                reward.learn_from(model, best, optimizer, brake, times, batch=64 if every else 16)  # as many steps
            fresh = reward.tries(model, train_tokens, 16, torch.Generator().manual_seed(100 + run.seed))
            texts = [tokenizer.decode(one) for one in fresh]
            found, different = found_and_different(texts, reward.BEGIN, words)
            chosen = [tokenizer.decode(one) for one in reward.winners(fresh, tokenizer.decode, by_words)]
            neighbours = [pair for text in texts for pair in pairwise(words_after(text, reward.BEGIN))]
            measured |= {
                f"found_{number}": round(found, 4),
                f"pairs_{number}": round(sum(pair in pairs for pair in neighbours) / max(1, len(neighbours)), 4),
                f"different_{number}": different,
                f"chosen_{number}": round(found_and_different(chosen, reward.BEGIN, words)[0], 4),
                f"loss_{number}": round(evaluate(model, val_tokens[:20_000], T), 4),
            }
        seconds = round(time.process_time() - start, 1)
        return {**run._asdict(), **measured, "seconds": seconds, "goes on": texts[0].replace("\n", " / ")}

    def report(self, lines: Iterable[Line]) -> str:
        """By what held it: before and after the last round."""
        rows = []
        for run, group in self.by_setting(lines).items():
            row = [run.held_by, f"{run.strength:g}", str(len(group))]
            for name, form in MEASURED.items():
                row += [tables.spread([line[f"{name}_{number}"] for line in group], form) for number in (0, ROUNDS)]
            rows.append(row)
        heads = [f"{name}, {when}" for name in MEASURED for when in ("before", "after")]
        return tables.table(["held by", "strength", "seeds", *heads], rows)
