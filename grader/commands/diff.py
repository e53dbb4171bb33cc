"""Say what is different between two runs of `grade`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from grader.commands import OK, OPEN, add_language
from grader.report.language import Language

_MOST = 5  # checks of a submission that are told without --all


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", type=Path, help="a folder that `grade` has filled")
    parser.add_argument("new", type=Path, help="another")
    parser.add_argument("--all", action="store_true", help="name every check that is different")
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    from grader.report import difference

    found = difference.compare(arguments.old, arguments.new)
    if arguments.json:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=1))
    else:
        most = None if arguments.all else _MOST
        print("\n".join(difference.tell(found, Language(arguments.lang), most)))
    return OPEN if found.moves else OK
