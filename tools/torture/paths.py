"""Odd places for a run: whatever stands there and is not ours stays as it was, byte for byte."""

import hashlib
import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch

from tools.torture import small
from tools.torture.harness import REFUSED, RIGHT, Attempt, bad, group
from tools.torture.small import PLAIN, first_of, load_error, refused


def snapshot(folder: Path) -> dict[str, str]:
    """What stands where: kind and content of everything below `folder`, links not followed."""
    seen = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                content = "-> " + os.readlink(path)
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            else:
                content = f"kind {stat.S_IFMT(mode):o}"
            seen[os.path.relpath(path, folder)] = f"{content}, permissions {mode & 0o777:o}"
    return seen


def _foreign(folder: Path) -> Path:
    """A file that belongs to somebody else."""
    path = folder / "precious.txt"
    path.write_text("mine, and there is no copy of it\n")
    return path


def _file(folder: Path) -> str:
    return str(_foreign(folder))


def _fifo(folder: Path) -> str:
    os.mkfifo(folder / "fifo")
    return str(folder / "fifo")


def _socket(folder: Path) -> str:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(folder)  # a socket's path must be short
        server.bind("socket")
        os.chdir(here)
    return str(folder / "socket")


def _link(folder: Path, target: object) -> str:
    (folder / "link").symlink_to(target)
    return str(folder / "link")


def _link_to_folder(folder: Path) -> str:
    (folder / "elsewhere").mkdir()
    return _link(folder, "elsewhere")


def _link_to_run(folder: Path) -> str:
    PLAIN.half_in(folder)
    return _link(folder, "half")


def _two_links(folder: Path) -> str:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    return str(folder / "a")


def _inside_a_file(folder: Path) -> str:
    return str(_foreign(folder) / "run")


def _folder_without_rights(folder: Path) -> str:
    (folder / "closed").mkdir(mode=0o000)
    return str(folder / "closed")


def _trailing_slash_on_a_file(folder: Path) -> str:
    return f"{_foreign(folder)}/"


def _working_folder_with_files(folder: Path) -> str:
    _foreign(folder)
    return "."


def named(name: str, below: bool = True) -> Callable[[Path], str]:
    return lambda folder: str(folder) + "/" + name if below else name


OUTS: dict[str, Callable[[Path], str]] = {
    "a file": _file,
    "a FIFO": _fifo,
    "a socket": _socket,
    "a link to a folder": _link_to_folder,
    "a link to a run": _link_to_run,
    "a link to a file": lambda folder: _link(folder, _foreign(folder)),
    "a link to nothing": lambda folder: _link(folder, folder / "nothing"),
    "a link to nothing in nothing": lambda folder: _link(folder, folder / "nothing" / "below"),
    "a link to itself": lambda folder: _link(folder, folder / "link"),
    "two links in a circle": _two_links,
    "a link to /dev/null": lambda folder: _link(folder, "/dev/null"),
    "inside a file": _inside_a_file,
    "a file with a slash": _trailing_slash_on_a_file,
    "a folder without rights": _folder_without_rights,
    "the working folder": _working_folder_with_files,
    "empty": named("", below=False),
    "a blank": named(" ", below=False),
    "~": named("~", below=False),
    "~/run": named("~/run", below=False),
    "~nobody-of-that-name/run": named("~nobody-of-that-name/run", below=False),
    "..": named("..", below=False),
    "../..//run/../run": named("../inside/..//run/../run", below=False),
    "/dev/null": named("/dev/null", below=False),
    "/dev/null/run": named("/dev/null/run", below=False),
    "/dev/full": named("/dev/full", below=False),
    "/dev/stdout": named("/dev/stdout", below=False),
    "/proc/run": named("/proc/run", below=False),
    "/proc/self/run": named("/proc/self/run", below=False),
    "/sys/run": named("/sys/run", below=False),
    "a deep new folder": named("a/b/c/d/e/f"),
    "a name of 255 bytes": named("n" * 255),
    "a name of 256 bytes": named("n" * 256),
    "a path of 5,000 bytes": named("n/" * 2500),
    "a newline": named("two\nlines"),
    "control characters": named("red\x1b[31m\x07\x08"),
    "a right-to-left mark": named("abc\u202efed\u200b"),
    "accents, Chinese, an emoji": named("é中\U0001f600"),
    "bytes that are no UTF-8": named("latin\udce9"),
    "a leading dash": named("-x"),
    "a trailing slash": named("run///"),
    "a NUL": named("a\0b"),
    "a percent and braces": named("%s {0} {x!r} $HOME `id`"),
}


# ---------------------------------------------------------------- contents of a run folder
def _nanogpt(out: Path) -> None:
    weights = {"transformer.wte.weight": torch.zeros(3, 2)}
    torch.save({"model": weights, "iter_num": 7, "config": {}}, out / "checkpoint.pt")


