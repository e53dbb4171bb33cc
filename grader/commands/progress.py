"""See where you stand, from the last checks."""

from __future__ import annotations

import argparse

from grader import course as courses
from grader.commands import OK, add_language, add_path, add_targets


def arguments(parser: argparse.ArgumentParser) -> None:
    add_targets(parser)
    add_path(parser)
    parser.add_argument("--check", action="store_true", help="check everything first")
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    from grader.desk import Desk
    from grader.report.progress import Progress
    from grader.report.teller import Teller

    tell = Teller(arguments.lang)
    course = courses.load()
    desk = Desk(course, arguments.path)
    chosen = course.select(arguments.targets)
    if arguments.check:
        desk.check(chosen, tell.waiting)
    Progress(desk, tell).show(chosen, bool(arguments.targets))
    return OK
