"""How far right answers and known mistakes are from what is expected, in budgets.

What is measured is what is judged: they run through the public and the hidden checks, secret after
secret, and every comparison tells how far apart it found the two. Up to 1 budget is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from grader.course import Course
from grader.judge import bank
from grader.judge.bank import Mistake
from grader.judge.expect import Comparison, measured
from grader.judge.prove import Attempt, Bench
from grader.judge.reference import Remembered
from grader.judge.suite import Check, Suite
from grader.model import Outcome, Submission
from grader.subject.verdicts import short

Key = tuple[str, str]  # an exercise, and the dtype of what was found
K = TypeVar("K")


class Sight(NamedTuple):
    """One comparison of somebody's; the further off in budgets, the greater."""

    share: float  # distance / budget
    distance: float
    budget: float
    who: str
    secret: int


@dataclass
class Evidence:
    """What some secrets have shown.

    Attributes:
        right: the furthest right answer.
        seen: where each mistake shows most, of all comparisons that it fails.
        caught: how much each mistake shows at its own clause, with the secret where that is least;
            0 where it is not caught.
        false_failures: of right answers, in sentences.
    """

    right: dict[Key, Sight] = field(default_factory=dict)
    seen: dict[tuple[Key, str], Sight] = field(default_factory=dict)
    caught: dict[str, Sight] = field(default_factory=dict)
    false_failures: list[str] = field(default_factory=list)

    def add(self, other: Evidence) -> None:
        _keep(max, self.right, other.right.items())
        _keep(max, self.seen, other.seen.items())
        _keep(min, self.caught, other.caught.items())
        self.false_failures += other.false_failures

    def nearest(self) -> dict[Key, Sight]:
        """For each exercise and dtype the mistake that shows least, of those that show most there:
        what is plain in float64 need not be in float16.
        """
        most: dict[str, Sight] = {}
        _keep(max, most, ((mistake, sight) for (_, mistake), sight in self.seen.items()))
        found: dict[Key, Sight] = {}
        plain = (s for s in self.seen.items() if s[1] == most[s[0][1]])
        _keep(min, found, ((key, sight) for (key, _), sight in plain))
        return found


class Calibration:
    """Runs right answers and mistakes through the checks of some exercises.

    Args:
        course: the table.
        suite: the collected checks.
        chosen: the exercises.
        device: where submissions run.
    """

    def __init__(self, course: Course, suite: Suite, chosen: Sequence[str], device: str = "cpu"):
        self.bench = Bench(course, suite, device)
        self.checks = self.bench.checks(chosen)
        self.mistakes = [m for m in bank.mistakes(course) if m.exercise in chosen]
        self._variants: dict[str, list[Submission]] = {}
        for variant in bank.variants(course):
            self._variants.setdefault(variant.id.split("/")[0], []).append(variant)

    def mixture(self, number: int) -> Submission:
        """A right submission that is unusual in every unit: variants, taken in turn."""
        taken = {unit: all[number % len(all)] for unit, all in self._variants.items()}
        modules = {unit: variant.modules[unit] for unit, variant in taken.items()}
        id = " ".join(variant.id for variant in taken.values())
        return Submission(id, {**self.bench.solution.modules, **modules})

    def measure(self, secret: int, with_mistakes: bool) -> Evidence:
        """What one secret shows."""
        self.bench.suite.secret = f"calibrate {secret}"
        found = Evidence()
        for submission in (self.bench.solution, self.mixture(secret)):
            self._right(submission, secret, found)
        for mistake in self.mistakes if with_mistakes else ():
            self._mistaken(mistake, secret, found)
        self.bench.answers = Remembered(self.bench.live)  # another secret, other questions
        return found

    def _right(self, submission: Submission, secret: int, found: Evidence) -> None:
        for attempt, comparisons in self._attempts(submission, self.checks):
            who = _part(submission.id, attempt.check)
            _keep(max, found.right, _sights(attempt.check, comparisons, who, secret))
            if attempt.outcome is not Outcome.PASSED:
                found.false_failures.append(_told(attempt, comparisons, who, secret))

    def _mistaken(self, mistake: Mistake, secret: int, found: Evidence) -> None:
        most = Sight(0.0, 0.0, 0.0, mistake.id, secret)
        checks = self.bench.checks([mistake.exercise])
        for attempt, comparisons in self._attempts(self.bench.mistaken(mistake), checks):
            if attempt.outcome is Outcome.PASSED:
                continue
            failed = [comparison for comparison in comparisons if comparison.share > 1]
            sights = _sights(attempt.check, failed, mistake.id, secret)
            _keep(max, found.seen, (((key, mistake.id), sight) for key, sight in sights))
            if attempt.check.clause == mistake.clause:
                # An exception, a wrong shape or a NaN shows as much as anything can.
                plain = most._replace(share=math.inf)
                most = max(most, *(sight for _, sight in sights)) if sights else plain
        found.caught[mistake.id] = most

    def _attempts(
        self, submission: Submission, checks: Sequence[Check]
    ) -> Iterator[tuple[Attempt, list[Comparison]]]:
        with measured() as comparisons:
            for attempt in self.bench.attempts(submission, checks):
                yield attempt, list(comparisons)
                comparisons.clear()


def _keep(
    which: Callable[[Sight, Sight], Sight],
    kept: dict[K, Sight],
    more: Iterable[tuple[K, Sight]],
) -> None:
    """Of two sights of the same, keep the one that ``which`` takes."""
    for key, sight in more:
        kept[key] = which(kept[key], sight) if key in kept else sight


def _sights(
    check: Check, comparisons: Sequence[Comparison], who: str, secret: int
) -> list[tuple[Key, Sight]]:
    return [
        ((check.exercise, short(c.dtype)), Sight(c.share, c.distance, c.budget, who, secret))
        for c in comparisons
    ]


def _part(submission: str, check: Check) -> str:
    """The part of a mixture that a check is about."""
    unit = check.exercise.split(".")[0]
    return next((part for part in submission.split() if part.startswith(f"{unit}/")), submission)


def _told(attempt: Attempt, comparisons: Sequence[Comparison], who: str, secret: int) -> str:
    """A false failure, and how to see it again."""
    what = str(attempt.error)
    if comparisons and comparisons[-1].share > 1:
        what = f"{comparisons[-1].distance:.2g} off, with a budget of {comparisons[-1].budget:.2g}"
    return (
        f"{who} fails {attempt.check.id} with secret {secret}: {what}; again: grader calibrate"
        f" {attempt.check.exercise} --first {secret} --secrets 1 --mistakes 0"
    )