def _write(name: str, content: str | bytes) -> Callable[[Path], None]:
    def place(out: Path):
        (out / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return place


def _links(name: str, target: str) -> Callable[[Path], None]:
    def place(out: Path):
        (out / name).unlink(missing_ok=True)
        (out / name).symlink_to(target)

    return place


def _kinds(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def place(out: Path):
        (out / name).unlink(missing_ok=True)
        make(out / name)

    return place


def _with_file(path: Path) -> None:
    path.mkdir()
    (path / "precious.txt").write_text("mine")


CONTENTS: dict[str, Callable[[Path], None]] = {
    "another project's config.json": _write("config.json", json.dumps({"model_type": "gpt2", "n_layer": 12})),
    "a config.json that is a list": _write("config.json", "[]"),
    "an empty config.json": _write("config.json", ""),
    "another project's tokenizer.json": _write("tokenizer.json", json.dumps({"version": "1.0", "model": {}})),
    "another project's history.json": _write("history.json", json.dumps([{"epoch": 1}])),
    "another's sample.txt": _write("sample.txt", "my poem\n"),
    "nanoGPT's checkpoint.pt": _nanogpt,
    "an empty checkpoint.pt": _write("checkpoint.pt", b""),
    "a checkpoint.pt that is text": _write("checkpoint.pt", "hello\n" * 1000),
    "a checkpoint.pt that is a pickle": _write("checkpoint.pt", b"\x80\x04}q\x00."),
    "another's lock": _write(".lock", "12345\n"),
    "another's lock file without a dot": _write("lock", "12345\n"),
    "foreign temporary files": _write(".checkpoint.pt.abc.part", "mine"),
    "a foreign checkpoint.pt.part": _write("checkpoint.pt.part", "mine"),
    "a thesis": _write("thesis.tex", "\\documentclass{book}\n"),
    "a folder with a file": lambda out: _with_file(out / "data"),
    "a git repository": lambda out: _with_file(out / ".git"),
}
for _name in ("checkpoint.pt", "config.json", "history.json", "tokenizer.json", "sample.txt", ".lock"):
    CONTENTS[f"{_name} a link to a foreign file"] = _links(_name, "../precious.txt")
    CONTENTS[f"{_name} a link to nothing"] = _links(_name, "../nothing")
    CONTENTS[f"{_name} a folder"] = _kinds(_name, Path.mkdir)
    CONTENTS[f"{_name} a folder with a file"] = _kinds(_name, _with_file)
    CONTENTS[f"{_name} a FIFO"] = _kinds(_name, os.mkfifo)


def _judge(arguments: list[str], where: Path, inside: Path, out: Path | None) -> str:
    """Train in `inside`; nothing that stood below `where` before may have changed, and a refusal adds nothing."""
    before = snapshot(where)
    os.environ["HOME"] = str(where)
    outcome = small.run(arguments, inside)
    after = snapshot(where)
    changed = sorted(path for path in before if after.get(path) != before[path])
    added = sorted(path for path in after if path not in before)
    if changed:
        return bad(f"status {outcome.status}, but changed or removed: {', '.join(changed)}")
    if any(".part" in path or path.endswith("tmp") for path in added):
        return bad(f"temporary files: {added}")
    if outcome.status == 0:
        return first_of(load_error(out) if out is not None and out.is_dir() else "")
    if (verdict := refused(outcome)) == REFUSED and added:
        return bad(f"refused, but written: {', '.join(added)}")
    return verdict


@group("odd paths", count=len(OUTS), quick=4, seconds=20)
def odd_paths(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    name, make = list(OUTS.items())[k % len(OUTS)]
    flags = random.choice(([], [], ["--overwrite"], ["--resume"]))

    def attempt() -> str:
        inside = folder / "inside"
        inside.mkdir()
        out = make(folder if name != "the working folder" else inside)
        run_folder = "half" if name == "a link to a run" else None
        arguments = PLAIN.train_into("", *flags)
        arguments[arguments.index("--out") : arguments.index("--out") + 2] = [f"--out={out}"]
        verdict = _judge(arguments, folder, inside, None)
        if run_folder and "changed" in verdict and flags:  # there it may go on
            return verdict if load_error(folder / "half") else RIGHT
        return verdict

    return f"--out: {name} {' '.join(flags)}", attempt


@group("odd contents", count=len(CONTENTS) + 20, quick=4, seconds=20)
def odd_contents(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    name, place = list(CONTENTS.items())[k % len(CONTENTS)]
    flags = random.choice(([], [], ["--overwrite"], ["--overwrite"], ["--resume"]))

    def attempt() -> str:
        _foreign(folder)
        out = folder / "run"
        out.mkdir()
        place(out)
        return _judge(PLAIN.train_into(out, *flags), folder, folder, out)

    return f"a folder with {name} {' '.join(flags)}", attempt
