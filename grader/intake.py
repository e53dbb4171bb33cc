"""Reads what a student handed in. Runs none of it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grader.model import Message, Module, Submission, say

_MAX_BYTES = 1_000_000  # of one module: a hundred times what anyone writes


class IntakeError(Exception):
    """There is nothing to read where we were told to look; the text says what to do."""


def read_folder(folder: Path, units: Iterable[str]) -> Submission:
    """Read the units that lie in a folder.

    Args:
        folder: holds ``<unit>.py``, or notebooks ``<unit>.ipynb``.
        units: the names of the course's units.

    Raises:
        IntakeError: there is no such folder.
    """
    if not folder.is_dir():
        raise IntakeError(
            f"There is no folder {str(folder)!r}. Name the folder that holds your modules:"
            " --path FOLDER (with make: EXERCISES=FOLDER)."
        )
    modules: dict[str, Module] = {}
    notes: list[Message] = []
    for unit in units:
        source, notebook = folder / f"{unit}.py", folder / f"{unit}.ipynb"
        if source.is_file():
            text = _decode(source, notes)
        elif notebook.is_file():
            source, text = notebook, _cells(notebook, notes)
        else:
            continue
        modules[unit] = Module(unit, text, str(source.resolve()))
    known = {f"{unit}.py" for unit in units} | {"__init__.py"}
    strays = sorted(path.name for path in folder.glob("*.py") if path.name not in known)
    return Submission(folder.name, modules, tuple(strays), tuple(notes))


def _decode(path: Path, notes: list[Message]) -> str:
    """The text of a file, whatever an editor on Windows has made of it."""
    blob = path.read_bytes()
    if len(blob) > _MAX_BYTES:
        notes.append(say("{file} is larger than a module can be; it was not read.", file=path.name))
        return ""
    for encoding in ("utf-8-sig", "utf-16" if blob[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"):
        try:
            return blob.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            continue
    notes.append(say("{file} is not UTF-8; it was read as Windows-1252.", file=path.name))
    return blob.decode("cp1252", errors="replace").replace("\r\n", "\n")


def _cells(path: Path, notes: list[Message]) -> str:
    """The definitions and imports of a notebook's code cells; what merely runs is left out."""
    try:
        notebook = json.loads(_decode(path, notes))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        return "\n\n".join(filter(None, (_definitions(cell) for cell in cells)))
    except (ValueError, KeyError, TypeError):
        notes.append(say("{file} is not a notebook that can be read.", file=path.name))
        return ""


def _definitions(cell: dict[str, Any]) -> str:
    source = cell["source"]
    text = source if isinstance(source, str) else "".join(source)
    text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(("%", "!")))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text  # the student shall be told
    kept = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    tree.body = [node for node in tree.body if isinstance(node, kept)]
    return "\n\n".join(ast.get_source_segment(text, node) or "" for node in tree.body)
