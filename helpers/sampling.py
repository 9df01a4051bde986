"""From logits to the next token, and from there to text, with any model that gives logits.

python -m helpers.sampling --run DIR --prompt "ROMEO:"
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.checkpoint import best_run, load_model
from helpers.errors import SEED, ConfigError, Options, check, command, number, optional, say, whole
from helpers.gpt import evaluating, one_thread
from helpers.presets import RUNS

# For so few tokens, waking other threads takes longer than the work (at widths of 128 and 384).
FEW = 16


@dataclass(frozen=True)
class Sampler:
    """How the next token is drawn: below a temperature of 1 safer, above it bolder.

    top_k keeps the k largest logits (Fan et al. 2018, section 5.4); ties with the k-th stay. top_p
    keeps the smallest set of most likely tokens whose probabilities add up to at least p (Holtzman
    et al. 2020, section 3.1). ConfigError for a value that makes no sense.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self):
        check(self, "temperature", number(least=1e-6))
        check(self, "top_k", optional(whole(1)))
        check(self, "top_p", optional(number(above=0, most=1)))

    def filter(self, logits: Float[Tensor, "*batch V"]) -> Float[Tensor, "*batch V"]:
        """The logits divided by the temperature, -inf for every token that is cut."""
        logits = logits / float(self.temperature)
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            kth = logits.topk(self.top_k, dim=-1).values[..., -1:]
            logits = logits.masked_fill(logits < kth, float("-inf"))
        if self.top_p is not None and self.top_p < 1:
            logits = logits.masked_fill(outside_nucleus(logits, self.top_p), float("-inf"))
        return logits

    def draw(
        self, logits: Float[Tensor, "B V"], generator: torch.Generator | None
    ) -> Int64[Tensor, "B 1"]:
        """The next tokens, drawn on the CPU, so that one seed writes one text on every machine."""
        probabilities = self.filter(logits).softmax(dim=-1)
        return torch.multinomial(probabilities.cpu(), 1, generator=generator)


def outside_nucleus(logits: Float[Tensor, "*batch V"], top_p: float) -> Tensor:
    """True for the tokens outside the smallest set of likely ones that has `top_p` together."""
    descending, order = logits.sort(dim=-1, descending=True)
    probabilities = descending.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # of all that is more likely
    outside = torch.empty_like(order, dtype=torch.bool)
    return outside.scatter(-1, order, before >= top_p)  # back to the order of the vocabulary


