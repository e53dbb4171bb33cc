"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Put a whole new file in the place of an old one: nobody ever reads half of it.

    Raises:
        OSError: it cannot be written; ``path`` is named, and what was there still is.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")  # a reader of the folder looks past it
    try:
        part.write_bytes(content)
        if path.exists():
            shutil.copymode(path, part)
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        error.filename, error.filename2 = str(path), None
        raise
