"""Stubs from solutions: what students fill in is generated, so that the two cannot drift.

A stub is the solution's module with each ``### BEGIN SOLUTION`` ... ``### END SOLUTION`` block
replaced by a ``raise`` that names its exercise. A repair keeps its block, with a fault in it: the
known mistake that course.toml names.
"""

from __future__ import annotations

import ast
import re
import shutil
import time
from pathlib import Path

from grader.course import ROOT, Course
from grader.judge import bank

_BLOCK = re.compile(
    r"^(?P<indent>[ ]*)### BEGIN SOLUTION\n(?P<body>.*?)^[ ]*### END SOLUTION\n", re.M | re.S
)
_MARKER = re.compile(r"#\s*(BEGIN|END)\s+SOLUTION", re.I)


def stub(unit: str, text: str, course: Course) -> str:
    """The stub of one unit.

    Args:
        unit: its name.
        text: the solution's source.
        course: says which definitions are exercises.

    Raises:
        ValueError: a block stands outside of every exercise, or a marker has no partner.
        CourseError: a fault is not in the bank, or does not fit.
    """
    repairs = {e.id for e in course.exercises.values() if e.unit == unit and e.stub}
    for id, fault in bank.faults(course).items() if repairs else ():
        text = fault.apply(text) if id in repairs else text
    spans = list(_spans(unit, ast.parse(text), course))

    def replacement(block: re.Match[str]) -> str:
        line = text.count("\n", 0, block.start()) + 1
        inside = [id for id, first, last in spans if first <= line <= last]
        if not inside:
            raise ValueError(f"solutions/{unit}.py, line {line}: this block is in no exercise")
        if inside[-1] in repairs:
            return block["body"]
        indent = block["indent"]
        return f'{indent}# Your code here.\n{indent}raise NotImplementedError("{inside[-1]}")\n'

    _hold_markers(unit, text)
    return _BLOCK.sub(replacement, text)


def _hold_markers(unit: str, text: str) -> None:
    """A block that is not closed would hand out its solution, or swallow what comes after it."""
    depth = 0
    for marker in _MARKER.finditer(text):
        line = text.count("\n", 0, marker.start()) + 1
        depth += 1 if marker[1] == "BEGIN" else -1
        if depth not in (0, 1) or text.split("\n")[line - 1].strip() != f"### {marker[1]} SOLUTION":
            raise ValueError(
                f"solutions/{unit}.py, line {line}: a block is what stands between"
                " `### BEGIN SOLUTION` and `### END SOLUTION`, each alone on its line"
            )
    if depth:
        raise ValueError(f"solutions/{unit}.py: the last block has no `### END SOLUTION`")


def write(folder: Path, course: Course, kept: Path) -> list[Path]:
    """Write every unit's stub into ``folder``; give back the files that have changed.

    What stood there before, which may be somebody's work, is copied into a new folder of ``kept``.
    """
    changed = []
    copies = kept / time.strftime("%Y-%m-%d-%H%M%S")
    for name, text in stubs(course).items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            if path.exists():
                copies.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copies / name)
            path.write_text(text, encoding="utf-8", newline="\n")
            changed.append(path)
    return changed


def stubs(course: Course, solutions: Path = ROOT / "solutions") -> dict[str, str]:
    """File name -> text, for every unit."""
    files = {"__init__.py": '"""Your work goes here: one module per unit."""\n'}
    for unit in course.units:
        text = (solutions / f"{unit.name}.py").read_text(encoding="utf-8")
        files[f"{unit.name}.py"] = stub(unit.name, text, course)
    return files


def _spans(prefix: str, node: ast.AST, course: Course) -> list[tuple[str, int, int]]:
    """(exercise, first line, last line) of each definition that is an exercise, outermost first."""
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            id = f"{prefix}.{child.name}"
            if id in course.exercises:
                found.append((id, child.lineno, child.end_lineno or child.lineno))
            found += _spans(id, child, course)
    return found
