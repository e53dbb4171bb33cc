"""The reader's language: messages are rendered here, at the edge, and nowhere else; see `plain`."""

from __future__ import annotations

import gettext
import itertools
import locale
import os
import re
import unicodedata
from pathlib import Path
from typing import Any

from grader.model import Message, say
from grader.report.plain import plain

_PLACE = re.compile(
    r"(?P<file>.+?)(?:, code cell (?P<cell>\d+))?, line (?P<line>\d+)(?:, in (?P<function>.+))?"
)
_CATALOGUES = Path(__file__).resolve().parent.parent / "locale"


class Language:
    """Renders messages in one language.

    Args:
        name: such as "zh" or "en"; by default what the environment or the system says.
        domain: which catalogue.

    Attributes:
        tag: its name for browsers and screen readers, such as "en" or "zh".
    """

    def __init__(self, name: str | None = None, domain: str = "grader"):
        self._name = name
        wanted = [name] if name else _preferred()
        self._catalogue = gettext.translation(domain, _CATALOGUES, wanted, fallback=True)
        found = gettext.find(domain, _CATALOGUES, wanted)
        self.tag = Path(found).parts[-3].replace("_", "-") if found else "en"

    def of(self, domain: str) -> Language:
        """The same language, of another catalogue."""
        return Language(self._name, domain)

    def __call__(self, text: str, /, **args: object) -> str:
        """Translate a sentence and fill in its braces."""
        translated = self._catalogue.gettext(text) if text else ""
        return plain(translated.format(**args) if args else translated)

    def frame(self, text: str, folder: str = "") -> str:
        """A line of the student's: ``attention.py, line 3, in f``, and below it the code; where a
        folder is named, by the path that editors open: ``exercises/attention.py:3``.
        """
        place, *code = text.split("\n")
        found = _PLACE.fullmatch(place)
        if found is None:
            return plain(text)
        file, cell, line, function = found.groups()
        where: Any = say("{file}, code cell {cell}", file=file, cell=cell) if cell else file
        whole: Any = say("{file}, line {line}", file=where, line=line)
        if folder and not cell:
            whole = f"{folder}/{file}:{line}"
        if function:
            whole = say("{place}, in {function}", place=whole, function=function)
        place = self.render(whole) if isinstance(whole, Message) else whole
        return plain("\n".join([place, *code]))

    def render(self, message: Message) -> str:
        inner = {
            k: self.render(v) if isinstance(v, Message) else v for k, v in message.args.items()
        }
        return self(message.text, **inner)


def columns(text: str) -> int:
    """Of a terminal: a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def known() -> list[str]:
    """The languages that there are."""
    return ["en", *sorted(path.name for path in _CATALOGUES.iterdir() if path.is_dir())]


def _preferred() -> list[str]:
    """The languages that are asked for, up to English, which is what everything is written in."""
    named = [os.environ.get(key, "") for key in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")]
    names = [part for value in named for part in value.split(":") if part]
    spelled = locale.getlocale()[0] or "en"  # on Windows "Chinese (Simplified)_China"
    names = names or [re.sub(r"\AChinese.*", "zh", spelled)]
    return list(itertools.takewhile(lambda name: name.split("_")[0].lower() != "en", names)) or [
        "en"
    ]