def filter_logits(
    logits: Float[Tensor, "*batch V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "*batch V"]:
    """The logits divided by `temperature`, -inf outside the top k and the nucleus: see Sampler."""
    return Sampler(temperature, top_k, top_p).filter(logits)


def stream(
    model: nn.Module,
    prompt: Int64[Tensor, "T"] | Int64[Tensor, "B T"],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    keep: float = 0.5,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> Iterator[Any]:
    """The tokens that continue the prompt, as they are drawn: ints, or for a batch lists of B ints.

    `temperature`, `top_k` and `top_p` say how a token is drawn: see Sampler. The prompt is cropped
    to the model's context. When that is full, the last `keep` of it (a share, above 0 and at most
    1) moves to its start and writing goes on from there. keep=1 is nanoGPT's way: the model always
    sees a full window, which moves by one token and is computed anew each time.

    With `use_cache` and a model that has `new_cache`, keys and values are kept from step to step.
    When the window moves, they are thrown away: they depend on old positions and on tokens that are
    gone. Except for rounding, the logits are the same without a cache.

    ConfigError, at once, for an empty prompt and for a setting that makes no sense; at the first
    token, for a model whose logits are no numbers. The model is in evaluation mode until the
    iterator ends or is closed.
    """
    if prompt.numel() == 0:
        raise ConfigError("the prompt is empty: it needs at least one token to continue from")
    if not 0 < keep <= 1:
        raise ConfigError(f"keep={keep} must be a share of the context, above 0 and at most 1")
    sampler = Sampler(temperature, top_k, top_p)
    batch = prompt if prompt.dim() == 2 else prompt[None]
    drawn = _draw_tokens(model, batch, max_new_tokens, sampler, keep, generator, use_cache)
    if prompt.dim() == 2:
        return (tokens[:, 0].tolist() for tokens in drawn)
    return (int(token) for token in drawn)


def _draw_tokens(
    model: nn.Module,
    prompt: Int64[Tensor, "B T"],
    max_new_tokens: int,
    sampler: Sampler,
    keep: float,
    generator: torch.Generator | None,
    use_cache: bool,
) -> Iterator[Int64[Tensor, "B 1"]]:
    """The loop: one token after the other for each row, drawn from the last logits."""
    everything = prompt.shape[1] + max_new_tokens
    T = model.config.context_length if hasattr(model, "config") else everything
    window = prompt[:, -T:]
    reader = Reader(model, use_cache)
    with evaluating(model):
        for count in range(max_new_tokens):
            if window.shape[1] > T:  # no place left: the last tokens move to the first places
                window = window[:, -max(1, round(keep * T)) :]
            logits = reader(window)
            if count == 0:
                _refuse_nonsense(logits)
            drawn = sampler.draw(logits, generator)
            window = torch.cat([window, drawn.to(window.device)], dim=1)
            yield drawn


class Reader:
    """The logits after a window of one text: (B, T) -> (B, V).

    With a cache, the model reads each token once, as long as the window only grows. When it has
    moved, all keys and values change, and it is read anew. Another text takes another reader.
    """

    def __init__(self, model: nn.Module, use_cache: bool = True):
        self.model = model
        self.new_cache = getattr(model, "new_cache", None) if use_cache else None
        self.cache: list | None = None

    @torch.no_grad()
    def __call__(self, window: Int64[Tensor, "B T"]) -> Float[Tensor, "B V"]:
        if self.new_cache is None:
            return self._last_logits(window)
        if self.cache is None or len(self.cache[0]) >= window.shape[1]:  # a new text, or it moved
            self.cache = self.new_cache()
        return self._last_logits(window[:, len(self.cache[0]) :], cache=self.cache)

    def _last_logits(self, tokens: Tensor, **cache: Any) -> Float[Tensor, "B V"]:
        with one_thread() if tokens.numel() <= FEW else nullcontext():
            return self.model(tokens, **cache)[:, -1]


def _refuse_nonsense(logits: Float[Tensor, "B V"]) -> None:
    """Drawing from NaN raises no error, but the token is meaningless."""
    if not logits.amax(dim=-1).isfinite().all():
        raise ConfigError(
            "the logits must be finite, or -inf but not all of them: has the training diverged?"
        )


def generate(
    model: nn.Module,
    prompt: Int64[Tensor, "T"] | Int64[Tensor, "B T"],
    max_new_tokens: int,
    **options: Any,
) -> Int64[Tensor, "*batch T_all"]:
    """The prompt and `max_new_tokens` tokens drawn after it: (T_all,) or (B, T_all).

    The options are those of `stream`: temperature, top_k, top_p, keep, generator and use_cache. The
    rows of a batch are drawn side by side from one generator: they are independent, and a row
    differs from what the same seed gives for its prompt alone. ConfigError as for `stream`.
    """
    tokens = list(stream(model, prompt, max_new_tokens, **options))
    drawn = prompt.new_tensor(tokens).view(-1, *prompt.shape[:-1])  # (new,) or (new, B)
    return torch.cat([prompt, drawn.movedim(0, -1)], dim=-1)


# ---------------------------------------------------------------- the command
def options_of(program: str, does: str, tokens: str, length: int) -> Options:
    """The options of every command that writes; `tokens` names what its model draws."""
    options = Options(prog=program, description=does)
    add = options.add_argument
    add("--prompt", help="what to continue (the start of a text)")
    add("--temperature", type=float, default=0.8, help="below 1 is safer, above bolder (0.8)")
    add("--top-k", type=int, help=f"draw only from the k likeliest {tokens}")
    add("--top-p", type=float, help="draw only from the likeliest that have this share together")
    add("--length", type=int, default=length, help=f"{tokens} to write ({length})")
    add("--seed", type=int, default=1, help="the same seed writes the same text (1)")
    add("--num-samples", type=int, default=1, help="how many texts, one after the other (1)")
    return options


def print_texts(model: nn.Module, tokenizer: Any, options: Any) -> None:
    """Print what `model` writes after the prompt, piece by piece, with options of `options_of`."""
    check(options, "length", whole(0))
    check(options, "num_samples", whole(1))
    check(options, "seed", SEED)
    start = tokenizer.start_of_text if options.prompt is None else options.prompt
    prompt = tokenizer.encode(start)
    generator = torch.Generator().manual_seed(options.seed)
    how = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p")}
    for nth in range(1, options.num_samples + 1):
        tokens = stream(model, prompt, options.length, generator=generator, **how)
        if options.num_samples > 1:
            say(f"---- {nth} of {options.num_samples} ----")
        say((options.prompt or "").lstrip("\n"), end="")
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
    options = options_of(name, does, "characters", length=500)
    options.add_argument("--run", help="folder of a run (the best finished one in build/runs)")
    chosen = options.parse_args(arguments)
    if chosen.run:
        folder = Path(os.path.expanduser(chosen.run))
    else:
        folder, why = best_run(RUNS)
        say(why, to=sys.stderr)
    print_texts(*load_model(folder), chosen)


if __name__ == "__main__":
    sys.exit(command(main))
