"""Tables that people hand over: CSV as spreadsheets and platforms save it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from grader.intake import encoding_of


def reader(path: Path) -> csv.DictReader[str]:
    """The rows of a file below its header. A cell that is missing is empty.

    Excel takes the system's encoding unless it is asked for UTF-8 (GBK in China), and the system's
    separator (a semicolon in Germany).

    Raises:
        OSError: it cannot be read.
    """
    blob = path.read_bytes()
    text = blob.decode(encoding_of(blob), errors="replace")
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    return csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, restval="")
