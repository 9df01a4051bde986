"""A corpus in shards: the same tokens as in memory, and nothing damaged is trained on."""

import hashlib
import json
import mmap

import pytest
import torch

from helpers.checkpoint import _sha256_of
from helpers.data import ByteTokenizer, CharTokenizer, get_batch, learn_byte_pairs, split, tokenizer_of
from helpers.errors import CorpusError
from helpers.scaling import shards, vocabulary
from helpers.scaling.shards import Manifest
from helpers.training import windows_side_by_side

MANY = "".join(map(chr, range(0x100, 0x100 + 300)))  # characters that need two bytes each


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(shards, "SHARD_BYTES", mmap.ALLOCATIONGRANULARITY)


@pytest.fixture
def keep(tmp_path, small_shards):
    """Puts a text into shards; returns the folder."""

    def kept(text: str, pieces: int = 7):
        tokenizer = CharTokenizer.from_text(text)
        parts = [text[start : start + len(text) // pieces] for start in range(0, len(text), len(text) // pieces)]
        done = tuple(
            shards.save(tmp_path, number, content, after)
            for number, (content, after) in enumerate(shards.cut(parts, tokenizer, [0, 0]))
        )
        source = {"name": "text.txt", "sha256": hashlib.sha256(text.encode()).hexdigest()}
        shards.write(tmp_path / shards.MANIFEST, Manifest(tokenizer.to_json(), "characters", [source], done))
        return tmp_path

    return kept


# ---------------------------------------------------------------- as in memory
@pytest.mark.parametrize("more", ["", MANY], ids=["one byte a token", "two"])
def test_tokens_in_shards_are_those_of_the_text_in_memory(keep, play, more):
    text = play + more
    corpus = shards.load(keep(text), "a text")
    expected = CharTokenizer.from_text(text).encode_compactly(text)
    assert len(list(corpus.path.glob("*.bin"))) > 5
    assert corpus.tokens.dtype == expected.dtype and torch.equal(corpus.tokens, expected)
    assert (corpus.tokens.min(), corpus.tokens.max()) == (expected.min(), expected.max())
    for ours, theirs in zip(split(corpus.tokens, 16), split(expected, 16), strict=True):
        assert _sha256_of(ours) == _sha256_of(theirs)
        batches = [get_batch(tokens, 8, 16, torch.Generator().manual_seed(1)) for tokens in (ours, theirs)]
        assert all(torch.equal(a, b) for a, b in zip(*batches, strict=True))
        windows = [[x.tolist() for x, _ in windows_side_by_side(tokens, 16)] for tokens in (ours, theirs)]
        assert windows[0] == windows[1]


def test_a_corpus_says_what_it_is(keep, play):
    corpus = shards.load(keep(play), "your own text")
    assert str(corpus) == f"your own text: {len(play):,} tokens, 65 different ones, from the folder {corpus.path.name}"
    assert corpus.sha256 == hashlib.sha256(play.encode()).hexdigest()


def test_who_writes_into_the_tokens_changes_no_file(keep, play):
    folder = keep(play)
    shards.load(folder, "a text").tokens.zero_()
    assert shards.load(folder, "a text").tokens.max() == 64


@pytest.mark.parametrize("place", [0, 1, 3])
def test_cutting_goes_on_where_a_shard_ended(small_shards, play, place):
    tokenizer = ByteTokenizer()
    parts = [play[:9000], play[9000:9001], play[9001:]]

    def cut(start):
        return [(bytes(content), after) for content, after in shards.cut(parts, tokenizer, start)]

    whole = cut([0, 0])
    assert cut(whole[place][1]) == whole[place + 1 :]


# ---------------------------------------------------------------- what is refused
def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def reformat(path):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 9}))


MENDS = "; the command that prepared it mends it"
PREPARES = "; python -m helpers.data prepares a corpus"


@pytest.mark.parametrize(
    ("name", "harm", "sentence"),
    [
        ("00001.bin", flip, "00001.bin is damaged, or of another corpus: its checksum is wrong" + MENDS),
        ("00001.bin", lambda path: path.write_bytes(b""), r"00001.bin has 0 bytes, not \d,\d\d\d" + MENDS),
        ("00001.bin", lambda path: path.unlink(), "00001.bin is missing" + MENDS),
        ("manifest.json", flip, "manifest.json: (its checksum is wrong|it is no manifest of a corpus)" + PREPARES),
        ("manifest.json", lambda path: path.unlink(), "manifest.json: No such file or directory" + PREPARES),
        ("manifest.json", reformat, "manifest.json: it is of format 9, and this version reads 1" + PREPARES),
        ("manifest.json", lambda path: path.write_text("[]"), "it is no manifest of a corpus" + PREPARES),
        (
            "manifest.json",
            lambda path: path.rename(path.with_name("progress.json")),
            "is prepared in part: the command",
        ),
    ],
)
def test_a_damaged_corpus_is_refused_in_a_sentence(keep, play, name, harm, sentence):
    folder = keep(play)
    harm(folder / name)
    with pytest.raises(CorpusError, match=sentence) as error:
        shards.load(folder, "a text")
    assert "\n" not in str(error.value)


