"""Workflows for GitHub Classroom, and the private repository in which one of them runs.

template/   goes into the template repository: points after each push, by the public suite
private/    a repository of the course staff: grades, by the hidden suite
"""

from __future__ import annotations

import shutil
from pathlib import Path

from grader.course import ROOT
from release import staff

_TEMPLATE = Path(__file__).with_name("template") / "classroom"


def write(folder: Path, root: Path = ROOT) -> None:
    """Fill a folder with both."""
    shutil.copytree(_TEMPLATE, folder, dirs_exist_ok=True)
    staff.copy(folder / "private", root)
    for name in ("Makefile", ".gitignore", ".gitattributes"):
        shutil.copyfile(root / name, folder / "private" / name)
