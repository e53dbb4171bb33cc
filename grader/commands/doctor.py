"""Find out what is wrong with this machine, and how to mend it."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec

from grader.commands import OK, OPEN, add_language


def arguments(parser: argparse.ArgumentParser) -> None:
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    from grader import checkup
    from grader.report.language import Language

    language = Language(arguments.lang)
    if checkup.show(language):
        return OPEN
    if find_spec("grader.walls") is None or sys.platform != "linux":  # students do not have them
        return OK
    print("\n" + language("For `grade`, the walls around what is graded:"))
    return int(import_module("grader.classroom").show_walls())
