"""The text to train on: where it is found, how it is read, and what is refused."""

import functools
import hashlib
import os
import stat
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import platformdirs
import psutil
from jaxtyping import Integer
from torch import Tensor
from tqdm import tqdm

from helpers.core.data import CharTokenizer, alphabet_of
from helpers.scaling import shards
from helpers.scaling.shards import Prepared
from helpers.support import files
from helpers.support.console import shown
from helpers.support.errors import CorpusError, StorageError

URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SIZE = 1_115_394  # bytes
BUNDLED_PLAY = Path(__file__).parent / "bundled_play.txt"
BESIDE_THE_CLONE = Path(__file__).parents[3] / "shared" / "data" / "tinyshakespeare.txt"
TINY = "tiny Shakespeare"
BUNDLED = "the bundled play"
OWN = "your own text"

# How files begin that gzip, zip, bzip2, xz and zstd have compressed.
COMPRESSED = (b"\x1f\x8b", b"PK\x03\x04", b"BZh9", b"\xfd7zX", b"\x28\xb5\x2f\xfd")
LARGEST = 1_000_000_000  # bytes of a corpus
BYTES_PER_BYTE = 5  # what training needs of memory for each byte of a text: the text, its ids, and their copies


@dataclass(frozen=True)
class Corpus:
    """A text to train on: `name` is one of "tiny Shakespeare", "the bundled play", "your own text"."""

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
            "!!! NOT SHAKESPEARE: no tiny Shakespeare was found on this machine, and none could be downloaded.\n"
            "!!! The short play that comes with this project stands in; every number below belongs to it.\n" + facts
        )


def load_corpus(path: object = None) -> Corpus:
    """The text at `path`, else tiny Shakespeare from the first place that has it, else the bundled play.

    Places: the file named by the environment variable TINY_SHAKESPEARE, `../shared/data/tinyshakespeare.txt` beside
    the clone, the user's cache, a download. All but `path` must have tiny Shakespeare's SHA-256. CorpusError when a
    file is missing, no regular file, too large, empty, not UTF-8, has a single symbol, or has the wrong checksum.
    """
    if path is not None:
        return _read(_as_path(path), OWN)
    named = os.environ.get("TINY_SHAKESPEARE")
    if named:
        return _read(Path(named), TINY)
    cached = _cached()
    for place in (BESIDE_THE_CLONE, cached):
        if place.exists():
            return _read(place, TINY)
    raw = _download()
    if raw is None:
        return _read(BUNDLED_PLAY, BUNDLED)
    with suppress(OSError, StorageError):  # a cache that can't be written is no reason to do without
        cached.parent.mkdir(parents=True, exist_ok=True)
        files.write(cached, raw)
    return _corpus(raw, TINY, cached)


