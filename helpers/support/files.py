"""Write a file whole or not at all: after a crash, a kill or a full disk the old one is still there."""

import os
import re
import uuid
from contextlib import suppress
from pathlib import Path

from helpers.support.console import shown
from helpers.support.errors import StorageError


def write(path: str | Path, content: str | bytes | memoryview) -> None:
    """Replace the file at `path` by `content` (text as UTF-8) in one step.

    The bytes go to a temporary file in the same folder and reach the disk before the name changes hands, so that a
    reader sees the old file or the new one. StorageError when that is impossible; no temporary file is left then.
    """
    path, data = Path(path), content.encode() if isinstance(content, str) else content
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        try:
            with part.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:  # Ctrl-C too
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(
            f"can't write {shown(path)}: {error.strerror or error}; what was there before is kept"
        ) from None
    if os.name == "posix":  # the new name lasts through a power cut; Windows can't open folders, and does it by itself
        with suppress(OSError):  # not every file system can
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def remove_leftovers(folder: Path, names: tuple[str, ...]) -> None:
    """Delete the temporary files that killed writers of `names` left in `folder`, and nothing else."""
    left = re.compile(rf"\.({'|'.join(map(re.escape, names))})\.[0-9a-f]{{32}}\.part")
    for path in folder.iterdir():
        if left.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)
