"""Try the protections on this machine."""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> int:
    from grader import classroom

    return classroom.doctor()
