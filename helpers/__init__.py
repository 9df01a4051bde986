"""What the notebooks share. Reading order: attention, gpt, data, optim, loss, training, sampling."""

from pathlib import Path

# The clone; without one, for a package that was installed, the current folder.
ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "pyproject.toml").exists():
    ROOT = Path.cwd()
