"""Reads what a student handed in. Runs none of it."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import stat
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from grader.model import Message, Module, Submission, say

_OURS = {"grades.csv", "journal.jsonl", "adjustments.csv"}  # what lies beside the results
_BYTES_MOST = 1_000_000  # of one module: a hundred times what anyone writes
_FILES_MOST = 2_000  # of one submission that are looked at

# What a notebook's cell may hold that isn't Python. After `%%time` and its like, Python goes on.
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_PYTHON_MAGICS = {"capture", "prun", "time", "timeit"}
_LINE_MAGIC = re.compile(r"\s*([%!?]|[\w.]+\?{1,2}\s*$)")


class IntakeError(Exception):
    """There is nothing to read where we were told to look; the text says what to do."""


def discover(folder: Path) -> list[tuple[str, Path]]:
    """The submissions of a class: every folder and every zip, and the id that each goes by.

    Raises:
        IntakeError: there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise IntakeError(
            f"There is no folder {str(folder)!r}. Name the one that holds a folder or a zip for"
            " each student: make grade SUBMISSIONS=FOLDER."
        )
    entries = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    entries = [p for p in entries if p.is_dir() or p.suffix.lower() == ".zip"]
    if not entries:
        raise IntakeError(f"There is no submission in {str(folder)!r}: no folder and no zip.")
    taken = {path.name for path in entries} | _OURS
    found = []
    for path in entries:
        id = path.name
        if not path.is_dir() and path.stem not in taken:
            id = path.stem
        taken.add(id)
        # A name may hold bytes that are no text, and one of ours would write over our files.
        id = os.fsencode(id).decode("utf-8", "replace")
        found.append((f"{id}-" if id in _OURS else id, path))
    return found


