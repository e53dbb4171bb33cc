"""`result.json`: a score as plain data. Its schema is a contract."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from grader import __version__
from grader.course import ROOT
from grader.model import CheckResult, Message, Submission
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
