"""A text as the model gets it: where it is found, ids, batches; and one larger than memory."""

import dataclasses
import gzip
import hashlib
import http.server
import io
import os
import re
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from run_folder import end_of

from helpers import data
from helpers.data import (
    CharTokenizer,
    Corpus,
    first_to_validate,
    get_batch,
    load_corpus,
    open_corpus,
    prepare,
    split,
)
from helpers.errors import CorpusError
from helpers.training import train


@pytest.mark.slow
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
    with pytest.raises(CorpusError, match="not in the vocabulary: 'xy'; allowed are 'abc'"):
        tokenizer.encode("ayaxb")
    large = CharTokenizer("".join(map(chr, range(0x4E00, 0x4E00 + 3000))))
    with pytest.raises(CorpusError, match=r"'abc'; allowed are '.{99}$"):
        large.encode("abc")
    for characters in ("", "aa"):
        with pytest.raises(CorpusError, match="a vocabulary needs at least one character"):
            CharTokenizer(characters)


@pytest.mark.parametrize(
    ("size", "kind"),
    [(2, torch.uint8), (256, torch.uint8), (257, torch.int16), (40_000, torch.int32)],
)
def test_a_corpus_is_kept_in_the_smallest_integers(size, kind):
    text = "".join(map(chr, range(100, 100 + size))) * 2
    corpus = Corpus(text, data.OWN, Path("own.txt"), 64 * "0")
    assert corpus.tokens.dtype == kind and corpus.tokens.tolist() == [*range(size)] * 2
    assert torch.equal(corpus.tokenizer.encode(text), corpus.tokens.long())


def test_batches_of_small_integers_are_the_same(play):
    tokenizer = CharTokenizer.from_text(play)
    batches = [
        get_batch(tokens, 4, 8, torch.Generator().manual_seed(0))
        for tokens in (tokenizer.encode(play), tokenizer.encode(play).byte())
    ]
    assert all(torch.equal(a, b) and b.dtype == torch.long for a, b in zip(*batches, strict=True))


def test_split_is_the_first_ninety_percent():
    train, val = split(torch.arange(1_115_394), 64)
    assert (len(train), len(val), train[-1].item() + 1) == (1_003_854, 111_540, val[0].item())
    with pytest.raises(CorpusError, match="its 100 tokens leave 90 for training and 10 for validation"):
        split(torch.arange(100), 10)


def test_validation_never_reads_more_than_a_million_tokens():
    """Each record reads them all: a tenth of a large corpus would outlast the training."""
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


# ---------------------------------------------------------------- where a text is found
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
                self.wfile.write(body)

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
    override = write(nowhere / "named.txt", pretend)
    monkeypatch.setenv("TINY_SHAKESPEARE", str(override))
    assert load_corpus().path == override and load_corpus().name == data.TINY
    own = write(nowhere / "own.txt", "a text of my own")
    assert load_corpus(own).path == own and load_corpus(str(own)).name == data.OWN


def test_tiny_shakespeare_is_recognised_wherever_it_lies(nowhere, pretend):
    assert load_corpus(write(nowhere / "copy.txt", pretend)).name == data.TINY
    (nowhere / "copy.gz").write_bytes(gzip.compress(pretend.encode()))
    packed = load_corpus(nowhere / "copy.gz")
    assert (packed.name, packed.text) == (data.TINY, pretend)


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


def test_download_once_then_from_the_cache(nowhere, pretend, monkeypatch, serve):
    monkeypatch.setattr(data, "URL", serve(pretend.encode()))
    first = load_corpus()
    assert first.name == data.TINY and first.text == pretend
    monkeypatch.setattr(data, "URL", "http://127.0.0.1:9/gone")
    assert load_corpus() == first


def test_a_cache_that_cannot_be_written_costs_only_the_next_download(nowhere, pretend, monkeypatch, serve):
    (nowhere / "cache").write_text("a file in the way")
    monkeypatch.setattr(data, "URL", serve(pretend.encode()))
    assert load_corpus().name == data.TINY


