"""Scores in nbgrader's gradebook, by its own API: the formgrader, feedback and export show them.

A class that handed in modules has an assignment there, too: where the gradebook knows none of the
name, one is made of the course's table, as `nbgrader generate_assignment` would.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.course import Course, CourseError
from grader.model import say
from grader.report import record


class GradebookError(CourseError):
    """The scores cannot be written; the text says what to do."""


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
        students: whose points are in the gradebook now.
        without_verdict: who has none, and keeps what was there.
    """

    students: list[str]
    without_verdict: list[str]


def check_cell(exercise: str) -> str:
    """The name of the cell that earns an exercise's points; nbgrader allows no dots."""
    return f"check-{exercise.split('.', 1)[1].replace('.', '-')}"


def find_alembic() -> None:
    """For a new gradebook it is called by name, and nobody need have activated our .venv."""
    own = str(Path(sys.executable).parent)
    paths = os.environ.get("PATH", "").split(os.pathsep)
    if own not in paths:
        os.environ["PATH"] = os.pathsep.join([own, *paths])


def write(out: Path, course: Course, url: str, assignment: str) -> Written:
    """Write a class's scores.

    Args:
        out: the folder that `grade` has filled.
        course: the table.
        url: of the database, such as ``sqlite:///course/gradebook.db``.
        assignment: its name there.

    Raises:
        GradebookError: nbgrader is missing, the database refuses, or it knows another assignment by
            this name.
    """
    find_alembic()
    try:
        from nbgrader.api import Gradebook
    except ImportError:
        raise GradebookError(
            say("nbgrader is not installed: `python tools/set_up.py notebooks` installs it.")
        ) from None
    results = list(_results(out))
    if not results:
        raise GradebookError(
            say("{folder} holds no results: name a folder that `grade` has filled.",
                folder=str(out))
        )  # fmt: skip
    graded = [result for result in results if result["status"] == "graded"]
    try:
        with Gradebook(url) as gradebook:
            _hold_assignment(gradebook, course, assignment, graded)
            for result in graded:
                _student(gradebook, assignment, result)
    except GradebookError:
        raise
    except Exception as error:  # of sqlalchemy, of any database's driver, of nbgrader
        told = f"{type(error).__name__}: {error}"
        raise GradebookError(say("{file}: {what}", file=url, what=told)) from error
    missing = [one["submission"] for one in results if one["status"] != "graded"]
    return Written([one["submission"] for one in graded], missing)


def _results(out: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(out.glob("*/result.json")):
        yield record.read(path)


def _hold_assignment(
    gradebook: Any, course: Course, name: str, graded: list[dict[str, Any]]
) -> None:
    """See that the gradebook has the assignment, worth what the course says."""
    known = {one.name: one for one in gradebook.assignments}
    if name not in known or not known[name].notebooks:
        exercises = [one["id"] for result in graded[:1] for one in result["exercises"]]
        gradebook.update_or_create_assignment(name)
        for id in exercises:
            unit, points = course.exercises[id].unit, course.exercises[id].max_score
            gradebook.update_or_create_notebook(unit, name)
            gradebook.update_or_create_grade_cell(
                check_cell(id), unit, name, max_score=points, cell_type="code"
            )
        return
    for notebook in known[name].notebooks:
        for cell in notebook.grade_cells:
            worth = {
                exercise.max_score
                for id, exercise in course.exercises.items()
                if (exercise.unit, check_cell(id)) == (notebook.name, cell.name)
            }
            if worth != {cell.max_score}:
                raise GradebookError(
                    say(
                        "The gradebook's assignment {name!r} has {points} points for {cell}, and"
                        " the course does not: name another --assignment, or run `nbgrader"
                        " generate_assignment` again.",
                        name=name,
                        points=f"{cell.max_score:g}",
                        cell=f"{notebook.name}/{cell.name}",
                    )
                )


def _student(gradebook: Any, assignment: str, result: Mapping[str, Any]) -> None:
    """One submission's points. What was given by hand there stays, and is marked for a look."""
    student = result["submission"]
    gradebook.update_or_create_student(student)
    submission = gradebook.update_or_create_submission(assignment, student)
    scores = {
        (one["id"].split(".")[0], check_cell(one["id"])): one["score"]
        for one in result["exercises"]
    }
    grades = [  # where only some exercises were graded, the others keep what they had
        grade
        for notebook in submission.notebooks
        for grade in notebook.grades
        if (grade.notebook.name, grade.name) in scores
    ]
    # An adjustment of the whole, such as lateness, belongs to no exercise.
    rest = result["score"] - sum(scores.values())
    for grade in grades:
        grade.auto_score = scores[grade.notebook.name, grade.name]
        grade.needs_manual_grade = grade.manual_score is not None
        grade.extra_credit = None
    if grades and rest:
        grades[0].extra_credit = rest
    gradebook.db.commit()
