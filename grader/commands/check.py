"""Run the public suite on your folder."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from grader import course as courses
from grader import intake
from grader.check import LIMIT_S, Check
from grader.commands import OK, OPEN, TROUBLE, add_language, add_targets, seconds
from grader.report.language import Language
from grader.score import score


def arguments(parser: argparse.ArgumentParser) -> None:
    add_targets(parser)
    parser.add_argument(
        "--path", type=Path, default=Path("exercises"), help="the folder with your modules"
    )
    parser.add_argument("--json", action="store_true", help="print result.json instead")
    parser.add_argument(
        "--limit", type=seconds, default=LIMIT_S, help="seconds that one check may take"
    )
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    course = courses.load()
    chosen = course.select(arguments.targets)
    submission = intake.read_folder(arguments.path, [unit.name for unit in course.units])
    check = Check(course, arguments.path, course.closure(chosen), arguments.limit)
    from rich.console import Console  # while the child imports torch

    from grader.report import record
    from grader.report.terminal import Terminal

    language = Language(arguments.lang)
    console = Console(highlight=False)
    told: set[str] = set()

    def waiting(exercise: str) -> None:
        if exercise not in told:
            print(language("{exercise} is still running ...", exercise=exercise), file=sys.stderr)
        told.add(exercise)

    scores = score(course, chosen, check.results(waiting))
    if arguments.json:
        print(
            json.dumps(
                record.result(scores, submission, "public", language), ensure_ascii=False, indent=1
            )
        )
    else:
        upcoming = course.after(chosen[-1])
        Terminal(console, language, bool(arguments.targets)).show(
            scores, submission, str(arguments.path), upcoming
        )
    if not scores.graded:
        return TROUBLE
    return OK if scores.passed else OPEN
