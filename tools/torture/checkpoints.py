"""Checkpoints that were damaged by accident, or written on purpose to mislead, to crash or to run a command."""

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch

from helpers.runs import checkpoint
from helpers.support.errors import CheckpointError
from tools.torture import small
from tools.torture.harness import REFUSED, RIGHT, Attempt, bad, group
from tools.torture.small import KINDS, PLAIN, Kind, plain, refused


def _pristine(kind: Kind) -> bytes:
    return (kind.whole / "checkpoint.pt").read_bytes()


def _folder_with(content: bytes, folder: Path) -> Path:
    (folder / "checkpoint.pt").write_bytes(content)
    return folder


def _loaded(folder: Path) -> str:
    """Does load_model refuse what lies there? "right" when it gives the weights and alphabet of an undamaged run."""
    try:
        model, tokenizer = checkpoint.load_model(folder)
    except CheckpointError as error:
        return REFUSED if "\n" not in str(error) else bad(f"more than a sentence: {error}")
    except Exception as error:
        return bad(f"{type(error).__name__}: {error}")
    for run in (run for kind in KINDS for run in (kind.half, kind.whole)):
        good, alphabet = checkpoint.load_model(run)
        if plain(good.state_dict()) == plain(model.state_dict()) and alphabet.vocab_size == tokenizer.vocab_size:
            return RIGHT
    return bad("it loads, and gives another model")


# ---------------------------------------------------------------- accidents
@group("flipped bytes", count=1000, quick=40, seconds=10)
def flipped_bytes(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    content = bytearray(_pristine(KINDS[k % 3 == 0]))
    place = random.randrange(len(content)) if k % 4 else -1 - random.randrange(300)  # the checksum stands at the end
    content[place] ^= random.randrange(1, 256)
    return f"byte {place}", lambda: _loaded(_folder_with(bytes(content), folder))


@group("truncations", count=200, quick=20, seconds=10)
def truncations(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    content = _pristine(KINDS[k % 3 == 0])
    left = random.randrange(len(content)) if k % 4 else max(0, len(content) - random.randrange(1, 200)) * (k % 20 > 0)
    tail = random.choice((b"", b"", b"\0" * (len(content) - left), os.urandom(100)))
    name = f"{left} of {len(content)} bytes, then {len(tail)} others"
    return name, lambda: _loaded(_folder_with(content[:left] + tail, folder))


def signed_state(parts: object) -> bytes:
    """`parts` as the project itself would write them: the checksum is right, only the content is not."""
    packed = io.BytesIO()
    torch.save(parts, packed)
    return checkpoint.sign(packed.getvalue())


def state(kind: Kind = PLAIN) -> dict:
    return torch.load(kind.half / "checkpoint.pt", weights_only=True)


def refused_by_both(content: bytes, folder: Path, kind: Kind = PLAIN) -> str:
    """`--resume` must refuse it, or end as if nothing were wrong; load_model may pass over what it doesn't need."""
    out = folder / "run"
    out.mkdir()
    _folder_with(content, out)
    loaded = _loaded(out)
    if loaded not in (REFUSED, RIGHT):
        return loaded
    outcome = small.run(kind.train_into(out, "--resume"), folder)
    if outcome.status == 0 and loaded == RIGHT:  # it stands in a place that the command line overrules
        return kind.differs_from_whole(out) or RIGHT
    if (verdict := refused(outcome)) != REFUSED:
        return verdict
    return REFUSED if (out / "checkpoint.pt").read_bytes() == content else bad("refused, but the file has changed")


# ---------------------------------------------------------------- commands in disguise
class Payload:
    """What plain unpickling obeys: a command to run."""

    def __init__(self, function: Callable, *arguments: object):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def _write_mark(path: str) -> list[Payload]:
    """Four ways to touch the file `path` while being unpickled."""
    return [
        Payload(os.system, f"touch {path}"),
        Payload(eval, f"open({path!r}, 'w')"),
        Payload(exec, f"import pathlib; pathlib.Path({path!r}).touch()"),
        Payload(open, path, "w"),
    ]


PLACES = ("whole file", "a part", "a setting", "a plain pickle, signed", "a plain pickle", "torch's old format")


@group("malicious pickles", count=24, quick=4, seconds=15)
def malicious_pickles(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    mark = folder / "payload-ran"
    payload = _write_mark(str(mark))[k % 4]
    place = PLACES[k // 4 % len(PLACES)]
    packed = io.BytesIO()
    if place == "a part":
        torch.save({**state(), "best": payload}, packed)
    elif place == "a setting":
        parts = state()
        parts["identity"]["model"]["dropout"] = payload
        torch.save(parts, packed)
    elif place == "torch's old format":
        torch.save(payload, packed, _use_new_zipfile_serialization=False)
    elif "plain" in place:
        packed.write(pickle.dumps(payload))
    else:
        torch.save(payload, packed)
    written = packed.getvalue()
    content = written if place in ("a plain pickle", "torch's old format") else checkpoint.sign(written)

    def attempt() -> str:
        if "plain" in place:
            pickle.loads(written)
        else:
            torch.load(io.BytesIO(written), weights_only=False)
        if not mark.exists():
            return bad("plain unpickling didn't run the payload, so this shows nothing")
        mark.unlink()
        verdict = refused_by_both(content, folder)
        return bad("the payload has run") if mark.exists() else verdict

    return f"{payload.function.__name__} as {place}", attempt
