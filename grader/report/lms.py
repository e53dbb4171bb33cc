"""`grades.csv` in the forms that Canvas and Moodle import.

A submission is found in the roster, which is a file that the platform itself exports: Canvas's
gradebook, Moodle's participants or the grading worksheet of an assignment. It goes by any column
that names a person there, and by the names that the platforms' own downloads have.

Who has no verdict is left out, and so is who handed nothing in: an empty cell could delete a grade.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader import table
from grader.course import CourseError
from grader.model import say, what

Row = dict[str, str]

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # what a spreadsheet would run; see `gradebook`


class ExportError(CourseError):
    """The grades cannot be exported as asked; the text says what to do."""


@dataclass(frozen=True)
class Platform:
    """What a platform's files look like.

    Attributes:
        persons: columns that name a person.
        columns: those of a file that is made without a roster.
        downloads: names that it gives to submissions, and which person they mean.
    """

    persons: Sequence[str]
    columns: Sequence[str]
    downloads: re.Pattern[str]
    person: str  # what `downloads` finds, as it stands in the roster
    name: Sequence[str] = ()  # columns that are a person's name together


PLATFORMS = {
    "canvas": Platform(
        ("ID", "SIS User ID", "SIS Login ID", "Student"),
        ("Student", "ID", "SIS User ID", "SIS Login ID", "Section"),
        re.compile(r"[^_]+_(?:LATE_)?(\d+)_\d+_"),
        "{}",
    ),
    "moodle": Platform(
        ("Identifier", "Email address", "ID number", "Username", "Full name"),
        ("Email address",),
        re.compile(r".*_(\d+)_assignsubmission_"),
        "Participant {}",
        ("First name", "Last name", "Surname"),
    ),
}


@dataclass(frozen=True)
class Exported:
    """A file to import, and whom it leaves out.

    Attributes:
        text: of the file.
        without_verdict: submissions that are ungraded or unreadable.
        strangers: submissions that the roster does not name.
    """

    text: str
    without_verdict: Sequence[str]
    strangers: Sequence[str]


def export(
    grades: Path, platform: str, roster: Path | None, column: str, out_of: float | None
) -> Exported:
    """The grades of a class for a platform.

    Args:
        grades: ``grades.csv``.
        platform: of `PLATFORMS`.
        roster: exported by the platform; without one, a submission's name is taken for a login or
            an address.
        column: of the points.
        out_of: the most points there; by default as many as the course has. Moodle refuses more
            than 100, unless its administrator allows it.

    Raises:
        ExportError: a file is not what it should be, or two submissions are one person's.
    """
    rows = _read(grades)
    if not rows or {"submission", "status", "score", "max_score"} - rows[0].keys():
        raise ExportError(
            say("{file} holds no grades: it is written by `make grade`.", file=str(grades))
        )
    for row in rows:
        row["submission"] = _unguarded(row["submission"])
    graded = [row for row in rows if row["status"] == "graded"]
    most = out_of or max((_number(row, "max_score") for row in graded), default=0)
    points = {row["submission"]: _points(row, most) for row in graded}
    form = PLATFORMS[platform]
    persons = _read(roster) if roster else [_nameless(platform, row) for row in graded]
    found = _found(form, points, persons) if roster else dict(zip(points, persons))
    strangers = [submission for submission in points if submission not in found]
    lines = list(_WRITERS[platform](found, points, column, f"{most:g}"))
    made = io.StringIO(newline="")
    csv.writer(made, lineterminator="\r\n").writerows(lines)
    missing = [row["submission"] for row in rows if row["status"] != "graded"]
    return Exported(made.getvalue(), missing, strangers)


def _read(path: Path) -> list[Row]:
    try:
        rows = table.reader(path)
    except OSError as error:
        words = say("{file} cannot be read: {error}", file=str(path), error=what(error, path))
        raise ExportError(words) from None
    try:
        return [{str(k).strip(): v for k, v in row.items() if isinstance(v, str)} for row in rows]
    except csv.Error as error:
        words = say(
            "{file} cannot be read as a CSV file: {error}", file=str(path), error=what(error, path)
        )
        raise ExportError(words) from None


def _points(row: Row, most: float) -> str:
    score, max_score = _number(row, "score"), _number(row, "max_score")
    if max_score <= 0:
        name = row["submission"]
        raise ExportError(say("{name} is graded, out of no points at all", name=name))
    return f"{round(score * most / max_score, 2):g}"


def _number(row: Row, column: str) -> float:
    try:
        number = float(row[column])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        name = row["submission"]
        raise ExportError(say("{name} is graded and has no points", name=name))
    return number


def _nameless(platform: str, row: Row) -> Row:
    """What can be said of a person without a roster."""
    name = row["submission"]
    shown = f"'{name}" if name.startswith(_FORMULA) else name
    if platform == "canvas":
        return {"Student": shown, "SIS Login ID": shown}
    return {"Email address" if "@" in name else "Username": shown}


def _unguarded(text: str) -> str:
    """A cell as it was before it was made safe for spreadsheets."""
    return text[1:] if text[:1] == "'" and text[1:2] in _FORMULA else text


def _found(form: Platform, points: Mapping[str, str], persons: Sequence[Row]) -> dict[str, Row]:
    """Submission -> its person's row."""
    columns = {*form.persons, *form.name}
    if not persons or not columns & persons[0].keys():
        names = ", ".join(form.persons)
        raise ExportError(
            say(
                "The roster has none of the columns: {names}. Export it in English, or rename its"
                " columns.",
                names=names,
            )
        )
    # What a person is called counts only where nobody goes by it as a login or a number.
    by_name = _named(persons, form.persons[-1:]) | _named(persons, form.persons[:-1])
    by_number = _named(persons, form.persons[:1])
    by_words: dict[Sequence[str], list[Row]] = {}
    for person in persons:
        whole, joined = person.get(form.persons[-1]), map(person.get, form.name)
        for words in filter(None, {_words(whole), _words(*joined)}):
            by_words.setdefault(words, []).append(person)
    found: dict[str, Row] = {}
    owner: dict[int, str] = {}
    for submission in points:
        known = by_name.get(submission.strip().casefold())
        download = form.downloads.match(submission)
        if not known and download:
            known = by_number.get(form.person.format(download[1]).casefold())
        if not known:
            known = by_words.get(_words(submission.split("_")[0] if download else submission))
        if not known:
            continue
        if len(known) > 1:
            raise ExportError(
                say(
                    "{name!r} is {count} persons in the roster, and nothing says which: mend the"
                    " roster, or give the submission a name that is one person's.",
                    name=submission,
                    count=len(known),
                )
            )
        person = known[0]
        first = owner.setdefault(id(person), submission)
        if first != submission:
            raise ExportError(
                say("{first!r} and {other!r} are the same person in the roster.",
                    first=first, other=submission)
            )  # fmt: skip
        found[submission] = person
    if points and not found:
        people = [person[c] for person in persons for c in form.persons[::-1] if person.get(c)]
        raise ExportError(
            say(
                "None of the {count} submissions is in the roster. It names people such as"
                " {person!r}, and a submission is called {name!r}: name folders by login, number,"
                " address or name.",
                count=len(points),
                person=people[0] if people else "?",
                name=next(iter(points)),
            )
        )
    return found


