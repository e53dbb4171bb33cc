"""Run the public suite on your folder."""

from __future__ import annotations

import argparse
import sys

from grader import course as courses
from grader.check import LIMIT_S, Check
from grader.commands import OK, OPEN, TROUBLE, add_language, add_path, add_targets, seconds
from grader.desk import Desk
from grader.report.formats import FORMATS
from grader.report.language import Language
from grader.score import score


def arguments(parser: argparse.ArgumentParser) -> None:
    add_targets(parser)
    add_path(parser)
    parser.add_argument(
        "--format", choices=("text", *FORMATS), default="text", help="of the report"
    )
    parser.add_argument(
        "--json", action="store_const", dest="format", const="json", help="--format json"
    )
    parser.add_argument(
        "--limit", type=seconds, default=LIMIT_S, help="seconds that one check may take"
    )
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    course = courses.load()
    chosen = course.select(arguments.targets)
    desk = Desk(course, arguments.path)
    check = Check(course, arguments.path, course.closure(chosen), arguments.limit)
    from rich.console import Console  # while the child imports torch

    from grader.report import record
    from grader.report.calling import Spoken
    from grader.report.terminal import Terminal

    language = Language(arguments.lang)
    console = Console(highlight=False)
    told: set[str] = set()

    def waiting(exercise: str) -> None:
        if exercise not in told:
            print(language("{exercise} is still running ...", exercise=exercise), file=sys.stderr)
        told.add(exercise)

    scores = score(course, chosen, check.results(waiting))
    desk.remember(scores.exercises)
    if arguments.format != "text":
        result = record.result(scores, desk.submission, "public", language)
        print(FORMATS[arguments.format]([result], course, language), end="")
    else:
        language, folder = Spoken(arguments.lang), str(arguments.path)
        terminal = Terminal(console, language, bool(arguments.targets), folder)
        terminal.show(scores, desk.submission, desk.upcoming())
    if not scores.graded:
        return TROUBLE
    return OK if scores.passed else OPEN
