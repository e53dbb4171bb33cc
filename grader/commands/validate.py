"""Prove the course."""

from __future__ import annotations

import argparse

from grader.commands import add_targets


def arguments(parser: argparse.ArgumentParser) -> None:
    add_targets(parser)


def run(arguments: argparse.Namespace) -> int:
    from grader import validate

    return validate.run(arguments.targets)