def open_corpus(path: object = None) -> Corpus | Prepared:
    """What to train on: the folder at `path`, if `python -m helpers.data` wrote one there, else as `load_corpus`."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isdir(os.path.expanduser(path)):
        return load_corpus(path)
    prepared = shards.load(Path(path).expanduser(), OWN)
    known = prepared.sha256 == SHA256 and isinstance(prepared.tokenizer, CharTokenizer)  # a loss is one per character
    return replace(prepared, name=TINY) if known else prepared


def find_corpus(sha256: str) -> Corpus | None:
    """The text with this checksum, if `load_corpus` would find it on this machine: nothing is downloaded."""
    places = [BESIDE_THE_CLONE, _cached(), BUNDLED_PLAY]
    named = os.environ.get("TINY_SHAKESPEARE")
    if named:
        places.insert(0, Path(named))
    for place in places:
        with suppress(CorpusError):
            found = _read(place, OWN)
            if found.sha256 == sha256:
                return found
    return None


def _as_path(path: object) -> Path:
    if not isinstance(path, (str, os.PathLike)) or "://" in str(path):
        hint = "; download it first" if isinstance(path, str) else ""
        raise CorpusError(f"corpus_path must be the path of a text file, not {shown(repr(path))}{hint}")
    return Path(path)


def _cached() -> Path:
    return platformdirs.user_cache_path("dot-products-to-nanogpt") / "tinyshakespeare.txt"


def _read(path: Path, name: str) -> Corpus:
    return _corpus(_bytes_of(path), name, path)


def _corpus(raw: bytes, name: str, path: Path) -> Corpus:
    checksum = hashlib.sha256(raw).hexdigest()
    if name == TINY and checksum != SHA256:
        raise CorpusError(
            f"{shown(path)} is not tiny Shakespeare: SHA-256 {checksum} instead of {SHA256}; delete or replace it"
        )
    if raw.startswith(COMPRESSED):
        raise CorpusError(f"{shown(path)} is compressed: unpack it first, or prepare it by python -m helpers.data")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{shown(path)} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    corpus = Corpus(text, TINY if checksum == SHA256 else name, path, checksum)
    if len(corpus.alphabet) < 2:
        what = f"only the symbol {text[0]!r}" if text else "nothing"
        raise CorpusError(f"{shown(path)} holds {what}: a corpus needs at least two different characters")
    return corpus


def _bytes_of(path: Path) -> bytes:
    """The content of a regular file of bearable size; anything else, such as a pipe that never ends, is refused."""
    try:
        _refuse_unbearable(path, path.expanduser().stat())
        with path.expanduser().open("rb") as file:
            return file.read(LARGEST + 1)
    except CorpusError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # no such file, no such user, no possible name
        why = getattr(error, "strerror", None) or error
        raise CorpusError(f"can't read the corpus {shown(path)}: {why}; give the path of a text file") from None


def _refuse_unbearable(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise CorpusError(f"{shown(path)} is not a regular file: give the path of a text file")
    size = found.st_size / 1e6  # in MB, as all below
    needed = BYTES_PER_BYTE * size
    free = psutil.virtual_memory().available / 1e6
    largest = LARGEST / 1e6
    if needed > free or size > largest:
        raise CorpusError(
            f"{shown(path)} has {size:,.0f} MB, and training takes about {needed:,.0f} MB of memory; allowed are "
            f"{largest:,.0f} MB and what fits into the {free:,.0f} MB that are free: use a part of it, or prepare it "
            "by python -m helpers.data"
        )


def _download() -> bytes | None:
    """The bytes of tiny Shakespeare; None when there is no network. CorpusError when what comes is not it."""
    raw = _fetch(URL, at_most=SIZE, seconds=30.0)
    if raw is None:
        return None
    checksum = hashlib.sha256(raw).hexdigest()
    if checksum != SHA256:
        raise CorpusError(f"the download of {URL} is corrupted: SHA-256 {checksum} instead of {SHA256}")
    return raw


def _fetch(url: str, at_most: int, seconds: float, patience: float = 8.0) -> bytes | None:
    """The bytes behind `url`, at most `at_most` + 1 of them; None when they don't come within `seconds`.

    `patience` bounds the wait for each piece, and for the first answer. A thread fetches, because a look-up of the
    host's name ignores every timeout; a server that drips or never ends is left behind.
    """
    import requests  # slow to import, and most texts lie on this machine

    answer: list[bytes] = []
    started = threading.Event()
    over = time.monotonic() + seconds

    def fetch() -> None:
        got = bytearray()
        try:
            with requests.get(url, stream=True, timeout=patience, headers={"Accept-Encoding": "identity"}) as response:
                response.raise_for_status()
                started.set()
                with tqdm(total=at_most, unit="B", unit_scale=True, desc="tiny Shakespeare", leave=False) as bar:
                    while len(got) <= at_most:
                        piece = response.raw.read1(min(1 << 16, at_most + 1 - len(got)))
                        if not piece:
                            break
                        got += piece
                        bar.update(len(piece))
                        if time.monotonic() > over:
                            return
            answer.append(bytes(got))
        except Exception:  # a network fails in nearly any way
            return
        finally:
            started.set()

    thread = threading.Thread(target=fetch, daemon=True)
    thread.start()
    if started.wait(patience):
        thread.join(max(0.0, over - time.monotonic()) + 0.1)
    return answer[0] if answer else None
