"""Files that are texts, nearly texts, and no texts at all."""

import bz2
import gzip
import io
import lzma
import os
import socket
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from helpers.core.data import CharTokenizer, split
from helpers.support.errors import CorpusError
from helpers.world.corpus import LARGEST, load_corpus
from tools.torture import small
from tools.torture.harness import REFUSED, RIGHT, Attempt, bad, group
from tools.torture.small import PLAIN, refused

CONTEXT = small.SIZES["context_length"]

# What a maker returns: the path to give, the text that must come out, or None when it must be refused ("?" when either
# is right: nobody can know whether it is meant as a text).
Made = tuple[object, str | None]
Maker = Callable[[Path, Random], Made]


def _text(random: Random, length: int | None = None, characters: str = "abcdefgh \n.,;") -> str:
    return "".join(random.choice(characters) for _ in range(length if length is not None else random.randint(200, 600)))


def _scalars(random: Random, count: int = 300) -> str:
    """Characters from all over Unicode."""
    points = (random.choice((random.randrange(0xD800), random.randrange(0xE000, 0x110000))) for _ in range(count))
    return "".join(map(chr, points))


def text(make: Callable[[Random], str]) -> Maker:
    def maker(folder: Path, random: Random) -> Made:
        content = make(random)
        (folder / "text.txt").write_bytes(content.encode())
        kept = content.removeprefix("\ufeff").replace("\r\n", "\n")
        return folder / "text.txt", kept if len(set(kept)) > 1 else None

    return maker


def raw(make: Callable[[Random], bytes], expected: str | None = None) -> Maker:
    def maker(folder: Path, random: Random) -> Made:
        (folder / "text.txt").write_bytes(make(random))
        return folder / "text.txt", expected

    return maker


def path(make: Callable[[Path], object]) -> Maker:
    return lambda folder, random: (make(folder), None)


def _broken(random: Random) -> bytes:
    """A text with one byte that UTF-8 never has."""
    content = bytearray(_text(random).encode())
    content[random.randrange(len(content))] = random.choice((0x80, 0xBF, 0xC0, 0xC1, 0xF5, 0xFE, 0xFF))
    return bytes(content)


def _cut_character(random: Random) -> bytes:
    return _text(random).encode() + random.choice(("é", "中", "\U0001f600")).encode()[:-1]


def _cesu(random: Random) -> bytes:
    """A character beyond the first 65,536 as two surrogates of three bytes each, as some databases write it."""
    return _text(random).encode() + "\ud83d\ude00".encode("utf-8", "surrogatepass")


def _zip(random: Random) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("text.txt", _text(random))
    return packed.getvalue()


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def _socket(folder: Path) -> Path:
    here = os.getcwd()
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    os.chdir(here)
    return folder / "socket"


def _sparse(folder: Path) -> Path:
    with (folder / "large.txt").open("wb") as file:
        file.truncate(1 << 43)
    return folder / "large.txt"


def _just_over(folder: Path) -> Path:
    with (folder / "large.txt").open("wb") as file:
        file.truncate(LARGEST + 1)
    return folder / "large.txt"


def _circle(folder: Path) -> Path:
    (folder / "circle").symlink_to("circle")
    return folder / "circle"


def _link(folder: Path, random: Random) -> Made:
    content = _text(random)
    (folder / "target").write_text(content)
    (folder / "link").symlink_to("target")
    return folder / "link", content


def _odd_name(folder: Path, random: Random) -> Made:
    place = folder / random.choice(("two\nlines", "\x1b[31mred", "a b", "-x", "中", "'quoted\"", "%s{0}", "~"))
    place.write_text("abc" * 100)
    return place, "abc" * 100


def _border(random: Random) -> str:
    """About as long as the shortest text that leaves a window for validation."""
    return _text(random, random.randint(10 * CONTEXT - 15, 10 * CONTEXT + 25), "ab")


CONTROLS = "ab\n" + "".join(map(chr, (*range(32), *range(127, 160))))
BIDI = "ab \u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200f"
UNASSIGNED = "a\ue000\U000e0001\ufffe\uffff\U0010ffff\u0378"

