"""python -m helpers.data: the tokens of a text of any size, whole or not at all, however often it is stopped."""

import errno
import gzip
import mmap
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from filelock import FileLock
from run_folder import end_of

from helpers.commands import prepare
from helpers.runs import checkpoint
from helpers.scaling import shards
from helpers.scaling.vocabulary import tokenizer_of
from helpers.support.errors import ConfigError
from helpers.world.corpus import OWN, load_corpus, open_corpus
from pictures.packing import pack

WILD = (
    "\ufeffEin Mark,\r\n\r\r\n zwei\r\n\n   Märker \u2018\U0001f642\u2019\n" + 50 * "lang " + "\n\n\n" + 9 * "\n ende\r"
)


@pytest.fixture
def preparing(monkeypatch, capsys):
    """`python -m helpers.data` with small shards: its status, what it prints, and what it says beside that."""
    monkeypatch.setattr(shards, "SHARD_BYTES", mmap.ALLOCATIONGRANULARITY)
    monkeypatch.setattr(prepare, "PIECE", 1000)

    def command(*options):
        status = prepare.main([*map(str, options)])
        return status, *capsys.readouterr()

    return command


@pytest.fixture
def text(tmp_path, play):
    path = tmp_path / "text.txt"
    path.write_text(play, encoding="utf-8")
    return path


def content_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != ".lock"}


# ---------------------------------------------------------------- as in memory
def plain(path, content):
    path.write_bytes(content)


def zipped(path, content):
    path.write_bytes(gzip.compress(content[:100]) + gzip.compress(content[100:]))


def zstandard(path, content):
    path.write_bytes(prepare.zstd.compress(content[:100]) + prepare.zstd.compress(content[100:]))


@pytest.mark.parametrize("piece", [3, 64, 100_000])
@pytest.mark.parametrize("write", [plain, zipped, zstandard])
def test_characters_are_those_of_the_text_in_memory(preparing, tmp_path, monkeypatch, write, piece):
    """Wherever a piece ends: in a letter of four bytes, between \\r and \\n."""
    monkeypatch.setattr(prepare, "PIECE", piece)
    plain(tmp_path / "wild.txt", WILD.encode())
    write(tmp_path / "wild", WILD.encode())
    assert preparing(tmp_path / "wild", "--out", tmp_path / "out")[0] == 0
    found, expected = open_corpus(tmp_path / "out"), load_corpus(tmp_path / "wild.txt")
    assert found.tokenizer.characters == expected.alphabet and torch.equal(found.tokens, expected.tokens)
    assert (found.name, found.sha256) == (OWN, expected.sha256)


@pytest.mark.parametrize("tokenizer", ["bytes", "bpe"])
def test_other_tokens_are_those_of_the_text_in_memory(preparing, tmp_path, text, tokenizer):
    status, printed, said = preparing(text, "--out", tmp_path / "out", "--tokenizer", tokenizer)
    found = open_corpus(tmp_path / "out")
    assert (status, said) == (0, "") and f"{len(found.tokens):,} tokens" in printed
    assert torch.equal(found.tokens.long(), found.tokenizer.encode(load_corpus(text).text))
    assert len(list((tmp_path / "out").glob("*.bin"))) > 5


def test_byte_pairs_do_not_depend_on_where_a_piece_ends(preparing, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "PIECE", 400)  # more than the longest line has
    (tmp_path / "wild.txt").write_text(50 * WILD[1:], encoding="utf-8", newline="")
    assert (
        preparing(tmp_path / "wild.txt", "--out", tmp_path / "out", "--tokenizer", "bpe", "--vocab-size", 300)[0] == 0
    )
    found = open_corpus(tmp_path / "out")
    assert torch.equal(found.tokens.long(), found.tokenizer.encode(load_corpus(tmp_path / "wild.txt").text))


