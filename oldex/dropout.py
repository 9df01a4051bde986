"""The check of dropout: what is dropped shows in what comes out, and a known mistake is named."""

import math

import torch
from torch import Tensor, nn

from helpers.errors import CheckError
from helpers.gpt import evaluating

DRAWS = 20_000
CHANCE = 1e-9  # that a right module is refused, for each mean that is compared

ON_IN_EVALUATION = "dropout is left on in evaluation: two calls give two results"
NEVER = "dropout is never applied: in training all draws are the same"
EARLY = "dropout comes before the softmax: it must drop weights, not scores"
UNSEEDED = "its draws do not follow torch.manual_seed: nobody could repeat them"
ONE_FOR_ALL_TEXTS = "every text of a batch loses the same weights: each must draw for itself"
NOISE = "noise is added: each weight must be dropped, or kept and divided by 1 - p, with nothing in between"
UNSCALED = "on average the output is not that of evaluation: kept weights must be divided by 1 - p"

# What is dropped instead, by three questions: do all queries lose the same; does a query lose all that it sees at once;
# are the numbers of a vector dropped one by one, and not those of a head as a whole?
DROPPED = {
    (False, False, True): "single numbers, too,",
    (False, True, False): "whole rows of weights",
    (False, True, True): "numbers of the output",
    (True, False, False): "whole values",
    (True, False, True): "numbers of the values",
    (True, True, False): "whole heads",
    (True, True, True): "the same numbers of the output for all tokens",
}


@torch.no_grad()
def check_dropout(module: nn.Module, x: Tensor, p: float | None = None) -> None:
    """CheckError unless `module`, causal attention with dropout on its weights, drops as it should.

    x is one short sequence (T, C). In evaluation nothing is random. In training the output varies, at the first token
    too, whose one weight of 1 only a dropout AFTER softmax can touch, and on average over 20,000 draws it is that of
    evaluation, also for inputs a hundred times as large, whose softmax is sharp. What is dropped is told from a text
    of equal words: each weight by itself. How much, from the largest output: p, or where p is not given the one that
    the module states (nn.Dropout's, or its attribute `dropout` or `p`). Every layer's mode stays as it was.

    A right module is refused by chance with a probability of 1e-9 for each of the 3 T C + T means that are compared.
    """
    with evaluating(module), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if not torch.equal(module(x[None]), module(x[None])):
            raise CheckError(ON_IN_EVALUATION)
        flat_is_wrong = _mean_is_wrong(module, 1e-3 * x)  # where softmax is flat, dropped scores hardly show
        wrong = [_mean_is_wrong(module, x), _mean_is_wrong(module, 100 * x)]
        if any(wrong) and not flat_is_wrong:
            raise CheckError(EARLY)
        fault = _fault(module, x, _stated(module) if p is None else p, flat_is_wrong)
    if fault:
        raise CheckError(fault)


def _drawn(module: nn.Module, x: Tensor, draws: int = DRAWS) -> Tensor:
    """Outputs in training, from a copy of x for each."""
    given = x.repeat(draws, 1, 1)
    drawn = module.train()(given)
    if not torch.equal(given[-1], x):
        raise CheckError("it changes its input in place: the caller's x must stay as it is")
    return drawn


def _expected(module: nn.Module, x: Tensor) -> Tensor:
    return module.eval()(x[None])[0]


# ---------------------------------------------------------------- the mean
def _mean_is_wrong(module: nn.Module, x: Tensor) -> bool:
    """Is the mean of 20,000 outputs in training another than the output in evaluation?"""
    expected = _expected(module, x)
    drawn = _drawn(module, x)
    if _all_the_same(drawn):
        again = torch.equal(drawn[:1], module(x[None]))
        raise CheckError(NEVER if again else ONE_FOR_ALL_TEXTS)
    first = drawn[:, 0]
    if drawn.isnan().any() or (_all_the_same(first) and expected[0].any()):
        raise CheckError(EARLY)
    off = (drawn.double().mean(0) - expected).abs()
    return bool((off > _luck(drawn) + 1e-5 * expected.abs().max()).any())


def _all_the_same(drawn: Tensor) -> bool:
    return torch.equal(drawn, drawn[:1].expand_as(drawn))