def loose(folder: Path) -> list[str]:
    """The names of what lies in a class's folder and is neither a folder nor a zip."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if not path.name.startswith(".") and not path.is_dir() and path.suffix.lower() != ".zip"
    )


def read(path: Path, units: Sequence[str], id: str = "") -> Submission:
    """Read one submission, whichever form it has.

    Args:
        path: a folder or a zip with ``<unit>.py`` or ``<unit>.ipynb`` at its top, in
            ``exercises/``, or one or two levels down.
        units: the names of the course's units.
        id: what it goes by; the path's own name by default.

    Raises:
        IntakeError: it is neither, or cannot be opened.
    """
    notes: list[Message] = []
    try:
        files = _Folder(path) if path.is_dir() else _Zip(path, notes)
        with files:
            return _read(files, units, id or path.stem, notes)
    except Exception as error:  # what a broken archive can raise has no end: zlib, lzma, unicode
        raise IntakeError(f"{path.name} cannot be read: {error}") from None


def read_folder(folder: Path, units: Sequence[str]) -> Submission:
    """Read the units that lie in a student's own folder.

    Raises:
        IntakeError: there is no such folder.
    """
    if not folder.is_dir():
        raise IntakeError(
            f"There is no folder {str(folder)!r}. Name the folder that holds your modules:"
            " --path FOLDER (with make: EXERCISES=FOLDER)."
        )
    return read(folder, units, folder.resolve().name)


class _Folder(contextlib.nullcontext[Any]):
    """Files of a folder; links are left where they lie."""

    def __init__(self, folder: Path):
        super().__init__()
        self._folder = folder
        self.place = str(folder.resolve())

    def names(self) -> list[str]:
        """Paths below the folder, three levels deep, with forward slashes."""
        paths = (p for pattern in ("*", "*/*", "*/*/*") for p in self._folder.glob(pattern))
        files = (p for p in paths if not p.is_symlink() and p.is_file())
        return [p.relative_to(self._folder).as_posix() for p in islice(files, _FILES_MOST)]

    def read(self, name: str) -> bytes:
        path = self._folder / name
        inside = path.resolve().is_relative_to(self._folder.resolve())
        if not inside:
            return b""
        with path.open("rb") as file:
            return file.read(_BYTES_MOST + 1)


class _Zip(zipfile.ZipFile):
    """Files of an archive, read in place: nothing is unpacked, so no path can lead anywhere."""

    def __init__(self, path: Path, notes: list[Message]):
        super().__init__(path)
        self.place = path.name
        self._odd = False
        if any(name.startswith("/") or ".." in name.split("/") for name in self.namelist()):
            notes.append(say("{file} holds paths that lead out of it.", file=path.name))

    def names(self) -> list[str]:
        files = (info for info in self.infolist() if not info.is_dir())
        return [
            f.filename
            for f in islice(files, _FILES_MOST)
            if not stat.S_ISLNK(f.external_attr >> 16)
        ]

    def read(self, name: str) -> bytes:  # type: ignore[override]
        with self.open(name) as file:
            return file.read(_BYTES_MOST + 1)


def _read(files: Any, units: Sequence[str], id: str, notes: list[Message]) -> Submission:
    names = [name for name in files.names() if not name.startswith((".", "__MACOSX/"))]
    top = _top(names, units)
    here = {name.rpartition("/")[2]: name for name in names if name.rpartition("/")[0] == top}
    modules: dict[str, Module] = {}
    for unit in units:
        name = next((n for n in (f"{unit}.py", f"{unit}.ipynb") if n in here), None)
        if name is None:
            continue
        blob = files.read(here[name])
        text = _cells(name, blob, notes) if name.endswith(".ipynb") else _decode(name, blob, notes)
        modules[unit] = Module(unit, text, f"{files.place}/{here[name]}")
    known = {f"{unit}.py" for unit in units} | {"__init__.py"}
    strays = sorted(name for name in here if name.endswith(".py") and name not in known)
    if not modules:
        shown = ", ".join(names[:8]) or "-"
        words = say("There is no module of the course in it. Found: {names}", names=shown)
        notes.append(words)
    return Submission(id, modules, tuple(strays), tuple(notes))


def _top(names: Iterable[str], units: Iterable[str]) -> str:
    """The folder in which most of the units lie; of equals, the shallowest."""
    wanted = {f"{unit}{suffix}" for unit in units for suffix in (".py", ".ipynb")}
    counts = Counter(name.rpartition("/")[0] for name in names if name.rpartition("/")[2] in wanted)
    best = min(counts, key=lambda folder: (-counts[folder], folder.count("/"), folder), default="")
    return best


def _decode(name: str, blob: bytes, notes: list[Message]) -> str:
    """The text of a file, whatever an editor on Windows has made of it."""
    if len(blob) > _BYTES_MOST:
        notes.append(say("{file} is larger than a module can be; it was not read.", file=name))
        return ""
    for encoding in ("utf-8-sig", "utf-16" if blob[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"):
        try:
            return blob.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            continue
    notes.append(say("{file} is not UTF-8; it was read as Windows-1252.", file=name))
    return blob.decode("cp1252", errors="replace").replace("\r\n", "\n")


def _cells(name: str, blob: bytes, notes: list[Message]) -> str:
    """The definitions and imports of a notebook's code cells; what merely runs is left out."""
    try:
        notebook = json.loads(_decode(name, blob, notes))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        text = "\n\n".join(filter(None, (_definitions(cell) for cell in cells)))
        return text.encode(errors="replace").decode()  # JSON can hold half a character
    except (ValueError, KeyError, TypeError, RecursionError):
        notes.append(say("{file} is not a notebook that can be read.", file=name))
        return ""


def _definitions(cell: dict[str, Any]) -> str:
    source = cell["source"]
    text = source if isinstance(source, str) else "".join(source)
    magic = _CELL_MAGIC.match(text)
    if magic and magic[1] not in _PYTHON_MAGICS:
        return ""
    tree = _parse(text)
    if tree is None:
        text = "\n".join(line for line in text.split("\n") if not _LINE_MAGIC.match(line))
        tree = _parse(text)
    if tree is None:
        return text  # the student shall be told
    kept = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    lines = text.split("\n")
    return "\n\n".join(_segment(text, lines, node) for node in tree.body if isinstance(node, kept))


def _parse(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the student's escapes: not ours to print
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _segment(text: str, lines: list[str], node: ast.stmt) -> str:
    """A statement's own text, its decorators included."""
    decorators = getattr(node, "decorator_list", [])
    above = lines[decorators[0].lineno - 1 : node.lineno - 1] if decorators else []
    return "\n".join([*above, ast.get_source_segment(text, node) or ""])
