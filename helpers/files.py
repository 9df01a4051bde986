"""Files that are replaced whole, or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from helpers.errors import RunError


def write(path: str | Path, content: str | bytes) -> None:
    """Replace the file at `path` by `content` (text as UTF-8): whole, or not at all.

    Missing folders are made. The bytes reach the disk under another name first, so that after a
    crash, a kill or a full disk the old file is still there. RunError when it can't be written.
    """
    path, data = Path(path), content.encode() if isinstance(content, str) else content
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:  # Ctrl-C too
            with suppress(OSError):
                part.unlink()
            raise
    except OSError as error:
        why = error.strerror or error
        raise RunError(f"can't write {path}: {why}; what was there before is kept") from None
