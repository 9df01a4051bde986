"""The command `python -m helpers.training`, and the names of all that trains.

The loop stands in helpers/core/training.py, settings, schedules and optimizers in helpers/core/optim.py, the training
that survives a stop in helpers/runs/train.py.
"""

from helpers.commands.train import main
from helpers.core.optim import TrainConfig, learning_rate, make_optimizer
from helpers.core.training import cross_entropy, evaluate, updates
from helpers.runs.train import print_record, record_steps, train
from helpers.support.console import leave

__all__ = [
    "TrainConfig",
    "cross_entropy",
    "evaluate",
    "learning_rate",
    "make_optimizer",
    "print_record",
    "record_steps",
    "train",
    "updates",
]

if __name__ == "__main__":
    leave(main)
