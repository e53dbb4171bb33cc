"""Find out what is wrong with this machine, and how to mend it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from grader.commands import OK, OPEN, add_language

if TYPE_CHECKING:
    from grader.report.language import Language
    from grader.walls import Finding

_FIRST = 4  # absent walls that are named


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
    walls = import_module("grader.walls")
    lacking = walls.lacking()
    if lacking:
        print("\n" + _refusal(language, lacking, lacking[0].state == walls.UNTRIED))
    return OK


def _refusal(language: Language, lacking: Sequence[Finding], untried: bool) -> str:
    """Why `grade` would refuse to run here."""
    if untried:
        return language(
            "For instructors: whether `grade` can run here is not known yet: {reason} Then try:"
            " make doctor WALLS=yes",
            reason=language.render(lacking[0].detail),
        )
    return language(
        "For instructors: `grade` would refuse to run here ({count} essential protections are"
        " absent: {names}). `make grade` installs what pip can; what else to do says: make"
        " doctor WALLS=yes",
        count=len(lacking),
        names=", ".join(language(one.name) for one in lacking[:_FIRST])
        + (", ..." if len(lacking) > _FIRST else ""),
    )
