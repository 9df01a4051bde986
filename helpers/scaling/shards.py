"""A corpus larger than memory: its tokens lie in files, the shards, and the system reads what of them is used.

helpers/commands/prepare.py writes such a folder: 00000.bin, 00001.bin, ..., and manifest.json, which says what they
hold. Ids take one byte for up to 256 tokens, else two (below 2**15, so signed and unsigned are the same).
"""

import ctypes
import hashlib
import json
import mmap
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor

from helpers.core.data import first_to_validate
from helpers.scaling.vocabulary import Tokenizer, quick_encoder, tokenizer_of
from helpers.support import files
from helpers.support.console import shown
from helpers.support.errors import CorpusError, HelpersError

FORMAT = 1
MANIFEST = "manifest.json"
PROGRESS = "progress.json"  # what the manifest will be, as far as it goes
SHARD_BYTES = 1 << 25  # of each shard but the last: whole pages of memory, whatever their size
MAP_FIXED = 0x10  # put it at this address; Python has no name for it


@dataclass(frozen=True)
class Shard:
    """A file of tokens. The next one begins in piece `after[0]` of the text, at its token `after[1]`."""

    file: str
    tokens: int
    sha256: str
    after: list[int]


@dataclass(frozen=True)
class Manifest:
    """What a folder holds."""

    tokenizer: str  # as JSON
    asked: str  # what the command was told about it
    sources: list[dict[str, Any]]  # of each file: its name, and how many bytes its text has, and their SHA-256
    shards: tuple[Shard, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(shard.tokens for shard in self.shards)

    @property
    def checksums(self) -> list[str]:
        return [source["sha256"] for source in self.sources]

    @property
    def sha256(self) -> str:
        """The checksum of the text; of several files, one over theirs."""
        several = len(self.sources) > 1
        return hashlib.sha256("".join(self.checksums).encode()).hexdigest() if several else self.checksums[0]


@dataclass(frozen=True)
class Prepared:
    """A prepared corpus to train on: what `Corpus` is for a text in memory."""

    name: str
    path: Path
    sha256: str
    tokenizer: Tokenizer
    tokens: Integer[Tensor, "N"]

    def __str__(self) -> str:
        size = f"{len(self.tokens):,} tokens, {self.tokenizer.vocab_size:,} different ones"
        return f"{self.name}: {size}, from the folder {shown(self.path.name)}"


# ---------------------------------------------------------------- to read
def load(folder: Path, name: str) -> Prepared:
    """The corpus in `folder`; its tokens stay on the disk until they are used.

    Every shard is read once, for its checksum, which takes little beside a training on it.
    CorpusError when the folder is none of ours or not finished, and when a shard is missing, cut off or damaged.
    """
    if (folder / PROGRESS).exists() and not (folder / MANIFEST).exists():
        raise CorpusError(f"{shown(folder)} is prepared in part: the command that began it goes on")
    manifest = read(folder / MANIFEST)
    try:
        tokenizer = tokenizer_of(manifest.tokenizer)
        for shard in manifest.shards:
            check(folder, shard, tokenizer)
        tokens = _side_by_side([folder / shard.file for shard in manifest.shards], type_of(tokenizer))
    except (OSError, ValueError) as error:
        raise CorpusError(
            f"the corpus in {shown(folder)} can't be used: {error}; the command that prepared it mends it"
        ) from None
    return Prepared(name, folder, manifest.sha256, tokenizer, tokens)


def read(path: Path) -> Manifest:
    """The manifest at `path`; CorpusError when it is missing, damaged, or of another version."""
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise CorpusError(f"it is of format {content['format']!r}, and this version reads {FORMAT}")
        if content.pop("seal") != _seal(content):
            raise CorpusError("its checksum is wrong")
        shards = tuple(Shard(**shard) for shard in content["shards"])
        return Manifest(content["tokenizer"], content["asked"], content["sources"], shards)
    except Exception as error:  # what another program wrote may raise nearly anything
        why = "it is no manifest of a corpus"
        if isinstance(error, HelpersError | OSError):
            why = getattr(error, "strerror", None) or str(error)
        raise CorpusError(f"can't use {shown(path)}: {why}; python -m helpers.data prepares a corpus") from None


def check(folder: Path, shard: Shard, tokenizer: Tokenizer) -> None:
    """CorpusError unless the file holds what the manifest says."""
    path = folder / shard.file
    size = shard.tokens * type_of(tokenizer)().itemsize
    if not path.is_file():
        raise CorpusError(f"{shard.file} is missing")
    try:
        with path.open("rb") as file:
            found = path.stat().st_size
            if found != size:
                raise CorpusError(f"{shard.file} has {found:,} bytes, not {size:,}")
            if hashlib.file_digest(file, "sha256").hexdigest() != shard.sha256:
                raise CorpusError(f"{shard.file} is damaged, or of another corpus: its checksum is wrong")
    except OSError as error:
        raise CorpusError(f"can't read {shard.file}: {error.strerror or error}") from None


def type_of(tokenizer: Tokenizer) -> type[np.uint8] | type[np.int16]:
    """The numbers in which ids are stored."""
    return np.uint8 if tokenizer.vocab_size <= 256 else np.int16


def _side_by_side(paths: list[Path], kind: type) -> Integer[Tensor, "N"]:
    """All files as one tensor: the system maps each of them into memory behind the one before, and reads none of them.

    Who writes into the tensor changes no file. Windows can't put a file at an address: there, they are read.
    """
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return torch.from_numpy(np.concatenate([np.fromfile(path, kind) for path in paths]))
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    sizes = [path.stat().st_size for path in paths]
    reserved = mmap.mmap(-1, sum(sizes), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)
    tokens = np.frombuffer(reserved, kind)
    place = tokens.ctypes.data
    for path, size in zip(paths, sizes, strict=True):
        with path.open("rb") as file:
            found = system.mmap(
                ctypes.c_void_p(place),
                ctypes.c_size_t(size),
                mmap.PROT_READ | mmap.PROT_WRITE,
                mmap.MAP_PRIVATE | MAP_FIXED,
                file.fileno(),
                ctypes.c_longlong(0),
            )
        if found != place:
            raise CorpusError(f"the system can't map {path.name} into memory (error {ctypes.get_errno()})")
        place += size
    with warnings.catch_warnings(action="ignore"):  # PyTorch's, that nobody should write there
        return torch.from_numpy(tokens)


# ---------------------------------------------------------------- to write
def write(path: Path, manifest: Manifest) -> None:
    """Write it under a checksum; StorageError as in `files.write`."""
    total = manifest.tokens
    content = {"format": FORMAT, **asdict(manifest), "tokens": total, "validation_begins": first_to_validate(total)}
    files.write(path, json.dumps(content | {"seal": _seal(content)}, indent=1))


def _seal(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def cut(pieces: Iterable[str], tokenizer: Tokenizer, start: list[int]) -> Iterator[tuple[memoryview, list[int]]]:
    """The tokens of a text in pieces, from `start` on: the content of each shard, and where the next one begins.

    A content lasts until the one after the next is asked for: there is room for two.
    """
    kind = type_of(tokenizer)
    room, next_room = (np.empty(SHARD_BYTES // kind().itemsize, kind) for _ in range(2))
    encode = quick_encoder(tokenizer)
    filled = 0
    number, token = start
    for number, piece in enumerate(pieces):
        if number < start[0]:
            continue
        ids = encode(piece)
        token = start[1] if number == start[0] else 0
        while token < len(ids):
            part = ids[token : token + len(room) - filled]
            room[filled : filled + len(part)] = part
            filled += len(part)
            token += len(part)
            if filled == len(room):
                yield room.data, [number, token]
                room, next_room = next_room, room
                filled = 0
    if filled:
        yield room[:filled].data, [number, token]


def name_of(number: int) -> str:
    return f"{number:05}.bin"


def save(folder: Path, number: int, content: memoryview, after: list[int]) -> Shard:
    """Write a shard whole or not at all; StorageError as in `files.write`."""
    files.write(folder / name_of(number), content)
    return Shard(name_of(number), len(content), hashlib.sha256(content).hexdigest(), after)
