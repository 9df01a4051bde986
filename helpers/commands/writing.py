"""What the commands that write have in common: their options, and how text comes out of them."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from helpers.core.sampling import Drawing, stream
from helpers.support import console
from helpers.support.errors import ConfigError
from helpers.support.guards import Length, Seed, options
from helpers.writing.drafting import Counts
from helpers.writing.quick import quick_reader


def options_of(program: str, does: str, tokens: str, length: int) -> argparse.ArgumentParser:
    """The options of every command that writes; `tokens` names what its model draws."""
    parser = console.Options(prog=program, description=does)
    parser.add_argument("--prompt", help="what to continue (default: the start of a text)")
    parser.add_argument("--temperature", type=float, default=0.8, help="below 1 is safer, above bolder (default: 0.8)")
    parser.add_argument("--top-k", type=int, help=f"draw only from the k likeliest {tokens}")
    parser.add_argument("--top-p", type=float, help="draw only from the likeliest that have this share together")
    parser.add_argument("--length", type=int, default=length, help=f"{tokens} to write (default: {length})")
    parser.add_argument("--seed", type=int, default=1, help="the same seed writes the same text (default: 1)")
    parser.add_argument("--num-samples", type=int, default=1, help="how many texts, one after the other (default: 1)")
    return parser


def write(model: nn.Module, tokenizer: Any, told: argparse.Namespace, draft: Counts | None = None) -> None:
    """Print what `model` writes after the prompt, piece by piece, as the options of `options_of` say.

    With a `draft` it writes the same, sooner.
    """
    _check(told.length, told.seed, told.num_samples)
    prompt = prompt_of(told.prompt, tokenizer)
    generator = torch.Generator().manual_seed(told.seed)
    rules = Drawing(told.temperature, told.top_k, told.top_p)
    for number in range(1, told.num_samples + 1):
        tokens = stream(
            model,
            prompt,
            told.length,
            temperature=told.temperature,
            top_k=told.top_k,
            top_p=told.top_p,
            generator=generator,
            reader=quick_reader(model, rules, generator, draft),
        )
        if told.num_samples > 1:
            console.say(f"---- {number} of {told.num_samples} ----")
        console.say((told.prompt or "").lstrip("\n"), end="")
        for piece in pieces(tokens, tokenizer.decode):
            console.say(piece, end="")
        console.say()


def prompt_of(text: str | None, tokenizer: Any) -> Tensor:
    """The tokens of a prompt, or of the start of a text where nobody names one; ConfigError for an empty prompt."""
    tokens = tokenizer.encode(tokenizer.start_of_text if text is None else text)
    if not len(tokens):
        raise ConfigError("the prompt is empty: it needs at least one token to continue from")
    return tokens


@options
def _check(length: Length, seed: Seed, num_samples: Annotated[int, Field(ge=1, le=10_000)]) -> None:
    """Refuse what `stream` takes without a word: with a length below zero it writes nothing."""


def pieces(tokens: Iterable[int], decode: Callable[[list[int]], str]) -> Iterator[str]:
    """The text of `tokens`, piece by piece. GPT-2 draws bytes: a piece that ends inside a letter waits for the rest.

    It waits for 16 tokens at most. A letter has at most four bytes, so what is no letter by then is no text.
    """
    waiting: list[int] = []
    for token in tokens:
        waiting.append(token)
        piece = decode(waiting)
        if not piece.endswith("\ufffd") or len(waiting) == 16:
            yield piece
            waiting.clear()
    if waiting:
        yield decode(waiting)
