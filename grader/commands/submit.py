"""Pack your modules for handing in, and read them back as they will be graded."""

from __future__ import annotations

import argparse
import difflib
from dataclasses import replace
from pathlib import Path

from grader import course as courses
from grader.commands import OK, add_language, add_path
from grader.model import say
from grader.subject import endings

_FIRST = 6  # names that are listed


def arguments(parser: argparse.ArgumentParser) -> None:
    add_path(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("submission.zip"),
        help="the zip; submission.zip by default",
    )
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    from grader.desk import Desk
    from grader.report.teller import Teller
    from grader.submit import pack

    tell = Teller(arguments.lang)
    course = courses.load()
    desk = Desk(course, arguments.path)
    packed = pack(desk, arguments.out)
    for name, size in packed.files:
        tell.text(f"{name:24} {size:8} B", margin=1)
    for unit in packed.missing:
        tell(say("{unit}.py is not there: its exercises will count as not attempted.", unit=unit),
             "yellow")  # fmt: skip
    for unit in packed.empty:
        words = say(
            "{file} is empty: its exercises will count as not attempted. A fresh one: make reset"
            " ONLY={unit}",
            file=Path(desk.submission.modules[unit].path).name,
            unit=unit,
        )
        tell(words, "yellow")
    if packed.as_given:
        words = say("as they were given: {units}", units=", ".join(packed.as_given))
        tell(words, "yellow")
    for note in packed.notes:
        tell(note, "yellow")
    for name in packed.left_out:
        near = difflib.get_close_matches(Path(name).stem.lower(), packed.missing, n=1)
        words = (
            replace(endings.RENAME, args={"near": name, "unit": near[0]})
            if near
            else say(
                "{file} is no module of the course and was not packed. What imports it will fail:"
                " move what you need of it into the module that needs it.",
                file=name,
            )
        )
        tell(words, "yellow")
    for words, ids in (
        (say("not attempted"), packed.untouched),
        (say("not passed at the last check"), packed.open),
        (say("not checked as they stand (`make check` does)"), packed.unchecked),
    ):
        if ids:
            told = say(
                "{words}: {count} of {all} exercises ({names})",
                words=words,
                count=len(ids),
                all=len(course.exercises),
                names=", ".join(ids[:_FIRST]) + (", ..." if len(ids) > _FIRST else ""),
            )
            tell(told, "yellow")
    tell.line(
        say(
            "{file}: {count} files, read back as they will be graded. Hand in this file.",
            file=str(packed.path.resolve()),
            count=len(packed.files),
        ),
        "bold green",
    )
    return OK
