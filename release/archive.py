"""Zips of which two are the same, byte for byte, when their files are, on every machine."""

from __future__ import annotations

import zipfile
from pathlib import Path

_THEN = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can hold


def write(folder: Path, archive: Path, inside: str = "") -> None:
    """Put a folder into a zip.

    Args:
        folder: its files, in the order of their names.
        archive: where the zip goes.
        inside: the folder inside the zip; at its top by default.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in files(folder))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as made:
        for name in names:
            data = (folder / name).read_bytes()
            info = zipfile.ZipInfo(f"{inside}/{name}" if inside else name, _THEN)
            info.create_system = 3  # unix, on Windows too: else there are no modes
            info.external_attr = (0o100755 if data.startswith(b"#!") else 0o100644) << 16
            # Not deflated: what comes of that depends on the version of zlib.
            made.writestr(info, data)


def files(folder: Path) -> list[Path]:
    """The files of a folder, without what Python leaves behind."""
    found = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    return [path for path in found if path.is_file()]
