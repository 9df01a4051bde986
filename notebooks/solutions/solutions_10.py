"""One answer to each exercise of notebook 10. Yours may look different and be as good: the checks decide."""

import torch
import torch.nn.functional as F


def my_damage(losses, whole):
    damage = losses - whole
    return torch.stack([damage.mean(dim=1), damage.std(dim=1)], dim=1)


def my_honest_loss(logits, targets):
    return F.cross_entropy(logits[:, -1], targets[:, -1])


def my_leaks(weights):
    return weights.triu(1).sum(dim=-1)
