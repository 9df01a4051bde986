"""The checkpoint of a run: everything in one file, written in one step under a checksum, and checked when it is read.

checkpoint.pt is the truth: what the run is, its history, its last state (to go on from), its best weights (to use) and
snapshots of earlier ones (to look at). config.json, history.json, tokenizer.json and sample.txt are views of it.
"""

import hashlib
import io
import json
import re
import stat
import warnings
import zipfile
from dataclasses import asdict
from pathlib import Path

import psutil
import torch
from torch import nn

from helpers.core.counted import build_gpt, config_of
from helpers.core.data import CharTokenizer
from helpers.core.gpt import GPT
from helpers.runs.check import check
from helpers.runs.state import History, Identity, Record, State
from helpers.scaling.vocabulary import Tokenizer, tokenizer_of
from helpers.support import files
from helpers.support.console import shown
from helpers.support.errors import CheckpointError, HelpersError, StorageError

CHECKPOINT, VIEWS = "checkpoint.pt", ("config.json", "history.json", "tokenizer.json", "sample.txt")
CHECKSUM = re.compile(rb"sha256:[0-9a-f]{64}")  # what a checkpoint ends with


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
    """Let config.json, history.json and tokenizer.json say what the checkpoint says, and delete an outdated sample."""
    best = state.history.best
    facts = {"step": state.step, "finished": state.finished, "best": {"step": best.step, "val_loss": best.val_loss}}
    identity = asdict(state.identity) | {"tokenizer": bool(state.identity.tokenizer)}  # which has a file of its own
    texts = {
        "config.json": json.dumps(facts | identity, indent=1),
        "history.json": state.history.to_json(),
    }
    if tokenizer := _tokenizer(state.identity):
        texts["tokenizer.json"] = tokenizer.to_json()
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
    """The state in `folder`. Every part of it is checked against `model`, or the GPT that the checkpoint describes.

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
        json.dumps((parts["identity"], parts["history"]))  # fails where a tensor stands for a number
        parts["identity"] = Identity(**parts["identity"])
        parts["history"] = History(Record(**record) for record in parts["history"])
        state = State(**parts)
        if asked is not None and (differences := state.identity.difference(asked)):
            raise CheckpointError(f"it is of another run: {differences}")
        check(state, model)
        if asked is not None:
            if state.step > asked.train["max_steps"]:
                raise CheckpointError(f"it is at step {state.step:,} already: max_steps must not be below")
            state.identity = state.identity.going_on_as(asked, state.step)
    except Exception as error:  # a hostile archive raises nearly anything
        why = str(error) if isinstance(error, HelpersError) else "its content makes no sense"
        raise CheckpointError(f"{shown(path)} can't be used: {why}") from None
    return state


def _signed(path: Path) -> bytes:
    """The bytes of a checkpoint whose checksum is right."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise CheckpointError(f"{shown(path)} is not a regular file, so it is not a checkpoint")
        if 3 * found.st_size > psutil.virtual_memory().available:
            raise CheckpointError(f"{shown(path)} has {found.st_size / 1e9:,.1f} GB: it doesn't fit into memory")
        content = path.read_bytes()
    except CheckpointError:
        raise
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise CheckpointError(f"no checkpoint at {shown(path)}: train first, or name another folder") from None
    except OSError as error:
        raise CheckpointError(f"can't read {shown(path)}: {error.strerror or error}") from None
    if not CHECKSUM.fullmatch(content[-71:]):
        raise CheckpointError(
            f"{shown(path)} has no checksum: it is cut off, or was not written by this project's runs"
        )
    if hashlib.sha256(content[:-64]).hexdigest().encode() != content[-64:]:
        raise CheckpointError(f"{shown(path)} is damaged: its checksum is wrong; train again, or use a copy")
    return content


def load_model(folder: str | Path) -> tuple[GPT, Tokenizer]:
    """The best model of a run folder, in evaluation mode, and its tokenizer; CheckpointError as in `load`."""
    return writer_of(load(folder))


def writer_of(state: State) -> tuple[GPT, Tokenizer]:
    """The same, of a state that is loaded already."""
    tokenizer = _tokenizer(state.identity)
    if tokenizer is None:
        raise CheckpointError("the run was trained without a tokenizer: it can't write")
    model = build_gpt(config_of(state.identity.model))
    model.load_state_dict(state.best)
    return model.eval(), tokenizer


def _tokenizer(identity: Identity) -> Tokenizer | None:
    if identity.tokenizer:
        return tokenizer_of(identity.tokenizer)
    return CharTokenizer(identity.alphabet) if identity.alphabet else None


def load_snapshots(folder: str | Path) -> list[tuple[int, GPT]]:
    """A run's model as it learned: pairs of a step and a GPT in evaluation mode, the untrained one first.

    Then come the models of those records that had at least twice the steps of the one before. All of them were rounded
    to float16. The last model, which was not, is that of the run's last state. CheckpointError as in `load`, and for a
    run that is older than snapshots are.
    """
    state, models = load(folder), []
    if not state.snapshots:
        raise CheckpointError(f"{shown(Path(folder) / CHECKPOINT)} is from before snapshots were kept: train anew")
    for step, weights in (state.snapshots | {state.step: state.model}).items():
        model = build_gpt(config_of(state.identity.model))
        model.load_state_dict(state.model)  # for what is no parameter: a counted text
        model.load_state_dict(weights, strict=False)  # a snapshot holds the matrix that two layers share once
        models.append((step, model.eval()))
    return models
