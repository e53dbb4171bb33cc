"""From check results to points. Touches no tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from grader.course import Course, Exercise
from grader.model import CheckResult, Outcome, say
from grader.naming import named


@dataclass(frozen=True)
class ExerciseScore:
    """What one exercise earned: the points of each clause whose checks all passed."""

    exercise: Exercise
    checks: tuple[CheckResult, ...]
    followed_through: bool = False  # judged on a sound version of what it stands on
    override: float | None = None  # points set by hand

    @property
    def clauses(self) -> list[float]:
        """The points of each clause, in order.

        Of a repair, clause 1 says that the fault is gone, and the others that nothing else has
        gone with it: while the fault is there, they earn nothing, since they held from the start.
        """
        checked = {check.clause for check in self.checks}
        earned = set() if self.at_fault else checked - self._lost
        return [
            points if number in earned else 0.0
            for number, points in enumerate(self.exercise.points, 1)
        ]

    @property
    def at_fault(self) -> bool:
        """A repair whose fault is still there."""
        return bool(self.exercise.stub) and 1 in self._lost

    @property
    def _lost(self) -> set[int]:
        return {check.clause for check in self.checks if check.outcome is not Outcome.PASSED}

    @property
    def score(self) -> float:
        return float(sum(self.clauses)) if self.override is None else self.override

    @property
    def max_score(self) -> float:
        return float(self.exercise.max_score)

    @property
    def passed(self) -> bool:
        return self.score == self.max_score

    @property
    def untouched(self) -> Outcome | None:
        """`NOT_ATTEMPTED` or `BLOCKED` where no check got further than that."""
        outcomes = {check.outcome for check in self.checks}
        if outcomes and outcomes <= {Outcome.NOT_ATTEMPTED, Outcome.BLOCKED}:
            return Outcome.BLOCKED if Outcome.BLOCKED in outcomes else Outcome.NOT_ATTEMPTED
        return None


@dataclass(frozen=True)
class Score:
    """What a submission earned."""

    exercises: tuple[ExerciseScore, ...]
    total: float | None = None  # points of the whole, where an adjustment has set them

    @property
    def score(self) -> float:
        points = sum(exercise.score for exercise in self.exercises)
        return float(points) if self.total is None else self.total

    @property
    def max_score(self) -> float:
        return float(sum(exercise.max_score for exercise in self.exercises))

    @property
    def graded(self) -> bool:
        """False where the grader itself failed somewhere: that is never a zero."""
        return all(
            check.outcome is not Outcome.GRADER_ERROR
            for exercise in self.exercises
            for check in exercise.checks
        )

    @property
    def passed(self) -> bool:
        return self.graded and all(exercise.passed for exercise in self.exercises)


def score(
    course: Course,
    ids: Iterable[str],
    results: Iterable[CheckResult],
    followed: Sequence[str] = (),
) -> Score:
    """Points for these exercises.

    Args:
        course: the table.
        ids: the exercises that were asked for.
        results: of those and of what they stand on.
        followed: the exercises whose results are those on sound versions of what they stand on.
    """
    by_exercise: dict[str, list[CheckResult]] = {id: [] for id in course.exercises}
    for result in results:
        by_exercise[result.exercise].append(result)
    scores: dict[str, ExerciseScore] = {}
    for id, exercise in course.exercises.items():  # what an exercise needs stands before it
        checks = sorted(by_exercise[id], key=lambda check: check.clause)
        open_needs = [
            need for need in exercise.needs if scores[need].checks and not scores[need].passed
        ]
        through = id in followed
        if through or not open_needs:
            checks = named(checks)
        else:  # what they found may be the doing of what they stand on
            theirs = [other for need in open_needs for other in scores[need].checks]
            checks = [
                check if _same_cause(check, theirs) else _blocked(check, open_needs)
                for check in checks
            ]
        scores[id] = ExerciseScore(exercise, tuple(checks), through)
    return Score(tuple(scores[id] for id in ids))


def _same_cause(check: CheckResult, others: Iterable[CheckResult]) -> bool:
    """Fails for the very reason of the others, such as a file that cannot be read."""
    whole_file = check.outcome in (Outcome.RAISED, Outcome.NOT_ATTEMPTED) and check.message
    cause = check.message, check.frames
    return bool(whole_file) and any((o.message, o.frames) == cause for o in others)


def _blocked(check: CheckResult, open_needs: Sequence[str]) -> CheckResult:
    """A check that failed on something that is itself unfinished says so first of all."""
    own_fault = (Outcome.PASSED, Outcome.GRADER_ERROR)
    if not open_needs or check.outcome in own_fault:
        return check
    words = say("It stands on {exercise}: finish that first.", exercise=open_needs[0])
    message = (words, *check.message)
    return replace(check, outcome=Outcome.BLOCKED, message=message, mistake=None, picture=None)
