"""A class's results: `grades.csv`, a `result.json` for each submission, and a table to look at.

The columns of `grades.csv` are a contract:

    submission  the folder's or the archive's name
    status      graded, ungraded (our fault: look at its result.json) or unreadable
    score, max_score
    <exercise>  one column for each, in the order of the course
    notes       what was odd, and every adjustment

It is UTF-8 and begins with a byte order mark (Python: `utf-8-sig`): without one, Excel on Windows
garbles every name that is not English.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.files import write_whole
from grader.intake import printable
from grader.model import Message, Outcome, Submission
from grader.report.language import Language
from grader.report.words import OUTCOMES, STATUSES
from grader.score import Score

RESULT, REPORT = "result.json", "report.html"

_STYLES = {"graded": "", "ungraded": "yellow", "unreadable": "yellow"}


@dataclass(frozen=True)
class Row:
    """One submission of a class; without a score, it could not be read."""

    submission: Submission
    score: Score | None
    notes: Sequence[Message]
    result: dict[str, Any]

    @property
    def status(self) -> str:
        if self.score is None:
            return "unreadable"
        return "graded" if self.score.graded else "ungraded"


@dataclass(frozen=True)
class Line:
    """What of a submission stands in the tables: little, so that a class of any size fits."""

    id: str
    status: str
    values: Sequence[str]  # of grades.csv
    shown: Sequence[Text]  # of the terminal's table


def write(
    out: Path,
    rows: Iterable[Row],
    exercises: Sequence[str],
    language: Language,
    everyone: Iterable[str] = (),
) -> list[Line]:
    """Write everything, one row after the other; the same results give the same bytes.

    Args:
        out: the folder.
        rows: of those that were looked at, in the order of the class.
        exercises: the columns.
        language: of notes.
        everyone: the class. Who is not among the rows keeps the results of an earlier run.
    """
    lines = []
    for row in rows:
        folder = out / row.submission.id
        folder.mkdir(parents=True, exist_ok=True)
        replace(folder / RESULT, json.dumps(row.result, ensure_ascii=False, indent=1) + "\n")
        values = _values(row, exercises, language)
        lines.append(Line(row.submission.id, row.status, values, _shown(row, language)))
    header = ["submission", "status", "score", "max_score", *exercises, "notes"]
    written = {line.id: list(map(_cell, line.values)) for line in lines}
    kept = _earlier(out, header)
    order = dict.fromkeys([*everyone, *written])
    _remove_others(out, order.keys())
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(found for id in order if (found := written.get(id) or kept.get(_cell(id))))
    replace(out / "grades.csv", "\ufeff" + table.getvalue())
    return lines


def _earlier(out: Path, header: Sequence[str]) -> dict[str, list[str]]:
    """The rows of an earlier run with the same columns, by the first cell."""
    try:
        with (out / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
            first, *rows = csv.reader(file)
    except (OSError, ValueError, csv.Error):
        return {}
    return {row[0]: row for row in rows if row} if first == header else {}


def _remove_others(out: Path, ids: Set[str]) -> None:
    """Take away the results of submissions that are no longer there; the journal keeps them."""
    for path in out.glob(f"*/{RESULT}"):
        if path.parent.name not in ids and _is_ours(path):
            path.unlink()
            path.with_name(REPORT).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # something else lies beside it
                path.parent.rmdir()


def _is_ours(path: Path) -> bool:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        return bool(result["schema"] and result["submission"] == path.parent.name)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _values(row: Row, exercises: Sequence[str], language: Language) -> list[str]:
    notes = "; ".join(language.render(note) for note in row.notes)
    if row.score is None:
        return [row.submission.id, row.status, "", "", *("" for _ in exercises), notes]
    points = {score.exercise.id: f"{score.score:g}" for score in row.score.exercises}
    whole = [f"{row.score.score:g}" if row.score.graded else "", f"{row.score.max_score:g}"]
    return [row.submission.id, row.status, *whole, *(points[id] for id in exercises), notes]


def _cell(value: str) -> str:
    """A text that a spreadsheet takes for a text, not for a formula."""
    return f"'{value}" if value[:1] in tuple("=+-@\t\r\n＝＋－＠") else value


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    write_whole(path, text.encode("utf-8", "replace"))


def show(console: Console, lines: Iterable[Line], language: Language) -> None:
    """Print the class as a table: who earned what, and where each first lost points."""
    table = Table(box=None, pad_edge=False)
    table.add_column(language("submission"), overflow="fold")
    table.add_column(language("points"), justify="right")
    table.add_column(language("passed"), justify="right")
    table.add_column(language("first open"), overflow="fold")
    for line in lines:
        table.add_row(Text(printable(line.id)), *line.shown)
    console.print(table)


def _shown(row: Row, language: Language) -> list[Text]:
    if row.score is None:
        words = "; ".join(language.render(note) for note in row.notes)
        return [Text("-"), Text("-"), Text(words, "yellow")]
    passed = sum(e.passed for e in row.score.exercises)
    points = f"{row.score.score:g} / {row.score.max_score:g}"
    if not row.score.graded:
        points = language.render(STATUSES[row.status])
    return [
        Text(points, _STYLES[row.status]),
        Text(f"{passed} / {len(row.score.exercises)}"),
        _first_open(row.score, language),
    ]


def _first_open(score: Score, language: Language) -> Text:
    for exercise in score.exercises:
        for check in exercise.checks:
            if check.outcome is not Outcome.PASSED:
                untried = check.outcome in (Outcome.NOT_ATTEMPTED, Outcome.BLOCKED)
                title = "" if untried else language(check.title)
                words = language.render(check.message[0]) if check.message else title
                outcome = language.render(OUTCOMES[check.outcome])
                end = f"\n{words}" if words else ""
                return Text.assemble(exercise.exercise.id, " ", (outcome, "red"), end)
    return Text("")