def test_a_corrupted_download_is_an_error_and_leaves_nothing(nowhere, pretend, monkeypatch, serve):
    monkeypatch.setattr(data, "URL", serve(b"a log-in page"))
    with pytest.raises(CorpusError, match=r"is not tiny Shakespeare.*\b[0-9a-f]{64}\b.*\b[0-9a-f]{64}\b"):
        load_corpus()
    assert not [path for path in (nowhere / "cache").rglob("*") if path.is_file()]


def test_no_network_is_no_long_wait_and_loud(nowhere, monkeypatch):
    start = time.monotonic()
    corpus = load_corpus()
    assert time.monotonic() - start < 10
    assert corpus.name == data.BUNDLED and "NOT SHAKESPEARE" in str(corpus)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "can't read the corpus .*nothing.txt"),
        (b"aaaa\xff", "nothing.txt is not UTF-8 text: save it as UTF-8"),
        (gzip.compress(b"aaaa", mtime=0)[:-9], "can't read the text .*nothing.txt: Compressed"),
        (b"aaaa", "nothing.txt has fewer than two different characters"),
        (gzip.compress(b"name" + bytes(508) + b"to be", mtime=0), "nothing.txt is no plain text"),
    ],
)
def test_texts_that_are_no_corpus(tmp_path, content, message):
    path = tmp_path / "nothing.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        load_corpus(path)


def test_paths_that_are_no_file(tmp_path, monkeypatch):
    for path in ("~nobody-of-this-name/x.txt", "https://example.org/input.txt", tmp_path, 1984):
        with pytest.raises(CorpusError, match=r"can't read the corpus .*; give the path of a text file"):
            load_corpus(path)
    monkeypatch.setenv("TINY_SHAKESPEARE", str(tmp_path / "gone.txt"))
    with pytest.raises(CorpusError, match=r"gone\.txt"):
        load_corpus()