MAKERS: dict[str, Maker] = {
    "a plain text": text(_text),
    "nothing": text(lambda r: ""),
    "one character": text(lambda r: _text(r, 1)),
    "two characters": text(lambda r: "ab"),
    "one symbol": text(lambda r: r.choice("a\n\0 é") * r.randint(1, 500)),
    "a mark of byte order alone": text(lambda r: "\ufeff"),
    "a mark of byte order and a text": text(lambda r: "\ufeff" + _text(r)),
    "two marks of byte order": text(lambda r: "\ufeff\ufeff" + _text(r)),
    "Windows' ends of lines": text(lambda r: _text(r).replace("\n", "\r\n")),
    "old Macs' ends of lines": text(lambda r: _text(r).replace("\n", "\r")),
    "only ends of lines": text(lambda r: "\r\n" * r.randint(1, 300)),
    "the length of a window": text(_border),
    "all of Unicode": text(_scalars),
    "every character once": text(lambda r: "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))),
    "NULs": text(lambda r: _text(r, characters="ab\0")),
    "control characters": text(lambda r: _text(r, characters=CONTROLS)),
    "terminal commands": text(lambda r: _text(r, characters="ab") + "\x1b]0;owned\x07\x1b[2J\x9b31m" * 20),
    "bidi characters": text(lambda r: _text(r, characters=BIDI)),
    "separators": text(lambda r: _text(r, characters="a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")),
    "combining and joining": text(lambda r: _text(r, characters="e\u0301\u200d\U0001f468\U0001f469\ufe0f\u00e9")),
    "private, unassigned, non-characters": text(lambda r: _text(r, characters=UNASSIGNED)),
    "one very long line": text(lambda r: _text(r, 20000, "abc ")),
    "a broken byte": raw(_broken),
    "a character cut off": raw(_cut_character),
    "too long a form": raw(lambda r: b"abc\xc0\x80" * 50),
    "surrogates in UTF-8": raw(_cesu),
    "Latin-1": raw(lambda r: ("über " + _text(r)).encode("latin-1")),
    "UTF-16": raw(lambda r: _text(r).encode("utf-16")),
    "UTF-32": raw(lambda r: _text(r).encode("utf-32")),
    "UTF-16 without a mark": raw(lambda r: _text(r).encode("utf-16-le"), "?"),
    "gzip": raw(lambda r: gzip.compress(_text(r).encode())),
    "bzip2": raw(lambda r: bz2.compress(_text(r).encode())),
    "xz": raw(lambda r: lzma.compress(_text(r).encode())),
    "zip": raw(_zip),
    "a picture": raw(lambda r: b"\x89PNG\r\n\x1a\n" + r.randbytes(300)),
    "random bytes": raw(lambda r: r.randbytes(r.randint(20, 2000))),
    "a FIFO": path(_fifo),
    "a socket": path(_socket),
    "a folder": path(lambda folder: folder),
    "/dev/zero": path(lambda folder: "/dev/zero"),
    "/dev/null": path(lambda folder: "/dev/null"),
    "/dev/urandom": path(lambda folder: "/dev/urandom"),
    "/dev/stdin": path(lambda folder: "/dev/stdin"),
    "/proc/self/mem": path(lambda folder: "/proc/self/mem"),
    "a file of 8 TB": path(_sparse),
    "a byte over the limit": path(_just_over),
    "a link in a circle": path(_circle),
    "a link to a text": _link,
    "an odd name": _odd_name,
    "no such file": path(lambda folder: folder / "missing.txt"),
    "inside a file": path(lambda folder: small.corpus_path() / "text.txt"),
    "a URL": path(lambda folder: "https://example.org/text.txt"),
    "a file URL": path(lambda folder: f"file://{small.corpus_path()}"),
    "no such user": path(lambda folder: "~no-such-user/text.txt"),
    "a NUL in its name": path(lambda folder: f"{folder}/a\0b"),
    "a surrogate in its name": path(lambda folder: f"{folder}/a\ud800"),
    "a name of 5,000": path(lambda folder: f"{folder}/{'n' * 5000}"),
    "a number": path(lambda folder: 3),
    "a list": path(lambda folder: ["text.txt"]),
    "bytes": path(lambda folder: b"text.txt"),
    "True": path(lambda folder: True),
    "NaN": path(lambda folder: float("nan")),
}  # fmt: skip


@group("corpora", count=500, quick=62, seconds=30)
def corpora(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    name, make = list(MAKERS.items())[k % len(MAKERS)]
    place, expected = make(folder, random)
    trained = random.random() < 0.15 and isinstance(place, (str, Path)) and "every character" not in name

    def attempt() -> str:
        verdict = _load(place, expected)
        if not trained or verdict.startswith("bad"):
            return verdict
        return _train_at_a_terminal(place, folder, verdict == RIGHT)

    return f"{name}{', trained on at a terminal' if trained else ''}", attempt


def _load(place: object, expected: str | None) -> str:
    """Load, encode, split, and back again."""
    try:
        corpus = load_corpus(place)
        if expected is None:
            return bad(f"accepted: {corpus.text[:40]!r}")
        if expected != "?" and corpus.text != expected:
            return bad("another text than the file holds")
        tokenizer = CharTokenizer.from_text(corpus.text)
        tokens = tokenizer.encode(corpus.text)
        alphabet = "".join(sorted(set(corpus.text)))
        if tokenizer.decode(tokens.tolist()) != corpus.text or alphabet != tokenizer.characters:
            return bad("encoding and decoding give another text")
        train, val = split(tokens, CONTEXT)
        if len(train) + len(val) != len(tokens) or min(len(train), len(val)) <= CONTEXT:
            return bad(f"split into {len(train)} and {len(val)}")
        return RIGHT
    except CorpusError as error:
        if expected is not None and expected != "?" and len(expected) >= 10 * (CONTEXT + 1):
            return bad(f"refused: {error}")
        return REFUSED if "\n" not in str(error) or "\n" in str(place) else bad(f"more than one line: {error}")


def _train_at_a_terminal(place: object, folder: Path, right: bool) -> str:
    """One step of training on it, by the command, with a terminal as the reader: which must never get a command."""
    arguments = PLAIN.train_into(folder / "run", "--max-steps", "1", "--corpus", str(place))
    outcome = small.run(arguments, folder, terminal=True)
    if evil := unprintable(outcome.out + outcome.err):
        return bad(f"a terminal gets {evil!r}")
    if outcome.status == 0:
        return RIGHT if right else bad("trained on it")
    verdict = refused(outcome)
    return bad(f"loads, but can't be trained on: {outcome.err}") if right and verdict == REFUSED else verdict


def unprintable(shown: str) -> str:
    return "".join(sorted({c for c in shown if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf")}))
