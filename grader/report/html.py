"""What the terminal shows, as HTML: one renderer for both, so that the words cannot differ."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console

from grader.report.language import Language
from grader.report.terminal import Terminal
from grader.score import ExerciseScore

_WIDTH = 80  # as of a terminal
_FORM = '<pre style="white-space: pre-wrap; line-height: 1.35; margin: 0">{code}</pre>'


def told(exercises: Iterable[ExerciseScore], language: Language) -> tuple[str, str]:
    """All about some exercises: HTML, and plain text."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=_WIDTH,
        highlight=False,
        force_terminal=True,
        force_jupyter=False,
        color_system="truecolor",
        legacy_windows=False,
    )
    terminal = Terminal(console, language, detailed=True)
    for exercise in exercises:
        terminal.tell(exercise)
    text = console.export_text(clear=False).rstrip()
    return console.export_html(inline_styles=True, code_format=_FORM), text
