"""What of a notebook's cells is a unit: the exercises, and what they use.

A notebook holds more than a module: pictures, trials, prints, downloads. None of that should cost
an exercise. So of its code only that is taken which binds a name that an exercise needs: its
definition, and, from there on, imports, helpers and constants, wherever they stand.

The text that comes of it says from which cell each part is (a line ``# %% code cell 4``), and keeps
each line's number within its cell, so that a report can name a line that the notebook has.
"""

from __future__ import annotations

import ast
import builtins
import dis
import hashlib
import re
import types
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader.model import CELL

# What a cell may hold that isn't Python. After `%%time` and its like, Python goes on.
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_PYTHON_MAGICS = {"capture", "prun", "time", "timeit"}
_LINE_MAGIC = re.compile(r"(\s*)(?:[\w, ]+=\s*[%!]|[%!?]|[\w.]+\?{1,2}\s*$)")
_DEFINED = re.compile(r"^(?:async )?(?:def|class) (\w+)", re.M)

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOADS = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
_STORES = (ast.Assign, ast.AugAssign, ast.AnnAssign)


@dataclass(frozen=True)
class Cell:
    """A code cell.

    Attributes:
        place: what a report calls it, such as "code cell 4".
        source: what stands in it.
    """

    place: str
    source: str


@dataclass(frozen=True)
class _Statement:
    """A statement at the top of a cell: which names it binds, and which it needs."""

    cell: int
    node: ast.stmt
    binds: frozenset[str]
    needs: frozenset[str]


def module(cells: Sequence[Cell], names: Collection[str] = ()) -> tuple[str, list[str]]:
    """The module that a notebook's cells make.

    Args:
        cells: the code cells, in order.
        names: the definitions that are exercises; all that the cells define, by default.

    Returns:
        Its text, and the places of the cells that are no Python and were left out.
    """
    statements: list[_Statement] = []
    whole: dict[int, str] = {}  # cells that Python cannot read: the student shall be told
    left_out = []
    texts = [_python(cell.source) for cell in cells]
    for number, text in enumerate(texts):
        tree = _parse(text)
        if tree is not None:
            statements += (_statement(number, node) for node in tree.body)
        elif not names or defined(text) & set(names):
            whole[number] = text
        else:
            left_out.append(cells[number].place)
    kept = _needed(statements, names)
    by_cell: dict[int, list[ast.stmt]] = defaultdict(list)
    future = []
    for statement in kept:
        if isinstance(statement.node, ast.ImportFrom) and statement.node.module == "__future__":
            future.append(ast.unparse(statement.node))
        else:
            by_cell[statement.cell].append(statement.node)
    parts = sorted(set(future))
    for number, cell in enumerate(cells):
        if number in whole:
            parts.append(f"{CELL}{cell.place}\n{whole[number]}\n")
        elif number in by_cell:
            parts.append(f"{CELL}{cell.place}\n{_in_place(texts[number], by_cell[number])}\n")
    return "\n".join(parts), left_out


def defined(source: str) -> frozenset[str]:
    """The functions and classes that a cell defines, also where Python cannot read it."""
    return frozenset(_DEFINED.findall(source))


def given(book: Mapping[str, Any]) -> dict[str, str]:
    """Definition -> its `digest` as it was handed out, of a notebook of ours; empty of others."""
    kept: Any = book
    for name in ("metadata", "before_transformers", "given"):
        kept = kept.get(name) if isinstance(kept, Mapping) else None  # whatever stands there
    return {str(k): str(v) for k, v in kept.items()} if isinstance(kept, Mapping) else {}


def digest(definition: str) -> str:
    """What a definition is known by, whatever its layout."""
    return hashlib.sha256("".join(definition.split()).encode("utf-8", "replace")).hexdigest()[:16]


def changed(text: str, given: Mapping[str, str]) -> int:
    """How many definitions of a module are no longer as they were given.

    Args:
        text: the module.
        given: name -> `digest` of its definition as it was given.
    """
    tree = _parse(text)
    if tree is None:
        return len(given)  # somebody has written in it
    lines = text.encode("utf-8", "replace").split(b"\n")
    found = {node.name: node for node in tree.body if isinstance(node, _DEFINITIONS)}
    return sum(
        digest(_segment(lines, node)) != given[name]
        for name, node in found.items()
        if name in given
    )


