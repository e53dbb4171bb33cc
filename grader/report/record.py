"""`result.json`: a score as plain data. Its schema is a contract."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from grader import __version__
from grader.course import ROOT, CourseError
from grader.model import CheckResult, Message, Submission, say, what
from grader.report.language import Language
from grader.score import ExerciseScore, Score


def result(
    score: Score,
    submission: Submission,
    suite: str,
    language: Language,
    protections: Sequence[str] = (),
    device: str = "cpu",
    notes: Sequence[Message] = (),
) -> dict[str, Any]:
    """The result of one submission, ready for JSON."""
    return {
        "schema": 1,
        "submission": submission.id,
        "digest": digest(submission),
        "suite": suite,
        "course": course_digest(),
        "made_by": {
            "grader": __version__,
            "python": platform.python_version(),
            "torch": importlib.metadata.version("torch"),
            "device": device,
            "protections": list(protections),
            "suite": suite_digest(suite),
        },
        "status": "graded" if score.graded else "ungraded",
        "score": score.score,
        "max_score": score.max_score,
        "exercises": [_exercise(exercise, language) for exercise in score.exercises],
        "notes": [language.render(note) for note in (*submission.notes, *notes)],
    }


def read(path: Path) -> dict[str, Any]:
    """A result that `grade` has written.

    Raises:
        CourseError: it cannot be read, or something else stands there.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        words = say(
            "{file} cannot be read: {error}. Run `grade` again.",
            file=str(path),
            error=what(error, path),
        )
        raise CourseError(words) from None
    if not isinstance(data, dict) or data.get("schema") != 1:
        raise CourseError(say("{file} is no result of this grader (schema 1).", file=str(path)))
    if not _is_whole(data):
        raise CourseError(say("{file} is damaged. Run `grade` again.", file=str(path)))
    return data


def _is_whole(data: Mapping[str, Any]) -> bool:
    """Whether all stands there that reports look at."""
    judged = data.get("status") in ("graded", "ungraded")
    if not _holds(data, {"submission": str, "status": str, "notes": list}):
        return False
    if not judged:
        return bool(data["status"] == "unreadable")
    return _holds(data, _WHOLE) and all(
        _holds(one, _EXERCISE)
        and all(_holds(clause, _CLAUSE) for clause in one["clauses"])
        and all(_holds(check, _CHECK) for check in one["checks"])
        for one in data["exercises"]
    )


_POINTS = (int, float)
_WHOLE = {"score": _POINTS, "max_score": _POINTS, "exercises": list, "made_by": dict}
_EXERCISE = {"id": str, "score": _POINTS, "max_score": _POINTS, "clauses": list, "checks": list}
_CLAUSE = {"clause": int, "points": _POINTS, "max_points": _POINTS}
_CHECK = {"id": str, "title": str, "outcome": str, "message": str, "frames": list}


def _holds(data: Any, kinds: Mapping[str, Any]) -> bool:
    return isinstance(data, dict) and all(isinstance(data.get(k), v) for k, v in kinds.items())


def digest(submission: Submission) -> str:
    """Of all that a report can depend on: names and texts."""
    whole = hashlib.sha256()
    for _, module in sorted(submission.modules.items()):
        name = PurePath(module.path).name  # reports name it
        whole.update(f"{name}\n{module.text}\n".encode("utf-8", "replace"))
    whole.update("\n".join(submission.strays).encode("utf-8", "replace"))
    return whole.hexdigest()[:16]


def course_digest() -> str:
    """Of the table."""
    return hashlib.sha256((Path(ROOT) / "course.toml").read_bytes()).hexdigest()[:16]


@functools.cache
def suite_digest(suite: str) -> str:
    """Of the checks, the reference and the known mistakes, as far as they are there."""
    whole = hashlib.sha256()
    folders = ["tests/public"] if suite == "public" else ["tests/public", "tests/hidden"]
    for folder in (*folders, "solutions", "solutions/mistakes"):
        for path in sorted(Path(ROOT, folder).glob("*.*")):
            if path.suffix in (".py", ".toml"):
                whole.update(f"{folder}/{path.name}\n".encode())
                whole.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return whole.hexdigest()[:16]


def _exercise(score: ExerciseScore, language: Language) -> dict[str, Any]:
    return {
        "id": score.exercise.id,
        "score": score.score,
        "max_score": score.max_score,
        "followed_through": score.followed_through,
        "clauses": [
            {"clause": number, "points": points, "max_points": float(most)}
            for number, (points, most) in enumerate(zip(score.clauses, score.exercise.points), 1)
        ],
        "checks": [_check(check, language) for check in score.checks],
    }


def _check(check: CheckResult, language: Language) -> dict[str, Any]:
    return {
        "id": check.id,
        "clause": check.clause,
        "title": language(check.title),
        "outcome": check.outcome.value,
        "message": "\n".join(language.render(line) for line in check.message),
        "frames": [language.frame(frame) for frame in check.frames],
        "mistake": check.mistake,
        "picture": check.picture,
    }
