"""A peer: a fresh pytest process for one submission, the student's file in the same process.

    python -m bench.peer_pytest FOLDER

So graders are usually built. It runs the very checks of the core units that `grade` runs, with
pytest as it comes: its own plugins, its own loop.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from grader import course as courses
from grader import intake
from grader.judge import bank
from grader.judge.draw import Draw
from grader.judge.reference import Live, Reference
from grader.judge.suite import Check, suite_files
from grader.subject.host import Host
from grader.subject.proxy import Subject

CORE = ("attention", "masks", "multihead", "positional", "encoder")


class Peer:
    """The fixtures that the suites ask for."""

    def __init__(self, folder: Path):
        course = courses.load()
        units = [unit.name for unit in course.units]
        submission = intake.read(folder, units)
        self._subject = Subject(course, Host(submission, units).perform)
        self._answers = Live(Host(bank.solution(course), units))

    @pytest.fixture
    def draw(self, request: pytest.FixtureRequest) -> Draw:
        return Draw(Check.of(request.node).id)

    @pytest.fixture
    def subject(self, draw: Draw) -> Subject:
        self._subject.begin(draw.seed)
        return self._subject

    @pytest.fixture
    def reference(self) -> Reference:
        self._answers.begin("")
        return Reference(self._answers)


def main() -> int:
    """Run the suites; pytest's exit code."""
    files = [str(path) for path in suite_files(CORE)]
    options = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", "-W", "ignore"]
    options += ["-o", "filterwarnings=", "-o", "addopts="]
    return int(pytest.main([*options, *files], plugins=[Peer(Path(sys.argv[1]))]))


if __name__ == "__main__":
    sys.exit(main())