def test_several_files_are_one_text(preparing, tmp_path):
    for name, content in (("b", "zuerst"), ("a", ""), ("c", "\ufeffdann")):
        plain(tmp_path / name, content.encode())
    assert preparing(*(tmp_path / name for name in "bac"), "--out", tmp_path / "out")[0] == 0
    found = open_corpus(tmp_path / "out")
    assert found.tokenizer.decode(found.tokens) == "zuerstdann"


@pytest.mark.slow
def test_a_text_and_its_shards_give_the_same_run_and_resume_each_other(preparing, training, tmp_path, text):
    preparing(text, "--out", tmp_path / "shards")
    options = ("--preset", "smoke", "--sample-length", 5, "--out")
    for number, on in enumerate((text, tmp_path / "shards")):
        training(*options, tmp_path / f"whole-{number}", on=on)
        training(*options, tmp_path / f"in-two-{number}", "--max-steps", 8, on=text)
        status, printed, _ = training(*options, tmp_path / f"in-two-{number}", "--resume", on=on)
        assert status == 0 and "has made 8 of 12 steps, and goes on" in printed
    assert end_of(tmp_path / "whole-0") == end_of(tmp_path / "whole-1")
    assert end_of(tmp_path / "in-two-0") == end_of(tmp_path / "in-two-1")


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", ["bytes", "bpe"])
def test_a_run_on_other_tokens_keeps_them_and_writes_with_them(
    preparing, training, sampling, runs, tmp_path, text, tokenizer
):
    preparing(text, "--out", tmp_path / "shards", "--tokenizer", tokenizer, "--vocab-size", 300)
    if tokenizer == "bytes":
        preparing(text, "--out", tmp_path / "shards", "--tokenizer", tokenizer)
    assert training("--preset", "smoke", "--sample-length", 5, on=tmp_path / "shards")[0] == 0
    (folder,) = runs.iterdir()
    saved = (folder / "tokenizer.json").read_text(encoding="utf-8")
    assert folder.name.endswith("-tokens") and saved == tokenizer_of(saved).to_json()
    status, printed, said = sampling("--prompt", "Née \U0001f642", "--length", 20)
    assert status == 0 and printed.startswith("Née \U0001f642") and said.startswith("writing with smoke")
    with pytest.raises(ConfigError, match="the page writes characters, and this model writes bytes"):
        pack(*checkpoint.load_model(folder))


# ---------------------------------------------------------------- what is refused
def pipe(path):
    os.mkfifo(path)


def writes(content):
    return lambda path: path.write_bytes(content)


PACKED = {
    "gzip": gzip.compress(random.Random(1).randbytes(5000).hex().encode()),
    "zstd": prepare.zstd.compress(random.Random(1).randbytes(5000).hex().encode()),
}


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "can't read the text {}: there is no such file"),
        (lambda path: path.mkdir(), "can't read the text {}: it is no regular file"),
        (pipe, "can't read the text {}: it is no regular file"),
        (writes(b""), "there is no text in the files: a corpus needs at least two different characters"),
        (writes(b"\xef\xbb\xbf"), "there is no text in the files: a corpus needs at least two different characters"),
        (writes(b"aaa"), "the text holds only 'a': a corpus needs at least two different characters"),
        (writes(2500 * b"ab" + b"\xff"), "{} is not UTF-8 text (byte 5,000): save it as UTF-8"),
        (writes(999 * b"a" + "é".encode()[:1]), "{} is not UTF-8 text (byte 999): save it as UTF-8"),
        (writes(b"PK\x03\x04..."), "{} is compressed, and neither by gzip nor by zstd: unpack it first"),
        (writes(PACKED["gzip"][:-9]), "can't read the text {}: Compressed file ended before"),
        (writes(PACKED["gzip"][:-5] + b"12345"), "can't read the text {}: CRC check failed"),
        (writes(PACKED["gzip"][:99] + bytes(99)), "can't read the text {}: "),
        (writes(PACKED["zstd"][:-9]), "can't read the text {}: Compressed file ended before"),
        (writes(PACKED["zstd"][:6] + 5000 * b"\xff"), "can't read the text {}: Unable to decompress"),
        (writes(gzip.compress(b"\xff\xfe")), "{} is not UTF-8 text (byte 0): save it as UTF-8"),
    ],
)
def test_a_bad_text_gets_one_sentence_and_leaves_nothing(preparing, tmp_path, text, make, sentence):
    bad = tmp_path / "bad"
    make(bad)
    status, printed, said = preparing(bad, "--out", tmp_path / "out")
    assert (status, printed, said.count("\n")) == (2, "", 1) and said.startswith("error: " + sentence.format(bad))
    assert not (tmp_path / "out").exists()


