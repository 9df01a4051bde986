"""A file is written whole, or not at all."""

import os
import subprocess
import sys

import pytest

from helpers import ROOT, files
from helpers.errors import RunError
from helpers.files import write


def fail(error):
    raise error


def test_the_folders_of_a_file_are_made(tmp_path):
    write(tmp_path / "deep" / "down" / "a.txt", "new")
    assert (tmp_path / "deep" / "down" / "a.txt").read_text() == "new"


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    write(tmp_path / "a.txt", "old")
    with pytest.raises(UnicodeEncodeError):
        write(tmp_path / "a.txt", "new, and then something that can't be written: \ud800")
    assert (tmp_path / "a.txt").read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_a_write_that_is_interrupted_leaves_the_old_file_alone(tmp_path, monkeypatch):
    write(tmp_path / "a.txt", "old")
    for name, fault in (
        ("fsync", OSError(28, "No space left on device")),
        ("replace", KeyboardInterrupt()),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(files.os, name, lambda *_, fault=fault: fail(fault))
            with pytest.raises((RunError, KeyboardInterrupt)) as caught:
                write(tmp_path / "a.txt", "new")
        if name == "fsync":
            assert "a.txt: No space left on device; what was there before is kept" in str(caught.value)
        assert (tmp_path / "a.txt").read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_the_bytes_are_on_the_disk_before_the_name_changes_hands(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(files.os, name, lambda *a, name=name, real=real: (calls.append(name), real(*a))[1])
    write(tmp_path / "a.txt", b"new")
    assert calls == ["fsync", "replace"]


def test_a_full_disk_is_one_sentence(tmp_path):
    """In a process of its own, whose files may not grow beyond 1,000 bytes."""
    (tmp_path / "a.txt").write_text("old")
    code = (
        "import resource; from helpers.errors import RunError; from helpers.files import write\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"try: write({str(tmp_path / 'a.txt')!r}, 5000 * 'x')\n"
        "except RunError as error: print(error)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert process.stdout.startswith("can't write") and process.stdout.count("\n") == 1 and not process.stderr
    assert (tmp_path / "a.txt").read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]
