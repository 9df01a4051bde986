"""Functions that are causal and functions that look ahead, and ways to test which, most of them too weak."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, randn

from exercises.judge import Answer
from helpers.attention import attention


def _row_by_row(x: Tensor) -> Tensor:
    """Causal attention that computes the same to the last bit, however long the text is."""
    return torch.stack([attention(x[t : t + 1], x[: t + 1], x[: t + 1])[0][0] for t in range(len(x))])


def _plus_next(x: Tensor, of_next: Callable[[Tensor], Tensor], first: int = 0) -> Tensor:
    """x with something of the next token added, from place `first` on."""
    y = x.clone()
    y[first:-1] += of_next(x[first + 1 :])
    return y


def _plus_future(x: Tensor, of_future: Callable[[Tensor], Tensor]) -> Tensor:
    """x with something of all later tokens together added."""
    return torch.stack([x[t] + of_future(x[t + 1 :]) if t + 1 < len(x) else x[t] for t in range(len(x))])


def _swapped_ends(x: Tensor) -> Tensor:
    y = x.clone()
    y[-2:] = x[-2:].flip(0)
    return y


def _first_sees_third(x: Tensor) -> Tensor:
    y = x.clone()
    y[0] += x[2 % len(x)]
    return y


def _channel_to_channel(x: Tensor) -> Tensor:
    y = x.clone()
    y[:-1, -1] += x[1:, 0]
    return y


CAUSAL: dict[str, Callable[[Tensor], Tensor]] = {
    "doubles x": lambda x: 2 * x,
    "adds up the past": lambda x: x.cumsum(0),
    "averages the past": lambda x: x.cumsum(0) / torch.arange(1, len(x) + 1)[:, None],
    "keeps the largest so far": lambda x: x.cummax(0).values,
    "attends to the past": _row_by_row,
    "gives the token before": lambda x: torch.cat([torch.zeros_like(x[:1]), x[:-1]]),
    "gives the first token everywhere": lambda x: x[:1].expand_as(x).clone(),
    "always gives zeros": lambda x: torch.zeros_like(x),
    "multiplies by the place": lambda x: x * torch.arange(len(x))[:, None],
    "turns each vector round": lambda x: x.flip(1),
    "divides each vector by its length": lambda x: x / x.norm(dim=1, keepdim=True),
    "gives one number for each token": lambda x: x[:, :1] ** 2,
}
LEAKING: dict[str, Callable[[Tensor], Tensor]] = {
    "attends to everything": lambda x: attention(x, x, x)[0],
    "attends without a mask in its softmax": lambda x: attention(x, x, x)[1].tril() @ x,
    "gives the token after": lambda x: torch.cat([x[1:], x[-1:]]),
    "adds a little of the token after": lambda x: _plus_next(x, lambda after: 1e-3 * after),
    "leaks at the last place but one only": _swapped_ends,
    "leaks the last token only": lambda x: x + 1e-2 * x[-1:] ** 2,
    "leaks the third token into the first": _first_sees_third,
    "divides by a length over time": lambda x: x / x.norm(dim=0),
    "takes the mean over time away": lambda x: x - x.mean(0),
    "divides by the largest of all times": lambda x: x / x.abs().amax(),
    "leaks the sum of the future, not its order": lambda x: _plus_future(x, lambda after: after.sum(0)),
    "leaks the order of the future": lambda x: _plus_future(x, lambda after: after[0] - after[-1]),
    "leaks large numbers only": lambda x: _plus_next(x, lambda after: after.clamp(min=1.0) - 1.0),
    "leaks absolute values, not signs": lambda x: _plus_next(x, torch.abs),
    "leaks signs, not sizes": lambda x: _plus_next(x, torch.sign),
    "leaks directions, not lengths": lambda x: _plus_next(x, lambda after: after / after.norm(dim=1, keepdim=True)),
    "leaks differences of the future": lambda x: _plus_future(x, lambda after: after.amax(0) - after.amin(0)),
    "leaks what is rounded": lambda x: _plus_next(x, torch.round),
    "leaks from the first channel into the last": _channel_to_channel,
    "leaks how two channels differ": lambda x: _plus_next(x, lambda after: after[:, :1] - after[:, 1:2]),
    "leaks what adds up to nothing": lambda x: _plus_next(x, lambda after: after - after.flip(1)),
}
for _words, _function in (CAUSAL | LEAKING).items():
    _function.__doc__ = _words


SIZES = (0.3, 3.0, 30.0)  # of random numbers


def changed_future(future: Callable[[Tensor], Tensor], same: Callable[[Tensor, Tensor], bool] = torch.equal) -> Answer:
    """Looks at the outputs before every place, after `future` has changed the inputs from there on."""

    def answer(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
        before = function(x)
        changes = ((t, torch.cat([x[:t], future(x[t:])])) for t in range(1, len(x)))
        return all(same(function(changed)[:t], before[:t]) for t, changed in changes)

    return answer


def changed_at(place: int, looked_at: slice, by: float | None = None) -> Answer:
    """Adds a number, or replaces by random ones, at one place only, and looks at some outputs."""

    def answer(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
        before = function(x)
        for size in SIZES:
            changed = x.clone()
            changed[place] = x[place] + by if by else size * randn(x.shape[1])
            if not torch.equal(function(changed)[looked_at], before[looked_at]):
                return False
        return True

    return answer


def outputs_at(rows: Callable[[int], slice]) -> Answer:
    """Replaces everything after place t, and looks only at some rows of the output."""

    def answer(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
        before = function(x)
        for t, size in itertools.product(range(len(x) - 1), SIZES):
            changed = torch.cat([x[: t + 1], size * randn(x[t + 1 :].shape)])
            if not torch.equal(function(changed)[rows(t)], before[rows(t)]):
                return False
        return True

    return answer


def derivatives_vanish(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """The derivatives of outputs with respect to later inputs are 0."""
    derivatives = torch.autograd.functional.jacobian(function, x).abs().sum(dim=(1, 3))  # (T, T)
    return not derivatives.triu(1).any()
