"""python -m helpers.data: texts of any size as tokens in files, for a training with `--corpus DIR`.

python -m helpers.data FILE... --out DIR --tokenizer bpe --vocab-size 4096
"""

import codecs
import gzip
import hashlib
import signal
import sys
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from helpers.core.data import CharTokenizer, alphabet_of
from helpers.runs.folder import folder_named, locked
from helpers.scaling import shards
from helpers.scaling.shards import MANIFEST, PROGRESS, Manifest
from helpers.scaling.vocabulary import LARGEST, ByteTokenizer, Tokenizer, learn_byte_pairs, tokenizer_of
from helpers.support import console, files
from helpers.support.console import shown
from helpers.support.errors import ConfigError, CorpusError, StorageError
from helpers.world.corpus import COMPRESSED

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 1 << 17  # bytes that are read at once; the shards' `after` counts such pieces
LEARN_FROM = 20_000_000  # bytes at the beginning of the text, from which pairs of bytes are learned
TOKENIZERS = ("characters", "bytes", "bpe")


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status is as in `console.command`."""
    return console.command(_command, arguments)


def _command(arguments: list[str]) -> None:
    parser = console.Options(prog="python -m helpers.data", description="Prepare texts of any size for a training.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="UTF-8 text, plain or compressed by gzip or zstd")
    parser.add_argument("--out", required=True, help="folder for the corpus, for helpers.training --corpus")
    parser.add_argument("--tokenizer", default="characters", help=f"{', '.join(TOKENIZERS)} (default: characters)")
    parser.add_argument("--vocab-size", type=int, help="tokens of bpe: 257 to 32,768 (default: 4,096)")
    told = parser.parse_args(arguments)
    asked = _asked(told.tokenizer, told.vocab_size)
    folder = folder_named(told.out, "--out")
    paths = [_text_file(name) for name in told.files]
    with _saying_what_is_kept(folder), _bar(paths) as bar:
        manifest = prepare(paths, folder, asked, bar)
    kinds = tokenizer_of(manifest.tokenizer).vocab_size
    shape = f"{manifest.tokens:,} tokens, {kinds:,} different ones, in {len(manifest.shards):,} shards"
    console.say(f"{shown(folder)}: {shape}")


def _asked(tokenizer: str, vocab_size: int | None) -> str:
    """The tokenizer and its size, as the manifest keeps them; ConfigError for what there isn't."""
    if tokenizer not in TOKENIZERS:
        raise ConfigError(f"unknown tokenizer {shown(repr(tokenizer))}: choose one of {', '.join(TOKENIZERS)}")
    if tokenizer != "bpe":
        if vocab_size is not None:
            raise ConfigError(
                "--vocab-size is for bpe: the text decides how many characters there are, and of bytes there are 256"
            )
        return tokenizer
    size = 4096 if vocab_size is None else vocab_size
    if not 256 < size <= LARGEST:
        raise ConfigError(f"--vocab-size must be 257 to {LARGEST:,}, not {size:,}")
    return f"bpe {size}"


def _text_file(name: str) -> Path:
    try:
        path = Path(name).expanduser()
        if path.is_file():
            return path
        why = "it is no regular file" if path.exists() else "there is no such file"
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    raise CorpusError(f"can't read the text {shown(name)}: {why}")


# ---------------------------------------------------------------- from texts to shards
def prepare(paths: Sequence[Path], folder: Path, asked: str, bar: tqdm) -> Manifest:
    """Read the texts twice, for their checksums and characters and for their tokens, and write `folder`.

    Shards that are there and whole are kept: after a kill the same call goes on, and a damaged folder is mended.
    CorpusError when a text can't be used, or another corpus lies in `folder`; StorageError when it can't be written.
    """
    _refuse_foreign(folder)
    as_found = [_version(path) for path in paths]
    sources, alphabet = _look(paths, asked, bar)
    with locked(folder):
        begun = _refuse_foreign(folder)
        if begun is None:
            begun = Manifest(_tokenizer(asked, alphabet, paths).to_json(), asked, sources)
            shards.write(folder / PROGRESS, begun)
        if (begun.checksums, begun.asked) != ([source["sha256"] for source in sources], asked):
            raise CorpusError(f"{shown(folder)} holds a corpus of other texts or tokens: choose another folder")
        names = map(shards.name_of, range(len(begun.shards) + 2))
        files.remove_leftovers(folder, (MANIFEST, PROGRESS, *names))
        manifest = _write_shards(paths, folder, begun, bar)
        if as_found != [_version(path) for path in paths]:
            raise CorpusError("a text was changed while it was read: delete the folder and begin again")
        shards.write(folder / MANIFEST, manifest)
        (folder / PROGRESS).unlink(missing_ok=True)
    return manifest


def _refuse_foreign(folder: Path) -> Manifest | None:
    """What a corpus in `folder` says of itself, if one lies there; CorpusError for anything else that does."""
    for name in (MANIFEST, PROGRESS):
        if (folder / name).exists():
            return shards.read(folder / name)
    if folder.exists() and (not folder.is_dir() or any(not path.name.startswith(".") for path in folder.iterdir())):
        raise CorpusError(f"{shown(folder)} is there already, and holds no corpus: name another folder by --out")
    return None


