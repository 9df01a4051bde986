"""Two other ways to write: beam search and speculative decoding."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.attention import KVCache
from helpers.gpt import evaluating
from helpers.sampling import Sampler


@torch.no_grad()
def beam_search(
    model: nn.Module, prompt: Int64[Tensor, "T"], max_new_tokens: int, beams: int = 4
) -> tuple[Int64[Tensor, "K T_all"], Float[Tensor, "K"]]:
    """The likeliest continuations (K, T_all), best first; their log-probabilities (K,) in nats.

    At every step each text is continued by each token, and the `beams` with the highest sum of
    log-probabilities stay (Graves 2012, section 2.5); with one beam this is greedy. K is less than
    `beams` where there are not as many texts. ConfigError when prompt and new tokens outgrow the
    model's context.
    """
    texts = prompt[None]
    scores = torch.zeros(1, device=prompt.device)
    with evaluating(model):
        for _ in range(max_new_tokens):
            log_p = model(texts)[:, -1].log_softmax(dim=-1)  # (K, V)
            V = log_p.shape[1]
            sums = (
                scores[:, None] + log_p
            ).flatten()  # (K * V,): text k continued by token v stands at k * V + v
            scores, best = sums.topk(min(beams, len(sums)))
            tokens = best % V
            texts = torch.cat([texts[best // V], tokens[:, None]], dim=1)
    return texts, scores


# ---------------------------------------------------------------- speculative decoding
def speculate(
    model: nn.Module,
    draft: nn.Module,
    prompt: Int64[Tensor, "T"],
    max_new_tokens: int,
    *,
    ahead: int = 4,
    temperature: float = 1.0,
    keep: float = 0.5,
    generator: torch.Generator | None = None,
) -> tuple[Int64[Tensor, "T_all"], float]:
    """Tokens (T_all,) distributed as `generate`'s, and the share of guesses accepted (or NaN).

    The small `draft` guesses up to `ahead` tokens one by one; `model` checks them all in one call,
    and adds one token (Leviathan et al. 2023, algorithm 1). The window moves as in `generate`, and
    `draft` must take as many tokens as `model`. A seed gives other tokens than there: only the
    distribution is the same. ConfigError for a temperature that makes no sense.
    """
    sampler = Sampler(temperature)
    T = (
        model.config.context_length
        if hasattr(model, "config")
        else len(prompt) + max_new_tokens + ahead
    )
    # An empty list: this model reads all tokens each time.
    new_cache = getattr(model, "new_cache", list)
    text = prompt
    window = prompt[-T:]
    cache = new_cache()
    judged = 0
    accepted = 0
    with torch.no_grad(), evaluating(model), evaluating(draft):
        while len(text) < len(prompt) + max_new_tokens:
            if len(window) > T:  # no place left: the last tokens move to the first places
                window = window[-max(1, round(keep * T)) :]
                cache = new_cache()
            guesses, q = _guess(draft, window, min(ahead, T - len(window)), sampler, generator)
            logits = _read(model, torch.cat([window, guesses]), cache)
            # After the window, and after each guess.
            p = _probabilities(logits[-len(guesses) - 1 :], sampler)
            new = _accept(p, q, guesses.tolist(), generator)
            judged += min(len(new), len(guesses))
            accepted += len(new) - 1
            text = torch.cat([text, prompt.new_tensor(new)])
            window = torch.cat([window, prompt.new_tensor(new)])
            for layer in cache:
                layer.keep_first(len(window) - 1)  # forget the guesses that were rejected
    return text[: len(prompt) + max_new_tokens], accepted / judged if judged else float("nan")


def _guess(
    draft: nn.Module,
    window: Int64[Tensor, "T"],
    count: int,
    sampler: Sampler,
    generator: torch.Generator | None,
) -> tuple[Int64[Tensor, "K"], list[Float[Tensor, "V"]]]:
    """The draft's next `count` tokens (K,), and the probabilities q each was drawn from."""
    start = len(window)
    q = []
    for _ in range(count):
        q.append(_probabilities(draft(window[None])[0, -1], sampler))
        window = torch.cat([window, _draw(q[-1], generator).to(window.device)])
    return window[start:], q


def _read(
    model: nn.Module, window: Int64[Tensor, "T"], cache: list[KVCache]
) -> Float[Tensor, "T_new V"]:
    """The logits after each token that the cache, if there is one, doesn't hold yet."""
    if not cache:
        return model(window[None])[0]
    return model(window[None, len(cache[0]) :], cache=cache)[0]


def _accept(
    p: Float[Tensor, "K_1 V"],
    q: list[Float[Tensor, "V_draft"]],
    guesses: list[int],
    generator: torch.Generator | None,
) -> list[int]:
    """The guesses before the first that is rejected, and then one token of the model's own.

    p are the model's probabilities, q the draft's.
    """
    new = []
    for i, guess in enumerate(guesses):
        new.append(_judge(p[i], q[i], guess, generator))
        if new[-1] != guess:
            return new
    return [*new, int(_draw(p[-1], generator))]


def _judge(
    p: Float[Tensor, "V"], q: Float[Tensor, "V"], guess: int, generator: torch.Generator | None
) -> int:
    """A token distributed as p, which is `guess`, drawn from q, as often as that is possible."""
    if torch.rand((), generator=generator) * q[guess] < p[guess]:
        return guess
    # Where q gave too little; never all 0 by rounding.
    return int(_draw((p - q).clamp(min=1e-12), generator))


def _probabilities(
    logits: Float[Tensor, "*batch V"], sampler: Sampler
) -> Float[Tensor, "*batch V"]:
    return sampler.filter(logits).softmax(dim=-1).cpu()


def _draw(weights: Float[Tensor, "V"], generator: torch.Generator | None) -> Int64[Tensor, "1"]:
    return torch.multinomial(weights, 1, generator=generator)
