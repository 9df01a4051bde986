"""A text as the model gets it: characters as ids, training and validation, batches."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import data
from helpers.data import CharTokenizer, first_to_validate, get_batch, split
from helpers.errors import CorpusError


@pytest.mark.slow
@settings(deadline=None)
@given(st.text(min_size=1))
def test_decode_undoes_encode(text):
    tokenizer = CharTokenizer.from_text(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    again = tokenizer_of(tokenizer.to_json())
    assert again.characters == tokenizer.characters and again.vocab_size == len(set(text))


def test_ids_are_ranks_in_the_sorted_alphabet():
    assert CharTokenizer.from_text("banana").encode("nab").tolist() == [2, 0, 1]


def test_what_is_not_in_the_vocabulary():
    tokenizer = CharTokenizer.from_text("abc")
    with pytest.raises(CorpusError, match="not in the vocabulary: 'xy'; allowed are 'abc'"):
        tokenizer.encode("ayaxb")
    for ids in ([3], [-1]):
        with pytest.raises(CorpusError, match=r"ids must lie in 0 \.\. 2"):
            tokenizer.decode(ids)
    for characters in ("", "aa"):
        with pytest.raises(CorpusError, match="a vocabulary needs at least one character"):
            CharTokenizer(characters)


@pytest.mark.parametrize(
    ("size", "kind"), [(2, torch.uint8), (256, torch.uint8), (257, torch.int16), (40_000, torch.int32)]
)
def test_a_corpus_is_kept_in_the_smallest_integers(size, kind):
    text = "".join(map(chr, range(100, 100 + size))) * 2
    tokenizer = CharTokenizer.from_text(text)
    compact = tokenizer.encode_compactly(text)
    assert compact.dtype == kind and compact.tolist() == [*range(size)] * 2
    assert torch.equal(tokenizer.encode(text), compact.long())


def test_texts_longer_than_a_chunk(monkeypatch):
    monkeypatch.setattr(data, "CHUNK", 7)
    text = "so long as men can breathe \U0001f600 or eyes can see"
    tokenizer = CharTokenizer.from_text(text)
    assert tokenizer.characters == "".join(sorted(set(text))) and tokenizer.decode(tokenizer.encode(text)) == text


def test_batches_of_small_integers_are_the_same(play):
    tokenizer = CharTokenizer.from_text(play)
    batches = [
        get_batch(tokens, 4, 8, torch.Generator().manual_seed(0))
        for tokens in (tokenizer.encode(play), tokenizer.encode_compactly(play))
    ]
    assert all(torch.equal(a, b) and b.dtype == torch.long for a, b in zip(*batches, strict=True))


def test_split_is_the_first_ninety_percent():
    train, val = split(torch.arange(1_115_394), 64)
    assert (len(train), len(val), train[-1].item() + 1) == (1_003_854, 111_540, val[0].item())
    with pytest.raises(CorpusError, match="its 100 characters leave 90 for training and 10 for validation"):
        split(torch.arange(100), 10)


def test_validation_never_reads_more_than_a_million_tokens():
    """All of them are read at each record: a tenth of a large corpus would take longer than the training."""
    assert [first_to_validate(size) for size in (10_000_000, 10_000_001, 2_000_000_000)] == [
        9_000_000,
        9_000_001,
        1_999_000_000,
    ]


def test_a_batch_is_windows_of_the_text_and_the_same_one_later():
    tokens = torch.arange(100)
    x, y = get_batch(tokens, 500, 9, torch.Generator().manual_seed(0))
    assert x.shape == y.shape == (500, 9) and torch.equal(y, x + 1)
    assert torch.equal(x[:, 1:], x[:, :-1] + 1)
    assert x[:, 0].min() == 0 and x[:, 0].max() == 90  # every start there is


def test_batches_come_from_the_generator_alone():
    batches = [get_batch(torch.arange(1000), 4, 8, torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2)]
    assert torch.equal(batches[0], batches[1]) and not torch.equal(batches[0], batches[2])


def test_a_text_as_long_as_a_window_and_its_answers_gives_one_and_a_shorter_one_none():
    x, y = get_batch(torch.arange(9), 2, 8)
    assert x.tolist() == 2 * [[*range(8)]] and y.tolist() == 2 * [[*range(1, 9)]]
    with pytest.raises(RuntimeError):
        get_batch(torch.arange(8), 2, 8)
