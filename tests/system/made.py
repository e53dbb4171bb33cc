"""Results made by hand, for tests of what is done with results."""

from __future__ import annotations

from typing import Any

from grader.model import CheckResult, Outcome, Submission, say
from grader.report import record
from grader.report.language import Language
from grader.score import ExerciseScore, Score

ENGLISH = Language("en")
SOFTMAX = "attention.stable_softmax"
OTHER = "masks.create_look_ahead_mask"


def check(exercise: str, clause: int, outcome=Outcome.PASSED, name="a", **more: Any) -> CheckResult:
    """A result of a check."""
    title = more.pop("title", f"Clause {clause} holds.")
    return CheckResult(f"{exercise}/{clause}/test_{name}", exercise, clause, title, outcome, **more)


def wrong(clause=1, outcome=Outcome.WRONG_VALUE, **more: Any) -> CheckResult:
    """A check of `SOFTMAX` that failed."""
    words = more.pop("message", (say("expected 1; found 2"),))
    return check(SOFTMAX, clause, outcome, message=words, **more)


def result(course, name="ada", outcomes=None, notes=(), **of_exercise: Any) -> dict[str, Any]:
    """A `result.json` of two exercises: `SOFTMAX` with these outcomes by clause, `OTHER` passed."""
    scores = []
    for id in (SOFTMAX, OTHER):
        exercise = course.exercises[id]
        checks = []
        for clause in range(1, len(exercise.points) + 1):
            made = (outcomes or {}).get(clause) if id == SOFTMAX else None
            checks.append(made or check(id, clause))
        more = of_exercise if id == SOFTMAX else {}
        scores.append(ExerciseScore(exercise, tuple(checks), **more))
    submission = Submission(name, {})
    return record.result(
        Score(tuple(scores)), submission, "hidden", ENGLISH, ["walls"], notes=notes
    )


def unreadable(name="x") -> dict[str, Any]:
    """The `result.json` of what could not be read."""
    return {"schema": 1, "submission": name, "status": "unreadable", "notes": ["x.zip is no zip"]}
