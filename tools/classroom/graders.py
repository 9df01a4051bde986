"""The one door to the exercises: all that judging an answer needs, loaded once."""

import torch

from exercises.judge import every, raised, said

__all__ = ["raised", "said"]

torch.set_num_threads(1)
every()
torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # the first one takes seconds
