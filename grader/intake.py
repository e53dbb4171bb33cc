"""Reads what a student handed in. Runs none of it."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import stat
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grader.model import Message, Module, Submission, say

_OURS = {"grades.csv", "journal.jsonl", "adjustments.csv"}  # what lies beside the results
_BYTES_MOST = 1_000_000  # of one module: a hundred times what anyone writes
_NOTEBOOK_MOST = 16_000_000  # bytes of a notebook, which holds pictures too
_FILES_MOST = 2_000  # Python files of one submission that are looked at
_TABLE_MOST = 16_000_000  # bytes of an archive's table of contents: a hundred thousand entries
_LEVELS = 3  # of folders that are looked into

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
    names = {_text(path.name) for path in entries}
    taken = set(_OURS)  # a name of ours would write over our files
    found = []
    for path in entries:
        id, stem = _text(path.name), _text(path.stem)
        if not path.is_dir() and stem not in names | taken:
            id = stem
        while id in taken:
            id += "-"
        taken.add(id)
        found.append((id, path))
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
    return _read_path(path, units, id or path.stem, _text(path.name))


def _read_path(path: Path, units: Sequence[str], id: str, place: str) -> Submission:
    notes: list[Message] = []
    try:
        if not (path.is_dir() or path.is_file()):
            raise IntakeError("it is neither a folder nor a file")  # a pipe would keep us waiting
        with _Folder(path) if path.is_dir() else _Zip(path) as files:
            return _read(files, units, id, place, notes)
    except Exception as error:  # what a broken archive can raise has no end: zlib, lzma, unicode
        raise IntakeError(_printable(f"{path.name} cannot be read: {error}")) from None


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
    return _read_path(folder, units, folder.resolve().name, str(folder.resolve()))


Entry = tuple[str, bool]  # a file's path, with forward slashes, and whether it is a link


class _Folder(contextlib.nullcontext[Any]):
    """Files of a folder; links are left where they lie."""

    def __init__(self, folder: Path):
        super().__init__(self)
        self._folder = folder

    def entries(self) -> Iterator[Entry]:
        level = [("", self._folder)]
        for _ in range(_LEVELS):
            folders = []
            for prefix, folder in level:
                with os.scandir(folder) as listing:  # raises where we may not look
                    for entry in sorted(listing, key=lambda entry: entry.name):
                        name = f"{prefix}{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            folders.append((f"{name}/", Path(entry.path)))
                        elif entry.is_symlink() or entry.is_file():
                            yield name, entry.is_symlink()
            level = folders

    def read(self, name: str, most: int) -> bytes:
        with (self._folder / name).open("rb") as file:
            return file.read(most)


class _Short(io.FileIO):
    """A file that refuses to be read at one go: an archive's table of contents is."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _TABLE_MOST:
            raise IntakeError(f"its table of contents has {size} bytes; {_TABLE_MOST} may be")
        return super().read(size) or b""


class _Zip(zipfile.ZipFile):
    """Files of an archive, read in place: nothing is unpacked, so no path can lead anywhere."""

    def __init__(self, path: Path):
        self._file = _Short(path)
        try:
            super().__init__(self._file)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        super().close()
        self._file.close()

    def entries(self) -> Iterator[Entry]:
        files = [info for info in self.infolist() if not info.is_dir()]
        for info in sorted(files, key=lambda info: info.filename.count("/")):
            yield info.filename, stat.S_ISLNK(info.external_attr >> 16)

    def read(self, name: str, most: int) -> bytes:  # type: ignore[override]
        with self.open(name) as file:
            return file.read(most)


def _read(
    files: _Folder | _Zip, units: Sequence[str], id: str, place: str, notes: list[Message]
) -> Submission:
    names = _names(files, notes)
    top, passed_by = _top(names, units)
    if passed_by:
        words = say(
            "Modules of the same names lie in several folders: {top} was read, {others} not.",
            top=_listed([f"./{top}"]),
            others=_listed([f"./{folder}" for folder in passed_by]),
        )
        notes.append(words)
    here = {name.rpartition("/")[2]: name for name in names if name.rpartition("/")[0] == top}
    modules: dict[str, Module] = {}
    for unit in units:
        name = next((n for n in (f"{unit}.py", f"{unit}.ipynb") if n in here), None)
        if name is None:
            continue
        read = _notebook if name.endswith(".ipynb") else _module
        modules[unit] = Module(unit, read(files, here[name], notes), f"{place}/{here[name]}")
    known = {f"{unit}.py" for unit in units} | {"__init__.py"}
    strays = sorted(name for name in here if name.endswith(".py") and name not in known)
    if not modules:
        words = say("There is no module of the course in it. Found: {names}", names=_listed(names))
        notes.append(words)
    return Submission(id, modules, tuple(strays), tuple(notes), tuple(passed_by))


