"""The doors of both commands: which folders they take, and that a folder is there as a whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers.errors import ConfigError, RunError, shown
from tools.classroom.assignments import ROOT


@contextmanager
def a_new_folder(name: str, given: str) -> Iterator[tuple[Path, Path]]:
    """A folder to work in, and the one that it becomes when all has gone well; it must be new or empty.

    ConfigError for another one, RunError where none can be written; nothing is left then.
    """
    out = named(name, given)
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ConfigError(f"{name}={shown(given)} is there already: name a folder that is new or empty")
    if out == ROOT or out in ROOT.parents:
        raise ConfigError(f"{name}={shown(given)} holds this project: name a folder that is new or empty")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise RunError(f"can't write {name}={shown(given)}: {error.strerror or error}") from None
    try:
        folder.chmod(0o755)
        yield folder, out
        with contextlib.suppress(FileNotFoundError):
            out.rmdir()  # it is empty
        folder.replace(out)
    except OSError as error:
        raise RunError(f"can't write {name}={shown(given)}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def a_folder(name: str, given: str) -> Path:
    """One that is there, can be read, and doesn't hold this project. ConfigError otherwise."""
    folder = named(name, given)
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        raise ConfigError(f"{name}={shown(given)} is no folder that can be read")
    if folder == ROOT or folder in ROOT.parents:
        raise ConfigError(f"{name}={shown(given)} holds this project: name the folder with one folder for each student")
    return folder


def named(name: str, given: str) -> Path:
    if not given or "\0" in given:
        raise ConfigError(f"{name} must name a folder: {name}=folder")
    return Path(given).expanduser().resolve()
