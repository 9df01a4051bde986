"""A text as numbers: characters or bytes as ids, random batches of them, and where texts come from.

A Corpus is read into memory; a PreparedCorpus, which may be larger than that, stays on the disk.

python -m helpers.data FILE... --out DIR    prepares one
"""

import codecs
import functools
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import urllib.request
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import torch
from jaxtyping import Int64, Integer
from torch import Tensor

from helpers.errors import CorpusError, Options, RunError, command, say, shown, write

UNICODE = 0x110000  # how many characters there can be
MOST_TO_VALIDATE = 1_000_000  # tokens, since each validation reads all of them
CHUNK = 1 << 20  # characters, or bytes, at once: a large text needs little memory beside it


# ---------------------------------------------------------------- tokens
class CharTokenizer:
    """Characters <-> ids: an id is the place of a character in `characters`, the sorted alphabet."""

    def __init__(self, characters: str):
        if not characters or len(set(characters)) != len(characters):
            raise CorpusError("a vocabulary needs at least one character, and each of them once")
        self.characters = characters

    @classmethod
    def from_text(cls, text: str) -> "CharTokenizer":
        return cls(alphabet_of(text))

    @property
    def vocab_size(self) -> int:
        return len(self.characters)

    @property
    def start_of_text(self) -> str:
        """What a sample continues by default: a newline, as before every speech."""
        return "\n" if "\n" in self.characters else self.characters[0]

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of the characters of `text`; CorpusError names those outside the vocabulary."""
        return self.encode_compactly(text).long()

    def encode_compactly(self, text: str) -> Integer[Tensor, "T"]:
        """The same ids in the smallest integer type that holds them all, for a whole corpus.

        `split`, `get_batch` and `evaluate` take such ids; a model wants those of `encode`.
        """
        chunks = [np.empty(0, dtype=self._smallest_type)]  # for an empty text
        for codes in code_points(text):
            ids = self._id_of[codes]
            if (ids < 0).any():
                unknown = "".join(sorted(set(text) - set(self.characters)))
                raise CorpusError(
                    f"not in the vocabulary: {_some(unknown)}; allowed are {_some(self.characters)}"
                )
            chunks.append(ids.astype(self._smallest_type))
        return torch.from_numpy(np.concatenate(chunks))

    def decode(self, ids: Integer[Tensor, "T"] | Sequence[int]) -> str:
        """The characters behind `ids`; CorpusError for an id outside 0 .. vocab_size - 1."""
        ids = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        if ids and not 0 <= min(ids) <= max(ids) < self.vocab_size:
            raise CorpusError(
                f"ids must lie in 0 .. {self.vocab_size - 1}, not {min(ids)} .. {max(ids)}"
            )
        return "".join(self.characters[i] for i in ids)

    def to_json(self) -> str:
        return json.dumps({"characters": self.characters}, ensure_ascii=False)

    @functools.cached_property
    def _id_of(self) -> np.ndarray:
        """The id of each character of Unicode, -1 for those that are not in the vocabulary."""
        ids = np.full(UNICODE, -1, dtype=np.int32)
        ids[[ord(character) for character in self.characters]] = np.arange(self.vocab_size)
        return ids

    @property
    def _smallest_type(self) -> type:
        if self.vocab_size <= 2**8:
            return np.uint8
        return np.int16 if self.vocab_size <= 2**15 else np.int32  # PyTorch lacks most of uint16


def _some(characters: str) -> str:
    """Characters as a message names them: the first 100 of them."""
    more = len(characters) - 100
    return f"{characters[:100]!r}" + (f" and {more:,} more" if more > 0 else "")


def alphabet_of(text: str) -> str:
    """The characters of `text`, each once, sorted."""
    seen = np.zeros(UNICODE, dtype=bool)
    for codes in code_points(text):
        seen[codes] = True
    return "".join(map(chr, np.flatnonzero(seen)))


def code_points(text: str) -> Iterator[np.ndarray]:
    """The Unicode numbers of the characters, a chunk at a time."""
    for start in range(0, len(text), CHUNK):
        chunk = text[start : start + CHUNK].encode("utf-32-le", "surrogatepass")
        yield np.frombuffer(chunk, dtype=np.uint32)


class ByteTokenizer:
    """The ids are the bytes of UTF-8: 256 of them write every text."""

    vocab_size = 256
    start_of_text = "\n"

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        return self.encode_compactly(text).long()

    def encode_compactly(self, text: str) -> Integer[Tensor, "T"]:
        """The same ids, a byte each; CorpusError when the text isn't Unicode."""
        try:
            return torch.from_numpy(np.frombuffer(bytearray(text, "utf-8"), dtype=np.uint8))
        except UnicodeEncodeError:
            raise CorpusError(f"this is no text in Unicode: {text!r:.60}") from None

    def decode(self, ids: Integer[Tensor, "T"] | Sequence[int]) -> str:
        """The text behind `ids`, with a replacement character for bytes that are no letter."""
        return bytes(map(int, ids)).decode(errors="replace")

    def to_json(self) -> str:
        return json.dumps({"bytes": self.vocab_size})


