"""The corpus, its characters as numbers, and random batches of it."""

import hashlib
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pooch
import requests
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from helpers.errors import CorpusError, VocabularyError

URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
BUNDLED_PLAY = Path(__file__).parent / "assets" / "bundled_play.txt"
BESIDE_THE_CLONE = Path(__file__).parents[2] / "shared" / "data" / "tinyshakespeare.txt"
TINY, BUNDLED, OWN = "tiny Shakespeare", "the bundled play", "your own text"


@dataclass(frozen=True)
class Corpus:
    """A text to train on: `name` is one of "tiny Shakespeare", "the bundled play", "your own text"."""

    text: str
    name: str
    path: Path

    def __str__(self) -> str:
        size = f"{len(self.text):,} characters, {len(set(self.text))} different ones"
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
    file is missing, empty, not UTF-8, has a single symbol, or has the wrong checksum.
    """
    if path not in (None, ""):
        if not isinstance(path, (str, os.PathLike)):
            raise CorpusError(f"corpus_path must be the path of a text file, not {path!r}")
        return _read(Path(path), OWN)
    if named := os.environ.get("TINY_SHAKESPEARE"):
        return _read(Path(named), TINY)
    cached = pooch.os_cache("dot-products-to-nanogpt") / "tinyshakespeare.txt"
    for place in (BESIDE_THE_CLONE, cached):
        if place.exists():
            return _read(place, TINY)
    return _read(cached, TINY) if _download(cached) else _read(BUNDLED_PLAY, BUNDLED)


def _read(path: Path, name: str) -> Corpus:
    try:
        raw = path.expanduser().read_bytes()
    except (OSError, RuntimeError, ValueError) as error:  # no such file, no such user, no possible name
        why = getattr(error, "strerror", None) or error
        raise CorpusError(f"can't read the corpus {path}: {why}; give the path of a text file") from None
    checksum = hashlib.sha256(raw).hexdigest()
    if name == TINY and checksum != SHA256:
        raise CorpusError(
            f"{path} is not tiny Shakespeare: SHA-256 {checksum} instead of {SHA256}; delete or replace it"
        )
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    if len(set(text)) < 2:
        what = f"only the symbol {text[0]!r}" if text else "nothing"
        raise CorpusError(f"{path} holds {what}: a corpus needs at least two different characters")
    return Corpus(text, TINY if checksum == SHA256 else name, path)


def _download(target: Path) -> bool:
    """Fetch tiny Shakespeare to `target`; False when there is no network. CorpusError when what comes is not it."""
    if not _reachable(URL, seconds=8.0):
        return False
    downloader = pooch.HTTPDownloader(progressbar=True, timeout=8)
    try:
        pooch.retrieve(URL, f"sha256:{SHA256}", target.name, target.parent, downloader=downloader)
    except ValueError as error:  # pooch's word for a wrong checksum; it keeps nothing of such a file
        if isinstance(error, requests.RequestException):
            return False
        raise CorpusError(f"the download of {URL} is corrupted: {error}") from None
    except OSError:  # no network after all, or a cache that can't be written
        return False
    return True


def _reachable(url: str, seconds: float) -> bool:
    """Whether `url` answers within `seconds`. In a thread, because a look-up of its host's name heeds no time-out."""
    answers = []

    def ask():
        try:
            answers.append(requests.head(url, timeout=seconds).ok)
        except OSError:
            answers.append(False)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return answers == [True]


class CharTokenizer:
    """Characters <-> ids: the id of a character is its rank in the sorted alphabet of the corpus."""

    def __init__(self, characters: str):
        self.characters = characters
        self._id_of = {character: i for i, character in enumerate(characters)}
        if len(self._id_of) != len(characters) or not characters:
            raise VocabularyError("a vocabulary needs at least one character, and each of them once")

    @classmethod
    def from_text(cls, text: str) -> "CharTokenizer":
        return cls("".join(sorted(set(text))))

    @property
    def vocab_size(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of the characters of `text`; VocabularyError names those that are not in the vocabulary."""
        try:
            return torch.tensor([self._id_of[character] for character in text], dtype=torch.long)
        except KeyError:
            unknown = "".join(sorted(set(text) - set(self.characters)))
            raise VocabularyError(f"not in the vocabulary: {unknown!r}; allowed are {self.characters!r}") from None

    def decode(self, ids: Int64[Tensor, "T"] | Sequence[int]) -> str:
        """The characters behind `ids`; VocabularyError for an id outside 0 .. vocab_size - 1."""
        ids = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        if ids and not 0 <= min(ids) <= max(ids) < self.vocab_size:
            raise VocabularyError(f"ids must lie in 0 .. {self.vocab_size - 1}, not {min(ids)} .. {max(ids)}")
        return "".join(self.characters[i] for i in ids)

    def to_json(self) -> str:
        return json.dumps({"characters": self.characters}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "CharTokenizer":
        try:
            return cls(json.loads(text)["characters"])
        except (ValueError, KeyError, TypeError):
            raise VocabularyError('not a saved tokenizer: expected {"characters": "..."}') from None


def split(tokens: Int64[Tensor, "N"], context_length: int) -> tuple[Int64[Tensor, "N_train"], Int64[Tensor, "N_val"]]:
    """The first 90% to train on, the last 10% to validate; CorpusError when either is too short for one window."""
    cut = int(0.9 * len(tokens))
    train, val = tokens[:cut], tokens[cut:]
    if min(len(train), len(val)) <= context_length:
        raise CorpusError(
            f"the corpus is too short: its {len(tokens)} characters leave {len(train)} for training and {len(val)} for "
            f"validation, and a context of {context_length} needs at least {context_length + 1} of each"
        )
    return train, val


def get_batch(
    tokens: Int64[Tensor, "N"], batch_size: int, context_length: int, generator: torch.Generator | None = None
) -> tuple[Int64[Tensor, "B T"], Int64[Tensor, "B T"]]:
    """`batch_size` random windows of `tokens`, and the same windows one token later: the answers.

    CorpusError when `tokens` is shorter than context_length + 1.
    """
    if len(tokens) <= context_length:
        raise CorpusError(f"{len(tokens)} tokens are too few: a context of {context_length} needs {context_length + 1}")
    starts = torch.randint(len(tokens) - context_length, (batch_size, 1), generator=generator)  # (B, 1)
    windows = tokens[(starts + torch.arange(context_length + 1)).to(tokens.device)]  # (B, T + 1)
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
