"""A text as numbers: characters as ids, random batches of them, and where texts come from.

A Corpus is read into memory; a PreparedCorpus, which may be larger than that, stays on the disk
(a GPU that trains on it holds all its tokens).

python -m helpers.data FILE --out DIR    prepares one
"""

import codecs
import functools
import gzip
import hashlib
import io
import json
import os
import sys
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

from helpers import ROOT
from helpers.commands import Options, command, say
from helpers.errors import CorpusError, RunError
from helpers.files import write

MOST_TO_VALIDATE = 1_000_000  # tokens, since each validation reads all of them
CHUNK = 1 << 20  # bytes at once: a large text needs little memory beside it


# ---------------------------------------------------------------- tokens
class CharTokenizer:
    """Characters <-> ids: an id is the place of a character in `characters`, the sorted alphabet."""

    def __init__(self, characters: str):
        if not characters or len(set(characters)) != len(characters):
            raise CorpusError("a vocabulary needs at least one character, and each of them once")
        self.characters = characters

    @classmethod
    def from_text(cls, text: str) -> "CharTokenizer":
        return cls("".join(sorted(set(text))))

    @property
    def vocab_size(self) -> int:
        return len(self.characters)

    @property
    def start_of_text(self) -> str:
        """What a sample continues by default: a newline, as before every speech."""
        return "\n" if "\n" in self.characters else self.characters[0]

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of the characters of `text`; CorpusError names those outside the vocabulary."""
        ids = self._id_of[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)]
        if (ids < 0).any():
            unknown = "".join(sorted(set(text) - set(self.characters)))
            raise CorpusError(f"not in the vocabulary: {unknown!r:.100}; allowed are {self.characters!r:.100}")
        return torch.from_numpy(ids)

    def decode(self, ids: Integer[Tensor, "T"] | Sequence[int]) -> str:
        """The characters behind `ids`."""
        return "".join(self.characters[i] for i in torch.as_tensor(ids).tolist())

    @classmethod
    def from_json(cls, text: str) -> "CharTokenizer":
        return cls(json.loads(text)["characters"])

    def to_json(self) -> str:
        return json.dumps({"characters": self.characters}, ensure_ascii=False)

    @functools.cached_property
    def _id_of(self) -> np.ndarray:
        """The id of each character of Unicode, -1 for those that are not in the vocabulary."""
        ids = np.full(sys.maxunicode + 1, -1)
        ids[[ord(character) for character in self.characters]] = np.arange(self.vocab_size)
        return ids


def smallest_type(tokenizer: CharTokenizer) -> torch.dtype:
    """The smallest integers that hold all ids, for a whole corpus; a model wants int64."""
    if tokenizer.vocab_size <= 2**8:
        return torch.uint8
    return torch.int16 if tokenizer.vocab_size <= 2**15 else torch.int32


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
BESIDE_THE_CLONE = ROOT.parent / "shared" / "data" / "tinyshakespeare.txt"
TINY, BUNDLED, OWN = "tiny Shakespeare", "the bundled play", "your own text"


@dataclass(frozen=True)
class Corpus:
    """A text to train on; `name`: "tiny Shakespeare", "the bundled play" or "your own text"."""

    text: str
    name: str
    path: Path
    sha256: str  # of the file's bytes, unpacked

    @property
    def alphabet(self) -> str:
        """The characters of the text, each once, sorted."""
        return self.tokenizer.characters

    @functools.cached_property
    def tokenizer(self) -> CharTokenizer:
        return CharTokenizer.from_text(self.text)

    @functools.cached_property
    def tokens(self) -> Integer[Tensor, "N"]:
        """The text as ids, in small integers."""
        return self.tokenizer.encode(self.text).to(smallest_type(self.tokenizer))

    def __str__(self) -> str:
        size = f"{len(self.text):,} characters, {len(self.alphabet)} different ones"
        facts = f"{self.name}: {size}, from the file {self.path.name}"
        if self.name != BUNDLED:
            return facts
        return (
            "!!! NOT SHAKESPEARE: no tiny Shakespeare was found on this machine, and none could be downloaded.\n"
            "The short play that comes with this project stands in. Every number below belongs to it; "
            "the sentences between them speak of Shakespeare's text.\n"
            f"To get that, run this again with a network, or save {URL}\n"
            "and set the environment variable TINY_SHAKESPEARE to its path.\n" + facts
        )


def load_corpus(path: Any = None) -> Corpus:
    """The text at `path`, else tiny Shakespeare if a place has it, else the bundled play.

    Places, in this order: the file named by the environment variable TINY_SHAKESPEARE,
    `../shared/data/tinyshakespeare.txt` beside the clone, the user's cache, a download. All but
    `path` must have tiny Shakespeare's SHA-256. CorpusError for a file that can't be read, is no
    UTF-8, plain or packed by gzip, or has fewer than two different characters.
    """
    if path is not None:
        return _read(Path(str(path)), OWN)  # papermill reads a file named 1984 as a number
    if override := os.environ.get("TINY_SHAKESPEARE"):
        return _read(Path(override), TINY)
    cache = platformdirs.user_cache_path("dot-products-to-nanogpt") / "tinyshakespeare.txt"
    for place in (BESIDE_THE_CLONE, cache):
        if os.path.exists(place):  # a place where we may not look is passed over
            return _read(place, TINY)
    content = _download()
    if content is None:
        return _read(BUNDLED_PLAY, BUNDLED)
    corpus = _corpus(io.BytesIO(content), TINY, cache)
    with suppress(RunError):  # a cache that can't be written is no reason to do without
        write(cache, content)
    return corpus


def _read(path: Path, name: str) -> Corpus:
    with _opened(path) as file:
        return _corpus(file, name, path)


def _corpus(file: io.BufferedIOBase, name: str, path: Path) -> Corpus:
    digest = hashlib.sha256()
    text = "".join(_pieces(file, path, digest))
    _refuse_uniform(set(text), path)
    checksum = digest.hexdigest()
    if name == TINY and checksum != SHA256:
        raise CorpusError(f"{path} is not tiny Shakespeare: SHA-256 {checksum} instead of {SHA256}")
    return Corpus(text, TINY if checksum == SHA256 else name, path, checksum)


def _refuse_uniform(letters: set[str], path: Any) -> None:
    if len(letters) < 2:
        raise CorpusError(f"{path} has fewer than two different characters: nothing to learn")


def _opened(path: Path) -> io.BufferedIOBase:
    try:
        return open(os.path.expanduser(path), "rb")
    except OSError as error:
        raise CorpusError(f"can't read the corpus {path}: {error.strerror}; give the path of a text file") from None


def _pieces(file: io.BufferedIOBase, path: Path, digest: Any = None) -> Iterator[str]:
    """The text of a file, plain or packed by gzip, piece by piece, with \\n at the ends of lines.

    `digest`, if there is one, takes in the file's bytes, unpacked.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    lines = io.IncrementalNewlineDecoder(decoder, translate=True)
    try:
        packed = file.read(2) == b"\x1f\x8b"  # the first bytes of a gzip file
        file.seek(0)
        stream = gzip.GzipFile(fileobj=file) if packed else file
        while content := stream.read(CHUNK):
            if digest is not None:
                digest.update(content)
            piece = lines.decode(content)
            if "\0" in piece:
                raise CorpusError(f"{path} is no plain text; if it is an archive, unpack it")
            yield piece
        yield lines.decode(b"", final=True)
    except UnicodeDecodeError:
        raise CorpusError(f"{path} is not UTF-8 text: save it as UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        raise CorpusError(f"can't read the text {path}: {error}") from None


def _download() -> bytes | None:
    """The bytes of tiny Shakespeare; None when there is no network."""
    try:
        with urllib.request.urlopen(URL, timeout=8) as response:
            return response.read(SIZE + 1)
    except OSError:
        return None


# ---------------------------------------------------------------- a text larger than memory
TOKENS, ABOUT = "tokens.npy", "corpus.json"


@dataclass(frozen=True)
class PreparedCorpus:
    """A text whose tokens stay on the disk until they are used; otherwise like a Corpus."""

    name: str
    path: Path
    sha256: str
    tokenizer: CharTokenizer
    tokens: Integer[Tensor, "N"]

    def __str__(self) -> str:
        size = f"{len(self.tokens):,} characters, {self.tokenizer.vocab_size:,} different ones"
        return f"{self.name}: {size}, from the folder {self.path.name}"


def open_corpus(path: Any) -> Corpus | PreparedCorpus:
    """What to train on: a prepared corpus where `path` is a folder, else as `load_corpus`.

    CorpusError for a folder that `prepare` has not written, or not to its end.
    """
    folder = Path(os.path.expanduser(str(path)))
    if path is None or not folder.is_dir():
        return load_corpus(path)
    try:
        about = json.loads((folder / ABOUT).read_bytes())
        tokenizer = CharTokenizer.from_json(about["tokenizer"])
        tokens = np.load(folder / TOKENS, mmap_mode="c")  # PyTorch has no arrays that can't be written to
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        raise CorpusError(f"{folder} is no corpus that python -m helpers.data has prepared") from None
    name = TINY if about["sha256"] == SHA256 else OWN
    return PreparedCorpus(name, folder, about["sha256"], tokenizer, torch.from_numpy(tokens))


def prepare(text: Path, folder: Path) -> Corpus | PreparedCorpus:
    """Write the tokens of a text, plain or packed by gzip, to `folder`, with what is known of them.

    It is read twice: for its characters, and to encode them. corpus.json makes the folder valid,
    and it comes last. CorpusError when the text can't be used or the folder is there already,
    OSError when it can't be written.
    """
    if folder.is_file() or (folder / ABOUT).exists():
        raise CorpusError(f"{folder} is there already: name another folder")
    letters: set[str] = set()
    size, digest = 0, hashlib.sha256()
    with _opened(text) as file:
        for piece in _pieces(file, text, digest):
            letters.update(piece)
            size += len(piece)
    _refuse_uniform(letters, text)
    tokenizer = CharTokenizer("".join(sorted(letters)))
    kind = torch.empty(0, dtype=smallest_type(tokenizer)).numpy().dtype
    folder.mkdir(parents=True, exist_ok=True)
    tokens = np.lib.format.open_memmap(folder / TOKENS, "w+", kind, (size,))
    with _opened(text) as file:
        end = 0
        for piece in _pieces(file, text):
            start, end = end, end + len(piece)
            tokens[start:end] = tokenizer.encode(piece).numpy()
    tokens.flush()
    about = {"tokenizer": tokenizer.to_json(), "sha256": digest.hexdigest()}
    write(folder / ABOUT, json.dumps(about))
    return open_corpus(folder)


# ---------------------------------------------------------------- the command
def main(arguments: list[str]) -> None:
    parser = Options("python -m helpers.data", description="Prepare a text for a training.")
    parser.add_argument("text", type=Path, metavar="FILE", help="UTF-8 text, plain or packed by gzip")
    parser.add_argument("--out", required=True, type=Path, help="folder, for helpers.training --corpus")
    options = parser.parse_args(arguments)
    say(prepare(options.text, Path(os.path.expanduser(options.out))))


if __name__ == "__main__":
    sys.exit(command(main))