def _version(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _look(paths: Sequence[Path], asked: str, bar: tqdm) -> tuple[list[dict[str, str]], str]:
    """What the manifest says of the texts; and their alphabet, if characters are `asked` for."""
    sources = []
    letters: set[str] = set()
    known = b""  # the letters of one byte
    length = 0
    for path in paths:
        digest = hashlib.sha256()
        for piece in _pieces(path, bar, digest):
            length += len(piece)
            if asked == "characters":
                new = piece.encode().translate(None, known).decode() if piece.isascii() else alphabet_of(piece)
                letters.update(new)
                known = "".join(filter(str.isascii, letters)).encode()
        sources.append({"name": path.name, "sha256": digest.hexdigest()})
    if not length:
        raise CorpusError("there is no text in the files: a corpus needs at least two different characters")
    if len(letters) == 1:
        raise CorpusError(f"the text holds only {min(letters)!r}: a corpus needs at least two different characters")
    if len(letters) > LARGEST:
        raise CorpusError(f"the text has {len(letters):,} different characters, and {LARGEST:,} may be: choose bpe")
    return sources, "".join(sorted(letters))


def _tokenizer(asked: str, alphabet: str, paths: Sequence[Path]) -> Tokenizer:
    if asked == "characters":
        return CharTokenizer(alphabet)
    if asked == "bytes":
        return ByteTokenizer()
    pieces = (piece for path in paths for piece in _pieces(path, tqdm(disable=True)))
    return learn_byte_pairs(islice(pieces, LEARN_FROM // PIECE), int(asked.split()[1]))


def _write_shards(paths: Sequence[Path], folder: Path, begun: Manifest, bar: tqdm) -> Manifest:
    """Keep the first shards, as far as they are whole, and write all others, each while the next is made."""
    tokenizer = tokenizer_of(begun.tokenizer)
    done = []
    with suppress(CorpusError):
        for shard in begun.shards:
            shards.check(folder, shard, tokenizer)
            done.append(shard)
    start = done[-1].after if done else [0, 0]
    pieces = (piece for path in paths for piece in _pieces(path, bar))

    def keep(number: int, content: memoryview, after: list[int]) -> None:
        done.append(shards.save(folder, number, content, after))
        shards.write(folder / PROGRESS, replace(begun, shards=tuple(done)))

    with ThreadPoolExecutor(1) as second_thread:
        job = None
        for number, (content, after) in enumerate(shards.cut(pieces, tokenizer, start), start=len(done)):
            if job is not None:
                job.result()
            job = second_thread.submit(keep, number, content, after)
        if job is not None:
            job.result()
    return replace(begun, shards=tuple(done))


# ---------------------------------------------------------------- from files to text
def _pieces(path: Path, bar: tqdm, digest: Any = None) -> Iterator[str]:
    """The text of a file as `load_corpus` has it, without a mark of byte order and with \\n for \\r\\n, piece by piece.

    A piece ends where a line does, before its \\n and after a letter: no token of byte pairs reaches over that. (Where
    there is no such place, it ends anywhere.) `digest` takes in the bytes of the file, unpacked.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    begins = read = 0  # bytes before what is decoded, and all
    rest = held = ""
    content = b"more"
    try:
        with path.open("rb") as file, _unpacked(file, path) as stream:
            while content:
                before = file.tell()
                content = stream.read(PIECE)
                bar.update(file.tell() - before)
                if digest is not None:
                    digest.update(content)
                begins = read - len(decoder.getstate()[0])
                read += len(content)
                new = held + decoder.decode(content, final=not content)
                held = "\r" if content and new.endswith("\r") else ""  # its \n may be to come
                new = new.removesuffix(held)
                text = rest + (new.replace("\r\n", "\n") if "\r" in new else new)
                end = _line_end(text) if content else len(text)
                if end:
                    yield text[:end]
                rest = text[end:]
    except UnicodeDecodeError as error:
        where = f"byte {begins + error.start:,}"
        raise CorpusError(f"{shown(path)} is not UTF-8 text ({where}): save it as UTF-8") from None
    except (OSError, EOFError, zlib.error, zstd.ZstdError) as error:
        raise CorpusError(f"can't read the text {shown(path)}: {getattr(error, 'strerror', None) or error}") from None


def _line_end(text: str) -> int:
    """Where to cut: before the last \n that follows a letter, else at the end."""
    end = text.rfind("\n")
    while end > 0 and text[end - 1].isspace():
        end = text.rfind("\n", 0, end)
    return end if end > 0 else len(text)


def _unpacked(file: Any, path: Path) -> Any:
    """The file itself, or what unpacks it, by how it begins."""
    start = file.peek(6)[:6]
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return zstd.ZstdFile(file)
    if start.startswith(COMPRESSED):
        raise CorpusError(f"{shown(path)} is compressed, and neither by gzip nor by zstd: unpack it first")
    return nullcontext(file)


# ---------------------------------------------------------------- what a person sees
def _bar(paths: Sequence[Path]) -> tqdm:
    """In a terminal, how much of the files is read; each is read twice."""
    total = 2 * sum(path.stat().st_size for path in paths)
    return tqdm(total=total, unit="B", unit_scale=True, desc="preparing", leave=False, disable=None)


@contextmanager
def _saying_what_is_kept(folder: Path) -> Iterator[None]:
    """Who stops it, or fills the disk, reads what is kept."""
    try:
        yield
    except (KeyboardInterrupt, StorageError) as end:
        kept = "nothing is written yet"
        if (folder / PROGRESS).exists():
            kept = f"{shown(folder)} keeps the shards that are whole, and the same command goes on"
        if isinstance(end, StorageError):
            raise StorageError(f"{end}; {kept}") from None
        raise console.Stopped(getattr(end, "number", signal.SIGINT), kept) from None
