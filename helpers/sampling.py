"""From logits to the next token, and from there to text. Works with any model that maps tokens to logits.

python -m helpers.sampling --run build/runs/laptop --prompt "ROMEO:"    writes with a trained model (`make write`)
"""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers import console
from helpers.errors import ConfigError
from helpers.guards import Count, Length, Range, Seed, checked, evaluating, one_thread

Temperature = Annotated[float, Range(1e-6, math.inf, without=(math.inf,))]
Portion = Annotated[float, Range(0, 1, without=(0,))]  # of the probability, or of the context
FEW = 16  # tokens at once: for so few, waking other threads takes longer than the work (measured at widths 128 and 384)


@checked
def filter_logits(
    logits: Float[Tensor, "*batch V"],
    temperature: Temperature = 1.0,
    top_k: Count | None = None,
    top_p: Portion | None = None,
) -> Float[Tensor, "*batch V"]:
    """Divide by `temperature`, then set to -inf every token outside the top k and outside the nucleus.

    top_k keeps the k largest logits (Fan et al. 2018, section 5.4); ties with the k-th stay. top_p keeps the smallest
    set of most likely tokens whose probabilities add up to at least p (Holtzman et al. 2020, section 3.1).
    ConfigError for a setting out of range, and for logits that are no scores: NaN, +inf, or -inf everywhere.
    """
    return _filtered(logits, temperature, top_k, top_p)


def _filtered(logits: Tensor, temperature: float, top_k: int | None, top_p: float | None) -> Tensor:
    """What `filter_logits` does, for settings that have been checked."""
    if logits.shape[-1] == 0 or not all(map(math.isfinite, logits.amax(dim=-1).flatten().tolist())):
        raise ConfigError("the logits must be finite, or -inf but not all of them: has the training diverged?")
    logits = logits / float(temperature)  # torch takes no whole number above 2^63
    if top_k is not None and top_k < logits.shape[-1]:
        kth = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
    if top_p is not None and top_p < 1:
        descending, order = logits.sort(dim=-1, descending=True)
        probabilities = descending.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities  # probability of everything more likely than this one
        # back to the order of the vocabulary
        outside = torch.empty_like(order, dtype=torch.bool).scatter(-1, order, before >= top_p)
        logits = logits.masked_fill(outside, float("-inf"))
    return logits


def known(model: nn.Module, prompt: Tensor) -> Any:
    """The model's `config`, None if it has none. ConfigError for an empty prompt and for a token that it can't know."""
    config = getattr(model, "config", None)
    if prompt.numel() == 0:
        raise ConfigError("the prompt is empty: it needs at least one token to continue from")
    if config is not None and not 0 <= int(prompt.min()) <= int(prompt.max()) < config.vocab_size:
        raise ConfigError(f"the prompt has a token outside the vocabulary of 0 .. {config.vocab_size - 1}")
    return config