def _words(*texts: str | None) -> tuple[str, ...]:
    """The words of a name in one order, whichever comes first: "Lovelace, Ada", "Ada Lovelace".
    Chinese characters are words of their own.
    """
    whole = " ".join(filter(None, texts)).casefold()
    return tuple(sorted(re.findall(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+", whole)))


def _named(persons: Sequence[Row], columns: Sequence[str]) -> dict[str, list[Row]]:
    """Who goes by each name in these columns; a row that stands there twice is one person's."""
    found: dict[str, list[Row]] = {}
    for person in persons:
        for column in columns:
            name = person.get(column, "").strip().casefold()
            if name and person not in found.setdefault(name, []):
                found[name].append(person)
    return found


Lines = Iterator[Sequence[str]]


def _canvas(found: Mapping[str, Row], points: Mapping[str, str], column: str, most: str) -> Lines:
    """Canvas reads the student from the first five columns, and what an assignment is worth from
    the row below the header (instructure/canvas-lms, lib/gradebook_importer.rb).
    """
    columns = PLATFORMS["canvas"].columns
    yield [*columns, column]
    yield ["    Points Possible", "", "", "", "", most]
    for submission, person in found.items():
        yield [*(person.get(name, "") for name in columns), points[submission]]


def _moodle(found: Mapping[str, Row], points: Mapping[str, str], column: str, _most: str) -> Lines:
    """Moodle asks which column is what. Of a grading worksheet it wants every column back, with
    the grades filled in.
    """
    columns = list(dict.fromkeys(name for person in found.values() for name in person))
    column = "Grade" if {"Identifier", "Grade"} <= set(columns) else column
    if column not in columns:
        columns.append(column)
    yield columns
    for submission, person in found.items():
        row = person | {column: points[submission]}
        yield [row.get(name, "") for name in columns]


_WRITERS: Mapping[str, Callable[..., Lines]] = {"canvas": _canvas, "moodle": _moodle}