Tokenizer = CharTokenizer | ByteTokenizer


def tokenizer_of(text: str) -> Tokenizer:
    """The tokenizer that wrote `text` by its `to_json`."""
    content = json.loads(text)
    return CharTokenizer(content["characters"]) if "characters" in content else ByteTokenizer()


# ---------------------------------------------------------------- batches
def first_to_validate(count: int) -> int:
    """Where validation begins in a text of `count` tokens."""
    return max(int(0.9 * count), count - MOST_TO_VALIDATE)


def split(
    tokens: Integer[Tensor, "N"], context_length: int
) -> tuple[Integer[Tensor, "N_train"], Integer[Tensor, "N_val"]]:
    """The first 90% to train on, the last 10% (but at most MOST_TO_VALIDATE tokens) to validate.

    CorpusError when either is too short for one window.
    """
    cut = first_to_validate(len(tokens))
    train, val = tokens[:cut], tokens[cut:]
    if min(len(train), len(val)) <= context_length:
        raise CorpusError(
            f"the corpus is too short: its {len(tokens)} tokens leave {len(train)} for "
            f"training and {len(val)} for validation, and a context of {context_length} needs "
            f"at least {context_length + 1} of each"
        )
    return train, val


def get_batch(
    tokens: Integer[Tensor, "N"],
    batch_size: int,
    context_length: int,
    generator: torch.Generator | None = None,
) -> tuple[Int64[Tensor, "B T"], Int64[Tensor, "B T"]]:
    """`batch_size` random windows of `tokens`, and the same one token later: the answers."""
    starts = torch.randint(len(tokens) - context_length, (batch_size, 1), generator=generator)
    places = starts + torch.arange(context_length + 1)  # (B, T + 1)
    windows = tokens[places.to(tokens.device)].long()
    return windows[:, :-1], windows[:, 1:]


# ---------------------------------------------------------------- a text in memory
URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SIZE = 1_115_394  # bytes
BUNDLED_PLAY = Path(__file__).parent / "bundled_play.txt"
BESIDE_THE_CLONE = Path(__file__).parents[2] / "shared" / "data" / "tinyshakespeare.txt"
TINY, BUNDLED, OWN = "tiny Shakespeare", "the bundled play", "your own text"
LARGEST = 1_000_000_000  # bytes of a file; in memory a text takes five times as many
# What such files begin with; the archives are those of zip, 7-Zip and RAR.
GZIP, ARCHIVES = b"\x1f\x8b", (b"PK\x03\x04", b"7z\xbc\xaf", b"Rar!\x1a\x07")


