"""What platforms that run the grader get: all that grading needs, solutions and hidden suites
included. Never for students.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from grader.course import ROOT

GRADING = (
    "LICENSE", "constraints.txt", "course.toml", "pyproject.toml",
    "grader/**/*.py", "grader/judge/pytest.ini", "grader/report/templates/*",
    "grader/locale/*/LC_MESSAGES/*.mo",
    "release/**/*.py", "solutions/**/*.py", "solutions/**/*.toml",
    "tests/public/test_*.py", "tests/hidden/test_*.py", "tools/__init__.py", "tools/set_up.py",
    "tools/install.py",
)  # fmt: skip


def copy(folder: Path, root: Path = ROOT) -> None:
    """Copy into a folder what grading needs."""
    for pattern in GRADING:
        for path in sorted(root.glob(pattern)):
            target = folder / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
