"""Write exercises/ again from solutions/."""

from __future__ import annotations

import argparse

from grader import course as courses
from grader.commands import OK


def arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> int:
    from release import stubs

    kept = courses.ROOT / ".kept"
    for path in stubs.write(courses.ROOT / "exercises", courses.load(), kept):
        print(f"written: {path.relative_to(courses.ROOT)} (what stood there is in .kept/)")
    return OK
