"""A course folder for nbgrader: its config, the assignment with solutions, and the grader.

nbgrader_config.py            what nbgrader reads in this folder
source/<assignment>/          solved notebooks, from which nbgrader makes the students'
    grader/, tests/, ...      what check cells need: it goes to students with the notebooks
grading/                      what grades: never for students
"""

from __future__ import annotations

import shutil
from pathlib import Path

from grader import course as courses
from grader.course import ROOT, Course
from release import notebooks, staff, student

ASSIGNMENT = "before-transformers"
_TEMPLATE = Path(__file__).with_name("template") / "nbgrader"
_KIT = ("grader", "tests", "course.toml")  # of the student bundle, what check cells need


def write(folder: Path, course: Course | None = None, root: Path = ROOT) -> None:
    """Fill a folder with the course."""
    from grader.grade import course_secret  # with torch

    course = course or courses.load()
    shutil.copytree(_TEMPLATE, folder, dirs_exist_ok=True)
    staff.copy(folder / "grading", root)
    # So that everybody's hidden inputs are those of `make grade`.
    (folder / "grading" / ".course-secret").write_text(course_secret() + "\n", encoding="utf-8")
    assignment = folder / "source" / ASSIGNMENT
    _kit(assignment, course, root)
    for unit in course.units:
        book = notebooks.notebook(unit, course, solved=True, nbgrader=True)
        path = assignment / f"{unit.name}.ipynb"
        path.write_text(notebooks.to_text(book), encoding="utf-8", newline="\n")


def _kit(folder: Path, course: Course, root: Path) -> None:
    """What check cells need: of the student bundle, the part that checks."""
    student.write(folder, course, root)
    for path in folder.iterdir():
        if path.name not in _KIT:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
