"""Causality: every leak of the future is found, and what is causal passes."""

import pytest
import torch

from helpers.attention import MultiHeadAttention, attention, causal_mask
from helpers.errors import CheckError
from helpers.grading import checks
from helpers.grading.graders import causality


def test_causality_is_tried_on_batches_of_different_tokens():
    for x in (torch.randn(6, 3), torch.randn(2, 1, 3), torch.ones(2, 6, 3), torch.zeros(2, 6, dtype=torch.long)):
        with pytest.raises(CheckError, match="causality is tried on"):
            checks.causal(lambda x: x, x)
    for other in (lambda x: x[:, :-1], lambda x: x.transpose(0, 1), lambda x: x.transpose(1, 2)):
        with pytest.raises(CheckError, match="not one row for each of 6 tokens"):
            checks.causal(other, torch.randn(2, 6, 3))


def test_causal():
    torch.manual_seed(0)
    heads, x = MultiHeadAttention(4, 4, 6, 0.0, 2), torch.randn(2, 6, 4)
    checks.causal(heads, x)
    checks.causal(lambda ids: ids.cumsum(1), torch.randint(9, (2, 6)))
    leaks = {
        "no mask": lambda x: attention(x, x, x)[0],
        "inverted": lambda x: attention(x, x, x, ~causal_mask(6) | torch.eye(6, dtype=torch.bool))[0],
        "one ahead": lambda x: attention(x, x, x, torch.ones(6, 6, dtype=torch.bool).tril(1))[0],
        "softmax over queries": lambda x: (x @ x.mT).masked_fill(~causal_mask(6), -torch.inf).softmax(-2) @ x,
        "an earlier output only": lambda x: torch.cat([x[:, :1] + x[:, 2:3], x[:, 1:]], dim=1),
        "sees the length only": lambda x: x + x[:, -1:],
    }
    for leak in leaks.values():
        with pytest.raises(CheckError, match="not causal"):
            checks.causal(leak, x)
    with pytest.raises(CheckError, match="not causal"):
        checks.causal(lambda ids: ids.flip(1).cumsum(1).flip(1), torch.randint(9, (2, 6)))


def leaking(mask_of):
    def function(x):
        mask = mask_of(causal_mask(x.shape[1]))
        return attention(x, x, x, mask)[0]

    return function


def with_entry(t, s):
    def mask_of(mask):
        mask[t, s] = True
        return mask

    return mask_of


def large_only(x):
    return x + (x.abs() > 1e4).any(1, keepdim=True)


def finite(x):
    return (x @ -x.mT).masked_fill(~causal_mask(x.shape[1]), -1e9).softmax(-1) @ x


class Overwriting:
    """Leaks, and writes every output over the last one."""

    def __init__(self):
        self.output = None

    def __call__(self, x):
        new = x + x.flip(1)
        self.output = new if self.output is None else self.output.copy_(new)
        return self.output


def doubling(x):
    x *= 2
    return x


def zeroing_later(x):
    output = x.cumsum(1)
    x[:, -1] = 0
    return output


LEAKS = {
    "the last place but one": ("at position 4 or before", leaking(with_entry(4, 5))),
    "the first, the next": ("at position 0 changes", leaking(with_entry(0, 1))),
    "the first, the last": ("at position 0 changes", leaking(with_entry(0, 5))),
    "the third": ("at position 2 or before", leaking(with_entry(2, 4))),
    "the next": ("at position 0 changes", leaking(lambda mask: mask | torch.ones_like(mask).tril(1))),
    "triu": ("at position 0 changes", leaking(lambda mask: mask.mT)),
    "only the mean": ("at position 0", lambda x: x + x.mean(1, keepdim=True)),
    "a faint mean": ("at position 0", lambda x: x + 1e-5 * x.mean(1, keepdim=True)),
    "the largest": ("at position 0", lambda x: x - x.amax((1, 2), keepdim=True)),
    "the norm": ("at position 0", lambda x: x / x.norm(dim=(1, 2), keepdim=True)),
    "large inputs": ("for inputs 1,000,000 times as large", large_only),
    "a finite mask": ("for inputs 1,000,000 times as large", finite),
    "overwriting": ("at position 0", Overwriting()),
    "doubling": ("it changes its input in place", doubling),
    "zeroing": ("it changes its input in place", zeroing_later),
    "random": ("two calls with the same input", lambda x: x + torch.rand_like(x)),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_every_leak_is_found(leak):
    words, function = LEAKS[leak]
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(5))
    with pytest.raises(CheckError) as error:
        checks.causal(function, x)
    assert words in str(error.value)


@pytest.mark.parametrize("ids", [[0, 1, 2, 1, 0, 0], [0, 0, 0, 0, 0, 1], [3, 1, 3, 1, 3, 3]])
def test_no_id_hides_a_leak(ids):
    x = torch.tensor([ids, ids[::-1]])
    for t in range(5):
        with pytest.raises(CheckError, match=f"at position {t} or before" if t else "at position 0 changes"):
            checks.causal(
                lambda x, t=t: torch.cat([x[:, :t], x[:, t : t + 1] + x[:, t + 1 : t + 2], x[:, t + 1 :]], 1), x
            )
    checks.causal(lambda x: x.cumsum(1), x)


def test_what_is_causal_passes_large_or_not_a_number():
    x = torch.randn(2, 6, 3)
    checks.causal(lambda x: x.exp(), x)
    checks.causal(lambda x: x / 0 * 0, x)
    checks.causal(leaking(lambda mask: mask.tril(-1)), x)  # the first row allows nothing
    checks.causal(lambda x: x.cumsum(1), x.double())
    checks.causal(lambda x: x.cumsum(1), x.bfloat16())
    checks.causal(leaking(lambda mask: mask), x.half())


# ---------------------------------------------------------------- the functions of exercise 4c
def of_each_text(function):
    return lambda x: torch.stack([function(text) for text in x])


X = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("name", causality.LEAKING)
def test_a_leak_that_an_exercise_asks_about_is_one_to_the_check_too(name):
    with pytest.raises(CheckError, match="not causal"):
        checks.causal(of_each_text(causality.LEAKING[name]), X)


@pytest.mark.parametrize("name", causality.CAUSAL)
def test_what_an_exercise_calls_causal_is_so_to_the_check_too(name):
    checks.causal(of_each_text(causality.CAUSAL[name]), X)
