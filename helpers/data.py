"""The corpus, its characters as numbers, and random batches of it."""

import functools
import hashlib
import json
import os
import re
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import platformdirs
import psutil
import requests
import torch
from jaxtyping import Float, Int64, Integer
from torch import Tensor
from tqdm import tqdm

from helpers import files
from helpers.errors import ConfigError, CorpusError, StorageError, VocabularyError
from helpers.guards import Count, checked

URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SIZE = 1_115_394  # bytes
BUNDLED_PLAY = Path(__file__).parent / "assets" / "bundled_play.txt"
BESIDE_THE_CLONE = Path(__file__).parents[2] / "shared" / "data" / "tinyshakespeare.txt"
TINY, BUNDLED, OWN = "tiny Shakespeare", "the bundled play", "your own text"

LARGEST = 1_000_000_000  # bytes of a corpus
BYTES_PER_BYTE = 5  # what training needs of memory for each byte of a text: the text, its ids, and their copies
CHUNK = 1 << 20  # characters that are encoded at once


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

    def __str__(self) -> str:
        size = f"{len(self.text):,} characters, {len(self.alphabet)} different ones"
        facts = f"{self.name}: {size}, from the file {self.path.name}"
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
        if not isinstance(path, (str, os.PathLike)) or "://" in str(path):
            hint = "; download it first" * isinstance(path, str)
            raise CorpusError(f"corpus_path must be the path of a text file, not {path!r}{hint}")
        return _read(Path(path), OWN)
    if named := os.environ.get("TINY_SHAKESPEARE"):
        return _read(Path(named), TINY)
    cached = platformdirs.user_cache_path("dot-products-to-nanogpt") / "tinyshakespeare.txt"
    for place in (BESIDE_THE_CLONE, cached):
        if place.exists():
            return _read(place, TINY)
    if (raw := _download()) is None:
        return _read(BUNDLED_PLAY, BUNDLED)
    with suppress(OSError, StorageError):  # a cache that can't be written is no reason to do without
        cached.parent.mkdir(parents=True, exist_ok=True)
        files.write(cached, raw)
    return _corpus(raw, TINY, cached)


def _read(path: Path, name: str) -> Corpus:
    return _corpus(_bytes_of(path), name, path)


def _corpus(raw: bytes, name: str, path: Path) -> Corpus:
    checksum = hashlib.sha256(raw).hexdigest()
    if name == TINY and checksum != SHA256:
        raise CorpusError(
            f"{path} is not tiny Shakespeare: SHA-256 {checksum} instead of {SHA256}; delete or replace it"
        )
    if raw[:2] == b"\x1f\x8b" or raw[:4] in (b"PK\x03\x04", b"BZh9", b"\xfd7zX", b"\x28\xb5\x2f\xfd"):
        raise CorpusError(f"{path} is compressed: unpack it first, and give the path of the text file")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    corpus = Corpus(text, TINY if checksum == SHA256 else name, path, checksum)
    if len(corpus.alphabet) < 2:
        what = f"only the symbol {text[0]!r}" if text else "nothing"
        raise CorpusError(f"{path} holds {what}: a corpus needs at least two different characters")
    return corpus


def _bytes_of(path: Path) -> bytes:
    """The content of a regular file of bearable size; anything else, such as a pipe that never ends, is refused."""
    try:
        found = path.expanduser().stat()
        if not stat.S_ISREG(found.st_mode):
            raise CorpusError(f"{path} is not a regular file: give the path of a text file")
        size, free = found.st_size / 1e6, psutil.virtual_memory().available / 1e6  # in MB, as below
        if (needed := BYTES_PER_BYTE * size) > free or found.st_size > LARGEST:
            raise CorpusError(
                f"{path} has {size:,.0f} MB, and training on it takes about {needed:,.0f} MB of memory; allowed are "
                f"{LARGEST / 1e6:,.0f} MB and what fits into the {free:,.0f} MB that are free: use a part of it"
            )
        with path.expanduser().open("rb") as file:
            return file.read(LARGEST + 1)
    except (OSError, RuntimeError, ValueError) as error:  # no such file, no such user, no possible name
        if isinstance(error, CorpusError):
            raise
        why = getattr(error, "strerror", None) or error
        raise CorpusError(f"can't read the corpus {path}: {why}; give the path of a text file") from None


