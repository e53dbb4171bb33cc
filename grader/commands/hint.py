"""Get the next hint of an exercise; there are three."""

from __future__ import annotations

import argparse

from grader import course as courses
from grader.commands import OK, OPEN, add_language, add_path, add_targets
from grader.model import say


def arguments(parser: argparse.ArgumentParser) -> None:
    add_targets(parser)
    add_path(parser)
    parser.add_argument(
        "--again", action="store_true", help="show those that you had, and no further one"
    )
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    from grader import hints
    from grader.desk import Desk
    from grader.report.teller import Teller

    tell = Teller(arguments.lang)
    course = courses.load()
    desk = Desk(course, arguments.path)
    chosen = course.select(arguments.targets)
    upcoming = desk.upcoming(chosen)
    id = chosen[0] if len(chosen) == 1 else upcoming.exercise.id if upcoming else None
    if id is None:
        tell(say("All of these have passed: nothing is left to be hinted at."), "green")
        return OK
    ladder = hints.climb(desk, id, 0 if arguments.again else 1)
    tell.text(id, "bold")
    for message in hints.told(ladder, id):
        tell(message, margin=1)
    if ladder:
        words = (
            say("that was the last one; now: make check ONLY={exercise}", exercise=id)
            if ladder.is_last
            else say("another one: make hint ONLY={exercise}", exercise=id)
        )
        tell.line(words, "bold cyan")
    return OK if ladder else OPEN
