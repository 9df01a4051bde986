import contextlib
import gzip
import http.server
import os
import re
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import data
from helpers.data import CharTokenizer, get_batch, load_corpus, split
from helpers.errors import ConfigError, CorpusError, VocabularyError


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine with no corpus, an empty cache and no network."""
    monkeypatch.delenv("TINY_SHAKESPEARE", raising=False)
    monkeypatch.setattr(data, "BESIDE_THE_CLONE", tmp_path / "shared" / "tinyshakespeare.txt")
    monkeypatch.setattr(data.platformdirs, "user_cache_path", lambda name: tmp_path / "cache" / name)
    monkeypatch.setattr(data, "URL", "http://127.0.0.1:9/nobody-listens-here")
    return tmp_path


@pytest.fixture
def pretend(monkeypatch, play):
    """Let the play pass for tiny Shakespeare, so that the tests need no corpus."""
    import hashlib

    monkeypatch.setattr(data, "SHA256", hashlib.sha256(play.encode()).hexdigest())
    return play


@pytest.fixture
def serve():
    """Serve some bytes on this machine; yields a function body -> URL."""
    servers = []

    def start(body: bytes) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *arguments):
                pass

        servers.append(http.server.HTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/input.txt"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def write(path, text: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_search_order(nowhere, pretend, monkeypatch):
    """Each place is used when all places before it have nothing."""
    assert load_corpus().path == data.BUNDLED_PLAY
    cached = write(nowhere / "cache" / "dot-products-to-nanogpt" / "tinyshakespeare.txt", pretend)
    assert load_corpus().path == cached
    beside = write(data.BESIDE_THE_CLONE, pretend)
    assert load_corpus().path == beside
    named = write(nowhere / "named.txt", pretend)
    monkeypatch.setenv("TINY_SHAKESPEARE", str(named))
    assert load_corpus().path == named and load_corpus().name == data.TINY
    own = write(nowhere / "own.txt", "a text of my own")
    assert load_corpus(own).path == own and load_corpus(str(own)).name == data.OWN


def test_tiny_shakespeare_is_recognised_wherever_it_lies(nowhere, pretend):
    assert load_corpus(write(nowhere / "copy.txt", pretend)).name == data.TINY


@pytest.mark.parametrize("place", ["environment", "beside", "cache"])
def test_a_wrong_checksum_names_the_file_and_both_sums(nowhere, pretend, monkeypatch, place):
    path = {
        "environment": nowhere / "named.txt",
        "beside": data.BESIDE_THE_CLONE,
        "cache": nowhere / "cache" / "dot-products-to-nanogpt" / "tinyshakespeare.txt",
    }[place]
    write(path, "not tiny Shakespeare")
    if place == "environment":
        monkeypatch.setenv("TINY_SHAKESPEARE", str(path))
    with pytest.raises(CorpusError) as error:
        load_corpus()
    assert str(path) in str(error.value) and data.SHA256 in str(error.value)
    assert len(re.findall(r"\b[0-9a-f]{64}\b", str(error.value))) == 2


def test_download_once_then_from_the_cache(nowhere, pretend, monkeypatch, serve, capfd):
    monkeypatch.setattr(data, "URL", serve(pretend.encode()))
    first = load_corpus()
    assert first.name == data.TINY and first.text == pretend
    monkeypatch.setattr(data, "URL", "http://127.0.0.1:9/gone")
    assert load_corpus() == first
    assert "%" in capfd.readouterr().err  # there was a bar


def test_a_cache_that_cannot_be_written_costs_only_the_next_download(nowhere, pretend, monkeypatch, serve):
    (nowhere / "cache").write_text("a file in the way")
    monkeypatch.setattr(data, "URL", serve(pretend.encode()))
    assert load_corpus().name == data.TINY


def test_the_server_is_asked_for_the_plain_file(monkeypatch):
    """Raw bytes are counted and hashed as they come: a compressed answer would look like another file."""
    asked = []
    monkeypatch.setattr(data.requests, "get", lambda *a, **options: asked.append(options["headers"]))
    data._fetch("http://127.0.0.1", at_most=10, seconds=1)
    assert asked == [{"Accept-Encoding": "identity"}]


def test_a_corrupted_download_is_an_error_and_leaves_nothing(nowhere, pretend, monkeypatch, serve):
    monkeypatch.setattr(data, "URL", serve(b"a log-in page"))
    with pytest.raises(CorpusError, match=r"corrupted.*\b[0-9a-f]{64}\b.*\b[0-9a-f]{64}\b"):
        load_corpus()
    assert not [path for path in (nowhere / "cache").rglob("*") if path.is_file()]


def test_no_network_is_no_long_wait_and_loud(nowhere, monkeypatch):
    start = time.monotonic()
    corpus = load_corpus()
    assert time.monotonic() - start < 10
    assert corpus.name == data.BUNDLED and "NOT SHAKESPEARE" in str(corpus)


def test_a_network_that_never_answers_is_given_up(monkeypatch):
    hung_up = threading.Event()
    monkeypatch.setattr(data.requests, "get", lambda *a, **k: hung_up.wait(60))  # as a look-up of a name may hang
    start = time.monotonic()
    assert data._fetch("http://127.0.0.1", at_most=10, seconds=60, patience=0.3) is None
    assert time.monotonic() - start < 5
    hung_up.set()


@pytest.mark.parametrize("pause", [0.0, 0.05], ids=["endless", "dripping"])
def test_a_server_that_never_ends_is_left(pause):
    """Bounded in bytes and in time as a whole, not from piece to piece."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(b"a" * (1 if pause else 10_000))
                    time.sleep(pause)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    start = time.monotonic()
    got = data._fetch(f"http://127.0.0.1:{server.server_port}", at_most=100_000, seconds=1.0)
    assert time.monotonic() - start < 4
    assert got is None if pause else len(got) == 100_001  # one byte too many tells that it is not our file
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "can't read the corpus .*nothing.txt"),
        (b"", "holds nothing"),
        (b"aaaa\xff", "is not UTF-8 text \\(byte 4\\)"),
        (b"aaaaaa", "only the symbol 'a'"),
    ],
)
def test_texts_that_are_no_corpus(tmp_path, content, message):
    path = tmp_path / "nothing.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        load_corpus(path)


