"""From logits to the next token, and from there to text, with any model that gives logits.

python -m helpers.sampling --run DIR --prompt "ROMEO:"
"""

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.checkpoint import best_run, load_model
from helpers.commands import Options, command, say
from helpers.errors import ConfigError
from helpers.gpt import evaluating, one_thread
from helpers.presets import RUNS
from helpers.rules import SEED, SHARE, Rule, optional, require, whole

# For so few tokens, waking other threads takes longer than the work (at widths of 128 and 384).
FEW = 16
TEMPERATURE = Rule(lambda t: 1e-6 <= t < math.inf, "a number of at least 0.000001")


def filter_logits(
    logits: Float[Tensor, "*batch V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "*batch V"]:
    """The logits divided by `temperature` (below 1 safer, above it bolder), -inf for what is cut.

    top_k keeps the k largest logits (Fan et al. 2018, section 5.4); ties with the k-th stay. top_p
    keeps the smallest set of most likely tokens whose probabilities add up to at least p (Holtzman
    et al. 2020, section 3.1).
    """
    logits = logits / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        kth = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
    if top_p is not None and top_p < 1:
        logits = logits.masked_fill(outside_nucleus(logits, top_p), float("-inf"))
    return logits


def outside_nucleus(logits: Float[Tensor, "*batch V"], top_p: float) -> Tensor:
    """True for the tokens outside the smallest set of likely ones that has `top_p` together."""
    descending, order = logits.sort(dim=-1, descending=True)
    probabilities = descending.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # of all that is more likely
    outside = torch.empty_like(order, dtype=torch.bool)
    return outside.scatter(-1, order, before >= top_p)  # back to the order of the vocabulary


def stream(
    model: nn.Module,
    prompt: Int64[Tensor, "T"] | Int64[Tensor, "B T"],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> Iterator[Any]:
    """The tokens that continue the prompt, as they are drawn: ints, or for a batch lists of B ints.

    temperature, top_k and top_p are those of `filter_logits`. The prompt is cropped to the
    model's context. When that is full, its last half moves to its start and writing goes on there.

    With `use_cache` and a model that has `new_cache`, keys and values are kept from step to step.
    When the window moves, they are thrown away: they depend on old positions and on tokens that are
    gone. Except for rounding, the logits are the same without a cache.

    The model is in evaluation mode until the iterator ends or is closed. RuntimeError from PyTorch
    when its logits are NaN, as after a training that diverged.
    """
    window = prompt if prompt.dim() == 2 else prompt[None]
    everything = window.shape[1] + max_new_tokens
    T = model.config.context_length if hasattr(model, "config") else everything

    def no_past() -> dict[str, list]:
        return {"cache": model.new_cache()} if use_cache and hasattr(model, "new_cache") else {}

    window, past = window[:, -T:], no_past()
    with evaluating(model):
        for _ in range(max_new_tokens):
            if window.shape[1] > T:  # no place left: the last half moves to the first places
                window, past = window[:, -max(1, round(T / 2)) :], no_past()
            unread = window[:, len(past["cache"][0]) :] if past else window
            # Only around the model: between two tokens the caller may want gradients, and all threads.
            with torch.no_grad(), one_thread() if unread.numel() <= FEW else nullcontext():
                logits = model(unread, **past)[:, -1]
            probabilities = filter_logits(logits, temperature, top_k, top_p).softmax(dim=-1)
            # Drawn on the CPU, so that one seed writes one text on every machine.
            token = torch.multinomial(probabilities.cpu(), 1, generator=generator)
            window = torch.cat([window, token.to(window.device)], dim=1)
            yield token[:, 0].tolist() if prompt.dim() == 2 else int(token)


def generate(
    model: nn.Module,
    prompt: Int64[Tensor, "T"] | Int64[Tensor, "B T"],
    max_new_tokens: int,
    **options: Any,
) -> Int64[Tensor, "*batch T_all"]:
    """The prompt and `max_new_tokens` tokens drawn after it: (T_all,) or (B, T_all).

    The options are those of `stream`: temperature, top_k, top_p, generator and use_cache. The rows
    of a batch are drawn side by side from one generator: they are independent, and a row differs
    from what the same seed gives for its prompt alone.
    """
    tokens = list(stream(model, prompt, max_new_tokens, **options))
    new_tokens = prompt.new_tensor(tokens).view(-1, *prompt.shape[:-1])  # (new,) or (new, B)
    return torch.cat([prompt, new_tokens.movedim(0, -1)], dim=-1)


# ---------------------------------------------------------------- the command
def options_of(program: str, does: str, tokens: str, length: int) -> Options:
    """The options of every command that writes; `tokens` names what its model draws."""
    parser = Options(prog=program, description=does)
    add = parser.add_argument
    add("--prompt", help="what to continue (the start of a text)")
    add("--temperature", type=float, default=0.8, help="below 1 is safer, above bolder (0.8)")
    add("--top-k", type=int, help=f"draw only from the k likeliest {tokens}")
    add("--top-p", type=float, help="draw only from the likeliest that have this share together")
    add("--length", type=int, default=length, help=f"{tokens} to write ({length})")
    add("--seed", type=int, default=1, help="the same seed writes the same text (1)")
    return parser


def print_texts(model: nn.Module, tokenizer: Any, options: Any) -> None:
    """Print what `model` writes after the prompt, piece by piece, with options of `options_of`.

    ConfigError for an option out of range and for an empty prompt.
    """
    require(options, "length", whole(0))
    require(options, "temperature", TEMPERATURE)
    require(options, "top_k", optional(whole(1)))
    require(options, "top_p", optional(SHARE))
    require(options, "seed", SEED)
    start = tokenizer.start_of_text if options.prompt is None else options.prompt
    prompt = tokenizer.encode(start)
    if not len(prompt):
        raise ConfigError("the prompt is empty: it needs at least one token to continue from")
    generator = torch.Generator().manual_seed(options.seed)
    settings = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p")}
    say((options.prompt or "").lstrip("\n"), end="")
    tokens = stream(model, prompt, options.length, generator=generator, **settings)
    for piece in pieces(tokens, tokenizer.decode):
        say(piece, end="")
    say()


def pieces(tokens: Iterable[int], decode: Callable[[list[int]], str]) -> Iterator[str]:
    """The text of `tokens`, piece by piece.

    Tokens that end inside a letter wait for the rest of it, for 16 tokens at most.
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


def main(arguments: list[str]) -> None:
    name, does = "python -m helpers.sampling", "Write with a trained model."
    parser = options_of(name, does, "characters", length=500)
    parser.add_argument("--run", help="folder of a run (the best finished one in build/runs)")
    options = parser.parse_args(arguments)
    if options.run:
        folder = Path(os.path.expanduser(options.run))
    else:
        folder, why = best_run(RUNS)
        say(why, to=sys.stderr)
    print_texts(*load_model(folder), options)


if __name__ == "__main__":
    sys.exit(command(main))
