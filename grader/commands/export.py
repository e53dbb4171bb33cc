"""Write grades as another platform or program reads them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from grader import course as courses
from grader.commands import OK, OPEN, add_language
from grader.report.language import Language


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, help="the folder that `grade` has filled")
    parser.add_argument(
        "--format",
        required=True,
        choices=("canvas", "moodle", "gradescope", "junit", "markdown"),
    )
    parser.add_argument("--to", type=Path, help="the file to write; by default one in OUT")
    parser.add_argument(
        "--roster", type=Path, help="canvas, moodle: the class, as the platform exports it"
    )
    parser.add_argument("--column", help="canvas, moodle: the assignment's name there")
    parser.add_argument("--out-of", type=_positive, help="canvas, moodle: points to scale to")
    add_language(parser)


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError("it must be above 0")
    return number


def run(arguments: argparse.Namespace) -> int:
    language = Language(arguments.lang)
    if arguments.format == "gradescope":
        from grader.report import gradescope

        to = arguments.to or arguments.out / "results.json"
        return OK if gradescope.write(arguments.out, to, language) else OPEN
    if arguments.format in ("junit", "markdown"):
        return _whole(arguments, language)
    from grader.report import lms

    column = arguments.column or courses.load().title
    to = arguments.to or arguments.out / f"{arguments.format}.csv"
    exported = lms.export(
        arguments.out / "grades.csv", arguments.format, arguments.roster, column, arguments.out_of
    )
    to.write_text(exported.text, encoding="utf-8", newline="")
    print(language("written: {file}", file=to))
    for submission in exported.without_verdict:
        print(language("left out: {name} has no verdict", name=submission), file=sys.stderr)
    for submission in exported.strangers:
        print(language("left out: {name} is not in the roster", name=submission), file=sys.stderr)
    return OPEN if exported.without_verdict or exported.strangers else OK


def _whole(arguments: argparse.Namespace, language: Language) -> int:
    """What is made of every result of a class."""
    from grader.report import formats

    to = (
        arguments.to
        or arguments.out / {"junit": "junit.xml", "markdown": "summary.md"}[arguments.format]
    )
    results = formats.read(arguments.out)
    to.write_text(formats.FORMATS[arguments.format](results, courses.load(), language), "utf-8")
    print(language("written: {file}", file=to))
    return OK