@dataclass(frozen=True)
class Corpus:
    """A text to train on; `name`: "tiny Shakespeare", "the bundled play" or "your own text"."""

    text: str
    name: str
    path: Path
    sha256: str  # of the file's bytes

    @functools.cached_property
    def alphabet(self) -> str:
        """The characters of the text, each once, sorted."""
        return alphabet_of(self.text)

    @functools.cached_property
    def tokenizer(self) -> CharTokenizer:
        return CharTokenizer(self.alphabet)

    @functools.cached_property
    def tokens(self) -> Integer[Tensor, "N"]:
        """The text as ids, in small integers."""
        return self.tokenizer.encode_compactly(self.text)

    def __str__(self) -> str:
        size = f"{len(self.text):,} characters, {len(self.alphabet)} different ones"
        facts = f"{self.name}: {size}, from the file {shown(self.path.name)}"
        if self.name != BUNDLED:
            return facts
        return (
            "!!! NOT SHAKESPEARE: no tiny Shakespeare was found on this machine, and none could be "
            "downloaded.\n"
            "!!! The short play that comes with this project stands in; every number below belongs "
            "to it.\n" + facts
        )


def load_corpus(path: Any = None) -> Corpus:
    """The text at `path`, else tiny Shakespeare if a place has it, else the bundled play.

    Places, in this order: the file named by the environment variable TINY_SHAKESPEARE,
    `../shared/data/tinyshakespeare.txt` beside the clone, the user's cache, a download. All but
    `path` must have tiny Shakespeare's SHA-256. CorpusError for a file that can't be read, is too
    large, no UTF-8, or has fewer than two different characters.
    """
    if path is not None:
        path = str(path) if type(path) in (int, float) else path  # papermill makes one of 1984
        if not isinstance(path, (str, os.PathLike)) or "://" in str(path):
            raise CorpusError(f"the corpus must be the path of a text file, not {path!r:.200}")
        return _corpus(_read(Path(path)), OWN, Path(path))
    if named := os.environ.get("TINY_SHAKESPEARE"):
        return _corpus(_read(Path(named)), TINY, Path(named))
    places = [BESIDE_THE_CLONE]
    with suppress(RuntimeError):  # an unknown user without HOME has no cache
        cache = platformdirs.user_cache_path("dot-products-to-nanogpt")
        places.append(cache / "tinyshakespeare.txt")
    for place in places:
        if os.path.exists(place):  # whoever may not look there goes on
            return _corpus(_read(place), TINY, place)
    content = _download()
    if content is None:
        return _corpus(_read(BUNDLED_PLAY), BUNDLED, BUNDLED_PLAY)
    corpus = _corpus(content, TINY, places[-1])
    with suppress(OSError, RunError):  # a cache that can't be written is no reason to do without
        if len(places) > 1:
            places[-1].parent.mkdir(parents=True, exist_ok=True)
            write(places[-1], content)
    return corpus


def _read(path: Path) -> bytes:
    try:
        path = Path(os.path.expanduser(path))
        if path.exists() and not path.is_file():  # a pipe may never end
            raise CorpusError(f"{shown(path)} is not a regular file: give the path of a text file")
        if path.stat().st_size > LARGEST:
            raise CorpusError(
                f"{shown(path)} has more than {LARGEST // 10**6:,} MB: "
                "prepare it by python -m helpers.data"
            )
        return path.read_bytes()
    except CorpusError:
        raise
    except (OSError, ValueError) as error:  # no such file, or no possible name
        why = getattr(error, "strerror", None) or error
        raise CorpusError(
            f"can't read the corpus {shown(path)}: {why}; give the path of a text file"
        ) from None


def _corpus(content: bytes, name: str, path: Path) -> Corpus:
    checksum = hashlib.sha256(content).hexdigest()
    if name == TINY and checksum != SHA256:
        raise CorpusError(
            f"{shown(path)} is not tiny Shakespeare: SHA-256 {checksum} instead of {SHA256}"
        )
    _refuse_archive(io.BytesIO(content), path)
    if content.startswith(GZIP):
        raise CorpusError(
            f"{shown(path)} is compressed: unpack it first, or prepare it by python -m helpers.data"
        )
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{shown(path)} is not UTF-8 text (byte {error.start}): save it as UTF-8"
        ) from None
    corpus = Corpus(text, TINY if checksum == SHA256 else name, path, checksum)
    refuse_uniform(corpus.alphabet, shown(path))
    return corpus


