"""The modules as students get them, before anybody has written in them.

A student's bundle carries them as `grader/given/<unit>.txt`: what `reset` gives back must depend
neither on what lies in exercises/ nor on git or the network. Named .txt, no editor offers them as
code. In the course's own repository they are made from solutions/, and there is no copy of them.
"""

from __future__ import annotations

import ast
from importlib import import_module

from grader.course import ROOT, Course
from grader.definitions import names_of, pieces

FOLDER = ROOT / "grader" / "given"


def modules(course: Course) -> dict[str, str]:
    """Unit -> the source that is handed out."""
    units = [unit.name for unit in course.units]
    if FOLDER.is_dir():
        return {unit: (FOLDER / f"{unit}.txt").read_text(encoding="utf-8") for unit in units}
    stubs = import_module("release.stubs").stubs(course)
    return {unit: stubs[f"{unit}.py"] for unit in units}


def as_given(course: Course, unit: str, text: str, given: str) -> list[str]:
    """The exercises of a unit that nobody has begun: not there, or with the code that was handed
    out. Comments, layout and docstrings do not matter.

    Args:
        course: the table.
        unit: its name.
        text: the student's module.
        given: the module as it was handed out.
    """
    names = names_of(course, unit)
    mine, theirs = pieces(text, names), pieces(given, names)
    return [f"{unit}.{name}" for name in names if _same(mine.get(name, ""), theirs.get(name, ""))]


def _same(mine: str, given: str) -> bool:
    return not mine.strip() or _code(mine) == _code(given)


def _code(text: str) -> str:
    """A definition in a form that tells no layouts apart; the text itself where it has no such."""
    lines = text.split("\n")
    depth = len(lines[0]) - len(lines[0].lstrip())
    try:
        tree = ast.parse("\n".join(line[depth:] for line in lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    for part in ast.walk(tree):
        if isinstance(part, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(part):
            part.body = part.body[1:]
    return ast.dump(tree)
