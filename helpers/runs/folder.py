"""The folder of a run: who may write into it, what lies there, and what a new training will do with it."""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import filelock

from helpers.core.gpt import GPTConfig
from helpers.runs.checkpoint import CHECKPOINT, CHECKSUM, VIEWS, load
from helpers.runs.state import Identity
from helpers.support import files
from helpers.support.console import shown
from helpers.support.errors import CheckpointError, ConfigError, RunError, StorageError
from helpers.world.corpus import TINY

CONFIG = "config.json"

# Where runs go unless told otherwise. `make test` names another place, so as to spare your runs.
RUNS = Path(os.environ.get("NANOGPT_RUNS") or Path(__file__).parents[2] / "build" / "runs")


@contextmanager
def hold(folder: str | Path, *, resume: bool = False, overwrite: bool = False) -> Iterator[Path]:
    """Keep `folder`, created if need be, for one writer.

    RunError when another one holds it, when a run lies there (and neither `resume` nor `overwrite` says what to do with
    it), or when files lie there that no run wrote: those are never touched. StorageError when it can't be written.
    """
    folder = Path(folder)
    if resume and overwrite:
        raise RunError("resume goes on with a run, overwrite replaces it: choose one of the two")
    _refuse_foreign(folder, resume, overwrite)  # before anything is written
    with locked(folder):
        _refuse_foreign(folder, resume, overwrite)  # again: another program may have written meanwhile
        files.remove_leftovers(folder, (CHECKPOINT, *VIEWS))
        yield folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep `folder`, created if need be, for one program: RunError and StorageError as in `hold`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / ".lock", blocking=False).acquire()
    except filelock.Timeout:
        raise RunError(
            f"another program is writing into {shown(folder)}: wait for it, or choose another folder"
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise StorageError(f"can't write into the output folder {shown(folder)}: {why}") from None
    with lock:
        yield


def _refuse_foreign(folder: Path, resume: bool, overwrite: bool) -> None:
    if resume and not os.path.lexists(folder / CHECKPOINT):
        raise CheckpointError(f"no checkpoint at {shown(folder / CHECKPOINT)}: train first, or name another folder")
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise RunError(f"{shown(folder)} is not a folder: name another one for the run")
    there = [name for name in (CHECKPOINT, *VIEWS) if os.path.lexists(folder / name)]
    for name in there:
        if (folder / name).is_symlink() or not (folder / name).is_file():
            raise RunError(
                f"{shown(folder / name)} is no plain file, and a run writes one of that name: choose another folder"
            )
    if there and not is_run(folder):
        raise RunError(f"{shown(folder)} holds {there[0]}, which no training run wrote: choose another folder")
    if there and not (resume or overwrite):
        raise RunError(f"{shown(folder)} holds a run already: resume it, overwrite it, or choose another folder")


def folder_named(name: str, option: str) -> Path:
    """The folder that a command line names; ConfigError when it names none."""
    if not name:  # --out= and --out=--
        raise ConfigError(f"{option} must name a folder")
    if name.count("/") > 200:
        raise ConfigError(f"{option} {shown(name)}: no run may lie so deep")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # ~nobody
        raise ConfigError(f"{option} {shown(name)}: {error}") from None


def best_run(runs: Path) -> tuple[Path, str]:
    """The finished run in `runs` that writes best, and a sentence that says so; CheckpointError when there is none.

    The views rank the runs, and only the winner's checkpoint is opened. If it can't be used, the next best wins.
    """
    ranked = _ranked(runs)
    passed_over: list[Path] = []
    for folder in ranked:
        try:
            state = load(folder)
        except CheckpointError:
            passed_over.append(folder)
            continue
        loss = state.history.best.val_loss
        count = "the only finished run" if len(ranked) == 1 else f"the best of {len(ranked)} finished runs"
        damaged = f"; passed over, for they can't be used: {', '.join(map(_name, passed_over))}" if passed_over else ""
        text = state.identity.corpus or "its text"
        return folder, f"writing with {_name(folder)}, validation loss {loss:.3f}: {count} on {text}{damaged}"
    raise CheckpointError(f"no finished run in {shown(runs)}: train first, or name a folder by --run")


def _ranked(runs: Path) -> list[Path]:
    """The finished runs on one text, by their validation loss: losses on different texts can't be compared.

    The text is tiny Shakespeare, or, where no finished run has read it, that of the newest run.
    """
    views = {folder: view for folder in sorted(runs.glob("*/")) if (view := _view_of_finished(folder))}
    if not views:
        return []
    on_tiny = [folder for folder in views if views[folder]["corpus"] == TINY]
    chosen = max(on_tiny or views, key=lambda folder: (folder / CONFIG).stat().st_mtime)
    alike = [folder for folder in views if views[folder]["tokens_sha256"] == views[chosen]["tokens_sha256"]]
    return sorted(alike, key=lambda folder: views[folder]["best"]["val_loss"])


def is_run(folder: Path) -> bool:
    """Did a run write what lies in `folder`? It may be damaged by now, or written by an older version."""
    with suppress(OSError, ValueError), _plain(folder / CHECKPOINT).open("rb") as file:
        file.seek(-71, os.SEEK_END)
        if CHECKSUM.fullmatch(file.read()):
            return True
    return bool(_view(folder))


def _view(folder: Path) -> dict[str, Any]:
    """What config.json says of the run in `folder`; nothing when no run wrote it."""
    with suppress(OSError, ValueError, RecursionError), _plain(folder / CONFIG).open(encoding="utf-8") as file:
        view = json.loads(file.read(1_000_000))
        if isinstance(view, dict) and {"model", "train", "torch"} <= view.keys():
            return view
    return {}


def _view_of_finished(folder: Path) -> dict[str, Any]:
    """The view of a finished run that can write; nothing for any other."""
    view = _view(folder)
    with suppress(KeyError, TypeError, OverflowError):
        writes = view["finished"] is True and bool(view["alphabet"] or view.get("tokenizer"))
        on_a_text = isinstance(view["corpus"], str) and isinstance(view["tokens_sha256"], str)
        if writes and on_a_text and math.isfinite(view["best"]["val_loss"]):
            return view
    return {}


def _plain(path: Path) -> Path:
    """`path`, if it is a regular file; a pipe would keep its reader waiting for ever."""
    if not path.is_file():
        raise FileNotFoundError(path)
    return path


def _name(folder: str | Path) -> str:
    """The last part of a folder's path, as a message may show it."""
    return shown(Path(folder).absolute().name)


def set_aside(folder: Path) -> Path:
    """Rename `folder` to the first free of folder-1, folder-2, ..., and give back its new name; errors as in `hold`."""
    number = 1
    while os.path.lexists(aside := folder.with_name(f"{folder.name}-{number}")):
        number += 1
    with locked(folder):  # never while a training writes into it
        try:
            return folder.rename(aside)
        except OSError as error:
            raise StorageError(f"can't rename {shown(folder)} to {_name(aside)}: {error.strerror or error}") from None


def write_sample(folder: str | Path, text: str) -> None:
    """Write what the finished model wrote into the folder of its run, as sample.txt."""
    with hold(folder, resume=True) as held:
        files.write(held / "sample.txt", text)


def status(folder: str | Path, asked: Identity | None = None) -> str:
    """What resuming the run in `folder` will do, in a sentence; CheckpointError as in `load`."""
    state = load(folder, asked=asked)
    done = f"the run in {_name(folder)} has made {state.step:,} of {state.identity.train['max_steps']:,} steps"
    return f"{done}: it is finished, and nothing is left to do" if state.finished else f"{done}, and goes on"


def plan(folder: Path, asked: Identity, *, reuse: bool, overwrite: bool, ours: bool) -> tuple[bool, str]:
    """Whether to resume the run in `folder`, and a sentence that says what will happen.

    With `reuse`, the same run goes on. When another run lies there, it is set aside if the folder is one of `ours`; if
    the user named the folder, it is a CheckpointError, as in `load`.
    """
    if overwrite or not is_run(folder):
        return False, f"a new run, in {_name(folder)}"
    try:
        if reuse:
            return True, status(folder, asked)
    except CheckpointError:
        if not ours:
            raise
    kept = f"; what was there is kept in {_name(set_aside(folder))}" if ours else ""
    return False, f"a new run, in {_name(folder)}{kept}"


def is_trained(folder: str | Path, corpus_sha256: str, config: GPTConfig, steps: int) -> bool:
    """Does `folder` hold a finished run of at least `steps` updates, of a model of these sizes, on this corpus?"""
    try:
        state = load(folder)
    except CheckpointError:
        return False
    enough = state.finished and state.step >= steps and state.identity.model == asdict(config)
    return enough and state.identity.corpus_sha256 == corpus_sha256
