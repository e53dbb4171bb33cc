"""JupyterLab with the student bundle, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course import Course
from grader.judge import bank
from grader.subject.modules import PACKAGE
from release import notebooks, student
from tests.system.browser import Browser, Notebook, jupyter, until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SDPA = "scaled_dot_product_attention"


def test_a_student_solves_attention_and_breaks_it(course: Course, tmp_path: Path) -> None:
    """Open, fill in, run all, see the verdict; break it, run, see the diagnosis."""
    folder = tmp_path / "before transformers"
    student.write(folder, course)
    notebooks.write(folder / PACKAGE, course)
    unit = next(unit for unit in course.units if unit.name == "attention")
    text = bank.uncovered(bank.solution(course).modules["attention"].text)
    source = notebooks._Source(unit, text)
    with jupyter(folder / PACKAGE, tmp_path) as address, Browser(tmp_path) as browser:
        book = Notebook(browser, address, "attention.ipynb")
        check = f'check("attention.{SDPA}")'
        book.show(f"def {SDPA}(")
        for exercise in unit.exercises:
            book.fill(f"def {exercise.name}(", source.definition(exercise.name))
        book.run_all()
        for exercise in unit.exercises:
            points = f"{exercise.max_score:g} / {exercise.max_score:g}"
            cell = f'check("{exercise.id}")'
            until(lambda cell=cell, points=points: points in book.output(cell), 120)
        book.show(check)
        browser.picture("notebook-passed", tmp_path, ".jp-NotebookPanel")
        right = source.definition(SDPA)
        assert right.count("scores, dim=-1") == 1
        book.fill(f"def {SDPA}(", right.replace("scores, dim=-1", "scores, dim=-2"))
        book.run(f"def {SDPA}(")
        book.run(check)
        until(lambda: "equal those of a softmax over the queries" in book.output(check), 120)
        said = book.output(check)
        assert "which axis must sum to 1?" in said
        assert "8 / 14" in said
        book.show(check)
        browser.picture("notebook-diagnosis", tmp_path, ".jp-NotebookPanel")
