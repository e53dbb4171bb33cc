"""Get a fresh stub; what you had is kept."""

from __future__ import annotations

import argparse

from grader import course as courses
from grader.commands import OK, TROUBLE, add_language, add_path, add_targets
from grader.model import say


def arguments(parser: argparse.ArgumentParser) -> None:
    add_targets(parser)
    add_path(parser)
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    from grader.desk import Desk
    from grader.report.teller import Teller
    from grader.reset import reset

    tell = Teller(arguments.lang)
    course = courses.load()
    if not arguments.targets:
        tell(say("Say which exercise or unit shall be as it was given: make reset ONLY=..."))
        return TROUBLE
    chosen = course.select(arguments.targets)
    desk = Desk(course, arguments.path)
    for unit in course.units:
        names = [e.name for e in unit.exercises if e.id in chosen]
        if not names:
            continue
        done = reset(desk, unit.name, names, len(names) == len(unit.exercises))
        file = str(arguments.path / done.file.name)
        if done.whole:
            tell.line(say("{file} is as it was given.", file=file))
        else:
            words = say(
                "{names} in {file}: as given. The rest of the file is as it was.",
                names=", ".join(f"`{name}`" for name in names),
                file=file,
            )
            tell.line(words)
        if done.kept:
            tell.line(say("What stood there is kept: {file}", file=str(done.kept)))
    return OK
