"""The commands, a module each.

Its docstring's first line is the help, `arguments` says what it takes, and `run` does it and gives
the exit code. All of them are imported whichever is called: what is heavy, `run` imports.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from pathlib import Path

from grader.model import say
from grader.report.language import known
from grader.report.usage import refusal

OK, OPEN, TROUBLE = 0, 1, 2  # exit codes: all passed; something is open; could not do as asked


def a_number(text: str) -> float:
    """An argument that is a finite number."""
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    raise refusal(say("{text!r} is not a number", text=text))


def at_least_one(text: str) -> int:
    """An argument that is a number of things."""
    number = a_number(text)
    if number < 1 or number % 1:
        raise refusal(say("it must be 1 or more"))
    return int(number)


def seconds(text: str) -> float:
    """An argument that is a time."""
    number = a_number(text)
    if not 0 < number < 86_400:
        raise refusal(say("it must be a number of seconds above 0"))
    return number


def a_language(text: str) -> str:
    """An argument that is a language: "zh", "zh_CN" or "zh-CN"."""
    name = text.replace("-", "_")
    if name.split("_")[0] not in (there := known()):
        names = ", ".join(there)
        raise refusal(say("there is no {name!r}; there are {names}", name=text, names=names))
    return name


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add what most commands take: which exercises."""
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="a unit or an exercise; all by default"
    )


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add the choice of a folder."""
    parser.add_argument(
        "--path", type=Path, default=Path("exercises"), help="the folder with your modules"
    )


def add_language(parser: argparse.ArgumentParser) -> None:
    """Add the choice of a language."""
    parser.add_argument(
        "--lang", type=a_language, help="of messages: en or zh; the system's by default"
    )
