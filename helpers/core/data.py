"""Characters as numbers, and random batches of them."""

import functools
import json
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int64, Integer
from torch import Tensor

from helpers.support.errors import CorpusError, VocabularyError

UNICODE = 0x110000  # how many characters there can be
MOST_TO_VALIDATE = 1_000_000  # tokens, since each validation reads all of them
CHUNK = 1 << 20  # characters that are encoded at once, so that a large text needs little memory beside it


class CharTokenizer:
    """Characters <-> ids: the id of a character is its place in `characters`, the sorted alphabet of a corpus."""

    def __init__(self, characters: str):
        if not isinstance(characters, str) or not characters or len(set(characters)) != len(characters):
            raise VocabularyError("a vocabulary needs at least one character, and each of them once")
        self.characters = characters

    @classmethod
    def from_text(cls, text: str) -> "CharTokenizer":
        return cls(alphabet_of(text))

    @property
    def vocab_size(self) -> int:
        return len(self.characters)

    @property
    def start_of_text(self) -> str:
        """What a sample continues when nobody names a prompt: a newline, as at the start of every speech."""
        return "\n" if "\n" in self.characters else self.characters[0]

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of the characters of `text`; VocabularyError names those that are not in the vocabulary."""
        return self.encode_compactly(text).long()

    def encode_compactly(self, text: str) -> Integer[Tensor, "T"]:
        """The same ids in the smallest integer type that holds them all: a byte each for up to 256 characters.

        This is for whole corpora: `split`, `get_batch` and `evaluate` take such ids; a model wants those of `encode`.
        """
        chunks = [np.empty(0, dtype=self._smallest_type)]  # an empty text has no other
        for codes in code_points(text):
            ids = self._id_of[codes]
            if (ids < 0).any():
                unknown = "".join(sorted(set(text) - set(self.characters)))
                raise VocabularyError(f"not in the vocabulary: {unknown!r}; allowed are {self.characters!r}")
            chunks.append(ids.astype(self._smallest_type))
        return torch.from_numpy(np.concatenate(chunks))

    def decode(self, ids: Integer[Tensor, "T"] | Sequence[int]) -> str:
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
        except (ValueError, KeyError, TypeError, RecursionError):
            raise VocabularyError('not a saved tokenizer: expected {"characters": "..."}') from None

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
        return np.int16 if self.vocab_size <= 2**15 else np.int32  # PyTorch can do little with uint16


def alphabet_of(text: str) -> str:
    """The characters of `text`, each once, sorted."""
    seen = np.zeros(UNICODE, dtype=bool)
    for codes in code_points(text):
        seen[codes] = True
    return "".join(map(chr, np.flatnonzero(seen)))


def code_points(text: str) -> Iterator[np.ndarray]:
    """The Unicode numbers of the characters, a chunk at a time."""
    for start in range(0, len(text), CHUNK):
        yield np.frombuffer(text[start : start + CHUNK].encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


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
            f"the corpus is too short: its {len(tokens)} characters leave {len(train)} for training and {len(val)} for "
            f"validation, and a context of {context_length} needs at least {context_length + 1} of each"
        )
    return train, val


def get_batch(
    tokens: Integer[Tensor, "N"], batch_size: int, context_length: int, generator: torch.Generator | None = None
) -> tuple[Int64[Tensor, "B T"], Int64[Tensor, "B T"]]:
    """`batch_size` random windows of `tokens`, and the same windows one token later: the answers."""
    starts = torch.randint(len(tokens) - context_length, (batch_size, 1), generator=generator)  # (B, 1)
    places = starts + torch.arange(context_length + 1)  # (B, T + 1)
    windows = tokens[places.to(tokens.device)].long()
    return windows[:, :-1], windows[:, 1:]
