"""Commands as the reader types them.

Texts name them as make has them, `make check ONLY=attention`. Who has called `python -m grader`
without make reads, on the terminal, what works there. Pages, notebooks and JSON keep make's form:
nobody knows how their readers call.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from grader.course import ROOT
from grader.report.language import Language

_COMMAND = re.compile(
    r"\bmake (check|watch|hint|progress|reset|compare|submit|doctor)\b"
    r"((?: (?:ONLY|AGAIN|CHECK|WALLS)=(?:\.\.\.|\w+(?:\.\w+)*))*)(?! [A-Z]+=)",
    re.ASCII,
)


def as_called(text: str) -> str:
    """A text with its commands as they were called."""
    if os.environ.get("GRADER_CALLED_BY") == "make":  # the Makefile says so
        return text
    return _COMMAND.sub(lambda found: _spelled(found[1], found[2].split()), text)


def _spelled(command: str, settings: list[str]) -> str:
    words = [_python(), "-m", "grader", command]
    for name, _, value in (setting.partition("=") for setting in settings):
        words.append(value if name == "ONLY" else f"--{name.lower()}")
    return " ".join(words)


def _python() -> str:
    if Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        return "python"
    return r".venv\Scripts\python.exe" if os.name == "nt" else ".venv/bin/python"


class Spoken(Language):
    """The language of somebody at a terminal."""

    def __call__(self, text: str, /, **args: object) -> str:
        return as_called(super().__call__(text, **args))
