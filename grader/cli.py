"""The command line: `check`, `validate`, and what people type through `make`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from grader import course as courses
from grader import intake
from grader.check import LIMIT_S, Check, SessionError
from grader.course import CourseError
from grader.intake import IntakeError
from grader.report.language import Language
from grader.score import score

OK, OPEN, TROUBLE = 0, 1, 2  # exit codes: all passed; something is open; could not do as asked


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0 only if all that was asked for passes."""
    for stream in (sys.stdout, sys.stderr):  # a Windows console may be set to less than UTF-8
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    # Read when torch is imported: small tensors gain nothing from threads that wait for each other.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (CourseError, IntakeError, SessionError) as error:
        print(error, file=sys.stderr)
        return TROUBLE
    except OSError as error:  # a full disk, a folder that may not be written
        print(f"{error}. What was finished is kept.", file=sys.stderr)
        return TROUBLE
    except KeyboardInterrupt:
        print("\nStopped. What was finished is kept.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("grader", description="Checks and grades the exercises.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="the public suite on your folder")
    check.add_argument(
        "targets", nargs="*", metavar="TARGET", help="a unit or an exercise; all by default"
    )
    check.add_argument(
        "--path", type=Path, default=Path("exercises"), help="the folder with your modules"
    )
    check.add_argument("--json", action="store_true", help="print result.json instead")
    check.add_argument("--lang", help="the language of messages; so far there is English")
    check.add_argument(
        "--limit", type=_seconds, default=LIMIT_S, help="seconds that one check may take"
    )
    check.set_defaults(run=_check)
    validate = commands.add_parser("validate", help="prove the course: for maintainers")
    validate.add_argument("targets", nargs="*", metavar="TARGET")
    validate.set_defaults(run=_validate)
    calibrate = commands.add_parser(
        "calibrate", help="show that each tolerance lies between right answers and mistakes"
    )
    calibrate.add_argument("targets", nargs="*", metavar="TARGET")
    calibrate.add_argument(
        "--secrets", type=_at_least_one, default=20, help="how many course secrets to draw from"
    )
    calibrate.add_argument("--first", type=int, default=0, help="the number of the first secret")
    calibrate.add_argument(
        "--mistakes", type=int, default=3, help="with how many of them known mistakes run, too"
    )
    calibrate.add_argument("--device", default="cpu", help="cpu or cuda")
    calibrate.add_argument(
        "--write", action="store_true", help="write docs/tolerances.csv, not compare"
    )
    calibrate.set_defaults(run=_calibrate)
    mutants = commands.add_parser("mutants", help="change the reference, and see it noticed")
    mutants.add_argument("targets", nargs="*", metavar="TARGET")
    mutants.set_defaults(run=_mutants)
    pairs = commands.add_parser("pairs", help="what is said of two mistakes at once")
    pairs.add_argument("targets", nargs="*", metavar="TARGET")
    pairs.set_defaults(run=_pairs)
    grade = commands.add_parser("grade", help="a class, graded behind walls (Linux)")
    grade.add_argument(
        "submissions",
        nargs="?",
        type=Path,
        help="holds a folder or a zip for each student; left out: the bundled sample class",
    )
    grade.add_argument("--out", type=Path, default=Path("grades"), help="where results go")
    grade.add_argument("--only", action="append", default=[], metavar="TARGET")
    grade.add_argument("--jobs", type=_at_least_one, default=os.cpu_count() or 1)
    grade.add_argument(
        "--limit", type=_seconds, default=LIMIT_S, help="seconds that one check may take"
    )
    grade.add_argument("--device", default="cpu", help="cpu or cuda")
    grade.add_argument(
        "--spawn", action="store_true", help="workers as --device cuda has them, to try them out"
    )
    grade.add_argument(
        "--unsafe", action="store_true", help="grade although protections are absent"
    )
    grade.add_argument("--lang", help="see check")
    grade.set_defaults(run=_grade)
    doctor = commands.add_parser("doctor", help="try the protections on this machine")
    doctor.set_defaults(run=_doctor)
    answers = commands.add_parser("answers", help="record the public suite's answers again")
    answers.set_defaults(run=_answers)
    stubs = commands.add_parser("stubs", help="write exercises/ again from solutions/")
    stubs.set_defaults(run=_stubs)
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 86_400:
        raise argparse.ArgumentTypeError("it must be a number of seconds above 0")
    return number


def _check(arguments: argparse.Namespace) -> int:
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


def _validate(arguments: argparse.Namespace) -> int:
    from grader import validate

    return validate.run(arguments.targets)


def _calibrate(arguments: argparse.Namespace) -> int:
    from grader import calibrate

    return calibrate.run(
        arguments.targets,
        arguments.secrets,
        arguments.first,
        arguments.mistakes,
        arguments.device,
        arguments.write,
    )


def _mutants(arguments: argparse.Namespace) -> int:
    from grader import mutants

    return mutants.run(arguments.targets)


def _pairs(arguments: argparse.Namespace) -> int:
    from grader import pairs

    return pairs.run(arguments.targets)


def _grade(arguments: argparse.Namespace) -> int:
    from grader import classroom

    return classroom.run(
        arguments.submissions,
        arguments.out,
        arguments.only,
        arguments.jobs,
        arguments.limit,
        arguments.device,
        arguments.unsafe,
        Language(arguments.lang),
        arguments.spawn,
    )


def _doctor(arguments: argparse.Namespace) -> int:
    from grader import classroom

    return classroom.doctor()


def _answers(arguments: argparse.Namespace) -> int:
    from grader import validate

    return validate.write_answers()


def _stubs(arguments: argparse.Namespace) -> int:
    from release import stubs

    kept = courses.ROOT / ".kept"
    for path in stubs.write(courses.ROOT / "exercises", courses.load(), kept):
        print(f"written: {path.relative_to(courses.ROOT)} (what stood there is in .kept/)")
    return OK
