"""One answer to each exercise of notebook 04. Yours may look different and be as good: the checks decide."""

import torch


def my_past_average(x):
    triangle = torch.ones(len(x), len(x)).tril()
    return triangle / triangle.sum(dim=1, keepdim=True) @ x


def my_window_mask(T, window):
    ones = torch.ones(T, T, dtype=torch.bool)
    return ones.tril() & ~ones.tril(diagonal=-window)


def my_is_causal(function, x):
    before = function(x)
    for t in range(len(x) - 1):
        changed = torch.cat([x[: t + 1], x[t + 1 :] + 1])
        if not torch.equal(function(changed)[: t + 1], before[: t + 1]):
            return False
    return True
