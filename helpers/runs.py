"""The folder of a training run: one checkpoint with everything in it, and files for people made from it.

checkpoint.pt is the truth: what the run is, its history, its last state (to go on from), its best weights (to use) and
snapshots of earlier ones (to look at), written in one step under a checksum. config.json, history.json, tokenizer.json
and sample.txt are views of it.
"""

import hashlib
import io
import json
import os
import re
import stat
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import filelock
import psutil
import torch
from torch import nn

from helpers import files
from helpers.data import CharTokenizer
from helpers.errors import CheckpointError, ConfigError, HelpersError, RunError, StorageError
from helpers.gpt import GPT, GPTConfig
from helpers.state import History, Identity, Record, State, check

# Where runs go unless told otherwise. `make test` names another place, so as to spare your runs.
RUNS = Path(os.environ.get("NANOGPT_RUNS") or Path(__file__).parents[1] / "build" / "runs")
CHECKPOINT, VIEWS = "checkpoint.pt", ("config.json", "history.json", "tokenizer.json", "sample.txt")
CHECKSUM = re.compile(rb"sha256:[0-9a-f]{64}")  # what a checkpoint ends with


# ---------------------------------------------------------------- the checkpoint
def save(folder: Path, state: State) -> None:
    """Write checkpoint.pt, then the views that follow from it; StorageError when that fails, and the old one stays."""
    plain = {"identity": asdict(state.identity), "history": [asdict(record) for record in state.history]}
    packed = io.BytesIO()
    torch.save(vars(state) | plain, packed)
    try:
        files.write(folder / CHECKPOINT, sign(packed.getvalue()))
        write_views(folder, state)
    except StorageError as error:
        go_on = "resume" if (folder / CHECKPOINT).exists() else "start again"
        raise StorageError(f"stopped after {state.step:,} steps: {error}; make room and {go_on}") from None


def write_views(folder: Path, state: State) -> None:
    """config.json, history.json and tokenizer.json say what the checkpoint says; a sample of an older state goes."""
    best = state.history.best
    facts = {"step": state.step, "finished": state.finished, "best": {"step": best.step, "val_loss": best.val_loss}}
    texts = {
        "config.json": json.dumps(facts | asdict(state.identity), indent=1),
        "history.json": state.history.to_json(),
    }
    if state.identity.alphabet:
        texts["tokenizer.json"] = CharTokenizer(state.identity.alphabet).to_json()
    for name in VIEWS:
        if name in texts:
            files.write(folder / name, texts[name])
        elif name != "sample.txt" or not state.finished:
            (folder / name).unlink(missing_ok=True)


def sign(archive: bytes) -> bytes:
    """The archive with its SHA-256 in the comment that a zip file may end with; torch.load reads it as before."""
    label = b"sha256:"
    signed = archive[:-2] + (len(label) + 64).to_bytes(2, "little") + label
    return signed + hashlib.sha256(signed).hexdigest().encode()


def load(folder: str | Path, model: nn.Module | None = None, asked: Identity | None = None) -> State:
    """The state in `folder`, every part of it checked; of `model`, or of the GPT that the checkpoint describes.

    CheckpointError when there is none, or when it is damaged, foreign, of another run than `asked`, or makes no sense.
    Nothing is unpickled before the checksum is right, and then only tensors and plain values.
    """
    path = Path(folder) / CHECKPOINT
    content = _signed(path)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
                raise CheckpointError("it is compressed, and may unfold to more than the memory holds")
        with warnings.catch_warnings(action="ignore"):  # torch's, about archives that are refused anyway
            parts = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        if not isinstance(parts, dict):
            raise CheckpointError("it is not of this project")
        parts["identity"] = Identity(**parts["identity"])
        parts["history"] = History(Record(**record) for record in parts["history"])
        state = State(**parts)
        if asked is not None and (differences := state.identity.difference(asked)):
            raise CheckpointError(f"it is of another run: {differences}")
        check(state, model)
        if asked is not None:
            if state.step > asked.train["max_steps"]:
                raise CheckpointError(f"it is at step {state.step:,} already: max_steps must not be below")
            state.identity = asked
    except Exception as error:  # a hostile archive raises nearly anything
        why = str(error) if isinstance(error, HelpersError) else "its content makes no sense"
        raise CheckpointError(f"{path} can't be used: {why}") from None
    return state