def _download() -> bytes | None:
    """The bytes of tiny Shakespeare; None when there is no network. CorpusError when what comes is not it."""
    raw = _fetch(URL, at_most=SIZE, seconds=30.0)
    if raw is not None and (checksum := hashlib.sha256(raw).hexdigest()) != SHA256:
        raise CorpusError(f"the download of {URL} is corrupted: SHA-256 {checksum} instead of {SHA256}")
    return raw


def _fetch(url: str, at_most: int, seconds: float, patience: float = 8.0) -> bytes | None:
    """The bytes behind `url`, at most `at_most` + 1 of them; None when they don't come within `seconds`.

    `patience` bounds the wait for each piece, and for the first answer. In a thread, because a look-up of the host's
    name ignores every timeout; a server that drips or never ends is left behind.
    """
    answer, started, over = [], threading.Event(), time.monotonic() + seconds

    def fetch() -> None:
        got = bytearray()
        try:
            with requests.get(url, stream=True, timeout=patience, headers={"Accept-Encoding": "identity"}) as response:
                response.raise_for_status()
                started.set()
                with tqdm(total=at_most, unit="B", unit_scale=True, desc="tiny Shakespeare", leave=False) as bar:
                    while len(got) <= at_most and (piece := response.raw.read1(min(1 << 16, at_most + 1 - len(got)))):
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