def _luck(draws: Tensor) -> Tensor:
    """How far the mean over the first dimension may be off by chance: farther with a probability of 1e-9.

    Bernstein's inequality, with the variance and the largest deviation that were seen: 6.5 standard errors and a term
    for rare large numbers, which a normal distribution would forget.
    """
    spread = draws.var(0)
    farthest = (draws - draws.mean(0)).abs().amax(0)
    nats = math.log(2 / CHANCE)
    return (2 * nats * spread / len(draws)).sqrt() + 2 / 3 * nats * farthest / len(draws)


# ---------------------------------------------------------------- what is dropped
def _fault(module: nn.Module, x: Tensor, p: float | None, mean_is_wrong: bool) -> str | None:
    """What is dropped, and how much of it, if not each weight by itself with probability p.

    In a text of T equal words every weight is 1 / (t + 1), and a text of zeros, drawn with the same seed, shows what
    the biases do; the difference is the sum of what was kept.
    """
    longest_word = x[x.norm(dim=-1).argmax()]
    text = longest_word.expand_as(x)
    zeros = torch.zeros_like(x)
    if not torch.equal(_drawn_anew(module, text, 64), _drawn_anew(module, text, 64)):
        return UNSEEDED
    draws = DRAWS // 4
    kept = (_drawn_anew(module, text, draws) - _drawn_anew(module, zeros, draws)).double()  # (draws, T, C)
    full = _expected(module, text)[0].double() - _expected(module, zeros)[0].double()  # (C)
    if not full.any():
        raise CheckError("dropout is tried on vectors x (T, C) for which the module's outputs are not all 0")
    share = kept[:, 0] @ full / full.dot(full)  # of the first word's value, how much is there?
    fault = _wrongly_dropped(kept, full, share, _number_of_heads(module))
    if fault:
        return fault
    nothing_dropped = (kept[:, 0] - share[:, None] * full).norm(dim=-1) < 1e-3 * full.norm()
    whole = share[nothing_dropped]
    if mean_is_wrong or not (whole > 1e-3).any():
        return UNSCALED if mean_is_wrong else None
    rate = 1 - 1 / whole.max().item()
    if p is None or abs(rate - p) < 5e-3:
        return None
    return f"of the weights {rate:.3g} is dropped, not p = {p:g}"


def _drawn_anew(module: nn.Module, x: Tensor, draws: int) -> Tensor:
    torch.manual_seed(0)
    return _drawn(module, x, draws)


def _wrongly_dropped(kept: Tensor, full: Tensor, share: Tensor, heads: int | None) -> str | None:
    """What is dropped instead of single weights, from what is kept (draws, T, C) of T equal words."""
    T = kept.shape[1]
    first = kept[:, 0]
    spread = kept.var(0).sum(-1)  # (T)
    directions = torch.linalg.eigvalsh(first.T @ first)
    parts = int((directions > 1e-9 * directions[-1]).sum())  # so many are dropped independently: one for each head
    outcomes = len((1000 * share).round().unique())
    if spread[0] < 1e-10 * full.dot(full) or (parts <= 8 and outcomes > 4 * 2**parts):
        return NOISE
    centred = kept - kept.mean(0)
    products = (centred[:, :1] * centred).sum(-1)[:, 1:]  # of the first query and each later one
    same_for_queries = T > 1 and bool((products.mean(0).abs() > _luck(products)).any())
    all_at_once = bool(spread[-1] / spread[0] > (1 + 1 / T) / 2)  # 1 / T when each weight is drawn for itself
    if not heads and not (same_for_queries or all_at_once):  # there may be as many heads as numbers
        heads = parts
    single_numbers = parts > heads if heads else parts == full.numel() > 1
    what = DROPPED.get((same_for_queries, all_at_once, single_numbers))
    return f"{what} are dropped: each weight must be drawn for itself, and nothing else" if what else None


# ---------------------------------------------------------------- what a module says of itself
def _stated(module: nn.Module) -> float | None:
    """The p that a module gives as its own, if it is one."""
    values = {getattr(owner, name, None) for owner in module.modules() for name in ("p", "dropout", "dropout_p")}
    stated = {value for value in values if isinstance(value, float)}
    return stated.pop() if len(stated) == 1 else None


def _number_of_heads(module: nn.Module) -> int | None:
    for name in ("num_heads", "n_head", "n_heads", "nhead", "heads"):
        for owner in module.modules():
            heads = getattr(owner, name, None)
            if isinstance(heads, nn.ModuleList):
                return len(heads)
            if isinstance(heads, int):
                return heads
    return None