def _signed(path: Path) -> bytes:
    """The bytes of a checkpoint whose checksum is right."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise CheckpointError(f"{path} is not a regular file, so it is not a checkpoint")
        if 3 * found.st_size > psutil.virtual_memory().available:
            raise CheckpointError(f"{path} has {found.st_size / 1e9:,.1f} GB: it doesn't fit into memory")
        content = path.read_bytes()
    except CheckpointError:
        raise
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise CheckpointError(f"no checkpoint at {path}: train first, or name another folder") from None
    except OSError as error:
        raise CheckpointError(f"can't read {path}: {error.strerror or error}") from None
    if not CHECKSUM.fullmatch(content[-71:]):
        raise CheckpointError(f"{path} has no checksum: it is cut off, or was not written by this project's runs")
    if hashlib.sha256(content[:-64]).hexdigest().encode() != content[-64:]:
        raise CheckpointError(f"{path} is damaged: its checksum is wrong; train again, or use a copy")
    return content


def load_model(folder: str | Path) -> tuple[GPT, CharTokenizer]:
    """The best model of a run folder, in evaluation mode, and its tokenizer; CheckpointError as in `load`."""
    state = load(folder)
    if not state.identity.alphabet:
        raise CheckpointError(f"{Path(folder) / CHECKPOINT} was trained without a tokenizer: it can't write")
    model = GPT(GPTConfig(**state.identity.model))
    model.load_state_dict(state.best)
    return model.eval(), CharTokenizer(state.identity.alphabet)


def load_snapshots(folder: str | Path) -> list[tuple[int, GPT]]:
    """A run's model as it learned: pairs of a step and a GPT in evaluation mode, the untrained one first.

    Then comes each record with at least twice the steps of the one kept before, rounded to float16 like the first, and
    at the end the last state, unrounded. CheckpointError as in `load`, and for a run from before snapshots were kept.
    """
    state, models = load(folder), []
    if not state.snapshots:
        raise CheckpointError(f"{Path(folder) / CHECKPOINT} is from before snapshots were kept: train anew")
    for step, weights in (state.snapshots | {state.step: state.model}).items():
        model = GPT(GPTConfig(**state.identity.model))
        model.load_state_dict(weights, strict=False)  # a snapshot holds the matrix that two layers share once
        models.append((step, model.eval()))
    return models


# ---------------------------------------------------------------- the folder
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
    with _locked(folder):
        _refuse_foreign(folder, resume, overwrite)  # again, for somebody may have come between
        files.remove_leftovers(folder, (CHECKPOINT, *VIEWS))
        yield folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / ".lock", blocking=False).acquire()
    except filelock.Timeout:
        raise RunError(f"another training is writing into {folder}: wait for it, or choose another folder") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise StorageError(f"can't write into the output folder {folder}: {why}") from None
    with lock:
        yield


def _refuse_foreign(folder: Path, resume: bool, overwrite: bool) -> None:
    if resume and not os.path.lexists(folder / CHECKPOINT):
        raise CheckpointError(f"no checkpoint at {folder / CHECKPOINT}: train first, or name another folder")
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise RunError(f"{folder} is not a folder: name another one for the run")
    there = [name for name in (CHECKPOINT, *VIEWS) if os.path.lexists(folder / name)]
    for name in there:
        if (folder / name).is_symlink() or not (folder / name).is_file():
            raise RunError(
                f"{folder / name} is no plain file, and a run writes one of that name: choose another folder"
            )
    if there and not is_run(folder):
        raise RunError(f"{folder} holds {there[0]}, which no training run wrote: choose another folder")
    if there and not (resume or overwrite):
        raise RunError(f"{folder} holds a run already: resume it, overwrite it, or choose another folder")


def folder_named(name: object) -> Path:
    """The folder that a command line names; ConfigError when it names none."""
    if not isinstance(name, str) or not name:  # --out= and --out=--
        raise ConfigError("--out must name a folder")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # ~nobody
        raise ConfigError(f"--out {name}: {error}") from None


def is_run(folder: Path) -> bool:
    """Did a run write what lies in `folder`, be it damaged by now, or written by an older version?"""
    with suppress(OSError, ValueError), (folder / CHECKPOINT).open("rb") as file:
        file.seek(-71, os.SEEK_END)
        if CHECKSUM.fullmatch(file.read()):
            return True
    with suppress(OSError, ValueError, RecursionError), (folder / "config.json").open(encoding="utf-8") as file:
        settings = json.loads(file.read(1_000_000))
        return isinstance(settings, dict) and {"model", "train", "torch"} <= settings.keys()
    return False


def set_aside(folder: Path) -> Path:
    """Rename `folder` to the first free of folder-1, folder-2, ..., and give back its new name; errors as in `hold`."""
    number = 1
    while os.path.lexists(aside := folder.with_name(f"{folder.name}-{number}")):
        number += 1
    with _locked(folder):  # not under the hands of a training
        try:
            return folder.rename(aside)
        except OSError as error:
            raise StorageError(f"can't rename {folder} to {aside.name}: {error.strerror or error}") from None


def write_sample(folder: str | Path, text: str) -> None:
    """Put what the finished model wrote beside it, as sample.txt."""
    with hold(folder, resume=True) as held:
        files.write(held / "sample.txt", text)


def status(folder: str | Path, asked: Identity | None = None) -> str:
    """What resuming the run in `folder` will do, in a sentence; CheckpointError as in `load`."""
    state = load(folder, asked=asked)
    done = f"the run in {Path(folder).name} has made {state.step:,} of {state.identity.train['max_steps']:,} steps"
    return f"{done}: it is finished, and nothing is left to do" if state.finished else f"{done}, and goes on"


def plan(folder: Path, asked: Identity, *, reuse: bool, overwrite: bool, ours: bool) -> tuple[bool, str]:
    """Whether to resume the run in `folder`, and a sentence that says what will happen.

    With `reuse` the same run goes on. Another run in a folder of `ours` is set aside; in a folder that the user named
    it is a CheckpointError, as in `load`.
    """
    if overwrite or not is_run(folder):
        return False, f"a new run, in {folder.name}"
    try:
        if reuse:
            return True, status(folder, asked)
    except CheckpointError:
        if not ours:
            raise
    kept = f"; what was there is kept in {set_aside(folder).name}" if ours else ""
    return False, f"a new run, in {folder.name}{kept}"


def is_trained(folder: str | Path, corpus_sha256: str, config: GPTConfig, steps: int) -> bool:
    """Does `folder` hold a finished run of at least `steps` updates, of a model of these sizes, on this corpus?"""
    try:
        state = load(folder)
    except CheckpointError:
        return False
    enough = state.finished and state.step >= steps and state.identity.model == asdict(config)
    return enough and state.identity.corpus_sha256 == corpus_sha256