def test_paths_that_are_no_file(tmp_path, monkeypatch):
    for impossible in ("~nobody-of-this-name/x.txt", "a\0b"):
        with pytest.raises(CorpusError, match="can't read the corpus"):
            load_corpus(impossible)
    with pytest.raises(CorpusError, match="corpus_path must be the path of a text file, not 5"):
        load_corpus(5)
    monkeypatch.setenv("TINY_SHAKESPEARE", str(tmp_path / "gone.txt"))
    with pytest.raises(CorpusError, match=r"gone\.txt"):
        load_corpus()


def test_what_is_no_regular_file_is_never_opened(tmp_path):
    """A pipe would be waited for, /dev/zero would be read for ever."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/null", tmp_path):
        with pytest.raises(CorpusError, match="is not a regular file: give the path of a text file"):
            load_corpus(path)


def test_a_corpus_has_a_largest_size(tmp_path, monkeypatch):
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(2_000_000_000)  # a hole: it takes no room on the disk
    with pytest.raises(CorpusError, match=r"has 2,000 MB, and training on it takes about 10,000 MB.*allowed are 1,000"):
        load_corpus(tmp_path / "huge.txt")
    write(tmp_path / "small.txt", "ab" * 1000)
    monkeypatch.setattr(data.psutil, "virtual_memory", lambda: SimpleNamespace(available=5000))
    with pytest.raises(CorpusError, match="has 0 MB"):
        load_corpus(tmp_path / "small.txt")


def test_addresses_and_archives_get_the_right_hint(tmp_path):
    with pytest.raises(CorpusError, match="download it first"):
        load_corpus("https://example.org/input.txt")
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"hello"))
    with pytest.raises(CorpusError, match="is compressed: unpack it first"):
        load_corpus(tmp_path / "text.gz")


def test_windows_line_ends_and_a_byte_order_mark_are_no_characters(tmp_path):
    (tmp_path / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    assert load_corpus(tmp_path / "dos.txt").text == "one\ntwo"


def test_the_bundled_play_has_the_form_of_the_corpus(play):
    assert len(play.encode()) >= 40_000
    assert "".join(sorted(set(play))) == (
        "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # tiny Shakespeare's 65
    )
    speeches = play.strip().split("\n\n")
    assert len(speeches) > 250 and all(re.match(r"[A-Z][A-Za-z '-]*:\n\S", speech) for speech in speeches)
    lines = Counter(line for line in play.splitlines() if len(line) > 20)
    assert lines.most_common(1)[0][1] <= 3


@settings(deadline=None)
@given(st.text(min_size=1))
def test_decode_undoes_encode(text):
    tokenizer = CharTokenizer.from_text(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    again = CharTokenizer.from_json(tokenizer.to_json())
    assert again.characters == tokenizer.characters and again.vocab_size == len(set(text))


def test_ids_are_ranks_in_the_sorted_alphabet():
    assert CharTokenizer.from_text("banana").encode("nab").tolist() == [2, 0, 1]


def test_what_is_not_in_the_vocabulary():
    tokenizer = CharTokenizer.from_text("abc")
    with pytest.raises(VocabularyError, match="not in the vocabulary: 'xy'; allowed are 'abc'"):
        tokenizer.encode("ayaxb")
    for ids in ([3], [-1]):
        with pytest.raises(VocabularyError, match=r"ids must lie in 0 \.\. 2"):
            tokenizer.decode(ids)
    for text in ("", "{}", "[1]", '{"characters": "aa"}', '{"characters": ""}'):
        with pytest.raises(VocabularyError):
            CharTokenizer.from_json(text)


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


def test_a_batch_is_windows_of_the_text_and_the_same_one_later():
    tokens = torch.arange(100)
    x, y = get_batch(tokens, 500, 9, torch.Generator().manual_seed(0))
    assert x.shape == y.shape == (500, 9) and torch.equal(y, x + 1)
    assert torch.equal(x[:, 1:], x[:, :-1] + 1)
    assert x[:, 0].min() == 0 and x[:, 0].max() == 90  # every start there is


def test_batches_come_from_the_generator_alone():
    batches = [get_batch(torch.arange(1000), 4, 8, torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2)]
    assert torch.equal(batches[0], batches[1]) and not torch.equal(batches[0], batches[2])


def test_a_text_shorter_than_a_window():
    get_batch(torch.arange(9), 2, 8)
    with pytest.raises(CorpusError, match="8 tokens are too few: a context of 8 needs 9"):
        get_batch(torch.arange(8), 2, 8)


def test_word_vectors_by_hand():
    """a and b meet more often than chance has it, and a word's neighbours reach two places, not three."""
    vocabulary, vectors = data.word_vectors("a b c d e f " * 5 + "a b a b a b", size=6)
    assert vocabulary == ["a", "b", "c", "d", "e", "f"] and data.words_of("Don't, DON'T 'tis") == [
        "don't",
        "don't",
        "tis",
    ]
    assert torch.allclose(vectors.norm(dim=1), torch.ones(6))
    a, d = vocabulary.index("a"), vocabulary.index("d")
    assert vectors[a, d] == 0 and vectors[a, vocabulary.index("e")] > 0
    assert (vectors >= 0).all() and torch.equal(vectors > 0, (vectors > 0).T)


def test_rare_words_are_left_out_and_too_few_refused():
    vocabulary, vectors = data.word_vectors("a a a b b b c c d d e e f g h", size=6)
    assert vocabulary == ["a", "b", "c", "d", "e", "f"] and vectors.shape == (6, 6)
    with pytest.raises(CorpusError, match="a text with 6 different words, not 2"):
        data.word_vectors("ay, ay, no")


def test_a_batch_that_no_memory_holds_is_refused_before_it_is_made():
    with pytest.raises(ConfigError, match="a batch of 1,000,000,000 windows takes 128 GB, more than the memory"):
        data.get_batch(torch.zeros(100, dtype=torch.long), 10**9, 8)