def is_archive(file: Any) -> bool:
    """Whether a file, read from its start, holds other files: a .zip, .docx, .tar.gz, ..."""
    try:
        start = file.read(6)
        file.seek(0)
        return start.startswith(ARCHIVES) or tarfile.is_tarfile(file)
    except Exception:  # of tarfile and what unpacks for it: a file may hold anything
        return False
    finally:
        file.seek(0)


def _refuse_archive(file: Any, path: Path) -> None:
    if is_archive(file):
        raise CorpusError(
            f"{shown(path)} is an archive (as a .docx is one): save its text as UTF-8 text, a .txt"
        )


def refuse_uniform(alphabet: str, where: str) -> None:
    """CorpusError for a text of fewer than two different characters."""
    if len(alphabet) < 2:
        what = f"only the symbol {alphabet!r}" if alphabet else "nothing"
        raise CorpusError(f"{where} holds {what}: a corpus needs at least two different characters")


def _download() -> bytes | None:
    """The bytes of tiny Shakespeare; None when there is no network."""
    try:
        with urllib.request.urlopen(URL, timeout=8) as response:
            return response.read(SIZE + 1)
    except OSError:
        return None


# ---------------------------------------------------------------- a text larger than memory
TOKENS, MANIFEST = "tokens.bin", "manifest.json"
MOST_CHARACTERS = 2**15  # different ones: PyTorch computes with signed numbers of 16 bits


@dataclass(frozen=True)
class PreparedCorpus:
    """A text whose tokens stay on the disk until they are used; otherwise like a Corpus."""

    name: str
    path: Path
    sha256: str
    tokenizer: Tokenizer
    tokens: Integer[Tensor, "N"]

    def __str__(self) -> str:
        size = f"{len(self.tokens):,} tokens, {self.tokenizer.vocab_size:,} different ones"
        return f"{self.name}: {size}, from the folder {shown(self.path.name)}"


def open_corpus(path: Any = None) -> Corpus | PreparedCorpus:
    """What to train on: a prepared corpus where `path` is a folder, else as `load_corpus`."""
    if isinstance(path, (str, os.PathLike)) and os.path.isdir(os.path.expanduser(path)):
        return open_prepared(Path(os.path.expanduser(path)))
    return load_corpus(path)


