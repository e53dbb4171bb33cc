"""Reads what a student handed in. Runs none of it."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import stat
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader import cells, definitions
from grader.cells import Cell
from grader.model import Message, Module, Submission, say, what

Units = Sequence[str] | Mapping[str, Collection[str]]

# What lies beside the results
_OURS = {"grades.csv", "class.html", "journal.jsonl", "adjustments.csv", "junit.xml", "summary.md"}
_BYTES_MOST = 1_000_000  # of one module: a hundred times what anyone writes
_NOTEBOOK_MOST = 16_000_000  # bytes of a notebook, which holds pictures too
_FILES_MOST = 2_000  # Python files that are looked at: with names of the course's, and with others
_TABLE_MOST = 16_000_000  # bytes of an archive's table of contents: a hundred thousand entries
_REMEMBERED = 200_000  # characters of a notebook whose module is kept in memory
_WORK = {".rar", ".7z", ".tar", ".gz", ".tgz", ".xz", ".bz2", ".py", ".ipynb"}
# What editors on Windows write where they are not asked for UTF-8, and how people call it
_OF_WINDOWS = {"cp1252": "Windows-1252", "gb18030": "GBK (GB18030)"}
_LEVELS = 3  # of folders that are looked into
_FOLDER = "exercises"  # in which students have their modules


class _Unread(Exception):
    """One file is not what it should be; the text says how."""


class IntakeError(Exception):
    """There is nothing to read where we were told to look; the text says what to do."""


def discover(folder: Path, assignment: str = "") -> list[tuple[str, Path]]:
    """The submissions of a class: every folder and every zip, and the id that each goes by; and
    beside them, what looks like one and is neither.

    Args:
        folder: of the class.
        assignment: of nbgrader's ``submitted/<student>/<assignment>/``: which one.

    Raises:
        IntakeError: there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise IntakeError(
            say(
                "There is no folder {folder!r}. Name the one that holds a folder or a zip for each"
                " student: make grade SUBMISSIONS=FOLDER.",
                folder=str(folder),
            )
        )
    files = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    entries = [p for p in files if p.is_dir() or p.suffix.lower() == ".zip"]
    if assignment:
        entries = [p for p in entries if (p / assignment).is_dir()]
    if not entries:
        place = str(folder / "*" / assignment) if assignment else str(folder)
        raise IntakeError(
            say("There is no submission in {folder!r}: no folder and no zip.", folder=place)
        )
    if not assignment:
        entries += [path for path in files if path not in entries and _is_work(path)]
    names = {_text(path.name) for path in entries}
    taken = set(_OURS)  # a name of ours would write over our files
    found = []
    for path in entries:
        id, stem = _text(path.name), _text(path.stem)
        if not path.is_dir() and not _is_work(path) and stem not in names | taken:
            id = stem
        while id in taken:
            id += "-"
        taken.add(id)
        found.append((id, path / assignment))
    return found


def loose(folder: Path) -> list[str]:
    """The names of what lies in a class's folder and is neither a folder nor a zip."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if not path.name.startswith(".")
        and not path.is_dir()
        and path.suffix.lower() != ".zip"
        and not _is_work(path)
    )


def _is_work(path: Path) -> bool:
    """Somebody's, though not in a form that can be graded: it must not be overlooked."""
    return path.suffix.lower() in _WORK and not path.is_dir()


def read(path: Path, units: Units, id: str = "") -> Submission:
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


def _read_path(path: Path, units: Units, id: str, place: str) -> Submission:
    notes: list[Message] = []
    try:
        if not path.is_dir() and (_is_work(path) or not path.is_file()):  # a pipe never ends
            words = say("it is neither a folder nor a zip: put what it holds into a folder")
            raise IntakeError(words)
        with _Folder(path) if path.is_dir() else _Zip(path) as files:
            return _read(files, units, id, place, notes)
    except Exception as error:  # what a broken archive can raise has no end: zlib, lzma, unicode
        name, why = printable(path.name), _shown(what(error, path))
        raise IntakeError(say("{file} cannot be read: {error}", file=name, error=why)) from None


