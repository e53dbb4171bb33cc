"""Show that each tolerance lies between right answers and known mistakes."""

from __future__ import annotations

import argparse

from grader.commands import add_targets, at_least_one


def arguments(parser: argparse.ArgumentParser) -> None:
    add_targets(parser)
    parser.add_argument(
        "--secrets", type=at_least_one, default=20, help="how many course secrets to draw from"
    )
    parser.add_argument("--first", type=int, default=0, help="the number of the first secret")
    parser.add_argument(
        "--mistakes", type=int, default=3, help="with how many of them known mistakes run, too"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--write", action="store_true", help="write docs/tolerances.csv, not compare"
    )


def run(arguments: argparse.Namespace) -> int:
    from grader import calibrate

    return calibrate.run(
        arguments.targets,
        arguments.secrets,
        arguments.first,
        arguments.mistakes,
        arguments.device,
        arguments.write,
    )
