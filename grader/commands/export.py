"""Write grades as another platform or program reads them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from grader import course as courses
from grader.commands import OK, OPEN, a_number, add_language
from grader.model import say
from grader.report.language import Language
from grader.report.usage import refusal


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, help="the folder that `grade` has filled")
    parser.add_argument("--format", required=True, choices=_FORMATS)
    parser.add_argument("--to", type=Path, help="the file to write; by default one in OUT")
    parser.add_argument(
        "--roster", type=Path, help="canvas, moodle: the class, as the platform exports it"
    )
    parser.add_argument("--column", help="canvas, moodle: the assignment's name there")
    parser.add_argument("--out-of", type=_positive, help="canvas, moodle: points to scale to")
    parser.add_argument("--db", help="nbgrader: its gradebook, such as sqlite:///gradebook.db")
    parser.add_argument("--assignment", help="nbgrader: the assignment's name there")
    add_language(parser)


def _positive(text: str) -> float:
    number = a_number(text)
    if not 0 < number < 1e6:
        raise refusal(say("it must be above 0"))
    return number


def run(arguments: argparse.Namespace) -> int:
    write, name = _FORMATS[arguments.format]
    to = arguments.to or arguments.out / name
    return write(arguments, to, Language(arguments.lang))


def _gradescope(arguments: argparse.Namespace, to: Path, language: Language) -> int:
    from grader.report import gradescope

    return OK if gradescope.write(arguments.out, to, language) else OPEN


def _hold_finished(out: Path) -> None:
    """See that a run has come to its end: half a class would be taken for all of it."""
    if not (out / "grades.csv").is_file():
        words = say(
            "{folder} holds no grades.csv: nothing was graded there, or not to the end. `make"
            " grade` goes on where it stopped.",
            folder=str(out),
        )
        raise courses.CourseError(words)


def _whole(arguments: argparse.Namespace, to: Path, language: Language) -> int:
    """What is made of every result of a class."""
    from grader.report import formats

    _hold_finished(arguments.out)
    results = formats.read(arguments.out)
    _put(to, formats.FORMATS[arguments.format](results, courses.load(), language))
    print(language("written: {file}", file=to))
    return OK


def _lms(arguments: argparse.Namespace, to: Path, language: Language) -> int:
    from grader.report import lms

    _hold_finished(arguments.out)
    column = arguments.column or courses.load().title
    exported = lms.export(
        arguments.out / "grades.csv", arguments.format, arguments.roster, column, arguments.out_of
    )
    _put(to, exported.text)
    print(language("written: {file}", file=to))
    _left_out(exported.without_verdict, language)
    for submission in exported.strangers:
        print(language("left out: {name} is not in the roster", name=submission), file=sys.stderr)
    return OPEN if exported.without_verdict or exported.strangers else OK


def _put(to: Path, text: str) -> None:
    """Write a file whole or not at all: half a class would be imported as if it were all."""
    from grader.report import gradebook

    if to.exists() and not to.is_file():  # /dev/stdout, say
        to.write_text(text, encoding="utf-8", errors="replace", newline="")
    else:
        gradebook.replace(to.resolve(), text)


def _gradebook(arguments: argparse.Namespace, to: Path, language: Language) -> int:
    from grader.report import nbgrader

    if not arguments.db or not arguments.assignment:
        words = say("nbgrader's gradebook needs --db URL and --assignment NAME.")
        raise courses.CourseError(words)
    _hold_finished(arguments.out)
    written = nbgrader.write(arguments.out, courses.load(), arguments.db, arguments.assignment)
    print(language("written: the points of {count} students", count=len(written.students)))
    _left_out(written.without_verdict, language)
    return OPEN if written.without_verdict else OK


def _left_out(names: Iterable[str], language: Language) -> None:
    for name in names:
        print(language("left out: {name} has no verdict", name=name), file=sys.stderr)


_FORMATS = {
    "canvas": (_lms, "canvas.csv"),
    "moodle": (_lms, "moodle.csv"),
    "gradescope": (_gradescope, "results.json"),
    "junit": (_whole, "junit.xml"),
    "markdown": (_whole, "summary.md"),
    "nbgrader": (_gradebook, ""),
}
