"""`adjustments.csv`: what an instructor decides after grading, merged in without grading again.

    submission,kind,target,value,reason
    ada,override,attention.self_attention,4,"shown in the exam"
    bob,late,,0.9,"one day"
    *,void,attention.stable_softmax/3/test_softmax_of_large_scores,,"the text was unclear"

override: the points of an exercise, or of the whole with no target. late: a factor on the whole.
void: a check counts as passed, for those who tried it. A submission of ``*`` means everyone.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from grader import table
from grader.course import Course, CourseError
from grader.model import CheckResult, Message, Outcome, say, what
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


def read(
    path: Path, course: Course, chosen: Collection[str], submissions: Collection[str]
) -> list[Adjustment]:
    """Read the file; one that is not there adjusts nothing.

    Args:
        path: of the file.
        course: the table.
        chosen: the exercises that count.
        submissions: the ids that there are.

    Raises:
        AdjustmentError: a line says something that cannot be done.
    """
    if not path.exists():
        return []
    try:
        rows = table.reader(path)
    except OSError as error:
        words = say("{file} cannot be read: {error}", file=str(path), error=what(error, path))
        raise AdjustmentError(words) from None
    if rows.fieldnames is None or set(_COLUMNS) - set(rows.fieldnames):
        words = say(
            "its first line must be {columns}, with commas between", columns=",".join(_COLUMNS)
        )
        raise AdjustmentError(say("{file}: {what}", file=str(path), what=words))
    return [_adjustment(path, rows.line_num, row, course, chosen, submissions) for row in rows]


def hold(adjustments: Iterable[Adjustment], path: Path, checks: Set[str]) -> None:
    """See that what is declared void exists.

    Args:
        adjustments: of the file.
        path: of the file.
        checks: the ids of those that were graded.

    Raises:
        AdjustmentError: a check has another name.
    """
    for a in adjustments:
        if a.kind == "void" and a.target not in checks:
            near = difflib.get_close_matches(a.target, checks, n=1)
            words = say("there is no check {name!r}; each result.json lists them", name=a.target)
            if near:
                words = say(
                    "there is no check {name!r}; did you mean {near!r}?",
                    name=a.target,
                    near=near[0],
                )
            raise AdjustmentError(say("{file}: {what}", file=str(path), what=words))


def _adjustment(
    path: Path,
    line: int,
    row: dict[str, str],
    course: Course,
    chosen: Collection[str],
    submissions: Collection[str],
) -> Adjustment:
    who, kind, target = (row[name].strip() for name in ("submission", "kind", "target"))
    exercise = target.split("/")[0]

    def wrong(words: Message) -> AdjustmentError:
        place = say("{file}, line {line}", file=str(path), line=line)
        return AdjustmentError(say("{place}: {what}", place=place, what=words))

    if kind not in ("override", "late", "void"):
        raise wrong(say("kind {kind!r} is not override, late or void", kind=kind))
    if who != "*" and who not in submissions:
        raise wrong(say("there is no submission {name!r}", name=who))
    if (target or kind == "void") and exercise not in course.exercises:
        raise wrong(say("there is no exercise {name!r}", name=exercise))
    if target and exercise not in chosen:
        raise wrong(say("{name} does not count in this run: leave the line out", name=exercise))
    if kind == "late" and target:
        raise wrong(say("lateness is a factor on the whole: leave the target out"))
    try:
        value = float(row["value"] or 0) if kind == "void" else float(row["value"])
    except ValueError:
        raise wrong(say("value {value!r} is not a number", value=row["value"])) from None
    most = 1.0 if kind == "late" else math.inf
    if kind == "override":
        exercises = [exercise] if target else chosen
        most = sum(course.exercises[id].max_score for id in exercises)
    if not 0 <= value <= most:
        raise wrong(
            say("value {value!r} is not between 0 and {most}", value=row["value"], most=f"{most:g}")
        )
    return Adjustment(who, kind, target, value, row["reason"].strip())


def void(
    results: Iterable[CheckResult], submission: str, adjustments: Sequence[Adjustment]
) -> list[CheckResult]:
    """The results in which checks that are declared void count as passed. What was not attempted
    stays so: it would seem begun, and earn points where a clause has one check.
    """
    void_ids = {a.target for a in adjustments if a.kind == "void" and a.concerns(submission)}
    return [
        replace(
            r,
            outcome=Outcome.PASSED,
            message=(say("Declared void: it counts as passed."),),
            picture=None,
        )
        if r.id in void_ids and r.outcome is not Outcome.NOT_ATTEMPTED
        else r
        for r in results
    ]


def adjust(
    score: Score, submission: str, adjustments: Sequence[Adjustment]
) -> tuple[Score, list[Message]]:
    """The score after overrides and lateness, and a note for each."""
    voided = [a for a in adjustments if a.kind == "void" and a.concerns(submission)]
    notes = [
        say("{what} was declared void ({reason}).", what=a.target, reason=a.reason) for a in voided
    ]
    mine = [a for a in adjustments if a.kind != "void" and a.concerns(submission)]
    for a in sorted(mine, key=lambda a: (a.kind == "late", not a.target)):
        if a.kind == "late":
            score = replace(score, total=round(score.score * a.value, 6))
            notes.append(
                say("Late ({reason}): times {value}.", reason=a.reason, value=f"{a.value:g}")
            )
        else:
            score = _override(score, a)
            words = {
                "what": a.target or say("the whole"),
                "value": f"{a.value:g}",
                "reason": a.reason,
            }
            notes.append(say("{what} was set to {value} by hand ({reason}).", **words))
    return score, notes


def _override(score: Score, adjustment: Adjustment) -> Score:
    if not adjustment.target:
        return replace(score, total=adjustment.value)

    def set_points(exercise: ExerciseScore) -> ExerciseScore:
        mine = exercise.exercise.id == adjustment.target
        return replace(exercise, override=adjustment.value) if mine else exercise

    return replace(score, exercises=tuple(set_points(e) for e in score.exercises))
