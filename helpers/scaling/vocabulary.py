"""Tokens for texts of any alphabet, beside core's characters: bytes, and runs of bytes that occur often."""

import json
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import tokenizers
import torch
from jaxtyping import Int64, Integer
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch import Tensor

from helpers.core.data import CharTokenizer
from helpers.support.errors import VocabularyError

LARGEST = 2**15  # tokens of a vocabulary that we learn or store: PyTorch computes with signed numbers of 16 bits
WORD_END = re.compile(r"(?<=\S)(?=[ \n\t\r])")  # no token of byte pairs reaches over it
NO_ID = 255  # in a table of bytes
REMEMBERED = 1_000_000  # characters of words whose ids are kept


class ByteTokenizer:
    """The ids are the bytes of UTF-8: 256 of them write every text."""

    vocab_size = 256
    start_of_text = "\n"

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of `text`; VocabularyError when it isn't Unicode, which a terminal of another encoding may hand over."""
        return self.encode_compactly(text).long()

    def encode_compactly(self, text: str) -> Integer[Tensor, "T"]:
        """The same ids, a byte each."""
        try:
            return torch.frombuffer(bytearray(text, "utf-8"), dtype=torch.uint8) if text else torch.empty(0).byte()
        except UnicodeEncodeError:
            raise _no_unicode(text) from None

    def decode(self, ids: Integer[Tensor, "T"] | Sequence[int]) -> str:
        """The text behind `ids`, with a replacement character for bytes that are no letter."""
        try:
            return bytes(map(int, ids)).decode(errors="replace")
        except ValueError:
            raise VocabularyError("ids of bytes must lie in 0 .. 255") from None

    def to_json(self) -> str:
        return json.dumps({"bytes": self.vocab_size})


class BytePairTokenizer:
    """Frequent runs of UTF-8 bytes <-> ids, as GPT-2 has them; `tokenizer` is one of the library of that name."""

    def __init__(self, tokenizer: Any, start_of_text: str = "\n"):
        self.tokenizer = tokenizer
        self.start_of_text = start_of_text
        self._ids: dict[str, list[int]] = {}  # of words that were met
        self._remembered = 0

    @property
    def vocab_size(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of `text`; VocabularyError when it isn't Unicode, which a terminal of another encoding may hand over."""
        try:
            return torch.tensor(self.tokenizer.encode(text, add_special_tokens=False).ids, dtype=torch.long)
        except TypeError:
            raise _no_unicode(text) from None

    def encode_compactly(self, text: str) -> Integer[Tensor, "T"]:
        """The same ids in 16 bits, for whole corpora: a word is encoded once, and then it is known."""
        if self._remembered > REMEMBERED:
            self._ids.clear()
            self._remembered = 0
        words = WORD_END.split(text)
        new = list(set(words) - self._ids.keys())
        for word, encoded in zip(new, self.tokenizer.encode_batch_fast(new, add_special_tokens=False), strict=True):
            self._ids[word] = encoded.ids
            self._remembered += len(word)
        return torch.from_numpy(np.fromiter(chain.from_iterable(map(self._ids.__getitem__, words)), dtype=np.int16))

    def decode(self, ids: Integer[Tensor, "T"] | Sequence[int]) -> str:
        return self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=False)

    def to_json(self) -> str:
        return self.tokenizer.to_str()


Tokenizer = CharTokenizer | ByteTokenizer | BytePairTokenizer


def tokenizer_of(text: str) -> Tokenizer:
    """The tokenizer that wrote `text` by its `to_json`; VocabularyError when none did."""
    try:
        kind = json.loads(text)
        if kind == {"bytes": ByteTokenizer.vocab_size}:
            return ByteTokenizer()
        if "characters" in kind:
            return CharTokenizer.from_json(text)
        tokenizer = tokenizers.Tokenizer.from_str(text)
        if gives_back_every_byte(tokenizer):
            return BytePairTokenizer(tokenizer)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a hostile text raises nearly anything, and a panic of Rust's is no Exception
        pass
    raise VocabularyError("not a saved tokenizer of characters, bytes or pairs of bytes")


def gives_back_every_byte(tokenizer: Any) -> bool:
    """Whether a tokenizer of the library merges bytes, always in the same way, and changes no text."""
    kind = json.loads(tokenizer.to_str())["model"]
    if kind["type"] != "BPE" or kind.get("dropout"):
        return False
    text = "".join(map(chr, range(0x180))) + " A\u0e2a\U0001f642"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return tokenizer.decode(ids, skip_special_tokens=False) == text


def quick_encoder(tokenizer: Tokenizer) -> Callable[[str], np.ndarray]:
    """`encode_compactly` for the many pieces of a large text. ASCII goes through a table of bytes, which is quicker."""

    def encode(text: str) -> np.ndarray:
        return tokenizer.encode_compactly(text).numpy()

    if not isinstance(tokenizer, CharTokenizer) or tokenizer.vocab_size > NO_ID:
        return encode
    table = bytearray([NO_ID] * 256)
    for i, character in enumerate(tokenizer.characters):
        if character.isascii():
            table[ord(character)] = i

    def encode_by_table(text: str) -> np.ndarray:
        ids = text.encode().translate(table) if text.isascii() else bytes([NO_ID])
        return encode(text) if NO_ID in ids else np.frombuffer(ids, np.uint8)

    return encode_by_table


def learn_byte_pairs(texts: Iterable[str], vocab_size: int) -> BytePairTokenizer:
    """Start from the 256 bytes, and merge the most frequent pair in `texts`, until there are `vocab_size` tokens.

    A short text has fewer pairs that occur twice, and gets fewer tokens.
    """
    learned = tokenizers.Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learned.decoder = decoders.ByteLevel()
    bytes_first = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, initial_alphabet=bytes_first, show_progress=False
    )
    learned.train_from_iterator(texts, trainer)
    return BytePairTokenizer(learned)


def _no_unicode(text: str) -> VocabularyError:
    return VocabularyError(f"this is no text in Unicode: {reprlib.repr(text)}")
