"""Compiled catalogues of translations, and what of them students receive.

Written out here, since babel is a maintainer's tool and gettext in the standard library only reads.
"""

from __future__ import annotations

import ast
import json
import struct
from collections.abc import Iterator
from pathlib import Path

from grader.course import ROOT, Course
from grader.judge import bank

_MAGIC = 0x950412DE
_HEAD = struct.Struct("<7I")  # magic, version, how many, where the two tables and the hashes are
_PLACE = struct.Struct("<II")  # length and place of a text

_MARK = struct.pack("<I", _MAGIC)


def is_one(data: bytes) -> bool:
    """Whether bytes begin as a catalogue does."""
    return data.startswith(_MARK)


def read(data: bytes) -> dict[bytes, bytes]:
    """Text -> translation; the translation of nothing is the header."""
    _, _, count, *tables, _, _ = _HEAD.unpack_from(data)

    def column(table: int) -> Iterator[bytes]:
        for number in range(count):
            length, place = _PLACE.unpack_from(data, table + number * _PLACE.size)
            yield data[place : place + length]

    texts, translations = map(column, tables)
    return dict(zip(texts, translations))


def compiled(texts: dict[bytes, bytes]) -> bytes:
    """The catalogue of such a table, as `gettext` reads it."""
    rows = sorted(texts.items())
    first = _HEAD.size
    second = first + len(rows) * _PLACE.size
    end = second + len(rows) * _PLACE.size
    tables, body = b"", b""
    for column in (0, 1):
        for row in rows:
            tables += _PLACE.pack(len(row[column]), end + len(body))
            body += row[column] + b"\0"
    return _HEAD.pack(_MAGIC, 0, len(rows), first, second, 0, end) + tables + body


def for_students(data: bytes, course: Course, root: Path = ROOT) -> bytes:
    """A catalogue without what only hidden checks say, and mistakes that no public check shows."""
    secret = {text.encode() for text in _everything(course, root) - _shown(root)}
    return compiled({text: words for text, words in read(data).items() if text not in secret})


def _everything(course: Course, root: Path) -> set[str]:
    mistakes = bank.mistakes(course)
    return {*_titles(root / "tests" / "hidden"), *(t for m in mistakes for t in (m.title, m.hint))}


def _shown(root: Path) -> set[str]:
    public = root / "tests" / "public"
    shown = set(_titles(public))
    for path in public.glob("answers/*.safetensors"):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        index = json.loads(header["__metadata__"]["index"])
        shown |= {text for pair in index["titles"].values() for text in pair}
    return shown


def _titles(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                yield (ast.get_docstring(node) or "").split("\n")[0]