# ---------------------------------------------------------------------------------- from source


def _python(source: str) -> str:
    """A cell's Python; what is for IPython alone becomes ``pass``, to keep lines in place."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")  # as the parser counts lines
    text = text.encode(errors="replace").decode()  # JSON can hold half a character
    magic = _CELL_MAGIC.match(text)
    if magic:
        if magic[1] not in _PYTHON_MAGICS:
            return ""
        text = text[: magic.start(1) - 2] + "#" + text[magic.start(1) :]
    if _parse(text) is None:
        lines = [_without_magic(line) for line in text.split("\n")]
        if _parse("\n".join(lines)) is not None:
            return "\n".join(lines)
    return text


def _without_magic(line: str) -> str:
    magic = _LINE_MAGIC.match(line)
    return f"{magic[1]}pass" if magic else line


def _parse(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the student's escapes: not ours to print
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _in_place(text: str, nodes: Iterable[ast.stmt]) -> str:
    """Statements of a cell, each on the line on which it stands there."""
    lines = text.encode().split(b"\n")
    placed = [""] * len(lines)
    last = 0
    for node in nodes:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        start = min([node.lineno, *(d.lineno for d in decorators)]) - 1
        for offset, line in enumerate(_segment(lines, node).split("\n")):
            before = placed[start + offset]
            placed[start + offset] = f"{before}; {line}" if before else line
            last = max(last, start + offset)
    return "\n".join(placed[: last + 1])


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


# -------------------------------------------------------------------------------- what is needed


def _needed(statements: Sequence[_Statement], names: Collection[str]) -> list[_Statement]:
    """The statements that bind what is needed, in their order."""
    binding: dict[str, list[int]] = defaultdict(list)
    for number, statement in enumerate(statements):
        for name in statement.binds:
            binding[name].append(number)
    if not names:
        names = {s.node.name for s in statements if isinstance(s.node, _DEFINITIONS)}
        names |= {n for s in statements if isinstance(s.node, _STORES) for n in s.binds}
    waiting = {*names, "*future"}
    seen: set[str] = set()
    kept: set[int] = set()
    while waiting:
        seen |= waiting
        found = {number for name in waiting for number in binding.get(name, ())} - kept
        kept |= found
        needs = {name for number in found for name in statements[number].needs}
        if any(name not in binding and not hasattr(builtins, name) for name in needs):
            needs.add("*")  # so it comes from some `import *`, if from anywhere
        waiting = needs - seen
    return [statements[number] for number in sorted(kept)]


def _statement(cell: int, node: ast.stmt) -> _Statement:
    if isinstance(node, (ast.Expr, ast.Delete)):  # merely runs
        return _Statement(cell, node, frozenset(), frozenset())
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    if any(isinstance(part, (*_DEFINITIONS, ast.Lambda)) for part in ast.walk(node)):
        binds, needs = _scoped(node)
    else:
        binds = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        needs = {name.id for name in names if isinstance(name.ctx, ast.Load)}
    for part in ast.walk(node) if not isinstance(node, _DEFINITIONS) else ():
        binds |= set(_imported(part)) | set(_changed_by(part))
    return _Statement(cell, node, frozenset(binds), frozenset(needs))


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        yield "*future"
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)


def _changed_by(node: ast.AST) -> Iterator[str]:
    """What is assigned to in part: ``Class.method = ...`` and ``TABLE[i] = ...``."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    for target in targets if isinstance(node, _STORES) else ():
        while isinstance(target, (ast.Attribute, ast.Subscript)):
            target = target.value
        if isinstance(target, ast.Name):
            yield target.id


def _scoped(node: ast.stmt) -> tuple[set[str], set[str]]:
    """Names that a statement with definitions in it binds and needs; local ones are neither."""
    try:
        code = compile(ast.Module([node], []), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # for the student to be told
        return {getattr(node, "name", "")}, set()
    binds: set[str] = set()
    needs: set[str] = set()
    waiting = [code]
    while waiting:
        one = waiting.pop()
        waiting += (part for part in one.co_consts if isinstance(part, types.CodeType))
        for step in dis.get_instructions(one):
            if step.opname in _LOADS:
                needs.add(str(step.argval))
            elif step.opname == "STORE_GLOBAL" or (one is code and step.opname == "STORE_NAME"):
                binds.add(str(step.argval))
    return binds, needs
