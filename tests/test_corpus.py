"""Where a text is found, in which order, and what is refused."""

import contextlib
import gzip
import hashlib
import http.server
import os
import re
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from helpers.data import load_corpus
from helpers.errors import CorpusError


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine with no corpus, an empty cache and no network."""
    monkeypatch.delenv("TINY_SHAKESPEARE", raising=False)
    monkeypatch.setattr(corpus, "BESIDE_THE_CLONE", tmp_path / "shared" / "tinyshakespeare.txt")
    monkeypatch.setattr(corpus.platformdirs, "user_cache_path", lambda name: tmp_path / "cache" / name)
    monkeypatch.setattr(corpus, "URL", "http://127.0.0.1:9/nobody-listens-here")
    return tmp_path


@pytest.fixture
def pretend(monkeypatch, play):
    """Let the play pass for tiny Shakespeare, so that the tests need no corpus."""
    monkeypatch.setattr(corpus, "SHA256", hashlib.sha256(play.encode()).hexdigest())
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
    assert load_corpus().path == corpus.BUNDLED_PLAY
    cached = write(nowhere / "cache" / "dot-products-to-nanogpt" / "tinyshakespeare.txt", pretend)
    assert load_corpus().path == cached
    beside = write(corpus.BESIDE_THE_CLONE, pretend)
    assert load_corpus().path == beside
    named = write(nowhere / "named.txt", pretend)
    monkeypatch.setenv("TINY_SHAKESPEARE", str(named))
    assert load_corpus().path == named and load_corpus().name == corpus.TINY
    own = write(nowhere / "own.txt", "a text of my own")
    assert load_corpus(own).path == own and load_corpus(str(own)).name == corpus.OWN


def test_tiny_shakespeare_is_recognised_wherever_it_lies(nowhere, pretend):
    assert load_corpus(write(nowhere / "copy.txt", pretend)).name == corpus.TINY


@pytest.mark.parametrize("place", ["environment", "beside", "cache"])
def test_a_wrong_checksum_names_the_file_and_both_sums(nowhere, pretend, monkeypatch, place):
    path = {
        "environment": nowhere / "named.txt",
        "beside": corpus.BESIDE_THE_CLONE,
        "cache": nowhere / "cache" / "dot-products-to-nanogpt" / "tinyshakespeare.txt",
    }[place]
    write(path, "not tiny Shakespeare")
    if place == "environment":
        monkeypatch.setenv("TINY_SHAKESPEARE", str(path))
    with pytest.raises(CorpusError) as error:
        load_corpus()
    assert str(path) in str(error.value) and corpus.SHA256 in str(error.value)
    assert len(re.findall(r"\b[0-9a-f]{64}\b", str(error.value))) == 2


def test_download_once_then_from_the_cache(nowhere, pretend, monkeypatch, serve, capfd):
    monkeypatch.setattr(corpus, "URL", serve(pretend.encode()))
    first = load_corpus()
    assert first.name == corpus.TINY and first.text == pretend
    monkeypatch.setattr(corpus, "URL", "http://127.0.0.1:9/gone")
    assert load_corpus() == first
    assert "%" in capfd.readouterr().err  # there was a bar


def test_a_cache_that_cannot_be_written_costs_only_the_next_download(nowhere, pretend, monkeypatch, serve):
    (nowhere / "cache").write_text("a file in the way")
    monkeypatch.setattr(corpus, "URL", serve(pretend.encode()))
    assert load_corpus().name == corpus.TINY


def test_the_server_is_asked_for_the_plain_file(monkeypatch):
    """Raw bytes are counted and hashed as they come: a compressed answer would look like another file."""
    asked = []
    monkeypatch.setattr("requests.get", lambda *a, **options: asked.append(options["headers"]))
    corpus._fetch("http://127.0.0.1", at_most=10, seconds=1)
    assert asked == [{"Accept-Encoding": "identity"}]


def test_a_corrupted_download_is_an_error_and_leaves_nothing(nowhere, pretend, monkeypatch, serve):
    monkeypatch.setattr(corpus, "URL", serve(b"a log-in page"))
    with pytest.raises(CorpusError, match=r"corrupted.*\b[0-9a-f]{64}\b.*\b[0-9a-f]{64}\b"):
        load_corpus()
    assert not [path for path in (nowhere / "cache").rglob("*") if path.is_file()]


def test_no_network_is_no_long_wait_and_loud(nowhere, monkeypatch):
    start = time.monotonic()
    found = load_corpus()
    assert time.monotonic() - start < 10
    assert found.name == corpus.BUNDLED and "NOT SHAKESPEARE" in str(found)


@pytest.mark.slow
def test_a_network_that_never_answers_is_given_up(monkeypatch):
    hung_up = threading.Event()
    monkeypatch.setattr("requests.get", lambda *a, **k: hung_up.wait(60))  # as a look-up of a name may hang
    start = time.monotonic()
    assert corpus._fetch("http://127.0.0.1", at_most=10, seconds=60, patience=0.3) is None
    assert time.monotonic() - start < 5
    hung_up.set()


@pytest.mark.torture
@pytest.mark.slow
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
    got = corpus._fetch(f"http://127.0.0.1:{server.server_port}", at_most=100_000, seconds=1.0)
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
    with pytest.raises(CorpusError, match=r"has 2,000 MB, and training takes about 10,000 MB.*allowed are 1,000"):
        load_corpus(tmp_path / "huge.txt")
    write(tmp_path / "small.txt", "ab" * 1000)
    monkeypatch.setattr(corpus.psutil, "virtual_memory", lambda: SimpleNamespace(available=5000))
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
