"""Lesson 09's study: every rule at many settings, by the words that it writes and by what surprises the model."""

import itertools
import time
from collections.abc import Iterable
from functools import cache
from statistics import fmean, stdev
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from helpers import tables
from helpers.data import CharTokenizer, Corpus, first_to_validate, load_corpus
from helpers.errors import ConfigError
from helpers.gpt import GPT, one_thread
from helpers.rooms import contest
from helpers.rooms.study import TextStudy
from helpers.sampling import generate
from helpers.tables import Line
from pictures.packing import unpack
from tools import play
from tools.studies import networks

TEXTS = 96
BEGIN = 16  # letters that are given
TRIES = 8  # of which a judge keeps one
SPIKE = 4.0  # nats: a letter of a chance below 2%

# The seeds of lesson 08's GPT, which this study trains; and a better network, which is committed.
NETWORKS = {"laptop, seed 1": 1, "laptop, seed 2": 2, "laptop, seed 3": 3, "the play page's": None}

# The settings of each rule: what `generate` is told for the value in the table.
RULES = {
    "cooling": lambda value: {"temperature": value},
    "nucleus": lambda value: {"top_p": value},
    "top-k": lambda value: {"top_k": value},
    "0.7, nucleus": lambda value: {"temperature": 0.7, "top_p": value},
    "0.8, top-k": lambda value: {"temperature": 0.8, "top_k": value},
    "best of 8": lambda value: {},
}
SWEPT = {
    "cooling": (1.0, 0.85, 0.7, 0.55, 0.4, 0.3),
    "nucleus": (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3),
    "top-k": (20, 10, 5, 3, 2),
    "0.7, nucleus": (0.9,),
    "0.8, top-k": (20,),
}


MEANS = ("new", "fourgrams", "nats", "spikes")  # columns of the report


class Written(NamedTuple):
    """What one network writes by one rule, with one set of dice."""

    network: str
    rule: str
    value: float | str
    letters: int  # behind a beginning
    dice: int


@cache
def network(name: str) -> tuple[GPT, CharTokenizer]:
    """Lesson 08's is trained at the first call, and only loaded later."""
    seed = NETWORKS[name]
    if seed is None:
        model, tokenizer, _ = unpack(play.committed()[-1])
        return model.eval(), tokenizer
    model, tokenizer, _ = networks.trained("laptop", seed, f"heads-{seed}")
    return model, tokenizer


@cache
def book() -> set[str]:
    """The words of the training text."""
    text = load_corpus().text
    return contest.book_of(text[: first_to_validate(len(text))])


class Sampling(TextStudy):
    """Which rule writes more different words, where as large a share of them stands in the training text."""

    run_type = Written

    def budget(self) -> str:
        return (
            f"{TEXTS} beginnings of {BEGIN} letters of held-out text; found, different: words in the training text; "
            f"new: those that the beginning lacks; fourgrams: the share of different ones among all; nats: the mean "
            f"surprise, by the network itself at temperature 1; spikes: the share of letters above {SPIKE:g} nats"
        )

    def plan(self, lines: Iterable[Line]) -> list[Written]:
        greedy, judges = ("top-k", 1), [("best of 8", judge) for judge in ("by the model", "by the book")]
        swept = [(rule, value) for rule, values in SWEPT.items() for value in values]
        runs = [Written(name, "human", "", 48, 0) for name in NETWORKS]
        for name in NETWORKS:
            runs += [Written(name, *greedy, 48, 1)]
            runs += [Written(name, *how, 48, number) for number in range(1, 9) for how in swept]
            runs += [Written(name, *how, 48, number) for number in range(1, 5) for how in judges]
            runs += [Written(name, "human", "", 200, 0), Written(name, *greedy, 200, 1)]
            runs += [Written(name, *how, 200, 1) for how in swept]
        return runs

    def missing(self, lines: Iterable[Line]) -> list[Written]:
        """A network's run on human text trains it; all others wait for that, so that none is trained twice."""
        lines = list(lines)
        trained = {line["network"] for line in lines}
        return [run for run in super().missing(lines) if run.network in trained or run[1:] == ("human", "", 48, 0)]

    @one_thread()
    def measure(self, run: Written, corpus: Corpus) -> Line:
        model, tokenizer = network(run.network)
        if corpus.alphabet != tokenizer.characters:
            raise ConfigError("the networks of this study are trained on tiny Shakespeare: leave out --corpus")
        start = time.process_time()
        held_out = corpus.tokens[first_to_validate(len(corpus.tokens)) :]
        real = contest.pieces(held_out, TEXTS, BEGIN + run.letters)
        texts = real if run.rule == "human" else written(model, tokenizer, real[:, :BEGIN], run)
        nats = contest.surprises(model, texts, BEGIN)
        return {
            **run._asdict(),
            **counted([tokenizer.decode(text) for text in texts]),
            "nats": round(nats.mean().item(), 4),
            "spikes": round((nats > SPIKE).float().mean().item(), 5),
            "seconds": round(time.process_time() - start, 1),
        }

    def report(self, lines: Iterable[Line]) -> str:
        """By setting: the means, and how many different words more than cooling, where as large a share is found."""
        lines = list(lines)
        rows = []
        settings = dict.fromkeys((line["letters"], line["rule"], line["value"]) for line in lines)
        for letters, rule, value in settings:
            for name in NETWORKS:
                have = {"network": name, "letters": letters}
                these = [line for line in lines if line.items() >= (have | {"rule": rule, "value": value}).items()]
                if not these:
                    continue
                share, different = point(these)
                new, fourgrams, nats, spikes = (fmean(line[column] for line in these) for column in MEANS)
                cooled = [line for line in lines if line.items() >= (have | {"rule": "cooling"}).items()]
                rows.append([
                    name, str(letters), rule, str(value), str(len(these)), f"{share:.3f}", f"{different:.0f}",
                    f"{new:.0f}", f"{fourgrams:.3f}", f"{nats:.2f}", f"{spikes:.2%}", against(cooled, these),
                ])  # fmt: skip
        heads = ["network", "letters", "rule", "value", "dice", "share", "different", *MEANS, "against cooling"]
        return tables.table(heads, rows)


