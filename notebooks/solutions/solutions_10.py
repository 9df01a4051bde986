"""One answer to each exercise of notebook 10. Yours may look different and be as good: the checks decide."""

import torch
import torch.nn.functional as F

# All twenty stay silent with probability 0.95 to the power 20; in all other cases somebody is fooled.
my_chance = 1 - 0.95**20


def my_errors(with_change, whole):
    # Subtracting seed by seed takes out what both runs of a seed share: twice the covariance.
    S = len(whole)
    paired = (with_change - whole).std() / S**0.5
    unrelated = ((with_change.var() + whole.var()) / S).sqrt()
    return paired, unrelated


def my_last_loss(logits, targets):
    # Behind the last place stands nothing that a leak could show.
    return F.cross_entropy(logits[:, -1], targets[:, -1])


def my_holm(p):
    # The smallest must survive R claims, the next one R - 1; none overtakes a smaller one.
    ranked, order = p.sort()
    adjusted = (ranked * torch.arange(len(p), 0, -1)).cummax(dim=0).values.clamp(max=1)
    back = torch.empty_like(p)
    back[order] = adjusted
    return back


def my_rate(losses):
    best, lowest = None, float("inf")
    for rate, runs in losses.items():
        if runs.mean() < lowest:  # never true of NaN
            best, lowest = rate, runs.mean()
    return best
