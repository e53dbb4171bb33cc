"""Where each exercise stands in a module: its lines, its own text, and what a verdict rests on.

By the syntax tree where Python can read the file, else by indentation: whoever is in the middle of
a line still has an exercise being worked on.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence

from grader.course import Course

Span = tuple[int, int]  # the first line, counted from 0, and the one behind the last


@functools.lru_cache(maxsize=64)
def spans(text: str, names: tuple[str, ...]) -> Mapping[str, Span]:
    """The lines of each definition, decorators included; what is not there is left out.

    Args:
        text: a module's source.
        names: such as ``stable_softmax`` or ``MultiHeadAttention.split_heads``.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the student's escapes: not ours to print
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _by_indentation(text.split("\n"), names)
    found: dict[str, Span] = {}
    _visit(tree, "", set(names), found)
    return {name: found[name] for name in names if name in found}


def _visit(node: ast.AST, prefix: str, names: set[str], found: dict[str, Span]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            name = f"{prefix}{child.name}"
            if name in names:  # of two, the later one counts, as it does for Python
                first = min(part.lineno for part in (child, *child.decorator_list))
                found[name] = first - 1, child.end_lineno or child.lineno
            if isinstance(child, ast.ClassDef):
                _visit(child, f"{name}.", names, found)


def _by_indentation(lines: Sequence[str], names: Iterable[str]) -> dict[str, Span]:
    found: dict[str, Span] = {}
    for name in names:
        outer, _, last = name.rpartition(".")
        first, end = found.get(outer, (0, 0 if outer else len(lines)))
        margin = r"[ \t]+" if outer else ""
        head = re.compile(rf"{margin}(?:def|class)\s+{last}\b")
        starts = [row for row in range(first, end) if head.match(lines[row])]
        if starts:
            found[name] = _block(lines, starts[-1], end)
    return found


def _block(lines: Sequence[str], start: int, end: int) -> Span:
    """The lines of the definition whose head is at ``start``."""
    depth = _depth(lines[start])
    last = start
    for row in range(start + 1, end):
        stripped = lines[row].strip()
        closes = stripped[:1] in (")", "]", "}")  # the end of a head over several lines
        if stripped and _depth(lines[row]) <= depth and not closes:
            break
        last = row if stripped else last
    while start > 0 and lines[start - 1].strip()[:1] == "@":
        start -= 1
    return start, last + 1


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


@functools.lru_cache(maxsize=64)
def pieces(text: str, names: tuple[str, ...]) -> dict[str, str]:
    """A module taken apart: the own text of each definition, and at "" what belongs to none.

    A class's own text is what is left of it without those of its methods that are named too.
    """
    whole = spans(text, names)
    owner: dict[int, str] = {}
    for name, (first, end) in sorted(whole.items(), key=lambda item: item[1][0] - item[1][1]):
        owner |= dict.fromkeys(
            range(first, end), name
        )  # the shorter ones come last: they are inside
    parts: dict[str, list[str]] = {name: [] for name in ("", *whole)}
    for row, line in enumerate(text.split("\n")):
        parts[owner.get(row, "")].append(line)
    return {name: "\n".join(found) for name, found in parts.items()}


def names_of(course: Course, unit: str) -> tuple[str, ...]:
    """The exercises of a unit, without its name before them."""
    return tuple(e.name for e in course.exercises.values() if e.unit == unit)


def stands_on(course: Course, id: str, texts: Mapping[str, str]) -> frozenset[str]:
    """The exercises on which an exercise rests: by the course's table, or because its code names
    them, or the module's other code does.
    """
    named: dict[str, list[str]] = {}  # a function or class -> it, and its methods
    for each in course.exercises.values():
        named.setdefault(each.name.split(".")[0], []).append(each.id)
    found: set[str] = set()
    waiting = [id]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            exercise = course.exercises[one]
            parts = _parts(course, exercise.unit, texts)
            words = _words(parts[""]) | _words(parts.get(exercise.name, ""))
            waiting += exercise.needs
            waiting += [other for word in words & named.keys() for other in named[word]]
            waiting += [other for other in (one.rpartition(".")[0],) if other in course.exercises]
    return frozenset(found)


def digest(course: Course, id: str, texts: Mapping[str, str]) -> str:
    """Of all that a verdict on an exercise rests on: its text, those of what it stands on, and what
    else is in these modules. Another exercise beside it may change.

    Args:
        course: the table.
        id: the exercise.
        texts: unit -> its module's source.
    """
    chosen = stands_on(course, id, texts)
    whole = hashlib.sha256(repr(course.exercises[id].points).encode())
    for unit in sorted({course.exercises[one].unit for one in chosen}):
        for name, text in sorted(_parts(course, unit, texts).items()):
            if not name or f"{unit}.{name}" in chosen:
                whole.update(f"{unit}.{name}\n{text}\n".encode("utf-8", "replace"))
    return whole.hexdigest()[:16]


def _parts(course: Course, unit: str, texts: Mapping[str, str]) -> dict[str, str]:
    return pieces(texts.get(unit, ""), names_of(course, unit))


@functools.lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def changed(course: Course, before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The exercises whose own text is another one, in the order of the course."""
    found = []
    for unit in course.units:
        old, new = before.get(unit.name, ""), now.get(unit.name, "")
        if old != new:
            names = names_of(course, unit.name)
            mine, theirs = pieces(old, names), pieces(new, names)
            found += [f"{unit.name}.{n}" for n in names if mine.get(n) != theirs.get(n)]
    return found
