"""The command line: what people type through `make`."""

from __future__ import annotations

import argparse
import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module

from grader import commands
from grader.check import SessionError
from grader.commands import TROUBLE
from grader.course import CourseError
from grader.intake import IntakeError
from grader.model import Message
from grader.report.language import Language
from grader.report.plain import plain


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0 only if all that was asked for passes."""
    for stream in (sys.stdout, sys.stderr):  # a Windows console may be set to less than UTF-8
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    # Read when torch is imported: small tensors gain nothing from threads that wait for each other.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    arguments = _parser().parse_args(argv)
    if arguments.any_lang and not getattr(arguments, "lang", None):  # said before the command
        arguments.lang = arguments.any_lang
    try:
        return int(arguments.run(arguments))
    except (CourseError, IntakeError) as error:
        words = error.args[0]  # a Message, where students meet it
        if isinstance(words, Message):
            words = Language(getattr(arguments, "lang", None)).render(words)
        print(words, file=sys.stderr)
        return TROUBLE
    except SessionError as error:
        print(plain(str(error)), file=sys.stderr)
        print("Is it this machine? `make doctor` (python -m grader doctor) looks.", file=sys.stderr)
        return TROUBLE
    except OSError as error:  # a full disk, a folder that may not be written
        print(f"{error}. What was finished is kept.", file=sys.stderr)
        return TROUBLE
    except KeyboardInterrupt:
        print("\nStopped. What was finished is kept.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("grader", description="Checks and grades the exercises.")
    parser.add_argument("--lang", dest="any_lang", type=commands.a_language, help=argparse.SUPPRESS)
    choice = parser.add_subparsers(required=True, metavar="COMMAND")
    for found in pkgutil.iter_modules(commands.__path__):
        module = import_module(f"{commands.__name__}.{found.name}")
        help = (module.__doc__ or "").split("\n")[0]
        one = choice.add_parser(found.name, help=help, description=help)
        module.arguments(one)
        one.set_defaults(run=module.run)
    return parser
