"""Notebooks, one for each unit: the lesson, the exercises and a check for each.

Exercises come from solutions/, as the stubs do. The lesson comes from docs/lessons/<unit>.md, in
jupytext's Markdown: prose, and code in ``python`` fences. A line that says
``<!-- exercise: stable_softmax -->`` is where an exercise stands: each of the unit once, in the
order of the course. A unit without a lesson has its exercises alone. Two builds give the same
bytes.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grader import cells
from grader.course import ROOT, Course, CourseError, Exercise, Unit
from grader.course import load as load_course
from grader.report.nbgrader import check_cell
from release import stubs

LESSONS = ROOT / "docs" / "lessons"
NEEDS = ("jupytext",)  # which reads lessons
LANGUAGES = ("", "zh")  # the course's own, and those that lessons are translated to

_MARK = re.compile(r"^<!-- exercise: *([\w.]+) *-->[ \t]*$", re.M)

_SET_UP = """\
# The course lies here, or in the folder above.
import sys

sys.path[:0] = [".", ".."]
from grader.notebook import check"""

Cell = dict[str, Any]


def write(folder: Path, course: Course | None = None, anew: bool = True) -> None:
    """Write the students' notebooks into a folder, in all languages that there are lessons in.

    Args:
        folder: where.
        course: the table.
        anew: those that lie there already, too, which may be somebody's work.
    """
    course = course or load_course()
    for unit in course.units:
        for language in LANGUAGES:
            if not language or lesson_path(unit, language).exists():
                name = f"{unit.name}.{language}.ipynb" if language else f"{unit.name}.ipynb"
                if anew or not (folder / name).exists():
                    text = to_text(notebook(unit, course, language=language))
                    (folder / name).write_text(text, encoding="utf-8", newline="\n")


def to_text(book: dict[str, Any]) -> str:
    """A notebook's file."""
    return json.dumps(book, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def lesson_path(unit: Unit, language: str = "", lessons: Path = LESSONS) -> Path:
    """Where a unit's lesson is."""
    return lessons / language / f"{unit.name}.md"


def notebook(
    unit: Unit,
    course: Course,
    solved: bool = False,
    language: str = "",
    lessons: Path = LESSONS,
    nbgrader: bool = False,
) -> dict[str, Any]:
    """One unit's notebook.

    Args:
        unit: which.
        course: the table.
        solved: with the solutions, between nbgrader's own markers, instead of stubs.
        language: of the lesson.
        lessons: the folder of lessons.
        nbgrader: with nbgrader's metadata: what students write, and what earns points.

    Raises:
        CourseError: the lesson does not say once, and in order, where each exercise stands.
    """
    given = stubs.stub(unit.name, _solution(unit), course)
    text = _solution(unit) if solved else given
    source = _Source(unit, text)
    path = lesson_path(unit, language, lessons)
    parts = _lesson(path) if path.exists() else _without_lesson(unit, source)
    _hold_order(path, unit, [part for part in parts if isinstance(part, str)])
    made: list[Cell] = []
    for part in parts:
        if isinstance(part, str):
            exercise = next(e for e in unit.exercises if e.name == part)
            made += _exercise(exercise, source, language, nbgrader)
        else:
            made.append(part)
    first = next((n for n, cell in enumerate(made) if cell["cell_type"] == "code"), len(made))
    made[first:first] = [_code(_SET_UP, "set-up"), _code(source.given, "imports")]
    for number, cell in enumerate(made):
        cell.setdefault("id", f"lesson-{number}")
    return {
        "cells": made,
        "metadata": {
            "before_transformers": {"given": _digests(unit, given)},
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def definition_id(name: str) -> str:
    """The id of the cell in which an exercise is written."""
    return f"exercise-{name.split('.')[0]}"


def _solution(unit: Unit) -> str:
    return (ROOT / "solutions" / f"{unit.name}.py").read_text(encoding="utf-8")


def _digests(unit: Unit, stub: str) -> dict[str, str]:
    """By which it is known who has worked on what."""
    source = _Source(unit, stub)
    names = dict.fromkeys(exercise.name.split(".")[0] for exercise in unit.exercises)
    return {name: cells.digest(source.definition(name)) for name in names}


class _Source:
    """A unit's module, in parts."""

    def __init__(self, unit: Unit, text: str):
        self._lines = text.split("\n")
        tree = ast.parse(text)
        names = {exercise.name.split(".")[0] for exercise in unit.exercises}
        self._definitions = {n.name: n for n in tree.body if getattr(n, "name", "") in names}  # type: ignore[attr-defined]
        self.intro = ast.get_docstring(tree) or ""
        first = min(node.lineno for node in self._definitions.values())
        body = tree.body[1:] if self.intro else tree.body
        before = [node for node in body if node.lineno < first]
        text = "\n".join(self._lines[before[0].lineno - 1 : before[-1].end_lineno])
        self.given = re.sub(r"^from \.(\w+) import", r"from exercises.\1 import", text, flags=re.M)

    def definition(self, name: str) -> str:
        """A definition's text."""
        node = self._definitions[name]
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        return "\n".join(self._lines[first - 1 : node.end_lineno])


# --------------------------------------------------------------------------------------- the lesson


def _lesson(path: Path) -> list[Cell | str]:
    """The lesson's cells, and the names of exercises where they stand."""
    import jupytext  # who has no lessons needs none

    parts: list[Cell | str] = []
    for cell in jupytext.reads(path.read_text(encoding="utf-8"), fmt="md").cells:
        if cell.cell_type != "markdown":
            parts.append(_code(cell.source))
            continue
        pieces = _MARK.split(cell.source)  # prose, name, prose, name, ... prose
        for number, piece in enumerate(pieces):
            if number % 2:
                parts.append(piece)
            elif piece.strip():
                parts.append(_prose(piece.strip()))
    return parts


def _without_lesson(unit: Unit, source: _Source) -> list[Cell | str]:
    intro = source.intro.partition("\n")[2].strip()
    parts: list[Cell | str] = [_prose(f"# {unit.title}\n\n*{unit.why}*\n\n{intro}")]
    for exercise in unit.exercises:
        parts += [_prose(f"## {exercise.name}"), exercise.name]
    return parts


def _hold_order(path: Path, unit: Unit, found: Sequence[str]) -> None:
    expected = [exercise.name for exercise in unit.exercises]
    for number, (name, wanted) in enumerate(_pairs(found, expected)):
        if name != wanted:
            place = f"{path.parent.name}/{path.name}, exercise {number + 1}"
            line = f"`<!-- exercise: {wanted} -->`" if wanted else "no exercise more"
            raise CourseError(
                f"{place}: expected {line}, found {name or 'none'}. Each exercise of the unit"
                " stands in its lesson once, in the order of course.toml."
            )


def _pairs(found: Sequence[str], expected: Sequence[str]) -> Iterator[tuple[str, str]]:
    size = max(len(found), len(expected))
    for names in zip(*([*names, *[""] * (size - len(names))] for names in (found, expected))):
        yield names[0], names[1]


# -------------------------------------------------------------------------------------------- cells


def _exercise(exercise: Exercise, source: _Source, language: str, nbgrader: bool) -> list[Cell]:
    """The cell in which it is written, and the one that checks it. A method is written in its
    class's cell.
    """
    wanted = f', lang="{language}"' if language else ""
    check = _code(f'check("{exercise.id}"{wanted})', check_cell(exercise.id))
    if nbgrader:
        points = exercise.max_score
        check["metadata"]["nbgrader"] = _metadata(check["id"], grade=True, points=points)
    if "." in exercise.name:
        return [check]
    written = _code(source.definition(exercise.name), definition_id(exercise.name))
    if nbgrader:
        written["metadata"]["nbgrader"] = _metadata(written["id"], solution=True)
    return [written, check]


def _metadata(
    id: str, grade: bool = False, solution: bool = False, points: float | None = None
) -> dict[str, Any]:
    data = {"grade": grade, "grade_id": id, "locked": grade, "schema_version": 3}
    return data | {"solution": solution, "task": False} | ({"points": points} if grade else {})


def _code(source: str, id: str = "") -> Cell:
    cell: Cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
            "source": source}  # fmt: skip
    return cell | ({"id": id} if id else {})


def _prose(source: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": source}
