"""What is different between two runs of `grade`: who moved, by how much, and why.

Only what the results record is compared: scores, statuses, clauses, outcomes. Where something is
different, the causes that the results know of are named: the code, the course or its suite, the
adjustments, the versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from grader.course import CourseError
from grader.intake import printable
from grader.model import Message, say
from grader.report import record
from grader.report.gradebook import RESULT
from grader.report.language import Language

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """A clause or a check that came out differently; None where it was not there."""

    what: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Move:
    """A submission of which something is different.

    Attributes:
        submission: which.
        old, new: points, or the status where there are none, or None where it was not there.
        why: the causes that the results know of; see `WHY`.
        clauses, checks: which are different.
        notes: what was noted before (old) or is noted now (new), such as adjustments.
    """

    submission: str
    old: float | str | None
    new: float | str | None
    why: list[str] = field(default_factory=list)
    clauses: list[Change] = field(default_factory=list)
    checks: list[Change] = field(default_factory=list)
    notes: list[Change] = field(default_factory=list)

    @property
    def by(self) -> float | None:
        """Points more, where there were points and are."""
        if isinstance(self.old, float) and isinstance(self.new, float):
            return self.new - self.old
        return None


WHY: dict[str, Message] = {
    "code": say("its code is different"),
    "course": say("the course's table is different"),
    "suite": say("the suite or the reference is different"),
    "adjustments": say("its notes are different (adjustments, what was odd)"),
    "versions": say("another grader, Python, torch, device or protection"),
    "unknown": say("nothing that the results record: another course secret, or chance"),
}


@dataclass(frozen=True)
class Difference:
    """Between two folders of results."""

    moves: list[Move]
    count: int  # submissions in both

    def to_json(self) -> dict[str, Any]:
        return {"same": not self.moves, "in_both": self.count, **asdict(self)}


def compare(old: Path, new: Path) -> Difference:
    """Compare two folders that `grade` has filled.

    Raises:
        CourseError: one of them holds no results, or some that cannot be read.
    """
    names = [_names(folder) for folder in (old, new)]
    moves = [
        move
        for name in sorted(names[0] | names[1])
        if (move := _move(name, _read(old, name), _read(new, name)))
    ]
    return Difference(moves, len(names[0] & names[1]))


def _names(folder: Path) -> set[str]:
    names = {path.parent.name for path in folder.glob(f"*/{RESULT}")}
    if not names:
        raise CourseError(
            say("{folder} holds no results: name a folder that `grade` has filled.",
                folder=str(folder))
        )  # fmt: skip
    return names


def _read(folder: Path, name: str) -> Json | None:
    path = folder / name / RESULT
    return record.read(path) if path.exists() else None


def _points(result: Json | None) -> float | str | None:
    if result is None:
        return None
    return float(result["score"]) if result["status"] == "graded" else str(result["status"])


def _move(name: str, old: Json | None, new: Json | None) -> Move | None:
    points = _points(old), _points(new)
    if old is None or new is None:
        return Move(name, *points)
    clauses = list(_changes(dict(_clauses(old)), dict(_clauses(new))))
    checks = list(_changes(dict(_outcomes(old)), dict(_outcomes(new))))
    if points[0] == points[1] and not clauses and not checks:
        return None
    notes = [Change(note, note, None) for note in old["notes"] if note not in new["notes"]]
    notes += [Change(note, None, note) for note in new["notes"] if note not in old["notes"]]
    return Move(name, *points, list(_why(old, new, bool(notes))), clauses, checks, notes)


def _why(old: Json, new: Json, noted: bool) -> Iterator[str]:
    made = old.get("made_by", {}), new.get("made_by", {})
    found = {
        "code": old.get("digest") != new.get("digest"),
        "course": old.get("course") != new.get("course"),
        "suite": made[0].get("suite") != made[1].get("suite"),
        "adjustments": noted,
        "versions": any(made[0].get(k) != made[1].get(k) for k in {*made[0], *made[1]} - {"suite"}),
    }
    yield from [name for name, is_so in found.items() if is_so] or ["unknown"]


def _clauses(result: Json) -> Iterator[tuple[str, float]]:
    for exercise in result.get("exercises", ()):
        for clause in exercise["clauses"]:
            yield f"{exercise['id']}/{clause['clause']}", clause["points"]


def _outcomes(result: Json) -> Iterator[tuple[str, str]]:
    for exercise in result.get("exercises", ()):
        for check in exercise["checks"]:
            yield check["id"], check["outcome"]


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for what in {**old, **new}:
        if old.get(what) != new.get(what):
            yield Change(what, old.get(what), new.get(what))


def tell(difference: Difference, language: Language, most: int | None) -> Iterator[str]:
    """The difference in words, line by line.

    Args:
        difference: to tell.
        language: in which.
        most: how many checks of a submission are named; None for all.
    """
    for move in difference.moves:
        by = f" ({move.by:+g})" if move.by else ""
        yield f"{printable(move.submission)}: {_arrow(move, language)}{by}"
        for reason in move.why:
            yield f"    {language.render(WHY[reason])}"
        for clause in move.clauses:
            yield f"  {clause.what}: {_arrow(clause, language)}"
        checks = move.checks[:most]
        for check in checks:
            yield f"    {printable(check.what)}: {_arrow(check, language)}"
        if len(checks) < len(move.checks):
            left = len(move.checks) - len(checks)
            words = language("and {count} more checks (--all names them)", count=left)
            yield f"    {words}"
        for note in move.notes:
            sign, text = ("-", note.old) if note.new is None else ("+", note.new)
            yield f"  {sign} {printable(text)}"
    yield language(
        "{moved} submissions are different, of {count} that are in both",
        moved=len(difference.moves),
        count=difference.count,
    )


def _arrow(change: Move | Change, language: Language) -> str:
    return " -> ".join(_side(value, language) for value in (change.old, change.new))


def _side(value: Any, language: Language) -> str:
    if value is None:
        return language("not there")
    return f"{value:g}" if isinstance(value, float) else str(value)
