"""What the project's own tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings

from grader import course as courses
from grader.course import Course
from grader.model import Module, Submission

# The same examples on every run: a test that fails by chance tells nobody anything.
settings.register_profile("system", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("system")

Submit = Callable[..., Submission]


@pytest.fixture(scope="session")
def course() -> Course:
    return courses.load()


@pytest.fixture
def submit() -> Submit:
    """Makes a submission of units by name: ``submit(attention="x = 1")``."""

    def submit(id: str = "student", **texts: str) -> Submission:
        modules = {unit: Module(unit, text, f"{id}/{unit}.py") for unit, text in texts.items()}
        return Submission(id, modules)

    return submit
