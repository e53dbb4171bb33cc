"""What students may read of their grades: all that public checks say; of hidden ones, which clause.

What a hidden check asks for, and what it found, would tell the next class, so a failure is told as
what it is: the clause says more than the public checks met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from grader.course import Course
from grader.model import CheckResult, Message, Outcome, say
from grader.report.gradescope import public_checks
from grader.score import ExerciseScore

_TITLE = say("What only grading checks")
_HIDDEN = say("A check fails that only grading has: the clause says more than you met.")

# How a process ends says nothing of what it was asked, and much to whoever wrote the loop.
_ENDINGS = {Outcome.TIMEOUT.value, Outcome.CRASHED.value, Outcome.OUT_OF_MEMORY.value}


def exercise(course: Course, result: Mapping[str, Any]) -> ExerciseScore:
    """An exercise of a `result.json`, as its student may see it."""
    return ExerciseScore(
        course.exercises[result["id"]],
        tuple(_checks(result, public_checks())),
        result["followed_through"],
        override=result["score"],
    )


def _checks(result: Mapping[str, Any], public: set[tuple[str, str]]) -> Iterator[CheckResult]:
    told: set[int] = set()  # the clauses whose loss a public check tells
    lost: dict[int, Mapping[str, Any]] = {}
    for check in result["checks"]:
        name = check["id"].split("/", 2)[2].split("[")[0]
        passed = check["outcome"] == Outcome.PASSED.value
        if (result["id"].split(".")[0], name) in public:
            yield _check(result["id"], check, check)
            told |= set() if passed else {check["clause"]}
        elif check["outcome"] in _ENDINGS:
            yield _check(
                result["id"], check, {"message": check["message"], "frames": check["frames"]}
            )
        elif not passed:
            lost.setdefault(check["clause"], check)
    for clause, check in lost.items():
        if clause not in told:
            yield _check(result["id"], check, {"message": _HIDDEN.text})


def _check(id: str, check: Mapping[str, Any], shown: Mapping[str, Any]) -> CheckResult:
    """A check, and what is shown of it."""
    return CheckResult(
        check["id"],
        id,
        check["clause"],
        shown.get("title", _TITLE.text),
        Outcome(check["outcome"]),
        tuple(map(Message, filter(None, [shown.get("message")]))),
        tuple(shown.get("frames", ())),
        mistake=shown.get("mistake"),
        picture=shown.get("picture"),
    )
