"""Hints and comparisons: `docs/hints/<unit>.toml`, a table for each exercise.

    [stable_softmax]                       or ["MultiHeadAttention.split_heads"]
    hints = ["what to think about", "which clause and which shape", "nearly the line"]
    compare = "what the reference does otherwise, and what for"

Students receive these files, so nothing in them may be the reference's own text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.course import ROOT, Course, CourseError, tomllib
from grader.definitions import names_of
from grader.desk import Desk
from grader.model import Message, say, what

FOLDER = ROOT / "docs" / "hints"
STEPS = 3  # what to think about; which clause and which shape; nearly the line


@dataclass(frozen=True)
class Advice:
    """What is said of one exercise.

    Attributes:
        hints: the ladder, the least telling first.
        compare: what the reference does otherwise, for who has passed.
    """

    hints: tuple[str, ...]
    compare: str


def load(course: Course, unit: str, folder: Path | None = None) -> dict[str, Advice]:
    """What is said of a unit's exercises, by id; of none where there is no file.

    Raises:
        CourseError: an entry is of no exercise, or not as it should be.
    """
    path = (folder or FOLDER) / f"{unit}.toml"
    if not path.exists():
        return {}
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        file = f"docs/hints/{path.name}"
        words = say("{file} cannot be read: {error}", file=file, error=what(error, path))
        raise CourseError(words) from None
    unknown = sorted(data.keys() - set(names_of(course, unit)))
    if unknown:
        raise CourseError(
            say(
                "{file}: {unit} has no exercise {name!r}. A name with a dot is quoted:"
                ' ["Class.method"].',
                file=f"docs/hints/{path.name}",
                unit=unit,
                name=unknown[0],
            )
        )
    return {f"{unit}.{name}": _advice(path, name, entry) for name, entry in data.items()}


def _advice(path: Path, name: str, entry: Any) -> Advice:
    found = entry if isinstance(entry, Mapping) else {}
    hints, compare = found.get("hints", ()), found.get("compare", "")
    ladder = isinstance(hints, list) and len(hints) == STEPS and all(map(_is_text, hints))
    if not ladder or not _is_text(compare) or set(found) != {"hints", "compare"}:
        raise CourseError(
            say(
                "{file}: {name} needs `hints`, a list of {count} texts, and `compare`, a text, and"
                " nothing else; it has {keys}",
                file=f"docs/hints/{path.name}",
                name=name,
                count=STEPS,
                keys=", ".join(found) or say("nothing"),
            )
        )
    return Advice(tuple(" ".join(hint.split()) for hint in hints), " ".join(compare.split()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def holes(course: Course, folder: Path | None = None) -> list[str]:
    """The exercises of which nothing is said; none as long as there is no file at all."""
    if not any((folder or FOLDER).glob("*.toml")):
        return []
    told = {id for unit in course.units for id in load(course, unit.name, folder)}
    return [id for id in course.exercises if id not in told]


@dataclass(frozen=True)
class Ladder:
    """The hints of an exercise up to where a student stands."""

    given: tuple[str, ...]
    kept: bool  # whether it is remembered where that is

    @property
    def is_last(self) -> bool:
        return len(self.given) == STEPS


def climb(desk: Desk, id: str, steps: int = 1) -> Ladder | None:
    """One step up, and remember it; None where the exercise has no hints.

    Args:
        desk: the student's.
        id: the exercise.
        steps: 0 to stay where one is.
    """
    advice = load(desk.course, desk.course.exercises[id].unit).get(id)
    if advice is None:
        return None
    before = min(desk.state.hints.get(id, 0), STEPS)
    count = max(1, min(before + steps, STEPS))
    desk.state.hints[id] = count
    kept = count == before or desk.state.write(desk.path)
    return Ladder(advice.hints[:count], kept)


def told(ladder: Ladder | None, id: str) -> Iterator[Message]:
    """What a student reads."""
    if ladder is None:
        yield say("There are no hints for {exercise} yet.", exercise=id)
        return
    for number, hint in enumerate(ladder.given, 1):
        yield say("{number} of {all}: {hint}", number=number, all=STEPS, hint=say(hint))
    if not ladder.kept:
        yield say("(Where you are cannot be remembered, since the folder cannot be written.)")
