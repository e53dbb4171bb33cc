"""The docs: the site builds, no link is dead, and contracts are told whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader import course as courses
from grader.course import ROOT
from release import contracts

_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-nWEq", "--keep-going", "docs", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "contracts" / "zh" / "attention.html").is_file()


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    links = _LINK.findall((ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_a_docstring_is_taken_apart() -> None:
    found = contracts.parts(
        """Do it.

        Why: because
        of that.

        Args:
            x: what comes in,
                ``[batch]``.

        Contract:
            1. One
               promise.
            2. Another.

        Source: Somebody 2017.
        """
    )
    assert [(part.section, part.label, part.text) for part in found] == [
        ("", "", "Do it."),
        ("", "", "Why: because of that."),
        ("Args", "x", "what comes in, ``[batch]``."),
        ("Contract", "1.", "One promise."),
        ("Contract", "2.", "Another."),
        ("Source", "", "Somebody 2017."),
    ]


def test_a_page_tells_every_clause() -> None:
    course = courses.load()
    for unit in course.units:
        page = contracts.page(unit, course, lambda text: text)
        told = re.findall(r"^\d+\. ", page, re.M)
        assert len(told) == sum(len(exercise.points) for exercise in unit.exercises)
