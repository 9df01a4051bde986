"""Two other ways to write: the likeliest text that a beam finds, and draws that a small model guesses ahead."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.core.sampling import filter_logits
from helpers.support.errors import ConfigError
from helpers.support.modes import evaluating


@torch.no_grad()
def beam_search(
    model: nn.Module, prompt: Int64[Tensor, "T"], max_new_tokens: int, beams: int = 4
) -> tuple[Int64[Tensor, "K T_all"], Float[Tensor, "K"]]:
    """The `beams` likeliest continuations found, best first, and the log-probability of each, in nats.

    At every step each text is continued by each token, and the `beams` with the highest sum of log-probabilities stay
    (Graves 2012, section 2.5); with one beam this is greedy. K is less than `beams` where there are not as many texts.
    ConfigError when prompt and new tokens outgrow the model's context, and for a model whose logits are no numbers.
    """
    texts, scores = prompt[None], torch.zeros(1, device=prompt.device)
    with evaluating(model):
        for _ in range(max_new_tokens):
            log_p = filter_logits(model(texts)[:, -1]).log_softmax(dim=-1)  # (K, V)
            sums = (scores[:, None] + log_p).flatten()  # (K * V,): text k continued by token v stands at k * V + v
            scores, best = sums.topk(min(beams, len(sums)))
            texts = torch.cat([texts[best // log_p.shape[1]], best[:, None] % log_p.shape[1]], dim=1)
    if scores.isnan().any():
        raise ConfigError("no text has a likelihood that is a number: has the training diverged?")
    return texts, scores


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
    """Tokens distributed as `generate`'s, and the share of the draft's guesses that were accepted (NaN for none).

    The small `draft` guesses up to `ahead` tokens one by one; `model` judges them all in one call, and adds one token
    (Leviathan et al. 2023, algorithm 1). The window moves as in `generate`, and `draft` must take as many tokens as
    `model`. A seed gives other tokens than there: only the distribution is the same. ConfigError for a draft of another
    vocabulary, and for a temperature that makes no sense.
    """
    T = model.config.context_length if hasattr(model, "config") else len(prompt) + max_new_tokens + ahead
    new_cache = model.new_cache if hasattr(model, "new_cache") else list
    text, window, cache, judged, accepted = prompt, prompt[-T:], new_cache(), 0, 0
    with torch.no_grad(), evaluating(model), evaluating(draft):
        while len(text) < len(prompt) + max_new_tokens:
            if len(window) > T:
                window, cache = window[-max(1, round(keep * T)) :], new_cache()
            start, q = len(window), []
            for _ in range(min(ahead, T - start)):
                q.append(filter_logits(draft(window[None])[0, -1], temperature).softmax(dim=-1).cpu())
                window = torch.cat([window, _draw(q[-1], generator).to(window.device)])
            logits = model(window[None, len(cache[0]) :], cache=cache) if cache else model(window[None])
            # one row more than there are guesses
            p = filter_logits(logits[0, -len(q) - 1 :], temperature).softmax(dim=-1).cpu()
            if q and q[0].shape != p[0].shape:
                raise ConfigError(f"the draft knows {len(q[0])} tokens, and the model {p.shape[-1]}")
            new = []
            for p_i, q_i, guess in zip(p, q, window[start:].tolist(), strict=False):
                new.append(_judge(p_i, q_i, guess, generator))
                judged, accepted = judged + 1, accepted + (new[-1] == guess)
                if new[-1] != guess:
                    break
            else:
                new.append(int(_draw(p[-1], generator)))
            new_tokens = window.new_tensor(new)
            text, window = torch.cat([text, new_tokens]), torch.cat([window[:start], new_tokens])
            for layer in cache:
                layer.keep_first(len(window) - 1)  # forget the guesses that were refused
    return text[: len(prompt) + max_new_tokens], accepted / judged if judged else float("nan")


def _judge(p: Float[Tensor, "V"], q: Float[Tensor, "V"], guess: int, generator: torch.Generator | None) -> int:
    """A token distributed as p, which is `guess`, drawn from q, as often as that is possible."""
    if torch.rand((), generator=generator) * q[guess] < p[guess]:
        return guess
    return int(_draw((p - q).clamp(min=1e-12), generator))  # where q gave too little; never all 0 by rounding


def _draw(weights: Float[Tensor, "V"], generator: torch.Generator | None) -> Int64[Tensor, "1"]:
    return torch.multinomial(weights, 1, generator=generator)
