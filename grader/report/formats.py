"""One result in the forms that programs and people read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.course import Course, CourseError
from grader.intake import printable
from grader.model import say
from grader.report import record
from grader.report.language import Language

Results = Sequence[Mapping[str, Any]]


def read(out: Path) -> list[Mapping[str, Any]]:
    """The results in a folder that `grade` has filled.

    Raises:
        CourseError: there is none, or one of them cannot be read.
    """
    paths = sorted(out.glob("*/result.json"))
    if not paths:
        raise CourseError(
            say("{folder} holds no results: name a folder that `grade` has filled.",
                folder=str(out))
        )  # fmt: skip
    return [record.read(path) for path in paths]


def as_json(results: Results, course: Course, language: Language) -> str:
    """`result.json`; see docs/result.schema.json."""
    (result,) = results
    return json.dumps(result, ensure_ascii=False, indent=1) + "\n"


def as_junit(results: Results, course: Course, language: Language) -> str:
    """JUnit's XML."""
    from grader.report import junit

    return junit.render(results)


def as_markdown(results: Results, course: Course, language: Language) -> str:
    """A summary for the page of a CI run."""
    from grader.report import github

    texts = []
    for result in results:
        name = printable(" ".join(result["submission"].split()))
        name = re.sub(r"([^\w\s])", r"\\\1", name)  # it is no markup
        head = f"# {name}\n\n" if len(results) > 1 else ""
        texts.append(head + github.of_result(result, language)[0])
    return "\n".join(texts)


def as_html(results: Results, course: Course, language: Language) -> str:
    """A page."""
    from grader.report import pages

    (result,) = results
    return pages.student(result, course, language)


FORMATS: dict[str, Callable[[Results, Course, Language], str]] = {
    "json": as_json,
    "junit": as_junit,
    "markdown": as_markdown,
    "html": as_html,
}
