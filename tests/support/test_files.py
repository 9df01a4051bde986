"""A file is written whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import errors
from helpers.errors import RunError

ROOT = Path(__file__).parents[2]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    errors.write(tmp_path / "a.txt", "old")
    with pytest.raises(UnicodeEncodeError):
        errors.write(tmp_path / "a.txt", "new, and then something that can't be written: \ud800")
    assert (tmp_path / "a.txt").read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_a_write_that_is_interrupted_leaves_the_old_file_alone(tmp_path, monkeypatch):
    errors.write(tmp_path / "a.txt", "old")
    for name, fault in (("fsync", OSError(28, "No space left on device")), ("replace", KeyboardInterrupt())):

        def fail(*arguments, fault=fault):
            raise fault

        with monkeypatch.context() as patch:
            patch.setattr(files.os, name, fail)
            with pytest.raises((RunError, KeyboardInterrupt)) as caught:
                errors.write(tmp_path / "a.txt", "new")
        if name == "fsync":
            assert "a.txt: No space left on device; what was there before is kept" in str(caught.value)
        assert (tmp_path / "a.txt").read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_the_bytes_are_on_the_disk_before_the_name_changes_hands(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(files.os, name, lambda *a, name=name, real=real: (calls.append(name), real(*a))[1])
    errors.write(tmp_path / "a.txt", b"new")
    assert calls == ["fsync", "replace", "fsync"]  # the file, its name, the folder


def test_a_full_disk_is_one_sentence(tmp_path):
    """In a process of its own, whose files may not grow beyond 1,000 bytes."""
    (tmp_path / "a.txt").write_text("old")
    code = (
        "import resource; from helpers.support import files; from helpers.errors import RunError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"try: errors.write({str(tmp_path / 'a.txt')!r}, 5000 * 'x')\n"
        "except RunError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.startswith("can't write") and done.stdout.count("\n") == 1 and not done.stderr
    assert (tmp_path / "a.txt").read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_new_files_can_be_read_by_those_who_may(tmp_path):
    before = os.umask(0o027)
    try:
        errors.write(tmp_path / "a.txt", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_only_our_own_leftovers_are_removed(tmp_path):
    ours = f".a.txt.{32 * '0'}.part"
    others = [".a.txt.part", "a.txt", f".b.txt.{32 * '0'}.part", f".a.txt.{31 * '0'}.part", f"x.a.txt.{32 * '0'}.part"]
    for name in (ours, *others):
        (tmp_path / name).write_text("")
    files.remove_leftovers(tmp_path, ("a.txt",))
    assert sorted(os.listdir(tmp_path)) == sorted(others)