def _names(files: _Folder | _Zip, notes: list[Message]) -> list[str]:
    """The files that are looked at: none that is hidden, a link, or leads out of its place."""
    names, links, outside = [], [], []
    python = 0
    for name, is_link in files.entries():
        parts = name.removeprefix("./").split("/")
        if name.startswith("/") or ".." in parts:
            outside.append(name)
        elif any(part.startswith(".") or part == "__MACOSX" for part in parts):
            continue
        elif is_link:
            links.append(name)
        else:
            python += name.endswith((".py", ".ipynb"))
            names.append(name)
        if python > _FILES_MOST:
            words = say("It holds more than {most} Python files: the deepest were not looked at.",
                        most=_FILES_MOST)  # fmt: skip
            notes.append(words)
            break
    if outside:
        words = say("Paths that lead out of it were left out: {names}", names=_listed(outside))
        notes.append(words)
    if links:
        notes.append(say("Links are not followed: {names}", names=_listed(links)))
    return names


def _top(names: Sequence[str], units: Sequence[str]) -> tuple[str, list[str]]:
    """The folder in which most of the units lie, of equals the shallowest; and those that hold
    modules of the same names.
    """
    wanted = {f"{unit}{suffix}": unit for unit in units for suffix in (".py", ".ipynb")}
    held: dict[str, set[str]] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        if file in wanted:
            held.setdefault(folder, set()).add(wanted[file])
    order = sorted(held, key=lambda folder: (-len(held[folder]), folder.count("/"), folder))
    top = order[0] if order else ""
    return top, [folder for folder in order[1:] if held[folder] & held[top]]


def _listed(names: Sequence[str]) -> str:
    """Names for a note: the first ones, and none at length."""
    shown = [_printable(name)[-60:] for name in names[:8]]
    return ", ".join(shown + ["..."] * (len(names) > 8)) or "-"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _text(name: str) -> str:
    """A name as text: it may hold bytes that are none."""
    return name.encode(errors="replace").decode()


def _module(files: _Folder | _Zip, path: str, notes: list[Message]) -> str:
    name = path.rpartition("/")[2]
    return _decode(name, files.read(path, _BYTES_MOST + 1), _BYTES_MOST, notes)


def _decode(name: str, blob: bytes, most: int, notes: list[Message]) -> str:
    """The text of a file, whatever an editor on Windows has made of it."""
    if len(blob) > most:
        notes.append(say("{file} is larger than a module can be; it was not read.", file=name))
        return ""
    for encoding in ("utf-8-sig", "utf-16" if blob[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"):
        try:
            return blob.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            continue
    notes.append(say("{file} is not UTF-8; it was read as Windows-1252.", file=name))
    return blob.decode("cp1252", errors="replace").replace("\r\n", "\n")


def _notebook(files: _Folder | _Zip, path: str, notes: list[Message]) -> str:
    """The definitions and imports of a notebook's code cells; what merely runs is left out."""
    name = path.rpartition("/")[2]
    text = _decode(name, files.read(path, _NOTEBOOK_MOST + 1), _NOTEBOOK_MOST, notes)
    try:
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        blob = "\n\n".join(filter(None, map(_definitions, cells))).encode(errors="replace")
        return _decode(name, blob, _BYTES_MOST, notes)  # JSON can hold half a character
    except (ValueError, KeyError, TypeError, RecursionError):
        notes.append(say("{file} is not a notebook that can be read.", file=name))
        return ""


def _definitions(cell: dict[str, Any]) -> str:
    source = cell["source"]
    text = source if isinstance(source, str) else "".join(source)
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as the parser counts lines
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
    lines = text.encode().split(b"\n")
    return "\n\n".join(_segment(lines, node) for node in tree.body if isinstance(node, kept))


def _parse(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the student's escapes: not ours to print
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _segment(lines: list[bytes], node: ast.stmt) -> str:
    """A statement's own text, its decorators included.

    `ast.get_source_segment` goes through the whole text for each, which can take hours.

    Args:
        lines: of the text in UTF-8: a column counts bytes.
        node: the statement.
    """
    decorators = getattr(node, "decorator_list", [])
    above = lines[decorators[0].lineno - 1 : node.lineno - 1] if decorators else []
    own = lines[node.lineno - 1 : node.end_lineno]
    own[-1] = own[-1][: node.end_col_offset]
    own[0] = own[0][node.col_offset :]
    return b"\n".join([*above, *own]).decode()
