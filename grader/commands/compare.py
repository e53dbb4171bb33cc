"""Read, once an exercise has passed, what the reference does otherwise."""

from __future__ import annotations

import argparse

from grader import course as courses
from grader.commands import OK, OPEN, add_language, add_path, add_targets
from grader.model import say


def arguments(parser: argparse.ArgumentParser) -> None:
    add_targets(parser)
    add_path(parser)
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    from grader import hints
    from grader.desk import Desk
    from grader.report.teller import Teller

    tell = Teller(arguments.lang)
    course = courses.load()
    desk = Desk(course, arguments.path)
    chosen = course.select(arguments.targets)
    unknown = [id for id in chosen if desk.fresh(id) is None]
    if unknown and arguments.targets:
        desk.check(unknown, tell.waiting)
    passed = [id for id in chosen if desk.has_passed(id)]
    for id in passed:
        advice = hints.load(course, course.exercises[id].unit).get(id)
        nothing = say("Nothing is said about it yet.")
        tell.text(id, "bold")
        tell(say(advice.compare) if advice else nothing, margin=2)
    waiting = [id for id in chosen if id not in passed]
    if waiting and (arguments.targets or not passed):
        names = ", ".join(waiting[:3]) + (", ..." if len(waiting) > 3 else "")
        tell(say("Not yet: {exercises}.", exercises=names), "yellow")
        tell(say("A comparison tells much of the answer, so it waits until yours has passed."))
        tell.line(say("until then: make hint ONLY={exercise}", exercise=waiting[0]), "bold cyan")
    return OK if passed and not (waiting and arguments.targets) else OPEN