def test_windows_line_ends_and_a_byte_order_mark_are_no_characters(tmp_path):
    (tmp_path / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree")
    assert load_corpus(tmp_path / "dos.txt").text == "one\ntwo\nthree"


def test_the_bundled_play_has_the_form_of_the_corpus(play):
    assert len(play.encode()) >= 40_000
    assert "".join(sorted(set(play))) == (
        "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # tiny Shakespeare's 65
    )
    speeches = play.strip().split("\n\n")
    assert len(speeches) > 250 and all(re.match(r"[A-Z][A-Za-z '-]*:\n\S", speech) for speech in speeches)
    lines = Counter(line for line in play.splitlines() if len(line) > 20)
    assert lines.most_common(1)[0][1] <= 3


# ---------------------------------------------------------------- a text larger than memory
WILD = (
    "\ufeffEin Mark,\r\n\r\r\n zwei\r\n\n   M\u00e4rker \u2018\U0001f642\u2019\n"
    + 50 * "lang "
    + "\n\n\n"
    + 9 * "\n ende\r"
)


def plain(path, content):
    path.write_bytes(content)


def zipped(path, content):
    path.write_bytes(gzip.compress(content[:100]) + gzip.compress(content[100:]))


@pytest.fixture
def text(tmp_path, play):
    path = tmp_path / "text.txt"
    path.write_text(play, encoding="utf-8")
    return path


@pytest.mark.parametrize("chunk", [3, 64, 100_000])
@pytest.mark.parametrize("write", [plain, zipped])
def test_prepared_characters_are_those_of_the_text_in_memory(tmp_path, monkeypatch, write, chunk):
    """Wherever a piece ends: in a letter of four bytes, between \\r and \\n."""
    write(tmp_path / "wild", WILD.encode())
    monkeypatch.setattr(data, "CHUNK", chunk)
    in_memory = load_corpus(tmp_path / "wild")
    assert in_memory.text == io.TextIOWrapper(io.BytesIO(WILD.encode()), "utf-8-sig").read()
    prepare(tmp_path / "wild", tmp_path / "out")
    corpus = open_corpus(tmp_path / "out")
    assert corpus.tokenizer.characters == in_memory.alphabet
    assert torch.equal(corpus.tokens, in_memory.tokens)
    sha256 = hashlib.sha256(WILD.encode()).hexdigest()
    assert corpus.name == data.OWN and corpus.sha256 == in_memory.sha256 == sha256


def test_prepared_tokens_are_in_the_smallest_integers_too(tmp_path):
    (tmp_path / "text.txt").write_text("".join(map(chr, range(200, 600))), encoding="utf-8")
    prepare(tmp_path / "text.txt", tmp_path / "out")
    corpus = open_corpus(tmp_path / "out")
    assert corpus.tokens.tolist() == [*range(400)]
    assert corpus.tokens.dtype == load_corpus(tmp_path / "text.txt").tokens.dtype


@pytest.mark.slow
def test_a_text_and_its_prepared_tokens_give_the_same_run(fresh, quick, tmp_path, text):
    """And each goes on with a run that the other began."""
    prepare(text, tmp_path / "prepared")
    for number, on in enumerate((text, tmp_path / "prepared")):
        for folder, begun_on, steps in (("whole", on, 12), ("in two", text, 8), ("in two", on, 12)):
            corpus = open_corpus(begun_on)
            config = dataclasses.replace(quick, max_steps=steps, warmup_steps=2)
            out = tmp_path / f"{folder} {number}"
            options = {"out_dir": out, "corpus": corpus, "resume": out.exists()}
            train(fresh(), *split(corpus.tokens, 16), config, **options)
    assert end_of(tmp_path / "whole 0") == end_of(tmp_path / "whole 1")
    assert end_of(tmp_path / "in two 0") == end_of(tmp_path / "in two 1")


@pytest.mark.parametrize("name", ["tokens.npy", "corpus.json"])
def test_a_file_that_is_cut_or_missing_is_no_corpus(tmp_path, text, name):
    prepare(text, tmp_path / "out")
    path = tmp_path / "out" / name
    whole = path.read_bytes()
    for rest in (whole[:-1], whole[:5], b""):
        path.write_bytes(rest)
        with pytest.raises(CorpusError, match="is no corpus that python -m"):
            open_corpus(tmp_path / "out")
    path.unlink()
    with pytest.raises(CorpusError, match="is no corpus that python -m"):
        open_corpus(tmp_path / "out")


def test_the_command_prepares_a_text(tmp_path, text, capsys):
    assert data.command(data.main, [str(text), "--out", str(tmp_path / "out")]) == 0
    assert "from the folder out" in capsys.readouterr().out


def test_what_was_stopped_is_no_corpus_and_can_be_begun_again(tmp_path, text, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(data, "write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            prepare(text, tmp_path / "out")
    with pytest.raises(CorpusError, match="is no corpus that python -m"):
        open_corpus(tmp_path / "out")
    assert len(prepare(text, tmp_path / "out").tokens) > 40_000


def test_a_folder_that_is_there_is_left_alone(tmp_path, text):
    prepare(text, tmp_path / "out")
    before = text.read_bytes()
    for out in (tmp_path / "out", text):
        with pytest.raises(CorpusError, match="is there already: name another folder"):
            prepare(text, out)
    assert text.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "has fewer than two different characters"),
        (2500 * b"ab" + b"\xff", "is not UTF-8 text: save it as UTF-8"),
    ],
)
def test_a_bad_text_gets_one_sentence_and_leaves_nothing(tmp_path, content, sentence):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(CorpusError, match=sentence):
        prepare(tmp_path / "bad", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes of this kind")
def test_a_pipe_is_no_text_to_prepare(tmp_path):
    """It can be read once only, and preparing reads twice."""
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        os.write(writer, b"a text")
        with pytest.raises(CorpusError, match=r"can't read the text .*pipe: .*not seekable"):
            data.prepare(tmp_path / "pipe", tmp_path / "out")
    finally:
        os.close(writer)
    assert not (tmp_path / "out").exists()
