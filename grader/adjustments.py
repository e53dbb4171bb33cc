"""`adjustments.csv`: what an instructor decides after grading, merged in without grading again.

    submission,kind,target,value,reason
    ada,override,attention.self_attention,4,"shown in the exam"
    bob,late,,0.9,"one day"
    *,void,attention.stable_softmax/3/test_softmax_of_large_scores,,"the text was unclear"

override: the points of an exercise, or of the whole with no target. late: a factor on the whole.
void: a check counts as passed. A submission of ``*`` means everyone.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.course import Course, CourseError
from grader.model import CheckResult, Message, Outcome, say
from grader.score import ExerciseScore, Score

_COLUMNS = ["submission", "kind", "target", "value", "reason"]


class AdjustmentError(CourseError):
    """The file cannot be taken as it is; the text names the line and what to do."""


@dataclass(frozen=True)
class Adjustment:
    """One line of the file."""

    submission: str
    kind: str
    target: str
    value: float
    reason: str

    def concerns(self, submission: str) -> bool:
        return self.submission in (submission, "*")


def read(path: Path, course: Course) -> list[Adjustment]:
    """Read the file; one that is not there adjusts nothing.

    Raises:
        AdjustmentError: a line says something that cannot be done.
    """
    if not path.exists():
        return []
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames is None or set(_COLUMNS) - set(rows.fieldnames):
            raise AdjustmentError(f"{path}: its first line must be {','.join(_COLUMNS)}")
        return [_adjustment(path, rows.line_num, row, course) for row in rows]


def _adjustment(path: Path, line: int, row: dict[str, str], course: Course) -> Adjustment:
    kind, target = row["kind"].strip(), row["target"].strip()
    where = f"{path}, line {line}"
    if kind not in ("override", "late", "void"):
        raise AdjustmentError(f"{where}: kind {kind!r} is not override, late or void")
    exercise = target.split("/")[0]
    if (target or kind == "void") and exercise not in course.exercises:
        raise AdjustmentError(f"{where}: there is no exercise {exercise!r}")
    try:
        value = float(row["value"] or 0) if kind == "void" else float(row["value"])
    except ValueError:
        raise AdjustmentError(f"{where}: value {row['value']!r} is not a number") from None
    return Adjustment(row["submission"].strip(), kind, target, value, row["reason"].strip())


def void(
    results: Iterable[CheckResult], submission: str, adjustments: Sequence[Adjustment]
) -> list[CheckResult]:
    """The results in which checks that are declared void count as passed."""
    void_ids = {a.target for a in adjustments if a.kind == "void" and a.concerns(submission)}
    return [
        replace(r, outcome=Outcome.PASSED, message=(say("Declared void: it counts as passed."),))
        if r.id in void_ids
        else r
        for r in results
    ]


def adjust(
    score: Score, submission: str, adjustments: Sequence[Adjustment]
) -> tuple[Score, list[Message]]:
    """The score after overrides and lateness, and a note for each."""
    notes = []
    mine = [a for a in adjustments if a.kind != "void" and a.concerns(submission)]
    for a in sorted(mine, key=lambda a: (a.kind == "late", not a.target)):
        if a.kind == "late":
            score = replace(score, total=round(score.score * a.value, 6))
            notes.append(
                say("Late ({reason}): times {value}.", reason=a.reason, value=f"{a.value:g}")
            )
        else:
            score = _override(score, a)
            words = {"what": a.target or "the whole", "value": f"{a.value:g}", "reason": a.reason}
            notes.append(say("{what} was set to {value} by hand ({reason}).", **words))
    return score, notes


def _override(score: Score, adjustment: Adjustment) -> Score:
    if not adjustment.target:
        return replace(score, total=adjustment.value)

    def set_points(exercise: ExerciseScore) -> ExerciseScore:
        mine = exercise.exercise.id == adjustment.target
        return replace(exercise, override=adjustment.value) if mine else exercise

    return replace(score, exercises=tuple(set_points(e) for e in score.exercises))
