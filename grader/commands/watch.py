"""Check the exercise that you work on at every save."""

from __future__ import annotations

import argparse

from grader import course as courses
from grader.commands import OK, add_language, add_path, add_targets, seconds


def arguments(parser: argparse.ArgumentParser) -> None:
    add_targets(parser)
    add_path(parser)
    parser.add_argument("--limit", type=seconds, help="seconds that one check may take")
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    from grader.report.teller import Teller
    from grader.watch import LIMIT_S, Watch

    course = courses.load()
    chosen = course.select(arguments.targets)
    limit_s = arguments.limit or LIMIT_S
    Watch(course, arguments.path, chosen, limit_s, Teller(arguments.lang)).run()
    return OK
