"""Lines that fit a terminal, in languages with spaces between words and in those without.

rich breaks lines at spaces only: a Chinese sentence would go to the next line as one long word.
"""

from __future__ import annotations

import re
from itertools import pairwise

from rich.text import Text

_WIDE = "\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef"
_CLOSING = "，。；：？！、）》」』”’…"
_OPENING = "（《「『“‘"
_WORD = re.compile(
    rf"[{_OPENING}]*(?:[{_WIDE}]|[^\s{_WIDE}{_OPENING}{_CLOSING}]+)?[{_CLOSING}]*\s*", re.M
)


def wrap(text: Text, width: int) -> list[Text]:
    """Break a text into lines of at most so many columns; a longer word is broken, too."""
    lines: list[Text] = []
    for paragraph in text.split("\n", allow_blank=True):
        line = Text()
        for word in _words(paragraph):
            if line and line.cell_len + _columns(word) > width:
                lines.append(line)
                line = Text()
            for piece in _fold(word, width):
                if line and line.cell_len + _columns(piece) > width:
                    lines.append(line)
                    line = Text()
                line.append_text(piece)
        lines.append(line)
    for line in lines:
        line.rstrip()
    return lines


def _columns(word: Text) -> int:
    """Columns without the space behind it, which may stick out."""
    shown = word.copy()
    shown.rstrip()
    return shown.cell_len


def _words(text: Text) -> list[Text]:
    ends = sorted({0, len(text), *(found.end() for found in _WORD.finditer(text.plain))})
    return [text[start:end] for start, end in pairwise(ends)]


def _fold(word: Text, width: int) -> list[Text]:
    if _columns(word) <= width:
        return [word]
    return [word[place] for place in range(len(word))]
