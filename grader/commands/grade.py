"""Grade a class behind walls (Linux)."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from grader.check import LIMIT_S
from grader.commands import add_language, at_least_one, seconds
from grader.model import what
from grader.report.language import Language


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "submissions",
        nargs="?",
        type=Path,
        help="holds a folder or a zip for each student; left out: the bundled sample class",
    )
    parser.add_argument("--out", type=Path, default=Path("grades"), help="where results go")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TARGETS",
        help='the units or exercises that count, such as "attention masks"; all by default',
    )
    parser.add_argument(
        "--assignment", default="", help="of nbgrader's submitted/<student>/<assignment>: which one"
    )
    parser.add_argument(
        "--students",
        default="*",
        help="a pattern of whom to grade; the others keep the results that they have",
    )
    parser.add_argument(
        "--jobs", type=at_least_one, default=os.cpu_count() or 1, help="how many at a time"
    )
    parser.add_argument(
        "--limit", type=seconds, default=LIMIT_S, help="seconds that one check may take"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--spawn", action="store_true", help="workers as --device cuda has them, to try them out"
    )
    parser.add_argument(
        "--unsafe", action="store_true", help="grade although protections are absent"
    )
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    from grader import classroom
    from grader.subject.jail import JailError

    try:
        return classroom.run(
            arguments.submissions,
            arguments.out,
            " ".join(arguments.only).split(),
            arguments.jobs,
            arguments.limit,
            arguments.device,
            arguments.unsafe,
            Language(arguments.lang),
            arguments.spawn,
            arguments.assignment,
            arguments.students,
        )
    except JailError as error:  # it is not Linux, say
        raise classroom.ClassroomError(what(error)) from None
