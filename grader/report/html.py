"""What the terminal shows, as HTML: one renderer for both, so that the words cannot differ."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from grader.report.language import Language
from grader.report.terminal import Terminal
from grader.score import ExerciseScore

_WIDTH = 80  # as of a terminal
# Notebooks break words in a <pre>, and pictures of tensors must not be wrapped at all.
_STYLE = "white-space: pre; word-break: normal; overflow-x: auto; line-height: 1.35; margin: 0"
# Readable on white and on black alike: what shows it may be in either mode.
_COLOURS = [(120, 120, 120), (215, 58, 73), (34, 150, 67), (176, 136, 0), (3, 102, 214),
            (141, 82, 214), (0, 140, 150), (120, 120, 120)]  # fmt: skip
_THEME = TerminalTheme((255, 255, 255), (0, 0, 0), _COLOURS)
_FORM = f'<pre style="{_STYLE}">{{code}}</pre>'


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
    return console.export_html(theme=_THEME, inline_styles=True, code_format=_FORM), text
