"""A suite is collected whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course import CourseError
from grader.judge.suite import collect

CHECK = '''
from grader.judge import clause

@clause("attention.stable_softmax", 1)
def test_it(subject):
    """What the student sees"""
'''


def suite(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "test_attention.py").write_text(text, encoding="utf-8")
    return [check.title for check in collect([tmp_path / "test_attention.py"]).checks]


def test_checks_are_found(tmp_path: Path) -> None:
    assert suite(tmp_path, CHECK) == ["What the student sees"]


def test_ctrl_c_is_no_smaller_suite(tmp_path: Path) -> None:
    """What pytest makes of it is an exit code."""
    with pytest.raises(KeyboardInterrupt):
        suite(tmp_path, f"{CHECK}\nraise KeyboardInterrupt\n")


@pytest.mark.parametrize("line", ["1 / 0", "("])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(CourseError, match=r"(?s)A suite cannot be read\..*test_attention\.py"):
        suite(tmp_path, f"{CHECK}\n{line}\n")


def test_a_suite_without_checks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="pytest ended with 5"):
        suite(tmp_path, "")
