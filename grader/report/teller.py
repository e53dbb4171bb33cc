"""Single sentences for a student, in their language, on their terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

from grader.model import Message, say
from grader.report.calling import Spoken
from grader.report.wrapping import wrap


class Teller:
    """Prints sentences.

    Args:
        lang: such as "zh"; the system's by default.
    """

    def __init__(self, lang: str | None):
        self.language = Spoken(lang)
        self.console = Console(highlight=False)
        self._waited: set[str] = set()

    def __call__(self, message: Message, style: str = "", margin: int = 0) -> None:
        """Print a sentence, wrapped behind a left margin."""
        self.text(self.language.render(message), style, margin)

    def text(self, words: str, style: str = "", margin: int = 0) -> None:
        """Print what needs no translation."""
        for line in wrap(Text(words, style), max(20, self.console.width - margin)):
            self.console.print(Text(" " * margin).append_text(line), soft_wrap=True)

    def line(self, message: Message, style: str = "") -> None:
        """Print it unbroken, so that it can be copied."""
        self.console.print(Text(self.language.render(message), style), soft_wrap=True)

    def waiting(self, exercise: str) -> None:
        """Say once that an exercise takes long."""
        if exercise not in self._waited:
            words = say("{exercise} is still running ...", exercise=exercise)
            print(self.language.render(words), file=sys.stderr)
        self._waited.add(exercise)