def read_folder(folder: Path, units: Units) -> Submission:
    """Read the units that lie in a student's own folder.

    Raises:
        IntakeError: there is no such folder.
    """
    if not folder.is_dir():
        raise IntakeError(
            say(
                "There is no folder {folder!r}. Name the folder that holds your modules:"
                " --path FOLDER (with make: EXERCISES=FOLDER).",
                folder=str(folder),
            )
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
            words = say("its table of contents has {size} bytes; {most} may be",
                        size=size, most=_TABLE_MOST)  # fmt: skip
            raise IntakeError(words)
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
    files: _Folder | _Zip, units: Units, id: str, place: str, notes: list[Message]
) -> Submission:
    names, links = _names(files, units, notes)
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
    unread, preferred = [], []
    for unit in units:
        forms = {name: here[name] for name in file_names(unit) if name in here}
        if not forms:
            continue
        names_of = units[unit] if isinstance(units, Mapping) else ()
        read = {name: _form(files, path, names_of, notes) for name, path in forms.items()}
        name = _worked_on(read, names_of, notes)
        if name != next(iter(forms)):
            preferred.append(name)
        modules[unit] = Module(unit, read[name].text, f"{place}/{here[name]}")
        if read[name].unread:
            unread.append(unit)
    if preferred:
        words = say("These were read in place of modules that are as they were given: {names}",
                    names=_listed(preferred))  # fmt: skip
        notes.append(words)
    known = {f"{unit}.py" for unit in units} | {"__init__.py"}
    strays = sorted(name for name in here if name.endswith(".py") and name not in known)
    if not modules:
        words = say("There is no module of the course in it. Found: {names}", names=_listed(names))
        notes.append(words if names else say("No file was found in it."))
    in_links = {f: unit for unit in units for f in file_names(unit)} | {_FOLDER: _FOLDER}
    linked = {in_links[n] for n in (link.rpartition("/")[2] for link in links) if n in in_links}
    unread += sorted(linked - modules.keys())
    return Submission(id, modules, tuple(strays), tuple(notes), tuple(passed_by), tuple(unread))


def file_names(unit: str) -> tuple[str, ...]:
    """The files that may hold a unit; where nobody has worked on any, the first counts."""
    return f"{unit}.py", f"{unit}.ipynb", f"{unit}.zh.ipynb"


@dataclass(frozen=True)
class _Found:
    """A unit as one file has it.

    Attributes:
        text: the module.
        given: definition -> its digest as it was handed out, where the file says so.
        unread: whether it cannot be read.
    """

    text: str
    given: Mapping[str, str] = field(default_factory=dict)
    unread: bool = False


def _form(files: _Folder | _Zip, path: str, names: Collection[str], notes: list[Message]) -> _Found:
    try:
        if path.endswith(".ipynb"):
            return _notebook(files, path, names, notes)
        return _Found(_module(files, path, notes))
    except _Unread as error:
        notes.append(error.args[0])
        return _Found("", unread=True)


def _worked_on(forms: Mapping[str, _Found], names: Collection[str], notes: list[Message]) -> str:
    """The name of the form in which most was done: never one in which nothing can be read, as long
    as there is another.
    """
    if len(forms) == 1:
        return next(iter(forms))
    given = {name: digest for found in forms.values() for name, digest in found.given.items()}
    all_given = tuple(sorted(given.items()))
    done = {name: _changes(found.text, all_given) for name, found in forms.items()}
    if not given:  # a notebook of their own making
        done = {name: _written(found.text, tuple(names)) for name, found in forms.items()}
    first = max(done, key=lambda name: (bool(forms[name].text.strip()), done[name]))
    others = [name for name in forms if name != first and done[name] > 0]
    if others:
        words = say("{first} was read, which was changed most; {others}, changed too, not.",
                    first=first, others=_listed(others))  # fmt: skip
        notes.append(words)
    return first


def _names(
    files: _Folder | _Zip, units: Units, notes: list[Message]
) -> tuple[list[str], list[str]]:
    """The files that are looked at: none that is hidden, a link, or leads out of its place; and the
    links.
    """
    names, links, outside = [], [], []
    ours = {file for unit in units for file in file_names(unit)}
    python = {True: 0, False: 0}  # whether a name is one of ours -> how many files have such a one
    for name, is_link in files.entries():
        parts = name.removeprefix("./").split("/")
        if name.startswith("/") or ".." in parts:
            outside.append(name)
        elif any(part.startswith(".") or part == "__MACOSX" for part in parts):
            continue
        elif is_link:
            links.append(name)
        else:
            own = parts[-1] in ours
            python[own] += name.endswith((".py", ".ipynb"))
            if python[own] <= _FILES_MOST:
                names.append(name)
    if max(python.values()) > _FILES_MOST:
        words = say("It holds more than {most} Python files: the deepest were not looked at.",
                    most=_FILES_MOST)  # fmt: skip
        notes.append(words)
    if outside:
        words = say("Paths that lead out of it were left out: {names}", names=_listed(outside))
        notes.append(words)
    if links:
        notes.append(say("Links are not followed: {names}", names=_listed(links)))
    return names, links


