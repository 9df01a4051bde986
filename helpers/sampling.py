"""The command `python -m helpers.sampling`, and the names of helpers/core/sampling.py."""

from helpers.commands.write import main
from helpers.core.sampling import Drawing, filter_logits, generate, stream
from helpers.support.console import leave

__all__ = ["Drawing", "filter_logits", "generate", "stream"]

if __name__ == "__main__":
    leave(main)