ONLY_BPE = "--vocab-size is for bpe: the text decides how many characters there are, and of bytes there are 256"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--tokenizer", "words"], "unknown tokenizer 'words': choose one of characters, bytes, bpe"),
        (["--vocab-size", "300"], ONLY_BPE),
        (["--tokenizer", "bytes", "--vocab-size", "256"], ONLY_BPE),
        (["--tokenizer", "bpe", "--vocab-size", "256"], "--vocab-size must be 257 to 32,768, not 256"),
        (["--tokenizer", "bpe", "--vocab-size", "32769"], "--vocab-size must be 257 to 32,768, not 32,769"),
        (["--out", ""], "--out must name a folder"),
        (["--nonsense"], "unrecognized arguments: --nonsense; --help lists the options"),
    ],
)
def test_a_bad_option_gets_one_sentence_and_leaves_nothing(preparing, tmp_path, text, options, sentence):
    assert preparing(text, "--out", tmp_path / "out", *options) == (2, "", f"error: {sentence}\n")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(preparing, tmp_path, text):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for out in (tmp_path / "mine", text):
        said = f"error: {out} is there already, and holds no corpus: name another folder by --out\n"
        assert preparing(text, "--out", out) == (2, "", said)
    assert content_of(tmp_path / "mine") == {"letter.txt": b"dear"}


@pytest.mark.parametrize("options", [[], ["--tokenizer", "bytes"]])
def test_the_corpus_of_another_text_is_left_alone(preparing, tmp_path, text, options):
    out = tmp_path / "out"
    preparing(text, "--out", out)
    before = content_of(out)
    if not options:
        text.write_text("another one")
    said = f"error: {out} holds a corpus of other texts or tokens: choose another folder\n"
    assert preparing(text, "--out", out, *options) == (2, "", said) and content_of(out) == before


def test_two_programs_do_not_write_into_one_folder(preparing, tmp_path, text):
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"):
        status, _, said = preparing(text, "--out", tmp_path / "out")
    assert (
        status == 2 and said.startswith("error: another program is writing into") and not content_of(tmp_path / "out")
    )


def test_a_text_that_changes_meanwhile_is_no_corpus(preparing, tmp_path, text, monkeypatch):
    real = prepare._write_shards
    monkeypatch.setattr(prepare, "_write_shards", lambda *given: (real(*given), text.write_text("new"))[0])
    status, _, said = preparing(text, "--out", tmp_path / "out")
    assert status == 2 and said == "error: a text was changed while it was read: delete the folder and begin again\n"
    status, _, said = preparing(text, "--out", tmp_path / "out")
    assert status == 2 and "holds a corpus of other texts" in said


# ---------------------------------------------------------------- stops
@pytest.fixture
def whole(preparing, tmp_path, text):
    """What an undisturbed command leaves."""
    preparing(text, "--out", tmp_path / "whole")
    return content_of(tmp_path / "whole")