def open_prepared(folder: Path) -> PreparedCorpus:
    """The corpus that `prepare` wrote into the folder.

    The tokens are read once, for their checksum; CorpusError when a byte has changed.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        checksum = manifest.pop("sha256")
        digest = hashlib.sha256(json.dumps(manifest).encode())
        with (folder / TOKENS).open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
        tokenizer = tokenizer_of(manifest["tokenizer"])
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise CorpusError(
            f"{shown(folder)} is no corpus that python -m helpers.data has prepared"
        ) from None
    if digest.hexdigest() != checksum:
        raise CorpusError(f"the corpus in {shown(folder)} is damaged: prepare it again")
    # Mode "c": who writes into the tensor changes no file.
    tokens = torch.from_numpy(np.memmap(folder / TOKENS, _type_on_disk(tokenizer), mode="c"))
    # What is known of tiny Shakespeare's losses is known for characters.
    is_tiny = manifest["text"] == SHA256 and isinstance(tokenizer, CharTokenizer)
    return PreparedCorpus(TINY if is_tiny else OWN, folder, manifest["text"], tokenizer, tokens)


def prepare(
    paths: Sequence[Path], folder: Path, kind: str = "characters", overwrite: bool = False
) -> PreparedCorpus:
    """Read texts one after the other, plain or packed by gzip, and write their tokens to `folder`.

    They are read twice: for their characters, and to encode them. A manifest makes the folder
    valid, and it comes last. CorpusError when a text or the folder can't be used, RunError when the
    disk is full.
    """
    present = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    stopped = present == [TOKENS]  # tokens without a manifest: whoever prepared them was stopped
    is_file = folder.exists() and not folder.is_dir()
    if (present or is_file) and not (overwrite or stopped):
        raise CorpusError(
            f"{shown(folder)} is there already: name another folder, or add --overwrite"
        )
    letters: set[str] = set()
    checksums = []
    for path in paths:
        digest = hashlib.sha256()
        for piece in _pieces(path, digest):
            letters.update(alphabet_of(piece))
        checksums.append(digest.hexdigest())
    alphabet = "".join(sorted(letters))
    refuse_uniform(alphabet, "the text")
    if kind == "characters" and len(alphabet) > MOST_CHARACTERS:
        raise CorpusError(f"the text has {len(alphabet):,} different characters: choose bytes")
    tokenizer = CharTokenizer(alphabet) if kind == "characters" else ByteTokenizer()
    of_all = hashlib.sha256("".join(checksums).encode()).hexdigest()
    manifest = {
        "tokenizer": tokenizer.to_json(),
        "text": checksums[0] if len(checksums) == 1 else of_all,
        "sources": dict(zip([path.name for path in paths], checksums, strict=True)),
    }
    digest = hashlib.sha256(json.dumps(manifest).encode())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        with (folder / TOKENS).open("wb") as file:
            for path in paths:
                for piece in _pieces(path):
                    ids = tokenizer.encode_compactly(piece).numpy()
                    content = ids.astype(_type_on_disk(tokenizer)).tobytes()
                    file.write(content)
                    digest.update(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RunError(
            f"can't write {shown(folder)}: {error.strerror or error}; nothing is prepared"
        ) from None
    write(folder / MANIFEST, json.dumps(manifest | {"sha256": digest.hexdigest()}))
    return open_prepared(folder)


def _type_on_disk(tokenizer: Tokenizer) -> type:
    return np.uint8 if tokenizer.vocab_size <= 256 else np.int16


def _pieces(path: Path, digest: Any = None) -> Iterator[str]:
    """The text of a file as `load_corpus` has it, piece by piece.

    `digest`, if there is one, takes in the file's bytes, unpacked.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    carried = ""  # a "\r" at the end of a piece waits for the next one: it may begin with "\n"
    try:
        with open(os.path.expanduser(path), "rb") as file:
            if not file.seekable():  # it is read twice, which a pipe can't be
                raise CorpusError(f"{shown(path)} is no regular file: give the path of a text file")
            _refuse_archive(file, path)
            stream = gzip.GzipFile(fileobj=file) if file.peek(2).startswith(GZIP) else file
            at_end = False
            while not at_end:
                content = stream.read(CHUNK)
                at_end = not content
                if digest is not None:
                    digest.update(content)
                text = carried + decoder.decode(content, final=at_end)
                carried = "\r" if text.endswith("\r") and not at_end else ""
                yield text.removesuffix(carried).replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise CorpusError(f"{shown(path)} is not UTF-8 text: save it as UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise CorpusError(f"can't read the text {shown(path)}: {why}") from None


# ---------------------------------------------------------------- the command
def main(arguments: list[str]) -> None:
    options = Options("python -m helpers.data", description="Prepare texts for a training.")
    add = options.add_argument
    add("files", nargs="+", type=Path, metavar="FILE", help="UTF-8 text, plain or packed by gzip")
    add("--out", required=True, type=Path, help="folder, for helpers.training --corpus")
    add("--tokenizer", default="characters", choices=("characters", "bytes"), help="(characters)")
    add("--overwrite", action="store_true", help="replace the corpus in --out")
    chosen = options.parse_args(arguments)
    folder = Path(os.path.expanduser(chosen.out))
    say(prepare(chosen.files, folder, chosen.tokenizer, chosen.overwrite))


if __name__ == "__main__":
    sys.exit(command(main))
