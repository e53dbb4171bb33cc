"""``python -m release``: builds the release, and looks for leaks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from grader import course as courses
from grader.course import CourseError
from grader.model import say, what
from grader.report import usage
from grader.report.language import Language
from release import build as builder
from release import gradescope
from release.leaks import Finding, LeakCheck

OK, LEAKS, TROUBLE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 only if nothing leaks."""
    usage.speak(language := Language())
    parser = usage.Parser("release", description="Builds what leaves this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="what students and platforms get")
    build.add_argument("parts", nargs="*", metavar="PART", help=", ".join(builder.PARTS))
    build.add_argument("--out", type=Path, default=Path("dist"), help="where it goes")
    build.add_argument(
        "--unsafe", action="store_true", help="let Gradescope grade without the outer wall"
    )
    build.set_defaults(run=_build)
    books = commands.add_parser("notebooks", help="the notebooks alone, where none lie yet")
    books.add_argument("folder", type=Path)
    books.set_defaults(run=_notebooks)
    leaks = commands.add_parser("leaks", help="look for leaks in any folder, zip or file")
    leaks.add_argument("places", nargs="+", type=Path, metavar="PLACE")
    leaks.add_argument("--likest", action="store_true", help="show the nearest, however far")
    leaks.set_defaults(run=_leaks)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (CourseError, OSError) as error:
        print(language.render(what(error)), file=sys.stderr)
        return TROUBLE


def _build(arguments: argparse.Namespace) -> int:
    gradescope.settings["unsafe"] = arguments.unsafe
    found = builder.build(arguments.out, arguments.parts)
    if found:
        _tell(found)
        words = say("{count} leaks: no zip was made of {folder}.",
                    count=len(found), folder=str(arguments.out))  # fmt: skip
        print(Language().render(words), file=sys.stderr)
        return LEAKS
    for path in sorted(arguments.out.glob("*.zip")):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    return OK


def _notebooks(arguments: argparse.Namespace) -> int:
    from release import notebooks

    builder.hold(notebooks.NEEDS)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    notebooks.write(arguments.folder, anew=False)
    return OK


def _leaks(arguments: argparse.Namespace) -> int:
    missing = [place for place in arguments.places if not place.exists()]
    if missing:
        print(f"There is no {missing[0]}.", file=sys.stderr)
        return TROUBLE
    if arguments.likest:
        check = LeakCheck(courses.load())
        print("\n".join(line for place in arguments.places for line in check.likest(place)))
        return OK
    found = builder.leaks(arguments.places)
    _tell(found)
    print(f"{len(found)} leaks")
    return LEAKS if found else OK


def _tell(found: Sequence[Finding]) -> None:
    for one in found:
        print(f"{one.path}: {one.what}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