@checked
def stream(
    model: nn.Module,
    prompt: Int64[Tensor, "T"] | Int64[Tensor, "B T"],
    max_new_tokens: Length,
    *,
    temperature: Temperature = 1.0,
    top_k: Count | None = None,
    top_p: Portion | None = None,
    keep: Portion = 0.5,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> Iterator[Any]:
    """Yield what `generate` writes as it is drawn: each time a token, or for a batch a list of B tokens."""
    config = known(model, prompt)
    T = config.context_length if config is not None else prompt.shape[-1] + max_new_tokens
    new_cache = model.new_cache if use_cache and hasattr(model, "new_cache") else lambda: None

    def draw() -> Iterator[Any]:
        window, cache = (prompt if prompt.dim() == 2 else prompt[None])[:, -T:], new_cache()
        with evaluating(model):
            step = model.bare() if hasattr(model, "bare") else model
            # Inference mode is quicker, but what a part of the reader's own keeps of it could never be trained with.
            plain = hasattr(model, "is_plain") and model.is_plain()
            no_gradients = torch.inference_mode if plain else torch.no_grad
            for _ in range(max_new_tokens):
                if window.shape[1] > T:  # no place left: the last tokens move to the first places, all keys change
                    window, cache = window[:, -max(1, round(keep * T)) :], new_cache()
                new = window[:, len(cache[0]) :] if cache else window  # with a cache, only the tokens not seen yet
                with no_gradients(), one_thread() if new.numel() <= FEW else nullcontext():
                    logits = step(new, cache=cache) if cache else step(new)
                # Only the last position's logits say what comes next. Drawn on the CPU: one seed, one text.
                probabilities = _filtered(logits[:, -1], temperature, top_k, top_p).softmax(dim=-1).cpu()
                # The tokens race, each to a time that is exponential with its probability as the rate: what
                # torch.multinomial does, with the same draws, but without looking once more for NaN.
                race = torch.empty_like(probabilities).exponential_(generator=generator)
                drawn = (probabilities / race).argmax(dim=-1, keepdim=True)
                window = torch.cat([window, drawn.to(window.device)], dim=1)
                yield drawn[:, 0].tolist() if prompt.dim() == 2 else int(drawn)

    return draw()


def generate(
    model: nn.Module,
    prompt: Int64[Tensor, "T"] | Int64[Tensor, "B T"],
    max_new_tokens: Length,
    *,
    temperature: Temperature = 1.0,
    top_k: Count | None = None,
    top_p: Portion | None = None,
    keep: Portion = 0.5,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> Int64[Tensor, "*batch T_all"]:
    """`prompt` and `max_new_tokens` tokens drawn one by one after it, on the prompt's device: (T_all,) or (B, T_all).

    The prompt is cropped to the model's context. When that is full, the last `keep` of it (a share, above 0 and at most
    1) moves to its start and writing goes on from there. With keep=1 the window slides by one token at each step, which
    is nanoGPT's rule: it sees more, but writes everything at the last position and computes the whole window each time.

    With `use_cache` and a model that has `new_cache`, keys and values are kept from step to step until the window
    moves, because with learned positions it changes them all. The tokens are the same without.

    The rows of a batch are drawn side by side from one generator: they are independent, and a row is not what the same
    seed gives alone. ConfigError for an empty prompt, a token outside the vocabulary, a negative length, or as in
    `filter_logits`.
    """
    settings: dict[str, Any] = dict(temperature=temperature, top_k=top_k, top_p=top_p, keep=keep, generator=generator)
    tokens = list(stream(model, prompt, max_new_tokens, use_cache=use_cache, **settings))
    drawn = prompt.new_tensor(tokens)
    return torch.cat([prompt, drawn.view(-1, *prompt.shape[:-1]).movedim(0, -1)], dim=-1)


def main(arguments: list[str] | None = None) -> int:
    """The command: print what a trained model writes, letter by letter; the exit status is as in `console.command`."""
    return console.command(_command, arguments)


def _command(arguments: list[str]) -> None:
    from helpers import runs  # only the command needs a trained model: everything above takes any

    parser = options_of("python -m helpers.sampling", "Write with a trained model.", "characters", length=500)
    parser.add_argument("--run", default=runs.RUNS / "laptop", help="folder of the run (default: build/runs/laptop)")
    options = parser.parse_args(arguments)
    write(*runs.load_model(options.run), options)


def options_of(program: str, does: str, tokens: str, length: int) -> argparse.ArgumentParser:
    """What every command that writes can be told; `tokens` names what its model draws."""
    parser = argparse.ArgumentParser(prog=program, description=does)
    parser.add_argument("--prompt", help="what to continue (default: the start of a text)")
    parser.add_argument("--temperature", type=float, default=0.8, help="below 1 is safer, above bolder (default: 0.8)")
    parser.add_argument("--top-k", type=int, help=f"draw only from the k likeliest {tokens}")
    parser.add_argument("--top-p", type=float, help="draw only from the likeliest that have this share together")
    parser.add_argument("--length", type=int, default=length, help=f"{tokens} to write (default: {length})")
    parser.add_argument("--seed", type=int, default=1, help="the same seed writes the same text (default: 1)")
    parser.add_argument("--num-samples", type=int, default=1, help="how many texts, one after the other (default: 1)")
    return parser


def write(model: nn.Module, tokenizer: Any, options: argparse.Namespace) -> None:
    """Print what `model` writes after the prompt, piece by piece, as `options` (of `options_of`) say."""
    prompt = tokenizer.encode(tokenizer.start_of_text if options.prompt is None else options.prompt)
    settings = {"temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p}
    generator, numbers = _numbers(options.seed, options.num_samples)
    for number in numbers:
        tokens = stream(model, prompt, options.length, generator=generator, **settings)
        if options.num_samples > 1:
            console.say(f"---- {number} of {options.num_samples} ----")
        console.say((options.prompt or "").lstrip("\n"), end="")
        for piece in pieces(tokens, tokenizer.decode):
            console.say(piece, end="")
        console.say()


def pieces(tokens: Iterable[int], decode: Callable[[list[int]], str]) -> Iterator[str]:
    """The text of `tokens` as soon as it can be read: what ends inside a letter (GPT-2 draws bytes) waits for the rest.

    It doesn't wait for more than 16 tokens: a letter has at most four bytes, and what has none by then is no text.
    """
    waiting: list[int] = []
    for token in tokens:
        waiting.append(token)
        if not (piece := decode(waiting)).endswith("\ufffd") or len(waiting) == 16:
            yield piece
            waiting.clear()
    if waiting:
        yield decode(waiting)


@checked
def _numbers(seed: Seed, num_samples: Annotated[int, Range(1, 10_000)]) -> tuple[torch.Generator, range]:
    return torch.Generator().manual_seed(seed), range(1, num_samples + 1)


if __name__ == "__main__":
    console.leave(main)
