"""What the course remembers of a student: `.course-state.json`, in the folder with the modules.

How each exercise stood when it was last checked, and how many of its hints were given. It is a
convenience: where it is lost, spoiled or cannot be written, nothing but memory is missing.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from grader import definitions
from grader.course import Course
from grader.files import write_whole
from grader.model import Outcome
from grader.score import ExerciseScore

NAME = ".course-state.json"
_SCHEMA = 1

PASSED, OPEN = "passed", "open"  # or the outcome of what nobody has begun: see `Outcome`


@dataclass(frozen=True)
class Kept:
    """How one exercise stood.

    Attributes:
        digest: of what the verdict rests on; see `definitions.digest`.
        score: its points.
        standing: "passed", "open", "not_attempted" or "blocked".
        when: seconds since 1970.
    """

    digest: str
    score: float
    standing: str
    when: float

    @property
    def passed(self) -> bool:
        return self.standing == PASSED


@dataclass
class State:
    """What is remembered of one folder."""

    results: dict[str, Kept] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)  # exercise -> how many were given

    def fresh(self, course: Course, id: str, texts: Mapping[str, str]) -> Kept | None:
        """How the exercise stands, if nothing has changed since it was checked."""
        kept = self.results.get(id)
        now = kept and definitions.digest(course, id, texts)
        return kept if kept and kept.digest == now else None

    def note(
        self, course: Course, texts: Mapping[str, str], scores: Iterable[ExerciseScore]
    ) -> None:
        """Take in how these exercises stand."""
        now = time.time()
        for score in scores:
            if any(check.outcome is Outcome.GRADER_ERROR for check in score.checks):
                continue
            id = score.exercise.id
            untouched = score.untouched
            standing = PASSED if score.passed else untouched.value if untouched else OPEN
            digest = definitions.digest(course, id, texts)
            self.results[id] = Kept(digest, score.score, standing, now)

    def write(self, folder: Path) -> bool:
        """Write it, with what others have written meanwhile; False where that cannot be."""
        other = read(folder)
        for id, kept in other.results.items():
            if id not in self.results or kept.when > self.results[id].when:
                self.results[id] = kept
        for id, count in other.hints.items():
            self.hints[id] = max(count, self.hints.get(id, 0))
        return _replace(
            folder / NAME,
            {
                "schema": _SCHEMA,
                "results": {id: asdict(kept) for id, kept in sorted(self.results.items())},
                "hints": dict(sorted(self.hints.items())),
            },
        )


def read(folder: Path) -> State:
    """What is remembered; nothing, where that cannot be read."""
    try:
        data = json.loads((folder / NAME).read_text(encoding="utf-8"))
        if data["schema"] != _SCHEMA:
            return State()
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return State()
    results, hints = data.get("results"), data.get("hints")
    return State(
        {id: kept for id, entry in _items(results) if (kept := _kept(entry)) is not None},
        {id: count for id, count in _items(hints) if type(count) is int and count > 0},
    )


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else ()


def _kept(entry: Any) -> Kept | None:
    with contextlib.suppress(TypeError, ValueError, LookupError, OverflowError):
        return Kept(
            str(entry["digest"]),
            float(entry["score"]),
            str(entry["standing"]),
            float(entry["when"]),
        )
    return None


def _replace(path: Path, data: dict[str, Any]) -> bool:
    """Whether it could be written."""
    try:
        write_whole(path, json.dumps(data, indent=1).encode())
    except OSError:
        return False
    return True
