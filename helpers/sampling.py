"""From logits to the next token, and from there to text. Works with any model that maps tokens to logits."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.errors import ConfigError


def check_sampling(temperature: object, top_k: object, top_p: object) -> None:
    """ConfigError unless temperature > 0, top_k >= 1 and 0 < top_p <= 1 (None switches a filter off)."""
    if not isinstance(temperature, (int, float)) or not 1e-6 <= temperature < float("inf"):
        raise ConfigError(f"temperature must be a number above 0 (at least 0.000001), not {temperature!r}")
    if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
        raise ConfigError(f"top_k must be a whole number of at least 1, or None, not {top_k!r}")
    if top_p is not None and (not isinstance(top_p, (int, float)) or not 0 < top_p <= 1):
        raise ConfigError(f"top_p must be above 0 and at most 1, or None, not {top_p!r}")


def filter_logits(
    logits: Float[Tensor, "*batch V"], temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Float[Tensor, "*batch V"]:
    """Divide by `temperature`, then set to -inf every token outside the top k and outside the nucleus.

    top_k keeps the k largest logits (Fan et al. 2018, section 5.4); ties with the k-th stay. top_p keeps the smallest
    set of most likely tokens whose probabilities add up to at least p (Holtzman et al. 2020, section 3.1).
    ConfigError as in `check_sampling`.
    """
    check_sampling(temperature, top_k, top_p)
    logits = logits / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        kth = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
    if top_p is not None and top_p < 1:
        descending, order = logits.sort(dim=-1, descending=True)
        probabilities = descending.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities  # probability of everything more likely than this one
        outside = torch.empty_like(order, dtype=torch.bool).scatter(
            -1, order, before >= top_p
        )  # back to the order of the vocabulary
        logits = logits.masked_fill(outside, float("-inf"))
    return logits


@torch.no_grad()
def generate(
    model: nn.Module,
    prompt: Int64[Tensor, "T"],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> Int64[Tensor, "T_all"]:
    """`prompt` and `max_new_tokens` tokens drawn one by one after it, on the prompt's device.

    ConfigError for an empty prompt, a token outside the vocabulary, a negative length, or as in `check_sampling`. The
    prompt is cropped to the model's context. With `use_cache` and a model that has `new_cache`, keys and values are
    kept from step to step until the context is full: from there on the window slides, every learned position changes,
    and each step computes the whole window again, as it always does without the cache. The tokens are the same.
    """
    check_sampling(temperature, top_k, top_p)
    if len(prompt) == 0:
        raise ConfigError("the prompt is empty: it needs at least one token to continue from")
    if max_new_tokens < 0:
        raise ConfigError(f"max_new_tokens must be at least 0, not {max_new_tokens}")
    config = getattr(model, "config", None)
    if config is not None and not 0 <= int(prompt.min()) <= int(prompt.max()) < config.vocab_size:
        raise ConfigError(f"the prompt has a token outside the vocabulary of 0 .. {config.vocab_size - 1}")
    context_length = config.context_length if config is not None else len(prompt) + max_new_tokens
    was_training = model.training
    model.eval()
    cache = model.new_cache() if use_cache and hasattr(model, "new_cache") else None
    tokens = prompt
    for _ in range(max_new_tokens):
        if cache is not None and len(tokens) <= context_length:
            logits = model(tokens[None, len(cache[0]) :], cache=cache)  # only the tokens not seen yet
        else:
            logits = model(tokens[None, -context_length:])
        # Only the last position's logits say what comes next. The draw happens on the CPU: one seed, one text.
        probabilities = filter_logits(logits[0, -1], temperature, top_k, top_p).softmax(dim=-1).cpu()
        drawn = torch.multinomial(probabilities, 1, generator=generator)
        tokens = torch.cat([tokens, drawn.to(tokens.device)])
    model.train(was_training)
    return tokens