def test_a_manifest_of_another_text_is_refused(keep, play):
    folder = keep(play)
    manifest = (folder / "manifest.json").read_bytes()
    keep(play.swapcase())
    (folder / "manifest.json").write_bytes(manifest)
    with pytest.raises(CorpusError, match=r"00000.bin is damaged, or of another corpus"):
        shards.load(folder, "a text")


# ---------------------------------------------------------------- other tokens than characters
@pytest.fixture(scope="module")
def pairs():
    return learn_byte_pairs(["the cat and the hat and the bat\n" * 3, "été, \u2018\U0001f642\u2019"], 270)


def test_bytes_write_every_text_and_survive_half_a_letter():
    tokenizer = ByteTokenizer()
    text = "été \U0001f642\n"
    assert tokenizer.encode(text).tolist() == list(text.encode()) and tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode("é")[:1]) == "\ufffd" and tokenizer.encode("").tolist() == []
    assert tokenizer.encode_compactly(text).dtype == torch.uint8
    with pytest.raises(CorpusError, match=r"0 \.\. 255"):
        tokenizer.decode([256])


ALPHABETS = ["abc\n", "aé\u4e00b", "".join(map(chr, range(1, 256))), "".join(map(chr, range(1000, 1254))) + "abc"]


@pytest.mark.parametrize("alphabet", ALPHABETS, ids=["ascii", "mixed", "255", "257"])
def test_the_table_of_bytes_gives_the_ids_of_core(alphabet):
    tokenizer = CharTokenizer("".join(sorted(alphabet)))
    encode = vocabulary.quick_encoder(tokenizer)
    for text in (alphabet, alphabet[:1], "ab" * 9, ""):
        ids = encode(text)
        assert ids.tolist() == tokenizer.encode(text).tolist() and ids.dtype == shards.type_of(tokenizer)
    with pytest.raises(CorpusError, match="not in the vocabulary"):
        encode("ab\u2020")
    with pytest.raises(CorpusError, match="not in the vocabulary"):
        encode("ab\x00")


def test_byte_pairs_write_every_text_in_fewer_tokens(pairs):
    text = "the cat sat: ça va \U0001f642?\r\n\n  \n and the bat\n"
    ids = pairs.encode(text)
    assert pairs.decode(ids) == text and len(ids) < len(text.encode()) and 257 < pairs.vocab_size <= 270
    compact = pairs.encode_compactly(text)
    assert compact.dtype == torch.int16 and torch.equal(compact.long(), ids)


def test_byte_pairs_forget_words_and_encode_them_again(pairs, monkeypatch):
    monkeypatch.setattr(vocabulary, "REMEMBERED", 20)
    for text in 3 * ["the cat and the hat", "the bat", "", " a \u3000  \x1c\t!\x85 \n\n\n  the\n"]:
        assert torch.equal(pairs.encode_compactly(text).long(), pairs.encode(text))


@pytest.mark.parametrize("text", ["\ud800", "a\udcff"])
def test_what_is_no_unicode_is_refused(pairs, text):
    for tokenizer in (pairs, ByteTokenizer()):
        with pytest.raises(CorpusError, match="this is no text in Unicode"):
            tokenizer.encode(text)


def test_every_tokenizer_comes_back_from_its_json(pairs, play):
    for tokenizer in (pairs, ByteTokenizer(), CharTokenizer.from_text(play)):
        again = tokenizer_of(tokenizer.to_json())
        assert type(again) is type(tokenizer) and again.to_json() == tokenizer.to_json()
        assert torch.equal(again.encode(play), tokenizer.encode(play)) and again.start_of_text == "\n"


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "3", '{"bytes": 257}', '{"characters": ""}', '{"model": {}}', "[" * 10_000]
)
def test_what_is_no_saved_tokenizer_is_refused(text):
    with pytest.raises(CorpusError, match="not a saved tokenizer"):
        tokenizer_of(text)


def test_a_tokenizer_that_changes_texts_is_refused(pairs):
    changed = json.loads(pairs.to_json())
    changed["normalizer"] = {"type": "Lowercase"}
    with pytest.raises(CorpusError, match="not a saved tokenizer"):
        tokenizer_of(json.dumps(changed))
