"""Find out what is wrong with this machine, and how to mend it."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec

from grader.commands import OK, OPEN, add_language


def arguments(parser: argparse.ArgumentParser) -> None:
    if _has_walls():
        parser.add_argument(
            "--walls", action="store_true", help="show all walls around what `grade` runs, as tried"
        )
    add_language(parser)


def _has_walls() -> bool:
    """Students do not have them, and only Linux has."""
    return sys.platform == "linux" and find_spec("grader.walls") is not None


def run(arguments: argparse.Namespace) -> int:
    from grader import checkup
    from grader.report.calling import Spoken
    from grader.report.language import Language

    if checkup.show(Language(arguments.lang)):
        return OPEN
    if not _has_walls():
        return OK
    language = Spoken(arguments.lang)
    if arguments.walls:
        print("\n" + language("For `grade`, the walls around what is graded:"))
        return int(import_module("grader.classroom").show_walls(language))
    refusal = import_module("grader.walls").refusal()
    if refusal:
        print("\n" + language.render(refusal))
    return OK