def _top(names: Sequence[str], units: Units) -> tuple[str, list[str]]:
    """The folder in which most of the units lie, of equals the shallowest; and those that hold
    modules of the same names.
    """
    wanted = {name: unit for unit in units for name in file_names(unit)}
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
    shown = [printable(name)[-60:] for name in names[:8]]
    return ", ".join(shown + ["..."] * (len(names) > 8)) or "-"


def printable(text: str) -> str:
    """A name as a terminal can take it."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _shown(message: Message) -> Message:
    """A message as a terminal can take it, whatever names are in it."""
    args = {k: _shown(v) if isinstance(v, Message) else printable(str(v))
            for k, v in message.args.items()}  # fmt: skip
    return Message(printable(message.text), args)


def _text(name: str) -> str:
    """A name as text: it may hold bytes that are none."""
    return name.encode(errors="replace").decode()


def _module(files: _Folder | _Zip, path: str, notes: list[Message]) -> str:
    name = path.rpartition("/")[2]
    return _decode(name, files.read(path, _BYTES_MOST + 1), _BYTES_MOST, notes)


def _decode(name: str, blob: bytes, most: int, notes: list[Message]) -> str:
    """The text of a file, whatever an editor on Windows has made of it."""
    if len(blob) > most:
        raise _Unread(say("{file} is larger than a module can be; it was not read.", file=name))
    encoding = encoding_of(blob)
    text = blob.decode(encoding, errors="replace")
    if "\0" in text:
        raise _Unread(say("{file} is no text; it was not read. Save it as UTF-8.", file=name))
    if encoding in _OF_WINDOWS:
        words = say("{file} is not UTF-8; it was read as {encoding}. Save it as UTF-8.",
                    file=name, encoding=_OF_WINDOWS[encoding])  # fmt: skip
        notes.append(words)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def encoding_of(blob: bytes) -> str:
    """How the text of a file is coded, as far as its bytes tell."""
    utf_16 = ["utf-16"] if blob[:2] in (b"\xff\xfe", b"\xfe\xff") else []
    for encoding in ("utf-8-sig" if blob[:3] == b"\xef\xbb\xbf" else "utf-8", *utf_16):
        with contextlib.suppress(UnicodeDecodeError):
            blob.decode(encoding)
            return encoding
    return "gb18030" if _is_chinese(blob) else "cp1252"


def _is_chinese(blob: bytes) -> bool:
    """Whether it is GB18030, as Chinese Windows writes it: most of its characters are then of the
    common ones, those of GB2312, while a pair of accented letters is seldom any.
    """
    try:
        found = [c for c in blob.decode("gb18030") if not c.isascii()]
    except UnicodeDecodeError:
        return False
    return 2 * sum(c.encode("gb2312", "ignore") != b"" for c in found) > len(found)


@functools.lru_cache(maxsize=64)
def _written(text: str, names: tuple[str, ...]) -> int:
    """How many of these definitions stand there, and are no stubs; without names, how few are."""
    if not names:
        return -text.count("NotImplementedError")
    parts = definitions.pieces(text, names)
    return sum(name in parts and "NotImplementedError" not in parts[name] for name in names)


@functools.lru_cache(maxsize=32)  # `watch` reads all of a folder after each save
def _book(text: str, names: Sequence[str]) -> tuple[str, list[str], dict[str, str]]:
    """The module that a notebook makes, the cells that were left out, and what was handed out."""
    book = json.loads(text)
    sources = [cell["source"] for cell in book["cells"] if cell["cell_type"] == "code"]
    found = [
        Cell(f"code cell {number}", source if isinstance(source, str) else "".join(source))
        for number, source in enumerate(sources, 1)
    ]
    return *cells.module(found, names), cells.given(book)


@functools.lru_cache(maxsize=64)
def _changes(text: str, given: tuple[tuple[str, str], ...]) -> int:
    return cells.changed(text, dict(given))


def _notebook(
    files: _Folder | _Zip, path: str, names: Collection[str], notes: list[Message]
) -> _Found:
    """What of a notebook makes the unit; see `cells`."""
    name = path.rpartition("/")[2]
    text = _decode(name, files.read(path, _NOTEBOOK_MOST + 1), _NOTEBOOK_MOST, notes)
    read = _book if len(text) < _REMEMBERED else _book.__wrapped__
    try:
        text, left_out, given = read(text, tuple(names))
    except (ValueError, KeyError, TypeError, RecursionError):
        words = say("{file} is not a notebook that can be read.", file=name)
        raise _Unread(words) from None
    if left_out:
        words = say("{file}: what is no Python was left out: {cells}", file=name,
                    cells=_listed(left_out))  # fmt: skip
        notes.append(words)
    return _Found(_decode(name, text.encode(), _BYTES_MOST, notes), given)
