"""A fresh stub in the place of what a student has written; what stood there is kept.

Of a module, a definition is replaced, or all of it; of a notebook, definitions in its cells.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader import given, intake
from grader.course import CourseError
from grader.definitions import names_of, spans
from grader.desk import Desk
from grader.files import write_whole
from grader.model import say

KEPT = ".kept"


class ResetError(CourseError):
    """It cannot be reset; the text says what to do."""


@dataclass(frozen=True)
class Reset:
    """What was done to one file.

    Attributes:
        file: the module.
        kept: the copy of what stood there; None where nothing did, or nothing else.
        whole: whether all of the file is new.
    """

    file: Path
    kept: Path | None
    whole: bool


def reset(desk: Desk, unit: str, names: Sequence[str], whole: bool) -> Reset:
    """Put back what was handed out, in the file that counts.

    Args:
        desk: the student's.
        unit: whose module or notebook.
        names: the exercises in it, without the unit before them.
        whole: replace a module and not only these.

    Raises:
        ResetError: there is no place for it.
    """
    course = desk.course
    module = desk.submission.modules.get(unit)
    file = Path(module.path) if module else desk.path / f"{unit}.py"
    fresh = given.modules(course)[unit]
    before = file.read_bytes() if file.exists() else b""
    encoding = intake.encoding_of(before)
    text = before.decode(encoding, errors="surrogateescape")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_notebook = file.suffix == ".ipynb"
    whole = not is_notebook and (whole or not text.strip())
    after = fresh
    if not whole:
        after = text
        for name in names:
            put = _in_notebook if is_notebook else replaced
            after = put(after, fresh, name, names_of(course, unit), file.name)
    if after == text:
        return Reset(file, None, whole)
    kept = _keep(file) if before else None
    newline = "\r\n" if b"\r\n" in before else "\n"
    try:
        content = after.replace("\n", newline).encode(encoding, errors="surrogateescape")
    except UnicodeEncodeError:  # the stub has letters that this code does not
        content = after.replace("\n", newline).encode(errors="replace")
    write_whole(file, content)
    return Reset(file, kept, whole)


def _in_notebook(text: str, fresh: str, name: str, names: tuple[str, ...], file: str) -> str:
    """A notebook with one definition as it was handed out, in the cell that has it."""
    try:
        book = json.loads(text)
        cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
        sources = ["".join(cell["source"]) for cell in cells]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ResetError(say("{file} is not a notebook that can be read.", file=file)) from None
    outer = name.split(".")[0]
    for cell, source in reversed([*zip(cells, sources)]):  # of two, the later one counts
        if outer in spans(source, names):
            new = replaced(source, fresh, name, names, file).rstrip("\n")
            as_list = isinstance(cell["source"], list)
            cell["source"] = new.splitlines(keepends=True) if as_list else new
            return json.dumps(book, ensure_ascii=False, indent=1) + "\n"  # as Jupyter writes it
    raise ResetError(
        say(
            "No cell of {file} defines {outer}: take it from the notebook as you got it.",
            file=file,
            outer=outer,
        )
    )


def replaced(text: str, fresh: str, name: str, names: tuple[str, ...], file: str) -> str:
    """A module with one definition as it was handed out. Of a class, the methods that are exercises
    of their own stay as they are.
    """
    mine, theirs = spans(text, names), spans(fresh, names)
    if name not in mine:
        outer = name.rpartition(".")[0]
        if outer and outer not in mine:
            raise ResetError(
                say("{file} has no {outer}: reset that first.", file=file, outer=outer)
            )
        rows = text.rstrip("\n").split("\n")
        end = mine[outer][1] if outer else len(rows)
        gap = [""] if outer else ["", ""]
        return _joined([*rows[:end], *gap, *_rows(fresh, theirs[name]), *rows[end:]])
    rows = _rows(fresh, theirs[name])
    inner = [n for n in names if n.startswith(f"{name}.") and n in mine and n in theirs]
    for own in sorted(inner, key=lambda n: theirs[n], reverse=True):  # from below: places stay
        first, end = (row - theirs[name][0] for row in theirs[own])
        rows[first:end] = _rows(text, mine[own])
    whole = text.split("\n")
    whole[slice(*mine[name])] = rows
    return _joined(whole)


def _rows(text: str, span: tuple[int, int]) -> list[str]:
    return text.split("\n")[slice(*span)]


def _joined(rows: Sequence[str]) -> str:
    return "\n".join(rows).rstrip("\n") + "\n"


def _keep(file: Path) -> Path:
    """Copy a file beside the folder that it lies in."""
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    folder = file.resolve().parent.parent / KEPT
    folder.mkdir(exist_ok=True)
    copy = folder / f"{file.stem}-{stamp}{file.suffix}"
    number = 1
    while copy.exists():  # twice in one second
        number += 1
        copy = folder / f"{file.stem}-{stamp}-{number}{file.suffix}"
    try:
        shutil.copy2(file, copy)
    except OSError:  # a full disk: half of it is no copy
        copy.unlink(missing_ok=True)
        raise
    return copy
