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
from grader.commands import OPEN, TROUBLE
from grader.course import CourseError
from grader.intake import IntakeError
from grader.model import Message, say, what
from grader.report import usage
from grader.report.calling import Spoken
from grader.report.language import Language


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0 only if all that was asked for passes."""
    for stream in (sys.stdout, sys.stderr):  # a Windows console may be set to less than UTF-8
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    # Read when torch is imported: small tensors gain nothing from threads that wait for each other.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    lang = _asked_for(argv)
    usage.speak(Language(lang))
    arguments = _parser().parse_args(argv)
    arguments.lang = lang
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # nobody reads on, as behind `| head`; Python would complain at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OPEN
    except (CourseError, IntakeError) as error:
        return _trouble(lang, what(error))
    except SessionError as error:
        return _trouble(lang, what(error), say("Is it this machine? `make doctor` looks."))
    except OSError as error:  # a full disk, a folder that may not be written
        return _trouble(lang, say("{error}. What was finished is kept.", error=what(error)))
    except KeyboardInterrupt:
        _trouble(lang, say("\nStopped. What was finished is kept."))
        return 130


def _trouble(lang: str | None, *messages: Message) -> int:
    for message in messages:
        print(Spoken(lang).render(message), file=sys.stderr)
    return TROUBLE


def _asked_for(argv: Sequence[str] | None) -> str | None:
    """The language that is named, before or behind the command: even help and refusals follow it.
    None where there is no such.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--lang", nargs="?")
    try:
        return commands.a_language(parser.parse_known_args(argv)[0].lang or "")
    except argparse.ArgumentTypeError:  # told in good time
        return None


def _parser() -> argparse.ArgumentParser:
    parser = usage.Parser("grader", description="Checks and grades the exercises.")
    parser.add_argument("--lang", dest="any_lang", type=commands.a_language, help=argparse.SUPPRESS)
    choice = parser.add_subparsers(required=True, metavar="COMMAND")
    for found in pkgutil.iter_modules(commands.__path__):
        module = import_module(f"{commands.__name__}.{found.name}")
        help = (module.__doc__ or "").split("\n")[0]
        one = choice.add_parser(found.name, help=help, description=help)
        module.arguments(one)
        one.set_defaults(run=module.run)
    return parser
