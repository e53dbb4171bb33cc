"""The command line's help and refusals, in the reader's language.

argparse asks `gettext` for its own words, by a name of its own, `_`; ours stands in its place. Help
texts are written in English where an argument is added, and translated when they are shown.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterable
from typing import Any, NoReturn

from grader.model import Message, say
from grader.report.language import Language, columns

# What argparse says as we use it, from Python 3.10 to 3.13.
ITS_WORDS = (
    say("usage: "),
    say("positional arguments"),
    say("options"),
    say("%(heading)s:"),
    say("show this help message and exit"),
    say("%(prog)s: error: %(message)s\n"),
    say("argument %(argument_name)s: %(message)s"),
    say("unrecognized arguments: %s"),
    say("the following arguments are required: %s"),
    say("invalid choice: %(value)r (choose from %(choices)s)"),
    say("invalid %(type)s value: %(value)r"),
    say("expected one argument"),
    say("ambiguous option: %(option)s could match %(matches)s"),
    say("ignored explicit argument %r"),
)
_ARGUMENT = re.compile(r"argument ([^:]+): (.*)", re.S)

_language = Language("en")


def speak(language: Language) -> None:
    """Say everything in this language from now on."""
    global _language
    _language = language
    argparse._ = language  # type: ignore[attr-defined]


def refusal(message: Message) -> argparse.ArgumentTypeError:
    """What an argument's type raises."""
    return argparse.ArgumentTypeError(_language.render(message))


class Help(argparse.HelpFormatter):
    """Translates what it lays out, and counts columns."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return _language(action.help) if action.help else action.help

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _lines(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in _lines(_language(text), width - len(indent)))

    def _format_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Any, prefix: str | None
    ) -> str:
        prefix = _language("usage: ") if prefix is None else prefix
        room = "\0" * columns(prefix)  # by its length, later lines are moved to the right
        return super()._format_usage(usage, actions, groups, room).replace(room, prefix)


class Parser(argparse.ArgumentParser):
    """A parser, or that of a command."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{"formatter_class": Help, **kwargs})

    def error(self, message: str) -> NoReturn:
        found = _ARGUMENT.fullmatch(message)
        if found:  # Python 3.10 does not ask for these words
            words = _language("argument %(argument_name)s: %(message)s")
            message = words % {"argument_name": found[1], "message": found[2]}
        super().error(message)


def _lines(text: str, width: int) -> list[str]:
    try:
        from rich.text import Text

        from grader.report.wrapping import wrap
    except ImportError:  # before the set-up
        return textwrap.wrap(text, width)
    return [line.plain for line in wrap(Text(" ".join(text.split())), width)]