def _code_points(text: str) -> Iterator[np.ndarray]:
    """The numbers of the characters, a million at a time, so that a large text needs little memory beside it."""
    for start in range(0, len(text), CHUNK):
        yield np.frombuffer(text[start : start + CHUNK].encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def alphabet_of(text: str) -> str:
    """The characters of `text`, each once, sorted."""
    seen = np.zeros(0x110000, dtype=bool)
    for codes in _code_points(text):
        seen[codes] = True
    return "".join(map(chr, np.flatnonzero(seen)))


class CharTokenizer:
    """Characters <-> ids: the id of a character is its rank in the sorted alphabet of the corpus."""

    def __init__(self, characters: str):
        if not isinstance(characters, str) or not characters or len(set(characters)) != len(characters):
            raise VocabularyError("a vocabulary needs at least one character, and each of them once")
        self.characters = characters

    @classmethod
    @checked
    def from_text(cls, text: str) -> "CharTokenizer":
        return cls(alphabet_of(text))

    @property
    def vocab_size(self) -> int:
        return len(self.characters)

    @property
    def start_of_text(self) -> str:
        """What a sample continues when nobody names a prompt: a newline, as at the start of every speech."""
        return "\n" if "\n" in self.characters else self.characters[0]

    @functools.cached_property
    def _id_of(self) -> np.ndarray:
        """The id of each character of Unicode, -1 for those that are not in the vocabulary."""
        ids = np.full(0x110000, -1, dtype=np.int32)
        ids[[ord(character) for character in self.characters]] = np.arange(self.vocab_size)
        return ids

    @checked
    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of the characters of `text`; VocabularyError names those that are not in the vocabulary."""
        return self.encode_compactly(text).long()

    @checked
    def encode_compactly(self, text: str) -> Integer[Tensor, "T"]:
        """The same ids in the smallest integer type that holds them all: a byte each for up to 256 characters.

        This is for whole corpora: `split`, `get_batch` and `evaluate` take such ids; a model wants those of `encode`.
        """
        kind = np.uint8 if self.vocab_size <= 2**8 else np.int16 if self.vocab_size <= 2**15 else np.int32
        ids = np.empty(len(text), dtype=kind)
        for chunk, codes in enumerate(_code_points(text)):
            found = self._id_of[codes]
            if (found < 0).any():
                unknown = "".join(sorted(set(text) - set(self.characters)))
                raise VocabularyError(f"not in the vocabulary: {unknown!r}; allowed are {self.characters!r}")
            ids[chunk * CHUNK : chunk * CHUNK + len(found)] = found
        return torch.from_numpy(ids)

    @checked
    def decode(self, ids: Integer[Tensor, "T"] | Sequence[int]) -> str:
        """The characters behind `ids`; VocabularyError for an id outside 0 .. vocab_size - 1."""
        ids = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        if not all(isinstance(i, int) for i in ids):
            raise VocabularyError(f"ids must be whole numbers, not {next(i for i in ids if not isinstance(i, int))!r}")
        if ids and not 0 <= min(ids) <= max(ids) < self.vocab_size:
            raise VocabularyError(f"ids must lie in 0 .. {self.vocab_size - 1}, not {min(ids)} .. {max(ids)}")
        return "".join(self.characters[i] for i in ids)

    def to_json(self) -> str:
        return json.dumps({"characters": self.characters}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "CharTokenizer":
        try:
            return cls(json.loads(text)["characters"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise VocabularyError('not a saved tokenizer: expected {"characters": "..."}') from None


@checked
def split(
    tokens: Integer[Tensor, "N"], context_length: Count
) -> tuple[Integer[Tensor, "N_train"], Integer[Tensor, "N_val"]]:
    """The first 90% to train on, the last 10% to validate; CorpusError when either is too short for one window."""
    cut = int(0.9 * len(tokens))
    train, val = tokens[:cut], tokens[cut:]
    if min(len(train), len(val)) <= context_length:
        raise CorpusError(
            f"the corpus is too short: its {len(tokens)} characters leave {len(train)} for training and {len(val)} for "
            f"validation, and a context of {context_length} needs at least {context_length + 1} of each"
        )
    return train, val


@checked
def get_batch(
    tokens: Integer[Tensor, "N"], batch_size: Count, context_length: Count, generator: torch.Generator | None = None
) -> tuple[Int64[Tensor, "B T"], Int64[Tensor, "B T"]]:
    """`batch_size` random windows of `tokens`, and the same windows one token later: the answers.

    CorpusError when `tokens` is shorter than context_length + 1, ConfigError when the batch is larger than the memory.
    """
    if (size := 16 * batch_size * context_length) > 1e9 and size > psutil.virtual_memory().total:
        raise ConfigError(f"a batch of {batch_size:,} windows takes {size / 1e9:,.0f} GB, more than the memory")
    if len(tokens) <= context_length:
        raise CorpusError(f"{len(tokens)} tokens are too few: a context of {context_length} needs {context_length + 1}")
    starts = torch.randint(len(tokens) - context_length, (batch_size, 1), generator=generator)  # (B, 1)
    windows = tokens[(starts + torch.arange(context_length + 1)).to(tokens.device)].long()  # (B, T + 1)
    return windows[:, :-1], windows[:, 1:]


def words_of(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters, with at most one apostrophe inside."""
    return re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", text.lower())


def word_vectors(text: str, size: int = 1000) -> tuple[list[str], Float[Tensor, "V V"]]:
    """The `size` most frequent words and one vector of length 1 for each, from the company it keeps; no learning.

    Entry (a, b) is the positive pointwise mutual information of a and b standing at most two places apart (Church and
    Hanks 1990; notebook 01 derives it). CorpusError for a text with fewer than 6 different words.
    """
    words = words_of(text)
    vocabulary = [word for word, _ in Counter(words).most_common(size)]
    if len(vocabulary) < 6:
        raise CorpusError(f"word vectors need a text with 6 different words, not {len(vocabulary)}")
    number, V = {word: i for i, word in enumerate(vocabulary)}, len(vocabulary) + 1
    ids = torch.tensor([number.get(word, V - 1) for word in words])  # the last number stands for all rarer words
    near = sum(torch.bincount(ids[:-d] * V + ids[d:], minlength=V * V) for d in (1, 2)).view(V, V).float()
    near = (near + near.T)[:-1, :-1]
    by_chance = near.sum(dim=1, keepdim=True) * near.sum(dim=0) / near.sum()
    surprise = (near / by_chance).log().clamp(min=0).nan_to_num(0.0)
    return vocabulary, surprise / surprise.norm(dim=1, keepdim=True).clamp(min=1e-9)
