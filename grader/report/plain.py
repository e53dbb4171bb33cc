"""Text from a student's code, as people may see it.

A terminal obeys escape sequences, and a page or a table can be turned around by marks of direction.
So wherever words are made for a reader, whatever acts is shown as it would be written in Python.
What only joins or varies signs (in emoji, in Persian) stays, and so do newlines and tabs.
"""

from __future__ import annotations

import re

# What moves, hides or turns round what stands beside it, or is no character at all.
_ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
    r"\ufffe\uffff]"
)


def plain(text: str) -> str:
    """A text whose every character can be seen, and stands where it seems to."""
    return _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))