@pytest.mark.parametrize("write", [1, 2, 3, 8, 15])
def test_on_a_full_disk_nothing_looks_whole_and_the_same_command_goes_on(
    preparing, tmp_path, text, whole, monkeypatch, write
):
    out = tmp_path / "out"
    left = iter(range(write - 1, -1000, -1))
    real = os.replace

    def put(part, path):
        if next(left) == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(part, path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", put)
        status, printed, said = preparing(text, "--out", out)
    assert (status, printed, said.count("\n")) == (2, "", 1)
    assert said.startswith(f"error: can't write {out}") and "No space left on device" in said
    assert said.endswith("nothing is written yet\n" if write == 1 else "the same command goes on\n")
    assert not any(name.endswith(".part") or name == "manifest.json" for name in content_of(out))
    if write > 1:
        with pytest.raises(prepare.CorpusError, match="is prepared in part: the command that began it goes on"):
            open_corpus(out)
    assert preparing(text, "--out", out)[0] == 0 and content_of(out) == whole


def test_ctrl_c_keeps_the_shards_that_are_whole(preparing, tmp_path, text, whole, monkeypatch):
    out = tmp_path / "out"
    real = shards.write

    def stop(path, manifest):
        real(path, manifest)
        if len(manifest.shards) == 3:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(shards, "write", stop)
        said = f"stopped by Ctrl-C: {out} keeps the shards that are whole, and the same command goes on\n"
        assert preparing(text, "--out", out) == (130, "", said)
    kept = (out / "00001.bin").stat().st_mtime_ns
    assert preparing(text, "--out", out)[0] == 0 and content_of(out) == whole
    assert (out / "00001.bin").stat().st_mtime_ns == kept


def test_the_same_command_mends_a_damaged_corpus(preparing, tmp_path, text, whole):
    out = tmp_path / "whole"
    (out / "00004.bin").write_bytes(b"damaged")
    (out / "00006.bin").unlink()
    kept = (out / "00003.bin").stat().st_mtime_ns
    assert preparing(text, "--out", out)[0] == 0 and content_of(out) == whole
    assert (out / "00003.bin").stat().st_mtime_ns == kept


def test_in_a_terminal_there_is_a_bar(preparing, tmp_path, text, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "preparing:   0%" in preparing(text, "--out", tmp_path / "out")[2]


COMMAND = f"""
import sys
from helpers.commands import prepare
from helpers.scaling import shards
shards.SHARD_BYTES = {mmap.ALLOCATIONGRANULARITY}
prepare.PIECE = 1000
sys.exit(prepare.main(sys.argv[1:]))
"""


def kill_after(number_of_files: int, options: list[str], out) -> bool:
    """Start the command and kill it when so many files are there; False if it was done sooner."""
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *options], stdout=subprocess.DEVNULL)
    while process.poll() is None and (not out.exists() or len(list(out.iterdir())) < number_of_files):
        time.sleep(0.001)
    process.kill()
    return process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_a_killed_command_goes_on_where_it_stopped(preparing, tmp_path, text, whole):
    out = tmp_path / "out"
    assert kill_after(7, [str(text), "--out", str(out)], out)
    assert "manifest.json" not in content_of(out) and "00002.bin" in content_of(out)
    kept = (out / "00001.bin").stat().st_mtime_ns
    assert preparing(text, "--out", out)[0] == 0 and content_of(out) == whole
    assert (out / "00001.bin").stat().st_mtime_ns == kept


@pytest.mark.torture
@pytest.mark.parametrize("tokenizer", ["characters", "bytes", "bpe"])
def test_kills_at_any_moment_change_nothing(preparing, tmp_path, play, tokenizer):
    """Each kill comes a few files later than the one before, until the command is done."""
    text = tmp_path / "text.gz"
    text.write_bytes(gzip.compress(4 * play.encode()))
    options = [str(text), "--tokenizer", tokenizer, "--out"]
    preparing(*options, tmp_path / "whole")
    out = tmp_path / "out"
    kills = 0
    while kill_after(2 + 3 * kills, [*options, str(out)], out):
        kills += 1
        assert "manifest.json" not in content_of(out)
    assert kills > 5 and preparing(*options, out)[0] == 0 and content_of(out) == content_of(tmp_path / "whole")