def written(
    model: GPT, tokenizer: CharTokenizer, beginnings: Int64[Tensor, "N B"], run: Written
) -> Int64[Tensor, "N T"]:
    """The beginnings, and what the network makes of them by the run's rule."""
    options = RULES[run.rule](run.value) | {"generator": torch.Generator().manual_seed(run.dice)}
    if run.rule != "best of 8":
        return generate(model, beginnings, run.letters, **options)
    tries = generate(model, beginnings.repeat_interleave(TRIES, dim=0), run.letters, **options)
    tries = tries.view(len(beginnings), TRIES, -1)
    if run.value == "by the model":
        return contest.least_surprising(model, tries, BEGIN)
    return contest.most_found(tokenizer.decode, tries, BEGIN, book())


def counted(texts: list[str]) -> dict[str, float]:
    """What the table says of the texts' words."""
    words = [word for text in texts for word in contest.words_after(text, BEGIN)]
    new = [word for text in texts for word in contest.words_after(text, BEGIN) if word not in text[:BEGIN].lower()]
    found = [word for word in words if word in book()]
    grams = [text[i : i + 4] for text in texts for i in range(BEGIN, len(text) - 3)]
    return {
        "words": len(words),
        "found": len(found),
        "different": len(set(found)),
        "new": len({word for word in new if word in book()}),
        "fourgrams": round(len(set(grams)) / len(grams), 4),
    }


def against(cooled: list[Line], these: list[Line]) -> str:
    """How many different words `these` have more than the curve of cooling at their share, and the standard error.

    The error is the jackknife's: what leaving out one set of dice after the other does to both. One set has none.
    """
    beyond = distance(cooled, these)
    dice = {line["dice"] for line in cooled}
    without = [distance(*([line for line in some if line["dice"] != one] for some in (cooled, these))) for one in dice]
    known = [one for one in without if one is not None]
    if beyond is None:
        return ""
    if len(known) < 2:
        return f"{beyond:+.0f}"
    return f"{beyond:+.0f} ± {(len(known) - 1) / len(known) ** 0.5 * stdev(known):.0f}"


def distance(cooled: Iterable[Line], these: list[Line]) -> float | None:
    """`against` without an error; None where cooling has no such share."""
    by_value: dict[float, list[Line]] = {}
    for line in cooled:
        by_value.setdefault(line["value"], []).append(line)
    curve = sorted(map(point, by_value.values()))
    at, different = point(these) if these else (-1.0, 0.0)
    for (low, few), (high, many) in itertools.pairwise(curve):
        if low <= at <= high:
            return different - few - (many - few) * (at - low) / (high - low)
    return None


def point(lines: list[Line]) -> tuple[float, float]:
    """The mean share that is found, and the mean number of different words."""
    shares = [line["found"] / max(1, line["words"]) for line in lines]
    return fmean(shares), fmean(line["different"] for line in lines)
